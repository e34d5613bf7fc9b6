//! The measurements of jobs: which jobs are measured, what is kept, who is told.

use super::serve::Connection;
use super::table::{Job, Steps};
use crate::gpus::GpuUse;
use crate::samples::energy::EnergyMeter;
use crate::samples::kept::{self, Kept};
use crate::samples::sampled::{SampleLimits, Signs};
use crate::samples::{Measured, Subject};
use crate::spool::name_of;
use cosy_model::node::AttemptKey;
use cosy_model::step::{JobSamples, StepAnswer};
use cosy_model::{DeviceUse, Span};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// For so many intervals at most what GPUs do now counts as what they did since the last look.
const LONGEST: u64 = 2;

impl Steps {
    /// So often jobs are measured; without, not at all.
    pub fn sample_every(&mut self, interval: Option<Duration>) {
        let span = |pause: Duration| Span(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX));
        self.sample_interval = interval.map(span);
    }

    /// Energy is measured so, and shared among that many cores.
    pub fn measure_energy(&mut self, meter: EnergyMeter, cores: u32) {
        self.share_energy();
        (self.energy, self.energy_cores) = (meter, cores.max(1));
    }

    /// The power meter that is to be read from time to time, where there is one.
    pub fn power_file(&self) -> Option<PathBuf> {
        self.energy.power_file().map(Path::to_owned)
    }

    /// Shares what the machine took since the last time among the jobs that hold cores, by their
    /// cores: before one begins or ends, stands still or goes on, and at each measurement. What the cores
    /// without a job took is nobody's.
    pub(super) fn share_energy(&mut self) {
        let Some(taken) = self.energy.passed(Instant::now()) else {
            return;
        };
        let all = u128::from(self.energy_cores);
        for job in self.jobs.values_mut().filter(|job| job.stopped.is_none()) {
            let cores = (job.allocation.cores.len() as u128).min(all);
            let share = u128::from(taken) * cores / all;
            job.sampled
                .takes_energy(u64::try_from(share).unwrap_or(u64::MAX));
        }
    }

    /// All jobs were measured, and a power meter was read: counts energy, and keeps it with the rest.
    pub fn energy_measured(&mut self, power_uw: Option<u64>) {
        self.share_energy();
        if let Some(power) = power_uw {
            self.energy.power_is(power);
        }
        self.keep_use();
    }

    /// Keeps what jobs have used for a daemon that comes later.
    pub fn keep_use(&self) {
        let used = self
            .jobs
            .iter()
            .map(|(key, job)| (*key, job.sampled.used()));
        let known: Kept = used.filter(|(_, used)| !used.is_empty()).collect();
        if !known.is_empty()
            && let Err(e) = kept::save(&self.setup.directory, &known)
        {
            tracing::debug!("energy and GPU use of jobs cannot be kept: {e}");
        }
    }

    /// What an attempt has used of energy and GPUs until now.
    pub fn device_use(&mut self, key: AttemptKey) -> DeviceUse {
        self.share_energy();
        match self.jobs.get(&key) {
            Some(job) => job.sampled.used(),
            None => self.kept_use.remove(&key).unwrap_or_default(),
        }
    }

    /// All jobs that are to be measured now.
    pub fn subjects(&self) -> Vec<Subject> {
        let open = self.jobs.iter().filter(|(_, job)| !job.closing);
        let subject = |(key, job): (&AttemptKey, &Job)| Subject {
            key: *key,
            uid: job.allocation.uid,
            groups: self.setup.cgroups.groups_of_job(&name_of(*key)),
        };
        open.map(subject).collect()
    }

    /// A job was measured; `gpus`: what its GPUs do, where it has some. Gives what has just gone
    /// beyond `limits`.
    pub fn sampled(
        &mut self,
        measured: &Measured,
        gpus: Option<GpuUse>,
        limits: SampleLimits,
    ) -> Signs {
        let Some(job) = self.jobs.get_mut(&measured.key) else {
            return Signs::default();
        };
        // What stands still is not idle.
        let looked_at = job.stopped.is_none().then(Instant::now);
        let pause = self.sample_interval.unwrap_or_default().ms();
        let longest = Duration::from_millis(pause.unsigned_abs().saturating_mul(LONGEST));
        let count = job.allocation.gpus.len();
        if let Some(gpus) = gpus {
            let times = (job.since, looked_at);
            job.sampled.counts_gpus((gpus, count), times, longest);
        }
        job.sampled.add(measured, (gpus, looked_at), limits)
    }

    pub(super) fn tell_samples(&mut self, attempt: AttemptKey, connection: Connection) {
        self.share_energy();
        let told = self.jobs.get(&attempt).map(|job| JobSamples {
            node: self.setup.name.clone(),
            cores: u32::try_from(job.allocation.cores.len()).unwrap_or(u32::MAX),
            memory: job.allocation.memory,
            gpus: u32::try_from(job.allocation.gpus.len()).unwrap_or(u32::MAX),
            gpu_memory_bytes: job.sampled.gpu_memory(),
            interval: self.sample_interval.unwrap_or(Span::ZERO),
            peak_bytes: job.sampled.series().peak_bytes(),
            devices: job.sampled.used(),
            samples: job.sampled.series().all(),
        });
        connection.finish(StepAnswer::Samples(told.unwrap_or_default()));
    }
}
