//! The planner is made anew when nodes or queues change, or queues have to be planned as one.

use crate::jobs::components::procedures::queues_of;
use crate::jobs::job::{Job, Place};
use crate::jobs::restore::policy;
use crate::machine::availability::update_available;
use crate::planning::Planning;
use crate::queues::Queues;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::{JobId, QueueId};

/// Makes the planner know the queues of a job as one, before it is entered there.
pub(crate) fn join_queues(rooms: &mut Rooms, turn: &mut Turn, id: JobId) {
    let Some(job) = rooms
        .jobs
        .get(&id)
        .filter(|job| job.spec().has_several_components())
    else {
        return;
    };
    let Place::Good { queue, .. } = job.submitted().place else {
        return;
    };
    let Some(queues) = queues_of(&rooms.config, &rooms.queues, job.spec(), queue) else {
        return;
    };
    if rooms.queues.join(queues, rooms.clocks.steady) {
        tell_planner(rooms, turn);
    }
}

/// Parts the queues again when no job is left that spans several, and none was for a while.
pub(crate) fn part_queues(rooms: &mut Rooms, turn: &mut Turn) {
    let steady = rooms.clocks.steady;
    if !rooms.queues.may_part(steady) {
        return;
    }
    let spans = |job: &Job| match job.submitted().place {
        Place::Good { queue, .. } => {
            queues_of(&rooms.config, &rooms.queues, job.spec(), queue).is_some()
        }
        Place::Lost | Place::Beyond { .. } => false,
    };
    let spanning = rooms.jobs.all().any(spans);
    match spanning {
        true => rooms.queues.still_joined(steady),
        false => {
            rooms.queues.part();
            tell_planner(rooms, turn);
        }
    }
}

/// Tells the planner which joint queues start jobs.
pub(crate) fn open_joint_queues(queues: &Queues, planning: &mut Planning) {
    let first = queues.len();
    for (at, (_, starts)) in queues.joint().into_iter().enumerate() {
        planning
            .cluster_mut()
            .set_queue_starts(QueueId((first + at) as u16), starts);
    }
}

/// Hands machine and queues to the planner.
pub(crate) fn tell_planner(rooms: &mut Rooms, turn: &mut Turn) {
    rooms.planning.note_placing();
    let amounts = rooms
        .machine
        .nodes()
        .iter()
        .map(|n| n.amounts().clone())
        .collect();
    let joint = rooms.queues.joint();
    let queues = rooms.queues.all().iter().map(|q| q.nodes().clone());
    let queues = queues.chain(joint.into_iter().map(|(nodes, _)| nodes));
    let policy = policy(&rooms.config);
    rooms
        .planning
        .cluster_mut()
        .reconfigure(policy, amounts, queues.collect());
    for id in rooms.machine.ids() {
        update_available(rooms, turn, id);
    }
    for (at, queue) in rooms.queues.all().iter().enumerate() {
        let starts = queue.state().starts_jobs();
        rooms
            .planning
            .cluster_mut()
            .set_queue_starts(cosy_model::QueueId(at as u16), starts);
    }
    open_joint_queues(&rooms.queues, &mut rooms.planning);
}
