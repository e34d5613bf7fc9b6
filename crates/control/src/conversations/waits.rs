//! Commands that wait for jobs to end.
//!
//! Somebody may name 100,000 jobs, or an array of as many tasks with one word. So what is named
//! is looked up in pieces, like what lists are made of; the first at once, the others in the line
//! of lists. What ends meanwhile is told like everything else, and nobody is answered before all
//! names are looked up.
//!
//! Ends are told to those who wait for that job, and to nobody else is looked: thousands of
//! commands may wait. What a command that has gone leaves behind is taken away in pieces too.
//!
//! What always holds: a job is in the list of who waits for it once for each command, while it
//! lives; what commands of one user were told or are still to be told has a most.

use crate::controller::Controller;
use crate::conversations::listing::List;
use crate::conversations::requests::no_job;
use crate::event::{Caller, ClientId, Facts, OldJob};
use crate::jobs::arrays::Names;
use cosy_model::api::{EndedJob, JobRef, Reply};
use cosy_model::{JobId, Refusal, RefusalCode, Uid, limits};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Jobs that one piece looks at.
const PIECE: usize = 2_500;
/// Jobs of commands that have gone of which one turn takes care.
const LEFT_BEHIND: usize = 5_000;

/// A command that waits.
#[derive(Debug)]
struct Wait {
    caller: Box<Caller>,
    /// All that lived when they were looked up.
    jobs: Vec<JobId>,
    /// How many of these have not ended.
    open: usize,
    /// What it will be told.
    done: Vec<EndedJob>,
    /// While its names are looked up.
    naming: Option<Naming>,
}

/// How far the names of a command are looked up.
#[derive(Debug)]
struct Naming {
    names: Names,
    /// Ended ones that are in what it will be told.
    told: BTreeSet<JobId>,
    /// What the store knows, sorted.
    old: Vec<OldJob>,
}

/// All that wait.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    all: BTreeMap<ClientId, Wait>,
    /// Who waits for a live job.
    of_job: BTreeSet<(JobId, ClientId)>,
    /// Jobs that are kept here for commands of a user, ended or not.
    kept: BTreeMap<Uid, usize>,
    /// What those that have gone waited for.
    left_behind: VecDeque<(ClientId, Uid, Vec<JobId>)>,
}

impl Waits {
    /// Those that wait for that job.
    fn for_job(&self, id: JobId) -> Vec<ClientId> {
        let range = (id, ClientId(0))..=(id, ClientId(u64::MAX));
        self.of_job
            .range(range)
            .map(|(_, client)| *client)
            .collect()
    }

    /// How many wait for that job.
    pub fn count(&self, id: JobId) -> usize {
        let range = (id, ClientId(0))..=(id, ClientId(u64::MAX));
        self.of_job.range(range).count()
    }

    /// A command has gone.
    pub fn leave(&mut self, client: ClientId) {
        let Some(wait) = self.all.remove(&client) else {
            return;
        };
        let uid = wait.caller.user.uid;
        self.give_back(uid, wait.kept() - wait.jobs.len());
        self.left_behind.push_back((client, uid, wait.jobs));
    }

    /// Takes away some of what those that have gone waited for.
    pub fn clear(&mut self) {
        let mut left = LEFT_BEHIND;
        while left > 0
            && let Some((client, uid, mut jobs)) = self.left_behind.pop_front()
        {
            let from = jobs.len().saturating_sub(left);
            let piece = jobs.split_off(from);
            left -= piece.len().min(left);
            self.give_back(uid, piece.len());
            for id in piece {
                self.of_job.remove(&(id, client));
            }
            if !jobs.is_empty() {
                self.left_behind.push_front((client, uid, jobs));
            }
        }
    }

    /// True when something is left to be taken away.
    pub fn are_cleared(&self) -> bool {
        self.left_behind.is_empty()
    }

    fn give_back(&mut self, uid: Uid, jobs: usize) {
        if let Some(kept) = self.kept.get_mut(&uid) {
            *kept = kept.saturating_sub(jobs);
            if *kept == 0 {
                self.kept.remove(&uid);
            }
        }
    }

    /// The first thing that does not hold, in words.
    pub fn check(&self, lives: impl Fn(JobId) -> bool) -> Result<(), String> {
        let mut open: BTreeMap<ClientId, usize> = BTreeMap::new();
        let gone = |client: &ClientId| self.left_behind.iter().any(|(c, ..)| c == client);
        for (job, client) in &self.of_job {
            if !lives(*job) {
                return Err(format!("job {job} is over and {client:?} waits for it"));
            }
            if !self.all.contains_key(client) && !gone(client) {
                return Err(format!("{client:?} has gone and waits for job {job}"));
            }
            *open.entry(*client).or_default() += 1;
        }
        let mut kept: BTreeMap<Uid, usize> = BTreeMap::new();
        for (client, wait) in &self.all {
            let known = open.get(client).copied().unwrap_or(0);
            if known != wait.open {
                return Err(format!(
                    "{client:?} waits for {} jobs, and {known} know of it",
                    wait.open
                ));
            }
            *kept.entry(wait.caller.user.uid).or_default() += wait.kept();
        }
        for (_, uid, jobs) in &self.left_behind {
            *kept.entry(*uid).or_default() += jobs.len();
        }
        kept.retain(|_, kept| *kept > 0);
        if kept != self.kept {
            return Err(format!(
                "waits keep {kept:?} jobs and count {:?}",
                self.kept
            ));
        }
        Ok(())
    }
}

impl Wait {
    /// Jobs that are kept for it, ended or not: what it waits for is told later.
    fn kept(&self) -> usize {
        self.open + self.done.len()
    }
}

impl Naming {
    fn new(refs: Vec<JobRef>, mut old: Vec<OldJob>) -> Self {
        old.sort_unstable_by_key(|old| old.job);
        Self {
            names: Names::of(refs.into()),
            told: BTreeSet::new(),
            old,
        }
    }

    /// How a job ended of which only the store knows.
    fn old(&self, job: JobRef) -> Option<&OldJob> {
        let at = self.old.binary_search_by_key(&job, |old| old.job).ok()?;
        self.old.get(at)
    }
}

impl Controller {
    /// Begins to wait: the answer, `None` when it comes later.
    pub(crate) fn wait(
        &mut self,
        client: ClientId,
        caller: &Caller,
        refs: Vec<JobRef>,
        facts: Facts,
    ) -> Result<Option<Reply>, Refusal> {
        if refs.is_empty() || refs.len() > limits::IDS_IN_REQUEST {
            return Err(Refusal::invalid(
                "name between 1 and 100,000 jobs to wait for",
            ));
        }
        let wait = Wait {
            caller: Box::new(caller.clone()),
            jobs: Vec::new(),
            open: 0,
            done: Vec::new(),
            naming: Some(Naming::new(refs, facts.old_jobs)),
        };
        self.conversations.waits.all.insert(client, wait);
        match self.go_on_waiting(client) {
            Some(Reply::Refused(refusal)) => Err(refusal),
            Some(reply) => Ok(Some(reply)),
            None => Ok(None),
        }
    }

    /// A piece more; the answer when there is nothing to wait for. What is left has its turn
    /// after all other lists.
    pub(crate) fn go_on_waiting(&mut self, client: ClientId) -> Option<Reply> {
        let reply = self.name_waited(client);
        let wait = self.conversations.waits.all.get(&client);
        if wait.is_some_and(|wait| wait.naming.is_some()) {
            self.conversations.lists.push(List::Wait(client));
        }
        reply
    }

    /// Looks some more names up; the answer when there is nothing to wait for.
    fn name_waited(&mut self, client: ClientId) -> Option<Reply> {
        let mut wait = self.conversations.waits.all.remove(&client)?;
        let mut left = PIECE;
        let named = self.name_some(client, &mut wait, &mut left);
        self.turn.looked((PIECE - left) as u64);
        if wait
            .naming
            .as_ref()
            .is_some_and(|naming| naming.names.are_over())
        {
            wait.naming = None;
        }
        let over = wait.naming.is_none() && wait.open == 0;
        self.conversations.waits.all.insert(client, wait);
        match named {
            Err(refusal) => {
                self.conversations.waits.leave(client);
                Some(Reply::Refused(refusal))
            }
            Ok(()) if over => self.waited(client),
            Ok(()) => None,
        }
    }

    /// All that it waited for has ended.
    fn waited(&mut self, client: ClientId) -> Option<Reply> {
        let wait = self.conversations.waits.all.remove(&client)?;
        let uid = wait.caller.user.uid;
        self.conversations.waits.give_back(uid, wait.kept());
        Some(Reply::Ended(wait.done))
    }

    fn name_some(
        &mut self,
        client: ClientId,
        wait: &mut Wait,
        left: &mut usize,
    ) -> Result<(), Refusal> {
        let Some(mut naming) = wait.naming.take() else {
            return Ok(());
        };
        let named = self.go_on_naming_waited(client, (wait, &mut naming), left);
        wait.naming = Some(naming);
        named
    }

    fn go_on_naming_waited(
        &mut self,
        client: ClientId,
        (wait, naming): (&mut Wait, &mut Naming),
        left: &mut usize,
    ) -> Result<(), Refusal> {
        while *left > 0
            && let Some(mut expanding) = naming.names.next(left)
        {
            let (ids, over) = self.some_of(&mut expanding, *left);
            *left = left.saturating_sub(ids.len());
            for id in ids {
                expanding.known |= self.waits_for_job(client, (wait, naming), id)?;
            }
            if !over {
                naming.names.goes_on(expanding);
                return Ok(());
            }
            if expanding.known {
                continue;
            }
            let target = expanding.target;
            let old = naming.old(target).copied();
            let seen = old.filter(|old| {
                let owner = old.owner;
                owner.is_some_and(|owner| self.may_see_of(&wait.caller, owner))
            });
            let ok = seen.and_then(|old| old.ok).ok_or_else(|| no_job(target))?;
            self.keeps_more(wait)?;
            wait.done.push(ended_long_ago(target, ok));
        }
        Ok(())
    }

    /// Waits for a job too, or tells of its end; whether there is such a job.
    fn waits_for_job(
        &mut self,
        client: ClientId,
        (wait, naming): (&mut Wait, &mut Naming),
        id: JobId,
    ) -> Result<bool, Refusal> {
        if let Some(live) = self.jobs.get(&id) {
            if !self.may_see(&wait.caller, &live.submitted) {
                return Ok(false);
            }
            if self.conversations.waits.of_job.contains(&(id, client)) || naming.told.contains(&id)
            {
                return Ok(true);
            }
            self.keeps_more(wait)?;
            self.conversations.waits.of_job.insert((id, client));
            wait.jobs.push(id);
            wait.open += 1;
            return Ok(true);
        }
        let Some(ended) = self.jobs.ended(id) else {
            return Ok(false);
        };
        let owner = ended.submitted.uid;
        if !self.may_see_of(&wait.caller, owner) {
            return Ok(false);
        }
        if naming.told.insert(id) {
            let news = self.told_of_end(&wait.caller, owner, self.ended_job(id, ended));
            self.keeps_more(wait)?;
            wait.done.push(news);
        }
        Ok(true)
    }

    /// One more is kept for a command. A short request may name arrays of many tasks: what all
    /// commands of a user wait for has a most.
    fn keeps_more(&mut self, wait: &Wait) -> Result<(), Refusal> {
        let (user, most) = (&wait.caller.user, limits::WAITED_JOBS_OF_USER);
        let admin = self.is_admin(&wait.caller);
        let kept = self.conversations.waits.kept.entry(user.uid).or_default();
        if *kept < most || admin {
            *kept += 1;
            return Ok(());
        }
        Err(Refusal::new(
            RefusalCode::TooMany,
            format!(
                "commands of user {} wait for {kept} jobs, and one user may wait for {most}: wait for fewer",
                user.name
            ),
        ))
    }

    /// Tells those who wait that a job has ended.
    pub(crate) fn tell_waiting(&mut self, id: JobId) {
        let clients = self.conversations.waits.for_job(id);
        if clients.is_empty() {
            return;
        }
        let Some(ended) = self.jobs.ended(id) else {
            return;
        };
        let (owner, news) = (ended.submitted.uid, self.ended_job(id, ended));
        for client in clients {
            self.conversations.waits.of_job.remove(&(id, client));
            let Some(mut wait) = self.conversations.waits.all.remove(&client) else {
                continue; // it has gone
            };
            wait.open -= 1;
            wait.done
                .push(self.told_of_end(&wait.caller, owner, news.clone()));
            if let Some(naming) = &mut wait.naming {
                naming.told.insert(id);
            }
            let over = wait.open == 0 && wait.naming.is_none();
            self.conversations.waits.all.insert(client, wait);
            if let Some(reply) = over.then(|| self.waited(client)).flatten() {
                self.reply(client, reply);
            }
        }
    }

    /// What a user is told of the end of a job: of others' the state alone.
    fn told_of_end(&self, caller: &Caller, owner: Uid, news: EndedJob) -> EndedJob {
        if self.is_told_all(caller, owner) {
            return news;
        }
        EndedJob {
            exit_code: 0,
            signal: 0,
            note: String::new(),
            ..news
        }
    }
}

/// The end of a job of which only the store knows.
pub(crate) fn ended_long_ago(job: JobRef, ok: bool) -> EndedJob {
    use cosy_model::JobState::{Completed, Failed};
    EndedJob {
        job,
        state: if ok { Completed } else { Failed },
        exit_code: i32::from(!ok),
        signal: 0,
        note: String::new(),
    }
}
