//! Steps within attempts: when they may run, and what waits for the last of them.

use super::{AfterSteps, Node, Stage};
use crate::steps::table::StepEvent;
use cosy_model::Refusal;
use cosy_model::node::{AllocationKey, AttemptKey, KillOrder};
use cosy_model::step::{AllocationRoute, Peer};
use std::time::Instant;

impl Node {
    /// Steps may run in it from now on; it began then.
    pub(super) fn open_for_steps(&mut self, key: AllocationKey, since: Instant) {
        let allocation = self.attempts.get(&key).and_then(|a| a.allocation.clone());
        if let Some(allocation) = allocation {
            self.steps.open(&allocation, since);
        }
    }

    /// Something happened that concerns steps.
    pub fn step_event(&mut self, event: StepEvent) {
        self.steps.event(event);
        self.look_at_quiet();
    }

    /// The controller's answer: where a job is.
    pub fn order_passage(&mut self, number: u64, passage: Result<Box<AllocationRoute>, Refusal>) {
        self.steps.passage(number, passage);
    }

    /// Another node of a job here is reached elsewhere.
    pub fn order_moved(&mut self, peer: Peer) {
        self.steps.moved(peer);
    }

    /// The controller has these records of steps.
    pub fn order_steps_taken(&mut self, key: AttemptKey, count: u64) {
        self.steps.records_taken(key, count);
    }

    /// Ends its steps: true when there are any.
    pub(super) fn close_steps(&mut self, key: AllocationKey, kill: KillOrder) -> bool {
        key.job().is_some_and(|key| self.steps.close(key, kill))
    }

    /// Why the node is to be drained after its steps.
    pub(super) fn drain_by_steps(&mut self, key: AllocationKey) -> Option<String> {
        self.steps.take_drain(key.job()?)
    }

    /// No step of it is known any more.
    pub(super) fn forget_steps(&mut self, key: AllocationKey) {
        if let Some(key) = key.job() {
            self.steps.forget(key);
        }
    }

    /// About once a second.
    pub fn tell_of_steps(&mut self) {
        self.steps.on_tick();
    }

    /// The last step of these is gone.
    pub(super) fn look_at_quiet(&mut self) {
        for key in self.steps.take_quiet() {
            self.wound_up(key.into());
        }
    }

    fn wound_up(&mut self, key: AllocationKey) {
        let Some(attempt) = self.attempts.get_mut(&key) else {
            return;
        };
        let Stage::Winding { .. } = attempt.stage else {
            return;
        };
        let Stage::Winding { then, .. } = std::mem::replace(&mut attempt.stage, Stage::Prepared)
        else {
            return;
        };
        match then {
            AfterSteps::End(outcome) => self.end(key, outcome),
            AfterSteps::Unstarted(cause) => self.end_unstarted(key, cause),
            AfterSteps::Release => self.begin_epilog(key, None),
        }
    }
}
