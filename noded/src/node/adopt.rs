//! What is there when the daemon starts: attempts that the spool keeps, and processes of
//! attempts that it does not keep.

use super::{AfterHooks, Node, ShepherdState, Stage, began, ended_now};
use crate::cgroup::AttemptLimits;
use crate::daemon::Event;
use crate::spool::{KeptAttempt, Phase, Work};
use crate::{spool, sweep, sys};
use cosy_model::node::AllocationKey;
use cosy_model::{EndCause, Time};
use nix::unistd::Pid;
use std::sync::Arc;
use std::time::Instant;

impl Node {
    /// Takes up every attempt in the spool.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub fn adopt(&mut self, boot: &str) -> std::io::Result<()> {
        let kept = self.fixed.spool.list()?;
        let runs = sweep::attempts_of(&self.fixed.instance);
        // A lock does not outlive the machine, and neither does a process.
        let works = |key: &AllocationKey| self.fixed.spool.holder(*key).is_some();
        let same_boot = self.fixed.spool.last_boot().as_deref() == Some(boot)
            || kept.iter().any(|key| runs.contains(key) || works(key));
        for key in kept {
            if same_boot {
                self.adopt_one(key);
            } else {
                self.adopt_after_restart(key);
            }
        }
        for key in runs {
            if !self.attempts.contains_key(&key) {
                tracing::error!(job = %key, "attempt {} runs and is not in the spool: it is ended", key.attempt());
                self.end_unkept(key);
            }
        }
        self.steps.adopt_left_over();
        self.fixed.spool.set_boot(boot)?;
        let alive: Vec<String> = self
            .attempts
            .iter()
            .filter(|(_, a)| !matches!(a.stage, Stage::Ended { .. }))
            .map(|(key, _)| spool::name_of(*key))
            .collect();
        self.fixed
            .cgroups
            .clean(|name| alive.iter().any(|a| a == name));
        Ok(())
    }

    /// The machine was restarted: what has no outcome was lost with it.
    fn adopt_after_restart(&mut self, key: AllocationKey) {
        let outcome = self.fixed.spool.outcome(key).unwrap_or_else(|| {
            let outcome = ended_now(EndCause::NodeLost);
            self.keep_outcome(key, &outcome);
            outcome
        });
        if let Some(key) = key.job() {
            self.steps.discard(key);
        }
        self.insert(key, None, Stage::Prepared);
        self.settle(key, outcome);
    }

    fn adopt_one(&mut self, key: AllocationKey) {
        let kept =
            self.fixed.spool.open_launch(key).and_then(|file| {
                Ok((spool::read_launch::<Work>(&file)?, sys::lock_holder(&file)?))
            });
        let outcome = self.fixed.spool.outcome(key);
        match (kept, outcome) {
            (kept, Some(outcome)) => {
                let who = kept.as_ref().ok().map(|(k, _)| k.work.allocation());
                self.insert(key, who, Stage::Prepared);
                if let Some(allocation) = who {
                    self.steps.adopt(allocation);
                }
                self.end(key, outcome);
            }
            (Ok((kept, holder)), None) => self.adopt_unended(key, kept, holder),
            // It was whole when it got its name, so somebody has damaged it, and it may run.
            (Err(e), None) => {
                tracing::error!(job = %key, "what is kept of attempt {} cannot be read ({e}): what runs of it is ended", key.attempt());
                self.end_unkept(key);
            }
        }
    }

    /// Ends what runs of an attempt of which nothing is known any more: found by its lock, by
    /// control group and by what its processes say of themselves.
    fn end_unkept(&mut self, key: AllocationKey) {
        self.insert(key, None, Stage::Prepared);
        let name = spool::name_of(key);
        let groups = self.fixed.cgroups.groups_for(AttemptLimits {
            name: &name,
            memory_bytes: Some(0),
            cores: &[],
            denied: &[],
            trigger: false,
        });
        let start = sys::now();
        self.set(
            key,
            Stage::Cleaning {
                since: Instant::now(),
            },
        );
        self.sweep(
            key,
            sweep::Lost {
                mark: self.mark(key),
                uid: u32::MAX, // nobody's
                groups,
                start,
                shepherd: self.fixed.spool.holder(key),
                with_steps: true,
                cause: EndCause::NodeLost,
            },
        );
    }

    fn adopt_unended(&mut self, key: AllocationKey, kept: KeptAttempt, holder: Option<Pid>) {
        let allocation = kept.work.allocation();
        self.insert(key, Some(allocation), Stage::Prepared);
        self.steps.adopt(allocation);
        match (&kept.work, kept.phase, holder) {
            (Work::Hold(_), Phase::Received, _) => self.prepare(key, AfterHooks::Report),
            (Work::Hold(_), Phase::Prepared | Phase::Started, _) => {
                self.open_for_steps(key, began(kept.start));
            }
            (Work::Run(_), _, Some(pid)) => self.follow(key, pid, kept.start),
            (Work::Run(_), Phase::Received, None) => self.prepare(key, AfterHooks::Run),
            (Work::Run(_), Phase::Prepared, None) => self.start(key),
            (Work::Run(_), Phase::Started, None) => self.supervisor_lost(key, kept),
        }
    }

    /// Watches a shepherd that is not a child of this daemon.
    pub(super) fn follow(&mut self, key: AllocationKey, pid: Pid, since: Time) {
        // The lock is asked again once the process is held: numbers are used again.
        let held = sys::pidfd_open(pid).ok().filter(|_| {
            let file = self.fixed.spool.open_launch(key);
            file.and_then(|f| sys::lock_holder(&f))
                .is_ok_and(|h| h == Some(pid))
        });
        let Some(pidfd) = held.map(Arc::new) else {
            return self.shepherd_gone(key);
        };
        let since = began(since);
        let reach = ShepherdState::Adopted(Arc::clone(&pidfd));
        self.set(key, Stage::Running { since, reach });
        self.open_for_steps(key, since);
        let events = self.fixed.events.clone();
        tokio::spawn(async move {
            if let Ok(fd) = pidfd.try_clone().and_then(sys::watch) {
                let _ = fd.readable().await;
            }
            let _ = events.send(Event::ShepherdGone(key)).await;
        });
    }
}
