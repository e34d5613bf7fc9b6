//! Jobs whose nodes all have one feature of several choose which.

use crate::jobs::bodies::procedures::place_body;
use crate::jobs::dependencies::Waiter;
use crate::jobs::job::Place;
use crate::jobs::restore::procedures::placed_again;
use crate::jobs::reviews::AT_ONCE;
use crate::procedures::reviews::review;
use crate::reservations::inside::procedures::planner_of;
use crate::rooms::Rooms;
use crate::turn::Turn;
use std::sync::Arc;

/// Waiting jobs with a choice between groups of nodes look where they stand best now. What
/// asks for the same stands in the same place.
pub(crate) fn choose_again(rooms: &mut Rooms, turn: &mut Turn) {
    for jobs in rooms.planning.next_choosers() {
        match rooms.jobs.group(&jobs.base) {
            Some(group) if !group.bodies().contains_key(&jobs.body) => {
                rooms.planning.chooses_no_more(jobs);
            }
            None => rooms.planning.chooses_no_more(jobs),
            Some(group) if group.queued() > 0 => choose_for(rooms, turn, jobs),
            Some(_) => {}
        }
    }
}

pub(crate) fn choose_for(rooms: &mut Rooms, turn: &mut Turn, jobs: Waiter) {
    let group = rooms.jobs.group(&jobs.base);
    let Some(body) = group.and_then(|group| group.bodies().get(&jobs.body)) else {
        return;
    };
    let new = placed_again(rooms, &body.submitted);
    if same_nodes(&body.submitted.place, &new.place) {
        return;
    }
    if body.jobs as usize > AT_ONCE {
        let names = new.spec.request.same_features.iter().flatten().cloned();
        return rooms.machine.changes_mut().concern_features(names);
    }
    for id in place_body(&mut rooms.jobs, jobs, &Arc::new(new)) {
        if planner_of(&mut rooms.planning, &mut rooms.reservations, id).dequeue(id) {
            rooms.planning.left_inside(id);
            rooms.jobs.count_queued(turn, jobs.base, false);
            review(rooms, turn, id);
        }
    }
}
/// Whether two places have the same nodes to choose from.
fn same_nodes(one: &Place, other: &Place) -> bool {
    match (one, other) {
        (Place::Good { demand: a, .. }, Place::Good { demand: b, .. }) => {
            let allowed = a.iter().map(|component| &component.allowed);
            allowed.eq(b.iter().map(|component| &component.allowed))
        }
        _ => false,
    }
}
