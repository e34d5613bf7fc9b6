//! FCP: of a few tasks whose parents have slots the one with the longest way below it, on
//! one of two machines, wherever it ends first: the one from which its last data comes, or
//! the one that is idle first. Only as many tasks as there are machines are sorted; others
//! wait for a place among them in the order in which they became ready.
//! Radulescu and van Gemund, IEEE TPDS 13(6), 2002; machines differ here, so ends are
//! compared where the paper compares starts. What others have taken counts as not idle.

use super::dag::{Dag, Machines};
use super::heft::ready_ms;
use super::lanes::Lanes;
use super::rank;
use super::schedule::{Schedule, Slot};
use std::collections::{BTreeSet, VecDeque};

/// A schedule of the whole graph by the fast critical path.
pub fn schedule(dag: &Dag, machines: &Machines) -> Schedule {
    let order = rank::by_rank(dag, &rank::upward(dag, machines));
    let mut place = vec![0; dag.count()];
    for (at, task) in order.iter().enumerate() {
        place[*task] = at;
    }
    let mut waits: Vec<usize> = dag.tasks().iter().map(|t| t.parents.len()).collect();
    let mut ready = Ready::new(machines.count());
    for task in (0..dag.count()).filter(|t| waits[*t] == 0) {
        ready.add(place[task]);
    }
    let mut lines = Lines {
        dag,
        machines,
        lanes: Lanes::new(machines),
        ends: vec![0; machines.count()],
        slots: vec![Slot::default(); dag.count()],
    };
    while let Some(at) = ready.next() {
        let task = order[at];
        lines.place(task);
        for edge in &dag.tasks()[task].children {
            waits[edge.task] -= 1;
            if waits[edge.task] == 0 {
                ready.add(place[edge.task]);
            }
        }
    }
    Schedule::new(dag, lines.slots)
}

/// Tasks whose parents have slots, as places in the order of ranks.
struct Ready {
    room: usize,
    sorted: BTreeSet<usize>,
    others: VecDeque<usize>,
}

impl Ready {
    fn new(room: usize) -> Self {
        Self {
            room,
            sorted: BTreeSet::new(),
            others: VecDeque::new(),
        }
    }

    fn add(&mut self, at: usize) {
        match self.sorted.len() < self.room {
            true => drop(self.sorted.insert(at)),
            false => self.others.push_back(at),
        }
    }

    fn next(&mut self) -> Option<usize> {
        let first = self.sorted.pop_first()?;
        self.sorted.extend(self.others.pop_front());
        Some(first)
    }
}

struct Lines<'a> {
    dag: &'a Dag,
    machines: &'a Machines,
    lanes: Lanes,
    ends: Vec<i64>,
    slots: Vec<Slot>,
}

impl Lines<'_> {
    fn place(&mut self, task: usize) {
        let able = |m: &usize| self.dag.tasks()[task].estimates_ms[*m].is_some();
        let last = self.last_data_from(task).filter(able);
        let idle = (0..self.ends.len())
            .filter(able)
            .min_by_key(|m| (self.idle_ms(task, *m), *m));
        let slots = last.into_iter().chain(idle).map(|m| self.slot(task, m));
        let best = slots.min_by_key(|slot| (slot.end_ms, slot.machine));
        let slot = best.unwrap_or_default();
        self.ends[slot.machine] = slot.end_ms;
        self.slots[task] = slot;
    }

    /// From when on a machine would be free for a task, whose data has no say in it.
    fn idle_ms(&self, task: usize, machine: usize) -> i64 {
        let ms = self.dag.estimate_ms(task, machine);
        self.lanes.behind(machine, self.ends[machine], 0, ms)
    }

    /// The machine from which the last data of a task comes to another one.
    fn last_data_from(&self, task: usize) -> Option<usize> {
        let (units, pairs) = self.machines.units();
        let arrival =
            |data: i64, end: i64| i128::from(end) * pairs.max(1) + i128::from(data) * units / 1000;
        let parents = self.dag.tasks()[task].parents.iter();
        let parents = parents.map(|edge| (self.slots[edge.task], edge.data));
        let last = parents.max_by_key(|(slot, data)| (arrival(*data, slot.end_ms), slot.machine));
        last.map(|(slot, _)| slot.machine)
    }

    fn slot(&self, task: usize, machine: usize) -> Slot {
        let ready = ready_ms(self.dag, self.machines, &self.slots, task, machine);
        let ms = self.dag.estimate_ms(task, machine);
        let start_ms = self.lanes.behind(machine, self.ends[machine], ready, ms);
        Slot {
            machine,
            start_ms,
            end_ms: start_ms + ms,
        }
    }
}
