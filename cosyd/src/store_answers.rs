//! Answers out of the store, in bounded memory: rows are made into cells as they are read, and
//! reading ends where an answer is full.

use crate::store::history::{Continuation, HistoryQuery, most_ids};
use crate::store::sources::{ReadEnd, Script, Source, Sources};
use crate::store::{Store, StoreError};
use cosy_control::{Eyes, HistoryRows};
use cosy_model::api::{JobField, JobFilter, JobRef, Reply, Table};
use cosy_model::{JobId, Refusal, RefusalCode, Time, Uid, limits};

/// Room in an answer for what is around the rows, in bytes.
const AROUND_ROWS: usize = 64 << 10;
/// Work for one page: 1 for each cell and for 64 bytes of text.
const PAGE_WORK: usize = 1_000_000;

/// A page of history; of a command that asks for no pages all of it, or a refusal. What is missing
/// because an archive cannot be read is said in `notices`.
///
/// # Errors
/// [`StoreError`].
pub fn history(
    store: &Store,
    filter: &JobFilter,
    fields: &[JobField],
    eyes: Eyes,
    notices: &mut Vec<String>,
) -> Result<Reply, StoreError> {
    let mut rows = HistoryRows::new(fields, eyes);
    let wanted = filter.most.map_or(usize::MAX, |n| n as usize);
    if wanted == 0 {
        return Ok(Reply::Jobs(Table::new(fields)));
    }
    let (most, bytes, work) = if filter.pages {
        (limits::HISTORY_ROWS, limits::PAGE_BYTES, PAGE_WORK)
    } else {
        let bytes = limits::REPLY_BYTES - AROUND_ROWS;
        (limits::ANSWER_ROWS, bytes, usize::MAX)
    };
    let mut taken = 0;
    let sources = Sources::of(store, filter)?;
    let more = sources.read(store, notices, |from, source, after| {
        let filter = JobFilter {
            after,
            ..filter.clone()
        };
        let reading = HistoryQuery {
            filter: &filter,
            only: eyes.only(),
            most_ids: most_ids(&filter),
        };
        let mut copies = Copies::of(store, source);
        let more = from.history(reading, |row, submission| {
            if copies.has(row.base) {
                return Continuation::More;
            }
            rows.push(row, submission);
            taken += 1;
            let full = taken >= most || rows.bytes() > bytes || rows.work() > work;
            if full || taken >= wanted {
                Continuation::Enough
            } else {
                Continuation::More
            }
        })?;
        copies.failed.map_or(Ok(()), Err)?;
        Ok(match more {
            _ if taken >= wanted => ReadEnd::Enough,
            Some(more) => ReadEnd::More(more),
            None => ReadEnd::Over,
        })
    })?;
    if more.is_some() && !filter.pages {
        return Ok(Reply::Refused(too_long(taken)));
    }
    if rows.bytes() > limits::REPLY_BYTES - AROUND_ROWS {
        return Ok(Reply::Refused(too_long(taken)));
    }
    Ok(Reply::Jobs(rows.done(more)))
}

/// What an archive has that is in the store too, because a crash came between.
struct Copies<'a> {
    /// `None` when the store itself is read.
    store: Option<&'a Store>,
    /// The submission that was looked up last, and whether the store has it.
    last: Option<(JobId, bool)>,
    failed: Option<StoreError>,
}

impl<'a> Copies<'a> {
    fn of(store: &'a Store, source: Source) -> Self {
        Self {
            store: match source {
                Source::Store => None,
                Source::Archive(_) => Some(store),
            },
            last: None,
            failed: None,
        }
    }

    /// Whether the submission is told out of the store.
    fn has(&mut self, base: JobId) -> bool {
        let Some(store) = self.store else {
            return false;
        };
        if let Some((known, is_there)) = self.last
            && known == base
        {
            return is_there;
        }
        let is_there = store.has_submission(base).unwrap_or_else(|e| {
            self.failed = Some(e);
            true
        });
        self.last = Some((base, is_there));
        is_there
    }
}

/// The script of a job, for its owner and for those who see everything (`only` is `None`).
///
/// # Errors
/// [`StoreError`].
pub fn script(
    store: &Store,
    job: JobRef,
    only: Option<Uid>,
    notices: &mut Vec<String>,
) -> Result<Reply, StoreError> {
    let found = store.script(job.job, notices)?;
    Ok(match found.filter(|(owner, _)| only.is_none_or(|uid| uid == *owner)) {
        Some((_, Script::Kept(text))) => Reply::Script(text),
        Some((_, Script::Dropped(at))) => Reply::Refused(Refusal::new(
            RefusalCode::NotFound,
            format!(
                "the script of job {job} was dropped on {}: scripts are kept for keep_scripts after the end of a job",
                day_of(at)
            ),
        )),
        None => {
            Reply::Refused(Refusal::new(RefusalCode::NotFound, format!("there is no job {job}")))
        }
    })
}

/// One job with all fields, of which the controller knows nothing any more.
///
/// # Errors
/// [`StoreError`].
pub fn explain(
    store: &Store,
    job: JobRef,
    eyes: Eyes,
    notices: &mut Vec<String>,
) -> Result<Reply, StoreError> {
    let filter = JobFilter {
        ids: vec![job],
        ..JobFilter::default()
    };
    Ok(match history(store, &filter, JobField::ALL, eyes, notices)? {
        Reply::Jobs(table) if table.rows > 0 => Reply::Explained {
            table,
            lines: Vec::new(),
        },
        Reply::Jobs(_) => {
            Reply::Refused(Refusal::new(RefusalCode::NotFound, format!("there is no job {job}")))
        }
        other => other,
    })
}

/// The day of a moment in UTC.
fn day_of(at: Time) -> String {
    jiff::Timestamp::from_millisecond(at.0)
        .map_or_else(|_| format!("@{}", at.0 / 1000), |at| at.strftime("%Y-%m-%d").to_string())
}

fn too_long(rows: usize) -> Refusal {
    Refusal::new(
        RefusalCode::TooMany,
        format!(
            "there are more jobs than one answer holds ({rows} of them fill it): ask for fewer (--most, --since) or for fewer columns, or use a command of this release, which asks for the rest"
        ),
    )
}
