//! Programs that begin late: between the allocation and the start of a program lie orders that
//! were lost, other nodes that have to get ready, prologs.
//!
//! ```text
//!   allocated      started                  planned end
//!   |-- prologs ---|== the program runs ====|....late....|
//!                  |------------ limit ------------------|
//! ```
//!
//! A limit counts from the start of the program where nobody was promised what comes behind
//! it. Where its nodes are booked then, or other jobs wait for them on the word that it is
//! over by then, what was promised to others wins: its limit is cut by what is late, so that
//! it counts from the allocation. (With Slurm it always does: sbatch(1), `--time`.) A clock that
//! is set forward brings reservations nearer: it is the same with what runs on their nodes then.

use crate::config::ClusterConfig;
use crate::jobs::Jobs;
use crate::jobs::components::procedures::planner_queue;
use crate::jobs::job::Job;
use crate::planning::Planning;
use crate::planning::suspension::plan_end_again;
use crate::reservations::Reservations;
use crate::reservations::inside::clearance::holds_until;
use crate::reservations::inside::procedures::planner_for;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::node::NodeOrder;
use cosy_model::{EventKind, EventObject, JobId, QueueId, Span, Time, limits};

/// The program of a job has begun, at last.
pub(crate) fn program_began(rooms: &mut Rooms, turn: &mut Turn, id: JobId, at: Time) {
    let now = turn.now();
    let Some(job) = rooms.jobs.get_mut(&id) else {
        return;
    };
    let deadline = job.spec().deadline;
    let Some(run) = job.run_mut() else { return };
    run.began(at);
    let late = run.late();
    let open = !run.is_over() && !run.limit().is_unlimited();
    if late <= limits::LATE_START || !open {
        return;
    }
    let missed = deadline.is_some_and(|deadline| run.end_if_it_goes_on() > deadline);
    match missed
        || others_wait(rooms, id)
        || is_booked(&rooms.config, &rooms.jobs, &rooms.planning, &rooms.reservations, now, id)
    {
        true => cut_limit(rooms, turn, now, id, late, "its program began late"),
        false => {
            // It is expected to end later: what is charged and counted of it is another.
            rooms.jobs.changed(id);
            plan_end_again(
                &rooms.config,
                &rooms.jobs,
                &mut rooms.planning,
                &mut rooms.reservations,
                id,
            );
        }
    }
}

/// The clock was set forward by `by`, and with it the planned end of a running job. Where
/// its nodes are booked then, the end stays where it was.
pub(crate) fn keep_promise(rooms: &mut Rooms, turn: &mut Turn, now: Time, id: JobId, by: Span) {
    let run = rooms.jobs.get(&id).and_then(Job::run);
    let open = run.is_some_and(|run| {
        !run.is_over() && run.suspended().is_none() && !run.limit().is_unlimited()
    });
    if open && is_booked(&rooms.config, &rooms.jobs, &rooms.planning, &rooms.reservations, now, id)
    {
        cut_limit(rooms, turn, now, id, by, "the clock was set forward");
    }
}

/// Whether other jobs wait that were told their start by the ends of those that run.
fn others_wait(rooms: &Rooms, id: JobId) -> bool {
    let Some(job) = rooms.jobs.get(&id) else {
        return false;
    };
    let queue = match rooms.planning.inside.contains_key(&id) {
        true => Some(QueueId(0)), // there is one queue inside of a reservation
        false => rooms
            .queues
            .queue_id(&job.submitted().queue)
            .map(|queue| planner_queue(&rooms.config, &rooms.queues, job.spec(), queue)),
    };
    let planner = planner_for(&rooms.planning, &rooms.reservations, id);
    queue.is_some_and(|queue| planner.first_waiting(queue).is_some())
}

/// Whether a running job would still be on nodes that are booked for others.
fn is_booked(
    config: &ClusterConfig,
    jobs: &Jobs,
    planning: &Planning,
    reservations: &Reservations,
    now: Time,
    id: JobId,
) -> bool {
    let Some(job) = jobs.get(&id) else {
        return false;
    };
    let Some(run) = job.run() else { return false };
    let (shares, whole) = (run.planned_shares(), job.holds_whole_nodes());
    let end = holds_until(config, planning, id, run);
    let planner = planner_for(planning, reservations, id);
    !planner.may_stay(id, now, &shares, end, whole)
}

/// The job ends when it was planned to end before.
fn cut_limit(rooms: &mut Rooms, turn: &mut Turn, now: Time, id: JobId, by: Span, why: &str) {
    let Some(job) = rooms.jobs.get_mut(&id) else {
        return;
    };
    let key = job.key();
    let Some(run) = job.run_mut() else { return };
    run.cut_limit(by);
    let limit = run.limit();
    let nodes = run.shares();
    plan_end_again(&rooms.config, &rooms.jobs, &mut rooms.planning, &mut rooms.reservations, id);
    rooms.jobs.changed(id);
    let detail = format!("by {by} to {limit}: {why}, and its nodes are promised to others");
    let object = EventObject::Job(id);
    turn.happened(now, EventKind::LimitCut, "controller", object, detail);
    for share in nodes {
        rooms
            .machine
            .order(turn, share.node, |node| NodeOrder::Limit { key, node, limit });
    }
}

/// What its user is told of a limit that was cut.
pub(crate) fn told_cut(job: &Job) -> Option<String> {
    let run = job.run().filter(|run| run.cut() > Span::ZERO)?;
    Some(format!(
        "its time limit is {} instead of {}: its program began late or the clock was set, and its nodes are promised to others",
        run.limit(),
        run.limit() + run.cut()
    ))
}
