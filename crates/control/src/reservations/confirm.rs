//! The second phase: a hold becomes final. What it costs is charged then.

use super::Reservation;
use crate::controller::Controller;
use crate::event::Caller;
use crate::reservations::admission::cancel::free_until;
use cosy_model::api::Reply;
use cosy_model::reservation::{ReservationState, Rule};
use cosy_model::{Refusal, RefusalCode, ReservationId, Span, Su, Time};

impl Controller {
    pub(crate) fn confirm(
        &mut self,
        now: Time,
        caller: &Caller,
        id: ReservationId,
    ) -> Result<Reply, Refusal> {
        let found = self.own_reservation(caller, id, "confirm")?;
        let (series, flow) = (found.series(), found.row.flow);
        match found.row.state {
            ReservationState::Held => {}
            ReservationState::Expired => {
                return Err(Refusal::new(
                    RefusalCode::WrongState,
                    format!(
                        "the hold of reservation {id} has expired and its slot was given back: book it anew"
                    ),
                ));
            }
            state @ (ReservationState::Confirmed
            | ReservationState::Active
            | ReservationState::Ended
            | ReservationState::Cancelled
            | ReservationState::Unused
            | ReservationState::Failed) => {
                return Err(Refusal::new(
                    RefusalCode::WrongState,
                    format!("reservation {id} is {state} already: there is nothing to confirm"),
                ));
            }
        }
        let ids: Vec<ReservationId> = self
            .reservations
            .live()
            .filter(|r| r.row.state == ReservationState::Held && r.series() == series)
            .map(|r| r.row.id)
            .collect();
        let who = caller.user.name.clone();
        for id in &ids {
            self.confirm_one(now, *id, &who);
            let object = format!("reservation {id}");
            self.happened(now, "confirmed", &who, object, String::new());
        }
        if let Some(of) = flow {
            self.flow_confirmed(now, of.flow, &who);
        }
        Ok(self.reserved(caller, &ids, Vec::new()))
    }

    pub(crate) fn confirm_one(&mut self, now: Time, id: ReservationId, who: &str) {
        let Some(reservation) = self.reservations.get(id) else {
            return;
        };
        let free_until = self.free_until(now, reservation);
        let core_ms = reservation.core_ms();
        let row = &reservation.row;
        let (account, base, extra) = (row.account.clone(), row.base, row.extra);
        if let Some(account) = account {
            let books = &mut self.reservations.books;
            let mut records = books.charge(now, &account, id, base, "charge", who);
            records.extend(books.charge(now, &account, id, extra, "extra", who));
            records.into_iter().for_each(|r| self.record(r));
        }
        if let Some(reservation) = self.reservations.all.get_mut(&id) {
            let row = &mut reservation.row;
            row.state = ReservationState::Confirmed;
            row.free_until = Some(free_until);
            (row.held, row.charged) = (Su::ZERO, base.plus(extra));
        }
        let policy = &self.config.reservations.notice;
        let figures = &mut self.reservations.figures;
        figures.reservation_accepted(now, policy, core_ms);
        self.touch_reservation(id);
    }

    /// The notice limit: until then cancelling costs nothing.
    fn free_until(&self, now: Time, reservation: &Reservation) -> Time {
        let row = &reservation.row;
        free_until(row.start, self.notice_span(now, &row.queue))
    }

    /// The notice that the rule asks for now; none where it is not in force.
    pub(crate) fn notice_span(&self, now: Time, queue: &str) -> Span {
        let policy = self.reservation_policy(queue);
        let fixed = policy.per_user.notice.unwrap_or(Span::ZERO);
        if !policy.asks(Rule::Notice) {
            return fixed;
        }
        let figures = &self.reservations.figures;
        let curve = &policy.notice.curve;
        let share = figures.share(now, &policy.notice).unwrap_or_default();
        let wait = figures.mean_wait(now, &policy.notice);
        // Above the share at which nothing is accepted any more, what is asked for there.
        let times = curve.at(share.min(curve.refuse_above()));
        times.map_or(fixed, |times| times.of(wait).max(fixed))
    }
}
