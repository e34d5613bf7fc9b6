//! Orders of the controller. Each may come twice; the second time only the report is repeated.

use super::{AfterHooks, AfterSteps, Node, Stage};
use crate::shepherd::signals::{self, Order};
use crate::spool::Work;
use crate::sys;
use cosy_model::node::{Allocation, AllocationKey, AttemptKey, KillCause, KillOrder, Launch};
use cosy_model::step::JobPart;
use cosy_model::{DeviceUse, End, EndCause, Span, limits};
use std::sync::Arc;

impl Node {
    /// An allocation to hold.
    pub fn order_prepare(&mut self, allocation: Box<Allocation>) {
        let key = allocation.key;
        if self.attempts.contains_key(&key) {
            self.shrink(&allocation);
            return self.report_again(key);
        }
        if let Err(failure) = self.admit(&allocation) {
            return self.refuse(key, failure.reason, failure.drain);
        }
        let work = Work::Hold(allocation);
        match self.fixed.spool.create(key, &work, None) {
            Err(e) => self.refuse(key, format!("cannot keep the job in the spool: {e}"), true),
            Ok(()) => {
                self.insert(key, Some(work.allocation()), Stage::Prepared);
                self.prepare(key, AfterHooks::Report);
            }
        }
    }

    /// On the first node of a job that has given nodes back or goes on without lost ones: no step
    /// goes there any more, but to those that have taken their place. Nothing of it is kept in the spool, the controller says it again at each registration.
    fn shrink(&mut self, allocation: &Allocation) {
        let Some(attempt) = self.attempts.get(&allocation.key) else {
            return;
        };
        let known = attempt.allocation.as_ref().map_or(&[][..], |a| &a.parts);
        let names = |parts: &[JobPart]| -> Vec<String> {
            parts.iter().map(|part| part.peer.node.clone()).collect()
        };
        let more = allocation.parts.len() > known.len();
        if allocation.parts.is_empty() || more || names(&allocation.parts) == names(known) {
            return;
        }
        if let Err(why) = self.admit(allocation) {
            return tracing::warn!(job = %allocation.key, "other nodes refused: {}", why.reason);
        }
        if let Some(attempt) = self.attempts.get_mut(&allocation.key) {
            attempt.allocation = Some(Arc::new(allocation.clone()));
        }
        self.steps.shrink(allocation);
    }

    /// A program to start.
    pub fn order_launch(&mut self, launch: Box<Launch>) {
        let key = launch.allocation.key;
        match self.attempts.get_mut(&key).map(|a| &mut a.stage) {
            None => self.launch_new(launch),
            Some(Stage::Prepared) => self.launch_held(launch, true),
            Some(Stage::Preparing {
                next: AfterHooks::Report,
                ..
            }) => self.launch_held(launch, false),
            Some(_) => self.report_again(key),
        }
    }

    fn launch_new(&mut self, launch: Box<Launch>) {
        let key = launch.allocation.key;
        if let Err(failure) = self.admit(&launch.allocation) {
            return self.refuse(key, failure.reason, failure.drain);
        }
        let (work, script) = self.task(launch);
        match self.fixed.spool.create(key, &work, script.as_deref()) {
            Err(e) => self.refuse(key, format!("cannot keep the job in the spool: {e}"), true),
            Ok(()) => {
                self.insert(key, Some(work.allocation()), Stage::Prepared);
                self.prepare(key, AfterHooks::Run);
            }
        }
    }

    fn launch_held(&mut self, launch: Box<Launch>, prepared: bool) {
        let key = launch.allocation.key;
        if let Err(failure) = self.admit(&launch.allocation) {
            return self.refuse(key, failure.reason, failure.drain);
        }
        let (work, script) = self.task(launch);
        self.forget_steps(key);
        if let Some(attempt) = self.attempts.get_mut(&key) {
            attempt.allocation = Some(Arc::new(work.allocation().clone()));
        }
        let spool = &mut self.fixed.spool;
        let kept = match prepared {
            true => spool.replace(key, &work, script.as_deref()),
            false => spool.create(key, &work, script.as_deref()),
        };
        match (kept, self.attempts.get_mut(&key).map(|a| &mut a.stage)) {
            (Err(e), _) => {
                self.attempts.remove(&key);
                self.refuse(key, format!("cannot keep the job in the spool: {e}"), true);
            }
            (Ok(()), Some(Stage::Preparing { next, .. })) => *next = AfterHooks::Run,
            (Ok(()), _) => self.start(key),
        }
    }

    /// The controller wants an attempt to end.
    pub fn order_kill(&mut self, key: AllocationKey, kill: KillOrder) {
        let end_cause = match kill.cause {
            KillCause::TimeLimit => EndCause::TimeLimit,
            KillCause::Cancelled | KillCause::Superseded | KillCause::Requeued => {
                EndCause::Cancelled
            }
        };
        let Some(attempt) = self.attempts.get_mut(&key) else {
            // Never heard of it: it did not run here and will not.
            let end = End::never_ran(end_cause, sys::now());
            return self.report_ended(key, end, None);
        };
        match &mut attempt.stage {
            Stage::Running { .. } => {
                self.tell_shepherd(key, Order::Kill(kill));
                self.close_steps(key, kill);
            }
            Stage::Winding { .. } => drop(self.close_steps(key, kill)),
            Stage::Preparing { cancel, next } => {
                *next = AfterHooks::End;
                cancel.notify_one();
            }
            Stage::Prepared if key.job().is_some_and(|key| self.steps.close(key, kill)) => {
                let then = AfterSteps::Unstarted(end_cause);
                self.set(key, Stage::Winding { since: None, then });
            }
            Stage::Prepared | Stage::Failed(_) => self.end_unstarted(key, end_cause),
            Stage::Ended { .. } => self.report_again(key),
            Stage::Cleaning { .. } | Stage::Epilog { .. } => {}
        }
    }

    /// The controller may have given others what may run again: it is ended here.
    pub fn end_alone(&mut self) {
        let restartable = self.attempts.iter().filter(|(_, attempt)| {
            let allocation = attempt.allocation.as_ref();
            let ended = matches!(
                attempt.stage,
                Stage::Ended { .. } | Stage::Failed(_) | Stage::Epilog { .. }
            );
            !ended && allocation.is_some_and(|allocation| allocation.runs_again)
        });
        let restartable: Vec<AllocationKey> = restartable.map(|(key, _)| *key).collect();
        for key in restartable {
            tracing::warn!(job = %key, "attempt {} is ended: the controller may have given its job to others", key.attempt());
            if let Err(e) = self.fixed.spool.mark_alone(key) {
                tracing::warn!(job = %key, "spool: {e}");
            }
            self.order_kill(key, KillCause::Superseded.into());
        }
    }

    /// A signal for a running attempt.
    pub fn order_signal(
        &mut self,
        key: AttemptKey,
        signal: i32,
        script_only: bool,
        steps_only: bool,
    ) {
        if !(1..=64).contains(&signal) {
            return;
        }
        let order = Order::Signal {
            signal,
            script_only,
        };
        if !steps_only {
            self.keep_early_signal(key.into(), order);
            self.tell_shepherd(key.into(), order);
        }
        if !script_only {
            self.steps.signal_all(key, signal);
        }
    }

    /// A signal for an attempt that is still being prepared is told to its shepherd when there
    /// is one.
    fn keep_early_signal(&mut self, key: AllocationKey, order: Order) {
        if let Some(attempt) = self.attempts.get_mut(&key)
            && matches!(attempt.stage, Stage::Preparing { .. } | Stage::Prepared)
            && attempt.early.len() < limits::EARLY_SIGNALS
        {
            attempt.early.push(order);
        }
    }

    /// The script of a running attempt is told something.
    pub fn order_note(&mut self, key: AttemptKey, text: &str) {
        let runs = self.attempts.get(&key.into()).map(|a| &a.stage);
        if !matches!(runs, Some(Stage::Running { .. })) {
            return;
        }
        let line = text.replace(char::is_control, "?");
        match self.fixed.spool.add_note(key.into(), &line) {
            Ok(()) => self.tell_shepherd(key.into(), Order::Note),
            Err(e) => tracing::warn!(job = %key.job, "a message is not passed on: {e}"),
        }
    }

    /// Everything of an attempt stands still from now on.
    pub fn order_suspend(&mut self, key: AttemptKey) {
        self.tell_shepherd(key.into(), Order::Suspend);
        self.steps.stand_still(key);
    }

    /// Everything of an attempt goes on.
    pub fn order_resume(&mut self, key: AttemptKey) {
        self.tell_shepherd(key.into(), Order::Resume);
        self.steps.go_on(key);
    }

    /// An attempt has another time limit.
    pub fn order_limit(&mut self, key: AttemptKey, limit: Span) {
        self.tell_shepherd(key.into(), Order::Limit(signals::seconds(limit)));
        self.steps.limit(key, limit);
    }

    /// The allocation is over on this node.
    pub fn order_release(&mut self, key: AllocationKey) {
        let Some(attempt) = self.attempts.get_mut(&key) else {
            return self.report_released(key, None, DeviceUse::default());
        };
        attempt.release = true;
        match &mut attempt.stage {
            Stage::Preparing { cancel, next } => {
                *next = match next {
                    AfterHooks::Report | AfterHooks::Release => AfterHooks::Release,
                    AfterHooks::Run | AfterHooks::End => AfterHooks::End,
                };
                cancel.notify_one();
            }
            Stage::Prepared => self.release_held(key),
            Stage::Running { .. } => {
                self.tell_shepherd(key, Order::Kill(KillCause::Superseded.into()));
                self.close_steps(key, KillCause::Superseded.into());
            }
            Stage::Winding { .. } => drop(self.close_steps(key, KillCause::Superseded.into())),
            Stage::Cleaning { .. } | Stage::Epilog { .. } => {}
            Stage::Ended { outcome, .. } => {
                let drain = outcome.drain.clone();
                attempt.release = false;
                self.report_released(key, drain, DeviceUse::default());
            }
            Stage::Failed(_) => self.released(key, None),
        }
    }

    pub(super) fn release_held(&mut self, key: AllocationKey) {
        if self.close_steps(key, KillCause::Superseded.into()) {
            let then = AfterSteps::Release;
            return self.set(key, Stage::Winding { since: None, then });
        }
        self.begin_epilog(key, None);
    }

    /// The end that was reported is durable.
    pub fn order_forget(&mut self, key: AllocationKey) {
        match self.attempts.get(&key).map(|a| &a.stage) {
            Some(Stage::Ended { .. } | Stage::Failed(_)) => self.drop_attempt(key),
            Some(stage) => {
                tracing::warn!(job = %key, "told to forget attempt {} in stage {stage:?}", key.attempt());
            }
            None => {}
        }
    }
}
