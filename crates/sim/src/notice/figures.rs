//! What reservations did to a month: its waits beside those of the same jobs without any.
//!
//! Waits are those of jobs that stood in the queue, the refused requests that came as queue
//! jobs among them; the waits without reservations are those of the same jobs. What always
//! holds: a job counts in the week in which it was submitted.

use super::run::{Month, Outcome};
use super::users::BookingOutcome;
use crate::workload::Job;
use cosy_model::{Span, Time};
use serde::Serialize;

/// Jobs of this part of the machine or more are wide.
const WIDE: u64 = 4;

/// Sums of waits with and without reservations.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct WaitSums {
    /// Number of jobs in the sums.
    pub jobs: u64,
    /// Sum with reservations, in seconds.
    pub with_s: f64,
    /// Sum without, in seconds.
    pub without_s: f64,
    /// Sum of what the jobs asked for, in processor seconds.
    pub work: f64,
    /// Waits with reservations times work.
    pub with_by_work: f64,
    /// Waits without times work.
    pub without_by_work: f64,
}

/// A week, or the whole month.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct PeriodFigures {
    /// All jobs in the queue.
    pub queue: WaitSums,
    /// Jobs in the queue of a quarter of the machine or more.
    pub wide: WaitSums,
    /// Jobs that got reservations: from submission to start, and in the queue without.
    pub booked: WaitSums,
    /// Number of requests for reservations.
    pub asked: u64,
    /// Requests at which the curve allowed none.
    pub closed: u64,
    /// Sum of p over the requests.
    pub share: f64,
    /// Sum of n over the requests at which the curve allowed some.
    pub multiple: f64,
    /// Sum of w over the requests, in seconds.
    pub mean_wait_s: f64,
}

/// Figures of a run of the month.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figures {
    /// Figures of the whole month.
    pub month: PeriodFigures,
    /// One for each week, by submission.
    pub weeks: Vec<PeriodFigures>,
    /// Used part of the machine from the first submission to the last end.
    pub utilisation: f64,
    /// Jobs that began at another time than their reservations: none, if promises are kept.
    pub late: u64,
}

impl WaitSums {
    fn add(&mut self, job: &Job, with: Time, without: Time) {
        let (with, without) = (secs(with.since(job.submit)), secs(without.since(job.submit)));
        let work = f64::from(job.processors) * secs(job.limit);
        self.jobs += 1;
        self.with_s += with;
        self.without_s += without;
        self.work += work;
        self.with_by_work += with * work;
        self.without_by_work += without * work;
    }

    /// Mean wait with reservations relative to that without; 1 when nobody waited.
    pub fn relative(&self) -> f64 {
        quotient(self.with_s, self.without_s)
    }

    /// The same with every job weighed by what it asked for.
    pub fn relative_by_work(&self) -> f64 {
        quotient(self.with_by_work, self.without_by_work)
    }

    /// Mean wait with reservations, in hours.
    pub fn with_h(&self) -> f64 {
        per(self.with_s / 3600.0, self.jobs)
    }

    /// Mean wait of the same jobs without, in hours.
    pub fn without_h(&self) -> f64 {
        per(self.without_s / 3600.0, self.jobs)
    }
}

impl PeriodFigures {
    /// Mean p over the requests.
    pub fn mean_share(&self) -> f64 {
        per(self.share, self.asked)
    }

    /// Mean n over the requests at which there was one.
    pub fn mean_multiple(&self) -> f64 {
        per(self.multiple, self.asked - self.closed)
    }

    /// Mean w over the requests, in hours.
    pub fn mean_wait_h(&self) -> f64 {
        per(self.mean_wait_s / 3600.0, self.asked)
    }

    /// Accepted part of the requests.
    pub fn accepted(&self) -> f64 {
        per(self.booked.jobs as f64, self.asked)
    }
}

impl Figures {
    /// The figures of `outcome`, beside the month `without` reservations.
    pub fn of(month: &Month, outcome: &Outcome, without: &Outcome) -> Self {
        let mut figures = Self {
            month: PeriodFigures::default(),
            weeks: vec![PeriodFigures::default(); month.weeks()],
            utilisation: utilisation(month, outcome),
            late: 0,
        };
        for at in 0..month.jobs.len() {
            figures.add_job(month, outcome, without, at);
        }
        for request in &outcome.rule_figures {
            let week = month.week(&month.jobs[request.at]);
            for part in [&mut figures.month, &mut figures.weeks[week]] {
                part.asked += 1;
                part.share += f64::from(request.share.unwrap_or_default().0) / 10_000.0;
                part.mean_wait_s += secs(request.wait);
                match request.multiple {
                    Some(n) => part.multiple += f64::from(n.0) / 1000.0,
                    None => part.closed += 1,
                }
            }
        }
        figures
    }

    fn add_job(&mut self, month: &Month, outcome: &Outcome, without: &Outcome, at: usize) {
        let job = &month.jobs[at];
        let (Some(start), Some(before)) = (outcome.starts[at], without.starts[at]) else {
            return;
        };
        let wide = month.machine.processors(job) * WIDE >= month.machine.size();
        let week = month.week(job);
        for part in [&mut self.month, &mut self.weeks[week]] {
            match &outcome.job_outcomes[at] {
                BookingOutcome::Plain | BookingOutcome::Refused(_) => {
                    part.queue.add(job, start, before);
                    if wide {
                        part.wide.add(job, start, before);
                    }
                }
                BookingOutcome::Booked(_) => part.booked.add(job, start, before),
            }
        }
        if let BookingOutcome::Booked(promised) = outcome.job_outcomes[at] {
            self.late += u64::from(promised != start);
        }
    }
}

/// Used part of the machine from the first submission to the last end.
pub fn utilisation(month: &Month, outcome: &Outcome) -> f64 {
    let first = month.jobs.first().map_or(Time::EPOCH, |job| job.submit);
    let (mut last, mut used) = (first, 0.0);
    for (job, start) in month.jobs.iter().zip(&outcome.starts) {
        if let Some(start) = start {
            let run = job.run.min(job.limit);
            last = last.max(*start + run);
            used += secs(run) * month.machine.processors(job) as f64;
        }
    }
    let all = secs(last.since(first)) * month.machine.size() as f64;
    if all > 0.0 { used / all } else { 0.0 }
}

fn secs(span: Span) -> f64 {
    span.ms() as f64 / 1000.0
}

fn per(sum: f64, count: u64) -> f64 {
    sum / count.max(1) as f64
}

fn quotient(with: f64, without: f64) -> f64 {
    match (with > 0.0, without > 0.0) {
        (_, true) => with / without,
        (true, false) => f64::INFINITY,
        (false, false) => 1.0,
    }
}
