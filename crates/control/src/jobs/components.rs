//! Jobs of several parts that differ in what they ask for (heterogeneous jobs).
//!
//! Such a job is one job in every respect: one row, one state, one attempt. Its parts
//! ("bundles") are further demands that the planner places together with the first, and each
//! node of the allocation knows its bundle. So nothing can half start, and nothing is lost
//! by a restart. Every part takes an id, so that lists can show it as a job.
//!
//! Parts may name queues that share no nodes. While such a job lives the planner has one
//! queue more, of all their nodes ("joint"), and thereby one order for all of them.
//!
//! To join queues, and to part them, is to enter every waiting job anew. Users choose which queues
//! are joined and when, so that is bounded: a joint queue does for jobs of fewer of its queues,
//! from [`limits::JOINT_QUEUES`] on the next one has all queues, and none goes before
//! [`limits::JOINED`] have passed, whatever its jobs do.
//!
//! Source: sbatch(1), "Heterogeneous Job Support".

mod procedures;

use crate::jobs::job::{Place, Run, Submitted};
use crate::record::JobRow;
use cosy_model::{JobId, JobSpec};
use cosy_sched::Demand;
use std::sync::Arc;

/// The rows of an ended job, one for each part.
pub(crate) fn rows_by_bundle(row: &JobRow, submitted: &Submitted) -> Vec<(JobRow, Submitted)> {
    let part = |bundle: u16| {
        let mut own = row.clone();
        own.id = JobId(row.id.0 + u64::from(bundle));
        if let Some(run) = &mut own.run {
            run.parts.retain(|part| part.bundle == bundle);
        }
        let least = |spec: &JobSpec| spec.request.nodes.unwrap_or(1);
        (own, bundle_of(submitted, bundle, least))
    };
    (0..=submitted.spec.bundles.len() as u16)
        .map(part)
        .collect()
}

/// A submission as that of one part of the job; `least` tells the fewest nodes of one.
fn bundle_of(whole: &Submitted, bundle: u16, least: impl Fn(&JobSpec) -> u32) -> Submitted {
    let mut spec = whole.spec.clone();
    let mut queue = whole.queue.clone();
    let further = usize::from(bundle).checked_sub(1);
    if let Some(own) = further.and_then(|at| whole.spec.bundles.get(at)) {
        spec.request = own.request.clone();
        spec.queue.clone_from(&own.queue);
        spec.name = own.name.clone().unwrap_or(spec.name);
        queue = own.queue.clone().unwrap_or(queue);
    }
    let least_nodes = least(&spec);
    let place = match &whole.place {
        Place::Good {
            queue,
            level,
            demand,
            limit,
            ..
        } => Place::Good {
            queue: *queue,
            level: *level,
            demand: Arc::new(Demand {
                more: Vec::new(),
                ..further
                    .and_then(|at| demand.more.get(at))
                    .unwrap_or(demand)
                    .clone()
            }),
            limit: *limit,
            least: least_nodes,
        },
        Place::Beyond { reason, limit, .. } => Place::Beyond {
            reason: reason.clone(),
            limit: *limit,
            least: least_nodes,
        },
        Place::Lost => Place::Lost,
    };
    Submitted {
        base: whole.base,
        body: whole.body,
        uid: whole.uid,
        gid: whole.gid,
        user: whole.user.clone(),
        submit: whole.submit,
        spec,
        queue,
        place,
        flow: whole.flow,
        only: Some(bundle),
    }
}

/// An attempt with the nodes of one part.
fn run_of(run: &Run, bundle: u16) -> Run {
    let parts = run.parts.iter().filter(|part| part.bundle == bundle);
    Run {
        parts: parts.cloned().collect(),
        ..run.clone()
    }
}
