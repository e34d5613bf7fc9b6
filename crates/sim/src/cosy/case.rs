//! One workload, run without reservations and with some.
//!
//! What always holds: a job that is a reservation at one share is one at every larger share,
//! so that runs of one case differ by nothing but what was asked for.

use super::figures::Figures;
use super::trial::{JobOutcome, Notice, Trial};
use crate::replay::Machine;
use crate::workload::Job;
use cosy_model::Span;
use cosy_sched::Policy;
use cosy_sched::notice::{Share, WaitMultiple};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// Runs at most until the wait that notice times are multiples of has settled.
const ROUNDS: i64 = 12;
/// The wait has settled when a run changes it by no more than one part of so many.
const SETTLED: i64 = 100;
/// The stream of random numbers that chooses reservations; the workload has another.
const CHOICE_STREAM: u64 = 1;

/// The wait that notice times are multiples of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReferenceWait {
    /// The mean wait of the queue without reservations.
    Baseline,
    /// The mean wait of the queue in that very run: run again until both agree.
    Settled,
    /// The mean wait of queued jobs that have started within that time before the request.
    Window(Span),
}

/// A workload on a machine.
#[derive(Clone, Debug)]
pub struct Case {
    /// The machine that all runs of the case are on.
    pub machine: Machine,
    /// How queued jobs are served.
    pub policy: Policy,
    /// All jobs, sorted by submit time.
    pub jobs: Vec<Job>,
    /// The wait that notice times are multiples of.
    pub wait: ReferenceWait,
    /// What became of the jobs without reservations.
    pub outcomes: Vec<JobOutcome>,
    /// Figures without reservations.
    pub baseline: Figures,
    /// The order in which jobs become reservations.
    chosen: Vec<usize>,
}

/// How jobs are weighed in the queue's mean wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weighting {
    /// Every job counts the same, as in the paper.
    PerJob,
    /// A job counts as much as it asks for: processors times limit.
    ByWork,
}

/// A run with reservations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outcome {
    /// Metrics of the run.
    pub figures: Figures,
    /// Mean wait of queued jobs as a multiple of that without reservations (q); `None` when
    /// nothing waited without them.
    pub relative_wait: Option<f64>,
    /// The same with every job as heavy as what it asks for.
    pub relative_wait_by_work: Option<f64>,
}

impl Case {
    /// A workload, run without reservations; `seed` chooses the jobs that become some.
    pub fn new(
        machine: Machine,
        policy: Policy,
        jobs: Vec<Job>,
        wait: ReferenceWait,
        seed: u64,
    ) -> Self {
        let trial = Trial {
            machine,
            policy,
            jobs: &jobs,
        };
        let none = vec![false; jobs.len()];
        let outcomes = trial.run(&none, Notice::Fixed(Span::ZERO));
        let baseline = Figures::of(machine, &jobs, &none, &outcomes);
        let mut chosen: Vec<usize> = (0..jobs.len()).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(CHOICE_STREAM);
        chosen.shuffle(&mut rng);
        Self {
            machine,
            policy,
            jobs,
            wait,
            outcomes,
            baseline,
            chosen,
        }
    }

    /// Which jobs are reservations when so many of them are.
    pub fn reserved(&self, share: Share) -> Vec<bool> {
        let mut reserved = vec![false; self.jobs.len()];
        let count = share.count(self.jobs.len());
        for at in self.chosen.iter().take(count) {
            reserved[*at] = true;
        }
        reserved
    }

    /// Runs it with `share` of the jobs as reservations that are asked for `multiple` waits
    /// ahead.
    pub fn run(&self, share: Share, multiple: WaitMultiple) -> Outcome {
        let reserved = self.reserved(share);
        let figures = match self.wait {
            ReferenceWait::Baseline => self.fixed(&reserved, multiple, self.baseline.queue_wait),
            ReferenceWait::Settled => self.settled(&reserved, multiple),
            ReferenceWait::Window(window) => {
                self.figures(&reserved, Notice::Window(multiple, window))
            }
        };
        let baseline = &self.baseline;
        Outcome {
            figures,
            relative_wait: ratio(figures.queue_wait, baseline.queue_wait),
            relative_wait_by_work: ratio(figures.queue_wait_by_work, baseline.queue_wait_by_work),
        }
    }

    /// q if the reservations were not there at all: what it comes to when they start after
    /// everything else.
    pub fn left_out(&self, share: Share) -> Option<f64> {
        let reserved = self.reserved(share);
        let left = self.jobs.iter().zip(&reserved);
        let left = left.filter(|(_, reserved)| !**reserved);
        let jobs: Vec<Job> = left.map(|(job, _)| job.clone()).collect();
        let trial = Trial {
            jobs: &jobs,
            ..self.trial()
        };
        let none = vec![false; jobs.len()];
        let outcomes = trial.run(&none, Notice::Fixed(Span::ZERO));
        let figures = Figures::of(self.machine, &jobs, &none, &outcomes);
        ratio(figures.queue_wait, self.baseline.queue_wait)
    }

    fn trial(&self) -> Trial<'_> {
        Trial {
            machine: self.machine,
            policy: self.policy,
            jobs: &self.jobs,
        }
    }

    fn figures(&self, reserved: &[bool], notice: Notice) -> Figures {
        let outcomes = self.trial().run(reserved, notice);
        Figures::of(self.machine, &self.jobs, reserved, &outcomes)
    }

    fn fixed(&self, reserved: &[bool], multiple: WaitMultiple, wait: Span) -> Figures {
        self.figures(reserved, Notice::Fixed(multiple.of(wait)))
    }

    /// Looks for a wait that comes out of the run that it went into. There need not be one,
    /// because a run does not change evenly: then the run that was closest counts.
    fn settled(&self, reserved: &[bool], multiple: WaitMultiple) -> Figures {
        let mut wait = self.baseline.queue_wait;
        let mut closest: Option<(u64, Figures)> = None;
        for round in 0..ROUNDS {
            let figures = self.fixed(reserved, multiple, wait);
            let change = figures.queue_wait.ms() - wait.ms();
            let off = change.unsigned_abs();
            if closest.as_ref().is_none_or(|(least, _)| off < *least) {
                closest = Some((off, figures));
            }
            if change.abs() <= wait.ms() / SETTLED {
                break;
            }
            // Smaller and smaller steps, so that it does not swing for ever.
            wait = Span(wait.ms() + change.saturating_mul(10) / (10 + 3 * round));
        }
        closest.map_or(self.baseline, |(_, figures)| figures)
    }
}

impl Outcome {
    /// q with jobs weighed in this way; `None` when nothing waited without reservations.
    pub fn relative_wait_in(&self, weighting: Weighting) -> Option<f64> {
        match weighting {
            Weighting::PerJob => self.relative_wait,
            Weighting::ByWork => self.relative_wait_by_work,
        }
    }
}

/// `wait` over `before`; `None` when `before` is zero.
fn ratio(wait: Span, before: Span) -> Option<f64> {
    let some_wait = before > Span::ZERO;
    some_wait.then(|| wait.ms() as f64 / before.ms() as f64)
}
