//! DLS: of all tasks whose parents have slots, and all machines, the pair with the highest
//! dynamic level: the longest way below the task, less the time until it could start there,
//! plus what the machine is faster than the median one. Of very many tasks those with the
//! longest ways are looked at. Sih and Lee, IEEE TPDS 4(2), 1993.

use super::dag::{Dag, Machines};
use super::heft::ready_ms;
use super::lanes::Lanes;
use super::rank;
use super::schedule::{Schedule, Slot};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Tasks by falling level.
type Order = (Reverse<i64>, usize);

/// So many tasks are looked at.
const LOOKED_AT: usize = 128;

/// A schedule of the whole graph by dynamic levels.
pub fn schedule(dag: &Dag, machines: &Machines) -> Schedule {
    let levels = rank::static_levels(dag);
    let lanes = Lanes::new(machines);
    let mut waits: Vec<usize> = dag.tasks().iter().map(|t| t.parents.len()).collect();
    let mut ready: BTreeMap<Order, Ready> = BTreeMap::new();
    let mut ends = vec![0; machines.count()];
    let mut slots = vec![Slot::default(); dag.count()];
    let fresh = |task: usize, slots: &[Slot]| Ready::new(dag, machines, levels[task], slots, task);
    for task in (0..dag.count()).filter(|t| waits[*t] == 0) {
        ready.insert((Reverse(levels[task]), task), fresh(task, &slots));
    }
    while let Some((at, slot)) = best(&ready, &ends, &lanes) {
        let task = at.1;
        ready.remove(&at);
        ends[slot.machine] = slot.end_ms;
        slots[task] = slot;
        for edge in &dag.tasks()[task].children {
            waits[edge.task] -= 1;
            if waits[edge.task] == 0 {
                let at = (Reverse(levels[edge.task]), edge.task);
                ready.insert(at, fresh(edge.task, &slots));
            }
        }
    }
    Schedule::new(dag, slots)
}

/// A task whose parents have slots.
struct Ready {
    /// Machine, estimate, when its data is there, and the level without its start.
    places: Vec<(usize, i64, i64, i64)>,
}

impl Ready {
    fn new(dag: &Dag, machines: &Machines, level: i64, slots: &[Slot], task: usize) -> Self {
        let median = rank::median_ms(dag, task);
        let place = |(machine, ms): (usize, i64)| {
            let data = ready_ms(dag, machines, slots, task, machine);
            (machine, ms, data, level + median - ms)
        };
        Self {
            places: dag.places(task).map(place).collect(),
        }
    }
}

fn best(ready: &BTreeMap<Order, Ready>, ends: &[i64], lanes: &Lanes) -> Option<(Order, Slot)> {
    let pairs = ready.iter().take(LOOKED_AT).flat_map(|(at, one)| {
        one.places.iter().map(move |&(machine, ms, data, level)| {
            let start_ms = lanes.behind(machine, ends[machine], data, ms);
            let slot = Slot {
                machine,
                start_ms,
                end_ms: start_ms + ms,
            };
            let key = (level - start_ms, Reverse(at.1), Reverse(machine));
            (key, *at, slot)
        })
    });
    let highest = pairs.max_by_key(|(key, _, _)| *key);
    highest.map(|(_, at, slot)| (at, slot))
}
