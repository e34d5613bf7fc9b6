//! Small steps of reservations: their owners are told, when each is due, rows that have changed
//! are written.

use crate::config::ClusterConfig;
use crate::event::Caller;
use crate::machine::Machine;
use crate::queues::access::procedures::is_administrator;
use crate::record::{Record, ShareRow};
use crate::reservations::booked::due_of;
use crate::reservations::{Reservation, Reservations, no_reservation};
use crate::turn::Turn;
use crate::workflows::Workflows;
use cosy_model::reservation::ReservationState;
use cosy_model::{EventKind, EventObject, NodeShare, Refusal, RefusalCode, ReservationId};

impl Reservations {
    pub(crate) fn reservation(&self, id: ReservationId) -> Result<&Reservation, Refusal> {
        self.get(id).ok_or_else(|| no_reservation(id))
    }
}

/// One that the caller owns, or an administrator.
pub(crate) fn own_reservation<'a>(
    config: &'a ClusterConfig,
    reservations: &'a Reservations,
    caller: &Caller,
    id: ReservationId,
    what: &str,
) -> Result<&'a Reservation, Refusal> {
    let found = reservations.reservation(id)?;
    if found.row.uid == caller.user.uid || is_administrator(config, caller) {
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
pub(crate) fn own_promised<'a>(
    config: &'a ClusterConfig,
    reservations: &'a Reservations,
    caller: &Caller,
    id: ReservationId,
    what: &str,
    done: &str,
) -> Result<&'a Reservation, Refusal> {
    let found = own_reservation(config, reservations, caller, id, what)?;
    match found.row.state {
        ReservationState::Confirmed | ReservationState::Active => Ok(found),
        state => Err(Refusal::new(
            RefusalCode::WrongState,
            format!("reservation {id} is {state}: only confirmed and active ones can be {done}"),
        )),
    }
}

/// Its row is written at the end of the turn, and its next date is set.
pub(crate) fn touch_reservation(
    config: &ClusterConfig,
    reservations: &mut Reservations,
    id: ReservationId,
) {
    let due = reservations.get(id).and_then(|r| due_of(config, r));
    reservations.set_due(id, due);
    reservations.dirty.insert(id);
}

pub(crate) fn save_reservations(
    machine: &Machine,
    reservations: &mut Reservations,
    workflows: &mut Workflows,
    turn: &mut Turn,
) {
    for id in std::mem::take(&mut reservations.dirty) {
        if let Some(reservation) = reservations.get(id) {
            let mut row = reservation.row.clone();
            // As loaded while some are missing, so that this is known after a restart too.
            if !reservation.short {
                row.shares = share_rows(machine, &reservation.shares);
            }
            workflows.follow(&row);
            turn.record(Record::Reservation(Box::new(row)));
        }
    }
    for row in reservations.figures.changed() {
        turn.record(Record::Figures(row));
    }
    for row in reservations.hours.changed() {
        turn.record(Record::HourPrice(row));
    }
}

/// Tells its owner by mail, and everyone in the history.
pub(crate) fn tell_holder(
    config: &ClusterConfig,
    reservations: &mut Reservations,
    turn: &mut Turn,
    id: ReservationId,
    kind: EventKind,
    note: &str,
) {
    let now = turn.now();
    let Some(reservation) = reservations.all.get_mut(&id) else {
        return;
    };
    reservation.row.note = note.to_owned();
    let to = reservation.row.user.clone();
    let subject = format!("{} reservation {id}: {note}", config.name);
    turn.effect(crate::event::Effect::Mail {
        to,
        subject,
        body: String::new(),
    });
    turn.happened(now, kind, "controller", EventObject::Reservation(id), note.to_owned());
    touch_reservation(config, reservations, id);
}

pub(crate) fn share_rows(machine: &Machine, shares: &[NodeShare]) -> Vec<ShareRow> {
    let row = |share: &NodeShare| ShareRow {
        node: machine.name(share.node).to_owned(),
        tasks: share.tasks,
        amounts: share.amounts.clone(),
    };
    shares.iter().map(row).collect()
}
