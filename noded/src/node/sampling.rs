//! What the attempts here use over time, and who is told that a job thrashes.

use super::{Node, Stage};
use crate::clock;
use crate::config::StallAction;
use crate::daemon::Event;
use crate::gpus::GpuFigures;
use crate::samples::sampled::SampleLimits;
use crate::samples::{self, Measured};
use crate::shepherd::signals::Order;
use crate::steps::usage;
use cosy_model::Span;
use cosy_model::node::{AttemptKey, KillCause};
use std::time::Duration;

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

    /// Whether a job here has GPUs to itself.
    pub fn has_jobs_with_gpus(&self) -> bool {
        let mut allocations = self.attempts.values().filter_map(|a| a.allocation.as_ref());
        allocations.any(|allocation| !allocation.gpus.is_empty())
    }

    /// All have been measured; `figures`: what GPUs do, by number.
    pub fn sampled(&mut self, all: &[Measured], figures: &[GpuFigures]) {
        let limits = SampleLimits {
            stall: self.config.sampling.stall_limit,
            idle: self.config.sampling.gpu_idle_limit,
        };
        for measured in all {
            let gpus = self.gpus_of(measured.key, figures);
            // Elsewhere than on its first node nobody could tell the job.
            let limits = SampleLimits {
                idle: limits.idle.filter(|_| self.runs_program(measured.key)),
                ..limits
            };
            let signs = self.steps.sampled(measured, gpus, limits);
            if let Some(stall) = signs.stall {
                self.thrashes(measured.key, stall);
            }
            if let Some(idle) = signs.idle {
                self.idles(measured.key, idle);
            }
        }
    }

    /// What the GPUs of an attempt do; nothing where it has none.
    fn gpus_of(&self, key: AttemptKey, figures: &[GpuFigures]) -> Option<GpuFigures> {
        let attempt = self.attempts.get(&key.into())?;
        let numbers = &attempt.allocation.as_ref()?.gpus;
        let figure = |number: &u32| {
            let index = self.config.devices.gpus.get(*number as usize)?.index;
            figures.get(index as usize).copied()
        };
        let own: Option<Vec<GpuFigures>> = numbers.iter().map(figure).collect();
        own.filter(|own| !own.is_empty())
            .map(|own| GpuFigures::together(&own))
    }

    /// A job does nothing with its GPUs: its program is told, or it is ended.
    fn idles(&mut self, key: AttemptKey, idle: Duration) {
        let attempt = self.attempts.get(&key.into());
        let count = attempt
            .and_then(|a| a.allocation.as_ref())
            .map_or(0, |a| a.gpus.len());
        let gpus = match count {
            1 => "its GPU has".to_owned(),
            count => format!("its {count} GPUs have"),
        };
        let node = &self.fixed.name;
        let time = Span::from_secs(i64::try_from(idle.as_secs()).unwrap_or(i64::MAX));
        let text = format!("on {node} job {}: {gpus} been idle for {time}", key.job);
        match self.config.sampling.gpu_idle_action {
            StallAction::Tell => {
                self.order_note(
                    key,
                    &format!("{text}. Others wait for GPUs: use them or end the job"),
                );
            }
            StallAction::End => {
                self.order_note(key, &format!("{text}. It is ended"));
                tracing::warn!(job = %key.job, "attempt {} is ended: {gpus} been idle for {time}", key.attempt.0);
                self.order_kill(key.into(), KillCause::Cancelled.into());
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

    fn runs_program(&self, key: AttemptKey) -> bool {
        let stage = self.attempts.get(&key.into()).map(|a| &a.stage);
        matches!(stage, Some(Stage::Running { .. }))
    }

    fn end_for_memory(&mut self, key: AttemptKey) {
        if self.runs_program(key) {
            tracing::warn!(job = %key.job, "attempt {} is ended: it thrashes", key.attempt.0);
            self.tell_shepherd(key.into(), Order::OutOfMemory);
            self.close_steps(key.into(), KillCause::Cancelled.into());
        }
    }
}
