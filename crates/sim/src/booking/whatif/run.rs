//! One run of the workload with reservations, and the same without.

use super::placement::{Method, PlacedRequest, PlacementRule, SlotChoice};
use crate::booking::simulation::{AdmissionRule, JobOutcome, ReservationRequest, Simulation, Slot};
use crate::booking::spread::mean;
use cosy_model::{Span, Time};
use std::collections::BTreeMap;

/// A workload of which some jobs are reservations.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// Its jobs on their machine.
    pub simulation: Simulation<'a>,
    /// For each job whether it is a reservation.
    pub reserved: Vec<bool>,
    /// What becomes of the others when no reservation is granted.
    pub before: Vec<JobOutcome>,
}

/// A job that waited longer because of reservations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayedJob {
    /// When it started.
    pub start: Time,
    /// How long it waited without reservations.
    pub original: Span,
    /// How long it waited with them.
    pub affected: Span,
}

/// What came out of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// The seed that chose the reservations.
    pub seed: u64,
    /// By what slots were ranked.
    pub method: Method,
    /// Book-ahead time in hours.
    pub ahead_hours: i64,
    /// Start time window in hours.
    pub window_hours: i64,
    /// The requests, in their order.
    pub requests: Vec<PlacedRequest>,
    /// Makespan of queue and reservations against that of the queue alone: 0.01 is 1 % more.
    pub growth: f64,
    /// The same of the jobs of the queue only.
    pub queue_growth: f64,
    /// What the makespan of queue and reservations is longer than that of the queue alone.
    pub added: Span,
    /// Jobs that were delayed, by start.
    pub delayed: Vec<DelayedJob>,
    /// Time that all other jobs of the queue together waited less.
    pub gained: Span,
}

/// Grants no request: for the run without reservations.
struct RejectAll;

impl AdmissionRule for RejectAll {
    fn decide(&mut self, _: &ReservationRequest<'_>) -> Option<Slot> {
        None
    }
}

impl<'a> Case<'a> {
    /// Runs it without reservations.
    pub fn new(simulation: Simulation<'a>, reserved: Vec<bool>) -> Self {
        let before = simulation.run(&reserved, &mut RejectAll);
        Self {
            simulation,
            reserved,
            before,
        }
    }

    /// Runs it with reservations.
    pub fn run(
        &self,
        seed: u64,
        method: Method,
        (ahead_hours, window_hours): (i64, i64),
        slots: SlotChoice,
    ) -> Run {
        let [ahead, window] = [ahead_hours, window_hours].map(hours);
        let mut rule = PlacementRule::new(method, ahead, window, slots);
        let outcomes = self.simulation.run(&self.reserved, &mut rule);
        let first = self
            .simulation
            .jobs
            .first()
            .map_or(Time::EPOCH, |j| j.submit);
        let before = self.end(&self.before, false).since(first);
        let longer = |end: Time| end.since(first).0 - before.0;
        let part = |more: i64| more as f64 / before.0.max(1) as f64;
        let (all, queue) = (longer(self.end(&outcomes, true)), longer(self.end(&outcomes, false)));
        Run {
            seed,
            method,
            ahead_hours,
            window_hours,
            requests: rule.requests,
            growth: part(all),
            queue_growth: part(queue),
            added: Span(all),
            delayed: self.delayed(&outcomes),
            gained: self.gained(&outcomes),
        }
    }

    /// When the last job of the queue has ended, or also the last reservation.
    fn end(&self, outcomes: &[JobOutcome], reservations: bool) -> Time {
        let jobs = self
            .simulation
            .jobs
            .iter()
            .zip(outcomes)
            .zip(&self.reserved);
        let counted = jobs.filter(|(_, reserved)| reservations || !**reserved);
        let ends = counted.filter_map(|((job, outcome), _)| {
            let run = job.run.min(job.limit).max(Span(1));
            Some(outcome.start()? + run)
        });
        ends.max().unwrap_or(Time::EPOCH)
    }

    /// Start, wait without reservations and with them, of each job of the queue.
    fn waits(&self, outcomes: &[JobOutcome]) -> impl Iterator<Item = DelayedJob> {
        let jobs = self.simulation.jobs.iter().zip(&self.reserved);
        let outcomes = self.before.iter().zip(outcomes);
        let both = jobs
            .zip(outcomes)
            .filter(|((_, reserved), _)| !**reserved)
            .filter_map(|((job, _), (before, after))| {
                let (before, start) = (before.start()?, after.start()?);
                Some(DelayedJob {
                    start,
                    original: before.since(job.submit),
                    affected: start.since(job.submit),
                })
            });
        both.collect::<Vec<_>>().into_iter()
    }

    fn delayed(&self, outcomes: &[JobOutcome]) -> Vec<DelayedJob> {
        let later = self
            .waits(outcomes)
            .filter(|job| job.affected > job.original);
        let mut delayed: Vec<DelayedJob> = later.collect();
        delayed.sort_by_key(|job| job.start);
        delayed
    }

    fn gained(&self, outcomes: &[JobOutcome]) -> Span {
        let less = self
            .waits(outcomes)
            .map(|job| job.original.0 - job.affected.0);
        Span(less.filter(|less| *less > 0).sum())
    }
}

impl Run {
    /// Requests that were granted.
    pub fn granted(&self) -> usize {
        let granted = self
            .requests
            .iter()
            .filter(|request| request.granted.is_some());
        granted.count()
    }

    /// Mean wait of the delayed jobs without reservations and with them, in seconds.
    pub fn mean_waits(&self) -> (f64, f64) {
        let secs = |of: &dyn Fn(&DelayedJob) -> Span| {
            mean(self.delayed.iter().map(|job| of(job).ms() as f64 / 1000.0))
        };
        (secs(&|job| job.original), secs(&|job| job.affected))
    }

    /// Time that all delayed jobs together waited longer.
    pub fn total_delay(&self) -> Span {
        let more = self.delayed.iter().map(DelayedJob::more);
        more.fold(Span::ZERO, |sum, more| sum + more)
    }

    /// Part of the whole delay that jobs met which started in the twentieth of the hours in
    /// which most delay came up (figure 4: sharp increases).
    pub fn sharpness(&self) -> f64 {
        let (Some(first), Some(last)) = (self.delayed.first(), self.delayed.last()) else {
            return 0.0;
        };
        let hour = |at: Time| at.since(first.start).0 / 3_600_000;
        let mut of_hour: BTreeMap<i64, i64> = BTreeMap::new();
        for job in &self.delayed {
            *of_hour.entry(hour(job.start)).or_default() += job.more().0;
        }
        let mut hours: Vec<i64> = of_hour.into_values().collect();
        hours.sort_unstable_by(|one, other| other.cmp(one));
        let steep = hour(last.start) / 20 + 1;
        let steepest: i64 = hours.iter().take(steep as usize).sum();
        steepest as f64 / self.total_delay().0.max(1) as f64
    }
}

impl DelayedJob {
    /// How much longer it waited.
    pub fn more(&self) -> Span {
        Span(self.affected.0 - self.original.0)
    }
}

fn hours(hours: i64) -> Span {
    Span::from_secs(hours.saturating_mul(3600))
}
