//! The measurements of jobs: which jobs are measured, what is kept, who is told.

use super::serve::Connection;
use super::table::{Job, Steps};
use crate::samples::{Measured, Subject};
use crate::spool::name_of;
use cosy_model::Span;
use cosy_model::node::AttemptKey;
use cosy_model::step::{JobSamples, StepAnswer};
use std::time::Duration;

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

    /// A job was measured. Gives per mille of its time that it waits for memory, when that has just
    /// become `limit` or more.
    pub fn sampled(&mut self, measured: &Measured, limit: Option<u16>) -> Option<u16> {
        let job = self.jobs.get_mut(&measured.key)?;
        job.sampled.add(measured, limit)
    }

    pub(super) fn tell_samples(&self, attempt: AttemptKey, connection: Connection) {
        let told = self.jobs.get(&attempt).map(|job| JobSamples {
            node: self.setup.name.clone(),
            cores: u32::try_from(job.allocation.cores.len()).unwrap_or(u32::MAX),
            memory: job.allocation.memory,
            interval: self.sample_interval.unwrap_or(Span::ZERO),
            peak_bytes: job.sampled.series().peak_bytes(),
            samples: job.sampled.series().all(),
        });
        connection.finish(StepAnswer::Samples(told.unwrap_or_default()));
    }
}
