//! Schedules: a slot for each task, and what follows when slots grow.

use super::dag::Dag;
use super::resource_model::ResourceModel;
use std::sync::Arc;

/// Where and when a task runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slot {
    /// Number of the machine that runs it.
    pub machine: usize,
    /// Start, in milliseconds from the beginning of the schedule.
    pub start_ms: i64,
    /// End of the slot: start, estimate and what was added to it.
    pub end_ms: i64,
}

impl Slot {
    /// Length in milliseconds.
    pub const fn length_ms(&self) -> i64 {
        self.end_ms - self.start_ms
    }
}

/// A slot for each task, and which tasks follow each other on the same place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    slots: Vec<Slot>,
    links: Arc<Links>,
    /// The end of the last slot.
    end_ms: i64,
}

/// What stays when slots grow.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Links {
    /// The next tasks on the same place: one on a machine.
    next: Vec<Vec<usize>>,
    /// The tasks before on the same place.
    before: Vec<Vec<usize>>,
    /// Every task after its parents and after those before it on its place.
    order: Vec<usize>,
}

impl Schedule {
    /// A schedule out of slots on machines that take one task at a time.
    pub fn new(dag: &Dag, slots: Vec<Slot>) -> Self {
        let mut place = vec![0; slots.len()];
        for (at, task) in dag.order().iter().enumerate() {
            place[*task] = at;
        }
        // Tasks that take no time start with others: then the graph's order counts.
        let mut order: Vec<usize> = (0..slots.len()).collect();
        order.sort_by_key(|task| (slots[*task].start_ms, slots[*task].end_ms, place[*task]));
        let mut before = vec![Vec::new(); slots.len()];
        let mut last: std::collections::BTreeMap<usize, usize> = Default::default();
        for task in order {
            before[task].extend(last.insert(slots[task].machine, task));
        }
        Self::with_links(dag, slots, before)
    }

    /// A schedule out of slots, with the tasks that go before each on the same place.
    pub(super) fn with_links(dag: &Dag, slots: Vec<Slot>, before: Vec<Vec<usize>>) -> Self {
        let mut next = vec![Vec::new(); slots.len()];
        for (task, earlier) in before.iter().enumerate() {
            earlier.iter().for_each(|e| next[*e].push(task));
        }
        let order = topological(dag, &before, &next);
        Self {
            end_ms: last_end(&slots),
            slots,
            links: Arc::new(Links {
                next,
                before,
                order,
            }),
        }
    }

    /// The slots, by task.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Every task after its parents and after those before it on its place.
    pub fn order(&self) -> &[usize] {
        &self.links.order
    }

    /// The end of the last slot.
    pub fn end_ms(&self) -> i64 {
        self.end_ms
    }

    /// The next tasks on the same place; on a machine at most one.
    pub fn next(&self, task: usize) -> &[usize] {
        &self.links.next[task]
    }

    /// The tasks before on the same place; on a machine at most one.
    pub fn before(&self, task: usize) -> &[usize] {
        &self.links.before[task]
    }

    /// The same places and orders with slots of these lengths, each as early as its
    /// parents' data, the tasks before it and other work on the place allow. A slot that is
    /// longer than its estimate grows only up to other work, and never gets behind it by that.
    pub fn with_lengths<G: ResourceModel>(
        &self,
        dag: &Dag,
        resources: &G,
        lengths_ms: &[i64],
    ) -> Self {
        let mut occupancy = resources.open();
        let mut slots = self.slots.clone();
        for &task in self.order() {
            let machine = slots[task].machine;
            let data = dag.tasks()[task].parents.iter().map(|edge| {
                let from = &slots[edge.task];
                from.end_ms + resources.carry_ms(edge.data, from.machine, machine)
            });
            let before = self.before(task).iter().map(|t| slots[*t].end_ms);
            let ready = data.chain(before).max().unwrap_or(0);
            let ready = ready.max(dag.release_ms(task, machine));
            let least = lengths_ms[task].min(dag.estimate_ms(task, machine));
            let start = resources.earliest_ms(&occupancy, task, &slots[task], ready, least);
            slots[task].start_ms = start;
            slots[task].end_ms = start + least;
            if least < lengths_ms[task] {
                let until = resources.free_until_ms(&occupancy, task, &slots[task]);
                let wanted = start + lengths_ms[task];
                slots[task].end_ms = until.map_or(wanted, |until| until.min(wanted));
            }
            resources.take(&mut occupancy, task, &slots[task]);
        }
        Self {
            end_ms: last_end(&slots),
            slots,
            links: self.links.clone(),
        }
    }

    /// The same starts with other ends, none of them behind what follows.
    pub(super) fn with_ends(&self, ends_ms: &[i64]) -> Self {
        let mut slots = self.slots.clone();
        for (slot, end) in slots.iter_mut().zip(ends_ms) {
            slot.end_ms = *end;
        }
        Self {
            end_ms: last_end(&slots),
            slots,
            links: self.links.clone(),
        }
    }

    /// How much later the slot of a task could end without anything that depends on it, by
    /// the graph or on the same place, starting later (the paper, section 2). For a task
    /// on which nothing depends: until the end of the schedule.
    pub fn gap_ms<G: ResourceModel>(&self, dag: &Dag, resources: &G, task: usize) -> i64 {
        let own = &self.slots[task];
        let children = dag.tasks()[task].children.iter().map(|edge| {
            let child = &self.slots[edge.task];
            child.start_ms - resources.carry_ms(edge.data, own.machine, child.machine)
        });
        let next = self.next(task).iter().map(|t| self.slots[*t].start_ms);
        let until = children
            .chain(next)
            .chain(resources.needed_ms(task, own))
            .min();
        until.unwrap_or_else(|| self.end_ms()).min(self.end_ms()) - own.end_ms
    }

    /// The spare time of a task: how much longer than its estimate it may take, within its
    /// slot and in the gap behind it.
    pub fn spare_ms<G: ResourceModel>(&self, dag: &Dag, resources: &G, task: usize) -> i64 {
        let own = &self.slots[task];
        let estimate = dag.estimate_ms(task, own.machine);
        own.length_ms() - estimate + self.gap_ms(dag, resources, task)
    }
}

fn topological(dag: &Dag, before: &[Vec<usize>], next: &[Vec<usize>]) -> Vec<usize> {
    let count = before.len();
    let mut waits: Vec<usize> = (0..count)
        .map(|t| dag.tasks()[t].parents.len() + before[t].len())
        .collect();
    let mut ready: Vec<usize> = (0..count).rev().filter(|t| waits[*t] == 0).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(task) = ready.pop() {
        order.push(task);
        let children = dag.tasks()[task].children.iter().map(|e| e.task);
        for after in children.chain(next[task].iter().copied()) {
            waits[after] -= 1;
            if waits[after] == 0 {
                ready.push(after);
            }
        }
    }
    debug_assert_eq!(order.len(), count, "the orders on places go against the graph");
    order
}

fn last_end(slots: &[Slot]) -> i64 {
    slots.iter().map(|s| s.end_ms).max().unwrap_or(0)
}
