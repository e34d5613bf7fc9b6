//! The experiments over many seeds: table, grid, and the n that brings q back to 1.

use super::case::{Case, Outcome, ReferenceWait, Weighting};
use super::needed_multiple::{self, NeededMultiple};
use super::paper::{self, PaperRow};
use super::statistics::{Mean, average, quantile};
use crate::models::cirne::{self, Arrival};
use crate::parallel;
use crate::replay::Machine;
use cosy_model::Span;
use cosy_sched::Policy;
use cosy_sched::notice::{Share, WaitMultiple};

/// The shares that reservations are tried at, in per cent.
pub const PERCENTS: [u32; 4] = [5, 10, 15, 20];
/// The n that each share is tried with in the grid.
pub const GRID: [WaitMultiple; 5] = [
    WaitMultiple::ONE,
    WaitMultiple(2000),
    WaitMultiple(3000),
    WaitMultiple(4000),
    WaitMultiple(6000),
];
/// The largest n that is tried.
pub const MOST: WaitMultiple = WaitMultiple(16_000);

/// Which of the model's two times a job runs for, and which it asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobTimes {
    /// It runs for the time that it asks for.
    Requested,
    /// It asks for the time that it runs.
    Executed,
    /// It asks for the one and runs for the other, as in the model.
    Both,
}

/// What the experiment runs: model, machine, policy, number of seeds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Nodes of the machine.
    pub nodes: u32,
    /// Requests in each workload.
    pub jobs: usize,
    /// Number of workloads, each with a seed of its own.
    pub seeds: u64,
    /// Seed of the first workload; the others follow.
    pub first_seed: u64,
    /// Load multiplier of the model.
    pub load: f64,
    /// Which times of the model jobs run for and ask for.
    pub job_times: JobTimes,
    /// How queued jobs are served.
    pub policy: Policy,
    /// Which wait notice times are multiples of.
    pub wait: ReferenceWait,
}

impl Settings {
    /// Its workloads, each run without reservations. Nobody cancels.
    pub fn cases(&self) -> Vec<Case> {
        let seeds = self.first_seed..self.first_seed.saturating_add(self.seeds);
        let seeds: Vec<u64> = seeds.collect();
        parallel::map(&seeds, |seed| self.case(*seed))
    }

    fn case(&self, seed: u64) -> Case {
        let mut jobs = cirne::generate(&cirne::Settings {
            nodes: self.nodes,
            jobs: self.jobs,
            seed,
            arrival: Arrival::Anl,
            load: self.load,
            cancellations: false,
        })
        .jobs;
        for job in &mut jobs {
            match self.job_times {
                JobTimes::Requested => job.run = job.limit,
                JobTimes::Executed => job.limit = job.run,
                JobTimes::Both => {}
            }
        }
        let machine = Machine {
            nodes: self.nodes,
            cores: 1,
        };
        Case::new(machine, self.policy, jobs, self.wait, seed)
    }
}

/// True when nothing waits in any of `cases`: then there is no q.
pub fn nothing_waits(cases: &[Case]) -> bool {
    cases
        .iter()
        .all(|case| case.baseline.queue_wait == Span::ZERO)
}

/// All workloads without reservations (experiment 1).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Baseline {
    /// Share of the node time that ran jobs, from 0 to 1.
    pub utilisation: Mean,
    /// Mean wait of queued jobs, in hours.
    pub wait_hours: Mean,
    /// From the first submission to the last, in days.
    pub submission_days: Mean,
    /// From the first submission to the last end, in days.
    pub makespan_days: Mean,
}

impl Baseline {
    /// Means over `cases`.
    pub fn of(cases: &[Case]) -> Self {
        let mean = |of: &dyn Fn(&Case) -> f64| Mean::of(&cases.iter().map(of).collect::<Vec<_>>());
        Self {
            utilisation: mean(&|case| case.baseline.utilisation),
            wait_hours: mean(&|case| hours(case.baseline.queue_wait)),
            submission_days: mean(&|case| hours(submission(case)) / 24.0),
            makespan_days: mean(&|case| hours(case.baseline.makespan) / 24.0),
        }
    }
}

fn submission(case: &Case) -> Span {
    match (case.jobs.first(), case.jobs.last()) {
        (Some(first), Some(last)) => last.submit.since(first.submit),
        _ => Span::ZERO,
    }
}

fn hours(span: Span) -> f64 {
    span.ms() as f64 / 3_600_000.0
}

/// All workloads at one share and one notice time.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// Share of reservations (p).
    pub share: Share,
    /// The n that was asked for.
    pub asked: WaitMultiple,
    /// Wait of reservations over wait of queued jobs, as measured (n).
    pub multiple: Mean,
    /// Wait of queued jobs relative to that without reservations (q).
    pub relative_wait: Mean,
    /// q with every job as heavy as what it asks for; not in the paper.
    pub relative_wait_by_work: Mean,
    /// q of the workload that 5 % of the workloads stay below, and of the one for 95 %.
    pub spread: (f64, f64),
    /// Part of the workloads with q above 1.
    pub longer: f64,
    /// Used part of the machine, from 0 to 1 (u).
    pub utilisation: Mean,
    /// Utilisation until the last queued job starts.
    pub utilisation_while_queued: Mean,
    /// Rejected reservations of all requests (r).
    pub rejected: Mean,
}

impl Point {
    /// Runs `cases` with `share` reservations asked for `asked` mean waits ahead.
    pub fn of(cases: &[Case], share: Share, asked: WaitMultiple) -> Self {
        let outcomes = parallel::map(cases, |case| case.run(share, asked));
        let some = |of: &dyn Fn(&Outcome) -> Option<f64>| {
            outcomes.iter().filter_map(of).collect::<Vec<f64>>()
        };
        let all = |of: &dyn Fn(&Outcome) -> f64| Mean::of(&some(&|outcome| Some(of(outcome))));
        let waits: Vec<f64> = some(&|outcome| outcome.relative_wait);
        let longer = waits.iter().filter(|wait| **wait > 1.0).count();
        Self {
            share,
            asked,
            multiple: Mean::of(&some(&|outcome| outcome.figures.measured_multiple())),
            relative_wait: Mean::of(&waits),
            relative_wait_by_work: Mean::of(&some(&|outcome| outcome.relative_wait_by_work)),
            spread: (quantile(&waits, 0.05), quantile(&waits, 0.95)),
            longer: longer as f64 / waits.len().max(1) as f64,
            utilisation: all(&|outcome| outcome.figures.utilisation),
            utilisation_while_queued: all(&|outcome| outcome.figures.utilisation_while_queued),
            rejected: all(&|outcome| outcome.figures.rejected),
        }
    }
}

/// The points of the paper's Table 1, with its own figures.
pub fn table(cases: &[Case]) -> Vec<(PaperRow, Point)> {
    let row = |row: &PaperRow| (*row, Point::of(cases, row.share, row.multiple));
    paper::TABLE_1.iter().map(row).collect()
}

/// Every share at the same multiples: `grid[p][n]`.
pub fn grid(cases: &[Case]) -> Vec<Vec<Point>> {
    let row = |percent: &u32| {
        let point = |asked: &WaitMultiple| Point::of(cases, Share::percent(*percent), *asked);
        GRID.iter().map(point).collect()
    };
    PERCENTS.iter().map(row).collect()
}

/// The n from 1 on at which the mean q over `cases` comes down to 1.
pub fn needed_multiple(cases: &[Case], share: Share, weighting: Weighting) -> NeededMultiple {
    needed_multiple::find(WaitMultiple::ONE, MOST, |asked| {
        mean_relative_wait(cases, share, asked, weighting)
    })
}

/// q if the reservations were not there at all.
pub fn left_out(cases: &[Case], share: Share) -> Mean {
    let waits = parallel::map(cases, |case| case.left_out(share));
    Mean::of(&waits.into_iter().flatten().collect::<Vec<f64>>())
}

/// Mean q over `cases`, without those where nothing waited.
pub fn mean_relative_wait(
    cases: &[Case],
    share: Share,
    asked: WaitMultiple,
    weighting: Weighting,
) -> f64 {
    let waits = parallel::map(cases, |case| case.run(share, asked).relative_wait_in(weighting));
    let waits: Vec<f64> = waits.into_iter().flatten().collect();
    average(waits.iter().copied(), waits.len())
}
