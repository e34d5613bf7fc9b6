//! Jobs that may go to one of several queues (`sbatch -p short,long`).
//!
//! Such a job waits in one of them, where it stands as any other job does. About once a second
//! the planner is asked for each of the others whether the job could start there at once,
//! behind everybody who waits there: then it goes there. So it never holds places in two
//! queues, and a job that stays where it is leaves no trace elsewhere.
//!
//! Source: sbatch(1), `--partition`.

pub(crate) mod procedures;

use cosy_model::JobId;
use std::collections::BTreeSet;

/// So many jobs are looked at in a turn at most; the next ones in the next.
const LOOKS: usize = 16;

/// Jobs with several queues that wait.
#[derive(Debug, Default)]
pub(crate) struct Undecided {
    jobs: BTreeSet<JobId>,
    /// The last one that was looked at.
    last: JobId,
    /// It is time to look again.
    due: bool,
}

impl Undecided {
    /// A job waits anew.
    pub fn insert(&mut self, id: JobId) {
        self.jobs.insert(id);
    }

    /// Another second is over.
    pub fn tick(&mut self) {
        self.due = !self.jobs.is_empty();
    }

    /// The jobs whose turn it is.
    pub fn next(&mut self) -> Vec<JobId> {
        if !std::mem::take(&mut self.due) {
            return Vec::new();
        }
        let after = self.jobs.range(JobId(self.last.0 + 1)..);
        let all = after.chain(self.jobs.range(..=self.last));
        let ids: Vec<JobId> = all.take(LOOKS).copied().collect();
        self.last = ids.last().copied().unwrap_or(self.last);
        ids
    }

    /// The job waits no longer.
    pub fn remove(&mut self, id: JobId) {
        self.jobs.remove(&id);
    }
}
