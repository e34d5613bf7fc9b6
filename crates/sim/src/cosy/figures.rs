//! What is measured after one run.
//!
//! Source: COSY paper, section 4.1.

use super::trial::JobOutcome;
use crate::replay::Machine;
use crate::workload::Job;
use cosy_model::{Span, Time};

/// The metrics of one run.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Figures {
    /// Mean wait of the queued jobs that started (w_q).
    pub queue_wait: Span,
    /// The same mean with every job as heavy as what it asks for: processors times limit.
    /// Not in the paper.
    pub queue_wait_by_work: Span,
    /// Mean wait of the accepted reservations (w_a); `None` when there are none.
    pub reserved_wait: Option<Span>,
    /// Used part of the machine between the first submission and the last end (u).
    pub utilisation: f64,
    /// Used part of the machine between the first submission and the last start of a queued
    /// job: without what comes when nothing waits any more.
    pub utilisation_while_queued: f64,
    /// Rejected reservations as a part of all requests (r).
    pub rejected: f64,
    /// Between the first submission and the last end.
    pub makespan: Span,
}

/// A job that ran: its start and end, and the processors that it held.
struct HeldProcessors {
    start: Time,
    end: Time,
    processors: u64,
}

impl Figures {
    /// Measures a run: `reserved` and `outcomes` belong to `jobs`, one by one.
    pub fn of(machine: Machine, jobs: &[Job], reserved: &[bool], outcomes: &[JobOutcome]) -> Self {
        let began = jobs.first().map_or(Time::EPOCH, |job| job.submit);
        let ran = ran(machine, jobs, outcomes);
        let ended = ran.iter().map(|ran| ran.end).max().unwrap_or(began);
        let queued = starts(reserved, outcomes, false);
        let last_queued = queued.map(|(_, start)| start).max().unwrap_or(began);
        let used = |until| used(machine, &ran, began, until);
        let rejected = outcomes
            .iter()
            .filter(|outcome| **outcome == JobOutcome::Rejected);
        let waits =
            |kind| mean(starts(reserved, outcomes, kind).map(|(at, s)| s.since(jobs[at].submit)));
        Self {
            queue_wait: waits(false).unwrap_or(Span::ZERO),
            queue_wait_by_work: by_work(machine, jobs, starts(reserved, outcomes, false)),
            reserved_wait: waits(true),
            utilisation: used(ended),
            utilisation_while_queued: used(last_queued),
            rejected: rejected.count() as f64 / jobs.len().max(1) as f64,
            makespan: ended.since(began),
        }
    }

    /// Notice times as a multiple of the queue's wait (n), where there is such a thing.
    pub fn measured_multiple(&self) -> Option<f64> {
        let reserved = self.reserved_wait?;
        let some_wait = self.queue_wait > Span::ZERO;
        some_wait.then(|| reserved.ms() as f64 / self.queue_wait.ms() as f64)
    }
}

fn ran(machine: Machine, jobs: &[Job], outcomes: &[JobOutcome]) -> Vec<HeldProcessors> {
    let started = jobs
        .iter()
        .zip(outcomes)
        .filter_map(|(job, outcome)| Some((job, outcome.start()?)));
    let ran = started.map(|(job, start)| HeldProcessors {
        start,
        end: start + job.run.min(job.limit).max(Span(1)),
        processors: machine.processors(job),
    });
    ran.collect()
}

/// Which of the queued jobs or of the reservations started, and when.
fn starts(
    reserved: &[bool],
    outcomes: &[JobOutcome],
    kind: bool,
) -> impl Iterator<Item = (usize, Time)> {
    let of_kind = reserved.iter().zip(outcomes).enumerate();
    let of_kind = of_kind.filter(move |(_, (reserved, _))| **reserved == kind);
    of_kind.filter_map(|(at, (_, outcome))| Some((at, outcome.start()?)))
}

fn by_work(machine: Machine, jobs: &[Job], starts: impl Iterator<Item = (usize, Time)>) -> Span {
    let (mut sum, mut all) = (0.0, 0.0);
    for (at, start) in starts {
        let job = &jobs[at];
        let asked = match job.limit {
            Span::UNLIMITED => job.run,
            limit => limit,
        };
        let work = machine.processors(job) as f64 * asked.ms() as f64;
        sum += work * start.since(job.submit).ms() as f64;
        all += work;
    }
    // Saturates; nothing over nothing becomes zero.
    Span((sum / all) as i64)
}

fn used(machine: Machine, ran: &[HeldProcessors], began: Time, until: Time) -> f64 {
    let held = |ran: &HeldProcessors| {
        let time = ran.end.min(until).since(ran.start);
        i128::from(time.ms()) * i128::from(ran.processors)
    };
    let held: i128 = ran.iter().map(held).sum();
    let all = i128::from(until.since(began).ms()) * i128::from(machine.size());
    if all == 0 {
        0.0
    } else {
        held as f64 / all as f64
    }
}

fn mean(spans: impl Iterator<Item = Span>) -> Option<Span> {
    let (sum, count) =
        spans.fold((0i128, 0), |(sum, count), span| (sum + i128::from(span.ms()), count + 1));
    let mean = sum.checked_div(count)?;
    Some(Span(i64::try_from(mean).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(submit: i64, run: i64, processors: u32) -> Job {
        Job {
            submit: Time::from_secs(submit),
            run: Span::from_secs(run),
            limit: Span::from_secs(run),
            processors,
            ..Job::default()
        }
    }

    #[test]
    fn a_run_worked_out_by_hand() {
        let machine = Machine { nodes: 4, cores: 1 };
        let jobs = [
            job(100, 10, 4),
            job(100, 20, 2),
            job(104, 5, 1),
            job(105, 5, 4),
        ];
        let reserved = [false, true, false, true];
        let at = |secs| JobOutcome::Started(Time::from_secs(secs));
        let outcomes = [at(100), at(120), at(110), JobOutcome::Rejected];
        let figures = Figures::of(machine, &jobs, &reserved, &outcomes);
        // (0 + 6) / 2 and 20 seconds; 40 + 40 + 5 node seconds of 4 * 40.
        let wanted = Figures {
            queue_wait: Span::from_secs(3),
            // 6 s for one of nine parts of 5 s: 5 of 45 node seconds.
            queue_wait_by_work: Span(666),
            reserved_wait: Some(Span::from_secs(20)),
            utilisation: 85.0 / 160.0,
            utilisation_while_queued: 1.0,
            rejected: 0.25,
            makespan: Span::from_secs(40),
        };
        assert_eq!(figures, wanted);
        let multiple = figures.measured_multiple();
        assert_eq!(multiple, Some(20.0 / 3.0));
    }

    /// A job without limit counts by its run time: it must not outweigh all others.
    #[test]
    fn no_limit_is_no_infinite_weight() {
        let machine = Machine { nodes: 4, cores: 1 };
        let endless = Job {
            limit: Span::UNLIMITED,
            ..job(0, 10, 1)
        };
        let jobs = [job(0, 30, 1), endless];
        let outcomes = [
            JobOutcome::Started(Time::from_secs(40)),
            JobOutcome::Started(Time::EPOCH),
        ];
        let figures = Figures::of(machine, &jobs, &[false, false], &outcomes);
        assert_eq!(figures.queue_wait_by_work, Span::from_secs(30));
    }

    #[test]
    fn nothing_at_all_has_figures_too() {
        let machine = Machine { nodes: 4, cores: 1 };
        assert_eq!(Figures::of(machine, &[], &[], &[]), Figures::default());
    }
}
