//! A reservation keeps other licences: an administrator's change, as far as they are free.
//!
//! Only of one that nothing was paid for, since the price of a paid one is that of its licences too.
//! Jobs inside keep what they hold: what goes beyond what is kept counts as that of jobs outside.

use crate::config::ClusterConfig;
use crate::event::Caller;
use crate::jobs::licenses::procedures::check_licenses;
use crate::planning::Planning;
use crate::planning::pools::PoolOf;
use crate::planning::pools::procedures::tell_all_holders_of;
use crate::queues::access::procedures::is_administrator;
use crate::reservations::Reservation;
use crate::reservations::ask::procedures::each_once;
use crate::reservations::book::procedures::reserved;
use crate::reservations::procedures::{own_promised, touch_reservation};
use crate::reservations::shorten::may_be_altered;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::Reply;
use cosy_model::{
    CountedResources, EventKind, EventObject, Refusal, RefusalCode, ReservationId, Time,
};

pub(crate) fn keep_licenses(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    id: ReservationId,
    licenses: &CountedResources,
) -> Result<Reply, Refusal> {
    let now = turn.now();
    let licenses = each_once(licenses);
    may_change(&rooms.config, caller, id)?;
    let (verb, done) = ("change", "given other licences");
    let found = own_promised(&rooms.config, &rooms.reservations, caller, id, verb, done)?;
    may_be_altered(found, ", and its licences are part of that: cancel it and book another")?;
    check_licenses(&rooms.config, &licenses)?;
    are_free(&rooms.planning, now, found, &licenses)?;
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
    Ok(reserved(&rooms.config, &rooms.machine, &rooms.reservations, caller, &[id], Vec::new()))
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

/// What comes to what is kept has to be free up to the end.
fn are_free(
    planning: &Planning,
    now: Time,
    found: &Reservation,
    licenses: &CountedResources,
) -> Result<(), Refusal> {
    let mut more = CountedResources::default();
    for (name, count) in licenses.iter() {
        more.set(name, count.saturating_sub(found.row.ask.licenses.get(name)));
    }
    let wants = planning.pools().of_licenses(&more).on(&found.shares);
    let start = found.row.start.max(now);
    let free = planning
        .cluster()
        .are_amounts_free(now, &wants, start, found.row.end.since(start));
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
            short.wanted
        ),
    ))
}
