//! How jobs ended that the controller may have forgotten, for requests that name some.
//!
//! Somebody may name 100,000 of them, or each task of an array of as many. So they are looked up
//! in order, and a submission is read once for all of its jobs that stand side by side; and a
//! reading thread has a piece of them at a time, so that others have their turn.

use super::archives::Archive;
use super::sql::params;
use super::{Store, StoreError};
use cosy_control::{OldJob, SubmissionRow};
use cosy_model::JobId;
use cosy_model::api::JobRef;

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
    /// The archives, once one was needed.
    archives: Option<Vec<OldStore>>,
    /// The submission that was read last.
    last: Option<Found>,
    /// Number of rows that were read.
    pub read: usize,
}

/// An archive, and how it is read, once it was needed; `None` when it cannot be.
struct OldStore {
    archive: Archive,
    open: Option<Option<Store>>,
}

/// A submission that was found.
struct Found {
    row: SubmissionRow,
    /// Some of it lives.
    live: bool,
    /// Place among the archives; without, it is in the store.
    archive: Option<usize>,
}

impl<'a> Outcomes<'a> {
    /// Outcomes out of `store`, of which nothing is read yet.
    pub const fn new(store: &'a Store) -> Self {
        Self {
            store,
            archives: None,
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
            .is_some_and(|found| has(&found.row, target.job))
        {
            self.last = self.find(target.job)?;
            self.read += 1;
        }
        let Some(Found { row, live, archive }) = &self.last else {
            return Ok(nothing);
        };
        let whole = target.job == row.base && target.task.is_none();
        let (from, to) = match (target.task, &row.indices) {
            (Some(task), Some(indices)) => match indices.place_of(task) {
                Some(at) => (row.id_at(at).0, row.id_at(at).0 + 1),
                None => return Ok(nothing),
            },
            (Some(_), None) => return Ok(nothing),
            (None, _) if whole => (row.base.0, row.base.0 + row.ids()),
            (None, _) => (target.job.0, target.job.0 + 1),
        };
        if whole && *live {
            return Ok(nothing);
        }
        let old = archive.and_then(|at| self.archives.as_ref()?.get(at)?.open.as_ref()?.as_ref());
        let (ended, ok): (u64, u64) = old.unwrap_or(self.store).sql(|c| {
            c.prepare_cached(
                "SELECT COUNT(ended), COUNT(*) FILTER (WHERE state = 'completed') FROM jobs WHERE id >= ?1 AND id < ?2",
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

impl Outcomes<'_> {
    /// The submission of a job; what is in an archive that cannot be read is not known.
    fn find(&mut self, job: JobId) -> Result<Option<Found>, StoreError> {
        if let Some((row, live)) = self.store.submission_of(job)? {
            let archive = None;
            return Ok(Some(Found { row, live, archive }));
        }
        if self.archives.is_none() {
            let all = self.store.archives()?.into_iter();
            let unread = |archive| OldStore {
                archive,
                open: None,
            };
            self.archives = Some(all.map(unread).collect());
        }
        let name = JobRef { job, task: None };
        for (at, old) in self.archives.iter_mut().flatten().enumerate() {
            if !old.archive.may_have_job(name) {
                continue;
            }
            let month = old.archive.month;
            let open = old.open.get_or_insert_with(|| {
                let opened = self.store.open_archive(month);
                opened
                    .inspect_err(|e| tracing::warn!("jobs that ended in {month} are unknown: {e}"))
                    .ok()
            });
            let found = open.as_ref().map(|archive| archive.submission_of(job));
            match found.transpose() {
                Ok(None | Some(None)) => {}
                Ok(Some(Some((row, live)))) => {
                    let archive = Some(at);
                    return Ok(Some(Found { row, live, archive }));
                }
                Err(e) => {
                    tracing::warn!("jobs that ended in {month} are unknown: {e}");
                    *open = None;
                }
            }
        }
        Ok(None)
    }
}

/// Whether a job is one of a submission's.
fn has(row: &SubmissionRow, job: JobId) -> bool {
    let ids = row.base.0..row.base.0.saturating_add(row.ids());
    ids.contains(&job.0)
}
