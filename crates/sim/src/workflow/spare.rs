//! Table 1: how much longer than estimated tasks may take, in per cent of their estimates.
//!
//! Where the paper is silent: a run whose first schedule ends after the deadline has no
//! plan; means are over the others, which are counted.

use super::{SCHEDULERS, longer_ms, paper, threshold_ms};
use crate::dag::{GraphKind, GraphSettings};
use cosy_sched::workflow::{
    Dag, FlowSlackPolicy, Machines, Schedule, critical_path, schedule, share_out,
};
use serde::Serialize;

/// The paper's deadline, which is one for all.
pub const DEADLINE_MS: i64 = 1_500_000;

/// Spare times of the tasks of a plan, in per cent of their estimates.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct SpareTimes {
    /// Of the task with the least, in per cent.
    pub min: f64,
    /// Of the task with the most, in per cent.
    pub max: f64,
    /// Mean over the tasks, in per cent.
    pub avg: f64,
}

impl SpareTimes {
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

/// By when a workflow must be done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub enum Deadline {
    /// The same for all graphs, in milliseconds.
    Fixed(i64),
    /// So far behind the end of the first schedule that alpha is the paper's.
    PaperAlpha,
}

impl Deadline {
    /// For a first schedule that is so long.
    pub fn ms(self, makespan_ms: i64, kind: GraphKind, scheduler: usize) -> i64 {
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
pub struct PlannedGraph {
    /// Time to share out, relative to the length of the first schedule, in per cent.
    pub alpha: f64,
    /// Length of the first schedule, in milliseconds.
    pub makespan_ms: i64,
    /// For how much of it the tasks of the critical path compute, in per cent.
    pub critical: f64,
    /// In the order of [`FlowSlackPolicy::ALL`].
    pub shares: [SpareTimes; 6],
}

/// Shares the time until the deadline out in all six ways; `None` when there is none.
pub fn planned(
    dag: &Dag,
    machines: &Machines,
    first: &Schedule,
    deadline: i64,
) -> Option<PlannedGraph> {
    let makespan_ms = first.end_ms();
    let left = deadline - makespan_ms;
    let shares = |policy: FlowSlackPolicy| {
        let plan = share_out(policy, dag, machines, first, deadline, threshold_ms(deadline));
        SpareTimes::of(dag, machines, &plan)
    };
    let critical = critical_path(dag, machines, first).into_iter();
    let computing: i64 = critical
        .map(|task| dag.estimate_ms(task, first.slots()[task].machine))
        .sum();
    (left > 0).then(|| PlannedGraph {
        critical: computing as f64 / makespan_ms as f64 * 100.0,
        alpha: left as f64 / makespan_ms as f64 * 100.0,
        makespan_ms,
        shares: FlowSlackPolicy::ALL.map(shares),
    })
}

/// A graph of a kind, with all first schedules (in the order of [`SCHEDULERS`]) under one
/// deadline.
pub fn run(kind: GraphKind, seed: u64, deadline: Deadline) -> [Option<PlannedGraph>; 4] {
    let Ok((dag, machines)) = GraphSettings::usual(kind, seed).generate().planned() else {
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
pub struct TableCell {
    /// Mean over the runs that were in time, in per cent.
    pub alpha: f64,
    /// Mean length of the first schedule, in units of the paper.
    pub makespan: f64,
    /// For how much of it the tasks of the critical path compute, in per cent; unknown of
    /// the paper's.
    pub critical: Option<f64>,
    /// Number of runs that were in time.
    pub in_time: usize,
    /// In the order of [`FlowSlackPolicy::ALL`], means over the runs.
    pub shares: [SpareTimes; 6],
}

/// All of Table 1.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Table {
    /// By kind, then by first schedule.
    pub kinds: Vec<(GraphKind, [TableCell; 4])>,
}

impl TableCell {
    /// Means over the runs that were in time.
    pub fn of<'a>(runs: impl Iterator<Item = &'a PlannedGraph>) -> Self {
        let runs: Vec<&PlannedGraph> = runs.collect();
        let mean = |of: fn(&PlannedGraph) -> f64| {
            let sum: f64 = runs.iter().map(|run| of(run)).sum();
            sum / runs.len().max(1) as f64
        };
        let shares = std::array::from_fn(|policy| {
            let all: Vec<SpareTimes> = runs.iter().map(|run| run.shares[policy]).collect();
            SpareTimes::mean(&all)
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
    /// As printed in the paper, in the order of [`GraphKind::ALL`].
    pub fn paper() -> Self {
        let cell = |block: &paper::PaperBlock, scheduler: usize| TableCell {
            alpha: block.alpha[scheduler],
            makespan: DEADLINE_MS as f64 / 1000.0 / (1.0 + block.alpha[scheduler] / 100.0),
            critical: None,
            in_time: 100,
            shares: block.shares.map(|row| row[scheduler]),
        };
        let kind = |kind: GraphKind| {
            let block = paper::TABLE_1.iter().find(|block| block.kind == kind)?;
            Some((kind, std::array::from_fn(|at| cell(block, at))))
        };
        Self {
            kinds: GraphKind::ALL.into_iter().filter_map(kind).collect(),
        }
    }
}
