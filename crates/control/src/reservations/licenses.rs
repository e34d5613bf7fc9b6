//! A reservation keeps other licences: an administrator's change, as far as they are free.
//!
//! Only of one that nothing was paid for, since the price of a paid one is that of its licences too.
//! Jobs inside keep what they hold: what goes beyond what is kept counts as that of jobs outside.

use crate::config::ClusterConfig;
use crate::event::Caller;
use crate::jobs::licenses::procedures::check_licenses;
use crate::planning::Planning;
use crate::planning::pools::PoolOf;
use crate::planning::pools::procedures::{
    holders_beside, holds_elsewhere, inside_of, tell_all_holders_of,
};
use crate::queues::access::procedures::is_administrator;
use crate::reservations::Reservation;
use crate::reservations::ask::procedures::each_once;
use crate::reservations::procedures::{own_promised, touch_reservation};
use crate::reservations::shorten::may_be_altered;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::{
    CountedResources, EventKind, EventObject, Refusal, RefusalCode, ReservationId, Time,
};

/// It keeps these from now on.
pub(crate) fn keep_licenses(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    id: ReservationId,
    licenses: CountedResources,
) {
    let now = turn.now();
    if let Some(reservation) = rooms.reservations.all.get_mut(&id) {
        reservation.row.ask.licenses = licenses.clone();
        let block = reservation.block(rooms.planning.pools());
        rooms.planning.cluster_mut().add_block(block);
    }
    tell_all_holders_of(&mut rooms.planning, &mut rooms.reservations, id);
    let all: Vec<String> = licenses.iter().map(|(l, n)| format!("{l}:{n}")).collect();
    let told = match all.is_empty() {
        true => "keeps no licences".to_owned(),
        false => format!("keeps the licences {}", all.join(",")),
    };
    let who = caller.user.name.clone();
    turn.happened(now, EventKind::Changed, &who, EventObject::Reservation(id), told);
    touch_reservation(&rooms.config, &mut rooms.reservations, id);
}

/// Whether it may keep these; with an earlier end, up to that. Each name is there once then.
///
/// # Errors
/// Who may not change it, what there is not, what is not free.
pub(crate) fn may_keep_licenses(
    rooms: &Rooms,
    now: Time,
    caller: &Caller,
    id: ReservationId,
    licenses: &CountedResources,
    earlier_end: Option<Time>,
) -> Result<CountedResources, Refusal> {
    let licenses = each_once(licenses);
    may_change(&rooms.config, caller, id)?;
    let (verb, done) = ("change", "given other licences");
    let found = own_promised(&rooms.config, &rooms.reservations, caller, id, verb, done)?;
    may_be_altered(found, ", and its licences are part of that: cancel it and book another")?;
    check_licenses(&rooms.config, &licenses)?;
    let end = earlier_end.map_or(found.row.end, |end| end.min(found.row.end));
    are_free(&rooms.planning, found, &licenses, (now, end))?;
    Ok(licenses)
}

fn may_change(config: &ClusterConfig, caller: &Caller, id: ReservationId) -> Result<(), Refusal> {
    match is_administrator(config, caller) {
        true => Ok(()),
        false => Err(Refusal::new(
            RefusalCode::Forbidden,
            format!(
                "only administrators change the licences of reservation {id}: cancel it and book another"
            ),
        )),
    }
}

/// What is to be kept of licences of which more is asked for has to be free up to the end. Jobs inside draw
/// from it what they hold already, also what they have taken of what was free for everybody.
fn are_free(
    planning: &Planning,
    found: &Reservation,
    licenses: &CountedResources,
    (now, end): (Time, Time),
) -> Result<(), Refusal> {
    let mut raised = CountedResources::default();
    for (name, count) in licenses.iter() {
        if count > found.row.ask.licenses.get(name) {
            raised.set(name, count);
        }
    }
    if raised.is_empty() {
        return Ok(());
    }
    let (id, pools) = (found.row.id, planning.pools());
    let mut without = planning.cluster().clone();
    without.remove_block(id);
    if let Some(planner) = &found.planner {
        let kept = pools.of_licenses(licenses).on(&found.shares);
        for (job, holder) in holders_beside(planner, &kept, inside_of(planning, id)) {
            holds_elsewhere(&mut without, job, holder);
        }
    }
    let wants = pools.of_licenses(&raised).on(&found.shares);
    let start = found.row.start.max(now);
    let free = without.are_amounts_free(now, &wants, start, end.since(start));
    let Err(short) = free else {
        return Ok(());
    };
    let name = match planning.pools().of(short.pool) {
        Some(PoolOf::License(name)) => name,
        None => "",
    };
    Err(Refusal::new(
        RefusalCode::NotFree,
        format!(
            "reservation {} keeps {} of {} licences '{name}', and the {} more that are asked for are not free up to its end; nothing was changed",
            found.row.id,
            found.row.ask.licenses.get(name),
            short.capacity,
            short
                .wanted
                .saturating_sub(found.row.ask.licenses.get(name).into())
        ),
    ))
}
