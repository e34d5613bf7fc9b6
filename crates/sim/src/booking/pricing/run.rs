//! One month of a machine with reservations at adaptive prices.

use super::purchase::{Purchase, PurchaseRule};
use crate::booking::sampling;
use crate::booking::simulation::{JobOutcome, Simulation};
use crate::booking::spread::mean;
use crate::replay::Machine;
use crate::workload::Job;
use cosy_model::{Span, Time};
use cosy_sched::Policy;
use cosy_sched::notice::Share;

/// A machine and its month.
#[derive(Clone, PartialEq, Debug)]
pub struct System {
    /// The system's name in tables.
    pub name: &'static str,
    /// Processors, each a node of its own.
    pub nodes: u32,
    /// Jobs of the log.
    pub jobs: Vec<Job>,
}

/// How much a low price counts for buyers against an early start: the paper's alpha.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Alpha {
    /// The same for all, in thousandths.
    Fixed(u32),
    /// Another for each request, evenly between 0 and 1.
    Random,
}

/// Everything that one run depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunSettings {
    /// Index into the systems of the study.
    pub system: usize,
    /// Share of the jobs that are submitted twice.
    pub more: Share,
    /// Share of all jobs that are reservations.
    pub reserved: Share,
    /// How the queue is served.
    pub policy: Policy,
    /// How buyers weigh price against wait.
    pub alpha: Alpha,
    /// Seed of what is drawn by chance.
    pub seed: u64,
    /// True when the limits of all jobs are their run times.
    pub exact: bool,
}

/// What became of the month.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// The settings that it was run with.
    pub setting: RunSettings,
    /// Reservations, in the order of their requests.
    pub purchases: Vec<Purchase>,
    /// Mean wait of queued jobs, in seconds.
    pub queue_wait: f64,
    /// Used part of the machine from the first submission to the last end.
    pub utilisation: f64,
    /// Requests that got no reservation.
    pub refused: usize,
}

impl RunSettings {
    /// Runs the month once; `None` when `systems` has none with that index.
    pub fn run(&self, systems: &[System]) -> Option<Run> {
        let system = systems.get(self.system)?;
        let mut jobs = sampling::with_duplicates(&system.jobs, self.more, self.seed);
        let reserved = sampling::sampled(jobs.len(), self.reserved, self.seed);
        sampling::ask_exactly(&mut jobs, &reserved);
        if self.exact {
            jobs.iter_mut().for_each(|job| job.limit = job.run);
        }
        let mut rule = PurchaseRule::new(match self.alpha {
            Alpha::Fixed(alpha) => vec![alpha; jobs.len()],
            Alpha::Random => sampling::alphas(jobs.len(), self.seed),
        });
        let simulation = Simulation {
            machine: Machine {
                nodes: system.nodes,
                cores: 1,
            },
            policy: self.policy,
            jobs: &jobs,
        };
        let outcomes = simulation.run(&reserved, &mut rule);
        let refused = outcomes
            .iter()
            .filter(|outcome| **outcome == JobOutcome::Rejected);
        Some(Run {
            setting: *self,
            queue_wait: queue_wait(&jobs, &reserved, &outcomes),
            utilisation: utilisation(&simulation, &outcomes),
            refused: refused.count(),
            purchases: rule.purchases,
        })
    }
}

fn queue_wait(jobs: &[Job], reserved: &[bool], outcomes: &[JobOutcome]) -> f64 {
    let queued = jobs.iter().zip(reserved).zip(outcomes);
    let queued = queued.filter(|((_, reserved), _)| !**reserved);
    mean(queued.filter_map(|((job, _), outcome)| secs(outcome.start()?.since(job.submit))))
}

fn secs(span: Span) -> Option<f64> {
    Some(span.ms() as f64 / 1000.0)
}

fn utilisation(simulation: &Simulation<'_>, outcomes: &[JobOutcome]) -> f64 {
    let first = simulation
        .jobs
        .first()
        .map_or(Time::EPOCH, |job| job.submit);
    let (mut last, mut used) = (first, 0i128);
    for (job, outcome) in simulation.jobs.iter().zip(outcomes) {
        if let Some(start) = outcome.start() {
            let run = job.run.min(job.limit).max(Span(1));
            last = last.max(start + run);
            used += i128::from(run.0) * i128::from(simulation.machine.processors(job));
        }
    }
    let all = i128::from(last.since(first).0) * i128::from(simulation.machine.size());
    used as f64 / all.max(1) as f64
}

impl Run {
    /// Mean extra price of a reservation, in service units.
    pub fn price(&self) -> f64 {
        mean(self.purchases.iter().map(|one| one.extra.0 as f64 / 1e6))
    }

    /// Mean wait of reservations, in seconds.
    pub fn wait(&self) -> f64 {
        mean(self.purchases.iter().filter_map(|one| secs(one.wait)))
    }

    /// Part of the reservations that pay nothing extra.
    pub fn free(&self) -> f64 {
        self.part(|one| one.extra.0 == 0)
    }

    /// Part of the reservations that pay less extra than a high priority queue takes (unit
    /// price 1).
    pub fn below_priority(&self) -> f64 {
        self.part(|one| one.extra < one.base)
    }

    /// Unit prices, sorted.
    pub fn unit_prices(&self) -> Vec<f64> {
        let mut prices: Vec<f64> = self.purchases.iter().map(Purchase::unit_price).collect();
        prices.sort_by(f64::total_cmp);
        prices
    }

    /// Mean number of starts on a list.
    pub fn starts(&self) -> f64 {
        mean(self.purchases.iter().map(|one| one.starts as f64))
    }

    fn part(&self, of: impl Fn(&Purchase) -> bool) -> f64 {
        mean(
            self.purchases
                .iter()
                .map(|one| if of(one) { 1.0 } else { 0.0 }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::Su;

    #[test]
    fn prices_of_some_reservations() {
        let one = |extra, base, wait| Purchase {
            wait: Span::from_secs(wait),
            extra: Su(extra),
            base: Su(base),
            starts: 4,
        };
        let run = Run {
            setting: RunSettings {
                system: 0,
                more: Share(0),
                reserved: Share(0),
                policy: Policy::EASY,
                alpha: Alpha::Random,
                seed: 1,
                exact: false,
            },
            purchases: vec![
                one(0, 5, 0),
                one(4_000_000, 2_000_000, 30),
                one(1, 2, 0),
                one(3, 3, 10),
            ],
            queue_wait: 0.0,
            utilisation: 0.0,
            refused: 0,
        };
        assert_eq!(run.free(), 0.25);
        assert_eq!(run.below_priority(), 0.5);
        assert_eq!(run.wait(), 10.0);
        assert_eq!(run.unit_prices(), [0.0, 0.5, 1.0, 2.0]);
        assert!((run.price() - 1.000_001).abs() < 1e-9);
    }
}
