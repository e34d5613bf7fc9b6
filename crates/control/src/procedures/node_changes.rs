//! Jobs are placed anew because nodes have other amounts or features than before.

use crate::jobs::bodies::procedures::lay_body;
use crate::jobs::job::Job;
use crate::jobs::restore::procedures::placed_again;
use crate::machine::changes::{LOOKS, PIECE, job_waits, mentions, same_place};
use crate::procedures::restore::machine_changed;
use crate::procedures::reviews::review;
use crate::reservations::inside::procedures::planner_of;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::JobId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Does what is due because nodes have changed.
pub(crate) fn changes_due(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    if rooms.machine.changes().amounts_due(now) {
        return amounts_changed(rooms, turn);
    }
    if let Some((features, from)) = rooms.machine.changes_mut().next_piece() {
        place_for_features(rooms, turn, features, from);
    }
}

pub(crate) fn amounts_changed(rooms: &mut Rooms, turn: &mut Turn) {
    for (id, amounts) in rooms.machine.changes_mut().take_amounts() {
        rooms.machine.node_mut(id).has(amounts);
        rooms.machine.save_node(turn, id);
    }
    machine_changed(rooms, turn);
}

/// Places jobs anew that ask for such features, a piece of them.
pub(crate) fn place_for_features(
    rooms: &mut Rooms,
    turn: &mut Turn,
    features: BTreeSet<String>,
    from: JobId,
) {
    let asks = |job: &Job| job.submitted().requests().any(|r| mentions(r, &features));
    let mut ids = Vec::new();
    let mut next = None;
    for (looked, (id, job)) in rooms.jobs.range(from..).enumerate() {
        if looked == LOOKS || ids.len() == PIECE {
            next = Some(*id);
            break;
        }
        ids.extend(asks(job).then_some(*id));
    }
    let rest = next.map(|next| (features, next));
    rooms.machine.changes_mut().go_on_from(rest);
    for id in ids {
        place_one(rooms, turn, id);
    }
}

/// What the first of those that ask for the same was placed as is that of all.
pub(crate) fn place_one(rooms: &mut Rooms, turn: &mut Turn, id: JobId) {
    let old = rooms.jobs[&id].submitted().clone();
    let base = old.base;
    let group = rooms.jobs.group(&base);
    let body = group.and_then(|group| group.bodies().get(&old.body));
    let placed = body.map(|body| body.submitted.clone());
    let placed = placed.filter(|body| !Arc::ptr_eq(body, &old));
    let new = placed.unwrap_or_else(|| Arc::new(placed_again(rooms, &old)));
    lay_body(&mut rooms.jobs, &new);
    rooms.machine.changes_mut().count_placed();
    let waits = job_waits(rooms.jobs.get(&id));
    let same = same_place(&old.place, &new.place);
    if waits && !same && planner_of(&mut rooms.planning, &mut rooms.reservations, id).dequeue(id) {
        rooms.jobs.count_queued(turn, base, false);
        rooms.planning.left_inside(id);
    }
    if let Some(job) = rooms.jobs.get_mut(&id) {
        job.asks_for(new);
    }
    if waits && !same {
        review(rooms, turn, id);
    }
}
