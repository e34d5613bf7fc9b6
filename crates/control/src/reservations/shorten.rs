//! A reservation is made shorter: its end comes earlier, as far as that costs nobody
//! anything.
//!
//! Only one that nothing was paid for: what is given back of a paid one is settled when it
//! is cancelled. Jobs inside keep the time that they were given.

use crate::config::ClusterConfig;
use crate::event::Caller;
use crate::jobs::Jobs;
use crate::jobs::run::Run;
use crate::planning::Planning;
use crate::reservations::Reservation;
use crate::reservations::book::procedures::reserved;
use crate::reservations::inside::clearance::{last_call_of, with_clearance_after};
use crate::reservations::inside::procedures::{jobs_inside, keep_open};
use crate::reservations::procedures::{own_promised, touch_reservation};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::Reply;
use cosy_model::{EventKind, EventObject, Refusal, RefusalCode, ReservationId, Su, Time};

pub(crate) fn shorten(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    id: ReservationId,
    end: Time,
) -> Result<Reply, Refusal> {
    let now = turn.now();
    let before = may_shorten(rooms, now, caller, id, end)?;
    if let Some(reservation) = rooms.reservations.all.get_mut(&id) {
        let row = &mut reservation.row;
        row.end = end;
        row.ask.length = end.since(row.start);
        let block = reservation.block(rooms.planning.pools());
        rooms.planning.cluster_mut().add_block(block);
    }
    keep_open(&rooms.config, &mut rooms.reservations, id);
    let who = caller.user.name.clone();
    let (object, by) = (EventObject::Reservation(id), before.since(end));
    turn.happened(now, EventKind::Shortened, &who, object, format!("by {by}"));
    touch_reservation(&rooms.config, &mut rooms.reservations, id);
    Ok(reserved(&rooms.config, &rooms.machine, &rooms.reservations, caller, &[id], Vec::new()))
}

/// Whether it may end then; its end as it is.
pub(crate) fn may_shorten(
    rooms: &Rooms,
    now: Time,
    caller: &Caller,
    id: ReservationId,
    end: Time,
) -> Result<Time, Refusal> {
    let found =
        own_promised(&rooms.config, &rooms.reservations, caller, id, "shorten", "made shorter")?;
    may_end_at(&rooms.config, &rooms.jobs, &rooms.planning, now, found, end)?;
    Ok(found.row.end)
}

/// What a reservation has can be made another where no workflow plans it and nothing was paid for it;
/// `paid` goes on from what was.
pub(crate) fn may_be_altered(found: &Reservation, paid: &str) -> Result<(), Refusal> {
    let (row, id) = (&found.row, found.row.id);
    let wrong = |text: String| Err(Refusal::new(RefusalCode::WrongState, text));
    if row.flow.is_some() {
        return wrong(format!("reservation {id} is a slot of a workflow, which plans it"));
    }
    if row.account.is_some() && row.charged != Su::ZERO {
        return wrong(format!("reservation {id} was paid with {} SU{paid}", row.charged));
    }
    Ok(())
}

fn may_end_at(
    config: &ClusterConfig,
    jobs: &Jobs,
    planning: &Planning,
    now: Time,
    found: &Reservation,
    end: Time,
) -> Result<(), Refusal> {
    may_be_altered(
        found,
        " and is not made shorter: when it is cancelled, what is left is given back",
    )?;
    let (row, id) = (&found.row, found.row.id);
    let wrong = |text: String| Err(Refusal::new(RefusalCode::WrongState, text));
    if end >= row.end || end <= row.start.max(now) {
        return Err(Refusal::invalid(format!(
            "an earlier end of reservation {id} is later than its start and than now, and earlier than its end; to end it at once, cancel it"
        )));
    }
    let last_call = last_call_of(config, end, end.since(row.start));
    let longest = jobs_inside(planning, id)
        .filter_map(|job| Some((time_of(config, jobs.get(&job)?.run()?), job)))
        .max();
    match longest {
        Some((until, job)) if until > last_call => wrong(format!(
            "job {job} inside of reservation {id} has time beyond that end: give the job a shorter limit or cancel it"
        )),
        _ => Ok(()),
    }
}

/// Until when an attempt may be on its nodes.
fn time_of(config: &ClusterConfig, run: &Run) -> Time {
    with_clearance_after(config, run.end_if_it_goes_on())
}
