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

pub(crate) mod procedures;

use crate::event::{Caller, ClientId, OldJob};
use crate::jobs::arrays::Names;
use cosy_model::api::{EndedJob, JobRef};
use cosy_model::{JobId, Uid};
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
            return Err(format!("waits keep {kept:?} jobs and count {:?}", self.kept));
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
