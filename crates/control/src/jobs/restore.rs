//! From the store to memory: at the start, after a failed commit, and when the
//! configuration is read again.

pub(crate) mod procedures;

use crate::config::ClusterConfig;
use crate::jobs::job::{Place, Submitted};
use crate::machine::Machine;
use crate::record::{JobRow, StandingRow, SubmissionRow};
use cosy_model::{JobId, JobSpec};
use cosy_sched::{NodeMask, Policy};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A submission as a row of history needs it: not placed.
pub(crate) fn of_row(row: &SubmissionRow, job: &JobRow) -> Submitted {
    let spec = match &job.changed {
        Some(spec) => Arc::new((**spec).clone()),
        None => row.spec.clone(),
    };
    let queue = job.queue.clone().unwrap_or_else(|| row.queue.clone());
    unplaced(row, spec, queue)
}

fn unplaced(row: &SubmissionRow, spec: Arc<JobSpec>, queue: String) -> Submitted {
    Submitted {
        base: row.base,
        body: 0,
        uid: row.uid,
        gid: row.gid,
        user: row.user.clone(),
        submit: row.submit,
        spec,
        queue,
        place: Place::Lost,
        flow: row.flow,
        only: None,
    }
}

/// Rows beside those of submissions.
pub(crate) struct RowsOfJobs {
    pub jobs: Vec<JobRow>,
    pub bodies: Vec<(u32, SubmissionRow)>,
    pub standings: Vec<StandingRow>,
}

/// The same of one submission.
#[derive(Default)]
pub(crate) struct RowsOfSubmission {
    jobs: Vec<JobRow>,
    bodies: BTreeMap<u32, SubmissionRow>,
    standing: Option<StandingRow>,
}

impl RowsOfJobs {
    pub(crate) fn by_base(self) -> BTreeMap<JobId, RowsOfSubmission> {
        let mut all: BTreeMap<JobId, RowsOfSubmission> = BTreeMap::new();
        for job in self.jobs {
            all.entry(job.base).or_default().jobs.push(job);
        }
        for (number, body) in self.bodies {
            let of = all.entry(body.base).or_default();
            of.bodies.insert(number, body);
        }
        for standing in self.standings {
            all.entry(standing.base).or_default().standing = Some(standing);
        }
        all
    }
}

/// How the planners of the cluster and of its reservations order and fill.
pub(crate) fn policy(config: &ClusterConfig) -> Policy {
    Policy {
        depth: config.policy.depth,
        backfill: config.policy.backfill,
    }
}

/// The nodes of a queue with these names; all without names.
fn queue_nodes(machine: &Machine, names: Option<&[String]>) -> NodeMask {
    let mut mask = NodeMask::new(machine.node_count());
    match names {
        Some(names) => {
            for id in names.iter().filter_map(|n| machine.id_of(n)) {
                mask.insert(id);
            }
        }
        None => machine.ids().for_each(|id| mask.insert(id)),
    }
    mask
}
