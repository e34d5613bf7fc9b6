//! Slots of a workflow move because a task took longer or shorter than planned.

use crate::conversations::replies::reply_to;
use crate::procedures::reservations::end::close_inside;
use crate::procedures::reservations::vacate::look_at_promises;
use crate::procedures::reviews::review;
use crate::procedures::workflows::book::planned_to_book;
use crate::record::OfFlow;
use crate::reservations::cancel::give_money_back;
use crate::reservations::procedures::touch_reservation;
use crate::rooms::Rooms;
use crate::turn::Turn;
use crate::workflows::NewSlot;
use crate::workflows::grow::grow_slot;
use crate::workflows::plan::procedures::next_flow_plan;
use crate::workflows::plan::{FlowPending, Planned, flow_refusal};
use crate::workflows::replan::Replan;
use crate::workflows::replan::procedures::{
    ask_replan, fit_instead, movable, price_of_move, slot_base,
};
use crate::workflows::shown::plan_to_show;
use cosy_model::api::Reply;
use cosy_model::{EventKind, EventObject, Refusal, RefusalCode, ReservationId, Su};
use cosy_sched::workflow::live::{LiveError, LivePlan, LiveSlot};

pub(crate) fn flow_planned(rooms: &mut Rooms, turn: &mut Turn, plan: u64, result: Planned) {
    let now = turn.now();
    let Some(pending) = rooms.workflows.take_plan(plan) else {
        return;
    };
    next_flow_plan(&rooms.jobs, &rooms.planning, &rooms.reservations, &mut rooms.workflows, turn);
    match pending {
        FlowPending::Plan {
            client,
            caller,
            wish,
        } => {
            let plan = result.map_err(|error| flow_refusal(&wish.spec, &error));
            let reply = match plan {
                Ok(plan) => {
                    Reply::FlowPlan(Box::new(plan_to_show(rooms, now, &caller, &wish, &plan)))
                }
                Err(refusal) => Reply::Refused(refusal),
            };
            reply_to(turn, client, reply);
        }
        FlowPending::Submit(booking) => planned_to_book(rooms, turn, *booking, result),
        FlowPending::Replan(replan) => replanned(rooms, turn, *replan, result),
    }
}

pub(crate) fn replanned(rooms: &mut Rooms, turn: &mut Turn, replan: Replan, result: Planned) {
    let id = replan.flow;
    match result {
        Ok(plan) => match move_slots(rooms, turn, &replan, plan) {
            Ok(()) => rooms.workflows.pauses_no_more(id),
            Err(refusal) => rooms
                .workflows
                .cannot_replan(&rooms.config, turn, id, &refusal),
        },
        // Late is better than not at all.
        Err(LiveError::TooEarly { shortest_end, .. }) => {
            ask_replan(rooms, turn, id, replan.grows, Some(shortest_end));
        }
        Err(error) => {
            let refusal = flow_refusal(&replan.wish.spec, &error);
            rooms
                .workflows
                .cannot_replan(&rooms.config, turn, id, &refusal);
        }
    }
}

pub(crate) fn move_slots(
    rooms: &mut Rooms,
    turn: &mut Turn,
    replan: &Replan,
    plan: LivePlan,
) -> Result<(), Refusal> {
    let now = turn.now();
    let changed =
        || Refusal::new(RefusalCode::NotFree, "the state has changed while it was planned");
    if movable(&rooms.jobs, &rooms.workflows, replan.flow) != replan.moved {
        return Err(changed());
    }
    let slots: Vec<(u32, ReservationId, &LiveSlot)> = replan
        .moved
        .iter()
        .map(|(task, id)| (*task, *id, &plan.slots[*task as usize]))
        .collect();
    let more = price_of_move(rooms, &slots);
    let account = rooms
        .workflows
        .get(replan.flow)
        .and_then(|f| f.row().account.clone());
    let left = account.and_then(|name| rooms.reservations.books().left(&name));
    if let Some(left) = left.filter(|left| *left < more) {
        return Err(Refusal::new(
            RefusalCode::Price,
            format!("it would cost {more} SU more, and the account has {left} SU left"),
        ));
    }
    if !fit_instead(
        &rooms.jobs,
        &mut rooms.planning,
        &rooms.reservations,
        &rooms.workflows,
        now,
        replan,
        &slots,
    ) {
        return Err(changed());
    }
    for (task, id, slot) in &slots {
        let of = OfFlow {
            flow: replan.flow,
            task: *task,
        };
        move_slot(rooms, turn, of, *id, slot, &replan.wish.set_names);
    }
    if let Some((of, by)) = replan.grows {
        let slot = rooms.workflows.task(of).and_then(|task| task.reservation);
        let grown = slot.map(|id| grow_slot(rooms, turn, id, of, by));
        debug_assert!(grown.is_some(), "a running task has its slot");
    }
    rooms
        .workflows
        .tell_moved(&rooms.config, turn, replan.flow, slots.len(), plan.deadline);
    Ok(())
}

pub(crate) fn move_slot(
    rooms: &mut Rooms,
    turn: &mut Turn,
    of: OfFlow,
    id: ReservationId,
    slot: &LiveSlot,
    sets: &[String],
) {
    let now = turn.now();
    let base = rooms
        .reservations
        .get(id)
        .map(|r| slot_base(rooms, r, slot));
    let base = base.unwrap_or_default();
    let live = rooms.reservations.get(id).is_some_and(|r| r.is_live());
    if live {
        rooms.reservations.drop_delays(id);
    }
    let active = rooms.reservations.is_active(id);
    let Some(reservation) = rooms.reservations.get_mut(id) else {
        return;
    };
    let who = reservation.row().user.clone();
    let paid = reservation.is_planned_again(slot.start.max(now), slot.end, &slot.shares);
    let block = reservation.block(rooms.planning.pools());
    if active {
        close_inside(rooms, turn, id);
    }
    rooms.planning.cluster_mut().add_block(block);
    look_at_promises(rooms, turn, id);
    settle_price(rooms, turn, id, (paid, base), &who);
    touch_reservation(&rooms.config, &mut rooms.reservations, id);
    turn.happened(
        now,
        EventKind::Moved,
        "controller",
        EventObject::Reservation(id),
        "its workflow was planned again".to_owned(),
    );
    let new = NewSlot {
        slot: (slot.start.max(now), slot.end),
        estimate: slot.estimate,
        set: sets.get(slot.set).cloned().unwrap_or_default(),
        price: base,
    };
    if let Some(job) = rooms.workflows.has_new_slot(of, new) {
        review(rooms, turn, job);
    }
}

/// A slot costs more or less than was paid for it.
fn settle_price(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: ReservationId,
    (paid, base): (Su, Su),
    who: &str,
) {
    let more = base.minus(paid);
    if more > Su::ZERO {
        // It was seen before that the account can pay.
        let _ = rooms
            .reservations
            .pay_extension(turn, id, (more, Su::ZERO), who);
    } else {
        let back = paid.minus(base);
        if let Some(reservation) = rooms.reservations.get_mut(id) {
            reservation.costs(base);
        }
        give_money_back(&rooms.config, &mut rooms.reservations, turn, id, back, who);
    }
}
