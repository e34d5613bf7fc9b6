//! Rows as bytes, conditions and pages of queries, and why none of them can be had.

use super::sql::{self, Connection, OwnedValue, params};
use cosy_control::SubmissionRow;
use cosy_model::{Uid, limits};
use serde::{Serialize, de::DeserializeOwned};
use std::path::PathBuf;

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database says no.
    #[error("the database {location}: {source}")]
    Sql {
        /// Where the database is.
        location: String,
        /// The reason that it gives.
        source: sql::Error,
    },
    /// A row is not what was written.
    #[error("the database has an unreadable row in {table}: {why}")]
    Row {
        /// Name of the row's table.
        table: &'static str,
        /// What is wrong with the row.
        why: String,
    },
    /// An archive cannot be written.
    #[error("the archive {path}: {why}")]
    Archive {
        /// Path of its file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The database keeps less than the configuration asks for.
    #[error("{0}")]
    Promise(String),
    /// Another controller leads.
    #[error("another controller leads by now")]
    Deposed,
    /// A copy into it was interrupted.
    #[error(
        "the database {location} has a copy that was not finished: carry out 'cosyd store copy' again"
    )]
    Unfinished {
        /// Where the database is.
        location: String,
    },
    /// Written by a later release.
    #[error(
        "the database has schema {found}; this release knows up to {known}: a later one has made it, and this one leaves it alone"
    )]
    TooNew {
        /// Number of the database's schema.
        found: i64,
        /// The latest known here.
        known: i64,
    },
}

/// Rows until a page is full: what comes after them is asked for by the number of the last.
pub(super) fn page_of<T>(
    rows: impl Iterator<Item = sql::Result<T>>,
    bytes: impl Fn(&T) -> usize,
) -> sql::Result<Vec<T>> {
    let (mut page, mut filled) = (Vec::new(), 0);
    for row in rows {
        let row = row?;
        filled += bytes(&row);
        page.push(row);
        if filled > limits::PAGE_BYTES {
            break;
        }
    }
    Ok(page)
}

/// Conditions under way.
#[derive(Default)]
pub(super) struct Query {
    pub(super) text: String,
    pub(super) values: Vec<OwnedValue>,
}

impl Query {
    pub(super) fn and(&mut self, condition: &str, values: impl IntoIterator<Item = OwnedValue>) {
        self.text.push_str(" AND ");
        self.text.push_str(condition);
        self.values.extend(values);
    }

    pub(super) fn one_of(&mut self, column: &str, texts: &[String]) {
        if !texts.is_empty() {
            let marks = vec!["?"; texts.len()].join(",");
            let values = texts.iter().map(|t| OwnedValue::from(t.clone()));
            self.and(&format!("{column} IN ({marks})"), values);
        }
    }

    /// Leaves only rows of that user.
    pub(super) fn only(&mut self, uid: Option<Uid>) {
        if let Some(uid) = uid {
            self.and("s.uid = ?", [OwnedValue::from(uid.0)]);
        }
    }

    /// Users by name, or by uid in digits.
    pub(super) fn users(&mut self, users: &[String]) {
        if !users.is_empty() {
            let marks = vec!["?"; users.len()].join(",");
            let values = || users.iter().map(|u| OwnedValue::from(u.clone()));
            let both = format!("(s.user IN ({marks}) OR CAST(s.uid AS TEXT) IN ({marks}))");
            self.and(&both, values().chain(values()));
        }
    }
}

/// Room for a row before it is encoded, in bytes: most are shorter.
const ROW_BYTES: usize = 1024;

pub(super) fn encode<T: Serialize>(value: &T) -> sql::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(ROW_BYTES);
    rmp_serde::encode::write_named(&mut bytes, value)
        .map_err(|e| sql::Error::Other(e.to_string()))?;
    Ok(bytes)
}

pub(super) fn decode<T: DeserializeOwned>(
    table: &'static str,
    blob: &[u8],
) -> Result<T, StoreError> {
    rmp_serde::from_slice(blob).map_err(|e| StoreError::Row {
        table,
        why: e.to_string(),
    })
}

/// Whether so many ended jobs are all that a submission with so many ids has: components of a job
/// have ids, and no row.
pub(super) fn have_all_ended(c: &Connection, base: u64, ended: u64, ids: u64) -> sql::Result<bool> {
    if ended >= ids || ended == 0 {
        return Ok(ended >= ids);
    }
    let row: Vec<u8> = c
        .prepare_cached("SELECT row FROM submissions WHERE base = ?1")?
        .query_row(params![base], |r| r.get(0))?;
    // Of one that cannot be read nobody knows.
    let row = decode::<SubmissionRow>("submissions", &row);
    Ok(row.is_ok_and(|row| row.tasks() == ended))
}

/// Ids from the first one on, up to the second one, which is not meant.
pub(super) type Ids = (u64, u64);

/// Joins ranges with no more than so many ids between them.
pub(super) fn joined(mut all: Vec<Ids>, gap: u64) -> Vec<Ids> {
    all.sort_unstable();
    let mut merged: Vec<Ids> = Vec::new();
    for (from, to) in all {
        match merged.last_mut() {
            Some(last) if from <= last.1.saturating_add(gap) => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined() {
        let check = |all: &[Ids], gap, want: &[Ids]| assert_eq!(joined(all.to_vec(), gap), want);
        check(&[], 5, &[]);
        check(&[(7, 8), (1, 3), (3, 4), (2, 3)], 0, &[(1, 4), (7, 8)]);
        check(&[(7, 8), (1, 4)], 2, &[(1, 4), (7, 8)]);
        check(&[(7, 8), (1, 4)], 3, &[(1, 8)]);
        check(&[(1, 10), (2, 3)], 0, &[(1, 10)]);
    }
}
