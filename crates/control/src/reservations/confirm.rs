//! The second phase: a hold becomes final. What it costs is charged then.

use crate::config::ClusterConfig;
use crate::event::Caller;
use crate::machine::Machine;
use crate::reservations::admission::cancel::free_until;
use crate::reservations::ask::procedures::reservation_policy;
use crate::reservations::book::procedures::reserved;
use crate::reservations::procedures::{own_reservation, touch_reservation};
use crate::reservations::{Reservation, Reservations};
use crate::turn::Turn;
use crate::workflows::Workflows;
use cosy_model::api::Reply;
use cosy_model::reservation::{ReservationState, Rule};
use cosy_model::{EventKind, EventObject, Refusal, RefusalCode, ReservationId, Span, Su, Time};

pub(crate) fn confirm(
    config: &ClusterConfig,
    machine: &Machine,
    reservations: &mut Reservations,
    workflows: &mut Workflows,
    turn: &mut Turn,
    caller: &Caller,
    id: ReservationId,
) -> Result<Reply, Refusal> {
    let now = turn.now();
    let found = own_reservation(config, reservations, caller, id, "confirm")?;
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
    let ids: Vec<ReservationId> = reservations
        .live()
        .filter(|r| r.row.state == ReservationState::Held && r.series() == series)
        .map(|r| r.row.id)
        .collect();
    let who = caller.user.name.clone();
    for id in &ids {
        confirm_one(config, reservations, turn, *id, &who);
        let object = EventObject::Reservation(*id);
        turn.happened(now, EventKind::Confirmed, &who, object, String::new());
    }
    if let Some(of) = flow {
        workflows.flow_confirmed(turn, of.flow, &who);
    }
    Ok(reserved(config, machine, reservations, caller, &ids, Vec::new()))
}

pub(crate) fn confirm_one(
    config: &ClusterConfig,
    reservations: &mut Reservations,
    turn: &mut Turn,
    id: ReservationId,
    who: &str,
) {
    let now = turn.now();
    let Some(reservation) = reservations.get(id) else {
        return;
    };
    let free_until = free_until_of(config, reservations, now, reservation);
    let core_ms = reservation.core_ms();
    let row = &reservation.row;
    let (account, base, extra) = (row.account.clone(), row.base, row.extra);
    if let Some(account) = account {
        let books = &mut reservations.books;
        let mut records = books.charge(now, &account, id, base, "charge", who);
        records.extend(books.charge(now, &account, id, extra, "extra", who));
        records.into_iter().for_each(|r| turn.record(r));
    }
    if let Some(reservation) = reservations.all.get_mut(&id) {
        let row = &mut reservation.row;
        row.state = ReservationState::Confirmed;
        row.free_until = Some(free_until);
        (row.held, row.charged) = (Su::ZERO, base.plus(extra));
    }
    let policy = &config.reservations.notice;
    let figures = &mut reservations.figures;
    figures.reservation_accepted(now, policy, core_ms);
    touch_reservation(config, reservations, id);
}

/// The notice limit: until then cancelling costs nothing.
fn free_until_of(
    config: &ClusterConfig,
    reservations: &Reservations,
    now: Time,
    reservation: &Reservation,
) -> Time {
    let row = &reservation.row;
    free_until(row.start, notice_span(config, reservations, now, &row.queue))
}

/// The notice that the rule asks for now; none where it is not in force.
pub(crate) fn notice_span(
    config: &ClusterConfig,
    reservations: &Reservations,
    now: Time,
    queue: &str,
) -> Span {
    let policy = reservation_policy(config, queue);
    let fixed = policy.per_user.notice.unwrap_or(Span::ZERO);
    if !policy.asks(Rule::Notice) {
        return fixed;
    }
    let figures = &reservations.figures;
    let curve = &policy.notice.curve;
    let share = figures.share(now, &policy.notice).unwrap_or_default();
    let wait = figures.mean_wait(now, &policy.notice);
    // Above the share at which nothing is accepted any more, what is asked for there.
    let times = curve.at(share.min(curve.refuse_above()));
    times.map_or(fixed, |times| times.of(wait).max(fixed))
}
