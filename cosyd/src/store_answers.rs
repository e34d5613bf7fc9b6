//! Answers out of the store, in bounded memory: rows are made into cells as they are read, and
//! reading ends where an answer is full.

use crate::store::history::{Continuation, HistoryQuery, most_ids};
use crate::store::{Store, StoreError};
use cosy_control::{Eyes, HistoryRows};
use cosy_model::api::{JobField, JobFilter, JobRef, Reply, Table};
use cosy_model::{Refusal, RefusalCode, limits};

/// Room in an answer for what is around the rows, in bytes.
const AROUND_ROWS: usize = 64 << 10;
/// Work for one page: 1 for each cell and for 64 bytes of text.
const PAGE_WORK: usize = 1_000_000;

/// A page of history; of a command that asks for no pages all of it, or a refusal.
///
/// # Errors
/// [`StoreError`].
pub fn history(
    store: &Store,
    filter: &JobFilter,
    fields: &[JobField],
    eyes: Eyes,
) -> Result<Reply, StoreError> {
    let mut rows = HistoryRows::new(fields, eyes);
    let reading = HistoryQuery {
        filter,
        only: eyes.only(),
        most_ids: most_ids(filter),
    };
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
    let more = store.history(reading, |row, submission| {
        rows.push(row, submission);
        taken += 1;
        let full = taken >= most || rows.bytes() > bytes || rows.work() > work;
        if full || taken >= wanted {
            Continuation::Enough
        } else {
            Continuation::More
        }
    })?;
    let more = more.filter(|_| taken < wanted);
    if more.is_some() && !filter.pages {
        return Ok(Reply::Refused(too_long(taken)));
    }
    if rows.bytes() > limits::REPLY_BYTES - AROUND_ROWS {
        return Ok(Reply::Refused(too_long(taken)));
    }
    Ok(Reply::Jobs(rows.done(more)))
}

/// One job with all fields, of which the controller knows nothing any more.
///
/// # Errors
/// [`StoreError`].
pub fn explain(store: &Store, job: JobRef, eyes: Eyes) -> Result<Reply, StoreError> {
    let filter = JobFilter {
        ids: vec![job],
        ..JobFilter::default()
    };
    Ok(match history(store, &filter, JobField::ALL, eyes)? {
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

fn too_long(rows: usize) -> Refusal {
    Refusal::new(
        RefusalCode::TooMany,
        format!(
            "there are more jobs than one answer holds ({rows} of them fill it): ask for fewer (--most, --since) or for fewer columns, or use a command of this release, which asks for the rest"
        ),
    )
}
