//! What nodes tell about themselves is compared, and jobs are placed anew where it matters.

use crate::jobs::Jobs;
use crate::jobs::run::Part;
use crate::machine::Machine;
use crate::machine::availability::update_available;
use crate::machine::devices::{has_room_for, told_types};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::NodeId;
use cosy_model::node::NodeSelf;

/// A node tells what it has, or (`None`) the configuration tells it anew. Where jobs hold
/// more (a GPU has died, and they have not noticed), what was known of the node stays, and
/// it takes no jobs until enough of them have ended. True when it has told the types of its
/// GPUs for the first time.
pub(crate) fn told_amounts(
    machine: &mut Machine,
    jobs: &Jobs,
    id: NodeId,
    from: Option<NodeSelf>,
) -> bool {
    machine.changes.amounts.remove(&id);
    machine.changes.short.remove(&id);
    let node = &machine.nodes[id.index()];
    let told = from.as_ref().map_or(&node.amounts, |from| &from.amounts);
    let amounts = node.spec.amounts.as_ref().unwrap_or(told).clone();
    let types = match &from {
        Some(from) => told_types(from),
        None => node.devices.types().to_vec(),
    };
    if !has_room_for(&amounts, &types, &parts_at(machine, jobs, id)) {
        machine.changes.short.insert(id, from);
        return false;
    }
    let node = &mut machine.nodes[id.index()];
    let counted = node.devices.counted;
    if let Some(from) = &from {
        node.devices.tell(from);
    }
    let amounts = node.devices.counted(amounts);
    // The store tells of the types of GPUs from now on, also that there are none.
    let first = !counted && node.devices.counted && amounts.gpus > 0;
    if !node.known || node.amounts != amounts {
        machine.changes.amounts.insert(id, amounts);
    }
    first
}

/// The configuration has changed: what it says of a node holds at once.
pub(crate) fn configured_amounts(machine: &mut Machine, jobs: &Jobs, id: NodeId) {
    let told = machine.changes.short.remove(&id).flatten();
    told_amounts(machine, jobs, id, told);
    if let Some(amounts) = machine.changes.amounts.remove(&id) {
        let node = &mut machine.nodes[id.index()];
        node.amounts = amounts;
        node.known = true;
    }
}

/// What jobs hold of a node.
fn parts_at<'a>(machine: &'a Machine, jobs: &'a Jobs, id: NodeId) -> Vec<&'a Part> {
    let here = machine.nodes[id.index()].jobs.iter();
    let runs = here.filter_map(|job| jobs.get(job)?.run());
    runs.filter_map(|run| run.part(id))
        .filter(|part| !part.is_released())
        .collect()
}

/// A job has given back what it held there.
pub(crate) fn take_over_again(rooms: &mut Rooms, turn: &mut Turn, id: NodeId) {
    let Some(from) = rooms.machine.changes.short.remove(&id) else {
        return;
    };
    if told_amounts(&mut rooms.machine, &rooms.jobs, id, from) {
        rooms.machine.save_node(turn, id);
    }
    update_available(rooms, turn, id);
}
