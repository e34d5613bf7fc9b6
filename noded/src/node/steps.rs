//! Steps within attempts: when they may run, and what waits for the last of them.

use super::{Node, Stage, Wind};
use crate::steps::table::StepEvent;
use cosy_model::Refusal;
use cosy_model::node::AttemptKey;
use cosy_model::step::{Passage, Peer};
use std::time::Instant;

impl Node {
    /// Steps may run in it from now on; it began then.
    pub(super) fn open_for_steps(&mut self, key: AttemptKey, since: Instant) {
        if key.job.trigger().is_some() {
            return; // the program of a trigger has nothing that steps could run on
        }
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
    pub fn order_passage(&mut self, number: u64, passage: Result<Box<Passage>, Refusal>) {
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

    /// About once a second.
    pub fn tell_of_steps(&mut self) {
        self.steps.on_tick();
    }

    /// The last step of these is gone.
    pub(super) fn look_at_quiet(&mut self) {
        for key in self.steps.take_quiet() {
            self.wound_up(key);
        }
    }

    fn wound_up(&mut self, key: AttemptKey) {
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
            Wind::End(outcome) => self.end(key, outcome),
            Wind::Unstarted(cause) => self.end_unstarted(key, cause),
            Wind::Release => self.begin_epilog(key, None),
        }
    }
}
