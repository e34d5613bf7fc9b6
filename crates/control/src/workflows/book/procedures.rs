//! The slots of a workflow are checked and taken, all or none.

use crate::config::ClusterConfig;
use crate::event::Caller;
use crate::jobs::submit::Ready;
use crate::machine::Machine;
use crate::planning::Planning;
use crate::queues::Queues;
use crate::record::{OfFlow, ReservationRow};
use crate::reservations::ask::procedures::{policy_of, tariff};
use crate::reservations::book::procedures::{may_hold, may_hold_again, row_of_slot, slot_text};
use crate::reservations::booked::booked;
use crate::reservations::confirm::confirm_one;
use crate::reservations::procedures::touch_reservation;
use crate::reservations::quote::procedures::{admit, extra_of};
use crate::reservations::{Reservation, ReservationRequest, Reservations};
use crate::rooms::Rooms;
use crate::turn::{Asker, Turn};
use crate::workflows::book::{FlowBooking, FlowSlot, HOLD_LEAST, NotTaken};
use crate::workflows::check::Graph;
use crate::workflows::plan::FlowPending;
use crate::workflows::plan::procedures::have_planned;
use crate::workflows::resolve::procedures::{flow_wish, live_flow, task_stands_as};
use crate::workflows::resolve::{ResolvedFlow, of_task};
use crate::workflows::submit::{job_ids, ready_tasks};
use cosy_model::api::Reply;
use cosy_model::reservation::{ReservationSpec, StartChoice};
use cosy_model::workflow::FlowSpec;
use cosy_model::{
    EventKind, EventObject, FlowId, JobId, QueueId, Refusal, RefusalCode, ReservationId, Su, Time,
    limits,
};
use cosy_sched::appraise::{Appraisal, Delays, Estimate};
use cosy_sched::workflow::live::{LivePlan, LiveSlot};
use std::collections::{BTreeMap, BTreeSet};

/// Has a workflow planned, to be held or booked.
pub(crate) fn submit_planned(
    rooms: &mut Rooms,
    turn: &mut Turn,
    asker: Asker<'_>,
    spec: FlowSpec,
    graph: Graph,
    hold: bool,
) -> Result<Option<Reply>, Refusal> {
    let Asker {
        client,
        caller,
        key,
    } = asker;
    if rooms.workflows.plans.rejoin(asker) {
        return Ok(None);
    }
    let wish = flow_wish(rooms, caller, spec)?;
    may_have_reservations(&rooms.reservations, wish.spec.tasks.len())?;
    let booking = FlowBooking {
        client,
        caller: Box::new(caller.clone()),
        key,
        wish,
        graph,
        hold,
        tries: 0,
    };
    plan_to_book(rooms, turn, booking)?;
    Ok(None)
}

pub(crate) fn may_have_reservations(
    reservations: &Reservations,
    more: usize,
) -> Result<(), Refusal> {
    let have = reservations.len();
    if have + more > limits::RESERVATIONS {
        return Err(Refusal::new(
            RefusalCode::TooMany,
            format!(
                "there are {have} reservations, with those of the last day: {more} more are beyond the {} allowed",
                limits::RESERVATIONS
            ),
        ));
    }
    Ok(())
}

pub(crate) fn plan_to_book(
    rooms: &mut Rooms,
    turn: &mut Turn,
    booking: FlowBooking,
) -> Result<(), Refusal> {
    let now = turn.now();
    let flow = live_flow(rooms, now, &booking.wish)?;
    have_planned(
        &rooms.jobs,
        &rooms.planning,
        &rooms.reservations,
        &mut rooms.workflows,
        turn,
        FlowPending::Submit(Box::new(booking)),
        flow,
    )
}

/// Each slot as if it were a reservation by itself, in the order of the tasks.
pub(crate) fn flow_slots(
    rooms: &Rooms,
    now: Time,
    of: &ResolvedFlow,
    mut plan: LivePlan,
) -> Vec<FlowSlot> {
    let slots = std::mem::take(&mut plan.slots).into_iter().enumerate();
    let slot = |(task, planned): (usize, LiveSlot)| {
        let mut planned = planned;
        planned.start = planned.start.max(now);
        let wish = slot_wish(rooms, of, task, &planned, plan.deadline);
        let figures = plan.figures_of(task);
        let figures = figures.unwrap_or_else(|| slot_figures(rooms, now, &wish, &planned));
        let extra = extra_of(
            &rooms.config,
            &rooms.queues,
            &rooms.reservations,
            &wish,
            &figures,
            &figures.slots[0],
        );
        FlowSlot {
            wish,
            figures,
            planned,
            extra,
        }
    };
    slots.map(slot).collect()
}

/// A slot of a task in the words of reservations.
pub(crate) fn slot_wish(
    rooms: &Rooms,
    wish: &ResolvedFlow,
    task: usize,
    slot: &LiveSlot,
    deadline: Time,
) -> ReservationRequest {
    let (asked, place) = (&wish.spec.tasks[task], &wish.places[task]);
    let early = wish.spec.early;
    let length = slot.end.since(slot.start);
    let pick = match early {
        true => StartChoice::FinishBy,
        false => StartChoice::At(slot.start),
    };
    ReservationRequest {
        ask: ReservationSpec {
            name: format!("{}.{}", wish.spec.name, asked.name),
            queue: Some(rooms.queues.name(place.queue).to_owned()),
            licenses: asked.spec.licenses.clone(),
            earliest: early.then_some(wish.spec.earliest).flatten(),
            latest_end: early.then_some(deadline),
            account: wish.account.clone(),
            comment: wish.spec.comment.clone(),
            ..ReservationSpec::plain(asked.spec.request.clone(), length, pick)
        },
        queue: place.queue,
        demand: place.demand.clone(),
        holds: rooms.planning.pools().holds_of(&asked.spec),
        level: place.level,
        earliest: slot.start,
        latest: slot.start,
        account: wish.account.clone(),
        stands_as: task_stands_as(rooms, wish, &asked.spec, place.queue),
    }
}

/// What a slot costs and does.
pub(crate) fn slot_figures(
    rooms: &Rooms,
    now: Time,
    wish: &ReservationRequest,
    slot: &LiveSlot,
) -> Appraisal {
    let policy = policy_of(&rooms.config, &rooms.queues, wish);
    let tariff = tariff(&rooms.queues, rooms.planning.pools(), policy);
    let length = slot.end.since(slot.start);
    Appraisal {
        now,
        plain_start: None,
        joint_start: None,
        load_end: now,
        plan_end: now,
        slots: vec![Estimate {
            start: slot.start,
            end: slot.end,
            shares: Some(slot.shares.clone()),
            leave: Vec::new(),
            lacks: None,
            before_head: false,
            availability_ppm: 1_000_000,
            by_load: true,
            base: tariff.base(&slot.shares, &wish.holds.on(&slot.shares), length),
            extra: Su::ZERO,
            delays: Delays::default(),
        }],
    }
}

/// The rules of admission, quotas and money, for all slots of a workflow.
pub(crate) fn admit_slots(
    rooms: &Rooms,
    now: Time,
    booking: &FlowBooking,
    slots: &[FlowSlot],
) -> Result<(), Refusal> {
    let (caller, of) = (&*booking.caller, &booking.wish);
    match refusals_of(rooms, now, caller, of, booking.hold, slots).next() {
        Some(refusal) => Err(refusal),
        None => can_pay_all(&rooms.reservations, of, slots),
    }
}

/// What the rules of admission and the quotas say against slots.
pub(crate) fn refusals_of<'a>(
    rooms: &'a Rooms,
    now: Time,
    caller: &'a Caller,
    of: &'a ResolvedFlow,
    hold: bool,
    slots: &'a [FlowSlot],
) -> impl Iterator<Item = Refusal> + 'a {
    // What counts against quotas is the same for all slots in a queue.
    let mut taken = BTreeMap::new();
    for slot in slots {
        let all = taken.entry(slot.wish.queue);
        all.or_insert_with(|| {
            booked(
                &rooms.config,
                &rooms.machine,
                &rooms.queues,
                &rooms.reservations,
                caller,
                &slot.wish,
            )
        });
    }
    let first = slots.first().filter(|_| hold);
    let held = first.and_then(|first| {
        may_hold(&rooms.config, &rooms.queues, &rooms.reservations, caller, &first.wish).err()
    });
    let judge = move |slot: &FlowSlot| {
        let (wish, estimate) = (&slot.wish, slot.estimate());
        if hold {
            may_hold_again(
                &rooms.config,
                &rooms.queues,
                &rooms.reservations,
                now,
                caller,
                wish,
                estimate,
            )?;
        }
        let taken = &taken[&wish.queue];
        admit(rooms, now, caller, wish, &slot.figures, estimate, taken)
    };
    let each = of.spec.tasks.iter().zip(slots);
    let each = each.filter_map(move |(task, slot)| {
        let refusal = judge(slot).err()?;
        Some(of_task(&task.name, refusal))
    });
    held.into_iter().chain(each)
}

/// Whether all slots together can be paid.
pub(crate) fn can_pay_all(
    reservations: &Reservations,
    of: &ResolvedFlow,
    slots: &[FlowSlot],
) -> Result<(), Refusal> {
    let Some(first) = slots.first() else {
        return Ok(());
    };
    let price = slots.iter().fold(Su::ZERO, |sum, s| sum.plus(s.price()));
    let mut all = first.wish.clone();
    all.ask.max_price = of.spec.max_price;
    reservations.can_pay(&all, price)
}

/// The jobs of all tasks, each to be attached to its slot.
pub(crate) fn ready_slot_jobs(
    rooms: &Rooms,
    caller: &Caller,
    spec: &mut FlowSpec,
    graph: &Graph,
    slots: &[FlowSlot],
) -> Result<Vec<Ready>, Refusal> {
    for (task, slot) in spec.tasks.iter_mut().zip(slots) {
        // The slot is the limit; a user's own would only cut it.
        task.spec.time_limit = Some(slot.wish.ask.length);
        task.spec.queue.clone_from(&slot.wish.ask.queue);
    }
    let mut ready = ready_tasks(rooms, caller, spec, graph)?;
    let first = rooms.reservations.next_number();
    for (ready, task) in ready.iter_mut().zip(&graph.order) {
        ready.spec.reservation = Some(ReservationId(first + u64::from(*task)));
        ready.spec.begin = None;
    }
    Ok(ready)
}

/// A hold ends when the first slot begins, but leaves time to confirm it.
pub(crate) fn flow_hold_until(
    config: &ClusterConfig,
    queues: &Queues,
    now: Time,
    slots: &[FlowSlot],
) -> Time {
    let holds = slots
        .iter()
        .map(|s| policy_of(config, queues, &s.wish).hold);
    let longest = now + holds.min().unwrap_or(HOLD_LEAST);
    let first = slots.iter().map(|s| s.planned.start).min().unwrap_or(now);
    // Nothing can be held beyond the end of a slot.
    let over = slots.iter().map(|s| s.planned.end).min();
    let until = first.max(now + HOLD_LEAST).min(longest);
    until.min(over.unwrap_or(until))
}

/// Takes all slots, or none. Nothing is recorded yet but the money.
pub(crate) fn place_slots(
    rooms: &mut Rooms,
    turn: &mut Turn,
    booking: &FlowBooking,
    flow: FlowId,
    until: Time,
    slots: &[FlowSlot],
) -> Result<Vec<ReservationId>, NotTaken> {
    let now = turn.now();
    let jobs = job_ids(&rooms.jobs, &booking.graph);
    let limited = limited_queues(
        &rooms.config,
        &rooms.machine,
        &rooms.queues,
        &rooms.reservations,
        &booking.caller,
        slots,
    );
    let mut taken = Vec::with_capacity(slots.len());
    for (task, slot) in slots.iter().enumerate() {
        let checked = match limited.contains(&slot.wish.queue) {
            true => keeps_shares(rooms, now, booking, task, slot),
            false => Ok(()),
        };
        let of = (flow, task, jobs[task]);
        match checked.and_then(|()| place_slot(rooms, now, booking, of, until, slot)) {
            Ok(id) => taken.push(id),
            Err(why) => {
                take_back(&mut rooms.planning, &mut rooms.reservations, &taken);
                return Err(why);
            }
        }
    }
    if let Err(refusal) = hold_prices(&mut rooms.reservations, turn, &taken) {
        take_back(&mut rooms.planning, &mut rooms.reservations, &taken);
        return Err(refusal.into());
    }
    let next = rooms.reservations.next_number() + taken.len() as u64;
    rooms.reservations.go_on_at(next);
    Ok(taken)
}

/// Queues in which a part of the machine is the most that the caller may have.
fn limited_queues(
    config: &ClusterConfig,
    machine: &Machine,
    queues: &Queues,
    reservations: &Reservations,
    caller: &Caller,
    slots: &[FlowSlot],
) -> BTreeSet<QueueId> {
    let limited: BTreeMap<QueueId, &ReservationRequest> =
        slots.iter().map(|s| (s.wish.queue, &s.wish)).collect();
    let limited = limited.iter().filter(|(_, wish)| {
        booked(config, machine, queues, reservations, caller, wish).limits_shares()
    });
    limited.map(|(queue, _)| *queue).collect()
}

/// Whether the quotas hold with those slots of this workflow that are placed already.
fn keeps_shares(
    rooms: &Rooms,
    now: Time,
    booking: &FlowBooking,
    task: usize,
    slot: &FlowSlot,
) -> Result<(), NotTaken> {
    let booked = booked(
        &rooms.config,
        &rooms.machine,
        &rooms.queues,
        &rooms.reservations,
        &booking.caller,
        &slot.wish,
    );
    // They count as one with it.
    let checked = booked.check_part(now, &slot.wish, slot.estimate(), task > 0);
    let name = &booking.wish.spec.tasks[task].name;
    Ok(checked.map_err(|refusal| of_task(name, refusal))?)
}

fn place_slot(
    rooms: &mut Rooms,
    now: Time,
    booking: &FlowBooking,
    (flow, task, job): (FlowId, usize, JobId),
    until: Time,
    slot: &FlowSlot,
) -> Result<ReservationId, NotTaken> {
    let planned = &slot.planned;
    let length = planned.end.since(planned.start);
    let wanted = (&planned.shares[..], &slot.wish.holds.on(&planned.shares)[..]);
    if planned.start < now
        || !rooms
            .planning
            .cluster()
            .are_all_free(now, wanted, planned.start, length)
    {
        return Err(NotTaken::Gone);
    }
    let of = OfFlow {
        flow,
        task: task as u32,
    };
    let first = ReservationId(rooms.reservations.next_number());
    let id = ReservationId(first.0 + task as u64);
    let row = ReservationRow {
        series: Some(first),
        start: planned.start,
        end: planned.end,
        job: Some(job),
        hold_until: booking.hold.then_some(until),
        flow: Some(of),
        makers: Vec::new(),
        ..row_of_slot(
            &rooms.queues,
            now,
            &booking.caller,
            &slot.wish,
            (slot.estimate(), slot.extra),
            id,
        )
    };
    let reservation = Reservation::new(row, planned.shares.clone());
    let block = reservation.block(rooms.planning.pools());
    rooms.planning.cluster_mut().add_block(block);
    rooms.reservations.enter(reservation);
    Ok(id)
}

/// Holds the prices of reservations that are in memory only, of all or of none.
fn hold_prices(
    reservations: &mut Reservations,
    turn: &mut Turn,
    ids: &[ReservationId],
) -> Result<(), Refusal> {
    let now = turn.now();
    let before = reservations.books().clone();
    let mut records = Vec::new();
    for id in ids {
        match reservations.hold_price(now, *id) {
            Ok(lines) => records.extend(lines),
            Err(refusal) => {
                *reservations.books_mut() = before;
                return Err(refusal);
            }
        }
    }
    records.into_iter().for_each(|r| turn.record(r));
    Ok(())
}

/// Takes reservations out of memory that nobody has been told of.
fn take_back(planning: &mut Planning, reservations: &mut Reservations, ids: &[ReservationId]) {
    for id in ids {
        planning.cluster_mut().remove_block(*id);
        reservations.take_back(*id);
    }
}

/// All slots are taken: from now on they are reservations like others.
pub(crate) fn slots_taken(
    config: &ClusterConfig,
    machine: &Machine,
    reservations: &mut Reservations,
    turn: &mut Turn,
    booking: &FlowBooking,
    ids: &[ReservationId],
) {
    let now = turn.now();
    let who = booking.caller.user.name.clone();
    let kind = if booking.hold {
        EventKind::Held
    } else {
        EventKind::Booked
    };
    for id in ids {
        let delays = reservations.get(*id).map(|r| r.row().delays.clone());
        reservations.add_delays(&delays.unwrap_or_default());
        let detail = slot_text(machine, reservations, *id);
        turn.happened(now, kind, &who, EventObject::Reservation(*id), detail);
        match booking.hold {
            true => touch_reservation(config, reservations, *id),
            false => confirm_one(config, reservations, turn, *id, &who),
        }
    }
}
