//! A short series of measurements: however long the job runs, no more than some are kept, spread
//! over all of its time.

use super::Measured;
use cosy_model::limits::SAMPLES;
use cosy_model::step::Sample;

/// The measurements of one job.
#[derive(Debug)]
pub struct Series {
    kept: Vec<Sample>,
    /// The latest one, which may not be among the kept ones.
    latest: Option<Sample>,
    /// One in so many is kept.
    stride: u64,
    /// Measurements so far.
    count: u64,
    peak_bytes: u64,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            latest: None,
            stride: 1,
            count: 0,
            peak_bytes: 0,
        }
    }
}

impl Series {
    /// Adds a measurement. CPU time never becomes less: of processes that nobody waited for it is
    /// lost with them where only processes are counted.
    pub fn add(&mut self, measured: &Measured) {
        let mut sample = measured.sample;
        if let Some(before) = &self.latest {
            sample.cpu_us = sample.cpu_us.max(before.cpu_us);
            sample.read_bytes = sample.read_bytes.max(before.read_bytes);
            sample.written_bytes = sample.written_bytes.max(before.written_bytes);
        }
        let peak = measured.peak_bytes.unwrap_or(0).max(sample.memory_bytes);
        self.peak_bytes = self.peak_bytes.max(peak);
        self.latest = Some(sample);
        if self.count.is_multiple_of(self.stride) {
            if self.kept.len() >= SAMPLES - 1 {
                self.halve();
            }
            if self.count.is_multiple_of(self.stride) {
                self.kept.push(sample);
            }
        }
        self.count += 1;
    }

    /// Keeps every second one, from the first on.
    fn halve(&mut self) {
        let mut keep = false;
        self.kept.retain(|_| {
            keep = !keep;
            keep
        });
        self.stride = self.stride.saturating_mul(2);
    }

    /// The latest one.
    pub const fn latest(&self) -> Option<&Sample> {
        self.latest.as_ref()
    }

    /// Those that are kept and the latest one, in the order of time.
    pub fn all(&self) -> Vec<Sample> {
        let mut all = self.kept.clone();
        let newer = self
            .latest
            .filter(|latest| self.kept.last() != Some(latest));
        all.extend(newer);
        all
    }

    /// Largest memory so far, in bytes.
    pub const fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::node::AttemptKey;
    use cosy_model::{Attempt, JobId, Time};
    use proptest::prelude::*;

    fn measured(at: i64, cpu_us: u64, memory_bytes: u64) -> Measured {
        Measured {
            key: AttemptKey {
                job: JobId(1),
                attempt: Attempt(1),
            },
            sample: Sample {
                at: Time(at),
                cpu_us,
                memory_bytes,
                ..Sample::default()
            },
            peak_bytes: None,
        }
    }

    #[test]
    fn figures_only_grow_that_only_grow() {
        let mut series = Series::default();
        series.add(&measured(0, 50, 9));
        series.add(&measured(1, 30, 4));
        let latest = series.latest().unwrap();
        assert_eq!((latest.cpu_us, latest.memory_bytes), (50, 4));
        assert_eq!(series.peak_bytes(), 9);
        let noted = Measured {
            peak_bytes: Some(70),
            ..measured(2, 60, 5)
        };
        series.add(&noted);
        assert_eq!(series.peak_bytes(), 70);
    }

    proptest! {
        /// Never too many, the first and the last always, and evenly between.
        #[test]
        fn however_long_it_runs(count in 1_i64..5000) {
            let mut series = Series::default();
            for at in 0..count {
                series.add(&measured(at, at.unsigned_abs(), 1));
            }
            let all = series.all();
            prop_assert!(all.len() <= SAMPLES);
            prop_assert!(count < 10 || all.len() * 4 >= SAMPLES.min(count as usize));
            prop_assert_eq!(all.first().unwrap().at, Time(0));
            prop_assert_eq!(all.last().unwrap().at, Time(count - 1));
            let gaps: Vec<i64> = all.windows(2).map(|w| w[1].at.0 - w[0].at.0).collect();
            let (last, others) = gaps.split_last().unwrap_or((&0, &[]));
            prop_assert!(others.iter().all(|gap| *gap == others[0]), "{:?}", gaps);
            prop_assert!(others.first().is_none_or(|gap| last <= gap));
        }
    }
}
