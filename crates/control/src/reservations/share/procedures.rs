//! Users and accounts are let into a reservation and put out of it.

use crate::config::ClusterConfig;
use crate::event::Caller;
use crate::machine::Machine;
use crate::reservations::Reservations;
use crate::reservations::book::procedures::reserved;
use crate::reservations::procedures::{own_promised, touch_reservation};
use crate::reservations::share::check;
use crate::turn::Turn;
use cosy_model::api::Reply;
use cosy_model::reservation::{Sharing, SharingChange};
use cosy_model::{EventKind, EventObject, Refusal, ReservationId};

/// Who may use it after a change, if that can be.
pub(crate) fn may_share_with(
    config: &ClusterConfig,
    reservations: &Reservations,
    caller: &Caller,
    id: ReservationId,
    change: &SharingChange,
) -> Result<Sharing, Refusal> {
    let found = own_promised(config, reservations, caller, id, "share", "shared anew")?;
    let sharing = found.row.ask.sharing.after(change);
    check(&sharing)?;
    Ok(sharing)
}

/// Jobs of those who lose the right stay: they were allowed when they were submitted. Those
/// that are put back do not start inside again.
pub(crate) fn share_with(
    config: &ClusterConfig,
    machine: &Machine,
    reservations: &mut Reservations,
    turn: &mut Turn,
    caller: &Caller,
    id: ReservationId,
    change: &SharingChange,
) -> Result<Reply, Refusal> {
    let sharing = may_share_with(config, reservations, caller, id, change)?;
    share_anew(config, reservations, turn, caller, id, sharing);
    Ok(reserved(config, machine, reservations, caller, &[id], Vec::new()))
}

/// These may use it from now on.
pub(crate) fn share_anew(
    config: &ClusterConfig,
    reservations: &mut Reservations,
    turn: &mut Turn,
    caller: &Caller,
    id: ReservationId,
    sharing: Sharing,
) {
    let now = turn.now();
    if let Some(reservation) = reservations.all.get_mut(&id) {
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
    turn.happened(now, EventKind::Shared, &who, EventObject::Reservation(id), told);
    touch_reservation(config, reservations, id);
}
