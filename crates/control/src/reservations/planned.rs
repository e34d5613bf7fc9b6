//! When jobs in reservations start: their planners, as they are or will be, played forward.
//!
//! For lists alone. What starts is decided by the planner that a reservation has while it is
//! active ([`super::inside`]).

use crate::event::InsidePlan;
use crate::jobs::Jobs;
use crate::jobs::arrays::Expanding;
use crate::jobs::dependencies::procedures::planner_job;
use crate::jobs::job::{Job, Phase};
use crate::planning::Planning;
use crate::planning::pools::procedures::tell_what_is_left;
use crate::reservations::Reservations;
use crate::reservations::inside::clearance::{holds_until, last_call};
use crate::reservations::inside::procedures::{is_queued, jobs_inside, planner_inside};
use crate::rooms::Rooms;
use cosy_model::api::JobRef;
use cosy_model::{JobId, ReservationId, Span, Time, WaitReason};
use cosy_sched::WaitingJob;
use std::collections::BTreeMap;

/// Most jobs in reservations whose starts are planned at once.
const MOST: usize = 1000;
/// Jobs that are looked at for that, in one turn: of a deeper queue those that came first.
const LOOKS: usize = 20_000;

/// Whether a job waits in a reservation, or only for its beginning.
pub(crate) fn awaits_turn_inside(
    planning: &Planning,
    reservations: &Reservations,
    job: &Job,
) -> bool {
    let reservation = job.spec().reservation;
    let begins = matches!(job.phase(), Phase::Waiting(Some(WaitReason::ReservationStart)));
    reservation.is_some()
        && job.is_waiting()
        && (begins || is_queued(planning, reservations, job.id()))
}

/// Whether any job does.
pub(crate) fn any_awaits_turn_inside(
    jobs: &Jobs,
    planning: &Planning,
    reservations: &Reservations,
) -> bool {
    reservations.live().next().is_some()
        && first_that_await_turns(jobs, planning, reservations)
            .next()
            .is_some()
}

fn first_that_await_turns<'a>(
    jobs: &'a Jobs,
    planning: &'a Planning,
    reservations: &'a Reservations,
) -> impl Iterator<Item = &'a Job> {
    let all = jobs.all().take(LOOKS);
    all.filter(|job| awaits_turn_inside(planning, reservations, job))
        .take(MOST)
}

/// The first of the jobs meant that waits in a reservation, or for its beginning; of a deep
/// array, of those tasks that come first.
pub(crate) fn first_inside_that_awaits_turn(
    jobs: &Jobs,
    planning: &Planning,
    reservations: &Reservations,
    target: JobRef,
) -> Option<JobId> {
    reservations.live().next()?;
    let (ids, _) = jobs.some_of(&mut Expanding::of(target), LOOKS);
    let job = |id: &JobId| {
        jobs.get(id)
            .is_some_and(|j| awaits_turn_inside(planning, reservations, j))
    };
    ids.into_iter().find(job)
}

/// Planners for the jobs that wait in reservations, or of one of them alone.
pub(crate) fn insides_to_plan(rooms: &Rooms, now: Time, only: Option<JobId>) -> Vec<InsidePlan> {
    if rooms.reservations.live().next().is_none() {
        return Vec::new();
    }
    let one = only.map(|id| rooms.jobs.get(&id).and_then(|job| job.spec().reservation));
    if one == Some(None) {
        return Vec::new();
    }
    let mut waiting: BTreeMap<ReservationId, Vec<&Job>> = BTreeMap::new();
    for job in first_that_await_turns(&rooms.jobs, &rooms.planning, &rooms.reservations) {
        if let Some(id) = job.spec().reservation
            && one.is_none_or(|one| one == Some(id))
        {
            waiting.entry(id).or_default().push(job);
        }
    }
    let plan = |(id, jobs): (&ReservationId, &Vec<&Job>)| inside_to_plan(rooms, now, *id, jobs);
    waiting.iter().filter_map(plan).collect()
}

/// The planner of a reservation with these jobs. A job that takes what is left is counted
/// with all of that: others are not told a start on its nodes, and it is told one only where
/// nobody comes before it.
fn inside_to_plan(
    rooms: &Rooms,
    now: Time,
    id: ReservationId,
    jobs: &[&Job],
) -> Option<InsidePlan> {
    let reservation = rooms.reservations.get(id).filter(|r| r.is_live())?;
    let from = reservation.row.start.max(now);
    let mut scheduler =
        planner_inside(&rooms.config, &rooms.machine, &rooms.jobs, &rooms.planning, reservation);
    if reservation.planner.is_none() {
        for share in &reservation.shares {
            scheduler.set_available(share.node, true);
        }
    }
    for running in jobs_inside(&rooms.planning, id).filter_map(|id| rooms.jobs.get(&id)) {
        if let Some(run) = running.run() {
            let end = holds_until(&rooms.config, &rooms.planning, running.id(), run);
            let whole = running.holds_whole_nodes();
            let holds = rooms.planning.pools().holds_of(running.spec());
            let shares = run.planned_shares();
            scheduler.start_running_holding(running.id(), shares, end, whole, &holds);
        }
    }
    let left = last_call(&rooms.config, reservation)
        .since(from)
        .max(Span(1));
    for job in jobs {
        let planned = planner_job(rooms, job);
        if let Some(planned) = planned {
            let limit = job.submitted().place.limit().min(left);
            scheduler.enqueue(WaitingJob { limit, ..planned });
        }
    }
    tell_what_is_left(&rooms.planning, &mut scheduler, id, now);
    Some(InsidePlan { scheduler, from })
}
