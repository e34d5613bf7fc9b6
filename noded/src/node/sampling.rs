//! What the attempts here use over time, and who is told that a job thrashes.

use super::{Node, Stage};
use crate::clock;
use crate::config::StallAction;
use crate::daemon::Event;
use crate::detect;
use crate::gpus::{GpuFigures, GpuUse};
use crate::samples::energy::{EnergyMeter, EnergySource, read_power};
use crate::samples::sampled::SampleLimits;
use crate::samples::{self, Look};
use crate::shepherd::signals::Order;
use crate::steps::usage;
use cosy_model::node::{Allocation, AllocationKey, AttemptKey, KillCause};
use cosy_model::{DeviceUse, Span};
use std::time::{Duration, Instant};

impl Node {
    /// Finds out how energy is measured here, and says so; what was measured until now stays. Blocks for a
    /// moment.
    pub(super) fn find_energy_meter(&mut self) {
        let search = &self.config.energy;
        let found = match self.config.sampling.interval {
            Some(_) => EnergyMeter::find(search, Instant::now()),
            None => Ok(EnergyMeter::Nothing),
        };
        let meter = match found {
            Ok(meter) => {
                tracing::info!("{meter}");
                meter
            }
            Err(why) if search.source == EnergySource::Auto => {
                tracing::info!("energy is not measured: {why}");
                EnergyMeter::Nothing
            }
            Err(why) => {
                tracing::warn!("energy is not measured, though noded.toml says how: {why}");
                EnergyMeter::Nothing
            }
        };
        let cores = detect::amounts(&self.config).cores;
        self.steps.measure_energy(meter, cores);
    }

    /// What an attempt has used of energy and GPUs here; nothing of a trigger's program.
    pub(super) fn device_use(&mut self, key: AllocationKey) -> DeviceUse {
        key.job()
            .map(|key| self.steps.device_use(key))
            .unwrap_or_default()
    }

    /// Measures all attempts on a thread of its own; what comes of it is an event. Gives whether there
    /// is something to be measured.
    pub fn begin_sampling(&self) -> bool {
        let subjects = self.steps.subjects();
        let power = self.steps.power_file();
        if subjects.is_empty() && power.is_none() {
            return false;
        }
        let instance = self.fixed.instance.clone();
        let events = self.fixed.events.clone();
        tokio::spawn(async move {
            let look = move || Look {
                power_uw: power.as_deref().and_then(read_power),
                jobs: samples::measure(&subjects, &instance, clock::date),
            };
            let found = usage::in_turn(look).await.unwrap_or_default();
            let _ = events.send(Event::Sampled(found)).await;
        });
        true
    }

    /// Whether a job here has GPUs to itself.
    pub fn has_jobs_with_gpus(&self) -> bool {
        let mut allocations = self.attempts.values().filter_map(|a| a.allocation.as_ref());
        allocations.any(|allocation| !allocation.gpus.is_empty())
    }

    /// All have been measured; `figures`: what GPUs do, by number.
    pub fn sampled(&mut self, found: &Look, figures: &[GpuFigures]) {
        for measured in &found.jobs {
            let gpus = self.gpus_of(measured.key, figures);
            let sampling = &self.config.sampling;
            // Elsewhere than on its first node nobody could tell the job.
            let can_be_told = self.runs_program(measured.key);
            let limits = SampleLimits {
                stall: sampling.stall_limit,
                idle: sampling.gpu_idle_limit.filter(|_| can_be_told),
            };
            let signs = self.steps.sampled(measured, gpus, limits);
            if let Some(stall) = signs.stall {
                self.thrashes(measured.key, stall);
            }
            if let Some(idle) = signs.idle {
                self.idles(measured.key, idle);
            }
        }
        self.steps.energy_measured(found.power_uw);
    }

    fn allocation_of(&self, key: AttemptKey) -> Option<&Allocation> {
        self.attempts.get(&key.into())?.allocation.as_deref()
    }

    /// What the GPUs of an attempt do; nothing where it has none.
    fn gpus_of(&self, key: AttemptKey, figures: &[GpuFigures]) -> Option<GpuUse> {
        let numbers = &self.allocation_of(key)?.gpus;
        let figure = |number: &u32| {
            let index = self.config.devices.gpus.get(*number as usize)?.index;
            figures.get(index as usize).copied()
        };
        let own: Option<Vec<GpuFigures>> = numbers.iter().map(figure).collect();
        own.filter(|own| !own.is_empty())
            .map(|own| GpuUse::of(&own))
    }

    /// A job does nothing with its GPUs: its program is told, or it is ended.
    fn idles(&mut self, key: AttemptKey, idle: Duration) {
        let gpus = match self.allocation_of(key).map_or(0, |a| a.gpus.len()) {
            1 => "its GPU has".to_owned(),
            count => format!("its {count} GPUs have"),
        };
        let time = Span::from_secs(i64::try_from(idle.as_secs()).unwrap_or(i64::MAX));
        let idle = format!("{gpus} been idle for {time}");
        let text = format!("on {} job {}: {idle}", self.fixed.name, key.job);
        let advice = "Others wait for GPUs: use them or end the job";
        let action = self.config.sampling.gpu_idle_action;
        if self.tells_before_end(key, action, &text, advice) {
            tracing::warn!(job = %key.job, "attempt {} is ended: {idle}", key.attempt.0);
            self.order_kill(key.into(), KillCause::Cancelled.into());
        }
    }

    /// A job waits for memory for most of its time: its program is told, or it is ended.
    fn thrashes(&mut self, key: AttemptKey, stall_permille: u16) {
        let memory = self.allocation_of(key).and_then(|a| a.memory);
        let of = memory.map_or_else(|| "its memory".to_owned(), |m| format!("its {} MiB", m.0));
        let percent = stall_permille / 10;
        let node = &self.fixed.name;
        let text = format!(
            "on {node} job {} waited {percent}% of the last minute for memory: {of} are too little",
            key.job
        );
        let action = self.config.sampling.stall_action;
        if self.tells_before_end(key, action, &text, "Ask for more") {
            self.end_for_memory(key);
        }
    }

    /// Tells the program of a job what is wrong with it, with what it could do or that it is ended. True
    /// when it is to be ended.
    fn tells_before_end(
        &mut self,
        key: AttemptKey,
        action: StallAction,
        text: &str,
        advice: &str,
    ) -> bool {
        let ends = action == StallAction::End;
        let what = if ends { "It is ended" } else { advice };
        self.order_note(key, &format!("{text}. {what}"));
        ends
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
