//! Nodes of a reservation that are lost are replaced by others that are free then. Where
//! there are none the reservation is degraded, its holder is told, and it is tried again
//! and again.

use crate::config::ClusterConfig;
use crate::machine::Machine;
use crate::reservations::ask::procedures::demand_in;
use crate::reservations::procedures::tell_holder;
use crate::reservations::{Reservation, Reservations};
use crate::rooms::Rooms;
use crate::turn::Turn;
use crate::workflows::resolve::procedures::nodes_of_task;
use cosy_model::{EventKind, NodeId, NodeShare, NodeState, QueueId, ReservationId, Time};
use cosy_sched::{Component, NodeMask};

impl Reservations {
    /// Figures that lie before the longest window of all queues are forgotten.
    pub(crate) fn forget_figures(&mut self, config: &ClusterConfig, turn: &mut Turn) {
        let now = turn.now();
        let of_queues = config.queue_reservations.values();
        let policies = of_queues.chain([&config.reservations]);
        let longest = policies.map(|p| &p.notice).max_by_key(|n| n.window);
        let figures = &mut self.figures;
        if let Some(before) = longest.and_then(|notice| figures.forget(now, notice)) {
            turn.record(crate::record::Record::ForgetFigures { before });
        }
    }
}

/// True when a node cannot be counted on: out of service, or silent for too long.
fn is_lost(machine: &Machine, node: NodeId) -> bool {
    let node = machine.node(node);
    *node.state() != NodeState::Open || node.problem().is_some() || node.lost()
}

pub(crate) fn lacks_nodes(machine: &Machine, reservation: &Reservation) -> bool {
    reservation.short || reservation.shares.iter().any(|s| is_lost(machine, s.node))
}

pub(crate) fn lost_names(machine: &Machine, reservation: &Reservation) -> String {
    let lost = reservation.shares.iter().map(|s| s.node);
    let lost = lost.filter(|node| is_lost(machine, *node));
    let names: Vec<String> = lost.map(|n| machine.name(n).to_owned()).collect();
    match names.is_empty() {
        true => "a node that is no longer configured".to_owned(),
        false => cosy_model::fold(&names),
    }
}

pub(crate) fn set_degraded(
    config: &ClusterConfig,
    reservations: &mut Reservations,
    turn: &mut Turn,
    id: ReservationId,
    degraded: bool,
    note: &str,
) {
    if let Some(reservation) = reservations.all.get_mut(&id) {
        reservation.row.degraded = degraded;
    }
    let kind = match degraded {
        true => EventKind::Degraded,
        false => EventKind::Repaired,
    };
    tell_holder(config, reservations, turn, id, kind, note);
}

/// Where it could be instead, with as many of its good nodes as possible.
pub(crate) fn other_nodes(rooms: &Rooms, now: Time, id: ReservationId) -> Option<Vec<NodeShare>> {
    let reservation = rooms.reservations.get(id)?;
    let row = &reservation.row;
    let (_, mut demand) = demand_of(rooms, reservation)?;
    let mut good = NodeMask::new(rooms.machine.node_count());
    for share in &reservation.shares {
        if !is_lost(&rooms.machine, share.node) {
            good.insert(share.node);
        }
    }
    demand.tiers.insert(0, good);
    let start = row.start.max(now);
    let length = row.end.since(start);
    let planner = rooms.planning.cluster();
    planner.place_instead_of(id, now, &demand, start, length)
}

/// What a reservation asks for, as its queue is now; `None` when the queue is gone or
/// can no longer give it.
pub(crate) fn demand_of(rooms: &Rooms, reservation: &Reservation) -> Option<(QueueId, Component)> {
    let row = &reservation.row;
    let queue = rooms.queues.queue_id(&row.queue)?;
    let mut demand = demand_in(
        &rooms.config,
        &rooms.machine,
        &rooms.queues,
        &rooms.planning,
        &row.ask.request,
        queue,
    )
    .ok()?;
    if let Some(nodes) = row
        .flow
        .and_then(|of| nodes_of_task(&rooms.config, &rooms.machine, &rooms.workflows, of))
    {
        demand.allowed = demand.allowed.and(&nodes).into();
    }
    Some((queue, demand))
}
