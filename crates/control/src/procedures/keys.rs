//! Keys of the order of service are made anew where ranks have changed, and of jobs that age no more.

use crate::jobs::dependencies::procedures::key_at;
use crate::planning::making_room::may_ask_for_room;
use crate::procedures::reviews::review;
use crate::queues::order;
use crate::queues::scores::procedures::measure_machine;
use crate::reservations::inside::procedures::{is_queued, planner_of};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::JobId;

/// Keys that are made anew in one turn, at most.
const KEYS_AT_ONCE: usize = 500;

/// Ranks are given anew where it is time, and keys of those concerned are made anew: so many in one
/// turn as others can wait for.
pub(crate) fn keys_due(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    if rooms
        .queues
        .scores()
        .next_due()
        .is_some_and(|due| due <= now)
    {
        measure_machine(&rooms.config, &rooms.machine, &mut rooms.queues);
        rooms.queues.scores_mut().look(now);
    }
    for _ in 0..KEYS_AT_ONCE {
        let Some(id) = rooms.queues.scores_mut().next_job_due() else {
            return;
        };
        turn.looked(1);
        if !only_the_score_is_another(rooms, id) {
            make_key_anew(rooms, turn, id);
        }
    }
}

/// The ranks of many are others when one job ends, and most of their jobs stand where nothing else depends
/// on it. False: it has to be looked at whole.
fn only_the_score_is_another(rooms: &mut Rooms, id: JobId) -> bool {
    if rooms.config.preemption.is_on() || rooms.policy.may_deny_places() {
        return false;
    }
    let Some(score) = rooms.queues.scores().share_of(id) else {
        return false;
    };
    let planner = rooms.planning.cluster_mut();
    let Some(before) = planner.order_of(id).filter(|key| !key.no_place) else {
        return false;
    };
    before.score == score || planner.set_order(order::with_score(before, score))
}

/// The same at once for all, of jobs out of the store: nobody waits for an answer yet.
pub(crate) fn all_keys_due(rooms: &mut Rooms, turn: &mut Turn) {
    if !rooms.queues.scores().is_on() {
        return;
    }
    rooms.queues.scores_mut().give_ranks(turn.now());
    while let Some(id) = rooms.queues.scores_mut().next_job_due() {
        make_key_anew(rooms, turn, id);
    }
}

fn make_key_anew(rooms: &mut Rooms, turn: &mut Turn, id: JobId) {
    let Some(job) = rooms.jobs.get(&id).filter(|job| job.is_waiting()) else {
        return;
    };
    if !is_queued(&rooms.planning, &rooms.reservations, id) {
        return review(rooms, turn, id); // it may stand in another line
    }
    if let Some(key) = key_at(rooms, job, &job.submitted().place) {
        may_ask_for_room(
            &rooms.config,
            &rooms.queues,
            &rooms.policy,
            &mut rooms.planning,
            (job, key),
            turn.now(),
        );
        let planner = planner_of(&mut rooms.planning, &mut rooms.reservations, id);
        if planner.order_of(id) != Some(key) {
            planner.set_order(key);
        }
    }
}
