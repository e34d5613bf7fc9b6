//! How jobs ended that the controller may have forgotten, for requests that name some.
//!
//! Somebody may name 100,000 of them, or each task of an array of as many. So they are looked up
//! in order, and a submission is read once for all of its jobs that stand side by side; and a
//! reading thread has a piece of them at a time, so that others have their turn.

use super::{Store, StoreError};
use cosy_control::{OldJob, SubmissionRow};
use cosy_model::JobId;
use cosy_model::api::JobRef;
use rusqlite::params;

/// Jobs that are looked up at once.
pub const PIECE: usize = 1000;

/// Names that are looked up.
#[derive(Debug, Default)]
pub struct LookUp {
    /// The next is at the end.
    left: Vec<JobRef>,
    /// Only once it is gone on with, on the thread that reads: a request may give 100,000 names.
    sorted: bool,
    found: Vec<OldJob>,
}

impl LookUp {
    /// Nothing is looked up yet.
    pub fn new(left: Vec<JobRef>) -> Self {
        Self {
            left,
            sorted: false,
            found: Vec::new(),
        }
    }

    /// Looks some up, each once; true when those were the last.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn go_on(&mut self, store: &Store) -> Result<bool, StoreError> {
        if !std::mem::replace(&mut self.sorted, true) {
            self.left.sort_unstable_by(|a, b| b.cmp(a));
            self.left.dedup();
        }
        let mut outcomes = Outcomes::new(store);
        let piece = self.left.split_off(self.left.len().saturating_sub(PIECE));
        for job in piece.into_iter().rev() {
            self.found.push(outcomes.of(job)?);
        }
        Ok(self.left.is_empty())
    }

    /// The jobs that were looked up, with what became of them.
    pub fn found(self) -> Vec<OldJob> {
        self.found
    }
}

/// Looks up how jobs ended. What belongs together had better come one after the other.
pub struct Outcomes<'a> {
    store: &'a Store,
    /// The submission that was read last, and whether some of it lives.
    last: Option<(SubmissionRow, bool)>,
    /// Number of rows that were read.
    pub read: usize,
}

impl<'a> Outcomes<'a> {
    /// Outcomes out of `store`, of which nothing is read yet.
    pub const fn new(store: &'a Store) -> Self {
        Self {
            store,
            last: None,
            read: 0,
        }
    }

    /// Whose a job is and how it (or a task, or all tasks of an array) ended; nothing when it is
    /// not over or not known.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn of(&mut self, target: JobRef) -> Result<OldJob, StoreError> {
        let nothing = OldJob {
            job: target,
            owner: None,
            ok: None,
        };
        if !self
            .last
            .as_ref()
            .is_some_and(|(row, _)| has(row, target.job))
        {
            self.last = self.store.submission_of(target.job)?;
            self.read += 1;
        }
        let Some((row, live)) = &self.last else {
            return Ok(nothing);
        };
        let whole = target.job == row.base && target.task.is_none();
        let (from, to) = match (target.task, &row.indices) {
            (Some(task), Some(indices)) => match indices.binary_search(&task) {
                Ok(at) => (row.id_at(at).0, row.id_at(at).0 + 1),
                Err(_) => return Ok(nothing),
            },
            (Some(_), None) => return Ok(nothing),
            (None, _) if whole => (row.base.0, row.base.0 + row.ids()),
            (None, _) => (target.job.0, target.job.0 + 1),
        };
        if whole && *live {
            return Ok(nothing);
        }
        let (ended, ok): (u64, u64) = self.store.sql(|c| {
            c.prepare_cached(
                "SELECT COUNT(ended), COALESCE(SUM(state = 'completed'), 0) FROM jobs WHERE id >= ?1 AND id < ?2",
            )?
            .query_row(params![from, to], |r| Ok((r.get(0)?, r.get(1)?)))
        })?;
        if ended != to - from {
            return Ok(nothing);
        }
        Ok(OldJob {
            job: target,
            owner: Some(row.uid),
            ok: Some(ok == to - from),
        })
    }
}

/// Whether a job is one of a submission's.
fn has(row: &SubmissionRow, job: JobId) -> bool {
    let ids = row.base.0..row.base.0.saturating_add(row.ids());
    ids.contains(&job.0)
}
