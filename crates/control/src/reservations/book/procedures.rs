//! A start is looked for, admitted and taken.

use crate::config::ClusterConfig;
use crate::event::Caller;
use crate::machine::Machine;
use crate::planning::Planning;
use crate::queues::Queues;
use crate::queues::access::procedures::is_administrator;
use crate::record::ReservationRow;
use crate::reservations::appraisal::Pending;
use crate::reservations::appraisal::procedures::appraise;
use crate::reservations::ask::ReservationRequest;
use crate::reservations::ask::procedures::{inquiry, policy_of, wish};
use crate::reservations::book::{Booking, Stage, Taken, check_attached, was_only_held};
use crate::reservations::facts::{joint_job, own_wait_decides};
use crate::reservations::quote::pick;
use crate::reservations::quote::procedures::{candidates, judge_all};
use crate::reservations::show::procedures::{info, names_of_shares};
use crate::reservations::vacate::{AHEAD, leavers, leavers_of};
use crate::reservations::{Reservation, Reservations};
use crate::rooms::Rooms;
use crate::turn::{Asker, Turn};
use cosy_model::api::{Reply, Submission};
use cosy_model::reservation::{ReservationState, StartChoice};
use cosy_model::{JobId, NodeShare, Refusal, RefusalCode, ReservationId, Span, Su, Time, limits};
use cosy_sched::appraise::{Appraisal, Estimate, Listed, Starts};

pub(crate) fn reserve(
    rooms: &mut Rooms,
    turn: &mut Turn,
    asker: Asker<'_>,
    ask: cosy_model::reservation::ReservationSpec,
    hold: bool,
    job: Option<Box<Submission>>,
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
    let wish = wish(rooms, now, caller, ask)?;
    if let Some(job) = &job {
        check_attached(job)?;
    }
    if rooms.reservations.all.len() >= limits::RESERVATIONS {
        return Err(Refusal::new(
            RefusalCode::TooMany,
            format!(
                "there are {} reservations, with those of the last day: try again later",
                limits::RESERVATIONS
            ),
        ));
    }
    if hold {
        may_hold(&rooms.config, &rooms.queues, &rooms.reservations, caller, &wish)?;
    }
    let stage = match (&wish.ask.repeat, wish.ask.pick) {
        (Some(_), _) => Stage::Series,
        (None, StartChoice::At(_) | StartChoice::FinishBy) => Stage::Exact,
        (None, StartChoice::Soonest | StartChoice::Cheapest | StartChoice::Balance { .. }) => {
            Stage::Search
        }
    };
    let start = match wish.ask.pick {
        StartChoice::FinishBy => wish.latest,
        StartChoice::At(_)
        | StartChoice::Soonest
        | StartChoice::Cheapest
        | StartChoice::Balance { .. } => wish.earliest,
    };
    let booking = Booking {
        client,
        caller: Box::new(caller.clone()),
        key,
        wish,
        hold,
        job,
        stage,
        tries: 0,
    };
    appraise_booking(rooms, turn, booking, start)?;
    Ok(None)
}

pub(crate) fn appraise_booking(
    rooms: &mut Rooms,
    turn: &mut Turn,
    booking: Booking,
    start: Time,
) -> Result<(), Refusal> {
    let now = turn.now();
    let wish = &booking.wish;
    let (starts, listed) = match (booking.stage, &wish.ask.repeat) {
        (Stage::Search, _) => (
            candidates(&rooms.config, &rooms.queues, now, &booking.caller, wish, None),
            Listed::Nobody,
        ),
        (Stage::Series, Some(repeat)) => (Starts::Series(repeat.starts.clone()), Listed::Everyone),
        (Stage::Exact | Stage::Series, _) => (Starts::At(vec![start]), Listed::Everyone),
    };
    let mut inquiry = inquiry(rooms, now, wish, starts, listed);
    let ahead = match booking.stage {
        Stage::Search => AHEAD,
        Stage::Exact | Stage::Series => Span::ZERO,
    };
    inquiry.leavers = leavers(rooms, now, wish, ahead);
    inquiry.plain_start = own_wait_decides(rooms, &booking.caller, wish);
    if booking.stage == Stage::Exact {
        let slot = (start, start + wish.ask.length);
        inquiry.joint = joint_job(rooms, &booking.caller, wish, slot, &inquiry.job);
    }
    appraise(
        &rooms.jobs,
        &rooms.planning,
        &mut rooms.reservations,
        turn,
        Pending::Book(Box::new(booking)),
        inquiry,
    )
}

/// The start in a window that the user's pick chooses among those that are admitted.
pub(crate) fn found_start(
    rooms: &Rooms,
    now: Time,
    booking: &Booking,
    result: &Appraisal,
) -> Result<Time, Refusal> {
    let wish = &booking.wish;
    let judged = judge_all(rooms, now, &booking.caller, wish, result);
    let admitted: Vec<&Estimate> = judged
        .iter()
        .filter(|(_, verdict)| verdict.is_ok())
        .map(|(estimate, _)| *estimate)
        .collect();
    match pick(wish.ask.pick, &admitted) {
        Some(at) => Ok(admitted[at].start),
        None => Err(none_admitted(&judged)),
    }
}

/// Why no start of a window is admitted: the reason of the latest, where rules are
/// mildest.
fn none_admitted(judged: &[(&Estimate, Result<(), Refusal>)]) -> Refusal {
    let refused = |(_, verdict): &(&Estimate, Result<(), Refusal>)| verdict.clone().err();
    let rules = judged.iter().filter(|(e, _)| e.shares.is_some());
    let reason = rules.filter_map(refused).next_back();
    let any = || judged.iter().filter_map(refused).next_back();
    reason.or_else(any).unwrap_or_else(|| {
        Refusal::new(RefusalCode::NotFree, "the window has no start that could be")
    })
}

/// The nodes that a slot gets as things are now, if its licences are free too.
pub(crate) fn free_now(
    planning: &Planning,
    now: Time,
    wish: &ReservationRequest,
    estimate: &Estimate,
) -> Result<Vec<NodeShare>, Refusal> {
    let start = estimate.start.max(now);
    let length = estimate.end.since(estimate.start);
    let shares = planning.cluster().place(now, &wish.demand, start, length);
    let licensed = |shares: &Vec<NodeShare>| {
        let wants = wish.holds.on(shares);
        let free = planning
            .cluster()
            .are_amounts_free(now, &wants, start, length);
        free.is_ok()
    };
    shares.filter(licensed).ok_or_else(|| {
        Refusal::new(
            RefusalCode::NotFree,
            "the slot was taken a moment ago; nothing was booked: ask for a new quote",
        )
    })
}

/// The nodes that a slot gets as things are now, and who of those that were to leave for it still
/// has to. It is one of so many slots that are asked about in the same turn.
pub(crate) fn free_or_vacated(
    rooms: &Rooms,
    now: Time,
    wish: &ReservationRequest,
    (estimate, questions): (&Estimate, usize),
) -> Result<(Vec<NodeShare>, Vec<JobId>), Refusal> {
    let refusal = match free_now(&rooms.planning, now, wish, estimate) {
        Err(refusal) if !estimate.leave.is_empty() => refusal,
        free => return free.map(|shares| (shares, Vec::new())),
    };
    let start = estimate.start.max(now);
    let known = leavers_of(rooms, now, wish, &estimate.leave);
    let asked = inquiry(rooms, now, wish, Starts::At(Vec::new()), Listed::Nobody);
    let planner = rooms.planning.cluster();
    let vacated = planner.place_vacated(now, &asked.job, start, &known, questions);
    vacated
        .map(|vacated| (vacated.shares, vacated.leave))
        .ok_or(refusal)
}

pub(crate) fn new_row(
    config: &ClusterConfig,
    queues: &Queues,
    now: Time,
    booking: &Booking,
    taken: &Taken<'_>,
    id: ReservationId,
    series: Option<ReservationId>,
) -> ReservationRow {
    let (wish, estimate) = (&booking.wish, taken.estimate);
    let (start, length) = (estimate.start.max(now), estimate.end.since(estimate.start));
    let policy = policy_of(config, queues, wish);
    let repeats = wish.ask.repeat.is_some();
    ReservationRow {
        series: series.or(repeats.then_some(id)),
        start,
        end: start + length,
        hold_until: booking.hold.then(|| (now + policy.hold).min(start)),
        ..row_of_slot(queues, now, &booking.caller, wish, (estimate, taken.extra), id)
    }
}

/// The row of a slot with the figures on which it was admitted and what it pays for delaying others.
/// It stands alone and is no hold with an end.
pub(crate) fn row_of_slot(
    queues: &Queues,
    now: Time,
    caller: &Caller,
    wish: &ReservationRequest,
    (estimate, extra): (&Estimate, Su),
    id: ReservationId,
) -> ReservationRow {
    let user = &caller.user;
    ReservationRow {
        id,
        series: None,
        uid: user.uid,
        gid: caller.group(),
        user: user.name.clone(),
        queue: queues.name(wish.queue).to_owned(),
        account: wish.account.clone(),
        ask: wish.ask.clone(),
        state: ReservationState::Held,
        degraded: false,
        start: estimate.start,
        end: estimate.end,
        closed: None,
        shares: Vec::new(),
        made: now,
        hold_until: None,
        free_until: None,
        base: estimate.base,
        extra,
        held: Su::ZERO,
        charged: Su::ZERO,
        delays: estimate.delays.listed.clone(),
        job: None,
        first_use: None,
        used_core_ms: 0,
        note: String::new(),
        flow: None,
        makers: Vec::new(),
    }
}

pub(crate) fn slot_text(
    machine: &Machine,
    reservations: &Reservations,
    id: ReservationId,
) -> String {
    let Some(reservation) = reservations.get(id) else {
        return String::new();
    };
    format!("{} for {}", names_of_shares(machine, &reservation.shares), reservation.length())
}

/// A user may have few holds, and none where one of the account has just lapsed: else
/// slots could be kept for nothing for ever.
pub(crate) fn may_hold(
    config: &ClusterConfig,
    queues: &Queues,
    reservations: &Reservations,
    caller: &Caller,
    wish: &ReservationRequest,
) -> Result<(), Refusal> {
    let policy = policy_of(config, queues, wish);
    let uid = caller.user.uid;
    let mut open: Vec<ReservationId> = reservations
        .live()
        .filter(|r| r.row.state == ReservationState::Held && r.row.uid == uid)
        .map(Reservation::series)
        .collect();
    open.dedup();
    let asked = reservations.appraisals.bookings();
    let asked = asked.filter(|b| b.hold && b.caller.user.uid == uid).count();
    let have = open.len() + asked;
    if is_administrator(config, caller) {
        return Ok(());
    }
    if let Some(most) = policy.holds.filter(|most| have >= *most as usize) {
        let which = open
            .first()
            .map_or(String::new(), |id| format!(": confirm or cancel reservation {id} first"));
        return Err(Refusal::new(
            RefusalCode::TooMany,
            format!("{have} of {most} holds of user {} are open{which}", caller.user.name),
        ));
    }
    Ok(())
}

pub(crate) fn may_hold_as_asked(
    config: &ClusterConfig,
    queues: &Queues,
    reservations: &Reservations,
    now: Time,
    booking: &Booking,
    slot: &Estimate,
) -> Result<(), Refusal> {
    match booking.hold {
        true => {
            may_hold_again(config, queues, reservations, now, &booking.caller, &booking.wish, slot)
        }
        false => Ok(()),
    }
}

/// After a hold was not confirmed, its account gets no overlapping one for a while: else
/// one hold after the other would keep a slot for nothing.
pub(crate) fn may_hold_again(
    config: &ClusterConfig,
    queues: &Queues,
    reservations: &Reservations,
    now: Time,
    caller: &Caller,
    wish: &ReservationRequest,
    slot: &Estimate,
) -> Result<(), Refusal> {
    let Some(rehold) = policy_of(config, queues, wish).rehold else {
        return Ok(());
    };
    if is_administrator(config, caller) {
        return Ok(());
    }
    let same = |row: &ReservationRow| {
        row.uid == caller.user.uid || (row.account.is_some() && row.account == wish.account)
    };
    let lapsed = reservations.all.values().find(|r| {
        let row = &r.row;
        let until = row.hold_until.map(|at| at + rehold);
        was_only_held(row)
            && until.is_some_and(|until| now < until)
            && same(row)
            && row.start < slot.end
            && slot.start < row.start + row.ask.length
    });
    match lapsed {
        Some(lapsed) => Err(Refusal::new(
            RefusalCode::Admission,
            format!(
                "hold {} of the same time lapsed unconfirmed less than {rehold} ago, or was given back: book it instead, or hold another time",
                lapsed.row.id
            ),
        )),
        None => Ok(()),
    }
}

/// The answer with reservations as they are now.
pub(crate) fn reserved(
    config: &ClusterConfig,
    machine: &Machine,
    reservations: &Reservations,
    caller: &Caller,
    ids: &[ReservationId],
    conflicts: Vec<(Time, Refusal)>,
) -> Reply {
    let all = ids.iter().filter_map(|id| reservations.get(*id));
    Reply::Reserved {
        reservations: all
            .map(|r| info(config, machine, reservations, caller, r))
            .collect(),
        conflicts,
        note: String::new(),
    }
}
