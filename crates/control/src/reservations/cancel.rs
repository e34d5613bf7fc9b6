//! Giving reservations back, and what that costs.

use super::Reservation;
use crate::controller::Controller;
use crate::event::Caller;
use crate::reservations::admission::cancel::{Ending, Terms, is_free, remains};
use cosy_model::api::Reply;
use cosy_model::reservation::ReservationState;
use cosy_model::{JobId, Refusal, RefusalCode, ReservationId, Su, Time, limits};

impl Controller {
    pub(crate) fn cancel_reservations(
        &mut self,
        now: Time,
        caller: &Caller,
        ids: &[ReservationId],
        series: bool,
    ) -> Result<Reply, Refusal> {
        if ids.is_empty() || ids.len() > limits::IDS_IN_REQUEST {
            return Err(Refusal::invalid(
                "name between 1 and 100,000 reservations to cancel",
            ));
        }
        let mut changed = 0;
        let mut refused = Vec::new();
        for id in ids {
            match self.cancel_one(now, caller, *id, series) {
                Ok(count) => changed += count,
                Err(refusal) => refused.push((format!("reservation {id}"), refusal)),
            }
        }
        Ok(Reply::Done { changed, refused })
    }

    fn cancel_one(
        &mut self,
        now: Time,
        caller: &Caller,
        id: ReservationId,
        series: bool,
    ) -> Result<u64, Refusal> {
        let found = self.own_reservation(caller, id, "cancel")?;
        let of_series = found.series();
        let mut ids = vec![id];
        if series {
            let others = self.reservations.live().filter(|r| r.series() == of_series);
            ids = others.map(|r| r.row.id).collect();
        } else if !found.is_live() {
            return Err(Refusal::new(
                RefusalCode::WrongState,
                format!("reservation {id} is {} already", found.row.state),
            ));
        }
        if ids.is_empty() {
            return Err(Refusal::new(
                RefusalCode::WrongState,
                format!("no reservation of the series of {id} is left"),
            ));
        }
        let who = caller.user.name.clone();
        for id in &ids {
            self.give_up_reservation(now, *id, &who);
        }
        Ok(ids.len() as u64)
    }

    /// Gives a live reservation back, with its job and its money.
    pub(crate) fn give_up_reservation(&mut self, now: Time, id: ReservationId, who: &str) {
        let Some(reservation) = self.reservations.get(id).filter(|r| r.is_live()) else {
            return;
        };
        let row = &reservation.row;
        let terms = self.terms(now, reservation);
        let costs = remains(&terms, Ending::Given, now);
        let (state, charged, uid) = (row.state, row.charged, row.uid);
        if now < row.start && is_free(&terms, now) {
            self.uncount(now, id);
        }
        let inside: Vec<JobId> = self.jobs_inside(id).collect();
        self.cancel_all(now, inside, (uid, who));
        let note = format!("cancelled by {who}");
        self.close(now, id, ReservationState::Cancelled, &note);
        match state {
            ReservationState::Held => self.release_money(now, id, who),
            _ => self.give_money_back(now, id, charged.minus(costs), who),
        }
        let detail = format!("it costs {costs} SU");
        self.happened(now, "cancelled", who, format!("reservation {id}"), detail);
        self.drop_attached(now, id, "its reservation was cancelled");
    }

    /// A confirmed reservation that is taken back before anybody had to plan around it is
    /// counted no longer by the notice rule.
    pub(crate) fn uncount(&mut self, now: Time, id: ReservationId) {
        let Some(reservation) = self.reservations.get(id) else {
            return;
        };
        if reservation.row.state != ReservationState::Confirmed {
            return;
        }
        let (made, core_ms) = (reservation.row.made, reservation.core_ms());
        let policy = &self.config.reservations.notice;
        let figures = &mut self.reservations.figures;
        figures.reservation_withdrawn(now, policy, made, core_ms);
    }

    /// What the sum depends on that remains charged when a reservation ends early.
    pub(crate) fn terms(&self, now: Time, reservation: &Reservation) -> Terms {
        let row = &reservation.row;
        let policy = self.reservation_policy(&row.queue);
        Terms {
            start: row.start,
            end: row.end,
            charged: row.charged,
            free_until: row.free_until,
            hold_until: Some(row.hold_until.unwrap_or(row.made + policy.hold)),
            fee: policy.cancel_fee,
            idle: row.first_use.is_none() || self.is_hardly_used(now, reservation),
            early_end: policy.early_end,
        }
    }

    /// Everything that an account has paid or holds for a reservation.
    pub(crate) fn return_all(&mut self, now: Time, id: ReservationId) {
        self.release_money(now, id, "controller");
        self.give_money_back(now, id, Su(i64::MAX), "controller");
    }

    /// What was held goes back to the account.
    pub(crate) fn release_money(&mut self, now: Time, id: ReservationId, who: &str) {
        let Some(reservation) = self.reservations.all.get_mut(&id) else {
            return;
        };
        let (account, sum) = (reservation.row.account.clone(), reservation.row.held);
        reservation.row.held = Su::ZERO;
        if let Some(account) = account {
            let books = &mut self.reservations.books;
            let records = books.release(now, &account, id, sum, who);
            records.into_iter().for_each(|r| self.record(r));
        }
        self.touch_reservation(id);
    }

    /// At most `sum` of what was charged goes back to the account.
    pub(crate) fn give_money_back(&mut self, now: Time, id: ReservationId, sum: Su, who: &str) {
        let Some(reservation) = self.reservations.all.get_mut(&id) else {
            return;
        };
        let sum = sum.min(reservation.row.charged).max(Su::ZERO);
        reservation.row.charged = reservation.row.charged.minus(sum);
        let account = reservation.row.account.clone();
        if let Some(account) = account {
            let books = &mut self.reservations.books;
            let records = books.give_back(now, &account, id, sum, who);
            records.into_iter().for_each(|r| self.record(r));
        }
        self.touch_reservation(id);
    }
}
