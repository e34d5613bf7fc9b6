//! Reservations that have to end by a deadline are placed to end exactly then, and moved to
//! an earlier start when nodes come free and no waiting job's planned start gets later by
//! it; never before what the user allowed, never later.
//!
//! Source: COSY paper, section 3.2, "Latest end time".

use super::Reservation;
use super::appraisal::Pending;
use crate::controller::Controller;
use cosy_model::reservation::{Pick, ReservationState};
use cosy_model::{ReservationId, Span, Time};
use cosy_sched::appraise::{Appraisal, Listed, Starts};
use std::sync::Arc;

/// How often it is looked for an earlier start, one reservation at a time.
const LOOK: Span = Span::from_secs(5);
/// Candidates of one look.
const CANDIDATES: usize = 40;
/// It is not worth moving for less.
const WORTH: Span = Span::from_secs(1);

impl Controller {
    pub(crate) fn look_for_moves(&mut self, now: Time) {
        let due = now.since(self.reservations.moved_at) >= LOOK;
        if !due || self.reservations.appraisals.is_moving() {
            return;
        }
        self.reservations.moved_at = now;
        let movable = |r: &&Reservation| {
            r.row.state == ReservationState::Confirmed
                && r.row.ask.pick == Pick::FinishBy
                && r.row.flow.is_none_or(|of| self.may_begin(of))
                && self.earliest_move(now, r) + WORTH < r.row.start
        };
        let last = self.reservations.last_moved;
        let all: Vec<ReservationId> = self
            .reservations
            .all
            .values()
            .filter(movable)
            .map(|r| r.row.id)
            .collect();
        // In turn: the next one after the last.
        let next = all.iter().find(|id| Some(**id) > last).or(all.first());
        if let Some(id) = next.copied() {
            self.reservations.last_moved = Some(id);
            self.ask_for_move(now, id);
        }
    }

    fn earliest_move(&self, now: Time, reservation: &Reservation) -> Time {
        reservation.row.ask.earliest.unwrap_or(now).max(now)
    }

    pub(crate) fn ask_for_move(&mut self, now: Time, id: ReservationId) {
        let Some(reservation) = self.reservations.get(id) else {
            return;
        };
        let row = &reservation.row;
        let Some((queue, demand)) = self.demand_of(reservation) else {
            return;
        };
        let earliest = self.earliest_move(now, reservation);
        let wish = super::ask::ReservationRequest {
            ask: row.ask.clone(),
            queue,
            demand: Arc::new(demand),
            level: cosy_model::AccessLevel::Allow,
            earliest,
            latest: row.start - WORTH,
            account: None,
        };
        let starts = Starts::Window {
            earliest,
            latest: wish.latest,
            most: CANDIDATES,
            gap: Span::from_minutes(1),
        };
        let mut inquiry = self.inquiry(now, &wish, starts, Listed::Nobody);
        inquiry.replaces = Some(id);
        // Nobody waits for it: when there is no room for it now there will be later.
        let _ = self.appraise(now, Pending::Move(id), inquiry);
    }

    pub(crate) fn appraised_move(&mut self, now: Time, id: ReservationId, result: &Appraisal) {
        let Some(reservation) = self.reservations.get(id) else {
            return;
        };
        let row = &reservation.row;
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
        let Some((_, demand)) = self.demand_of(reservation) else {
            return;
        };
        let shares = self.place_instead(now, id, &demand, (start, length));
        let Some(shares) = shares else { return };
        if let Some(reservation) = self.reservations.all.get_mut(&id) {
            reservation.row.start = start;
            reservation.row.end = start + length;
            reservation.row.degraded = false;
        }
        self.take_shares(now, id, shares);
        let note = format!(
            "moved to an earlier start, by {}: nodes came free and nobody waits longer for it",
            old.since(start)
        );
        self.tell_holder(now, id, "moved", &note);
    }
}
