//! After the last process: the epilog, the report, and what may be forgotten.

use super::{AfterSteps, HookEnd, Node, Stage, ended_now};
use crate::daemon::Event;
use crate::spool::Outcome;
use crate::{clock, spool};
use cosy_model::node::{AllocationKey, KillCause};
use cosy_model::{DeviceUse, EndCause};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// An outcome that is not forgotten for so long is made to survive the machine.
const SYNC_AFTER: Duration = Duration::from_secs(2);

impl Node {
    pub(super) fn end_unstarted(&mut self, key: AllocationKey, cause: EndCause) {
        let outcome = ended_now(cause);
        self.keep_outcome(key, &outcome);
        self.end(key, outcome);
    }

    pub(super) fn keep_outcome(&self, key: AllocationKey, outcome: &Outcome) {
        if let Err(e) = self.fixed.spool.write_outcome(key, outcome) {
            tracing::error!(job = %key, "cannot keep its outcome: {e}");
        }
    }

    /// Nothing of it runs any more but steps, which are ended: then the epilog, once, then
    /// the end.
    pub(super) fn end(&mut self, key: AllocationKey, mut outcome: Outcome) {
        if outcome.end.cause == EndCause::Cancelled && self.fixed.spool.was_alone(key) {
            outcome.end.cause = EndCause::NodeLost;
        }
        if self.close_steps(key, KillCause::Superseded.into()) {
            let end = &outcome.end;
            let since = end.start.map(|start| clock::ago(end.end.since(start)));
            let then = AfterSteps::End(outcome);
            return self.set(key, Stage::Winding { since, then });
        }
        if self.config.epilog.is_none() {
            return self.settle(key, outcome);
        }
        match self.fixed.spool.epilog(key) {
            Some(failure) => {
                outcome.drain = outcome.drain.or(failure);
                self.settle(key, outcome);
            }
            None => self.begin_epilog(key, Some(outcome)),
        }
    }

    pub(super) fn begin_epilog(&mut self, key: AllocationKey, outcome: Option<Outcome>) {
        let hook = self.hook("epilog", key);
        self.set(key, Stage::Epilog { outcome });
        let Some(hook) = hook else {
            return self.epilog_done(key, Ok(()));
        };
        let (events, reaper) = (self.fixed.events.clone(), self.reaper.clone());
        tokio::spawn(async move {
            let result = hook.run(reaper, Arc::new(Notify::new())).await;
            let _ = events
                .send(Event::Hook(HookEnd::Cleaned(key, result)))
                .await;
        });
    }

    /// A hook has ended.
    pub fn hook_ended(&mut self, end: HookEnd) {
        match end {
            HookEnd::Prepared(key, result) => self.prepared(key, result),
            HookEnd::Cleaned(key, result) => {
                let _ = self
                    .fixed
                    .spool
                    .mark_epilog(key, result.as_ref().err().map(String::as_str));
                self.epilog_done(key, result);
            }
        }
    }

    fn epilog_done(&mut self, key: AllocationKey, result: Result<(), String>) {
        let Some(attempt) = self.attempts.get_mut(&key) else {
            return;
        };
        let Stage::Epilog { outcome } = &mut attempt.stage else {
            return;
        };
        let failure = result.err();
        match outcome.take() {
            Some(mut outcome) => {
                outcome.drain = outcome.drain.or(failure);
                self.settle(key, outcome);
            }
            None => self.released(key, failure),
        }
    }

    pub(super) fn settle(&mut self, key: AllocationKey, mut outcome: Outcome) {
        outcome.drain = outcome.drain.or_else(|| self.drain_by_steps(key));
        self.tell_steps(key);
        self.add_device_use(key, &mut outcome);
        let drain = outcome.drain.clone();
        self.report_ended(key, outcome.end.clone(), drain.clone());
        let stage = Stage::Ended {
            outcome,
            at: Instant::now(),
            synced: false,
        };
        self.set(key, stage);
        let released = self
            .attempts
            .get_mut(&key)
            .is_some_and(|a| std::mem::take(&mut a.release));
        if released {
            // Its end has told what it used.
            self.report_released(key, drain, DeviceUse::default());
        }
    }

    /// The outcome tells it from now on, to later daemons too. One of an earlier daemon has it.
    fn add_device_use(&mut self, key: AllocationKey, outcome: &mut Outcome) {
        let used = self.device_use(key);
        if outcome.end.devices.is_empty() && !used.is_empty() {
            outcome.end.devices = used;
            self.keep_outcome(key, outcome);
        }
    }

    pub(super) fn released(&mut self, key: AllocationKey, drain: Option<String>) {
        let drain = drain.or_else(|| self.drain_by_steps(key));
        self.tell_steps(key);
        let used = self.device_use(key);
        self.drop_attempt(key);
        self.report_released(key, drain, used);
    }

    pub(super) fn drop_attempt(&mut self, key: AllocationKey) {
        self.attempts.remove(&key);
        self.forget_steps(key);
        // Its shepherds have removed theirs; steps leave the job's own.
        self.fixed.cgroups.remove_job(&spool::name_of(key));
        if let Err(e) = self.fixed.spool.remove(key) {
            tracing::warn!(job = %key, "spool: {e}");
        }
    }

    /// Makes outcomes that wait for the controller survive the machine, elsewhere than on
    /// the event loop.
    pub fn sync_old_outcomes(&mut self) {
        let mut old = Vec::new();
        for (key, attempt) in &mut self.attempts {
            if let Stage::Ended { at, synced, .. } = &mut attempt.stage
                && !*synced
                && at.elapsed() >= SYNC_AFTER
            {
                *synced = true;
                old.push(self.fixed.spool.path(*key));
            }
        }
        if !old.is_empty() {
            tokio::task::spawn_blocking(move || {
                for directory in old {
                    // It may have been forgotten meanwhile.
                    let _ = spool::sync_outcome(&directory);
                }
            });
        }
    }
}
