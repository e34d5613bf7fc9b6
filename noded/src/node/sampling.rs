//! What the attempts here use over time, and who is told that a job thrashes.

use super::{Node, Stage};
use crate::clock;
use crate::config::StallAction;
use crate::daemon::Event;
use crate::samples::{self, Measured};
use crate::shepherd::signals::Order;
use crate::steps::usage;
use cosy_model::node::{AttemptKey, KillCause};

impl Node {
    /// Measures all attempts on a thread of its own; what comes of it is an event. Gives whether there
    /// is something to be measured.
    pub fn begin_sampling(&self) -> bool {
        let subjects = self.steps.subjects();
        if subjects.is_empty() {
            return false;
        }
        let instance = self.fixed.instance.clone();
        let events = self.fixed.events.clone();
        tokio::spawn(async move {
            let look = move || samples::measure(&subjects, &instance, clock::date);
            let measured = usage::in_turn(look).await.unwrap_or_default();
            let _ = events.send(Event::Sampled(measured)).await;
        });
        true
    }

    /// All have been measured.
    pub fn sampled(&mut self, all: &[Measured]) {
        for measured in all {
            let limit = self.config.sampling.stall_limit;
            if let Some(stall) = self.steps.sampled(measured, limit) {
                self.thrashes(measured.key, stall);
            }
        }
    }

    /// A job waits for memory for most of its time: its program is told, or it is ended.
    fn thrashes(&mut self, key: AttemptKey, stall_permille: u16) {
        let allocation = self
            .attempts
            .get(&key.into())
            .and_then(|a| a.allocation.clone());
        let memory = allocation.and_then(|a| a.memory);
        let of = memory.map_or_else(|| "its memory".to_owned(), |m| format!("its {} MiB", m.0));
        let percent = stall_permille / 10;
        let node = &self.fixed.name;
        let text = format!(
            "on {node} job {} waited {percent}% of the last minute for memory: {of} are too little",
            key.job
        );
        match self.config.sampling.stall_action {
            StallAction::Tell => self.order_note(key, &format!("{text}. Ask for more")),
            StallAction::End => {
                self.order_note(key, &format!("{text}. It is ended"));
                self.end_for_memory(key);
            }
        }
    }

    fn end_for_memory(&mut self, key: AttemptKey) {
        let runs = self.attempts.get(&key.into()).map(|a| &a.stage);
        if matches!(runs, Some(Stage::Running { .. })) {
            tracing::warn!(job = %key.job, "attempt {} is ended: it thrashes", key.attempt.0);
            self.tell_shepherd(key.into(), Order::OutOfMemory);
            self.close_steps(key.into(), KillCause::Cancelled.into());
        }
    }
}
