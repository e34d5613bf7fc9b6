//! What the cluster and its queues have in all, counted as jobs hold it.
//!
//! Nodes that are down count: a limit does not shrink with every failure.

use crate::config::ClusterConfig;
use crate::jobs::held_amounts::{add, add_amounts, licenses_of};
use crate::jobs::limits::bill;
use crate::machine::Machine;
use crate::policy::limits::tally::Amounts;
use crate::policy::limits::wholes::Wholes;
use crate::queues::Queues;
use cosy_model::NodeId;
use cosy_model::policy::Tres;

/// As the machine and the queues are now.
pub(crate) fn wholes(config: &ClusterConfig, machine: &Machine, queues: &Queues) -> Wholes {
    let with_qos = queues.all().iter();
    let with_qos = with_qos.filter(|queue| queue.spec().admits.qos.is_some());
    let of_queues = with_qos.map(|queue| {
        let name = queue.spec().name.clone();
        let has = whole(config, machine, &name, queue.nodes().iter());
        (name, has)
    });
    Wholes {
        cluster: whole(config, machine, "", machine.ids()),
        queues: of_queues.collect(),
    }
}

fn whole(
    config: &ClusterConfig,
    machine: &Machine,
    queue: &str,
    nodes: impl Iterator<Item = NodeId>,
) -> Amounts {
    let mut has = Amounts::new();
    for id in nodes {
        add_amounts(&mut has, machine.node(id).amounts(), 1);
        add(&mut has, Tres::Node, 1);
    }
    licenses_of(&mut has, &config.licenses);
    bill(config, queue, &mut has);
    has
}
