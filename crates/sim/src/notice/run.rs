//! One month through the controller.

use super::schemes::Scheme;
use super::users::{Bookers, JobOutcome, Refused, RuleFigures};
use crate::cosy::controlled::{Setup, run};
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
    /// By submit time.
    pub jobs: Vec<Job>,
    /// The rule's n over p.
    pub curve: Curve,
    /// Most candidates for a start.
    pub candidates: usize,
}

/// Which run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Setting {
    /// Rules of notice that requests are judged by.
    pub scheme: Scheme,
    /// What the refused do.
    pub refused: Refused,
    /// Share of the jobs that are to be reservations, by week; the last one goes on.
    pub shares: Vec<Share>,
    /// What is drawn by chance.
    pub seed: u64,
}

/// What became of a month.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// By job; `None` for those that did not run.
    pub starts: Vec<Option<Time>>,
    /// By job.
    pub fates: Vec<JobOutcome>,
    /// Requests for reservations, by time.
    pub asked: Vec<RuleFigures>,
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
        self.run(&Setting {
            scheme: Scheme::Free,
            refused: Refused::Queued,
            shares: Vec::new(),
            seed: 0,
        })
    }

    /// Runs it.
    pub fn run(&self, setting: &Setting) -> Outcome {
        let wanted = self.wanted(setting);
        let mut users =
            Bookers::new(self.machine, &self.jobs, &wanted, setting.refused, &self.curve);
        let setup = Setup {
            machine: self.machine,
            policy: self.policy,
            reservations: setting.scheme.policy(&self.curve, self.candidates),
            jobs: &self.jobs,
        };
        let starts = run(&setup, &mut users);
        Outcome {
            starts,
            fates: users.fates,
            asked: users.asked,
        }
    }

    /// Which jobs are to be reservations: each by itself with the share of its week, so that
    /// a larger share has all of a smaller one.
    fn wanted(&self, setting: &Setting) -> Vec<bool> {
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
