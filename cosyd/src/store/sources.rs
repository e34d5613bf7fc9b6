//! Where jobs of history are found: first in the store, then in the archives, the latest first.
//!
//! What always holds: one page reads one of these; a job that is in the store is told out of it,
//! even if a crash has left a copy in an archive; an archive that cannot be read is said, and
//! those behind it are read.

use super::Store;
use super::archives::{Archive, Month};
use super::rows::StoreError;
use super::sql::params;
use super::steps::StepReading;
use cosy_model::api::{Cursor, JobFilter, JobRef, StepCursor, StepRow};
use cosy_model::{JobId, OsText, Time, Uid};

/// Above the number of an array a cursor has the month of an archive, counted from 1; 0 is the
/// store. Commands of earlier releases hand it back as it is.
const MONTH_SHIFT: u32 = 44;
/// Where reading an archive begins: above all ids.
const BEGIN: u64 = i64::MAX as u64;

/// One of the places where history is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The store itself.
    Store,
    /// The archive of a month.
    Archive(Month),
}

impl Source {
    /// Where a list goes on, taken apart: which source, and where in it.
    fn of(cursor: Cursor) -> (Self, Cursor) {
        let within = Cursor {
            part: cursor.part & ((1 << MONTH_SHIFT) - 1),
            ..cursor
        };
        let month = u32::try_from(cursor.part >> MONTH_SHIFT).unwrap_or(0);
        match month.checked_sub(1) {
            None => (Self::Store, within),
            Some(month) => (Self::Archive(Month(month)), within),
        }
    }

    /// Says of a place in a source which source it is.
    fn cursor(self, within: Cursor) -> Cursor {
        let month = match self {
            Self::Store => 0,
            Self::Archive(month) => u64::from(month.0) + 1,
        };
        Cursor {
            part: within.part | month << MONTH_SHIFT,
            ..within
        }
    }

    /// Reading begins with this source.
    fn begin(self) -> Cursor {
        self.cursor(Cursor { part: 0, at: BEGIN })
    }
}

/// The sources that are still to be read, the next one first.
pub struct Sources {
    left: Vec<Source>,
    /// Where the first of them goes on.
    after: Option<Cursor>,
    pages: bool,
}

/// How a source was read.
#[derive(Debug)]
pub enum ReadEnd {
    /// There is more in this source, from there on.
    More(Cursor),
    /// The answer is full, or has all that is wanted.
    Enough,
    /// The source has no more.
    Over,
}

impl Sources {
    /// The sources that may have what is meant, from where the filter goes on. A command that asks
    /// for no pages gets out of archives only what it names.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn of(store: &Store, filter: &JobFilter) -> Result<Self, StoreError> {
        let after = filter.after.map(Source::of);
        let mut left = match after {
            None | Some((Source::Store, _)) => vec![Source::Store],
            Some((Source::Archive(_), _)) => Vec::new(),
        };
        if filter.pages || !filter.ids.is_empty() {
            let from = |archive: &Archive| match after {
                Some((Source::Archive(month), _)) => archive.month <= month,
                None | Some((Source::Store, _)) => true,
            };
            let meant = store.archives()?.into_iter();
            let meant = meant.filter(|archive| from(archive) && archive.may_have(filter));
            left.extend(meant.map(|archive| Source::Archive(archive.month)));
        }
        // The archive at which a list goes on may be gone: the next begins at its beginning.
        let after = after.filter(|(source, _)| left.first() == Some(source));
        Ok(Self {
            left,
            after: after.map(|(_, within)| within),
            pages: filter.pages,
        })
    }

    /// Reads one source after another with `read`, which is told where to go on: until it has
    /// enough, or a page is over. Where the list goes on.
    ///
    /// # Errors
    /// The store cannot be read. Archives that cannot be read are said in `notices`.
    pub fn read(
        mut self,
        store: &Store,
        notices: &mut Vec<String>,
        mut read: impl FnMut(&Store, Source, Option<Cursor>) -> Result<ReadEnd, StoreError>,
    ) -> Result<Option<Cursor>, StoreError> {
        for (at, source) in self.left.iter().enumerate() {
            let after = self.after.take();
            let end = match source {
                Source::Store => read(store, *source, after)?,
                Source::Archive(month) => match store
                    .open_archive(*month)
                    .and_then(|archive| read(&archive, *source, after))
                {
                    Ok(end) => end,
                    Err(e) => {
                        notices.push(format!("jobs that ended in {month} are missing: {e}"));
                        ReadEnd::Over
                    }
                },
            };
            match end {
                ReadEnd::More(within) => return Ok(Some(source.cursor(within))),
                ReadEnd::Enough => return Ok(None),
                ReadEnd::Over if self.pages => {
                    return Ok(self.left.get(at + 1).map(|next| next.begin()));
                }
                ReadEnd::Over => {}
            }
        }
        Ok(None)
    }
}

/// A script, or since when it is not kept any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Script {
    /// Its text; empty where there was none.
    Kept(OsText),
    /// It was dropped then.
    Dropped(Time),
}

impl Store {
    /// The script of a job, and whose it is, out of whatever source has it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn script(
        &self,
        job: JobId,
        notices: &mut Vec<String>,
    ) -> Result<Option<(Uid, Script)>, StoreError> {
        let filter = JobFilter {
            ids: vec![JobRef { job, task: None }],
            ..JobFilter::default()
        };
        let mut found = None;
        Sources::of(self, &filter)?.read(self, notices, |store, _, _| {
            found = store.script_here(job)?;
            Ok(match found {
                Some(_) => ReadEnd::Enough,
                None => ReadEnd::Over,
            })
        })?;
        Ok(found)
    }

    fn script_here(&self, job: JobId) -> Result<Option<(Uid, Script)>, StoreError> {
        let Some((row, _)) = self.submission_of(job)? else {
            return Ok(None);
        };
        let (text, dropped): (Vec<u8>, Option<i64>) = self.sql(|c| {
            c.prepare_cached("SELECT script, dropped FROM submissions WHERE base = ?1")?
                .query_row(params![row.base.0], |r| Ok((r.get(0)?, r.get(1)?)))
        })?;
        let script = match dropped {
            Some(at) => Script::Dropped(Time(at)),
            None => Script::Kept(OsText(text)),
        };
        Ok(Some((row.uid, script)))
    }

    /// Ended steps of jobs out of all sources, as [`Store::steps`] tells of one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn steps_everywhere(
        &self,
        reading: &StepReading<'_>,
        notices: &mut Vec<String>,
    ) -> Result<(Vec<StepRow>, Option<StepCursor>), StoreError> {
        let filter = JobFilter {
            ids: reading.jobs.to_vec(),
            pages: reading.pages,
            after: reading.after.map(|after| after.jobs),
            ..JobFilter::default()
        };
        let mut rows = Vec::new();
        let mut within_job = None;
        let more = Sources::of(self, &filter)?.read(self, notices, |store, source, after| {
            let jobs = match source {
                Source::Store => reading.jobs.to_vec(),
                Source::Archive(_) => self.without_own(reading.jobs)?,
            };
            if jobs.is_empty() {
                return Ok(ReadEnd::Over); // no job at all would be every job
            }
            let after = after.map(|jobs| StepCursor {
                jobs,
                job: reading.after.and_then(|after| after.job),
            });
            let here = StepReading {
                jobs: &jobs,
                after,
                ..*reading
            };
            let (found, more) = store.steps(&here)?;
            rows.splice(0..0, found);
            Ok(match more {
                Some(more) => {
                    within_job = more.job;
                    ReadEnd::More(more.jobs)
                }
                None => ReadEnd::Over,
            })
        })?;
        let more = more.map(|jobs| StepCursor {
            jobs,
            job: within_job,
        });
        Ok((rows, more))
    }

    /// Jobs that are not in this database.
    fn without_own(&self, jobs: &[JobRef]) -> Result<Vec<JobRef>, StoreError> {
        let mut others = Vec::new();
        for id in jobs {
            if self.submission_of(id.job)?.is_none() {
                others.push(*id);
            }
        }
        Ok(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_know_their_source() {
        let check = |source: Source, part: u64, at: u64| {
            let within = Cursor { part, at };
            assert_eq!(Source::of(source.cursor(within)), (source, within));
        };
        for source in [
            Source::Store,
            Source::Archive(Month(0)),
            Source::Archive(Month(96_359)),
        ] {
            check(source, 0, 0);
            check(source, (1 << MONTH_SHIFT) - 1, u64::MAX);
        }
        assert_eq!(Source::Store.cursor(Cursor { part: 7, at: 9 }), Cursor { part: 7, at: 9 });
    }
}
