//! Table 1: how much longer than estimated tasks may take, in per cent of their estimates.
//!
//! Where the paper is silent: a run whose first schedule ends after the deadline has no
//! plan; means are over the others, which are counted.

use super::{SCHEDULERS, longer_ms, paper, threshold_ms};
use crate::dag::{Drawing, Kind};
use cosy_sched::workflow::{
    Dag, FlowSlackPolicy, Machines, Schedule, critical_path, schedule, share_out,
};
use serde::Serialize;

/// The paper's deadline, which is one for all.
pub const DEADLINE_MS: i64 = 1_500_000;

/// Spare times of the tasks of a plan, in per cent of their estimates.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Shares {
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
    /// The mean.
    pub avg: f64,
}

impl Shares {
    /// Of a plan. Tasks that take no time have no share.
    pub fn of(dag: &Dag, machines: &Machines, plan: &Schedule) -> Self {
        let share = |task: usize| {
            let estimate = dag.estimate_ms(task, plan.slots()[task].machine);
            let spare = plan.spare_ms(dag, machines, task);
            (estimate > 0).then(|| spare as f64 / estimate as f64 * 100.0)
        };
        let shares: Vec<f64> = (0..dag.count()).filter_map(share).collect();
        if shares.is_empty() {
            return Self::default();
        }
        Self {
            min: shares.iter().copied().fold(f64::INFINITY, f64::min),
            max: shares.iter().copied().fold(0.0, f64::max),
            avg: shares.iter().sum::<f64>() / shares.len() as f64,
        }
    }

    /// The mean of several.
    pub fn mean(all: &[Self]) -> Self {
        let mean = |of: fn(&Self) -> f64| {
            let sum: f64 = all.iter().map(of).sum();
            sum / all.len().max(1) as f64
        };
        Self {
            min: mean(|s| s.min),
            max: mean(|s| s.max),
            avg: mean(|s| s.avg),
        }
    }
}

/// Which deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub enum Deadline {
    /// The same for all.
    Fixed(i64),
    /// So far behind the end of the first schedule that alpha is the paper's.
    PaperAlpha,
}

impl Deadline {
    /// For a first schedule that is so long.
    pub fn ms(self, makespan_ms: i64, kind: Kind, scheduler: usize) -> i64 {
        match self {
            Self::Fixed(ms) => ms,
            Self::PaperAlpha => {
                let block = paper::TABLE_1.iter().find(|block| block.kind == kind);
                let alpha = block.map_or(0.0, |block| block.alpha[scheduler]);
                longer_ms(makespan_ms, alpha)
            }
        }
    }
}

/// One first schedule under one deadline.
#[derive(Clone, PartialEq, Debug)]
pub struct Planned {
    /// Time to share out, relative to the length of the first schedule, in per cent.
    pub alpha: f64,
    /// Its length.
    pub makespan_ms: i64,
    /// For how much of it the tasks of the critical path compute, in per cent.
    pub critical: f64,
    /// By policy.
    pub shares: [Shares; 6],
}

/// Shares the time until the deadline out in all six ways; `None` when there is none.
pub fn planned(dag: &Dag, machines: &Machines, first: &Schedule, deadline: i64) -> Option<Planned> {
    let makespan_ms = first.end_ms();
    let left = deadline - makespan_ms;
    let shares = |policy: FlowSlackPolicy| {
        let plan = share_out(policy, dag, machines, first, deadline, threshold_ms(deadline));
        Shares::of(dag, machines, &plan)
    };
    let critical = critical_path(dag, machines, first).into_iter();
    let computing: i64 = critical
        .map(|task| dag.estimate_ms(task, first.slots()[task].machine))
        .sum();
    (left > 0).then(|| Planned {
        critical: computing as f64 / makespan_ms as f64 * 100.0,
        alpha: left as f64 / makespan_ms as f64 * 100.0,
        makespan_ms,
        shares: FlowSlackPolicy::ALL.map(shares),
    })
}

/// A graph of a kind, with all first schedules (in the order of [`SCHEDULERS`]) under one
/// deadline.
pub fn run(kind: Kind, seed: u64, deadline: Deadline) -> [Option<Planned>; 4] {
    let Ok((dag, machines)) = Drawing::usual(kind, seed).draw().planned() else {
        return [const { None }; 4];
    };
    let mut at = 0;
    SCHEDULERS.map(|scheduler| {
        let first = schedule(scheduler, &dag, &machines);
        let ms = deadline.ms(first.end_ms(), kind, at);
        at += 1;
        planned(&dag, &machines, &first, ms)
    })
}

/// A cell of Table 1: a kind and a first schedule.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Cell {
    /// Mean over the runs that were in time, in per cent.
    pub alpha: f64,
    /// Mean length of the first schedule, in units of the paper.
    pub makespan: f64,
    /// For how much of it the tasks of the critical path compute, in per cent; unknown of
    /// the paper's.
    pub critical: Option<f64>,
    /// So many runs were in time.
    pub in_time: usize,
    /// By policy.
    pub shares: [Shares; 6],
}

/// All of Table 1.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Table {
    /// By kind, then by first schedule.
    pub kinds: Vec<(Kind, [Cell; 4])>,
}

impl Cell {
    /// Means over runs.
    pub fn of<'a>(runs: impl Iterator<Item = &'a Planned>) -> Self {
        let runs: Vec<&Planned> = runs.collect();
        let mean = |of: fn(&Planned) -> f64| {
            let sum: f64 = runs.iter().map(|run| of(run)).sum();
            sum / runs.len().max(1) as f64
        };
        let shares = std::array::from_fn(|policy| {
            let all: Vec<Shares> = runs.iter().map(|run| run.shares[policy]).collect();
            Shares::mean(&all)
        });
        Self {
            alpha: mean(|run| run.alpha),
            makespan: mean(|run| run.makespan_ms as f64 / 1000.0),
            critical: Some(mean(|run| run.critical)),
            in_time: runs.len(),
            shares,
        }
    }
}

impl Table {
    /// As printed in the paper, in the order of [`Kind::ALL`].
    pub fn paper() -> Self {
        let cell = |block: &paper::Block, scheduler: usize| Cell {
            alpha: block.alpha[scheduler],
            makespan: DEADLINE_MS as f64 / 1000.0 / (1.0 + block.alpha[scheduler] / 100.0),
            critical: None,
            in_time: 100,
            shares: block.shares.map(|row| row[scheduler]),
        };
        let kind = |kind: Kind| {
            let block = paper::TABLE_1.iter().find(|block| block.kind == kind)?;
            Some((kind, std::array::from_fn(|at| cell(block, at))))
        };
        Self {
            kinds: Kind::ALL.into_iter().filter_map(kind).collect(),
        }
    }
}
