//! Users and accounts are let into a reservation and put out of it.

use crate::controller::Controller;
use crate::event::Caller;
use crate::reservations::share::check;
use cosy_model::api::Reply;
use cosy_model::reservation::SharingChange;
use cosy_model::{Refusal, ReservationId, Time};

impl Controller {
    /// Jobs of those who lose the right stay: they were allowed when they were submitted. Those
    /// that are put back do not start inside again.
    pub(crate) fn share_with(
        &mut self,
        now: Time,
        caller: &Caller,
        id: ReservationId,
        change: &SharingChange,
    ) -> Result<Reply, Refusal> {
        let found = self.own_promised(caller, id, "share", "shared anew")?;
        let sharing = found.row.ask.sharing.after(change);
        check(&sharing)?;
        if let Some(reservation) = self.reservations.all.get_mut(&id) {
            reservation.row.ask.sharing = sharing.clone();
        }
        let who = caller.user.name.clone();
        let lists = [
            ("users", &sharing.users),
            ("groups", &sharing.groups),
            ("accounts", &sharing.accounts),
        ];
        let told = lists.into_iter().filter(|(_, names)| !names.is_empty());
        let told: Vec<String> = told
            .map(|(kind, names)| format!("{kind} {}", names.join(",")))
            .collect();
        let told = match told.is_empty() {
            true => "with nobody".to_owned(),
            false => format!("with {}", told.join(", ")),
        };
        self.happened(now, "shared", &who, format!("reservation {id}"), told);
        self.touch_reservation(id);
        Ok(self.reserved(caller, &[id], Vec::new()))
    }
}
