//! Jobs that go back into the queue: running ones, and ended ones that are still remembered.
//! Source: scontrol(1), `requeue` and `requeuehold`.

use crate::controller::Controller;
use crate::conversations::bulk::Work;
use crate::conversations::requests::no_job;
use crate::event::{Caller, ClientId};
use crate::jobs::ended::Ended;
use crate::jobs::job::{Group, Job, Member, Phase, Place, Submitted, TaskOutcome};
use crate::procedures::check::{Judged, Outcome};
use crate::record::{HeldBy, Numbering, Record};
use cosy_model::api::{JobFilter, JobRef, Reply};
use cosy_model::node::KillCause;
use cosy_model::{
    About, Dialect, JobId, JobSpec, Refusal, RefusalCode, Span, Time, User, WaitReason,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Slurm lets a job that was put back wait for a while, so that its nodes are clean in any
/// case; users who look at it at once see that it waits.
const PAUSE: Span = Span::from_secs(5);

impl Controller {
    pub(crate) fn requeue(
        &mut self,
        now: Time,
        client: (ClientId, Option<[u8; 16]>),
        caller: &Caller,
        filter: JobFilter,
        hold: Option<HeldBy>,
    ) -> Result<Option<Reply>, Refusal> {
        self.each_in_pieces(now, client, caller, filter, Work::Requeue(hold))
    }

    pub(crate) fn requeue_or_revive(
        &mut self,
        now: Time,
        caller: &Caller,
        id: JobId,
        hold: Option<HeldBy>,
    ) -> Result<(), Refusal> {
        match self.jobs.contains_key(&id) {
            true => self.requeue_job(now, id, &caller.user.name, hold),
            false => self.revive(now, caller, id, hold),
        }
    }

    fn requeue_job(
        &mut self,
        now: Time,
        id: JobId,
        who: &str,
        hold: Option<HeldBy>,
    ) -> Result<(), Refusal> {
        let name = self.name_of(id);
        let wrong =
            |why: String, about| Err(Refusal::new(RefusalCode::WrongState, why).about(about));
        let Some(job) = self.jobs.get(&id) else {
            return Ok(());
        };
        if job.is_waiting() {
            return wrong(format!("job {name} waits already"), About::Waiting);
        }
        if job.spec().attended {
            let why = format!("job {name} is interactive: its command stays with this attempt");
            return wrong(why, About::Requeue);
        }
        may_run_again(&job.submitted, &name)?;
        if let Some(reservation) = job.spec().reservation
            && self.may_come_back(job, reservation) == Some(false)
        {
            let why = format!(
                "reservation {reservation} is no longer for user {}: job {name} could not start in it again",
                job.submitted.user
            );
            return Err(Refusal::new(RefusalCode::AccessDenied, why));
        }
        if let Some(run) = self.jobs.get_mut(&id).and_then(Job::run_mut) {
            run.hold_after = hold.or(run.hold_after);
        }
        self.happened(now, "requeue", who, format!("job {id}"), String::new());
        self.kill_job(now, id, KillCause::Requeued);
        Ok(())
    }

    /// What a job that waits again has to wait for beside its turn.
    pub(crate) fn pause_before_again(&mut self, now: Time, id: JobId, held: Option<HeldBy>) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        job.held = held.map(|by| by.upon(job.held)).or(job.held);
        if job.spec().dialect == Dialect::Slurm {
            let until = now + PAUSE;
            job.not_before = Some(until);
            self.jobs.begins_at(until, id);
        }
    }

    /// Puts an ended job back into the queue.
    fn revive(
        &mut self,
        now: Time,
        caller: &Caller,
        id: JobId,
        hold: Option<HeldBy>,
    ) -> Result<(), Refusal> {
        let unknown = || {
            no_job(JobRef {
                job: id,
                task: None,
            })
        };
        let ended = self.jobs.ended(id).ok_or_else(unknown)?;
        let target = self.ended_job(id, ended).job;
        if !self.may_touch(caller, &ended.submitted) {
            return Err(self.not_theirs(caller, ended.submitted.uid, target));
        }
        may_run_again(&ended.submitted, &target.to_string())?;
        let alone = ended.row.index.is_none();
        if ended.submitted.spec.attended || !(alone || self.jobs.has_group(&ended.row.base)) {
            let why = format!(
                "job {target} cannot run again: it was interactive, or all of its array has ended"
            );
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Requeue));
        }
        let (spec, owner) = self.come_back(caller, &ended.submitted);
        let outcome = Outcome {
            enters: true,
            attached: self.is_attached(id, &spec),
            ..Outcome::of_change(&owner, &ended.submitted, &spec)
        };
        let Judged { queue, place } = self.check_result(caller, &outcome)?;
        let queue = self.queues.name(queue).to_owned();
        // What an administrator held, only one lets go.
        let hold = match ended.row.held {
            Some(HeldBy::Admin) if !self.is_admin(caller) => Some(HeldBy::Admin),
            Some(_) | None => hold,
        };
        let Some(ended) = self.jobs.lives_again(id) else {
            return Ok(());
        };
        self.put_back(id, &ended, (spec, queue, place), hold);
        self.lives_again(ended.submitted.base);
        self.save_job(id);
        let who = &caller.user.name;
        self.happened(now, "requeue", who, format!("job {id}"), String::new());
        self.review(now, id);
        Ok(())
    }

    /// What an ended job would be again, and whose it is. What it had to wait for before has
    /// happened.
    fn come_back(&self, caller: &Caller, old: &Submitted) -> (JobSpec, User) {
        let mut spec = old.spec.clone();
        spec.dependencies.clear();
        (spec, self.owner(caller, old))
    }

    /// Into memory as a job that waits.
    fn put_back(
        &mut self,
        id: JobId,
        ended: &Ended,
        (spec, queue, place): (JobSpec, String, Place),
        hold: Option<HeldBy>,
    ) {
        let old = &ended.submitted;
        let same = spec == old.spec && queue == old.queue;
        let group = self.jobs.group(&old.base);
        let present = group.and_then(|group| group.body_like(&spec, &queue));
        let submitted = match present {
            Some(present) => present,
            None if same => Arc::new(old.with(old.body, spec, queue, place)),
            None => self.new_body(old, spec, queue, place),
        };
        self.join_group(id, ended, &submitted, same);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.attempt = ended.row.attempt;
            job.own = true;
            job.held = hold;
        }
    }

    /// `stored`: its body is that of its last row.
    fn join_group(&mut self, id: JobId, ended: &Ended, submitted: &Arc<Submitted>, stored: bool) {
        let base = submitted.base;
        let Some(group) = self.jobs.group_mut(&base) else {
            let mut group = Group {
                submitted: submitted.clone(),
                held: None,
                plain: 1,
                bodies: BTreeMap::new(),
                next_body: submitted.body + 1,
                indices: None,
                numbering: Numbering::InOrder,
                at_once: None,
                fates: vec![TaskOutcome::Live],
                live: 1,
                failed: 0,
                last_start: None,
                running: 0,
                queued: 0,
                touched: 1,
                throttled: std::collections::BTreeSet::new(),
            };
            group.touched = u32::from(ended.row.attempt.0 > 0);
            self.record(Record::SubmissionLives(base));
            self.add_group(group);
            return self.is_stored(submitted, stored);
        };
        let at = group.place_of(id);
        group.unsettle(at);
        let index = ended.row.index.unwrap_or_default();
        let member = Member {
            index,
            at: at as u32,
        };
        self.jobs.enter(Job {
            id,
            member: Some(member),
            submitted: submitted.clone(),
            own: true,
            has_row: true,
            held: None,
            needs_user: false,
            attempt: ended.row.attempt,
            eligible: None,
            not_before: None,
            phase: Phase::Waiting(Some(WaitReason::Fresh)),
        });
        self.count_in_queue(submitted, 1);
        self.join_body(submitted);
        self.is_stored(submitted, stored);
    }
}

/// In Slurm's words a job says whether it may run again, and only batch jobs do.
fn may_run_again(job: &Submitted, name: &str) -> Result<(), Refusal> {
    if job.spec.dialect == Dialect::Cosy || job.may_run_again() {
        return Ok(());
    }
    let why = match job.is_held() {
        true => format!("job {name} is an allocation: only batch jobs run again"),
        false => format!("job {name} was submitted with --no-requeue"),
    };
    Err(Refusal::new(RefusalCode::WrongState, why).about(About::Requeue))
}
