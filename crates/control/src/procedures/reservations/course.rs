//! Reservations begin, expire and are given back unused when their time comes.

use crate::procedures::end::end_held;
use crate::procedures::reservations::end::{close, drop_attached, end_reservation};
use crate::procedures::reservations::repair::repair_one;
use crate::procedures::reservations::vacate::vacate_due;
use crate::procedures::reviews::review_within_at_once;
use crate::procedures::workflows::course::slot_over;
use crate::reservations::cancel::release_money;
use crate::reservations::course::note_hour_price;
use crate::reservations::inside::clearance::with_clearance_after;
use crate::reservations::inside::procedures::open_inside;
use crate::reservations::procedures::{tell_holder, touch_reservation};
use crate::rooms::Rooms;
use crate::set_aside::Object;
use crate::turn::Turn;
use cosy_model::node::{KillCause, NodeOrder};
use cosy_model::reservation::ReservationState;
use cosy_model::{EventKind, EventObject, JobId, NodeId, ReservationId};

/// Does everything whose time has come.
pub(crate) fn reservations_due(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    while let Some(id) = rooms.reservations.take_due(now) {
        rooms.aside.works_on(Object::Reservation(id));
        reservation_due(rooms, turn, id);
    }
}

pub(crate) fn reservation_due(rooms: &mut Rooms, turn: &mut Turn, id: ReservationId) {
    let now = turn.now();
    let Some(reservation) = rooms.reservations.get(id) else {
        return;
    };
    let row = &reservation.row();
    match row.state {
        ReservationState::Held => expire(rooms, turn, id),
        ReservationState::Confirmed if now < row.start => {
            let start = row.start;
            vacate_due(rooms, turn, id);
            if now >= start - rooms.config.policy.clearance {
                clear_nodes(rooms, turn, id);
                rooms.reservations.set_due(id, Some(start));
            }
        }
        ReservationState::Confirmed => begin_reservation(rooms, turn, id),
        ReservationState::Active if now >= row.end => {
            let flow = row.flow;
            end_reservation(rooms, turn, id, "its time is over");
            if let Some(of) = flow {
                slot_over(rooms, turn, of);
            }
        }
        ReservationState::Active => give_back_unused(rooms, turn, id),
        ReservationState::Ended
        | ReservationState::Cancelled
        | ReservationState::Expired
        | ReservationState::Unused
        | ReservationState::Failed => rooms.reservations.forget(id),
    }
}

pub(crate) fn expire(rooms: &mut Rooms, turn: &mut Turn, id: ReservationId) {
    let now = turn.now();
    close(rooms, turn, id, ReservationState::Expired, "it was not confirmed in time");
    release_money(&rooms.config, &mut rooms.reservations, turn, id, "controller");
    let object = EventObject::Reservation(id);
    turn.happened(now, EventKind::Expired, "controller", object, String::new());
    drop_attached(rooms, turn, id, "its reservation was not confirmed");
}

/// Jobs from outside had their time when the clearance begins: those that are still
/// there are ended.
pub(crate) fn clear_nodes(rooms: &mut Rooms, turn: &mut Turn, id: ReservationId) {
    let Some(reservation) = rooms.reservations.get(id) else {
        return;
    };
    let start = reservation.row().start;
    let nodes: Vec<NodeId> = reservation.shares().iter().map(|s| s.node).collect();
    let mut late: Vec<JobId> = Vec::new();
    for node in nodes {
        for job in rooms.machine.node(node).jobs() {
            let run = rooms.jobs.get(job).and_then(|j| j.run());
            let over = run.is_some_and(|r| {
                let end = with_clearance_after(&rooms.config, r.end_if_it_goes_on());
                !r.is_over() && end <= start
            });
            let outside = !rooms.planning.is_inside(*job);
            if over && outside && !late.contains(job) {
                late.push(*job);
            }
        }
    }
    late.into_iter().for_each(|job| clear_of(rooms, turn, job));
}

/// Ends a job whose time is over. Where the node of its program is silent, that node's
/// daemon ends it; the others are cleaned up without waiting for its word.
pub(crate) fn clear_of(rooms: &mut Rooms, turn: &mut Turn, job: JobId) {
    if rooms
        .jobs
        .get(&job)
        .is_some_and(|j| j.submitted().is_held())
    {
        return end_held(rooms, turn, job, KillCause::TimeLimit);
    }
    let Some(job) = rooms.jobs.get(&job) else {
        return;
    };
    let (key, Some(run)) = (job.key(), job.run()) else {
        return;
    };
    let Some(first) = run.first() else { return };
    if rooms.machine.node(first).link().is_some() {
        return rooms.machine.order(turn, first, |node| NodeOrder::Kill {
            key: key.into(),
            node,
            cause: KillCause::TimeLimit,
            preempted: false,
        });
    }
    if run.started().is_none() {
        return; // it may be launched yet
    }
    let others: Vec<NodeId> = run.parts().iter().skip(1).map(|part| part.node()).collect();
    for node in others {
        rooms.machine.order(turn, node, |node| NodeOrder::Release {
            key: key.into(),
            node,
        });
    }
}

pub(crate) fn begin_reservation(rooms: &mut Rooms, turn: &mut Turn, id: ReservationId) {
    let now = turn.now();
    vacate_due(rooms, turn, id);
    repair_one(rooms, turn, id);
    clear_nodes(rooms, turn, id);
    note_hour_price(&rooms.config, &mut rooms.reservations, id);
    let Some(reservation) = rooms.reservations.get_mut(id) else {
        return;
    };
    reservation.begins();
    open_inside(rooms, turn, id);
    let object = EventObject::Reservation(id);
    turn.happened(now, EventKind::Began, "controller", object, String::new());
    touch_reservation(&rooms.config, &mut rooms.reservations, id);
    review_within_at_once(rooms, turn, id);
}

pub(crate) fn give_back_unused(rooms: &mut Rooms, turn: &mut Turn, id: ReservationId) {
    let note = "nothing was started in it in time: its nodes were given back, it stays charged";
    close(rooms, turn, id, ReservationState::Unused, note);
    tell_holder(&rooms.config, &mut rooms.reservations, turn, id, EventKind::Unused, note);
}
