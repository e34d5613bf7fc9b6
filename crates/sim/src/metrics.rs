//! The figures of a replay: waits, slowdowns, utilisation.
//!
//! It knows nothing of policies or of how long the replay itself took. What always holds:
//! sums are integers, so that the same replay gives the same figures in whatever order they
//! are added; floating point is only in the quotients that are printed.
//!
//! Source of the bounded slowdown: Feitelson, Rudolph, Schwiegelshohn, Sevcik and Wong,
//! "Theory and practice in parallel job scheduling" (1997).

use crate::replay::{JobRun, Machine, Replay};
use crate::workload::{Job, Workload};
use cosy_model::{Span, Time};

/// Shorter runs count as that long in the bounded slowdown.
pub const SHORT: Span = Span::from_secs(10);

/// Slowdowns are added up in parts of one.
const PARTS: i128 = 1_000_000_000;

/// What a replay comes to. Times are in seconds where they are quotients, else [`Span`]s.
/// Nothing can be said of the waits of no jobs: such figures are `None`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Metrics {
    /// Number of jobs that ran.
    pub jobs: u64,
    /// How many of them started while a job before them went on waiting.
    pub backfilled: u64,
    /// Jobs larger than the machine; they did not run.
    pub too_large: u64,
    /// Jobs that were cancelled before they started.
    pub cancelled: u64,
    /// From the first submission of a job that ran to the last end.
    pub makespan: Span,
    /// Processors × milliseconds that jobs held.
    pub work: i128,
    /// Processors × milliseconds that the machine had within the makespan.
    pub capacity: i128,
    /// Milliseconds that all jobs waited.
    pub waited: i128,
    /// Sum of the bounded slowdowns, in parts of one ([`Metrics::mean_bounded_slowdown`]).
    slowdown: i128,
    /// Wait of each job, shortest first.
    waits: Vec<Span>,
}

impl Metrics {
    /// The figures of `replay`, which was made of `workload` on `machine`.
    pub fn of(machine: Machine, workload: &Workload, replay: &Replay) -> Self {
        let mut all = Self {
            too_large: replay.too_large,
            waits: Vec::with_capacity(replay.job_runs.len()),
            ..Self::default()
        };
        let (mut first, mut last) = (Time::FAR, Time(i64::MIN));
        for (job, ran) in workload.jobs.iter().zip(&replay.job_runs) {
            if let Some(ran) = ran {
                first = first.min(job.submit);
                last = last.max(ran.end);
                all.add(machine.processors(job), job, ran);
            }
        }
        let rest = (replay.job_runs.len() as u64).saturating_sub(all.jobs);
        all.cancelled = rest.saturating_sub(all.too_large);
        all.makespan = last.since(first);
        all.capacity = i128::from(machine.size()) * i128::from(all.makespan.0);
        all.waits.sort_unstable();
        all
    }

    fn add(&mut self, processors: u64, job: &Job, ran: &JobRun) {
        let wait = ran.start.since(job.submit);
        let run = ran.end.since(ran.start);
        self.jobs += 1;
        self.backfilled += u64::from(ran.backfilled);
        self.work += i128::from(processors) * i128::from(run.0);
        self.waited += i128::from(wait.0);
        self.slowdown += bounded_slowdown(wait, run);
        self.waits.push(wait);
    }

    /// Mean wait in seconds.
    pub fn mean_wait(&self) -> Option<f64> {
        quotient(self.waited, i128::from(self.jobs) * 1000)
    }

    /// Half of the jobs waited no longer, in seconds: the middle one of all waits, or the
    /// mean of the two in the middle.
    pub fn median_wait(&self) -> Option<f64> {
        let high = self.waits.len() / 2;
        let low = self.waits.len().checked_sub(1)? / 2;
        let both = i128::from(self.waits[low].0) + i128::from(self.waits[high].0);
        quotient(both, 2000)
    }

    /// The smallest wait that 95 % of the jobs did not exceed, in seconds.
    pub fn p95_wait(&self) -> Option<f64> {
        let rank = (self.waits.len() * 95).div_ceil(100);
        let wait = self.waits.get(rank.checked_sub(1)?)?;
        quotient(i128::from(wait.0), 1000)
    }

    /// Mean of `(wait + run) / max(run, 10 s)`, at least 1 for each job.
    pub fn mean_bounded_slowdown(&self) -> Option<f64> {
        quotient(self.slowdown, i128::from(self.jobs) * PARTS)
    }

    /// Share of the machine that jobs held within the makespan.
    pub fn utilisation(&self) -> Option<f64> {
        quotient(self.work, self.capacity)
    }

    /// Share of the jobs that started before an earlier one.
    pub fn backfilled_share(&self) -> Option<f64> {
        quotient(i128::from(self.backfilled), i128::from(self.jobs))
    }
}

/// Bounded slowdown of one job, in [`PARTS`] of one.
fn bounded_slowdown(wait: Span, run: Span) -> i128 {
    let whole = i128::from(wait.0) + i128::from(run.0);
    (whole * PARTS / i128::from(run.max(SHORT).0)).max(PARTS)
}

/// `None` when there is nothing to divide by.
pub(crate) fn quotient(sum: i128, count: i128) -> Option<f64> {
    (count > 0).then(|| sum as f64 / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: Machine = Machine { nodes: 4, cores: 1 };

    /// Seconds of submission and, unless it was cancelled, start and end; processors.
    type Row = (i64, Option<(i64, i64)>, u32);

    fn metrics(rows: &[Row]) -> Metrics {
        let job = |(at, row): (usize, &Row)| Job {
            id: at as u64,
            submit: Time::from_secs(row.0),
            processors: row.2,
            ..Job::default()
        };
        let ran = |row: &Row| {
            row.1.map(|(start, end)| JobRun {
                start: Time::from_secs(start),
                end: Time::from_secs(end),
                backfilled: start % 2 == 1,
            })
        };
        let workload = Workload {
            jobs: rows.iter().enumerate().map(job).collect(),
            ..Workload::default()
        };
        let replay = Replay {
            job_runs: rows.iter().map(ran).collect(),
            ..Replay::default()
        };
        Metrics::of(FOUR, &workload, &replay)
    }

    #[test]
    fn figures_by_hand() {
        let got = metrics(&[
            (100, Some((100, 200)), 4), // waits 0, slowdown 1
            (110, Some((200, 205)), 1), // waits 90, slowdown 95/10
            (120, Some((201, 221)), 2), // waits 81, slowdown 101/20, backfilled
            (130, None, 1),
        ]);
        assert_eq!((got.jobs, got.cancelled, got.backfilled), (3, 1, 1));
        assert_eq!(got.makespan, Span::from_secs(121));
        assert_eq!(got.mean_wait(), Some(57.0));
        assert_eq!(got.median_wait(), Some(81.0));
        assert_eq!(got.p95_wait(), Some(90.0));
        let slowdown = got.mean_bounded_slowdown().unwrap();
        assert!((slowdown - (1.0 + 9.5 + 5.05) / 3.0).abs() < 1e-8);
        assert_eq!(got.utilisation(), Some(445.0 / 484.0));
    }

    #[test]
    fn medians_and_percentiles() {
        let check = |waits: &[i64], median: f64, p95: f64| {
            let row = |wait: &i64| (0, Some((*wait, wait + 1)), 1);
            let got = metrics(&waits.iter().map(row).collect::<Vec<_>>());
            assert_eq!(got.median_wait(), Some(median), "{waits:?}");
            assert_eq!(got.p95_wait(), Some(p95), "{waits:?}");
        };
        check(&[7], 7.0, 7.0);
        check(&[9, 2], 5.5, 9.0);
        check(&(1..=20).collect::<Vec<_>>(), 10.5, 19.0);
        check(&(1..=21).rev().collect::<Vec<_>>(), 11.0, 20.0);
    }

    #[test]
    fn nothing_ran() {
        let got = metrics(&[(5, None, 1)]);
        assert_eq!((got.jobs, got.cancelled), (0, 1));
        assert_eq!(got.makespan, Span::ZERO);
        assert_eq!(got.mean_wait(), None);
        assert_eq!(got.median_wait(), None);
        assert_eq!(got.p95_wait(), None);
        assert_eq!(got.utilisation(), None);
    }
}
