//! A store that is older than what nodes have seen: somebody has gone back to a copy of it.
//!
//! Nodes keep how far the store was when they were last told ([`StoreMark`]) and tell it at
//! registration. If the store has not come so far, what has happened since its copy was made
//! is lost. A store that was put back from a backup by `cosyd store restore` says so itself
//! ([`crate::record::RestoredRow`]), for a node that was not there since knows no better. Then,
//! before anything starts:
//!
//! - numbers go on above all that were given out;
//! - jobs that may have run since are held, because nobody knows;
//! - of a job that the store has as running it is not known whether it still does: where its
//!   nodes have it, it goes on, else it is held;
//! - attempts of which the store knows nothing go on where they run, and nothing else starts
//!   there meanwhile. How such an attempt ended is how its job ended, where the store has that.

pub(crate) mod procedures;

use crate::jobs::job::Job;
use crate::record::OlderRow;
use cosy_model::node::AttemptKey;
use cosy_model::{Attempt, JobId};
use std::collections::BTreeMap;
use std::ops::Range;

/// So many attempts that go on somewhere are named where it is said why nothing else starts.
const NAMED_STRAYS: usize = 20;

/// Ids that were given out by a store that is lost, and attempts of its jobs.
#[derive(Debug, Default)]
pub(crate) struct LostStore {
    ids: Vec<Range<JobId>>,
    /// Jobs before this one were there when that was found out last.
    found: Option<JobId>,
    /// Latest attempts of which the store knows nothing and that have ended, by job.
    over_strays: BTreeMap<JobId, Attempt>,
}

impl LostStore {
    pub fn restore(rows: &[OlderRow]) -> Self {
        Self {
            ids: rows.iter().map(|row| row.first..row.next).collect(),
            found: rows.iter().map(|row| row.first).max(),
            over_strays: BTreeMap::new(),
        }
    }

    /// The store is known to have been an old copy.
    pub fn has_any(&self) -> bool {
        !self.ids.is_empty()
    }

    fn has(&self, job: JobId) -> bool {
        self.ids.iter().any(|ids| ids.contains(&job))
    }

    /// The store has the job, perhaps not all that has become of it.
    fn concerns(&self, job: &Job) -> bool {
        self.found.is_some_and(|found| job.submitted().base < found)
    }

    /// Jobs with these ids may have been; nothing is known of them.
    pub fn lost(&mut self, ids: Range<JobId>) {
        self.found = Some(ids.start);
        self.ids.push(ids);
    }

    /// The latest attempt of an unknown job that is known to be over.
    pub fn over(&self, job: JobId) -> Option<Attempt> {
        self.over_strays.get(&job).copied()
    }

    /// That attempt of an unknown job is over.
    pub fn is_over(&mut self, key: AttemptKey) {
        let over = self.over_strays.entry(key.job).or_insert(key.attempt);
        *over = key.attempt.max(*over);
    }
}
