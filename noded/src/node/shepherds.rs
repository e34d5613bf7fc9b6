//! Shepherds: their start by the nursery, what they are told, their end, and what one that was
//! killed leaves.

use super::{Node, ShepherdState, Stage, ended_now, tell_child};
use crate::cgroup::Group;
use crate::daemon::Event;
use crate::nursery::{Nursery, NurseryEvent};
use crate::shepherd::nursery::{NurseryMessage, ShepherdSpec};
use crate::shepherd::signals::Order;
use crate::spool::{KeptAttempt, Outcome, Phase, Work};
use crate::{clock, spool, sweep, sys};
use cosy_model::node::AllocationKey;
use cosy_model::{EndCause, Time};
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// How often a shepherd is started for one attempt before the attempt is given up.
const SHEPHERD_TRIES: u32 = 3;
/// Before another try to start a nursery.
const NURSERY_PAUSE: Duration = Duration::from_secs(1);

impl Node {
    pub(super) fn start(&mut self, key: AllocationKey) {
        let hooks = self.config.prolog.is_some() || self.config.health_check.is_some();
        if hooks && let Err(e) = self.fixed.spool.mark_prepared(key, Time::EPOCH) {
            return self.failed(key, format!("cannot keep the job in the spool: {e}"));
        }
        self.request_shepherd(key);
        self.report_again(key);
    }

    fn request_shepherd(&mut self, key: AllocationKey) {
        let since = Instant::now();
        let early = self.attempts.get_mut(&key).map(|a| &mut a.early);
        let reach = ShepherdState::Expected(early.map(std::mem::take).unwrap_or_default());
        self.set(key, Stage::Running { since, reach });
        self.open_for_steps(key, since);
        let spec = ShepherdSpec {
            attempt: key,
            step: None,
        };
        self.nursery.shepherd_requests().send(spec, None);
    }

    /// Something came from the nursery.
    pub fn nursery_event(&mut self, event: NurseryEvent) {
        match event {
            NurseryEvent::Messages(messages) => {
                for message in messages {
                    self.nursery_message(message);
                }
            }
            NurseryEvent::Lost(pid) => self.nursery_lost(pid),
        }
    }

    fn nursery_message(&mut self, message: NurseryMessage) {
        match message {
            NurseryMessage::Started(spec, pid) if spec.step.is_some() => {
                self.steps.supervisor_started(spec, pid)
            }
            NurseryMessage::Started(spec, pid) => {
                self.shepherd_started(spec.attempt, Pid::from_raw(pid))
            }
            NurseryMessage::Ended(pid) if self.steps.child_ended(pid) => self.look_at_quiet(),
            NurseryMessage::Ended(pid) => {
                if let Some(key) = self.children.remove(&pid) {
                    self.shepherd_gone(key);
                }
            }
            NurseryMessage::Failed(spec, errno) if spec.step.is_some() => {
                self.steps.supervisor_failed(spec, errno);
                self.look_at_quiet();
            }
            NurseryMessage::Failed(spec, errno) => {
                let why = sys::errno_text(errno);
                self.failed(spec.attempt, format!("cannot make a shepherd: {why}"));
            }
        }
    }

    fn shepherd_started(&mut self, key: AllocationKey, pid: Pid) {
        self.children.insert(pid.as_raw(), key);
        let stage = self.attempts.get_mut(&key).map(|a| &mut a.stage);
        if let Some(Stage::Running { reach, .. }) = stage
            && let ShepherdState::Expected(orders) = reach
        {
            let orders = std::mem::take(orders);
            *reach = ShepherdState::Child(pid);
            for order in orders {
                self.tell_shepherd(key, order);
            }
        }
    }

    pub(super) fn tell_shepherd(&mut self, key: AllocationKey, order: Order) {
        let stage = self.attempts.get_mut(&key).map(|a| &mut a.stage);
        let Some(Stage::Running { reach, .. }) = stage else {
            return;
        };
        let sent = match reach {
            ShepherdState::Expected(orders) => {
                orders.push(order);
                Ok(())
            }
            ShepherdState::Child(pid) => tell_child(*pid, self.nursery.pid(), order),
            ShepherdState::Adopted(pidfd) => sys::queue_by_pidfd(pidfd, order.encode()),
        };
        if let Err(e) = sent {
            tracing::debug!(job = %key, "shepherd not reached: {e}");
        }
    }

    /// Its shepherds go on; those that it has not started are requested again.
    fn nursery_lost(&mut self, pid: i32) {
        if pid != self.nursery.pid() {
            return;
        }
        tracing::error!("the nursery of shepherds was killed; starting another");
        let (events, options) = (self.fixed.events.clone(), &self.fixed.nursery_options);
        match Nursery::start(self.fixed.spool.directory(), options, events.clone()) {
            Ok(nursery) => self.nursery = nursery,
            Err(e) => {
                tracing::error!("no nursery: {e}");
                let retry = Event::Nursery(NurseryEvent::Lost(pid));
                tokio::spawn(async move {
                    tokio::time::sleep(NURSERY_PAUSE).await;
                    let _ = events.send(retry).await;
                });
                return;
            }
        }
        self.children.clear();
        self.steps.nursery_replaced(&self.nursery);
        self.look_at_quiet();
        let lost: Vec<AllocationKey> = self
            .attempts
            .iter()
            .filter(|(_, a)| match &a.stage {
                Stage::Running { reach, .. } => !matches!(reach, ShepherdState::Adopted(_)),
                _ => false,
            })
            .map(|(key, _)| *key)
            .collect();
        for key in lost {
            self.shepherd_gone(key);
        }
    }

    /// A shepherd has ended: with an outcome, or without.
    pub fn shepherd_gone(&mut self, key: AllocationKey) {
        if let Some(outcome) = self.fixed.spool.outcome(key) {
            return self.end(key, outcome);
        }
        let kept = self
            .fixed
            .spool
            .open_launch(key)
            .and_then(|f| Ok((spool::read_launch::<Work>(&f)?, sys::lock_holder(&f)?)));
        match kept {
            // Another shepherd was quicker.
            Ok((kept, Some(pid))) => self.follow(key, pid, kept.start),
            Ok((kept, None)) if kept.phase == Phase::Started => {
                // Between the two looks it may have finished after all.
                match self.fixed.spool.outcome(key) {
                    Some(outcome) => self.end(key, outcome),
                    None => self.supervisor_lost(key, kept),
                }
            }
            Ok(_) => self.start_again(key),
            Err(e) => {
                let reason = format!("what the node kept of the job: {e}");
                self.end_unstarted(key, EndCause::LaunchFailed(reason));
            }
        }
    }

    fn start_again(&mut self, key: AllocationKey) {
        let Some(attempt) = self.attempts.get_mut(&key) else {
            return;
        };
        attempt.tries += 1;
        if attempt.tries < SHEPHERD_TRIES {
            self.request_shepherd(key);
        } else {
            let reason = "its shepherd on the node ended before it began".to_owned();
            self.end_unstarted(key, EndCause::LaunchFailed(reason));
        }
    }

    pub(super) fn supervisor_lost(&mut self, key: AllocationKey, kept: KeptAttempt) {
        tracing::warn!(job = %key, "the shepherd of attempt {} was killed; cleaning up", key.attempt());
        let since = clock::moment_of(kept.start);
        self.set(key, Stage::Cleaning { since });
        let groups: Vec<Group> = match kept.work {
            Work::Run(task) => task.groups,
            Work::Hold(_) => Vec::new(),
        };
        let lost = sweep::Lost {
            mark: self.mark(key),
            uid: self.attempts.get(&key).map_or(0, |a| a.uid),
            groups,
            start: kept.start,
            shepherd: None,
            with_steps: false,
            cause: EndCause::SupervisorLost,
        };
        self.sweep(key, lost);
    }

    pub(super) fn sweep(&self, key: AllocationKey, lost: sweep::Lost) {
        let events = self.fixed.events.clone();
        tokio::spawn(async move {
            let swept = tokio::task::spawn_blocking(move || sweep::sweep(&lost)).await;
            let outcome = swept.unwrap_or_else(|_| ended_now(EndCause::SupervisorLost));
            let _ = events.send(Event::Swept(key, outcome)).await;
        });
    }

    /// What a killed shepherd left is gone.
    pub fn swept(&mut self, key: AllocationKey, outcome: Outcome) {
        self.keep_outcome(key, &outcome);
        self.end(key, outcome);
    }
}
