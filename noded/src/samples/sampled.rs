//! What is kept of the measurements of a job, and whether it thrashes.

use super::Measured;
use super::series::Series;

/// Measurements in a row beyond the limit before anybody is told: the figure is that of a minute.
const STALLED: u32 = 2;

/// What is kept of the measurements of a job.
#[derive(Debug, Default)]
pub struct Sampled {
    series: Series,
    /// Measurements in a row beyond the limit of stalls.
    stalled: u32,
}

impl Sampled {
    /// Adds a measurement. Gives per mille of its time that the job waits for memory, when that has just
    /// become `limit` or more.
    pub fn add(&mut self, measured: &Measured, limit: Option<u16>) -> Option<u16> {
        self.series.add(measured);
        let stall = measured.sample.memory_stall;
        match stall.filter(|stall| limit.is_some_and(|limit| *stall >= limit)) {
            Some(_) => self.stalled = self.stalled.saturating_add(1),
            None => self.stalled = 0,
        }
        stall.filter(|_| self.stalled == STALLED)
    }

    /// What it used over time.
    pub const fn series(&self) -> &Series {
        &self.series
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::node::AttemptKey;
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
