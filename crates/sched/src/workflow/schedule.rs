//! Schedules: a slot for each task, and what follows when slots grow.

use super::dag::{Dag, Machines};
use super::lanes::Lanes;

/// Where and when a task runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slot {
    /// Machine.
    pub machine: usize,
    /// Start.
    pub start_ms: i64,
    /// End of the slot: start, estimate and what was added to it.
    pub end_ms: i64,
}

impl Slot {
    /// Its length.
    pub const fn length_ms(&self) -> i64 {
        self.end_ms - self.start_ms
    }
}

/// A slot for each task, and the order of the tasks on each machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    slots: Vec<Slot>,
    /// The next task on the same machine.
    next: Vec<Option<usize>>,
    /// The task before on the same machine.
    before: Vec<Option<usize>>,
    /// Every task after its parents and after the one before it on its machine.
    order: Vec<usize>,
    /// The end of the last slot.
    end_ms: i64,
}

impl Schedule {
    /// A schedule out of slots.
    pub fn new(dag: &Dag, slots: Vec<Slot>) -> Self {
        let mut place = vec![0; slots.len()];
        for (at, task) in dag.order().iter().enumerate() {
            place[*task] = at;
        }
        // Tasks that take no time start with others: then the graph's order counts.
        let mut order: Vec<usize> = (0..slots.len()).collect();
        order.sort_by_key(|task| (slots[*task].start_ms, slots[*task].end_ms, place[*task]));
        let mut next = vec![None; slots.len()];
        let mut before = vec![None; slots.len()];
        let mut last: std::collections::BTreeMap<usize, usize> = Default::default();
        for task in &order {
            if let Some(earlier) = last.insert(slots[*task].machine, *task) {
                next[earlier] = Some(*task);
                before[*task] = Some(earlier);
            }
        }
        let mut schedule = Self {
            end_ms: last_end(&slots),
            slots,
            next,
            before,
            order,
        };
        schedule.order = schedule.topological(dag);
        schedule
    }

    /// The slots, by task.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Every task after its parents and after the one before it on its machine.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The end of the last slot.
    pub fn end_ms(&self) -> i64 {
        self.end_ms
    }

    /// The next task on the same machine.
    pub fn next(&self, task: usize) -> Option<usize> {
        self.next[task]
    }

    /// The task before on the same machine.
    pub fn before(&self, task: usize) -> Option<usize> {
        self.before[task]
    }

    fn topological(&self, dag: &Dag) -> Vec<usize> {
        let count = self.slots.len();
        let mut waits: Vec<usize> = (0..count)
            .map(|t| dag.tasks()[t].parents.len() + usize::from(self.before[t].is_some()))
            .collect();
        let mut ready: Vec<usize> = (0..count).rev().filter(|t| waits[*t] == 0).collect();
        let mut order = Vec::with_capacity(count);
        while let Some(task) = ready.pop() {
            order.push(task);
            let children = dag.tasks()[task].children.iter().map(|e| e.task);
            for after in children.chain(self.next[task]) {
                waits[after] -= 1;
                if waits[after] == 0 {
                    ready.push(after);
                }
            }
        }
        debug_assert_eq!(
            order.len(),
            count,
            "the machines' orders go against the graph"
        );
        order
    }

    /// The same machines and orders with slots of these lengths, each as early as its
    /// parents' data, the task before it and other work on the machine allow.
    pub fn with_lengths(&self, dag: &Dag, machines: &Machines, lengths_ms: &[i64]) -> Self {
        let lanes = Lanes::new(machines);
        let mut slots = self.slots.clone();
        for &task in &self.order {
            let machine = slots[task].machine;
            let data = dag.tasks()[task].parents.iter().map(|edge| {
                let from = &slots[edge.task];
                from.end_ms + machines.transfer_ms(edge.data, from.machine, machine)
            });
            let ready = data.max().unwrap_or(0);
            let last = self.before[task].map_or(0, |t| slots[t].end_ms);
            let start = lanes.behind(machine, last, ready.max(0), lengths_ms[task]);
            slots[task].start_ms = start;
            slots[task].end_ms = start + lengths_ms[task];
        }
        Self {
            end_ms: last_end(&slots),
            slots,
            next: self.next.clone(),
            before: self.before.clone(),
            order: self.order.clone(),
        }
    }

    /// How much later the slot of a task could end without anything that depends on it, by
    /// the graph or on the same machine, starting later (the paper, section 2). For a task
    /// on which nothing depends: until the end of the schedule.
    pub fn gap_ms(&self, dag: &Dag, machines: &Machines, task: usize) -> i64 {
        let own = &self.slots[task];
        let children = dag.tasks()[task].children.iter().map(|edge| {
            let child = &self.slots[edge.task];
            child.start_ms - machines.transfer_ms(edge.data, own.machine, child.machine)
        });
        let next = self.next[task].map(|t| self.slots[t].start_ms);
        let others = machines.busy_ms(own.machine);
        let other = others
            .iter()
            .map(|(from, _)| *from)
            .find(|from| *from >= own.end_ms);
        let until = children.chain(next).chain(other).min();
        until.unwrap_or_else(|| self.end_ms()).min(self.end_ms()) - own.end_ms
    }

    /// The spare time of a task: how much longer than its estimate it may take, within its
    /// slot and in the gap behind it.
    pub fn spare_ms(&self, dag: &Dag, machines: &Machines, task: usize) -> i64 {
        let own = &self.slots[task];
        let estimate = dag.estimate_ms(task, own.machine);
        own.length_ms() - estimate + self.gap_ms(dag, machines, task)
    }
}

fn last_end(slots: &[Slot]) -> i64 {
    slots.iter().map(|s| s.end_ms).max().unwrap_or(0)
}
