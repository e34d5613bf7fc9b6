//! Jobs are cancelled, signalled, held, released, requeued and changed.

use crate::controller::Controller;
use crate::conversations::bulk::{BulkRequest, Work};
use crate::event::{Caller, ClientId, Facts};
use crate::jobs::dependencies::Waiter;
use crate::jobs::job::{Phase, Submitted};
use crate::procedures::check::{Judged, Outcome};
use crate::procedures::steer::{Recipients, may_release};
use crate::record::{AfterRun, HeldBy};
use cosy_model::api::{JobChange, JobFilter, Reply};
use cosy_model::node::{KillCause, NodeOrder};
use cosy_model::{
    About, Dialect, End, EndCause, JobId, NodeId, Refusal, RefusalCode, Time, User, WaitReason,
};
use cosy_view::words::end_note::CancelNote;
use std::sync::Arc;

impl Controller {
    /// The answer, `None` when it comes later: see [`crate::conversations::bulk`].
    pub(crate) fn cancel(
        &mut self,
        now: Time,
        (client, key): (ClientId, Option<[u8; 16]>),
        caller: &Caller,
        filter: JobFilter,
        signal: Option<i32>,
        whom: Recipients,
    ) -> Result<Option<Reply>, Refusal> {
        if let Some(signal) = signal
            && !(1..=64).contains(&signal)
        {
            return Err(Refusal::invalid(format!("there is no signal {signal}")));
        }
        let work = match signal {
            Some(signal) => Work::Signal(signal, whom),
            None => Work::Cancel,
        };
        self.each_in_pieces(now, (client, key), caller, filter, work)
    }

    pub(crate) fn signal_job(
        &mut self,
        id: JobId,
        signal: i32,
        whom: Recipients,
    ) -> Result<(), Refusal> {
        let running = self.jobs.get(&id).and_then(|j| {
            // Where nothing was launched, the signal is for all steps.
            let most = if j.submitted.is_held() { usize::MAX } else { 1 };
            let nodes = j.run()?.parts.iter().take(most).map(|p| p.node);
            Some((j.key(), nodes.collect::<Vec<NodeId>>()))
        });
        let Some((key, nodes)) = running else {
            let why = format!(
                "job {} does not run: there is nothing to send a signal to",
                self.name_of(id)
            );
            let refusal = Refusal::new(RefusalCode::WrongState, why);
            return Err(match self.jobs.get(&id).is_some_and(|j| j.is_waiting()) {
                true => refusal.about(About::Waiting),
                false => refusal,
            });
        };
        for node in nodes {
            self.order(node, |node| NodeOrder::Signal {
                key,
                node,
                signal,
                script_only: whom == Recipients::Script,
                steps_only: whom == Recipients::Steps,
            });
        }
        Ok(())
    }

    pub(crate) fn cancel_job(&mut self, now: Time, id: JobId, who: &str) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let waited_for = self.reason(now, job).filter(|_| job.is_waiting());
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        match &mut job.phase {
            Phase::Waiting(_) => {
                let note = CancelNote {
                    who,
                    waited_for: waited_for.as_ref().map(WaitReason::word),
                }
                .to_string();
                let end = End::never_ran(EndCause::Cancelled, now);
                self.uncount_job(now, id);
                self.happened(now, "cancelled", who, format!("job {id}"), String::new());
                self.end_unknown_of(id);
                self.end_job(now, id, &end, &note);
            }
            Phase::Run(run) => {
                run.canceller.get_or_insert_with(|| who.to_owned());
                self.happened(now, "cancelled", who, format!("job {id}"), String::new());
                self.kill_job(now, id, KillCause::Cancelled);
            }
        }
    }

    /// Ends a job that holds nodes.
    pub(crate) fn kill_job(&mut self, now: Time, id: JobId, cause: KillCause) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let (key, held) = (job.key(), job.submitted.is_held());
        let Some(run) = job.run_mut() else { return };
        if let Some(AfterRun::Requeue) = &run.after
            && cause == KillCause::Cancelled
        {
            let end = End::never_ran(EndCause::Cancelled, now);
            run.after = Some(AfterRun::End(end));
            run.killed = Some(cause);
            return self.save_job(id);
        }
        if run.after.is_some() || run.killed == Some(KillCause::Cancelled) {
            return;
        }
        if held {
            return self.end_held(now, id, cause);
        }
        run.killed = Some(cause);
        let (launched, first) = (run.launching.is_given(), run.first());
        self.save_job(id);
        match first {
            Some(first) if launched => {
                self.order(first, |node| NodeOrder::Kill { key, node, cause });
            }
            _ => {
                let after = match cause {
                    KillCause::Requeued => AfterRun::Requeue,
                    KillCause::Cancelled | KillCause::TimeLimit | KillCause::Superseded => {
                        AfterRun::End(End::never_ran(EndCause::Cancelled, now))
                    }
                };
                self.abandon(now, id, after, None);
            }
        }
    }

    /// Holds all tasks of an array that have no row of their own, lets them go or changes them,
    /// by one row. Each has to be looked at afterwards. Where they cannot be treated as one,
    /// nothing is done.
    pub(crate) fn steer_whole(&mut self, now: Time, bulk: &mut BulkRequest, base: JobId) {
        let Some(group) = self.jobs.group(&base) else {
            return;
        };
        let (old, held, tasks) = (group.submitted.clone(), group.held, group.plain);
        let (new, held) = match &bulk.work {
            Work::Hold { as_user } => {
                let by = self.holder(&bulk.caller, &old, *as_user);
                (old, Some(by.upon(held)))
            }
            Work::Release if may_release(held, self.is_admin(&bulk.caller)) => (old, None),
            Work::Change(change) if change.keep_nodes.is_none() => {
                let change = change.clone();
                if self
                    .may_prioritize(&bulk.caller, &old, held, &change)
                    .is_err()
                {
                    return;
                }
                let Ok(new) = self.changed_body(bulk, base, &old, &change) else {
                    return;
                };
                if new.queue != old.queue {
                    return; // there may be room for some of them only
                }
                let asked = self.held_by_priority(&bulk.caller, held, &change);
                (new, asked.unwrap_or(held))
            }
            Work::Release
            | Work::Change(_)
            | Work::Cancel
            | Work::Signal(..)
            | Work::Top
            | Work::Requeue(_)
            | Work::Suspend
            | Work::Resume
            | Work::Notify(_) => return,
        };
        self.stand(&new, held);
        bulk.whole.insert(base);
        let (word, who) = (bulk.work.word(), bulk.caller.user.name.clone());
        let detail = format!("{tasks} tasks");
        self.happened(now, word, &who, format!("job {base}"), detail);
    }

    /// As whom somebody holds a job.
    fn holder(&self, caller: &Caller, job: &Submitted, as_user: bool) -> HeldBy {
        let slurm = job.spec.dialect == Dialect::Slurm;
        let foreign = slurm || job.uid != caller.user.uid;
        match self.is_admin(caller) && !as_user && foreign {
            true => HeldBy::Admin,
            false => HeldBy::User,
        }
    }

    pub(crate) fn hold_job(
        &mut self,
        now: Time,
        bulk: &mut BulkRequest,
        id: JobId,
        as_user: bool,
    ) -> Result<(), Refusal> {
        let job = self.waiting_job(id)?;
        let by = self.holder(&bulk.caller, &job.submitted, as_user);
        let held = Some(by.upon(job.held));
        self.set_held(now, bulk, id, held);
        Ok(())
    }

    pub(crate) fn release_job(
        &mut self,
        now: Time,
        bulk: &mut BulkRequest,
        id: JobId,
    ) -> Result<(), Refusal> {
        let job = self.waiting_job(id)?;
        if !may_release(job.held, self.is_admin(&bulk.caller)) {
            return Err(Refusal::new(
                RefusalCode::Forbidden,
                format!("job {} is held by an administrator", job.id),
            )
            .about(About::Held));
        }
        self.may_go(id)?;
        self.set_held(now, bulk, id, None);
        Ok(())
    }

    fn set_held(&mut self, now: Time, bulk: &mut BulkRequest, id: JobId, held: Option<HeldBy>) {
        if let Some(job) = self.jobs.get_mut(&id) {
            // A task that is named alone is no longer like the others.
            let alone = job.has_row || !bulk.whole.contains(&job.submitted.base);
            job.own |= alone && job.member.is_some();
            job.held = held;
        }
        self.steered(bulk, id);
        self.review(now, id);
    }

    pub(crate) fn change(
        &mut self,
        now: Time,
        client: (ClientId, Option<[u8; 16]>),
        caller: &Caller,
        filter: JobFilter,
        change: Box<JobChange>,
        facts: &Facts,
    ) -> Result<Option<Reply>, Refusal> {
        if change.nice.is_some_and(|n| n < 0) {
            self.require_admin(caller, "use a negative nice value")
                .map_err(|e| e.about(About::Priority))?;
        }
        if change.admin_comment.is_some() {
            self.require_admin(caller, "make an administrator's comment")?;
        }
        if let Some(dependencies) = &change.dependencies {
            self.check_dependencies(caller, dependencies, facts)?;
            self.learn_facts(dependencies, facts);
        }
        crate::procedures::change::check(&change)?;
        self.each_in_pieces(now, client, caller, filter, Work::Change(change.into()))
    }

    /// `at_once` belongs to the array as a whole.
    pub(crate) fn change_throttles(&mut self, now: Time, bulk: &BulkRequest) {
        let Work::Change(change) = &bulk.work else {
            return;
        };
        let Some(at_once) = change.at_once else {
            return;
        };
        for base in bulk.bases() {
            let Some(group) = self.jobs.group_mut(base) else {
                continue;
            };
            group.at_once = (at_once > 0).then_some(at_once);
            self.save_standing(*base);
            self.refill_array(now, *base);
        }
    }

    pub(crate) fn change_one(
        &mut self,
        now: Time,
        bulk: &mut BulkRequest,
        id: JobId,
        change: &JobChange,
    ) -> Result<(), Refusal> {
        let Some(job) = self.jobs.get(&id) else {
            return Ok(());
        };
        if !job.is_waiting() {
            return self.change_running(now, bulk, id, change);
        }
        if change.keep_nodes.is_some() {
            let why = format!(
                "job {} waits and has no nodes yet: say which it must have",
                self.name_of(id)
            );
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Waiting));
        }
        let (old, held) = (job.submitted.clone(), job.held);
        let plain = !job.has_row && bulk.whole.contains(&old.base);
        let (new, asked) = match plain {
            true => {
                let group = self.jobs.group(&old.base);
                let (new, held) =
                    group.map_or((old.clone(), held), |g| (g.submitted.clone(), g.held));
                (new, change.priority.map(|_| held))
            }
            false => {
                self.may_prioritize(&bulk.caller, &old, held, change)?;
                let new = self.changed_body(bulk, id, &old, change)?;
                (new, self.held_by_priority(&bulk.caller, held, change))
            }
        };
        self.take_body(id, &new);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.own |= !plain && !Arc::ptr_eq(&old, &new);
            job.held = asked.unwrap_or(held);
        }
        self.steered(bulk, id);
        self.review(now, id);
        Ok(())
    }

    /// What a change makes of a body, checked. It is made once for all jobs that have it.
    fn changed_body(
        &mut self,
        bulk: &mut BulkRequest,
        id: JobId,
        old: &Arc<Submitted>,
        change: &JobChange,
    ) -> Result<Arc<Submitted>, Refusal> {
        let owner = self.owner(&bulk.caller, old);
        if let Some(made) = self.made_before(bulk, old) {
            let new = made?;
            if new.queue != old.queue {
                let queue = self.find_queue(Some(&new.queue))?;
                let rights = self.rights_of(&bulk.caller, &owner);
                self.may_submit(&rights, queue, 1)?;
            }
            return Ok(new);
        }
        let mut spec = old.spec.clone();
        crate::procedures::change::apply(&mut spec, change);
        let outcome = Outcome {
            queue: change.queue.as_deref(),
            attached: self.is_attached(id, &spec),
            ..Outcome::of_change(&owner, old, &spec)
        };
        let judged = self.check_result(&bulk.caller, &outcome);
        let new = judged.map(|Judged { queue, place }| {
            let queue = self.queues.name(queue).to_owned();
            match queue == old.queue && spec == old.spec {
                true => old.clone(),
                false => self.new_body(old, spec, queue, place),
            }
        });
        self.note_made(bulk, old, &new);
        new
    }

    /// What the request has made of that body before.
    pub(crate) fn made_before(
        &self,
        bulk: &BulkRequest,
        old: &Submitted,
    ) -> Option<Result<Arc<Submitted>, Refusal>> {
        match bulk.made.get(&(old.base, old.body))? {
            Err(refusal) => Some(Err(refusal.clone())),
            Ok(number) => {
                let body = self.jobs.group(&old.base)?.bodies.get(number)?;
                Some(Ok(body.submitted.clone()))
            }
        }
    }

    /// Only arrays have others that are alike.
    pub(crate) fn note_made(
        &self,
        bulk: &mut BulkRequest,
        old: &Submitted,
        new: &Result<Arc<Submitted>, Refusal>,
    ) {
        let group = self.jobs.group(&old.base);
        if group.is_some_and(|group| group.indices.is_some()) {
            let made = new.as_ref().map(|new| new.body).map_err(Clone::clone);
            bulk.made.insert((old.base, old.body), made);
        }
    }

    /// The job's user as far as known.
    pub(crate) fn owner(&self, caller: &Caller, job: &Submitted) -> User {
        if caller.user.uid == job.uid {
            return caller.user.clone();
        }
        match self.conversations.user(&job.uid) {
            Some(known) if !known.user.name.is_empty() => known.user.clone(),
            Some(_) | None => User {
                uid: job.uid,
                gid: job.gid,
                name: job.user.clone(),
                ..User::default()
            },
        }
    }

    /// A waiting job asks for something else from now on. It has to be looked at afterwards.
    pub(crate) fn take_body(&mut self, id: JobId, new: &Arc<Submitted>) {
        let Some(old) = self.jobs.get(&id).map(|job| job.submitted.clone()) else {
            return;
        };
        if Arc::ptr_eq(&old, new) {
            return;
        }
        if self.planner_of(id).dequeue(id) {
            self.count_queued(old.base, false);
        }
        self.planning.left_inside(id);
        self.leave_queue(&old);
        if let Some(begin) = old.spec.begin {
            self.jobs.begins_no_more(begin, id);
        }
        self.join_body(new);
        if let Some(begin) = new.spec.begin {
            self.jobs.begins_at(begin, id);
        }
        if !new.spec.request.same_features.is_empty() {
            self.planning.choose_again_for(Waiter::of(new));
        }
        if !new.spec.queues.is_empty() {
            self.planning.has_choice_of_queues(id);
        }
        self.count_in_queue(new, 1);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.submitted = new.clone();
        }
        self.leave_body(&old, false);
    }
}
