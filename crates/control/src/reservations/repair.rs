//! Nodes of a reservation that are lost are replaced by others that are free then. Where
//! there are none the reservation is degraded, its holder is told, and it is tried again
//! and again.

use super::Reservation;
use crate::controller::Controller;
use cosy_model::reservation::ReservationState;
use cosy_model::{NodeId, NodeShare, NodeState, QueueId, ReservationId, Span, Time};
use cosy_sched::{Demand, NodeMask};

impl Controller {
    /// Looks at all reservations that could lack nodes, and at those that could be moved.
    pub(crate) fn check_reservations(&mut self, now: Time) {
        let open = |r: &&Reservation| match r.row.state {
            ReservationState::Held | ReservationState::Confirmed => true,
            ReservationState::Active => r.row.first_use.is_none(),
            ReservationState::Ended
            | ReservationState::Cancelled
            | ReservationState::Expired
            | ReservationState::Unused
            | ReservationState::Failed => false,
        };
        let affected: Vec<ReservationId> = self
            .reservations
            .all
            .values()
            .filter(open)
            .filter(|r| r.row.degraded || self.lacks_nodes(r))
            .map(|r| r.row.id)
            .collect();
        for id in affected {
            self.repair_one(now, id);
        }
        self.look_for_moves(now);
        self.forget_figures(now);
    }

    /// Figures that lie before the longest window of all queues are forgotten.
    fn forget_figures(&mut self, now: Time) {
        let of_queues = self.config.queue_reservations.values();
        let policies = of_queues.chain([&self.config.reservations]);
        let longest = policies.map(|p| &p.notice).max_by_key(|n| n.window);
        let figures = &mut self.reservations.figures;
        if let Some(before) = longest.and_then(|notice| figures.forget(now, notice)) {
            self.record(crate::record::Record::ForgetFigures { before });
        }
    }

    /// True when a node cannot be counted on: out of service, or silent for too long.
    fn is_lost(&self, node: NodeId) -> bool {
        let node = self.machine.node(node);
        node.state != NodeState::Open || node.problem.is_some() || node.lost
    }

    fn lacks_nodes(&self, reservation: &Reservation) -> bool {
        reservation.short || reservation.shares.iter().any(|s| self.is_lost(s.node))
    }

    /// Replaces lost nodes of a reservation if others can serve.
    pub(crate) fn repair_one(&mut self, now: Time, id: ReservationId) {
        let Some(reservation) = self.reservations.get(id) else {
            return;
        };
        if !self.lacks_nodes(reservation) {
            if reservation.row.degraded {
                self.set_degraded(now, id, false, "all its nodes are there again");
            }
            return;
        }
        let lost = self.lost_names(reservation);
        match self.other_nodes(now, id) {
            Some(shares) => {
                let new = self.names_of_shares(&shares);
                self.take_shares(now, id, shares);
                let note = format!("{lost} cannot serve: it has {new} now");
                self.set_degraded(now, id, false, &note);
            }
            None => {
                let degraded = self.reservations.get(id).is_some_and(|r| r.row.degraded);
                if !degraded {
                    let note = format!(
                        "{lost} cannot serve and no other nodes are free then; it is tried again and again"
                    );
                    self.set_degraded(now, id, true, &note);
                }
            }
        }
    }

    fn lost_names(&self, reservation: &Reservation) -> String {
        let lost = reservation.shares.iter().map(|s| s.node);
        let lost = lost.filter(|node| self.is_lost(*node));
        let names: Vec<String> = lost.map(|n| self.machine.name(n).to_owned()).collect();
        match names.is_empty() {
            true => "a node that is no longer configured".to_owned(),
            false => cosy_model::fold(&names),
        }
    }

    fn set_degraded(&mut self, now: Time, id: ReservationId, degraded: bool, note: &str) {
        if let Some(reservation) = self.reservations.all.get_mut(&id) {
            reservation.row.degraded = degraded;
        }
        let what = if degraded { "degraded" } else { "repaired" };
        self.tell_holder(now, id, what, note);
    }

    /// Where it could be instead, with as many of its good nodes as possible.
    fn other_nodes(&mut self, now: Time, id: ReservationId) -> Option<Vec<NodeShare>> {
        let reservation = self.reservations.get(id)?;
        let row = &reservation.row;
        let (_, mut demand) = self.demand_of(reservation)?;
        let mut good = NodeMask::new(self.machine.node_count());
        for share in &reservation.shares {
            if !self.is_lost(share.node) {
                good.insert(share.node);
            }
        }
        demand.tiers.insert(0, good);
        let start = row.start.max(now);
        let length = row.end.since(start);
        self.place_instead(now, id, &demand, (start, length))
    }

    /// Where a live reservation could be in another place or at another time: it is not in
    /// its own way.
    pub(crate) fn place_instead(
        &mut self,
        now: Time,
        id: ReservationId,
        demand: &Demand,
        (start, length): (Time, Span),
    ) -> Option<Vec<NodeShare>> {
        let block = self.reservations.get(id)?.block();
        self.planning.cluster_mut().remove_block(id);
        let found = self.planning.cluster().place(now, demand, start, length);
        self.planning.cluster_mut().add_block(block);
        found
    }

    /// What a reservation asks for, as its queue is now; `None` when the queue is gone or
    /// can no longer give it.
    pub(crate) fn demand_of(&self, reservation: &Reservation) -> Option<(QueueId, Demand)> {
        let row = &reservation.row;
        let queue = self.queue_id(&row.queue)?;
        let mut demand = self.demand_in(&row.ask.request, queue).ok()?;
        if let Some(nodes) = row.flow.and_then(|of| self.nodes_of_task(of)) {
            demand.allowed = demand.allowed.and(&nodes);
        }
        Some((queue, demand))
    }

    /// The reservation has other nodes from now on.
    pub(crate) fn take_shares(&mut self, now: Time, id: ReservationId, shares: Vec<NodeShare>) {
        let Some(reservation) = self.reservations.all.get_mut(&id) else {
            return;
        };
        (reservation.shares, reservation.short) = (shares, false);
        let block = reservation.block();
        let active = self.reservations.active.contains(&id);
        self.planning.cluster_mut().add_block(block);
        if active {
            self.leave_inside(id);
            self.open_inside(id);
            self.review_within_at_once(now, id);
        }
        self.touch_reservation(id);
    }
}
