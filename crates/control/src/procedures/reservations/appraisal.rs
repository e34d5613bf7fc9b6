//! What has been appraised is answered.

use crate::procedures::reservations::book::appraised_booking;
use crate::procedures::reservations::repair::take_shares;
use crate::reservations::appraisal::Pending;
use crate::reservations::appraisal::procedures::next_appraisal;
use crate::reservations::extend::procedures::appraised_extension;
use crate::reservations::moves::WORTH;
use crate::reservations::procedures::tell_holder;
use crate::reservations::quote::procedures::quoted;
use crate::reservations::repair::demand_of;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::reservation::ReservationState;
use cosy_model::{EventKind, ReservationId};
use cosy_sched::appraise::Appraisal;

pub(crate) fn appraised_move(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: ReservationId,
    result: &Appraisal,
) {
    let now = turn.now();
    let Some(reservation) = rooms.reservations.get(id) else {
        return;
    };
    let row = &reservation.row();
    if row.state != ReservationState::Confirmed {
        return;
    }
    let (length, old) = (reservation.length(), row.start);
    let harmless = result
        .slots
        .iter()
        .filter(|slot| slot.shares.is_some() && slot.delays.jobs == 0 && !slot.before_head)
        .map(|slot| slot.start.max(now))
        .find(|start| *start + WORTH < old);
    let Some(start) = harmless else { return };
    let Some((_, demand)) = demand_of(rooms, reservation) else {
        return;
    };
    let planner = rooms.planning.cluster();
    let Some(shares) = planner.place_instead_of(id, now, &demand, start, length) else {
        return;
    };
    let holds = reservation.holds(rooms.planning.pools());
    if !planner.would_be_free_without(id, now, &holds, (start, length)) {
        return;
    }
    if let Some(reservation) = rooms.reservations.get_mut(id) {
        reservation.moves_to(start);
    }
    take_shares(rooms, turn, id, shares);
    let note = format!(
        "moved to an earlier start, by {}: nodes came free and nobody waits longer for it",
        old.since(start)
    );
    tell_holder(&rooms.config, &mut rooms.reservations, turn, id, EventKind::Moved, &note);
}

pub(crate) fn appraised(rooms: &mut Rooms, turn: &mut Turn, appraisal: u64, result: Appraisal) {
    let Some((lane, pending)) = rooms.reservations.take_appraisal(appraisal) else {
        return;
    };
    next_appraisal(&rooms.jobs, &rooms.planning, &mut rooms.reservations, turn, lane);
    match pending {
        Pending::Quote {
            client,
            caller,
            wish,
        } => quoted(rooms, turn, client, &caller, &wish, &result),
        Pending::Book(booking) => appraised_booking(rooms, turn, *booking, &result),
        Pending::Extend(extension) => appraised_extension(rooms, turn, *extension, &result),
        Pending::Move(id) => appraised_move(rooms, turn, id, &result),
    }
}
