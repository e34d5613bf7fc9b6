//! What is kept of the measurements of a job, and whether it thrashes or leaves its GPUs idle.

use super::Measured;
use super::series::Series;
use crate::gpus::GpuUse;
use cosy_model::DeviceUse;
use std::time::{Duration, Instant};

/// Measurements in a row beyond the limit before anybody is told: the figure is that of a minute.
const STALLED: u32 = 2;

/// Per cent below which a GPU is idle.
const BUSY: u8 = 1;

/// What the site wants to know of jobs; `None`: it does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SampleLimits {
    /// Per mille of a minute that a job may wait for memory.
    pub stall: Option<u16>,
    /// How long all its GPUs may be idle.
    pub idle: Option<Duration>,
}

/// What has just gone beyond the limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Signs {
    /// Per mille of its time that it waits for memory.
    pub stall: Option<u16>,
    /// How long its GPUs have been idle.
    pub idle: Option<Duration>,
}

/// Since when the GPUs of a job are idle.
#[derive(Clone, Copy, Debug)]
struct Idle {
    since: Instant,
    told: bool,
}

/// What is kept of the measurements of a job.
#[derive(Debug, Default)]
pub struct Sampled {
    series: Series,
    /// Measurements in a row beyond the limit of stalls.
    stalled: u32,
    idle: Option<Idle>,
    gpu_memory: Option<u64>,
    used: DeviceUse,
    /// Until when the use of its GPUs is counted.
    gpus_until: Option<Instant>,
}

impl Sampled {
    /// Of an attempt that has used so much before.
    pub fn after(used: DeviceUse) -> Self {
        Self {
            used,
            ..Self::default()
        }
    }

    /// What it has used of energy and GPUs.
    pub const fn used(&self) -> DeviceUse {
        self.used
    }

    /// Its share of what the machine took, in microjoules.
    pub fn takes_energy(&mut self, microjoules: u64) {
        let before = self.used.energy_uj.unwrap_or(0);
        self.used.energy_uj = Some(before.saturating_add(microjoules));
    }

    /// Counts what so many GPUs do now for the time since the last measurement, at most `longest`.
    /// `since`: when the job began; `now`: `None` while it stands still.
    pub fn counts_gpus(
        &mut self,
        (gpus, count): (GpuUse, usize),
        (since, now): (Instant, Option<Instant>),
        longest: Duration,
    ) {
        let until = now.unwrap_or_else(Instant::now);
        let from = self.gpus_until.replace(until).unwrap_or(since);
        let (Some(_), Some(percent)) = (now, gpus.busy_percent) else {
            return;
        };
        let time = until.saturating_duration_since(from).min(longest);
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let us = us.saturating_mul(count as u64);
        self.used = self.used.and(DeviceUse {
            energy_uj: None,
            gpu_us: us,
            gpu_busy_us: us.saturating_mul(u64::from(percent)) / 100,
            gpu_peak_bytes: gpus.memory_used.unwrap_or(0),
        });
    }

    /// Adds a measurement, with what its GPUs do and when that was looked at; `None`: the job stands
    /// still. Gives what has just gone beyond `limits`.
    pub fn add(
        &mut self,
        measured: &Measured,
        (gpus, now): (Option<GpuUse>, Option<Instant>),
        limits: SampleLimits,
    ) -> Signs {
        let gpus = gpus.unwrap_or_default();
        let mut measured = *measured;
        measured.sample.gpu_busy = gpus.busy_percent.map(|percent| u16::from(percent) * 10);
        measured.sample.gpu_memory_bytes = gpus.memory_used;
        self.gpu_memory = gpus.memory_total.or(self.gpu_memory);
        self.series.add(&measured);
        Signs {
            stall: self.stalls(measured.sample.memory_stall, limits.stall),
            idle: self.idles(gpus.busiest_percent, now, limits.idle),
        }
    }

    fn stalls(&mut self, stall: Option<u16>, limit: Option<u16>) -> Option<u16> {
        match stall.filter(|stall| limit.is_some_and(|limit| *stall >= limit)) {
            Some(_) => self.stalled = self.stalled.saturating_add(1),
            None => self.stalled = 0,
        }
        stall.filter(|_| self.stalled == STALLED)
    }

    /// What is not known is not idle, and begins anew.
    fn idles(
        &mut self,
        busiest_percent: Option<u8>,
        now: Option<Instant>,
        limit: Option<Duration>,
    ) -> Option<Duration> {
        let (Some(now), Some(..BUSY)) = (now, busiest_percent) else {
            self.idle = None;
            return None;
        };
        let idle = self.idle.get_or_insert(Idle {
            since: now,
            told: false,
        });
        let time = now.duration_since(idle.since);
        if idle.told || limit.is_none_or(|limit| time < limit) {
            return None;
        }
        idle.told = true;
        Some(time)
    }

    /// What it used over time.
    pub const fn series(&self) -> &Series {
        &self.series
    }

    /// All memory of its GPUs, in bytes, where that is known.
    pub const fn gpu_memory(&self) -> Option<u64> {
        self.gpu_memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::node::AttemptKey;
    use cosy_model::step::Sample;
    use cosy_model::{Attempt, JobId};

    #[test]
    fn gpus_are_counted_by_time() {
        let begin = Instant::now();
        let longest = Duration::from_secs(60);
        let mut sampled = Sampled::after(DeviceUse {
            energy_uj: Some(7),
            ..DeviceUse::default()
        });
        let mut check = |second: Option<u64>, busy_percent, memory_used, want: (u64, u64, u64)| {
            let gpus = GpuUse {
                busy_percent,
                memory_used,
                ..GpuUse::default()
            };
            let now = second.map(|s| begin + Duration::from_secs(s));
            sampled.counts_gpus((gpus, 2), (begin, now), longest);
            let used = sampled.used();
            let seconds = (used.gpu_busy_us / 1_000_000, used.gpu_us / 1_000_000);
            assert_eq!((seconds.0, seconds.1, used.gpu_peak_bytes), want, "{second:?}");
            assert_eq!(used.energy_uj, Some(7));
        };
        check(Some(10), Some(50), Some(3), (10, 20, 3));
        check(Some(20), Some(0), Some(9), (10, 40, 9));
        // What nobody knows is not counted, and no later measurement counts for it.
        check(Some(30), None, None, (10, 40, 9));
        check(Some(40), Some(100), Some(1), (30, 60, 9));
        // A daemon that was away for long.
        check(Some(4000), Some(100), None, (150, 180, 9));
        check(None, Some(100), None, (150, 180, 9));
    }

    #[test]
    fn a_job_that_thrashes_is_told_once() {
        let mut sampled = Sampled::default();
        let mut check = |stall: Option<u16>, limit: Option<u16>, want: Option<u16>| {
            let measured = Measured {
                key: AttemptKey {
                    job: JobId(1),
                    attempt: Attempt(1),
                },
                sample: Sample {
                    memory_stall: stall,
                    ..Sample::default()
                },
                peak_bytes: None,
            };
            let limits = SampleLimits {
                stall: limit,
                idle: None,
            };
            let signs = sampled.add(&measured, (None, None), limits);
            assert_eq!(signs.stall, want, "{stall:?}");
        };
        let limit = Some(500);
        check(Some(900), limit, None);
        check(Some(499), limit, None);
        check(Some(500), limit, None);
        check(Some(700), limit, Some(700));
        check(Some(900), limit, None);
        // Once more when it was well in between.
        check(None, limit, None);
        check(Some(600), limit, None);
        check(Some(600), limit, Some(600));
        check(Some(600), None, None);
        check(Some(1000), None, None);
    }
    #[test]
    fn gpus_that_idle_are_told_once() {
        let begin = Instant::now();
        let limits = SampleLimits {
            stall: None,
            idle: Some(Duration::from_secs(60)),
        };
        let mut sampled = Sampled::default();
        let mut check = |second: u64, percent: Option<u8>, stopped: bool, want: Option<u64>| {
            let measured = Measured {
                key: AttemptKey {
                    job: JobId(1),
                    attempt: Attempt(1),
                },
                sample: Sample::default(),
                peak_bytes: None,
            };
            let gpus = GpuUse {
                busiest_percent: percent,
                ..GpuUse::default()
            };
            let now = begin + Duration::from_secs(second);
            let signs = sampled.add(&measured, (Some(gpus), (!stopped).then_some(now)), limits);
            assert_eq!(signs.idle, want.map(Duration::from_secs), "{second}");
        };
        check(0, Some(0), false, None);
        check(59, Some(0), false, None);
        check(70, Some(0), false, Some(70));
        check(200, Some(0), false, None);
        // It was busy, or nobody knows, or the job stood still: its time begins anew.
        check(210, Some(1), false, None);
        check(220, Some(0), false, None);
        check(250, None, false, None);
        check(281, Some(0), false, None);
        check(300, Some(0), true, None);
        check(341, Some(0), false, None);
        check(401, Some(0), false, Some(60));
    }
}
