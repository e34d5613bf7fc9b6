//! Jobs that may go to several queues are tried in the others.

use crate::config::ClusterConfig;
use crate::event::Caller;
use crate::jobs::blocker::not_admitted_to;
use crate::jobs::dependencies::procedures::planner_job_at;
use crate::jobs::job::{Job, Place};
use crate::jobs::limits::procedures::would_wait_in;
use crate::queues::Queues;
use crate::queues::access::procedures::may_submit;
use crate::queues::demand::procedures::place;
use crate::rooms::Rooms;
use cosy_model::{QueueId, Refusal, Time};
use cosy_sched::WaitingJob;

/// Checks the names of the queues that a job may go to.
///
/// # Errors
/// A queue that there is not.
pub(crate) fn check_queues(
    config: &ClusterConfig,
    queues: &Queues,
    names: &[String],
) -> Result<(), Refusal> {
    names
        .iter()
        .try_for_each(|name| queues.find_queue(config, Some(name)).map(drop))
}

/// The other queues that it may go to, those of a higher priority first.
pub(crate) fn other_queues(queues: &Queues, job: &Job) -> Vec<QueueId> {
    let names = job.spec().queues.iter();
    let mut found: Vec<QueueId> = names
        .filter(|name| **name != job.submitted().queue)
        .filter_map(|name| queues.queue_id(name))
        .collect();
    found.sort_by_key(|id| std::cmp::Reverse(queues.get(*id).spec().priority));
    found
}

/// The job as it would stand in `queue`, if it may go there and keeps its limits: those of the queue,
/// and those of accounts and qualities of service as they are there.
pub(crate) fn trial(
    rooms: &Rooms,
    now: Time,
    job: &Job,
    queue: QueueId,
) -> Option<(Place, WaitingJob)> {
    let user = rooms.conversations.user(&job.submitted().uid)?.user();
    if user.name.is_empty() || !rooms.queues.get(queue).state().starts_jobs() {
        return None;
    }
    let rights = Caller::known(user.clone());
    may_submit(&rooms.config, &rooms.queues, &rights, queue, 1).ok()?;
    if not_admitted_to(rooms, queue, job.spec()).is_some() {
        return None;
    }
    let place = place(
        &rooms.config,
        &rooms.machine,
        &rooms.queues,
        &rooms.planning,
        job.spec(),
        (queue, rooms.policy.lifted(job.spec().qos.as_deref())),
        user,
    )
    .ok()?;
    if would_wait_in(rooms, now, job, (queue, &place)) {
        return None;
    }
    let trial = planner_job_at(rooms, job, &place)?;
    Some((place, trial))
}
