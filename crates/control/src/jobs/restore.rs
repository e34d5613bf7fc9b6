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

/// Rows that are taken by submissions in the order of these.
pub(crate) struct RowsInOrder {
    jobs: std::iter::Peekable<std::vec::IntoIter<JobRow>>,
    /// Of those submissions that have more than jobs; they are few.
    others: BTreeMap<JobId, RowsOfSubmission>,
}

impl RowsOfJobs {
    pub(crate) fn in_order(mut self) -> RowsInOrder {
        // They come so out of the store.
        self.jobs.sort_by_key(|job| job.base);
        let mut others: BTreeMap<JobId, RowsOfSubmission> = BTreeMap::new();
        for (number, body) in self.bodies {
            let of = others.entry(body.base).or_default();
            of.bodies.insert(number, body);
        }
        for standing in self.standings {
            others.entry(standing.base).or_default().standing = Some(standing);
        }
        RowsInOrder {
            jobs: self.jobs.into_iter().peekable(),
            others,
        }
    }
}

impl RowsInOrder {
    /// The rows of a submission, when those of all before it have been taken.
    pub(crate) fn of(&mut self, base: JobId) -> RowsOfSubmission {
        while self.jobs.next_if(|job| job.base < base).is_some() {}
        let mut rows = self.others.remove(&base).unwrap_or_default();
        while let Some(job) = self.jobs.next_if(|job| job.base == base) {
            rows.jobs.push(job);
        }
        rows
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
