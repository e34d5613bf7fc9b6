//! Births, orders and ends of steps' supervisors.

use super::spool::{is_over, outcome, read};
use super::table::{StepEvent, Steps, SupervisorState, parts_of};
use super::{StepOutcome, StepTask, UpKind};
use crate::node::tell_child;
use crate::nursery::Nursery;
use crate::shepherd::nursery::ShepherdSpec;
use crate::shepherd::signals::Order;
use crate::spool::{self, Outcome, Phase};
use crate::{sweep, sys};
use cosy_model::node::{AttemptKey, KillOrder};
use cosy_model::step::{NodeEnd, StepKey, StepRecord};
use cosy_model::{End, EndCause, OsText, RefusalCode, Span};
use nix::unistd::Pid;
use std::sync::Arc;
use std::time::Instant;

fn key_of(spec: ShepherdSpec) -> Option<StepKey> {
    Some(StepKey {
        attempt: spec.attempt.job()?,
        step: spec.step?,
    })
}

impl Steps {
    // ---- the nursery

    /// The nursery has started a supervisor.
    pub fn supervisor_started(&mut self, spec: ShepherdSpec, pid: i32) {
        let Some(key) = key_of(spec) else { return };
        self.children.insert(pid, key);
        let Some(running) = self.running(key) else {
            return;
        };
        if let SupervisorState::Expected(orders) = &mut running.reach {
            let orders = std::mem::take(orders);
            running.reach = SupervisorState::Child(Pid::from_raw(pid));
            for order in orders {
                self.tell(key, order);
            }
        }
    }

    /// No supervisor could be made.
    pub fn supervisor_failed(&mut self, spec: ShepherdSpec, errno: i32) {
        let Some(key) = key_of(spec) else { return };
        let why = format!("cannot make a supervisor: {}", sys::errno_text(errno));
        self.never_ran(key, why);
    }

    /// Some child of the nursery ended; false when it was no supervisor of a step.
    pub fn child_ended(&mut self, pid: i32) -> bool {
        match self.children.remove(&pid) {
            Some(key) => {
                self.supervisor_gone(key);
                true
            }
            None => false,
        }
    }

    /// Another nursery works from now on; what the last one was asked for is lost.
    pub fn nursery_replaced(&mut self, nursery: &Nursery) {
        self.shepherd_requests = nursery.shepherd_requests();
        self.nursery = nursery.pid();
        self.children.clear();
        let lost: Vec<StepKey> = self
            .jobs
            .iter()
            .flat_map(|(attempt, job)| job.running.iter().map(|(step, r)| (*attempt, *step, r)))
            .filter(|(_, _, r)| {
                matches!(r.reach, SupervisorState::Expected(_) | SupervisorState::Child(_))
            })
            .map(|(attempt, step, _)| StepKey { attempt, step })
            .collect();
        for key in lost {
            self.supervisor_gone(key);
        }
    }

    // ---- orders

    pub(super) fn tell(&mut self, key: StepKey, order: Order) {
        let nursery = self.nursery;
        let Some(running) = self.running(key) else {
            return;
        };
        let sent = match &mut running.reach {
            SupervisorState::Expected(orders) => {
                orders.push(order);
                Ok(())
            }
            SupervisorState::Child(pid) => tell_child(*pid, nursery, order),
            SupervisorState::Adopted(pidfd) => sys::queue_by_pidfd(pidfd, order.encode()),
            SupervisorState::Sweeping => Ok(()),
        };
        if let Err(e) = sent {
            tracing::debug!(job = %key.attempt.job, "supervisor of step {key} not reached: {e}");
        }
    }

    /// A signal for all steps of an attempt: their heads are told, who pass it on.
    pub fn signal_all(&mut self, attempt: AttemptKey, signal: i32) {
        let order = Order::Signal {
            signal,
            script_only: false,
        };
        for key in self.keys_of(attempt) {
            if self.running(key).is_some_and(|r| r.task.is_head()) {
                self.tell(key, order);
            }
        }
    }

    /// All steps of an attempt stand still on this node.
    pub fn stand_still(&mut self, attempt: AttemptKey) {
        self.share_energy();
        if let Some(job) = self.jobs.get_mut(&attempt) {
            job.stopped.get_or_insert_with(Instant::now);
        }
        self.tell_all(attempt, Order::Suspend);
    }

    /// The steps of an attempt go on after it was suspended.
    pub fn go_on(&mut self, attempt: AttemptKey) {
        self.share_energy();
        if let Some(job) = self.jobs.get_mut(&attempt)
            && let Some(stopped) = job.stopped.take()
        {
            job.since += stopped.elapsed();
        }
        self.tell_all(attempt, Order::Resume);
    }

    /// The attempt has another limit: so have its steps, within their own.
    pub fn limit(&mut self, attempt: AttemptKey, limit: Span) {
        let Some(job) = self.jobs.get_mut(&attempt) else {
            return;
        };
        Arc::make_mut(&mut job.allocation).limit = limit;
        for key in self.keys_of(attempt) {
            self.tell_limit(key);
        }
    }

    fn tell_all(&mut self, attempt: AttemptKey, order: Order) {
        for key in self.keys_of(attempt) {
            self.tell(key, order);
        }
    }

    pub(super) fn keys_of(&self, attempt: AttemptKey) -> Vec<StepKey> {
        let running = self.jobs.get(&attempt).into_iter();
        let steps = running.flat_map(|job| job.running.keys().copied());
        steps.map(|step| StepKey { attempt, step }).collect()
    }

    /// No more steps start in an attempt, and those that run are ended. True while some
    /// still do: [`Steps::take_quiet`] names the attempt when the last is gone.
    pub fn close(&mut self, attempt: AttemptKey, kill: KillOrder) -> bool {
        let Some(job) = self.jobs.get_mut(&attempt) else {
            return false;
        };
        job.closing = true;
        let waiting = job.first.as_mut().map(|first| first.ledger.dismiss());
        for waiter in waiting.unwrap_or_default() {
            if let Some(watch) = &waiter.watch {
                watch.abort();
            }
            let text = format!("job {} is ending: the step was not started", attempt.job);
            waiter.connection.refuse(RefusalCode::WrongState, text);
        }
        for key in self.keys_of(attempt) {
            self.tell(key, Order::Kill(kill));
        }
        self.end_logins(attempt);
        self.jobs.get(&attempt).is_some_and(|job| !job.is_quiet())
    }

    // ---- ends

    /// Gives back what steps hold whose outcome is there, but whose supervisors were not
    /// yet seen to be gone.
    pub(super) fn release_finished(&mut self, attempt: AttemptKey) {
        let path = self.path(attempt);
        let Some(job) = self.jobs.get_mut(&attempt) else {
            return;
        };
        let mut steps = job.shares.steps();
        steps.extend(job.first.iter().flat_map(|first| first.ledger.running()));
        steps.sort_unstable();
        steps.dedup();
        for step in steps {
            if is_over(&path.join(super::directory_name(step))) {
                job.shares.give_back(step);
                if let Some(first) = &mut job.first {
                    first.ledger.give_back(step);
                }
            }
        }
    }

    /// A supervisor has ended: with an outcome, or without.
    pub(super) fn supervisor_gone(&mut self, key: StepKey) {
        if self
            .running(key)
            .is_none_or(|r| matches!(r.reach, SupervisorState::Sweeping))
        {
            return;
        }
        let directory = self.path_of(key);
        if let Some(outcome) = outcome(&directory) {
            return self.over(key, outcome);
        }
        match read(&directory) {
            // It lives: the nursery was lost.
            Ok((_, Some(pid))) => self.follow(key, pid),
            Ok((kept, None)) if kept.phase == Phase::Started => match outcome(&directory) {
                Some(outcome) => self.over(key, outcome),
                None => self.sweep(key, kept.start),
            },
            Ok(_) => {
                let why = "its supervisor on the node ended before it began".to_owned();
                self.never_ran(key, why);
            }
            Err(e) => self.never_ran(key, format!("what the node kept of the step: {e}")),
        }
    }

    /// Watches a supervisor that is not a child of this daemon's nursery.
    pub(super) fn follow(&mut self, key: StepKey, pid: Pid) {
        // The lock is asked again once the process is held: numbers are used again.
        let directory = self.path_of(key);
        let held = sys::pidfd_open(pid)
            .ok()
            .filter(|_| matches!(read(&directory), Ok((_, Some(holder))) if holder == pid));
        let events = self.setup.events.clone();
        let gone = StepEvent::SupervisorGone(key);
        let Some(pidfd) = held.map(Arc::new) else {
            tokio::spawn(async move { events.send(gone.into()).await });
            return;
        };
        if let Some(running) = self.running(key) {
            running.reach = SupervisorState::Adopted(Arc::clone(&pidfd));
        }
        tokio::spawn(async move {
            if let Ok(fd) = pidfd.try_clone().and_then(sys::watch) {
                let _ = fd.readable().await;
            }
            let _ = events.send(gone.into()).await;
        });
    }

    /// The supervisor was killed: everything that it left is killed too.
    pub(super) fn sweep(&mut self, key: StepKey, start: cosy_model::Time) {
        let mark = self.mark(key);
        let Some(running) = self.running(key) else {
            return;
        };
        tracing::warn!(job = %key.attempt.job, "the supervisor of step {key} was killed; cleaning up");
        running.reach = SupervisorState::Sweeping;
        running.gone.send_replace(true);
        let lost = sweep::Lost {
            mark,
            uid: running.task.allocation.uid.0,
            groups: running.task.groups.clone(),
            start,
            shepherd: None,
            with_steps: false,
            cause: EndCause::SupervisorLost,
        };
        self.sweep_away(key, lost);
    }

    /// The same for a step of which nothing is known but its number: it is found by the lock that
    /// its supervisor holds and by what its processes say of themselves.
    pub(super) fn sweep_unkept(&mut self, key: StepKey, supervisor: Option<Pid>) {
        let lost = sweep::Lost {
            mark: self.mark(key),
            uid: u32::MAX, // nobody's
            groups: Vec::new(),
            start: sys::now(),
            shepherd: supervisor,
            with_steps: false,
            cause: EndCause::SupervisorLost,
        };
        self.sweep_away(key, lost);
    }

    fn sweep_away(&self, key: StepKey, lost: sweep::Lost) {
        let events = self.setup.events.clone();
        tokio::spawn(async move {
            let swept = tokio::task::spawn_blocking(move || sweep::sweep(&lost)).await;
            let outcome = swept.unwrap_or_else(|_| Outcome {
                end: End::never_ran(EndCause::SupervisorLost, sys::now()),
                drain: None,
            });
            let _ = events.send(StepEvent::Swept(key, outcome).into()).await;
        });
    }

    pub(super) fn swept(&mut self, key: StepKey, outcome: Outcome) {
        if self.running(key).is_none() {
            return self.unkept_is_over(key, outcome);
        }
        self.end_without_supervisor(key, outcome.end, outcome.drain);
    }

    /// Nothing is left of a step that could not be read. Its first node says that it was there.
    fn unkept_is_over(&mut self, key: StepKey, outcome: Outcome) {
        let job = self.jobs.get(&key.attempt);
        let first = job.filter(|job| parts_of(&job.allocation).is_some());
        let whole = first.map(|job| StepRecord {
            step: key.step,
            name: String::new(),
            nodes: job.allocation.node.clone(),
            tasks: 1,
            cores: 0,
            end: outcome.end.clone(),
        });
        let end = NodeEnd {
            end: outcome.end,
            drain: outcome.drain,
            starved: 0,
        };
        let outcome = StepOutcome {
            end,
            tasks: Vec::new(),
            whole,
        };
        self.over(key, outcome);
    }

    fn never_ran(&mut self, key: StepKey, why: String) {
        tracing::warn!(job = %key.attempt.job, "step {key}: {why}");
        let end = End::never_ran(EndCause::LaunchFailed(why), sys::now());
        self.end_without_supervisor(key, end, None);
    }

    /// Keeps the outcome that no supervisor could write.
    fn end_without_supervisor(&mut self, key: StepKey, end: End, drain: Option<String>) {
        let Some(running) = self.running(key) else {
            return;
        };
        running.gone.send_replace(true);
        let whole = running
            .task
            .is_head()
            .then(|| running.task.record(end.clone()));
        let outcome = StepOutcome {
            end: NodeEnd {
                end,
                drain,
                starved: 0,
            },
            tasks: Vec::new(),
            whole,
        };
        let directory = self.path_of(key);
        if let Err(e) = spool::write_outcome(&directory, &outcome) {
            tracing::error!(job = %key.attempt.job, "cannot keep the outcome of step {key}: {e}");
        }
        self.over(key, outcome);
    }

    /// Nothing of the step is left here.
    pub(super) fn over(&mut self, key: StepKey, outcome: StepOutcome) {
        let attempt = key.attempt;
        if let Some(record) = &outcome.whole {
            self.keep_record(attempt, record);
        }
        let path = self.path(attempt);
        if let Err(e) = self.spool.remove(&path, key.step) {
            tracing::warn!(job = %attempt.job, "spool of step {key}: {e}");
        }
        let Some(job) = self.jobs.get_mut(&attempt) else {
            return;
        };
        job.running.remove(&key.step);
        job.shares.give_back(key.step);
        if let Some(first) = &mut job.first {
            first.ledger.give_back(key.step);
        }
        job.drain = job.drain.take().or(outcome.end.drain);
        if job.is_quiet() {
            self.quiet.push(attempt);
        }
        self.start_waiting(attempt);
    }
}

impl StepTask {
    /// Arguments and environments are in the spool: the daemon does not need them any more.
    pub(super) fn forget_what_is_started(&mut self) {
        self.order.spec.environment = OsText::default();
        self.order.spec.programs = Vec::new();
    }

    /// True on the job's first node, where the command is connected.
    pub fn is_head(&self) -> bool {
        self.up == UpKind::Command
    }

    /// The record of the whole step, which ended like that.
    pub fn record(&self, end: End) -> StepRecord {
        let order = &self.order;
        StepRecord {
            step: order.key.step,
            name: order.spec.name.clone(),
            nodes: cosy_model::fold(order.layout.nodes_with_tasks()),
            tasks: order.layout.tasks,
            cores: order
                .layout
                .tasks
                .saturating_mul(order.layout.cores_per_task),
            end,
        }
    }
}
