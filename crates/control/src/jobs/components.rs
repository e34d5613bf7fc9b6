//! Jobs of several components that differ in what they ask for (heterogeneous jobs).
//!
//! Such a job is one job in every respect: one row, one state, one attempt. Its demand has
//! several components, which the planner places together, and each node of the allocation knows
//! its component. So nothing can half start, and nothing is lost by a restart. Every component
//! takes an id, so that lists can show it as a job.
//!
//! Components may name queues that share no nodes. While such a job lives the planner has one
//! queue more, of all their nodes ("joint"), and thereby one order for all of them.
//!
//! To join queues, and to part them, is to enter every waiting job anew. Users choose which queues
//! are joined and when, so that is bounded: a joint queue does for jobs of fewer of its queues,
//! from [`limits::JOINT_QUEUES`] on the next one has all queues, and none goes before
//! [`limits::JOINED`] have passed, whatever its jobs do.
//!
//! Source: sbatch(1), "Heterogeneous Job Support".

pub(crate) mod procedures;

use crate::jobs::job::{Place, Submitted};
use crate::record::JobRow;
use cosy_model::{JobId, JobSpec};
use cosy_sched::Demand;
use std::sync::Arc;

/// The rows of an ended job, one for each component.
pub(crate) fn rows_by_component(row: &JobRow, submitted: &Submitted) -> Vec<(JobRow, Submitted)> {
    let of_component = |number: u16| {
        let mut own = row.clone();
        own.id = JobId(row.id.0 + u64::from(number));
        if let Some(run) = &mut own.run {
            run.parts.retain(|part| part.component == number);
        }
        let least = |spec: &JobSpec| spec.request.nodes.unwrap_or(1);
        (own, component_of(submitted, number, least))
    };
    let numbers = 0..submitted.spec.component_count() as u16;
    numbers.map(of_component).collect()
}

/// A submission as that of one component of the job; `least` tells the fewest nodes of one.
pub(crate) fn component_of(
    whole: &Submitted,
    number: u16,
    least: impl Fn(&JobSpec) -> u32,
) -> Submitted {
    let mut spec = whole.spec.clone();
    let mut queue = whole.queue.clone();
    if let Some(own) = whole.spec.component(number).filter(|_| number > 0) {
        let spec = Arc::make_mut(&mut spec);
        spec.request = own.request.clone();
        spec.queue = own.queue.map(str::to_owned);
        own.name.clone_into(&mut spec.name);
        queue = own.queue.map_or(queue, str::to_owned);
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
            demand: Arc::new(Demand::from(demand.get(number).unwrap_or(demand.first()).clone())),
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
        only: Some(number),
    }
}
