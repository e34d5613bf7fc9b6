//! The measurements of jobs: which jobs are measured, what is kept, who is told.

use super::serve::Connection;
use super::table::{Job, Steps};
use crate::gpus::GpuUse;
use crate::samples::sampled::{SampleLimits, Signs};
use crate::samples::{Measured, Subject};
use crate::spool::name_of;
use cosy_model::Span;
use cosy_model::node::AttemptKey;
use cosy_model::step::{JobSamples, StepAnswer};
use std::time::{Duration, Instant};

impl Steps {
    /// So often jobs are measured; without, not at all.
    pub fn sample_every(&mut self, interval: Option<Duration>) {
        let span = |pause: Duration| Span(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX));
        self.sample_interval = interval.map(span);
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
        job.sampled.add(measured, (gpus, looked_at), limits)
    }

    pub(super) fn tell_samples(&self, attempt: AttemptKey, connection: Connection) {
        let told = self.jobs.get(&attempt).map(|job| JobSamples {
            node: self.setup.name.clone(),
            cores: u32::try_from(job.allocation.cores.len()).unwrap_or(u32::MAX),
            memory: job.allocation.memory,
            gpus: u32::try_from(job.allocation.gpus.len()).unwrap_or(u32::MAX),
            gpu_memory_bytes: job.sampled.gpu_memory(),
            interval: self.sample_interval.unwrap_or(Span::ZERO),
            peak_bytes: job.sampled.series().peak_bytes(),
            samples: job.sampled.series().all(),
        });
        connection.finish(StepAnswer::Samples(told.unwrap_or_default()));
    }
}
