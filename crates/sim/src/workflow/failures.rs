//! Table 2: tasks that take longer or shorter than estimated, within their slots.
//!
//! Where the paper is silent:
//! - A run time is the estimate times 1 + QoI · u with u even between -1 and 1, the same u
//!   for all policies and amounts of error; at least a hundredth of the estimate.
//! - A slot reaches as far as the task's spare time: the gap behind it is kept for it, which
//!   is what Table 1 counts.
//! - When tasks start: each with its slot, or as soon as its data is there and the machine
//!   is free. Both are measured.
//! - A task still running at the end of its slot is killed there; its children run on.
//! - With DAG_Reserve all machines are held until the deadline, and tasks run in the order
//!   of the first schedule as soon as they can; a failure is an end after the deadline.
//! - Utilisation is the mean over the machines of the time in which tasks run, of the time
//!   that is reserved.

use super::{longer_ms, threshold_ms};
use crate::dag::{GraphKind, GraphSettings};
use cosy_sched::workflow::{
    Dag, FlowScheduler, FlowSlackPolicy, Machines, Schedule, schedule, share_out,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// Time to share out, in per cent of the first schedule.
pub const ALPHAS: [u32; 4] = [20, 50, 100, 150];
/// Largest errors of estimates, in per cent of them.
pub const QOI: [u32; 5] = [0, 20, 50, 100, 150];

/// What is reserved for a workflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// A slot for each task.
    Slots(FlowSlackPolicy),
    /// All machines until the deadline.
    DagReserve,
}

impl Method {
    /// All of them, in the order of the paper's table.
    pub const ALL: [Self; 7] = [
        Self::Slots(FlowSlackPolicy::REvenTime),
        Self::Slots(FlowSlackPolicy::REvenPercent1),
        Self::Slots(FlowSlackPolicy::RCpFirst),
        Self::Slots(FlowSlackPolicy::REvenPercent2),
        Self::Slots(FlowSlackPolicy::CpEvenTime),
        Self::Slots(FlowSlackPolicy::CpEvenPercent),
        Self::DagReserve,
    ];

    /// The method's name in the paper.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Slots(policy) => policy.word(),
            Self::DagReserve => "DAG_Reserve",
        }
    }
}

/// When the tasks of a plan start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum TaskStart {
    /// Each at the start of its slot.
    Slot,
    /// As soon as they can.
    Early,
}

/// What became of a workflow.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Outcome {
    /// A task ran out of its slot, or all of it out of the deadline.
    pub failed: bool,
    /// Used part of what was reserved.
    pub used: f64,
}

/// Tasks with their real run times.
struct Case<'a> {
    dag: &'a Dag,
    machines: &'a Machines,
    actual_ms: Vec<i64>,
}

impl Case<'_> {
    /// Runs the tasks within the slots of a plan.
    fn in_slots(&self, plan: &Schedule, begin: TaskStart) -> Outcome {
        let slots = plan.slots();
        let mut outcome = Outcome::default();
        let mut ends = vec![0; slots.len()];
        let mut sums = MachineUse::new(self.machines.count());
        for &task in plan.order() {
            let gap = plan.gap_ms(self.dag, self.machines, task);
            let limit = slots[task].end_ms + gap;
            let start = match begin {
                TaskStart::Slot => slots[task].start_ms,
                TaskStart::Early => self.earliest(plan, &ends, task),
            };
            let end = start + self.actual_ms[task];
            outcome.failed |= end > limit;
            ends[task] = end.min(limit).max(start);
            let reserved = limit - slots[task].start_ms;
            sums.add(slots[task].machine, ends[task] - start, reserved);
        }
        outcome.used = sums.used();
        outcome
    }

    /// Runs a first schedule on machines that are held until the deadline.
    fn in_all(&self, first: &Schedule, deadline_ms: i64) -> Outcome {
        let mut ends = vec![0; first.slots().len()];
        let mut sums = MachineUse::new(self.machines.count());
        for &task in first.order() {
            let start = self.earliest(first, &ends, task);
            ends[task] = start + self.actual_ms[task];
            let ran = ends[task].min(deadline_ms) - start.min(deadline_ms);
            sums.add(first.slots()[task].machine, ran, 0);
        }
        for machine in 0..self.machines.count() {
            sums.add(machine, 0, deadline_ms);
        }
        Outcome {
            failed: ends.iter().any(|end| *end > deadline_ms),
            used: sums.used(),
        }
    }

    /// When the data of a task is there and the task before it on its machine is done.
    fn earliest(&self, plan: &Schedule, ends: &[i64], task: usize) -> i64 {
        let machine = plan.slots()[task].machine;
        let data = self.dag.tasks()[task].parents.iter().map(|edge| {
            let from = plan.slots()[edge.task].machine;
            ends[edge.task] + self.machines.transfer_ms(edge.data, from, machine)
        });
        let before = plan.before(task).iter().map(|other| ends[*other]);
        data.chain(before).max().unwrap_or(0)
    }
}

/// Used and reserved time by machine.
struct MachineUse(Vec<(i64, i64)>);

impl MachineUse {
    fn new(machines: usize) -> Self {
        Self(vec![(0, 0); machines])
    }

    fn add(&mut self, machine: usize, used: i64, reserved: i64) {
        self.0[machine].0 += used;
        self.0[machine].1 += reserved;
    }

    /// The mean over the machines of which something is reserved.
    fn used(&self) -> f64 {
        let reserved: Vec<_> = self.0.iter().filter(|sums| sums.1 > 0).collect();
        let used = reserved.iter().map(|sums| sums.0 as f64 / sums.1 as f64);
        used.sum::<f64>() / reserved.len().max(1) as f64
    }
}

/// What became of one graph: by alpha, method and QoI.
pub type Outcomes = Vec<[[Outcome; 5]; 7]>;

/// A Montage graph, planned with HBMCT and run with all errors.
pub fn run(seed: u64, begin: TaskStart) -> Outcomes {
    let Ok((dag, machines)) = GraphSettings::usual(GraphKind::Montage, seed)
        .generate()
        .planned()
    else {
        return Vec::new();
    };
    let first = schedule(FlowScheduler::Hbmct, &dag, &machines);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(2);
    let errors: Vec<f64> = (0..dag.count())
        .map(|_| rng.random_range(-1.0..=1.0))
        .collect();
    let cases = QOI.map(|qoi| Case {
        dag: &dag,
        machines: &machines,
        actual_ms: actual_ms(&dag, &first, &errors, qoi),
    });
    let by_alpha = ALPHAS.map(|alpha| {
        let deadline = longer_ms(first.end_ms(), alpha.into());
        Method::ALL.map(|method| match method {
            Method::Slots(policy) => {
                let threshold = threshold_ms(deadline);
                let plan = share_out(policy, &dag, &machines, &first, deadline, threshold);
                cases.each_ref().map(|case| case.in_slots(&plan, begin))
            }
            Method::DagReserve => cases.each_ref().map(|case| case.in_all(&first, deadline)),
        })
    });
    by_alpha.into()
}

fn actual_ms(dag: &Dag, first: &Schedule, errors: &[f64], qoi: u32) -> Vec<i64> {
    let actual = |(task, error): (usize, &f64)| {
        let estimate = dag.estimate_ms(task, first.slots()[task].machine);
        longer_ms(estimate, error * f64::from(qoi)).max(estimate / 100)
    };
    errors.iter().enumerate().map(actual).collect()
}

/// A row of Table 2: a method at an alpha.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Row {
    /// Runs that failed, in per cent, by [`QOI`].
    pub failures: [f64; 5],
    /// Used part of what was reserved, in per cent, by [`QOI`].
    pub used: [f64; 5],
}

/// All of Table 2: by alpha and method.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Table(pub Vec<[Row; 7]>);

impl Table {
    /// Means over runs, in per cent.
    pub fn of(runs: &[Outcomes]) -> Self {
        let row = |alpha: usize, method: usize| {
            let mean = |of: &dyn Fn(&[Outcome; 5]) -> f64| {
                let rows = runs.iter().filter_map(|run| run.get(alpha));
                let values: Vec<f64> = rows.map(|row| of(&row[method])).collect();
                values.iter().sum::<f64>() * 100.0 / values.len().max(1) as f64
            };
            Row {
                failures: std::array::from_fn(|q| mean(&|o| f64::from(u8::from(o[q].failed)))),
                used: std::array::from_fn(|q| mean(&|o| o[q].used)),
            }
        };
        let rows = |alpha| std::array::from_fn(|method| row(alpha, method));
        Self((0..ALPHAS.len()).map(rows).collect())
    }

    /// As printed in the paper.
    pub fn paper() -> Self {
        let row = |row: &super::paper::Row| Row {
            failures: std::array::from_fn(|at| match at {
                0 => 0.0,
                at => f64::from(row.failures[at - 1]),
            }),
            used: row.used,
        };
        let rows = super::paper::TABLE_2.iter();
        Self(rows.map(|rows| rows.each_ref().map(row)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_sched::workflow::Slot;

    /// Two tasks one after the other on one machine, another on a second; 10 s each, slots
    /// of 15 s, and 5 s of gap behind the third.
    fn check(begin: TaskStart, actual: [i64; 3], failed: bool, used_percent: f64) {
        let machines = Machines::new(vec![vec![0; 2]; 2], vec![Vec::new(); 2]).expect("square");
        let row = || vec![Some(10_000); 2];
        let dag = Dag::new(vec![row(), row(), row()], &[(0, 1, 1)], &machines).expect("a graph");
        let slot = |machine, start_ms, end_ms| Slot {
            machine,
            start_ms,
            end_ms,
        };
        let slots = vec![
            slot(0, 0, 15_000),
            slot(0, 15_000, 30_000),
            slot(1, 0, 25_000),
        ];
        let plan = Schedule::new(&dag, slots);
        let case = Case {
            dag: &dag,
            machines: &machines,
            actual_ms: actual.map(|s| s * 1000).to_vec(),
        };
        let outcome = case.in_slots(&plan, begin);
        assert_eq!(outcome.failed, failed, "{begin:?} {actual:?}");
        let got = outcome.used * 100.0;
        assert!((got - used_percent).abs() < 0.01, "{actual:?}: {got}");
    }

    #[test]
    fn slots_are_kept_or_not() {
        let half = |first: f64, second: f64| (first + second) / 2.0 * 100.0;
        check(TaskStart::Slot, [10, 10, 10], false, half(20.0 / 30.0, 10.0 / 30.0));
        check(TaskStart::Slot, [15, 15, 30], false, 100.0);
        check(TaskStart::Slot, [16, 10, 30], true, half(25.0 / 30.0, 1.0));
        check(TaskStart::Slot, [5, 16, 10], true, half(20.0 / 30.0, 10.0 / 30.0));
        // It began ten seconds before its slot.
        check(TaskStart::Early, [5, 25, 10], false, half(1.0, 10.0 / 30.0));
        check(TaskStart::Early, [5, 26, 10], true, half(1.0, 10.0 / 30.0));
    }

    #[test]
    fn without_errors_nothing_fails() {
        for begin in [TaskStart::Slot, TaskStart::Early] {
            for row in run(3, begin).iter().flatten() {
                assert!(!row[0].failed && row[0].used > 0.0 && row[0].used <= 1.0);
            }
        }
    }

    #[test]
    fn the_papers_table_is_whole() {
        let paper = Table::paper();
        assert_eq!(paper.0.len(), 4);
        assert_eq!(paper.0[0][6].failures, [0.0, 0.0, 8.0, 59.0, 100.0]);
        assert_eq!(paper.0[3][5].used, [21.2, 24.4, 33.6, 46.1, 60.9]);
    }
}
