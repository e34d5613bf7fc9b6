//! Cancel, hold, release, requeue, change.

use crate::check::{Judged, Outcome};
use crate::chosen::Chosen;
use crate::controller::Controller;
use crate::depend::Waiter;
use crate::event::{Caller, ClientId, Facts};
use crate::job::{Job, Phase, Place, Submitted};
use crate::many::{Cancelling, PIECE, UNDER_WAY};
use crate::record::{AfterRun, HeldBy, Record};
use cosy_model::api::{JobChange, JobFilter, Reply};
use cosy_model::job::CancelNote;
use cosy_model::node::{KillCause, NodeOrder};
use cosy_model::{
    About, Dialect, End, EndCause, JobId, JobSpec, NodeId, Refusal, RefusalCode, Time, User,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Whom a signal is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Recipients {
    /// The script and all that it started, and the steps.
    All,
    /// The script itself.
    Script,
    /// The steps.
    Steps,
}

impl Recipients {
    pub fn new(script_only: bool, steps_only: bool) -> Result<Self, Refusal> {
        match (script_only, steps_only) {
            (false, false) => Ok(Self::All),
            (true, false) => Ok(Self::Script),
            (false, true) => Ok(Self::Steps),
            (true, true) => Err(Refusal::invalid(
                "a signal goes to the script only or to the steps only, not both",
            )),
        }
    }
}

impl Controller {
    /// The answer, `None` when it comes later: see [`crate::many`].
    pub(crate) fn cancel(
        &mut self,
        now: Time,
        (client, key): (ClientId, Option<[u8; 16]>),
        caller: &Caller,
        filter: &JobFilter,
        signal: Option<i32>,
        whom: Recipients,
    ) -> Result<Option<Reply>, Refusal> {
        if let Some(signal) = signal
            && !(1..=64).contains(&signal)
        {
            return Err(Refusal::invalid(format!("there is no signal {signal}")));
        }
        let Chosen { ids, refused } = self.choose(caller, filter)?;
        let mut cancelling = Cancelling {
            clients: vec![client],
            uid: caller.user.uid,
            who: caller.user.name.clone(),
            key,
            signal: signal.map(|signal| (signal, whom)),
            named: !filter.ids.is_empty(),
            left: ids,
            changed: 0,
            refused,
        };
        if cancelling.left.len() > PIECE && self.cancelling.len() < UNDER_WAY {
            self.order_of_ends(&mut cancelling.left);
            self.cancelling.push_back(cancelling);
            self.cancel_next(now);
            return Ok(None);
        }
        cancelling.left.reverse();
        let all = cancelling.left.len();
        self.cancel_some(now, &mut cancelling, all);
        Ok(Some(cancelling.answer()))
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
            return Err(Refusal::new(
                RefusalCode::WrongState,
                format!(
                    "job {} does not run: there is nothing to send a signal to",
                    self.name_of(id)
                ),
            ));
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
        let waited_for = job.is_waiting().then(|| self.reason(now, job));
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        match &mut job.phase {
            Phase::Waiting(_) => {
                let note = CancelNote {
                    who,
                    waited_for: waited_for.as_deref(),
                }
                .to_string();
                let end = End::never_ran(EndCause::Cancelled, now);
                self.uncount_job(now, id);
                self.happened(now, "cancelled", who, format!("job {id}"), String::new());
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
        let (launched, first) = (run.launched, run.first());
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

    pub(crate) fn hold(
        &mut self,
        now: Time,
        caller: &Caller,
        filter: &JobFilter,
        as_user: bool,
    ) -> Result<Reply, Refusal> {
        self.each_waiting(now, caller, filter, "held", |job, admin| {
            let slurm = job.spec().dialect == Dialect::Slurm;
            let foreign = slurm || job.submitted.uid != caller.user.uid;
            let by = match admin && !as_user && foreign {
                true => HeldBy::Admin,
                false => HeldBy::User,
            };
            job.held = Some(by.upon(job.held));
            Ok(())
        })
    }

    pub(crate) fn release(
        &mut self,
        now: Time,
        caller: &Caller,
        filter: &JobFilter,
    ) -> Result<Reply, Refusal> {
        self.each_waiting(now, caller, filter, "released", |job, admin| {
            if job.held == Some(HeldBy::Admin) && !admin {
                return Err(Refusal::new(
                    RefusalCode::Forbidden,
                    format!("job {} is held by an administrator", job.id),
                )
                .about(About::Held));
            }
            job.held = None;
            Ok(())
        })
    }

    /// Changes waiting jobs one by one.
    fn each_waiting(
        &mut self,
        now: Time,
        caller: &Caller,
        filter: &JobFilter,
        word: &str,
        mut change: impl FnMut(&mut Job, bool) -> Result<(), Refusal>,
    ) -> Result<Reply, Refusal> {
        let admin = self.is_admin(caller);
        let Chosen { ids, mut refused } = self.choose(caller, filter)?;
        let mut changed = 0;
        for id in ids {
            let name = self.name_of(id);
            let Some(job) = self.jobs.get_mut(&id) else {
                continue;
            };
            let done = if job.is_waiting() {
                change(job, admin)
            } else {
                Err(runs_already(&name))
            };
            if let Err(refusal) = done {
                refused.push(name, refusal);
                continue;
            }
            changed += 1;
            self.save_job(id);
            self.happened(
                now,
                word,
                &caller.user.name,
                format!("job {id}"),
                String::new(),
            );
            self.review(now, id);
        }
        Ok(Reply::Done {
            changed,
            refused: refused.told(),
        })
    }

    pub(crate) fn change(
        &mut self,
        now: Time,
        caller: &Caller,
        filter: &JobFilter,
        change: &JobChange,
        facts: &Facts,
    ) -> Result<Reply, Refusal> {
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
        crate::change::check(change)?;
        let Chosen { ids, mut refused } = self.choose(caller, filter)?;
        let mut changed = 0;
        self.change_throttles(now, &ids, change);
        for id in ids {
            match self.change_one(now, caller, id, change) {
                Ok(()) => changed += 1,
                Err(refusal) => refused.push(self.name_of(id), refusal),
            }
        }
        Ok(Reply::Done {
            changed,
            refused: refused.told(),
        })
    }

    /// `at_once` belongs to the array as a whole.
    fn change_throttles(&mut self, now: Time, ids: &[JobId], change: &JobChange) {
        let Some(at_once) = change.at_once else {
            return;
        };
        let bases: BTreeSet<JobId> = ids.iter().map(|id| self.base_of(*id)).collect();
        for base in bases {
            let Some(group) = self.groups.get_mut(&base) else {
                continue;
            };
            group.at_once = (at_once > 0).then_some(at_once);
            let row = group.row();
            self.record(Record::Changed(Box::new(row)));
            self.refill_array(now, base);
        }
    }

    pub(crate) fn change_one(
        &mut self,
        now: Time,
        caller: &Caller,
        id: JobId,
        change: &JobChange,
    ) -> Result<(), Refusal> {
        let Some(job) = self.jobs.get(&id) else {
            return Ok(());
        };
        if !job.is_waiting() {
            return self.change_running(now, caller, id, change);
        }
        if change.keep_nodes.is_some() {
            let why = format!(
                "job {} waits and has no nodes yet: say which it must have",
                self.name_of(id)
            );
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Waiting));
        }
        self.may_prioritize(caller, job, change)?;
        let old = job.submitted.clone();
        let mut spec = old.spec.clone();
        crate::change::apply(&mut spec, change);
        let owner = self.owner(caller, &old);
        let outcome = Outcome {
            queue: change.queue.as_deref(),
            attached: self.is_attached(id, &spec),
            ..Outcome::of_change(&owner, &old, &spec)
        };
        let Judged { queue, place } = self.check_result(caller, &outcome)?;
        self.replace(id, &old, spec, queue, place);
        self.hold_by_priority(caller, id, change);
        let who = caller.user.name.clone();
        self.happened(now, "changed", &who, format!("job {id}"), String::new());
        self.review(now, id);
        Ok(())
    }

    /// The job's user as far as known.
    pub(crate) fn owner(&self, caller: &Caller, job: &Submitted) -> User {
        if caller.user.uid == job.uid {
            return caller.user.clone();
        }
        match self.users.get(&job.uid) {
            Some(known) if !known.user.name.is_empty() => known.user.clone(),
            Some(_) | None => User {
                uid: job.uid,
                gid: job.gid,
                name: job.user.clone(),
                ..User::default()
            },
        }
    }

    pub(crate) fn replace(
        &mut self,
        id: JobId,
        old: &Arc<Submitted>,
        spec: JobSpec,
        queue: cosy_model::QueueId,
        place: Place,
    ) {
        if self.planner_of(id).dequeue(id) {
            self.count_queued(old.base, false);
        }
        self.inside.remove(&id);
        self.leave_queue(old);
        self.wait_no_longer(Waiter::Job(id), old);
        if let Some(begin) = old.spec.begin {
            self.begins.remove(&(begin, id));
        }
        let new = Arc::new(Submitted {
            base: old.base,
            uid: old.uid,
            gid: old.gid,
            user: old.user.clone(),
            submit: old.submit,
            queue: self.queues[queue.index()].spec.name.clone(),
            spec,
            place,
            flow: old.flow,
            only: None,
        });
        self.wait_for_others(Waiter::Job(id), &new);
        if let Some(begin) = new.spec.begin {
            self.begins.insert((begin, id));
        }
        if !new.spec.request.same_features.is_empty() {
            self.choosers.insert(id);
        }
        if !new.spec.queues.is_empty() {
            self.undecided.insert(id);
        }
        self.count_in_queue(&new, 1);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.submitted = new;
            job.own = true;
        }
        self.save_job(id);
    }
}

pub(crate) fn runs_already(name: &str) -> Refusal {
    Refusal::new(
        RefusalCode::WrongState,
        format!("job {name} does not wait any more: only waiting jobs can be held or changed"),
    )
    .about(About::Running)
}
