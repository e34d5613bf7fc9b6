//! Jobs that wait for licences are looked at when some come back.

use crate::jobs::licenses::{AHEAD, LOOKS};
use crate::procedures::reviews::{refill_interactive, review};
use crate::reservations::inside::procedures::{is_queued, planner_of};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::{JobId, WaitReason};

/// Enters those who could start with the licences that have come back.
pub(crate) fn licenses_due(rooms: &mut Rooms, turn: &mut Turn) {
    let mut looks = LOOKS;
    for name in rooms.jobs.licenses().due() {
        look_along(rooms, turn, &name, 0, &mut looks);
    }
}

/// Once a second: where licences are free although some wait for them, a few more are
/// entered than could start, because those who were entered wait for something else.
pub(crate) fn licenses_left(rooms: &mut Rooms, turn: &mut Turn) {
    let entered = rooms.jobs.licenses().entered();
    let gone: Vec<JobId> = entered
        .filter(|id| !is_queued(&rooms.planning, &rooms.reservations, *id))
        .collect();
    gone.into_iter()
        .for_each(|id| rooms.jobs.licenses_mut().leave(id));
    let mut looks = LOOKS;
    for name in rooms.jobs.licenses().waited_for() {
        if rooms.jobs.licenses().due_after(&name).is_some() {
            continue; // first those who could start
        }
        let ahead = rooms.jobs.licenses().wanted(&name) + AHEAD;
        rooms.jobs.licenses_mut().let_ahead(ahead);
        rooms.jobs.licenses_mut().go_on_after(&name, None);
        look_along(rooms, turn, &name, ahead, &mut looks);
        rooms.jobs.licenses_mut().looked_along(&name);
        rooms.jobs.licenses_mut().let_ahead(AHEAD);
    }
}

/// Looks along a line as long as there are licences for it.
pub(crate) fn look_along(
    rooms: &mut Rooms,
    turn: &mut Turn,
    name: &str,
    ahead: u64,
    looks: &mut usize,
) {
    let Some(mut after) = rooms.jobs.licenses().due_after(name) else {
        return;
    };
    while let Some(next) = rooms.jobs.licenses().next(name, after) {
        let free = u64::from(rooms.config.licenses.get(name));
        let used = u64::from(rooms.jobs.licenses().used(name));
        if used >= free || used + rooms.jobs.licenses().wanted(name) >= free + ahead {
            break; // nobody more could start
        }
        if *looks == 0 {
            rooms.jobs.licenses_mut().go_on_after(name, after);
            return;
        }
        *looks -= 1;
        after = Some(next);
        let job = rooms.jobs.get(&next.job);
        if job.is_some_and(|job| {
            rooms
                .jobs
                .missing_license(&rooms.config, job.spec(), Some(ahead))
                .is_none()
        }) {
            review(rooms, turn, next.job);
        }
    }
    rooms.jobs.licenses_mut().looked_along(name);
}

/// A job that the planner has started cannot have its licences now. Always false: it
/// has not started.
pub(crate) fn wait_for_licenses(rooms: &mut Rooms, turn: &mut Turn, id: JobId) -> bool {
    planner_of(&mut rooms.planning, &mut rooms.reservations, id).end(id);
    rooms.planning.left_inside(id);
    rooms.jobs.licenses_mut().leave(id);
    if let Some(job) = rooms.jobs.get_mut(&id) {
        job.waits_for(Some(WaitReason::Licenses));
    }
    review(rooms, turn, id);
    refill_interactive(rooms, turn, id);
    false
}
