//! Who may use a reservation beside its owner: what can be asked for, and changes of it.

use crate::controller::Controller;
use crate::event::Caller;
use cosy_model::api::Reply;
use cosy_model::reservation::{Sharing, SharingChange};
use cosy_model::{Refusal, ReservationId, Time, limits};

/// Refuses lists and names that are too long.
pub(crate) fn check(sharing: &Sharing) -> Result<(), Refusal> {
    let lists = [&sharing.users, &sharing.groups, &sharing.accounts];
    let long = |list: &&Vec<String>| {
        list.len() > limits::SHARING || list.iter().any(|n| n.len() > limits::NAME_BYTES)
    };
    match lists.iter().any(long) {
        true => Err(Refusal::invalid(format!(
            "a reservation is shared with at most {} names of each kind",
            limits::SHARING
        ))),
        false => Ok(()),
    }
}

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
