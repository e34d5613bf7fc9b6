//! Jobs that ask for more than their queue allows. Cosy refuses them; a job in Slurm's words
//! waits, as there, until the queue allows it.
//! Source: slurm.conf(5), `EnforcePartLimits=NO`.

use crate::config::ClusterConfig;
use crate::jobs::job::Place;
use crate::machine::Machine;
use crate::planning::Planning;
use crate::queues::Queues;
use crate::queues::demand::Lifted;
use crate::queues::demand::procedures::{least_nodes, place};
use cosy_model::{About, Dialect, JobSpec, QueueId, Refusal, RefusalCode, Span, User, WaitReason};

/// Where a job would stand in a queue, also if it has to wait there until the queue
/// allows more.
pub(crate) fn place_or_wait(
    config: &ClusterConfig,
    machine: &Machine,
    queues: &Queues,
    planning: &Planning,
    spec: &JobSpec,
    at: (QueueId, Lifted),
    user: &User,
) -> Result<Place, Refusal> {
    let (queue, _) = at;
    let refusal = match place(config, machine, queues, planning, spec, at, user) {
        Ok(place) => return Ok(place),
        Err(refusal) => refusal,
    };
    let reason = reason(&refusal).filter(|_| spec.dialect == Dialect::Slurm);
    // The queue has so many nodes: that they lack features or are avoided is not its limit.
    let has = queues.all[queue.index()].nodes().count();
    let enough = spec.request.nodes.is_some_and(|nodes| nodes <= has);
    let reason = reason.filter(|_| refusal.code != RefusalCode::NeverFits || !enough);
    let reason = reason.ok_or(refusal)?;
    let least = least_nodes(machine, queues, &spec.request, queue);
    let queue = queues.all[queue.index()].spec();
    let limit = spec.time_limit.or(queue.default_time).or(queue.max_time);
    let limit = limit.unwrap_or(Span::UNLIMITED);
    Ok(Place::Beyond {
        reason,
        limit,
        least,
    })
}

fn reason(refusal: &Refusal) -> Option<WaitReason> {
    match (refusal.code, refusal.about) {
        (RefusalCode::QueueLimit, Some(About::TimeLimit)) => Some(WaitReason::QueueTimeLimit),
        (RefusalCode::QueueLimit | RefusalCode::NeverFits, Some(About::NodeCount)) => {
            Some(WaitReason::QueueNodeLimit)
        }
        _ => None,
    }
}
