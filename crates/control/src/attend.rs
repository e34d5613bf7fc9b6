//! Commands that stay with a job, and the end of the job when the last of them is gone.
//!
//! A command that hangs up ends its job at once. One whose way broke (the link of the node
//! that passed its words on, this controller itself) may come again for a while.

use crate::controller::Controller;
use crate::event::{Caller, ClientId, Facts};
use crate::job::{Job, Phase};
use crate::request::no_job;
use cosy_model::api::{EndedJob, JobRef, Reply};
use cosy_model::node::KillCause;
use cosy_model::{End, EndCause, JobId, JobState, Refusal, RefusalCode, Time};
use std::collections::{BTreeMap, VecDeque};

/// What a command that stays with a job is still to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awaits {
    /// Nothing more on this request.
    Nothing,
    /// Its start, or its end.
    Start,
    /// Its end.
    End,
}

/// Who stays with a job.
#[derive(Debug, Default)]
pub(crate) struct Attending {
    clients: BTreeMap<ClientId, Awaits>,
    /// Some may come again until then.
    until: Option<Time>,
    /// What the next one that comes again is told.
    notes: VecDeque<String>,
}

/// So many messages are kept for a command that is about to ask again.
const NOTES: usize = 16;

impl Attending {
    /// Whoever may come again may do so until then.
    pub fn expect_until(&mut self, until: Time) {
        self.until = Some(until);
    }

    pub fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.clients.keys().copied()
    }

    pub fn until(&self) -> Option<Time> {
        self.until
    }

    pub fn clients_that_await(&self, what: Awaits) -> impl Iterator<Item = ClientId> {
        let waiting = self
            .clients
            .iter()
            .filter(move |(_, awaits)| **awaits == what);
        waiting.map(|(client, _)| *client)
    }

    /// Keeps a message; the oldest one goes when there are too many.
    pub fn keep_note(&mut self, text: &str) {
        if self.notes.len() >= NOTES {
            self.notes.pop_front();
        }
        self.notes.push_back(text.to_owned());
    }
}

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
        let attending = self.attending.get_mut(&id).filter(|_| started && runs);
        if let Some(text) = attending.and_then(|attending| attending.notes.pop_front()) {
            self.stays(client, id, Awaits::Nothing);
            return Ok(Some(Reply::Said(text)));
        }
        let allocated = self.allocated(id).filter(|_| runs && !started);
        let awaits = match (&allocated, started) {
            (Some(_), _) => Awaits::Nothing,
            (None, true) => Awaits::End,
            (None, false) => Awaits::Start,
        };
        self.stays(client, id, awaits);
        Ok(allocated)
    }

    fn attend_ended(&self, caller: &Caller, id: JobId, facts: &Facts) -> Result<Reply, Refusal> {
        let name = whole(id);
        if let Some(ended) = self.ended.get(&id) {
            let owner = ended.submitted.uid;
            if owner != caller.user.uid {
                return Err(self.not_theirs(caller, owner, name));
            }
            return Ok(Reply::Ended(vec![self.ended_job(id, ended)]));
        }
        let old = facts.old_jobs.iter().find(|old| old.job == name);
        let old = old.filter(|old| old.owner == Some(caller.user.uid));
        let ok = old.and_then(|old| old.ok).ok_or_else(|| no_job(name))?;
        Ok(Reply::Ended(vec![EndedJob {
            job: name,
            state: if ok {
                JobState::Completed
            } else {
                JobState::Failed
            },
            exit_code: i32::from(!ok),
            signal: 0,
            note: String::new(),
        }]))
    }

    /// Somebody stays with the job from now on.
    pub(crate) fn stays(&mut self, client: ClientId, id: JobId, awaits: Awaits) {
        let attending = self.attending.entry(id).or_default();
        attending.clients.insert(client, awaits);
        if let Some(until) = attending.until.take() {
            self.lonely.remove(&(until, id));
        }
        self.attendants.insert(client, id);
    }

    /// A command has hung up.
    pub(crate) fn client_gone(&mut self, now: Time, client: ClientId) {
        self.waits.leave(client);
        self.listings.retain(|l| l.client() != client);
        let Some((id, alone)) = self.leaves(client) else {
            return;
        };
        if alone {
            self.attending.remove(&id);
            self.end_unattended(now, id);
        }
    }

    /// The way to a command broke.
    pub(crate) fn client_lost(&mut self, now: Time, client: ClientId) {
        self.waits.leave(client);
        self.listings.retain(|l| l.client() != client);
        if let Some((id, _)) = self.leaves(client) {
            self.expect_again(now, id);
        }
    }

    /// Its job, and whether nobody is left there or expected.
    fn leaves(&mut self, client: ClientId) -> Option<(JobId, bool)> {
        let id = self.attendants.remove(&client)?;
        let attending = self.attending.get_mut(&id)?;
        attending.clients.remove(&client);
        let alone = attending.clients.is_empty() && attending.until.is_none();
        Some((id, alone))
    }

    /// A command that stayed with the job may come again.
    pub(crate) fn expect_again(&mut self, now: Time, id: JobId) {
        let until = now + self.config.policy.attend_grace;
        let attended = self.jobs.get(&id).is_some_and(|j| j.spec().attended);
        let attending = self.attending.entry(id).or_default();
        if !attended || !attending.clients.is_empty() {
            if attending.clients.is_empty() {
                self.attending.remove(&id);
            }
            return;
        }
        if let Some(before) = attending.until.replace(until) {
            self.lonely.remove(&(before, id));
        }
        self.lonely.insert((until, id));
    }

    /// Jobs whose command has not come again.
    pub(crate) fn lonely_due(&mut self, now: Time) {
        while let Some(&(until, id)) = self.lonely.first()
            && until <= now
        {
            self.lonely.pop_first();
            self.attending.remove(&id);
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
        let Some(attending) = self.attending.get_mut(&id) else {
            return;
        };
        let waiting: Vec<ClientId> = attending
            .clients
            .iter_mut()
            .filter(|(_, awaits)| **awaits == Awaits::Start)
            .map(|(client, awaits)| {
                *awaits = Awaits::Nothing;
                *client
            })
            .collect();
        for client in waiting {
            if let Some(reply) = self.allocated(id) {
                self.reply(client, reply);
            }
        }
    }

    /// Tells those who stayed with a job that it has ended.
    pub(crate) fn tell_attendants(&mut self, id: JobId) {
        let Some(attending) = self.attending.remove(&id) else {
            return;
        };
        let ended = self.ended.get(&id).map(|ended| self.ended_job(id, ended));
        let told = Reply::Ended(ended.into_iter().collect());
        if let Some(until) = attending.until {
            self.lonely.remove(&(until, id));
        }
        for (client, awaits) in attending.clients {
            self.attendants.remove(&client);
            match awaits {
                Awaits::Nothing => {}
                Awaits::Start | Awaits::End => {
                    self.reply(client, told.clone());
                }
            }
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
