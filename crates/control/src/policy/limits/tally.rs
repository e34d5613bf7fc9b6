//! What jobs that are counted together hold, and how many they are.
//!
//! What always holds: a tally is the sum of what each of its jobs was counted as; a node of several
//! jobs counts once. Only resources that some limit is about are summed.

use cosy_model::policy::Tres;
use cosy_model::{NodeId, Span, Time};
use std::collections::BTreeMap;

/// A job without a time limit counts as if it had this one. Source: Slurm (`ONE_YEAR`).
pub(crate) const LONGEST: Span = Span::from_secs(365 * 86_400);

/// A usage factor of 1, in millionths.
pub(crate) const WHOLE_PPM: u32 = 1_000_000;

/// Amounts by resource. Memory is in MiB.
pub(crate) type Amounts = BTreeMap<Tres, u64>;

/// What is left of the time limit of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rest {
    /// It is over then.
    Until(Time),
    /// It is suspended, with so much left.
    Of(Span),
}

/// What a job that runs is counted as.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    /// Of each resource that some limit is about, nodes among them.
    pub amounts: Amounts,
    /// Its nodes, where some limit is about nodes.
    pub nodes: Box<[NodeId]>,
    pub rest: Rest,
    /// What it may still use is multiplied by that many millionths where it is planned with
    /// ([`super::rules::Rules::planned_ppm`]).
    pub planned_ppm: u32,
}

/// What is left of the limits of running jobs: amounts times milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Left {
    /// Of jobs whose time passes: amounts.
    passing: i128,
    /// Of the same: amounts times the milliseconds of their ends.
    ends: i128,
    /// Of suspended jobs.
    stays: i128,
}

impl Left {
    /// One more with that amount; one less where it is negative.
    fn add(&mut self, amount: i128, rest: Rest) {
        match rest {
            Rest::Until(end) => {
                self.passing += amount;
                self.ends += amount.saturating_mul(end.0.into());
            }
            Rest::Of(span) => self.stays += amount.saturating_mul(span.ms().into()),
        }
    }

    fn at(&self, now: Time) -> u128 {
        let passed = self.passing.saturating_mul(now.0.into());
        let left = self.ends.saturating_sub(passed).saturating_add(self.stays);
        u128::try_from(left).unwrap_or(0)
    }
}

/// Sums of one resource over running jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sum {
    held: u64,
    left: Left,
    /// The same of millionths of amounts, each job's times its factor.
    planned: Left,
}

/// Jobs that are counted together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tally {
    /// Jobs that wait or run.
    pub submitted: u32,
    /// Jobs that hold nodes.
    pub running: u32,
    /// Waiting jobs that gather age.
    pub accruing: u32,
    sums: BTreeMap<Tres, Sum>,
    /// On each node so many of the jobs are.
    nodes: BTreeMap<NodeId, u32>,
}

impl Tally {
    /// Nobody is counted.
    pub fn is_empty(&self) -> bool {
        (self.submitted, self.running, self.accruing) == (0, 0, 0)
    }

    /// A job holds this from now on.
    pub fn takes(&mut self, held: &Held) {
        self.running += 1;
        for (tres, amount) in &held.amounts {
            self.sums
                .entry(tres.clone())
                .or_default()
                .add(*amount, held, 1);
        }
        for node in &held.nodes {
            *self.nodes.entry(*node).or_default() += 1;
        }
    }

    /// The same job holds it no more.
    pub fn gives(&mut self, held: &Held) {
        self.running = self.running.saturating_sub(1);
        for (tres, amount) in &held.amounts {
            let Some(sum) = self.sums.get_mut(tres) else {
                continue;
            };
            sum.add(*amount, held, -1);
            if *sum == Sum::default() {
                self.sums.remove(tres);
            }
        }
        for node in &held.nodes {
            if let Some(jobs) = self.nodes.get_mut(node) {
                *jobs = jobs.saturating_sub(1);
                if *jobs == 0 {
                    self.nodes.remove(node);
                }
            }
        }
    }

    /// What running jobs hold of a resource; a node counts once.
    pub fn held(&self, tres: &Tres) -> u64 {
        match tres {
            Tres::Node => self.nodes.len() as u64,
            _ => self.sums.get(tres).map_or(0, |sum| sum.held),
        }
    }

    /// What a job on these nodes adds: of nodes those on which none of the others is.
    pub fn new_nodes(&self, nodes: &[NodeId]) -> u64 {
        nodes
            .iter()
            .filter(|node| !self.nodes.contains_key(node))
            .count() as u64
    }

    /// Amounts of a resource times what is left of the limits of running jobs, in milliseconds.
    pub fn remaining_ms(&self, tres: &Tres, now: Time) -> u128 {
        self.sums.get(tres).map_or(0, |sum| sum.left.at(now))
    }

    /// The same with the usage factors that count beforehand.
    pub fn planned_ms(&self, tres: &Tres, now: Time) -> u128 {
        let planned = self.sums.get(tres).map_or(0, |sum| sum.planned.at(now));
        planned / u128::from(WHOLE_PPM)
    }

    /// Amounts of a resource of jobs whose time passes; `None` where it is nothing.
    pub fn passing(&self, tres: &Tres) -> Option<u64> {
        self.sums
            .get(tres)
            .and_then(|sum| u64::try_from(sum.left.passing).ok())
            .filter(|passing| *passing > 0)
    }

    /// All that running jobs hold, by resource.
    pub fn all_held(&self) -> Amounts {
        let all = self.sums.keys().map(|tres| (tres.clone(), self.held(tres)));
        all.collect()
    }

    /// All that is left of the limits of running jobs, in milliseconds, by resource.
    pub fn all_remaining_ms(&self, now: Time) -> BTreeMap<Tres, u128> {
        let all = self
            .sums
            .keys()
            .map(|tres| (tres.clone(), self.remaining_ms(tres, now)));
        all.collect()
    }
}

impl Sum {
    /// One more with that amount, or with `-1` one less.
    fn add(&mut self, amount: u64, job: &Held, sign: i128) {
        self.held = match sign {
            1 => self.held.saturating_add(amount),
            _ => self.held.saturating_sub(amount),
        };
        let amount = sign * i128::from(amount);
        self.left.add(amount, job.rest);
        let planned = amount.saturating_mul(job.planned_ppm.into());
        self.planned.add(planned, job.rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(cores: u64, nodes: &[u32], rest: Rest) -> Held {
        Held {
            amounts: [(Tres::Cpu, cores), (Tres::Node, nodes.len() as u64)].into(),
            nodes: nodes.iter().map(|n| NodeId(*n as _)).collect(),
            rest,
            planned_ppm: 500_000,
        }
    }

    #[test]
    fn sums_come_and_go() {
        let mut tally = Tally::default();
        let first = held(4, &[1, 2], Rest::Until(Time(60_000)));
        let second = held(2, &[2, 3], Rest::Of(Span(5_000)));
        tally.takes(&first);
        tally.takes(&second);
        assert_eq!((tally.running, tally.held(&Tres::Cpu), tally.held(&Tres::Node)), (2, 6, 3));
        assert_eq!(tally.remaining_ms(&Tres::Cpu, Time(10_000)), 4 * 50_000 + 2 * 5_000);
        assert_eq!(tally.remaining_ms(&Tres::Node, Time(10_000)), 2 * 50_000 + 2 * 5_000);
        assert_eq!(tally.planned_ms(&Tres::Cpu, Time(10_000)), 2 * 50_000 + 5_000);
        assert_eq!(tally.new_nodes(&[NodeId(3), NodeId(4)]), 1);
        tally.gives(&first);
        assert_eq!((tally.held(&Tres::Cpu), tally.held(&Tres::Node)), (2, 2));
        tally.gives(&second);
        assert_eq!(tally, Tally::default());
    }
}
