//! Reservations end, and so do the jobs that were submitted with them.

use crate::jobs::job::Job;
use crate::planning::pools::procedures::tell_holders_of;
use crate::procedures::bulk::cancel_all;
use crate::procedures::reservations::vacate::look_at_promises;
use crate::procedures::reviews::review_within_at_once;
use crate::procedures::steer::cancel_job;
use crate::reservations::InsideEnd;
use crate::reservations::Reservation;
use crate::reservations::admission::cancel::{Ending, given_back, is_free, remains};
use crate::reservations::cancel::{give_money_back, release_money, terms};
use crate::reservations::course::{report_low_use, used_so_far};
use crate::reservations::inside::procedures::{jobs_inside, runs_inside};
use crate::reservations::procedures::{tell_holder, touch_reservation};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::reservation::ReservationState;
use cosy_model::{EventKind, EventObject, JobId, ReservationId};

/// Gives a live reservation back, with its job and its money.
pub(crate) fn give_up_reservation(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: ReservationId,
    who: &str,
) {
    let now = turn.now();
    let Some(reservation) = rooms.reservations.get(id).filter(|r| r.is_live()) else {
        return;
    };
    let row = &reservation.row();
    let terms = terms(&rooms.config, &rooms.jobs, &rooms.planning, now, reservation);
    let costs = remains(&terms, Ending::Given, now);
    let (state, charged, uid) = (row.state, row.charged, row.uid);
    if now < row.start && is_free(&terms, now) {
        rooms.reservations.uncount(&rooms.config, now, id);
    }
    let inside: Vec<JobId> = jobs_inside(&rooms.planning, id).collect();
    cancel_all(rooms, turn, inside, (uid, who));
    let note = format!("cancelled by {who}");
    close(rooms, turn, id, ReservationState::Cancelled, &note);
    match state {
        ReservationState::Held => {
            release_money(&rooms.config, &mut rooms.reservations, turn, id, who)
        }
        _ => give_money_back(
            &rooms.config,
            &mut rooms.reservations,
            turn,
            id,
            charged.minus(costs),
            who,
        ),
    }
    let detail = format!("it costs {costs} SU");
    turn.happened(now, EventKind::Cancelled, who, EventObject::Reservation(id), detail);
    drop_attached(rooms, turn, id, "its reservation was cancelled");
}

/// The end of an active reservation, at its time or because its job has ended.
pub(crate) fn end_reservation(rooms: &mut Rooms, turn: &mut Turn, id: ReservationId, why: &str) {
    let now = turn.now();
    let Some(reservation) = rooms.reservations.get(id) else {
        return;
    };
    let row = &reservation.row();
    let never = row.first_use.is_none() && row.degraded;
    let (whole, used) =
        (reservation.core_ms(), used_so_far(&rooms.jobs, &rooms.planning, now, reservation));
    let state = if never {
        ReservationState::Failed
    } else {
        ReservationState::Ended
    };
    let terms = terms(&rooms.config, &rooms.jobs, &rooms.planning, now, reservation);
    close(rooms, turn, id, state, why);
    if never {
        let back = given_back(&terms, Ending::Failed, now);
        give_money_back(&rooms.config, &mut rooms.reservations, turn, id, back, "controller");
        tell_holder(
            &rooms.config,
            &mut rooms.reservations,
            turn,
            id,
            EventKind::Failed,
            "its nodes were not there: nothing is charged",
        );
        return;
    }
    let back = given_back(&terms, Ending::Given, now);
    give_money_back(&rooms.config, &mut rooms.reservations, turn, id, back, "controller");
    let object = EventObject::Reservation(id);
    turn.happened(now, EventKind::Ended, "controller", object, why.to_owned());
    report_low_use(&rooms.config, &mut rooms.reservations, turn, id, used, whole);
}

/// Takes a live reservation off the machine. Its money is not touched.
pub(crate) fn close(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: ReservationId,
    state: ReservationState,
    why: &str,
) {
    let now = turn.now();
    let active = rooms.reservations.is_active(id);
    rooms.reservations.drop_delays(id);
    let Some(reservation) = rooms.reservations.get_mut(id) else {
        return;
    };
    reservation.closes(now, state, why);
    rooms.planning.cluster_mut().remove_block(id);
    look_at_promises(rooms, turn, id);
    if active {
        close_inside(rooms, turn, id);
    } else {
        review_within_at_once(rooms, turn, id);
    }
    touch_reservation(&rooms.config, &mut rooms.reservations, id);
}

/// Ends the job that was to start with a reservation, unless it has ended.
pub(crate) fn drop_attached(rooms: &mut Rooms, turn: &mut Turn, id: ReservationId, why: &str) {
    let job = rooms.reservations.get(id).and_then(|r| r.row().job);
    if let Some(job) = job.filter(|job| rooms.jobs.contains_key(job)) {
        cancel_job(rooms, turn, job, why);
    }
}

/// The time of a reservation is over: what still runs inside is handed to the cluster's
/// planner until its nodes are clean, what waits inside has nothing to wait for. There may be
/// any number of these: they leave the planner, which starts nothing any more, as they are
/// looked at again.
pub(crate) fn close_inside(rooms: &mut Rooms, turn: &mut Turn, id: ReservationId) {
    let now = turn.now();
    let reservation = rooms.reservations.get_mut(id);
    let planner = reservation.and_then(Reservation::planner_mut);
    let mut running = Vec::new();
    if let Some(planner) = planner {
        let jobs: Vec<JobId> = planner.running_jobs().map(|(job, _)| job).collect();
        for job in jobs {
            running.push((job, planner.held_by(job)));
            planner.end(job);
        }
    }
    // The cluster's planner knew them as holders elsewhere: they are none any more.
    tell_holders_of(&mut rooms.planning, &mut rooms.reservations, id);
    rooms.reservations.closes(id);
    for (job, shares) in running {
        rooms.planning.left_inside(job);
        let known = rooms.jobs.get(&job);
        let whole = known.is_some_and(Job::holds_whole_nodes);
        let holds = known.map(|job| rooms.planning.pools().holds_of(job.spec()));
        let holds = holds.unwrap_or_default();
        let cluster = rooms.planning.cluster_mut();
        cluster.start_running_holding(job, shares, now, whole, &holds);
    }
    review_within_at_once(rooms, turn, id);
}

/// With its script a reservation is over, as soon as nothing else runs in it.
pub(crate) fn inside_ends_due(rooms: &mut Rooms, turn: &mut Turn) {
    while let Some(ended) = rooms.reservations.next_inside_end() {
        inside_job_ended(rooms, turn, &ended);
    }
}

pub(crate) fn inside_job_ended(rooms: &mut Rooms, turn: &mut Turn, ended: &InsideEnd) {
    let within = ended.reservation;
    let state = rooms
        .reservations
        .get(within)
        .map(|r| (r.row().job, r.row().state));
    match state {
        Some((Some(job), ReservationState::Active)) => {
            let over = !rooms.jobs.contains_key(&job);
            if over && !runs_inside(&rooms.planning, &rooms.reservations, within) {
                end_reservation(rooms, turn, within, "its job has ended");
            }
        }
        // Its job was cancelled before it began: there is nothing to keep nodes for.
        Some((job, ReservationState::Held | ReservationState::Confirmed))
            if job == Some(ended.job) =>
        {
            give_up_reservation(rooms, turn, within, &ended.user);
        }
        Some(_) | None => {}
    }
}
