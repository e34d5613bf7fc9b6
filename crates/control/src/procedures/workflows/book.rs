//! Slots for all tasks of a workflow are booked.

use crate::conversations::requests::procedures::answer_late;
use crate::procedures::workflows::submit::enter_tasks;
use crate::record::FlowRow;
use crate::rooms::Rooms;
use crate::turn::Turn;
use crate::workflows::Flow;
use crate::workflows::book::procedures::{
    admit_slots, flow_hold_until, flow_slots, may_have_reservations, place_slots, plan_to_book,
    ready_slot_jobs, slots_taken,
};
use crate::workflows::book::{FlowBooking, NotTaken, TRIES, slot_row};
use crate::workflows::plan::{Planned, flow_refusal};
use crate::workflows::show::procedures::flow_reply;
use crate::workflows::submit::job_ids;
use cosy_model::api::Reply;
use cosy_model::workflow::FlowState;
use cosy_model::{EventKind, FlowId, Refusal, RefusalCode, Time};
use cosy_sched::workflow::live::LivePlan;

pub(crate) fn planned_to_book(
    rooms: &mut Rooms,
    turn: &mut Turn,
    mut booking: FlowBooking,
    result: Planned,
) {
    let (client, uid, key) = (booking.client, booking.caller.user.uid, booking.key);
    let plan = result.map_err(|error| flow_refusal(&booking.wish.spec, &error));
    let booked = match plan {
        Ok(plan) => book_flow(rooms, turn, &mut booking, plan),
        Err(refusal) => Err(NotTaken::Refused(refusal)),
    };
    booking.tries += 1;
    let reply = match booked {
        Ok(reply) => reply,
        Err(NotTaken::Gone) if booking.tries < TRIES => match plan_to_book(rooms, turn, booking) {
            Ok(()) => return,
            Err(refusal) => Reply::Refused(refusal),
        },
        Err(NotTaken::Gone) => Reply::Refused(Refusal::new(
            RefusalCode::NotFree,
            "slots of the plan were taken again and again while it was made; nothing was booked: try again",
        )),
        Err(NotTaken::Refused(refusal)) => Reply::Refused(refusal),
    };
    answer_late(&mut rooms.conversations, turn, client, uid, key, reply);
}

pub(crate) fn book_flow(
    rooms: &mut Rooms,
    turn: &mut Turn,
    booking: &mut FlowBooking,
    plan: LivePlan,
) -> Result<Reply, NotTaken> {
    let now = turn.now();
    rooms.workflows.may_have_flow()?;
    may_have_reservations(&rooms.reservations, plan.slots.len())?;
    let deadline = plan.deadline;
    let slots = flow_slots(rooms, now, &booking.wish, plan);
    admit_slots(rooms, now, booking, &slots)?;
    // Scripts stay in the booking: it may have to be planned anew.
    let mut spec = booking.wish.spec.clone();
    let ready = ready_slot_jobs(rooms, &booking.caller, &mut spec, &booking.graph, &slots)?;
    let id = FlowId(rooms.workflows.next_number());
    let until = flow_hold_until(&rooms.config, &rooms.queues, now, &slots);
    let reservations = place_slots(rooms, turn, booking, id, until, &slots)?;
    rooms.workflows.number_taken();
    let row = row_of(booking, id, now, (deadline, until));
    let jobs = job_ids(&rooms.jobs, &booking.graph);
    let sets = &booking.wish.set_names;
    let task = |task: usize| slot_row(id, task, jobs[task], reservations[task], &slots[task], sets);
    let tasks = (0..slots.len()).map(task).collect();
    let kind = if booking.hold {
        EventKind::Held
    } else {
        EventKind::Booked
    };
    rooms
        .workflows
        .add_flow(turn, Flow::new(row, spec, booking.graph.clone(), tasks), kind);
    enter_tasks(rooms, turn, &booking.caller, id, ready);
    slots_taken(
        &rooms.config,
        &rooms.machine,
        &mut rooms.reservations,
        turn,
        booking,
        &reservations,
    );
    Ok(flow_reply(&rooms.machine, &rooms.jobs, &rooms.reservations, &rooms.workflows, id)?)
}

fn row_of(
    booking: &FlowBooking,
    id: FlowId,
    now: Time,
    (deadline, until): (Time, Time),
) -> FlowRow {
    let user = &booking.caller.user;
    FlowRow {
        id,
        uid: user.uid,
        gid: booking.caller.group(),
        user: user.name.clone(),
        state: match booking.hold {
            true => FlowState::Held,
            false => FlowState::Running,
        },
        made: now,
        deadline: Some(deadline),
        account: booking.wish.account.clone(),
        hold_until: booking.hold.then_some(until),
        closed: None,
        note: String::new(),
    }
}
