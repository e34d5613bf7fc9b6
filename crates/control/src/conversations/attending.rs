//! Commands that stay with a job, and the end of the job when the last of them is gone.
//!
//! A command that hangs up ends its job at once. One whose way broke (the link of the node
//! that passed its words on, this controller itself) may come again for a while.

use crate::controller::Controller;
use crate::conversations::attendance::Awaits;
use crate::conversations::requests::no_job;
use crate::conversations::waits::ended_long_ago;
use crate::event::{Caller, ClientId, Facts};
use crate::jobs::job::{Job, Phase};
use cosy_model::api::{JobRef, Reply};
use cosy_model::node::KillCause;
use cosy_model::{End, EndCause, JobId, Refusal, RefusalCode, Time};

impl Controller {
    /// The answer to [`cosy_model::api::Request::Attend`]; `None` when it comes later.
    pub(crate) fn attend(
        &mut self,
        client: ClientId,
        caller: &Caller,
        id: JobId,
        started: bool,
        facts: &Facts,
    ) -> Result<Option<Reply>, Refusal> {
        let Some(job) = self.jobs.get(&id) else {
            return self.attend_ended(caller, id, facts).map(Some);
        };
        self.owns(caller, job)?;
        let runs = job.run().is_some_and(|run| run.after.is_none());
        if started
            && runs
            && let Some(text) = self.conversations.attendance.next_note(id)
        {
            self.conversations
                .attendance
                .stays(client, id, Awaits::Nothing);
            return Ok(Some(Reply::Said(text)));
        }
        let allocated = self.allocated(id).filter(|_| runs && !started);
        let awaits = match (&allocated, started) {
            (Some(_), _) => Awaits::Nothing,
            (None, true) => Awaits::End,
            (None, false) => Awaits::Start,
        };
        self.conversations.attendance.stays(client, id, awaits);
        Ok(allocated)
    }

    fn attend_ended(&self, caller: &Caller, id: JobId, facts: &Facts) -> Result<Reply, Refusal> {
        let name = whole(id);
        if let Some(ended) = self.jobs.ended(id) {
            let owner = ended.submitted.uid;
            if owner != caller.user.uid {
                return Err(self.not_theirs(caller, owner, name));
            }
            return Ok(Reply::Ended(vec![self.ended_job(id, ended)]));
        }
        let old = facts.old_jobs.iter().find(|old| old.job == name);
        let old = old.filter(|old| old.owner == Some(caller.user.uid));
        let ok = old.and_then(|old| old.ok).ok_or_else(|| no_job(name))?;
        Ok(Reply::Ended(vec![ended_long_ago(name, ok)]))
    }

    /// A command has hung up.
    pub(crate) fn client_gone(&mut self, now: Time, client: ClientId) {
        self.conversations.waits.leave(client);
        self.conversations.lists.leave(client);
        if let Some(left) = self.conversations.attendance.leaves(client)
            && left.was_last
        {
            self.conversations.attendance.given_up(left.job);
            self.end_unattended(now, left.job);
        }
    }

    /// The way to a command broke.
    pub(crate) fn client_lost(&mut self, now: Time, client: ClientId) {
        self.conversations.waits.leave(client);
        self.conversations.lists.leave(client);
        if let Some(left) = self.conversations.attendance.leaves(client) {
            self.expect_again(now, left.job);
        }
    }

    /// A command that stayed with the job may come again.
    pub(crate) fn expect_again(&mut self, now: Time, id: JobId) {
        let until = now + self.config.policy.attend_grace;
        match self.jobs.get(&id).is_some_and(|j| j.spec().attended) {
            true => self.conversations.attendance.expects(id, until),
            false => self.conversations.attendance.forget_if_empty(id),
        }
    }

    /// Jobs whose command has not come again.
    pub(crate) fn lonely_due(&mut self, now: Time) {
        while let Some(id) = self.conversations.attendance.abandoned(now) {
            self.end_unattended(now, id);
        }
    }

    fn end_unattended(&mut self, now: Time, id: JobId) {
        let Some(job) = self.jobs.get(&id).filter(|j| j.spec().attended) else {
            return;
        };
        let waits = match &job.phase {
            Phase::Waiting(_) => true,
            Phase::Run(run) if run.after.is_some() => return,
            Phase::Run(_) => false,
        };
        let why = "its command has gone";
        let object = format!("job {id}");
        self.happened(now, "cancelled", "controller", object, why.to_owned());
        if waits {
            let end = End::never_ran(EndCause::Cancelled, now);
            self.uncount_job(now, id);
            self.end_job(now, id, &end, why);
        } else {
            self.kill_job(now, id, KillCause::Cancelled);
        }
    }

    /// Tells those who wait for the start of a job.
    pub(crate) fn tell_started(&mut self, id: JobId) {
        for client in self.conversations.attendance.started(id) {
            if let Some(reply) = self.allocated(id) {
                self.reply(client, reply);
            }
        }
    }

    /// Tells those who stayed with a job that it has ended.
    pub(crate) fn tell_attendants(&mut self, id: JobId) {
        let clients = self.conversations.attendance.ended(id);
        if clients.is_empty() {
            return;
        }
        let ended = self.jobs.ended(id).map(|ended| self.ended_job(id, ended));
        let told = Reply::Ended(ended.into_iter().collect());
        for client in clients {
            self.reply(client, told.clone());
        }
    }
}

impl Controller {
    /// The caller's own allocation, or why not.
    pub(crate) fn owns(&self, caller: &Caller, job: &Job) -> Result<(), Refusal> {
        if job.submitted.uid != caller.user.uid {
            return Err(self.not_theirs(caller, job.submitted.uid, whole(job.id)));
        }
        if job.submitted.is_held() {
            return Ok(());
        }
        Err(Refusal::new(
            RefusalCode::WrongState,
            format!(
                "job {} runs a program of its own: it ends with that, or with 'ccancel {}'",
                job.id, job.id
            ),
        ))
    }
}

const fn whole(job: JobId) -> JobRef {
    JobRef { job, task: None }
}
