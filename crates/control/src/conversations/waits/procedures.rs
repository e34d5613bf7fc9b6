//! Commands begin to wait for jobs and are told of their ends.

use crate::controller::Controller;
use crate::conversations::listing::List;
use crate::conversations::requests::no_job;
use crate::conversations::waits::{Naming, PIECE, Wait, ended_long_ago};
use crate::event::{Caller, ClientId, Facts};
use cosy_model::api::{EndedJob, JobRef, Reply};
use cosy_model::{JobId, Refusal, RefusalCode, Uid, limits};

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
