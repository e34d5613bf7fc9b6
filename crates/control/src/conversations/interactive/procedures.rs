//! Allocations are asked for, answered at the end of the turn, and counted by user.

use crate::controller::Controller;
use crate::conversations::attendance::Awaits;
use crate::conversations::interactive::{Allocating, check_allocation, check_kind, gone};
use crate::event::{Caller, ClientId, Facts};
use crate::jobs::job::{Job, Phase, Submitted};
use cosy_model::api::{JobRef, Reply, Submission};
use cosy_model::step::Entry;
use cosy_model::{Gid, JobId, Refusal, RefusalCode, Time, Uid, WaitReason};

impl Controller {
    /// Takes a request to allocate; the answer comes with the end of the turn.
    pub(crate) fn allocate(
        &mut self,
        now: Time,
        client: ClientId,
        caller: &Caller,
        key: Option<[u8; 16]>,
        submission: Submission,
        facts: &Facts,
    ) -> Result<(), Refusal> {
        check_allocation(&submission)?;
        check_kind(&submission, true)?;
        let reply = self.submit(now, caller, submission, facts)?;
        if let Some(key) = key {
            self.remember(now, caller.user.uid, key, &reply);
        }
        self.answer_at_end_of_turn(client, reply);
        Ok(())
    }

    /// The same request came again: the command stays with the job that it got.
    pub(crate) fn answer_at_end_of_turn(&mut self, client: ClientId, waits: Reply) {
        let Reply::Submitted { job, .. } = waits else {
            return self.reply(client, waits);
        };
        if self.jobs.contains_key(&job) {
            self.conversations
                .attendance
                .stays(client, job, Awaits::Nothing);
        }
        self.conversations
            .interactive
            .allocating
            .push(Allocating { client, job, waits });
    }

    /// Answers everyone who asked for an allocation in this turn.
    pub(crate) fn answer_allocations(&mut self) {
        for Allocating { client, job, waits } in
            std::mem::take(&mut self.conversations.interactive.allocating)
        {
            let reply = self.allocated(job).unwrap_or(waits);
            self.reply(client, reply);
        }
    }

    /// What the command of a job that has nodes is told.
    pub(crate) fn allocated(&self, id: JobId) -> Option<Reply> {
        let job = self.jobs.get(&id)?;
        let run = job.run().filter(|run| run.after.is_none())?;
        Some(Reply::Allocated {
            entry: self.entry_of(job)?,
            until: (!run.limit.is_unlimited()).then(|| run.end_if_it_goes_on()),
            variables: self.variables(job, run, self.group_of(job)),
        })
    }

    /// The primary group that the job has with its nodes.
    fn group_of(&self, job: &Job) -> Gid {
        let wanted = job.submitted.gid;
        let known = self.conversations.users.get(&job.submitted.uid);
        let known = known.filter(|known| !known.user.name.is_empty());
        known.map_or(wanted, |known| known.user.granted(wanted))
    }

    fn entry_of(&self, job: &Job) -> Option<Entry> {
        let run = job.run().filter(|run| run.after.is_none())?;
        let part = run.parts.first()?;
        let first = self.machine.node(part.node);
        Some(Entry {
            key: job.key(),
            nodes: self.node_list(run),
            socket: Some(first.step_socket.clone()).filter(|socket| !socket.is_empty()),
            boot_id: part.boot_id.clone(),
        })
    }

    /// How the first node of a running job is reached.
    pub(crate) fn entry(&self, caller: &Caller, id: JobId) -> Result<Reply, Refusal> {
        let job = self.jobs.get(&id).ok_or_else(|| gone(id))?;
        if !self.may_touch(caller, &job.submitted) {
            let name = JobRef {
                job: id,
                task: None,
            };
            return Err(self.not_theirs(caller, job.submitted.uid, name));
        }
        let entry = self.entry_of(job).ok_or_else(|| {
            Refusal::new(
                RefusalCode::WrongState,
                format!(
                    "job {id} is {}: steps can be started only while it runs",
                    job.state()
                ),
            )
        })?;
        Ok(Reply::Entry(entry))
    }

    /// Takes an allocation back.
    pub(crate) fn finish(
        &mut self,
        now: Time,
        caller: &Caller,
        id: JobId,
        exit_code: i32,
        signal: i32,
    ) -> Result<Reply, Refusal> {
        let job = self.jobs.get(&id).ok_or_else(|| gone(id))?;
        self.owns(caller, job)?;
        if !(0..=64).contains(&signal) {
            return Err(Refusal::invalid(format!("there is no signal {signal}")));
        }
        let changed = match &job.phase {
            Phase::Waiting(_) => {
                self.cancel_job(now, id, &caller.user.name);
                1
            }
            Phase::Run(run) if run.after.is_some() => 0,
            Phase::Run(_) => {
                self.give_back_held(now, id, exit_code, signal);
                1
            }
        };
        Ok(Reply::Done {
            changed,
            refused: Vec::new(),
        })
    }

    /// True when as many other interactive jobs of the job's user run, or are about to, as
    /// may.
    pub(crate) fn interactive_is_full(&self, job: &Job) -> bool {
        let most = self.config.policy.interactive_per_user;
        let counts = job.submitted.counts_as_interactive();
        if most == 0 || !counts || self.is_queued(job.id) {
            return false;
        }
        let mine = self.conversations.interactive.live.get(&job.submitted.uid);
        let others = mine.into_iter().flatten().filter(|id| **id != job.id);
        let counts = |id: &&JobId| self.counts_as_interactive(**id);
        others.filter(counts).count() >= most as usize
    }

    /// A job whose end is settled no longer counts: the next one need not wait until its
    /// nodes are clean.
    pub(crate) fn counts_as_interactive(&self, id: JobId) -> bool {
        let runs = self
            .jobs
            .get(&id)
            .and_then(Job::run)
            .is_some_and(|run| run.after.is_none());
        runs || self.is_queued(id)
    }

    /// The job no longer counts: the user's next one may go.
    pub(crate) fn refill_interactive(&mut self, now: Time, id: JobId) {
        let attended = self.jobs.get(&id).filter(|j| j.spec().attended);
        if let Some(uid) = attended.map(|j| j.submitted.uid) {
            self.refill_interactive_of(now, uid);
        }
    }

    pub(crate) fn leave_interactive(&mut self, id: JobId, submitted: &Submitted) {
        if let Some(mine) = self.conversations.interactive.live.get_mut(&submitted.uid) {
            mine.remove(&id);
            if mine.is_empty() {
                self.conversations.interactive.live.remove(&submitted.uid);
            }
        }
    }

    pub(crate) fn refill_interactive_of(&mut self, now: Time, uid: Uid) {
        let limited = |id: &JobId| {
            self.jobs.get(id).is_some_and(|j| {
                matches!(&j.phase, Phase::Waiting(Some(WaitReason::InteractiveLimit)))
            })
        };
        let mine = self
            .conversations
            .interactive
            .live
            .get(&uid)
            .into_iter()
            .flatten();
        let waiting: Vec<JobId> = mine.copied().filter(limited).collect();
        for id in waiting {
            self.review(now, id);
            let stuck = self.jobs.get(&id).is_some_and(|j| {
                matches!(&j.phase, Phase::Waiting(Some(WaitReason::InteractiveLimit)))
            });
            if stuck {
                return;
            }
        }
    }
}
