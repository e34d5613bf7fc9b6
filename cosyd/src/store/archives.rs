//! Which archives there are, and reading them: one file for each month in which submissions were
//! over, beside the database.
//!
//! What always holds: an archive has the tables of the store that ended jobs are in, so that it is
//! read as the store is; a submission is in one archive with all its jobs.

use super::rows::StoreError;
use super::sql::{Connection, OptionalExtension, params};
use super::{Location, Store};
use cosy_model::api::{JobFilter, JobRef};
use cosy_model::{JobId, Time};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The folder of the archives, beside the database.
pub(super) const FOLDER: &str = "archive";
/// The layout of archives that this release makes and reads.
pub(super) const LAYOUT: i64 = 1;
/// Memory for pages of an archive that is read, in KiB.
const PAGES_KIB: i64 = 512;
/// How long a reader waits for what is written into an archive.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// A month of UTC, counted from January 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Month(pub u32);

impl Month {
    /// The month of a moment; what is before 1970 belongs to its first month.
    pub fn of(time: Time) -> Self {
        let latest = jiff::Timestamp::MAX;
        let at = jiff::Timestamp::from_millisecond(time.0.max(0)).unwrap_or(latest);
        let date = jiff::tz::Offset::UTC.to_datetime(at).date();
        let months = (i32::from(date.year()) - 1970) * 12 + i32::from(date.month()) - 1;
        Self(u32::try_from(months).unwrap_or(0))
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", 1970 + self.0 / 12, self.0 % 12 + 1)
    }
}

/// What is known of an archive without opening it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Archive {
    /// The month in which its submissions were over.
    pub month: Month,
    /// All ids in it are within these.
    pub ids: Range<u64>,
    /// Nothing in it started, or was submitted and never started, before.
    pub first_start: Time,
    /// Nothing in it ended later.
    pub last_end: Time,
}

impl Archive {
    /// Whether jobs that are meant may be in it. In archives everything has ended.
    pub fn may_have(&self, filter: &JobFilter) -> bool {
        let named = filter.ids.is_empty() || filter.ids.iter().any(|id| self.may_have_job(*id));
        named
            && filter.since.is_none_or(|since| self.last_end >= since)
            && filter.until.is_none_or(|until| self.first_start < until)
            && (filter.states.is_empty() || filter.states.iter().any(|state| state.is_end()))
    }

    /// Whether the job may be in it.
    pub fn may_have_job(&self, id: JobRef) -> bool {
        self.ids.contains(&id.job.0)
    }
}

impl Store {
    /// The archives, the latest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn archives(&self) -> Result<Vec<Archive>, StoreError> {
        self.sql(|c| {
            c.prepare_cached(
                "SELECT month, first_id, end_id, first_start, last_end FROM archives
                 ORDER BY month DESC",
            )?
            .query_map(params![], |r| {
                Ok(Archive {
                    month: Month(r.get(0)?),
                    ids: r.get(1)?..r.get(2)?,
                    first_start: Time(r.get(3)?),
                    last_end: Time(r.get(4)?),
                })
            })?
            .collect()
        })
    }

    /// The file of a month's archive. Only a store in a file has archives beside it.
    pub fn archive_path(&self, month: Month) -> PathBuf {
        let beside = match &self.location {
            Location::Sqlite(path) => path.parent().unwrap_or(Path::new(".")),
            Location::Postgres { .. } => Path::new("."),
        };
        beside.join(FOLDER).join(format!("{month}.db"))
    }

    /// Opens a month's archive for reading.
    ///
    /// # Errors
    /// It is missing, or no archive that this release reads.
    pub fn open_archive(&self, month: Month) -> Result<Self, StoreError> {
        let path = self.archive_path(month);
        let location = Location::Sqlite(path.clone());
        let sql = |source: rusqlite::Error| StoreError::Sql {
            location: location.to_string(),
            source: source.into(),
        };
        // Not for reading alone: what a crash has left unfinished is undone at the first reading.
        use rusqlite::OpenFlags;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let c = rusqlite::Connection::open_with_flags(&path, flags).map_err(sql)?;
        let layout = c.busy_timeout(PATIENCE).and_then(|()| {
            c.pragma_update(None, "query_only", "ON")?;
            c.pragma_update(None, "cache_size", -PAGES_KIB)?;
            c.pragma_query_value(None, "user_version", |row| row.get(0))
        });
        match layout.map_err(sql)? {
            LAYOUT => Ok(Self {
                connection: Connection::Sqlite(c),
                location,
                lead: None,
            }),
            found => Err(StoreError::TooNew {
                found,
                known: LAYOUT,
            }),
        }
    }

    /// Whether a submission is in this database.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn has_submission(&self, base: JobId) -> Result<bool, StoreError> {
        let found: Option<i64> = self.sql(|c| {
            c.prepare_cached("SELECT 1 FROM submissions WHERE base = ?1")?
                .query_row(params![base.0], |r| r.get(0))
                .optional()
        })?;
        Ok(found.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months() {
        let check = |time: &str, month: &str| {
            let time: jiff::Timestamp = time.parse().unwrap();
            assert_eq!(Month::of(Time(time.as_millisecond())).to_string(), month, "{time}");
        };
        check("1969-12-31T23:59:59Z", "1970-01");
        check("1970-01-01T00:00:00Z", "1970-01");
        check("2024-02-29T23:59:59.999Z", "2024-02");
        check("2024-03-01T00:00:00Z", "2024-03");
        check("2025-12-31T23:59:59.999Z", "2025-12");
        check("2026-01-01T00:00:00Z", "2026-01");
        check("2100-02-28T12:00:00Z", "2100-02");
        assert_eq!(Month::of(Time(i64::MAX)).to_string(), "9999-12");
    }

    #[test]
    fn which_archives_are_asked() {
        let archive = Archive {
            month: Month(0),
            ids: 10..20,
            first_start: Time(1000),
            last_end: Time(2000),
        };
        let check = |filter: JobFilter, want: bool| {
            assert_eq!(archive.may_have(&filter), want, "{filter:?}");
        };
        let any = JobFilter::default;
        check(any(), true);
        for (since, want) in [(0, true), (2000, true), (2001, false)] {
            check(
                JobFilter {
                    since: Some(Time(since)),
                    ..any()
                },
                want,
            );
        }
        for (until, want) in [(1000, false), (1001, true)] {
            check(
                JobFilter {
                    until: Some(Time(until)),
                    ..any()
                },
                want,
            );
        }
        for (id, want) in [
            ("9", false),
            ("10", true),
            ("19_3", true),
            ("20", false),
            ("1 15", true),
        ] {
            let ids = id.split(' ').map(|id| id.parse().unwrap()).collect();
            check(JobFilter { ids, ..any() }, want);
        }
        use cosy_model::JobState::{Completed, Running};
        check(
            JobFilter {
                states: vec![Running],
                ..any()
            },
            false,
        );
        check(
            JobFilter {
                states: vec![Running, Completed],
                ..any()
            },
            true,
        );
    }
}
