//! Requests about reservations are handed on; rows that have changed are written.

use crate::controller::Controller;
use crate::event::{Caller, ClientId};
use crate::record::Record;
use crate::reservations::{Reservation, no_reservation};
use cosy_model::api::{Reply, Request};
use cosy_model::reservation::ReservationState;
use cosy_model::{Refusal, RefusalCode, ReservationId, Time};

impl Controller {
    pub(crate) fn reservation_request(
        &mut self,
        now: Time,
        client: ClientId,
        caller: &Caller,
        key: Option<[u8; 16]>,
        request: Request,
    ) -> Result<Option<Reply>, Refusal> {
        match request {
            Request::Quote { ask, most } => self.quote(now, client, caller, *ask, most),
            Request::Reserve { ask, hold, job } => {
                self.reserve(now, client, caller, key, *ask, hold, job)
            }
            Request::Confirm { id } => self.confirm(now, caller, id).map(Some),
            Request::CancelReservation { ids, series } => self
                .cancel_reservations(now, caller, &ids, series)
                .map(Some),
            Request::ExtendReservation { id, by, max_price } => {
                self.extend(now, client, caller, key, id, by, max_price)
            }
            Request::ShortenReservation { id, end } => self.shorten(now, caller, id, end).map(Some),
            Request::ShareReservation { id, change } => {
                self.share_with(now, caller, id, &change).map(Some)
            }
            Request::Reservations { filter } => {
                Ok(self.list_reservations(now, client, caller, filter))
            }
            Request::PlanChart { until, most } => {
                Ok(self.plan_chart(now, client, caller, until, most))
            }
            Request::Accounts { names } => self.list_accounts(caller, &names).map(Some),
            Request::AccountControl { name, action } => {
                self.account_control(now, caller, &name, &action).map(Some)
            }
            _ => Err(Refusal::invalid("this is no request about reservations")),
        }
    }

    pub(crate) fn reservation(&self, id: ReservationId) -> Result<&Reservation, Refusal> {
        self.reservations.get(id).ok_or_else(|| no_reservation(id))
    }

    /// One that the caller owns, or an administrator.
    pub(crate) fn own_reservation(
        &self,
        caller: &Caller,
        id: ReservationId,
        what: &str,
    ) -> Result<&Reservation, Refusal> {
        let found = self.reservation(id)?;
        if found.row.uid == caller.user.uid || self.is_admin(caller) {
            return Ok(found);
        }
        Err(Refusal::new(
            RefusalCode::Forbidden,
            format!(
                "reservation {id} belongs to user {}: only they and administrators may {what} it",
                found.row.user
            ),
        ))
    }

    /// The same of one whose time is promised or has begun; `done` is what becomes of it.
    pub(crate) fn own_promised(
        &self,
        caller: &Caller,
        id: ReservationId,
        what: &str,
        done: &str,
    ) -> Result<&Reservation, Refusal> {
        let found = self.own_reservation(caller, id, what)?;
        match found.row.state {
            ReservationState::Confirmed | ReservationState::Active => Ok(found),
            state => Err(Refusal::new(
                RefusalCode::WrongState,
                format!(
                    "reservation {id} is {state}: only confirmed and active ones can be {done}"
                ),
            )),
        }
    }

    /// Its row is written at the end of the turn, and its next date is set.
    pub(crate) fn touch_reservation(&mut self, id: ReservationId) {
        let due = self.reservations.get(id).and_then(|r| self.due_of(r));
        self.reservations.set_due(id, due);
        self.reservations.dirty.insert(id);
    }

    pub(crate) fn save_reservations(&mut self) {
        for id in std::mem::take(&mut self.reservations.dirty) {
            if let Some(reservation) = self.reservations.get(id) {
                let mut row = reservation.row.clone();
                // As loaded while some are missing, so that this is known after a restart too.
                if !reservation.short {
                    row.shares = self.share_rows(&reservation.shares);
                }
                self.workflows.follow(&row);
                self.record(Record::Reservation(Box::new(row)));
            }
        }
        for row in self.reservations.figures.changed() {
            self.record(Record::Figures(row));
        }
        for row in self.reservations.hours.changed() {
            self.record(Record::HourPrice(row));
        }
    }

    /// Tells its owner by mail, and everyone in the history.
    pub(crate) fn tell_holder(&mut self, now: Time, id: ReservationId, what: &str, note: &str) {
        let Some(reservation) = self.reservations.all.get_mut(&id) else {
            return;
        };
        reservation.row.note = note.to_owned();
        let to = reservation.row.user.clone();
        let subject = format!("{} reservation {id}: {note}", self.config.name);
        self.effect(crate::event::Effect::Mail { to, subject });
        self.happened(
            now,
            what,
            "controller",
            format!("reservation {id}"),
            note.to_owned(),
        );
        self.touch_reservation(id);
    }
}
