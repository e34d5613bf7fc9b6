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

/// Most runs until notice time and wait belong together.
const ROUNDS: i64 = 12;
/// They do when the wait is off by no more than a hundredth.
const SETTLED: i64 = 100;
/// The stream of random numbers that chooses reservations; the workload has another.
const CHOICE_STREAM: u64 = 1;

/// Which wait a notice time is a multiple of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// The mean wait of the queue without reservations.
    Before,
    /// The mean wait of the queue in that very run: run again until both agree.
    Settled,
    /// The mean wait of queued jobs that have started within that time before the request.
    Window(Span),
}

/// A workload on a machine.
#[derive(Clone, Debug)]
pub struct Case {
    /// The machine.
    pub machine: Machine,
    /// How queued jobs are served.
    pub policy: Policy,
    /// By submit time.
    pub jobs: Vec<Job>,
    /// Which wait counts.
    pub wait: Wait,
    /// What became of the jobs without reservations.
    pub fates: Vec<JobOutcome>,
    /// Figures without reservations.
    pub before: Figures,
    /// The order in which jobs become reservations.
    chosen: Vec<usize>,
}

/// How much each job counts in the queue's mean wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// All the same, as in the paper.
    Jobs,
    /// As much as it asks for: processors times limit.
    Work,
}

/// A run with reservations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outcome {
    /// Figures of it.
    pub figures: Figures,
    /// Mean wait of queued jobs as a multiple of that without reservations (q); `None` when
    /// nothing waited without them.
    pub relative_wait: Option<f64>,
    /// The same with every job as heavy as what it asks for.
    pub relative_wait_by_work: Option<f64>,
}

impl Case {
    /// A workload, run without reservations; `seed` chooses the jobs that become some.
    pub fn new(machine: Machine, policy: Policy, jobs: Vec<Job>, wait: Wait, seed: u64) -> Self {
        let trial = Trial {
            machine,
            policy,
            jobs: &jobs,
        };
        let none = vec![false; jobs.len()];
        let fates = trial.run(&none, Notice::Fixed(Span::ZERO));
        let before = Figures::of(machine, &jobs, &none, &fates);
        let mut chosen: Vec<usize> = (0..jobs.len()).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(CHOICE_STREAM);
        chosen.shuffle(&mut rng);
        Self {
            machine,
            policy,
            jobs,
            wait,
            fates,
            before,
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
            Wait::Before => self.fixed(&reserved, multiple, self.before.queue_wait),
            Wait::Settled => self.settled(&reserved, multiple),
            Wait::Window(window) => self.figures(&reserved, Notice::Window(multiple, window)),
        };
        let before = &self.before;
        Outcome {
            figures,
            relative_wait: ratio(figures.queue_wait, before.queue_wait),
            relative_wait_by_work: ratio(figures.queue_wait_by_work, before.queue_wait_by_work),
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
        let fates = trial.run(&none, Notice::Fixed(Span::ZERO));
        let figures = Figures::of(self.machine, &jobs, &none, &fates);
        ratio(figures.queue_wait, self.before.queue_wait)
    }

    fn trial(&self) -> Trial<'_> {
        Trial {
            machine: self.machine,
            policy: self.policy,
            jobs: &self.jobs,
        }
    }

    fn figures(&self, reserved: &[bool], notice: Notice) -> Figures {
        let fates = self.trial().run(reserved, notice);
        Figures::of(self.machine, &self.jobs, reserved, &fates)
    }

    fn fixed(&self, reserved: &[bool], multiple: WaitMultiple, wait: Span) -> Figures {
        self.figures(reserved, Notice::Fixed(multiple.of(wait)))
    }

    /// Looks for a wait that comes out of the run that it went into. There need not be one,
    /// because a run does not change evenly: then the run that was closest counts.
    fn settled(&self, reserved: &[bool], multiple: WaitMultiple) -> Figures {
        let mut wait = self.before.queue_wait;
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
        closest.map_or(self.before, |(_, figures)| figures)
    }
}

impl Outcome {
    /// q in that measure.
    pub fn relative_wait_in(&self, measure: Measure) -> Option<f64> {
        match measure {
            Measure::Jobs => self.relative_wait,
            Measure::Work => self.relative_wait_by_work,
        }
    }
}

/// How many times `before` it is; `None` when there was none.
fn ratio(wait: Span, before: Span) -> Option<f64> {
    let some_wait = before > Span::ZERO;
    some_wait.then(|| wait.ms() as f64 / before.ms() as f64)
}

/// `of` every item, on as many threads as there are cores, in the order of the items.
pub fn each<T: Sync, R: Send>(items: &[T], of: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let size = items.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let of = &of;
        let parts = items.chunks(size);
        let parts = parts.map(|part| scope.spawn(move || part.iter().map(of).collect::<Vec<R>>()));
        let parts: Vec<_> = parts.collect();
        let done = parts.into_iter().map(|part| part.join());
        let done = done.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        done.flatten().collect()
    })
}
