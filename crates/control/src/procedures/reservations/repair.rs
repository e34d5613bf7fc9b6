//! Reservations that have lost nodes get others.

use crate::procedures::reservations::vacate::look_at_promises;
use crate::procedures::reviews::review_within_at_once;
use crate::reservations::Reservation;
use crate::reservations::inside::procedures::{leave_inside, open_inside};
use crate::reservations::moves::look_for_moves;
use crate::reservations::procedures::touch_reservation;
use crate::reservations::repair::{lacks_nodes, lost_names, other_nodes, set_degraded};
use crate::reservations::show::procedures::names_of_shares;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::reservation::ReservationState;
use cosy_model::{NodeShare, ReservationId};

/// Looks at all reservations that could lack nodes, and at those that could be moved.
pub(crate) fn check_reservations(rooms: &mut Rooms, turn: &mut Turn) {
    let open = |r: &&Reservation| match r.row().state {
        ReservationState::Held | ReservationState::Confirmed => true,
        ReservationState::Active => r.row().first_use.is_none(),
        ReservationState::Ended
        | ReservationState::Cancelled
        | ReservationState::Expired
        | ReservationState::Unused
        | ReservationState::Failed => false,
    };
    let affected: Vec<ReservationId> = rooms
        .reservations
        .all()
        .filter(open)
        .filter(|r| r.row().degraded || lacks_nodes(&rooms.machine, r))
        .map(|r| r.row().id)
        .collect();
    for id in affected {
        repair_one(rooms, turn, id);
    }
    look_for_moves(rooms, turn);
    rooms.reservations.forget_figures(&rooms.config, turn);
}

/// Replaces lost nodes of a reservation if others can serve.
pub(crate) fn repair_one(rooms: &mut Rooms, turn: &mut Turn, id: ReservationId) {
    let now = turn.now();
    let Some(reservation) = rooms.reservations.get(id) else {
        return;
    };
    if !lacks_nodes(&rooms.machine, reservation) {
        if reservation.row().degraded {
            set_degraded(
                &rooms.config,
                &mut rooms.reservations,
                turn,
                id,
                false,
                "all its nodes are there again",
            );
        }
        return;
    }
    let lost = lost_names(&rooms.machine, reservation);
    match other_nodes(rooms, now, id) {
        Some(shares) => {
            let new = names_of_shares(&rooms.machine, &shares);
            take_shares(rooms, turn, id, shares);
            let note = format!("{lost} cannot serve: it has {new} now");
            set_degraded(&rooms.config, &mut rooms.reservations, turn, id, false, &note);
        }
        None => {
            let degraded = rooms.reservations.get(id).is_some_and(|r| r.row().degraded);
            if !degraded {
                let note = format!(
                    "{lost} cannot serve and no other nodes are free then; it is tried again and again"
                );
                set_degraded(&rooms.config, &mut rooms.reservations, turn, id, true, &note);
            }
        }
    }
}

/// The reservation has other nodes from now on.
pub(crate) fn take_shares(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: ReservationId,
    shares: Vec<NodeShare>,
) {
    let Some(reservation) = rooms.reservations.get_mut(id) else {
        return;
    };
    reservation.takes(shares);
    let block = reservation.block(rooms.planning.pools());
    let active = rooms.reservations.is_active(id);
    rooms.planning.cluster_mut().add_block(block);
    look_at_promises(rooms, turn, id);
    if active {
        leave_inside(&mut rooms.jobs, &mut rooms.planning, &mut rooms.reservations, turn, id);
        open_inside(rooms, turn, id);
        review_within_at_once(rooms, turn, id);
    }
    touch_reservation(&rooms.config, &mut rooms.reservations, id);
}
