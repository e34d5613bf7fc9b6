//! A node as `slurm/.../nodes` tells it: what `sinfo --json` tells of it, and what came to that since.

use crate::tree::{Tree, number, texts};
use cosy_model::api::NodeInfo;
use cosy_slurm::json_yaml::Data;
use cosy_slurm::node::HeldFor;
use cosy_slurm::sinfo;

/// The record of a node, of a cluster of that name, with the reservation that has it now.
pub fn of_node(node: &NodeInfo, cluster: &str, reservation: Option<&str>, release: &str) -> Data {
    let held_for = match reservation {
        Some(_) => HeldFor::Reservation,
        None => HeldFor::Nobody,
    };
    let mut tree = Tree::of(sinfo::tree::of_node(node, held_for, release));
    let mut states = Vec::new();
    if let Data::Text(state) = tree.take("state") {
        states.push(state.to_ascii_uppercase().into());
    }
    if let Data::List(flags) = tree.take("state_flags") {
        states.extend(flags);
    }
    tree.take("next_state_after_reboot_flags");
    let machine = &node.machine;
    let sockets = machine.sockets.max(1);
    let version = if node.version.is_empty() { "" } else { release };
    tree.set("state", Data::List(states))
        .set("next_state_after_reboot", "INVALID")
        .set("features", texts(&node.features))
        .set("active_features", texts(&node.features))
        .set("cluster_name", cluster)
        .set("sockets", number(sockets))
        .set("cores", number((node.amounts.cores / sockets).max(1)))
        .set("threads", number(machine.threads_per_core.max(1)))
        .set("effective_cpus", number(node.amounts.cores))
        .set("reservation", reservation.unwrap_or_default())
        .rename("free_memory", "free_mem")
        .rename("idle_cpus", "alloc_idle_cpus")
        .set("version", version);
    tree.take("slurmd_version");
    if machine.free_memory.is_none() {
        tree.set("free_mem", Data::Null);
    }
    tree.done()
}
