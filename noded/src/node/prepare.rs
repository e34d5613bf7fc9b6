//! Before the start: health check and prolog.

use super::{AfterHooks, HookEnd, Node, Stage};
use crate::daemon::Event;
use crate::hooks::Hook;
use crate::{private_tmp, sys};
use cosy_model::node::{AllocationKey, PrepareFailure};
use cosy_model::{EndCause, variables};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Notify;

impl Node {
    pub(super) fn hook(&self, kind: &'static str, key: AllocationKey) -> Option<Hook> {
        let command = match kind {
            "prolog" => &self.config.prolog,
            "epilog" => &self.config.epilog,
            _ => &self.config.health_check,
        };
        // The program of a trigger may run beside a job of somebody else.
        let own = key.job()?;
        let attempt = self.attempts.get(&key)?;
        Some(Hook {
            kind,
            command: command.clone()?,
            timeout: self.config.hook_timeout,
            environment: vec![
                (variables::JOB_ID, own.job.to_string()),
                (variables::JOB_ATTEMPT, own.attempt.to_string()),
                (variables::JOB_UID, attempt.uid.to_string()),
                (variables::JOB_USER, attempt.user.clone()),
                (variables::NODENAME, self.fixed.name.clone()),
            ],
        })
    }

    /// Health check and prolog, then `next`. At once when there are none.
    pub(super) fn prepare(&mut self, key: AllocationKey, next: AfterHooks) {
        let hooks: Vec<Hook> = ["health check", "prolog"]
            .into_iter()
            .filter_map(|kind| self.hook(kind, key))
            .collect();
        let cancel = Arc::new(Notify::new());
        let stage = Stage::Preparing {
            cancel: Arc::clone(&cancel),
            next,
        };
        self.set(key, stage);
        if hooks.is_empty() {
            return self.prepared(key, Ok(()));
        }
        let (events, reaper) = (self.fixed.events.clone(), self.reaper.clone());
        tokio::spawn(async move {
            let mut result = Ok(());
            for hook in hooks {
                result = hook.run(reaper.clone(), Arc::clone(&cancel)).await;
                if result.is_err() {
                    break;
                }
            }
            let end = HookEnd::Prepared(key, result);
            let _ = events.send(Event::Hook(end)).await;
        });
    }

    pub(super) fn prepared(&mut self, key: AllocationKey, result: Result<(), String>) {
        let Some(Stage::Preparing { next, .. }) = self.attempts.get(&key).map(|a| &a.stage) else {
            return;
        };
        let next = *next;
        let result = result.and_then(|()| self.make_private(key));
        match (next, result) {
            (AfterHooks::End, _) => self.end_unstarted(key, EndCause::Cancelled),
            (AfterHooks::Release, _) => self.release_held(key),
            (AfterHooks::Report | AfterHooks::Run, Err(reason)) => self.failed(key, reason),
            (AfterHooks::Report, Ok(())) => {
                let _ = self.fixed.spool.mark_prepared(key, sys::now());
                self.set(key, Stage::Prepared);
                self.report_again(key);
                self.open_for_steps(key, Instant::now());
            }
            (AfterHooks::Run, Ok(())) => self.start(key),
        }
    }

    /// The directories that a job has to itself here.
    fn make_private(&self, key: AllocationKey) -> Result<(), String> {
        let places = &self.config.private_tmp;
        if !places.is_empty() && sys::own_uid().0 != 0 {
            return Err("private_tmp needs a noded that runs as root".to_owned());
        }
        private_tmp::make(&self.fixed.spool.path(key), places)
    }

    /// The node is at fault: the job goes elsewhere, nothing of it stays here.
    pub(super) fn failed(&mut self, key: AllocationKey, reason: String) {
        tracing::error!(job = %key, "not prepared: {reason}");
        self.forget_steps(key);
        if let Err(e) = self.fixed.spool.remove(key) {
            tracing::warn!(job = %key, "spool: {e}");
        }
        let failure = PrepareFailure {
            reason,
            drain: true,
        };
        self.set(key, Stage::Failed(failure));
        self.report_again(key);
    }
}
