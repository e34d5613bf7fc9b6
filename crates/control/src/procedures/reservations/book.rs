//! Slots are booked: what was appraised is taken, and jobs are attached.

use crate::conversations::requests::procedures::answer_late;
use crate::policy::preempt::Way;
use crate::procedures::reservations::end::{close, drop_attached};
use crate::procedures::reservations::vacate::promise;
use crate::procedures::submit::submit_with;
use crate::record::MakerRow;
use crate::reservations::Reservation;
use crate::reservations::book::procedures::{
    appraise_booking, found_start, free_or_vacated, may_hold_as_asked, new_row, reserved, slot_text,
};
use crate::reservations::book::{Booking, Stage, TRIES, Taken, series_refused};
use crate::reservations::booked::booked;
use crate::reservations::cancel::return_all;
use crate::reservations::confirm::confirm_one;
use crate::reservations::procedures::touch_reservation;
use crate::reservations::quote::procedures::{admit, extra_of, keeps_delay_cap, price_of};
use crate::reservations::vacate::makers;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::Reply;
use cosy_model::reservation::ReservationState;
use cosy_model::{EventKind, EventObject, Refusal, RefusalCode, ReservationId, Su, Time};
use cosy_sched::appraise::{Appraisal, Estimate};

pub(crate) fn appraised_booking(
    rooms: &mut Rooms,
    turn: &mut Turn,
    booking: Booking,
    result: &Appraisal,
) {
    let now = turn.now();
    let (client, uid, key) = (booking.client, booking.caller.user.uid, booking.key);
    let reply = match booking.stage {
        Stage::Search => match found_start(rooms, now, &booking, result) {
            Ok(start) => {
                let next = Booking {
                    stage: Stage::Exact,
                    tries: booking.tries + 1,
                    ..booking
                };
                match appraise_booking(rooms, turn, next, start) {
                    Ok(()) => return,
                    Err(refusal) => Err(refusal),
                }
            }
            Err(refusal) => Err(refusal),
        },
        Stage::Exact => match take_one(rooms, turn, &booking, result) {
            // It was taken meanwhile: there may be another.
            Err(_) if (1..TRIES).contains(&booking.tries) => {
                let start = booking.wish.earliest;
                let next = Booking {
                    stage: Stage::Search,
                    ..booking
                };
                match appraise_booking(rooms, turn, next, start) {
                    Ok(()) => return,
                    Err(refusal) => Err(refusal),
                }
            }
            decided => decided,
        },
        Stage::Series => take_series(rooms, turn, &booking, result),
    };
    let reply = reply.unwrap_or_else(Reply::Refused);
    answer_late(&mut rooms.conversations, turn, client, uid, key, reply);
}

pub(crate) fn take_one(
    rooms: &mut Rooms,
    turn: &mut Turn,
    booking: &Booking,
    result: &Appraisal,
) -> Result<Reply, Refusal> {
    let now = turn.now();
    let wish = &booking.wish;
    let Some(estimate) = result.slots.first() else {
        return Err(Refusal::new(
            RefusalCode::Unavailable,
            "the figures of the slot could not be worked out; nothing was booked, try again",
        ));
    };
    let booked = booked(
        &rooms.config,
        &rooms.machine,
        &rooms.queues,
        &rooms.reservations,
        &booking.caller,
        wish,
    );
    admit(rooms, now, &booking.caller, wish, result, estimate, &booked)?;
    may_hold_as_asked(&rooms.config, &rooms.queues, &rooms.reservations, now, booking, estimate)?;
    let (shares, leave) = free_or_vacated(rooms, now, wish, (estimate, 1))?;
    let makers = makers(rooms, now, wish, (&leave, estimate.start.max(now)));
    may_be_held(now, booking.hold, &makers)?;
    let extra = extra_of(&rooms.config, &rooms.queues, &rooms.reservations, wish, result, estimate);
    let taken = Taken {
        estimate,
        extra,
        shares,
        makers,
    };
    let id = take(rooms, turn, booking, taken, None)?;
    Ok(reserved(
        &rooms.config,
        &rooms.machine,
        &rooms.reservations,
        &booking.caller,
        &[id],
        Vec::new(),
    ))
}

pub(crate) fn take_series(
    rooms: &mut Rooms,
    turn: &mut Turn,
    booking: &Booking,
    result: &Appraisal,
) -> Result<Reply, Refusal> {
    let now = turn.now();
    let wish = &booking.wish;
    let fits = wish.ask.repeat.as_ref().is_some_and(|r| r.as_many_as_fit);
    let (slots, mut conflicts) = admitted(rooms, now, booking, result);
    if slots.is_empty() || (!conflicts.is_empty() && !fits) {
        return Err(series_refused(&conflicts, result.slots.len()));
    }
    let price = slots.iter().fold(Su::ZERO, |sum, e| {
        sum.plus(price_of(&rooms.config, &rooms.queues, &rooms.reservations, wish, result, e))
    });
    rooms.reservations.can_pay(wish, price)?;
    let mut ids: Vec<ReservationId> = Vec::new();
    for estimate in slots {
        // The delays of those that were taken before count already.
        let capped = keeps_delay_cap(rooms, now, &booking.caller, wish, result, estimate);
        let asked = (estimate, result.slots.len());
        let free = capped.and_then(|()| free_or_vacated(rooms, now, wish, asked));
        let (shares, makers) = match free {
            Ok((shares, leave)) => {
                (shares, makers(rooms, now, wish, (&leave, estimate.start.max(now))))
            }
            Err(refusal) => {
                conflicts.push((estimate.start, refusal));
                continue;
            }
        };
        let extra =
            extra_of(&rooms.config, &rooms.queues, &rooms.reservations, wish, result, estimate);
        let taken = Taken {
            estimate,
            extra,
            shares,
            makers,
        };
        match take(rooms, turn, booking, taken, ids.first().copied()) {
            Ok(id) => ids.push(id),
            Err(refusal) => conflicts.push((estimate.start, refusal)),
        }
    }
    if ids.is_empty() || (!conflicts.is_empty() && !fits) {
        undo(rooms, turn, &ids);
        return Err(series_refused(&conflicts, result.slots.len()));
    }
    conflicts.sort_by_key(|(start, _)| *start);
    Ok(reserved(
        &rooms.config,
        &rooms.machine,
        &rooms.reservations,
        &booking.caller,
        &ids,
        conflicts,
    ))
}

/// Nobody is made to leave for a hold: it has to be confirmed before.
fn may_be_held(now: Time, hold: bool, makers: &[(MakerRow, Way)]) -> Result<(), Refusal> {
    let first = makers.iter().map(|(row, _)| row.maker.told).min();
    match first.filter(|first| hold && *first <= now) {
        Some(_) => Err(Refusal::new(
            RefusalCode::NotFree,
            "running jobs would have to be told now to make room for it, which is not done for a hold: book it, or hold a later start",
        )),
        None => Ok(()),
    }
}

/// The slots of a series that may be taken, and why the others may not.
fn admitted<'a>(
    rooms: &Rooms,
    now: Time,
    booking: &Booking,
    result: &'a Appraisal,
) -> (Vec<&'a Estimate>, Vec<(Time, Refusal)>) {
    let wish = &booking.wish;
    let mut conflicts: Vec<(Time, Refusal)> = Vec::new();
    let mut slots: Vec<&Estimate> = Vec::new();
    let booked = booked(
        &rooms.config,
        &rooms.machine,
        &rooms.queues,
        &rooms.reservations,
        &booking.caller,
        wish,
    );
    for estimate in &result.slots {
        let admitted = admit(rooms, now, &booking.caller, wish, result, estimate, &booked);
        match admitted.and_then(|()| {
            may_hold_as_asked(
                &rooms.config,
                &rooms.queues,
                &rooms.reservations,
                now,
                booking,
                estimate,
            )
        }) {
            Ok(()) => slots.push(estimate),
            Err(refusal) => conflicts.push((estimate.start, refusal)),
        }
    }
    (slots, conflicts)
}

/// Takes slots back that were taken in this very turn.
pub(crate) fn undo(rooms: &mut Rooms, turn: &mut Turn, ids: &[ReservationId]) {
    let now = turn.now();
    for id in ids {
        rooms.reservations.uncount(&rooms.config, now, *id);
        close(rooms, turn, *id, ReservationState::Cancelled, "not all of the series fits");
        return_all(&rooms.config, &mut rooms.reservations, turn, *id);
        drop_attached(rooms, turn, *id, "its reservation was not possible");
        if let Some(reservation) = rooms.reservations.get_mut(*id) {
            reservation.was_no_hold();
        }
    }
}

/// Makes a reservation out of a slot: held, and confirmed at once unless only a hold
/// was asked for.
pub(crate) fn take(
    rooms: &mut Rooms,
    turn: &mut Turn,
    booking: &Booking,
    taken: Taken<'_>,
    series: Option<ReservationId>,
) -> Result<ReservationId, Refusal> {
    let now = turn.now();
    let id = ReservationId(rooms.reservations.next_number());
    let mut row = new_row(&rooms.config, &rooms.queues, now, booking, &taken, id, series);
    row.makers = taken.makers.iter().map(|(row, _)| row.clone()).collect();
    if let Some(first) = row.makers.iter().map(|row| row.maker.told).min() {
        // Nobody is made to leave for what is not confirmed.
        row.hold_until = row.hold_until.map(|until| until.min(first));
    }
    let start = row.start;
    let lines = rooms.reservations.books_mut().hold_price(now, &mut row)?;
    lines.into_iter().for_each(|line| turn.record(line));
    rooms.reservations.number_taken();
    let reservation = Reservation::new(row, taken.shares);
    promise(rooms, turn, id, start, &taken.makers);
    let block = reservation.block(rooms.planning.pools());
    rooms.planning.cluster_mut().add_block(block);
    rooms.reservations.enter(reservation);
    rooms.reservations.add_delays(&taken.estimate.delays.listed);
    if let Err(refusal) = attach(rooms, turn, booking, id) {
        undo(rooms, turn, &[id]);
        return Err(refusal);
    }
    let mut detail = slot_text(&rooms.machine, &rooms.reservations, id);
    if !taken.makers.is_empty() {
        let names = taken
            .makers
            .iter()
            .map(|(row, _)| row.maker.job.to_string());
        let names: Vec<String> = names.collect();
        detail.push_str(&format!(", for which jobs leave: {}", names.join(", ")));
    }
    let who = &booking.caller.user.name;
    let kind = if booking.hold {
        EventKind::Held
    } else {
        EventKind::Booked
    };
    turn.happened(now, kind, who, EventObject::Reservation(id), detail);
    if booking.hold {
        touch_reservation(&rooms.config, &mut rooms.reservations, id);
    } else {
        confirm_one(&rooms.config, &mut rooms.reservations, turn, id, who);
    }
    Ok(id)
}

/// The script that starts with the reservation.
pub(crate) fn attach(
    rooms: &mut Rooms,
    turn: &mut Turn,
    booking: &Booking,
    id: ReservationId,
) -> Result<(), Refusal> {
    let Some(job) = &booking.job else {
        return Ok(());
    };
    let mut submission = (**job).clone();
    let wish = &booking.wish;
    let spec = &mut submission.spec;
    spec.request = wish.ask.request.clone();
    spec.time_limit = Some(wish.ask.length);
    spec.queue = Some(rooms.queues.name(wish.queue).to_owned());
    spec.reservation = Some(id);
    spec.account = wish.account.clone();
    let facts = crate::event::Facts::default();
    let reply = submit_with(rooms, turn, &booking.caller, submission, &facts, true)?;
    if let (Reply::Submitted { job, .. }, Some(reservation)) =
        (reply, rooms.reservations.get_mut(id))
    {
        reservation.is_for(job);
    }
    Ok(())
}
