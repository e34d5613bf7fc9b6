//! One month through the controller.

use super::rule_sets::RuleSet;
use super::users::{AfterRefusal, BookingOutcome, ReservingUsers, RuleFigures};
use crate::cosy::controller_replay::{Setup, run};
use crate::replay::Machine;
use crate::workload::Job;
use cosy_model::{Span, Time};
use cosy_sched::Policy;
use cosy_sched::notice::{Curve, Share};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A week of the log, from its first submission on.
pub const WEEK: Span = Span::from_secs(7 * 86_400);

/// The machine and its month.
#[derive(Clone, PartialEq, Debug)]
pub struct Month {
    /// The nodes of the machine.
    pub machine: Machine,
    /// How the queue is served.
    pub policy: Policy,
    /// Jobs of the month, sorted by submit time.
    pub jobs: Vec<Job>,
    /// The curve of the notice rule: n over p.
    pub curve: Curve,
    /// Most candidates for a start.
    pub candidates: usize,
}

/// Everything that one run of a month depends on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RunSettings {
    /// Rules of notice that requests are judged by.
    pub rule_set: RuleSet,
    /// What users do whose request is refused.
    pub after_refusal: AfterRefusal,
    /// Share of the jobs that are to be reservations, by week; the last one goes on.
    pub shares: Vec<Share>,
    /// Seed of what is drawn by chance.
    pub seed: u64,
}

/// What became of a month.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// By job; `None` for those that did not run.
    pub starts: Vec<Option<Time>>,
    /// In the order of the month's jobs.
    pub job_outcomes: Vec<BookingOutcome>,
    /// Requests for reservations, by time.
    pub rule_figures: Vec<RuleFigures>,
}

impl Month {
    /// The week of a job, from 0.
    pub fn week(&self, job: &Job) -> usize {
        let first = self.jobs.first().map_or(Time::EPOCH, |job| job.submit);
        usize::try_from(job.submit.since(first).ms() / WEEK.ms()).unwrap_or(0)
    }

    /// Weeks, the last of them perhaps not whole.
    pub fn weeks(&self) -> usize {
        self.jobs.last().map_or(0, |job| self.week(job) + 1)
    }

    /// Everything goes into the queue.
    pub fn without(&self) -> Outcome {
        self.run(&RunSettings {
            rule_set: RuleSet::Free,
            after_refusal: AfterRefusal::Queued,
            shares: Vec::new(),
            seed: 0,
        })
    }

    /// Puts the month through the controller once.
    pub fn run(&self, setting: &RunSettings) -> Outcome {
        let reserving = self.reserving(setting);
        let mut users = ReservingUsers::new(
            self.machine,
            &self.jobs,
            &reserving,
            setting.after_refusal,
            &self.curve,
        );
        let setup = Setup {
            machine: self.machine,
            policy: self.policy,
            reservations: setting.rule_set.policy(&self.curve, self.candidates),
            jobs: &self.jobs,
            site: None,
        };
        let starts = run(&setup, &mut users);
        Outcome {
            starts,
            job_outcomes: users.job_outcomes,
            rule_figures: users.rule_figures,
        }
    }

    /// Which jobs are to be reservations: each by itself with the share of its week, so that
    /// a larger share has all of a smaller one.
    fn reserving(&self, setting: &RunSettings) -> Vec<bool> {
        let mut rng = ChaCha8Rng::seed_from_u64(setting.seed);
        let mut draw = |job: &Job| {
            let drawn = rng.random_range(0..Share::ALL.0);
            let week = self.week(job);
            let share = setting.shares.get(week).or(setting.shares.last());
            share.is_some_and(|share| drawn < share.0)
        };
        self.jobs.iter().map(&mut draw).collect()
    }
}
