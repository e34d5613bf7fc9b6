//! What always holds of nodes and what is held of them.

use crate::jobs::run::Part;
use crate::rooms::Rooms;
use cosy_model::{Amounts, NodeId};
use std::collections::BTreeMap;

/// Checks the room.
///
/// # Errors
/// What does not hold, in words.
pub(crate) fn check(it: &Rooms) -> Result<(), String> {
    no_node_is_overbooked(it)
}

/// What jobs hold of a node never exceeds what it has, and no core or GPU is held twice.
fn no_node_is_overbooked(it: &Rooms) -> Result<(), String> {
    let mut held: BTreeMap<NodeId, (Amounts, Vec<u32>, Vec<&Part>)> = BTreeMap::new();
    for job in it.jobs.all() {
        for part in job.run().into_iter().flat_map(|run| run.all_parts()) {
            if part.is_released() {
                continue;
            }
            let (sum, cores, parts) = held.entry(part.node()).or_default();
            sum.give(part.held());
            cores.extend(part.held_cores());
            parts.push(part);
            if !it.machine.node(part.node()).jobs.contains(&job.id()) {
                let name = it.machine.name(part.node());
                return Err(format!(
                    "job {} is missing at its node {name}: {:?}",
                    job.id(),
                    job.phase()
                ));
            }
        }
    }
    for (id, (sum, mut cores, parts)) in held {
        let node = it.machine.node(id);
        let name = &node.spec.name;
        if node.known && !sum.fits(&node.amounts) {
            return Err(format!("node {name} is overbooked: {sum:?}"));
        }
        let all = cores.len();
        cores.sort_unstable();
        cores.dedup();
        if cores.len() != all {
            return Err(format!("a core of {name} is held twice"));
        }
        if node.cores.held() != cores.len() {
            return Err(format!("cores of {name} leak"));
        }
        let devices = node.devices.check(&parts);
        devices.map_err(|why| format!("node {name}: {why}"))?;
    }
    Ok(())
}
