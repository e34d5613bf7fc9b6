//! The switches of the configuration as a tree over the numbers of nodes.

use cosy_model::{NodeId, SwitchSpec, topology};
use cosy_sched::{NodeMask, Topology};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The switches of the network.
#[derive(Debug)]
pub(crate) struct Network {
    /// As the planner has it.
    pub topology: Arc<Topology>,
    /// Of each leaf switch its name, with those of the switches above it before, and dots between.
    paths: Vec<String>,
}

impl Network {
    /// The network of so many nodes, whose numbers `id_of` tells.
    pub fn of(
        switches: &[SwitchSpec],
        nodes: usize,
        id_of: impl Fn(&str) -> Option<NodeId>,
    ) -> Self {
        Self {
            topology: Arc::new(tree(switches, nodes, id_of)),
            paths: paths(switches),
        }
    }

    /// The switches that a node hangs on, from the top down with dots between; empty without any.
    pub fn path(&self, node: NodeId) -> &str {
        let leaf = self.topology.leaf(node);
        self.paths.get(leaf as usize).map_or("", String::as_str)
    }
}

fn tree(switches: &[SwitchSpec], nodes: usize, id_of: impl Fn(&str) -> Option<NodeId>) -> Topology {
    let leaves = switches.iter().filter(|switch| switch.switches.is_empty());
    let numbers: BTreeMap<&str, u32> = leaves.clone().map(|leaf| &*leaf.name).zip(0..).collect();
    let nodes_of = |leaf: &SwitchSpec| leaf.nodes.iter().filter_map(|name| id_of(name)).collect();
    let number = |switch: &SwitchSpec| numbers.get(&*switch.name).copied();
    let mut under = topology::under(switches, |switch| number(switch).into_iter().collect());
    let levels = topology::levels(switches).into_iter().zip(switches);
    let above = levels.filter_map(|(level, switch)| {
        let level = level.filter(|level| *level > 0)?;
        Some((level, under.remove(&*switch.name)?))
    });
    let above = above.collect();
    let leaves: Vec<NodeMask> = leaves.map(nodes_of).collect();
    Topology::new(nodes, leaves, above)
}

/// For each leaf switch the names from the top down to it.
fn paths(switches: &[SwitchSpec]) -> Vec<String> {
    let hangs = switches.iter().flat_map(|above| {
        let below = above.switches.iter();
        below.map(move |name| (name.as_str(), above.name.as_str()))
    });
    let above: BTreeMap<&str, &str> = hangs.collect();
    let leaves = switches.iter().filter(|switch| switch.switches.is_empty());
    let path = |leaf: &SwitchSpec| {
        let next = |name: &&str| above.get(name).copied();
        // No longer than there are switches, whatever hangs on what.
        let names = std::iter::successors(Some(leaf.name.as_str()), next).take(switches.len());
        let mut names: Vec<&str> = names.collect();
        names.reverse();
        names.join(".")
    };
    leaves.map(path).collect()
}
