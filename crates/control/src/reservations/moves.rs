//! Reservations that have to end by a deadline are placed to end exactly then, and moved to
//! an earlier start when nodes come free and no waiting job's planned start gets later by
//! it; never before what the user allowed, never later.
//!
//! Source: COSY paper, section 3.2, "Latest end time".

use crate::reservations::Reservation;
use crate::reservations::appraisal::Pending;
use crate::reservations::appraisal::procedures::appraise;
use crate::reservations::ask::procedures::{inquiry, stands_as};
use crate::reservations::repair::demand_of;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::reservation::{ReservationState, StartChoice};
use cosy_model::{ReservationId, Span, Time};
use cosy_sched::appraise::{Listed, Starts};
use std::sync::Arc;

/// How often it is looked for an earlier start, one reservation at a time.
const LOOK: Span = Span::from_secs(5);
/// Candidates of one look.
const CANDIDATES: usize = 40;
/// It is not worth moving for less.
pub(crate) const WORTH: Span = Span::from_secs(1);

pub(crate) fn look_for_moves(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    let due = now.since(rooms.reservations.moved_at) >= LOOK;
    if !due || rooms.reservations.appraisals.is_moving() {
        return;
    }
    rooms.reservations.moved_at = now;
    let movable = |r: &&Reservation| {
        r.row.state == ReservationState::Confirmed
            && r.row.ask.pick == StartChoice::FinishBy
            && r.row.flow.is_none_or(|of| rooms.workflows.may_begin(of))
            && earliest_move(now, r) + WORTH < r.row.start
    };
    let last = rooms.reservations.last_moved;
    let all: Vec<ReservationId> = rooms
        .reservations
        .all
        .values()
        .filter(movable)
        .map(|r| r.row.id)
        .collect();
    // In turn: the next one after the last.
    let next = all.iter().find(|id| Some(**id) > last).or(all.first());
    if let Some(id) = next.copied() {
        rooms.reservations.last_moved = Some(id);
        ask_for_move(rooms, turn, id);
    }
}

fn earliest_move(now: Time, reservation: &Reservation) -> Time {
    reservation.row.ask.earliest.unwrap_or(now).max(now)
}

pub(crate) fn ask_for_move(rooms: &mut Rooms, turn: &mut Turn, id: ReservationId) {
    let now = turn.now();
    let Some(reservation) = rooms.reservations.get(id) else {
        return;
    };
    let row = &reservation.row;
    let Some((queue, demand)) = demand_of(rooms, reservation) else {
        return;
    };
    let earliest = earliest_move(now, reservation);
    let asked = (row.ask.account.as_deref(), None);
    let wish = super::ask::ReservationRequest {
        ask: row.ask.clone(),
        queue,
        demand: Arc::new(demand),
        holds: rooms.planning.pools().of_licenses(&row.ask.licenses),
        level: cosy_model::AccessLevel::Allow,
        earliest,
        latest: row.start - WORTH,
        account: None,
        stands_as: stands_as(rooms, (&row.user, false), asked, queue),
    };
    let starts = Starts::Window {
        earliest,
        latest: wish.latest,
        most: CANDIDATES,
        gap: Span::from_minutes(1),
    };
    let mut inquiry = inquiry(rooms, now, &wish, starts, Listed::Nobody);
    inquiry.replaces = Some(id);
    // Nobody waits for it: when there is no room for it now there will be later.
    let _ = appraise(
        &rooms.jobs,
        &rooms.planning,
        &mut rooms.reservations,
        turn,
        Pending::Move(id),
        inquiry,
    );
}
