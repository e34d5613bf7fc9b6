//! Components of jobs are checked, their queues joined for the planner and parted again.

use crate::config::ClusterConfig;
use crate::jobs::Jobs;
use crate::queues::Queues;
use cosy_model::{JobId, JobSpec, QueueId, Refusal, limits};
use std::collections::BTreeSet;

/// Checks the components of a submission beside their resources.
///
/// # Errors
/// Too many components, or what several components cannot have.
pub(crate) fn check_components(
    config: &ClusterConfig,
    queues: &Queues,
    spec: &JobSpec,
) -> Result<(), Refusal> {
    if spec.further_components.len() > limits::FURTHER_COMPONENTS {
        return Err(Refusal::invalid(format!(
            "{} parts of a job are more than the {} allowed",
            spec.component_count(),
            limits::FURTHER_COMPONENTS + 1
        )));
    }
    for component in spec.components().skip(1) {
        queues.find_queue(config, component.queue)?;
    }
    if spec.has_several_components() && !spec.queues.is_empty() {
        return Err(Refusal::invalid(
            "a job of several parts cannot choose among queues: name one queue for each part",
        ));
    }
    let mut requests = spec.components().map(|component| component.request);
    let choosing = requests.any(|request| !request.same_features.is_empty());
    if spec.has_several_components() && choosing {
        return Err(Refusal::invalid(
            "a job of several parts cannot leave it open which of several features all nodes have",
        ));
    }
    Ok(())
}

/// The queues of a job's components, where they are several.
pub(crate) fn queues_of(
    config: &ClusterConfig,
    queues: &Queues,
    spec: &JobSpec,
    first: QueueId,
) -> Option<Vec<QueueId>> {
    if !spec.has_several_components() || spec.reservation.is_some() {
        return None;
    }
    let further = spec.components().skip(1);
    let further = further.filter_map(|own| queues.find_queue(config, own.queue).ok());
    let all: BTreeSet<QueueId> = further.chain([first]).collect();
    (all.len() > 1).then(|| all.into_iter().collect())
}

/// The queue that the planner knows a job under.
pub(crate) fn planner_queue(
    config: &ClusterConfig,
    queues: &Queues,
    spec: &JobSpec,
    first: QueueId,
) -> QueueId {
    let several = queues_of(config, queues, spec, first);
    let joint = several.and_then(|all| queues.joint_of(&all));
    joint.unwrap_or(first)
}

impl Jobs {
    /// The first id of the job that has this one, if that is a further component of it.
    pub(crate) fn whole_of(&self, id: JobId) -> Option<JobId> {
        let live = self.live.range(..id).next_back();
        let live = live.map(|job| (job.id, job.spec()));
        let ended = self.ended.range(..id).next_back();
        let ended = ended.map(|(first, ended)| (first, &*ended.submitted.spec));
        let has =
            |(first, spec): &(JobId, &JobSpec)| id.0 - first.0 < spec.component_count() as u64;
        let found = [live, ended].into_iter().flatten().find(has);
        found.map(|(first, _)| first)
    }
}
