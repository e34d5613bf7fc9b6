//! HEFT: tasks by falling upward rank, each where it ends first; a gap between two tasks
//! is used if it is long enough. Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002.

use super::dag::{Dag, Machines};
use super::lanes::Lanes;
use super::rank;
use super::schedule::{Schedule, Slot};

/// A schedule of the whole graph by upward ranks.
pub fn schedule(dag: &Dag, machines: &Machines) -> Schedule {
    let mut lanes = Lanes::new(machines);
    let mut slots = vec![Slot::default(); dag.count()];
    for task in rank::by_rank(dag, &rank::upward(dag, machines)) {
        let slot = best(dag, machines, &lanes, &slots, task);
        lanes.take(slot.machine, slot.start_ms, slot.end_ms);
        slots[task] = slot;
    }
    Schedule::new(dag, slots)
}

/// Where a task whose parents have slots ends first.
fn best(dag: &Dag, machines: &Machines, lanes: &Lanes, slots: &[Slot], task: usize) -> Slot {
    let place = |(machine, ms): (usize, i64)| {
        let ready = ready_ms(dag, machines, slots, task, machine);
        let start_ms = lanes.earliest(machine, ready, ms);
        Slot {
            machine,
            start_ms,
            end_ms: start_ms + ms,
        }
    };
    let all = dag.places(task).map(place);
    all.min_by_key(|slot| (slot.end_ms, slot.machine))
        .unwrap_or_default()
}

/// When the data of all parents of a task is on a machine.
pub fn ready_ms(dag: &Dag, machines: &Machines, slots: &[Slot], task: usize, at: usize) -> i64 {
    let data = dag.tasks()[task].parents.iter().map(|edge| {
        let from = &slots[edge.task];
        from.end_ms + machines.transfer_ms(edge.data, from.machine, at)
    });
    data.max().unwrap_or(0).max(dag.release_ms(task, at))
}
