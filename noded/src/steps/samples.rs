//! The measurements of jobs: which jobs are measured, what is kept, who is told.

use super::serve::Connection;
use super::table::{Job, Steps};
use crate::samples::series::Series;
use crate::samples::{Measured, Subject};
use crate::spool::name_of;
use cosy_model::Span;
use cosy_model::node::AttemptKey;
use cosy_model::step::{JobSamples, StepAnswer};
use std::time::Duration;

/// Measurements in a row beyond the limit before anybody is told: the figure is that of a minute.
const STALLED: u32 = 2;

/// What is kept of the measurements of a job.
#[derive(Debug, Default)]
pub(super) struct Sampled {
    series: Series,
    /// Measurements in a row beyond the limit of stalls.
    stalled: u32,
}

impl Sampled {
    /// Per mille of its time that a job waits for memory, when it has just become too much.
    fn add(&mut self, measured: &Measured, limit: Option<u16>) -> Option<u16> {
        self.series.add(measured);
        let stall = measured.sample.memory_stall;
        match stall.filter(|stall| limit.is_some_and(|limit| *stall >= limit)) {
            Some(_) => self.stalled = self.stalled.saturating_add(1),
            None => self.stalled = 0,
        }
        stall.filter(|_| self.stalled == STALLED)
    }
}

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
            peak_bytes: job.sampled.series.peak_bytes(),
            samples: job.sampled.series.all(),
        });
        connection.finish(StepAnswer::Samples(told.unwrap_or_default()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::step::Sample;
    use cosy_model::{Attempt, JobId};

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
            assert_eq!(sampled.add(&measured, limit), want, "{stall:?}");
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
}
