//! Giving reservations back, and what that costs.

use crate::config::ClusterConfig;
use crate::jobs::Jobs;
use crate::planning::Planning;
use crate::reservations::admission::cancel::Terms;
use crate::reservations::ask::procedures::reservation_policy;
use crate::reservations::course::is_hardly_used;
use crate::reservations::procedures::touch_reservation;
use crate::reservations::{Reservation, Reservations};
use crate::turn::Turn;
use cosy_model::reservation::ReservationState;
use cosy_model::{ReservationId, Su, Time};

impl Reservations {
    /// A confirmed reservation that is taken back before anybody had to plan around it is
    /// counted no longer by the notice rule.
    pub(crate) fn uncount(&mut self, config: &ClusterConfig, now: Time, id: ReservationId) {
        let Some(reservation) = self.get(id) else {
            return;
        };
        if reservation.row.state != ReservationState::Confirmed {
            return;
        }
        let (made, core_ms) = (reservation.row.made, reservation.core_ms());
        let policy = &config.reservations.notice;
        let figures = &mut self.figures;
        figures.reservation_withdrawn(now, policy, made, core_ms);
    }
}

/// What the sum depends on that remains charged when a reservation ends early.
pub(crate) fn terms(
    config: &ClusterConfig,
    jobs: &Jobs,
    planning: &Planning,
    now: Time,
    reservation: &Reservation,
) -> Terms {
    let row = &reservation.row;
    let policy = reservation_policy(config, &row.queue);
    Terms {
        start: row.start,
        end: row.end,
        charged: row.charged,
        free_until: row.free_until,
        hold_until: Some(row.hold_until.unwrap_or(row.made + policy.hold)),
        fee: policy.cancel_fee,
        idle: row.first_use.is_none() || is_hardly_used(config, jobs, planning, now, reservation),
        early_end: policy.early_end,
    }
}

/// Everything that an account has paid or holds for a reservation.
pub(crate) fn return_all(
    config: &ClusterConfig,
    reservations: &mut Reservations,
    turn: &mut Turn,
    id: ReservationId,
) {
    release_money(config, reservations, turn, id, "controller");
    give_money_back(config, reservations, turn, id, Su(i64::MAX), "controller");
}

/// What was held goes back to the account.
pub(crate) fn release_money(
    config: &ClusterConfig,
    reservations: &mut Reservations,
    turn: &mut Turn,
    id: ReservationId,
    who: &str,
) {
    let now = turn.now();
    let Some(reservation) = reservations.all.get_mut(&id) else {
        return;
    };
    let (account, sum) = (reservation.row.account.clone(), reservation.row.held);
    reservation.row.held = Su::ZERO;
    if let Some(account) = account {
        let books = &mut reservations.books;
        let records = books.release(now, &account, id, sum, who);
        records.into_iter().for_each(|r| turn.record(r));
    }
    touch_reservation(config, reservations, id);
}

/// At most `sum` of what was charged goes back to the account.
pub(crate) fn give_money_back(
    config: &ClusterConfig,
    reservations: &mut Reservations,
    turn: &mut Turn,
    id: ReservationId,
    sum: Su,
    who: &str,
) {
    let now = turn.now();
    let Some(reservation) = reservations.all.get_mut(&id) else {
        return;
    };
    let sum = sum.min(reservation.row.charged).max(Su::ZERO);
    reservation.row.charged = reservation.row.charged.minus(sum);
    let account = reservation.row.account.clone();
    if let Some(account) = account {
        let books = &mut reservations.books;
        let records = books.give_back(now, &account, id, sum, who);
        records.into_iter().for_each(|r| turn.record(r));
    }
    touch_reservation(config, reservations, id);
}
