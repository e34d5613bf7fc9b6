//! Jobs with several queues start where they can start first.

use crate::jobs::bodies::procedures::body_in;
use crate::jobs::job::Phase;
use crate::jobs::save::save_job;
use crate::jobs::steer::procedures::take_body;
use crate::planning::alternative_queues::procedures::{other_queues, trial};
use crate::procedures::reviews::review;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::{EventKind, EventObject, JobId};

/// Moves jobs to queues in which they can start now. Gives back which jobs the planner has
/// started.
pub(crate) fn start_elsewhere(rooms: &mut Rooms, turn: &mut Turn) -> Vec<JobId> {
    let mut starts = Vec::new();
    for id in rooms.planning.next_undecided() {
        let job = rooms.jobs.get(&id);
        let Some(job) = job.filter(|j| j.is_waiting() && !j.spec().queues.is_empty()) else {
            rooms.planning.is_decided(id);
            continue;
        };
        if matches!(job.phase(), Phase::Waiting(None)) && rooms.planning.cluster().is_waiting(id) {
            starts.extend(try_queues(rooms, turn, id));
        }
    }
    starts
}

pub(crate) fn try_queues(rooms: &mut Rooms, turn: &mut Turn, id: JobId) -> Vec<JobId> {
    let now = turn.now();
    let mut starts = Vec::new();
    for queue in other_queues(&rooms.queues, &rooms.jobs[&id]) {
        let Some((place, trial)) = trial(rooms, now, &rooms.jobs[&id], queue) else {
            continue;
        };
        if rooms.planning.cluster().try_place(now, &trial).is_none() {
            continue;
        }
        let old = rooms.jobs[&id].submitted().clone();
        let new = body_in(&rooms.queues, &mut rooms.jobs, &old, queue, place);
        take_body(rooms, turn, id, &new);
        if let Some(job) = rooms.jobs.get_mut(&id) {
            job.differs(true);
        }
        save_job(&rooms.machine, &mut rooms.jobs, turn, id);
        let name = rooms.queues.name(queue).to_owned();
        let job = EventObject::Job(id);
        turn.happened(now, EventKind::Moved, "controller", job, format!("to queue {name}"));
        review(rooms, turn, id);
        starts.extend(rooms.planning.cluster_mut().schedule(now));
        break;
    }
    starts
}
