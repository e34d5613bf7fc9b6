//! A reservation is made longer and the difference paid.

use crate::conversations::requests::procedures::answer_late;
use crate::event::Caller;
use crate::reservations::Reservations;
use crate::reservations::appraisal::Pending;
use crate::reservations::appraisal::procedures::appraise;
use crate::reservations::ask::procedures::{demand_in, inquiry, wish};
use crate::reservations::ask::{ReservationRequest, check_ask};
use crate::reservations::book::procedures::reserved;
use crate::reservations::extend::{Extension, merge};
use crate::reservations::facts::{joint_job, own_wait_decides};
use crate::reservations::inside::procedures::keep_open;
use crate::reservations::procedures::{own_promised, touch_reservation};
use crate::reservations::quote::procedures::{admit_longer, extra_of};
use crate::reservations::terms::{check_terms, set_terms};
use crate::rooms::Rooms;
use crate::turn::{Asker, Turn};
use cosy_model::api::Reply;
use cosy_model::reservation::{ReservationAlteration, ReservationSpec, StartChoice};
use cosy_model::{
    CountedResources, EventKind, EventObject, Refusal, RefusalCode, ReservationId, Span, Su, Time,
};
use cosy_sched::appraise::{Appraisal, Listed, Starts};
use std::sync::Arc;

pub(crate) fn extend(
    rooms: &mut Rooms,
    turn: &mut Turn,
    asker: Asker<'_>,
    (id, by): (ReservationId, Span),
    max_price: Option<Su>,
    also: ReservationAlteration,
) -> Result<Option<Reply>, Refusal> {
    let Asker {
        client,
        caller,
        key,
    } = asker;
    let now = turn.now();
    if rooms.reservations.rejoin(asker) {
        return Ok(None);
    }
    let wish = difference(rooms, now, caller, (id, by), max_price, also.licenses.as_ref())?;
    let shares = rooms.reservations.reservation(id)?.shares.clone();
    let mut inquiry = inquiry(rooms, now, &wish, Starts::At(vec![wish.earliest]), Listed::Everyone);
    inquiry.fixed = Some(shares);
    let slot = (wish.earliest, wish.earliest + wish.ask.length);
    inquiry.plain_start = own_wait_decides(rooms, caller, &wish);
    inquiry.joint = joint_job(rooms, caller, &wish, slot, &inquiry.job);
    let extension = Extension {
        client,
        caller: Box::new(caller.clone()),
        key,
        id,
        wish,
        also,
    };
    appraise(
        &rooms.jobs,
        &rooms.planning,
        &mut rooms.reservations,
        turn,
        Pending::Extend(Box::new(extension)),
        inquiry,
    )?;
    Ok(None)
}

/// The time from the present end on, as a request of its own, with other licences where they are asked for.
fn difference(
    rooms: &Rooms,
    now: Time,
    caller: &Caller,
    (id, by): (ReservationId, Span),
    max_price: Option<Su>,
    licenses: Option<&CountedResources>,
) -> Result<ReservationRequest, Refusal> {
    let found = own_promised(&rooms.config, &rooms.reservations, caller, id, "extend", "extended")?;
    let mut ask = found.row.ask.clone();
    let whole = ReservationSpec {
        length: found.row.end.since(found.row.start) + by,
        repeat: None,
        ..ask.clone()
    };
    ask.pick = StartChoice::At(found.row.end);
    (ask.earliest, ask.latest_end, ask.repeat) = (None, None, None);
    (ask.length, ask.max_price) = (by, max_price);
    if let Some(licenses) = licenses {
        ask.licenses.clone_from(licenses);
    }
    ask.queue = Some(found.row.queue.clone());
    ask.account = found.row.account.clone();
    let mut wish = wish(rooms, now, caller, ask)?;
    check_ask(&whole)?;
    wish.demand = Arc::new(demand_in(
        &rooms.config,
        &rooms.machine,
        &rooms.queues,
        &rooms.planning,
        &wish.ask.request,
        wish.queue,
    )?);
    Ok(wish)
}

pub(crate) fn appraised_extension(
    rooms: &mut Rooms,
    turn: &mut Turn,
    extension: Extension,
    result: &Appraisal,
) {
    let (client, uid, key) = (extension.client, extension.caller.user.uid, extension.key);
    let decided = take_extension(rooms, turn, &extension, result);
    let reply = decided.unwrap_or_else(Reply::Refused);
    answer_late(&mut rooms.conversations, turn, client, uid, key, reply);
}

fn take_extension(
    rooms: &mut Rooms,
    turn: &mut Turn,
    extension: &Extension,
    result: &Appraisal,
) -> Result<Reply, Refusal> {
    let now = turn.now();
    let (id, wish, caller) = (extension.id, &extension.wish, &*extension.caller);
    let gone = || {
        Refusal::new(
            RefusalCode::Unavailable,
            "the figures of the extension could not be worked out; nothing was changed, try again",
        )
    };
    let estimate = result.slots.first().ok_or_else(gone)?;
    let found = rooms.reservations.reservation(id)?;
    if !found.is_live() || found.row.end != estimate.start {
        return Err(Refusal::new(
            RefusalCode::WrongState,
            format!("reservation {id} has changed meanwhile; it was not extended"),
        ));
    }
    admit_longer(rooms, now, caller, wish, result, estimate, found.row.start)?;
    let cluster = rooms.planning.cluster();
    let wanted = (&found.shares[..], &wish.holds.on(&found.shares)[..]);
    if !cluster.are_all_free(now, wanted, estimate.start, wish.ask.length) {
        return Err(Refusal::new(
            RefusalCode::NotFree,
            format!("what it holds is taken from its end on; reservation {id} was not extended"),
        ));
    }
    let extra = extra_of(&rooms.config, &rooms.queues, &rooms.reservations, wish, result, estimate);
    let terms = check_terms(rooms, now, caller, id, &extension.also)?;
    rooms
        .reservations
        .pay_extension(turn, id, (estimate.base, extra), &caller.user.name)?;
    set_terms(rooms, turn, caller, id, terms);
    let by = wish.ask.length;
    if let Some(reservation) = rooms.reservations.all.get_mut(&id) {
        let row = &mut reservation.row;
        row.end = row.end + by;
        row.ask.length = row.ask.length + by;
        merge(&mut row.delays, &estimate.delays.listed);
        let block = reservation.block(rooms.planning.pools());
        rooms.planning.cluster_mut().add_block(block);
    }
    keep_open(&rooms.config, &mut rooms.reservations, id);
    rooms.reservations.add_delays(&estimate.delays.listed);
    turn.happened(
        now,
        EventKind::Extended,
        &caller.user.name,
        EventObject::Reservation(id),
        format!("by {by}"),
    );
    touch_reservation(&rooms.config, &mut rooms.reservations, id);
    Ok(reserved(&rooms.config, &rooms.machine, &rooms.reservations, caller, &[id], Vec::new()))
}

impl Reservations {
    pub(crate) fn pay_extension(
        &mut self,
        turn: &mut Turn,
        id: ReservationId,
        (base, extra): (Su, Su),
        who: &str,
    ) -> Result<(), Refusal> {
        let now = turn.now();
        let price = base.plus(extra);
        let account = self.reservation(id)?.row.account.clone();
        if let Some(account) = account {
            let books = &mut self.books;
            let mut records = books.hold(now, &account, id, price, who)?;
            records.extend(books.charge(now, &account, id, price, "extension", who));
            records.into_iter().for_each(|r| turn.record(r));
        }
        if let Some(reservation) = self.all.get_mut(&id) {
            let row = &mut reservation.row;
            row.base = row.base.plus(base);
            row.extra = row.extra.plus(extra);
            row.charged = row.charged.plus(price);
        }
        Ok(())
    }
}
