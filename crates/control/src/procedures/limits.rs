//! Limits of accounts and qualities of service: who waits for one is looked at when something is given
//! back or the policy changes, and who hits one at the start has not started.

use crate::jobs::bodies::procedures::place_body;
use crate::jobs::dependencies::Waiter;
use crate::jobs::job::{Job, Submitted};
use crate::jobs::limits::procedures::{beyond_on, ended_by_limits, runs, waits_for};
use crate::jobs::limits::wholes::wholes;
use crate::jobs::restore::procedures::placed_again;
use crate::jobs::reviews::Again;
use crate::policy::effect::Touched;
use crate::procedures::reviews::{refill_interactive, review};
use crate::procedures::steer::kill_job;
use crate::reservations::inside::clearance::limit_from;
use crate::reservations::inside::procedures::planner_of;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::node::KillCause;
use cosy_model::{EventKind, EventObject, JobId, JobSpec, NodeShare, WaitReason};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Jobs that wait for limits are looked at so many at once in a turn.
const LOOKS: usize = 1000;

/// Accounts, users or qualities of service have changed: limits are others, for waiting jobs at once.
/// Running ones stay, whatever limits say now.
pub(crate) fn policy_changed(rooms: &mut Rooms, turn: &mut Turn, touched: &Touched) {
    let (concerned, others) = rooms.policy.limits_changed(touched);
    // what runs may be planned with another usage factor
    if others || !touched.qos.is_empty() {
        let running = rooms.jobs.all().filter(|job| !job.is_waiting());
        let running: Vec<JobId> = running.map(Job::id).collect();
        running.into_iter().for_each(|id| runs(rooms, id));
    }
    rooms.jobs.parked_mut().all_freed();
    for id in concerned {
        if rooms.jobs.get(&id).is_some_and(Job::is_waiting) {
            rooms.jobs.review_later(Again::Job(id));
            rooms.queues.scores_mut().is_another(id);
        }
    }
    places_changed(rooms, turn, touched);
}

/// The cluster or its queues have more or less than before: limits that are shares of that are others.
pub(crate) fn machine_is_measured(rooms: &mut Rooms, turn: &mut Turn) {
    let has = wholes(&rooms.config, &rooms.machine, &rooms.queues);
    let touched = Touched {
        qos: rooms.policy.is_measured(has),
        ..Touched::default()
    };
    if !touched.qos.is_empty() {
        policy_changed(rooms, turn, &touched);
    }
}

/// Jobs of qualities of service that have changed may get guaranteed starts or none, and may be bound
/// by other limits of their queues.
fn places_changed(rooms: &mut Rooms, turn: &mut Turn, touched: &Touched) {
    if touched.qos.is_empty() {
        return;
    }
    let has = |names: &BTreeSet<String>, spec: &JobSpec| {
        spec.qos.as_ref().is_some_and(|qos| names.contains(qos))
    };
    let waiting = rooms.jobs.all().filter(|job| job.is_waiting());
    let waiting = waiting.filter(|job| has(&touched.qos, job.spec()));
    let waiting: Vec<JobId> = waiting.map(Job::id).collect();
    for id in waiting {
        rooms.queues.scores_mut().is_another(id);
    }
    let bodies = rooms.jobs.bodies().into_iter();
    let lifted: Vec<Arc<Submitted>> = bodies
        .filter(|body| has(&touched.lifting, &body.spec))
        .collect();
    for old in lifted {
        let new = Arc::new(placed_again(rooms, &old));
        for id in place_body(&mut rooms.jobs, Waiter::of(&old), &new) {
            if planner_of(&mut rooms.planning, &mut rooms.reservations, id).dequeue(id) {
                rooms.planning.left_inside(id);
                rooms.jobs.count_queued(turn, old.base, false);
            }
            review(rooms, turn, id);
        }
    }
}

/// Looks at jobs that wait for limits and may go, so many as others can wait for.
pub(crate) fn limits_due(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    for _ in 0..LOOKS {
        let Some(id) = rooms.jobs.parked_mut().next(now) else {
            return;
        };
        turn.looked(1);
        let again = match rooms
            .jobs
            .parked()
            .get(id)
            .is_some_and(|waits| waits.by_nodes.is_some())
        {
            true => None,
            false => rooms
                .jobs
                .get(&id)
                .and_then(|job| waits_for(rooms, now, job)),
        };
        match again {
            Some(waits) => rooms.jobs.parked_mut().still_waits(id, waits),
            None => {
                rooms.jobs.parked_mut().goes(id);
                review(rooms, turn, id);
            }
        }
    }
}

/// A job that a planner has started turns out to be beyond a limit on the nodes that it got: it has not
/// started. True when that is so.
pub(crate) fn turned_away(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: JobId,
    shares: &[NodeShare],
) -> bool {
    let now = turn.now();
    if !rooms.policy.counts().is_on() {
        return false;
    }
    let (planning, reservations) = (&rooms.planning, &rooms.reservations);
    let limit = limit_from(&rooms.config, &rooms.jobs, planning, reservations, now, id);
    let Some(waits) = beyond_on(rooms, now, id, shares, limit) else {
        return false;
    };
    let reason = WaitReason::Limit(Box::new(waits.hit.clone()));
    planner_of(&mut rooms.planning, &mut rooms.reservations, id).end(id);
    rooms.planning.left_inside(id);
    rooms.jobs.parked_mut().park(id, waits);
    if let Some(job) = rooms.jobs.get_mut(&id) {
        job.waits_for(Some(reason));
    }
    review(rooms, turn, id);
    refill_interactive(rooms, turn, id);
    true
}

/// From time to time: jobs that have used up a limit on minutes are ended like those whose time is over.
pub(crate) fn minutes_due(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    if !rooms.jobs.parked_mut().minutes_are_due(now) {
        return;
    }
    for (id, why) in ended_by_limits(rooms, now) {
        turn.happened(now, EventKind::LimitUsedUp, "controller", EventObject::Job(id), why);
        kill_job(rooms, turn, id, KillCause::TimeLimit);
    }
}
