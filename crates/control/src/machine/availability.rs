//! Which nodes may be planned on, and what nodes are told of the cluster.

use crate::clock::Clocks;
use crate::config::ClusterConfig;
use crate::event::{Effect, LinkId};
use crate::machine::Machine;
use crate::reservations::inside::procedures::update_available_inside;
use crate::rooms::Rooms;
use crate::triggers::watch::procedures::watch_node;
use crate::turn::Turn;
use cosy_model::node::NodeOrder;
use cosy_model::{EventKind, EventObject, NodeId, NodeState, Span};

pub(crate) fn update_available(rooms: &mut Rooms, turn: &mut Turn, id: NodeId) {
    let node = rooms.machine.node(id);
    if node.link.is_some() || node.state != NodeState::Open || node.lost {
        rooms.machine.returning.is_settled(id);
    }
    let node = rooms.machine.node(id);
    let clear = !rooms.machine.changes.concern(id);
    let available = node.takes_jobs() && clear;
    let planned_on = node.can_be_planned_on() && clear;
    rooms.planning.cluster_mut().set_available(id, planned_on);
    update_available_inside(
        &rooms.machine,
        &rooms.jobs,
        &rooms.planning,
        &mut rooms.reservations,
        id,
        available,
    );
    watch_node(&mut rooms.machine, &rooms.jobs, &mut rooms.triggers, turn, id);
}

/// Takes a node out of service with a reason, as its own checks demand.
pub(crate) fn drain_by_itself(rooms: &mut Rooms, turn: &mut Turn, id: NodeId, reason: &str) {
    let now = turn.now();
    let node = &mut rooms.machine.nodes[id.index()];
    if node.state == NodeState::Open {
        node.state = NodeState::Drained {
            reason: reason.to_owned(),
            by: "controller".to_owned(),
            since: Some(now),
        };
        let object = EventObject::Node(node.spec.name.clone());
        rooms.machine.save_node(turn, id);
        turn.happened(now, EventKind::Drained, &object.to_string(), object, reason.to_owned());
        update_available(rooms, turn, id);
    }
}

/// Tells all nodes anew what they are told at registration.
pub(crate) fn tell_policy(
    config: &ClusterConfig,
    clocks: &Clocks,
    machine: &Machine,
    turn: &mut Turn,
) {
    let links: Vec<LinkId> = machine.links.keys().copied().collect();
    for link in links {
        let order = welcome(config, clocks, Vec::new(), Vec::new());
        turn.effect(Effect::Order { link, order });
    }
}

/// What a node is told at registration, and anew when that changes.
pub(crate) fn welcome(
    config: &ClusterConfig,
    clocks: &Clocks,
    unknown: Vec<String>,
    revoked: Vec<String>,
) -> NodeOrder {
    NodeOrder::Welcome {
        cluster: config.name.clone(),
        heartbeat: config.policy.heartbeat,
        unknown,
        revoked,
        alone: alone(config),
        now: Some(clocks.wall),
    }
}

/// How long nodes may be alone before they end what may run again.
pub(crate) fn alone(config: &ClusterConfig) -> Option<Span> {
    let policy = &config.policy;
    policy.self_fencing.then_some(policy.node_timeout)
}
