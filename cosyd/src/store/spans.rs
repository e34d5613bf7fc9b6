//! Which ids jobs of a time have, so that not all ids there are must be looked through.
//!
//! What always holds: no job that is meant is outside; others may be inside.

use super::Store;
use super::rows::{Ids, StoreError, joined};
use super::sql::{self, Connection, OptionalExtension, params};
use cosy_model::api::JobFilter;
use cosy_model::{Span, Time};

/// So many jobs that ended lately are looked up one by one.
const ONE_BY_ONE: usize = 100_000;
/// So many submissions that are not over are looked up one by one.
const SUBMISSIONS: usize = 10_000;
/// Ids between two that are meant which are looked through too: that costs less than another query.
const GAP: u64 = 1000;
/// Ids go up with the time of submission; the controller's clock was never set back by more.
const SET_BACK: Span = Span::from_secs(86_400);

/// A day of the table `end_days`, in milliseconds.
const DAY_MS: i64 = 86_400_000;

impl Store {
    /// The ids that jobs of the filter's time have, ascending and apart. `end` is above all ids.
    pub(super) fn ids_of_time(&self, filter: &JobFilter, end: u64) -> Result<Vec<Ids>, StoreError> {
        let end = match filter.until {
            Some(until) => self.submitted_before(until, end)?,
            None => end,
        };
        let Some(since) = filter.since else {
            return Ok(vec![(0, end)]);
        };
        let mut all = match self.ended_since(since)? {
            Some(ids) => ids,
            None => vec![(self.least_ended_since(since)?, end)],
        };
        all.extend(self.not_ended(end)?);
        let within = |(from, to): Ids| (from < end).then(|| (from, to.min(end)));
        Ok(joined(all.into_iter().filter_map(within).collect(), GAP))
    }

    /// The first id of the submissions from which on nothing was submitted before a moment; `end`
    /// without any.
    fn submitted_before(&self, until: Time, end: u64) -> Result<u64, StoreError> {
        let until = until + SET_BACK;
        self.sql(|c| {
            let mut query = c.prepare_cached(
                "SELECT base, submit FROM submissions WHERE base >= ?1 ORDER BY base LIMIT 1",
            )?;
            let (mut low, mut high, mut first) = (0, end, end);
            // Below `low` all were submitted before; from `high` on none.
            while low < high {
                let middle = low + (high - low) / 2;
                let next: Option<(u64, i64)> = query
                    .query_row(params![middle], |r| Ok((r.get(0)?, r.get(1)?)))
                    .optional()?;
                match next {
                    Some((base, submit)) if submit < until.0 => low = base.saturating_add(1),
                    Some((base, _)) => (high, first) = (middle, base),
                    None => high = middle,
                }
            }
            Ok(first.min(end))
        })
    }

    /// Ids of jobs that ended since a moment; nothing when these are many.
    fn ended_since(&self, since: Time) -> Result<Option<Vec<Ids>>, StoreError> {
        let mut ids: Vec<u64> = self.sql(|c| {
            c.prepare_cached(
                "SELECT id FROM jobs WHERE ended IS NOT NULL AND ended >= ?1 LIMIT ?2",
            )?
            .query_map(params![since.0, ONE_BY_ONE + 1], |r| r.get(0))?
            .collect()
        })?;
        if ids.len() > ONE_BY_ONE {
            return Ok(None);
        }
        ids.sort_unstable();
        let ids = ids.into_iter().map(|id| (id, id.saturating_add(1)));
        Ok(Some(joined(ids.collect(), GAP)))
    }

    /// An id below which nothing ended since a moment. An archive is of one month: there all that
    /// ended since is looked at.
    fn least_ended_since(&self, since: Time) -> Result<u64, StoreError> {
        self.sql(|c| {
            let (query, from) = match has_days(c)? {
                true => ("SELECT MIN(least_id) FROM end_days WHERE day >= ?1", since.0 / DAY_MS),
                false => {
                    ("SELECT MIN(id) FROM jobs WHERE ended IS NOT NULL AND ended >= ?1", since.0)
                }
            };
            let least: Option<u64> = c
                .prepare_cached(query)?
                .query_row(params![from], |r| r.get(0))?;
            Ok(least.unwrap_or(0))
        })
    }

    /// Ids of submissions that live or are set aside: jobs of theirs may not have ended. Where these
    /// are many, all from the first of them on.
    fn not_ended(&self, end: u64) -> Result<Vec<Ids>, StoreError> {
        self.sql(|c| {
            if !has_days(c)? {
                return Ok(Vec::new());
            }
            let all: Vec<Ids> = c
                .prepare_cached(
                    "SELECT base, ids FROM submissions WHERE base IN (
                         SELECT base FROM live_submissions
                         UNION SELECT CAST(object AS BIGINT) FROM set_aside WHERE source = 'job')
                     ORDER BY base LIMIT ?1",
                )?
                .query_map(params![SUBMISSIONS + 1], |r| {
                    let (base, ids): (u64, u64) = (r.get(0)?, r.get(1)?);
                    Ok((base, base.saturating_add(ids)))
                })?
                .collect::<sql::Result<_>>()?;
            Ok(match all.first() {
                Some((first, _)) if all.len() > SUBMISSIONS => vec![(*first, end)],
                Some(_) | None => all,
            })
        })
    }
}

/// The store itself knows the days; archives do not.
fn has_days(c: &Connection) -> sql::Result<bool> {
    match c {
        Connection::Sqlite(_) => c
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'end_days')")?
            .query_row(params![], |r| r.get(0)),
        Connection::Postgres(_) => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::JobState;
    use rusqlite::{Connection, params};
    use tempfile::TempDir;

    const HOUR: i64 = 3_600_000;

    /// Columns of a submission and its jobs: first id and number of ids, submitted, started, ended,
    /// in hours.
    type Columns = (u64, u64, i64, Option<i64>, Option<i64>);

    fn store(jobs: &[Columns]) -> (TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let store = Store::open(&path).unwrap();
        let plain = Connection::open(&path).unwrap();
        plain.execute_batch("BEGIN").unwrap();
        for (base, ids, submit, start, ended) in jobs {
            let at = |hour: &Option<i64>| hour.map(|hour| hour * HOUR);
            plain
                .execute(
                    "INSERT INTO submissions VALUES (?1, ?2, 0, '', '', '', '', ?3, 0, x'', x'', x'', NULL, NULL)",
                    params![base, ids, submit * HOUR],
                )
                .unwrap();
            for id in *base..base + ids {
                plain
                    .execute(
                        "INSERT INTO jobs VALUES (?1, ?2, ?3, ?4, ?5, x'', 0)",
                        params![id, base, JobState::Completed.word(), at(start), at(ended)],
                    )
                    .unwrap();
            }
            match at(ended) {
                Some(ended) => plain.execute(
                    "INSERT INTO end_days VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                    params![ended / DAY_MS, base],
                ),
                None => plain.execute("INSERT INTO live_submissions VALUES (?1)", [base]),
            }
            .unwrap();
        }
        plain.execute_batch("COMMIT").unwrap();
        (dir, store)
    }

    fn time(since: Option<i64>, until: Option<i64>) -> JobFilter {
        JobFilter {
            since: since.map(|hour| Time(hour * HOUR)),
            until: until.map(|hour| Time(hour * HOUR)),
            ..JobFilter::default()
        }
    }

    /// A job of each day, the one of day 3 two weeks long, and an array that lives.
    #[test]
    fn no_job_of_the_time_is_left_out() {
        let mut jobs: Vec<_> = (0..30)
            .map(|day: i64| {
                (day as u64 * 10_000 + 1, 1, day * 24, Some(day * 24), Some(day * 24 + 5))
            })
            .collect();
        jobs[3].4 = Some(17 * 24);
        jobs[9] = (90_001, 10_000, 9 * 24, None, None);
        jobs[29].1 = 5;
        let (_dir, store) = store(&jobs);
        for since in [
            None,
            Some(0),
            Some(90),
            Some(400),
            Some(420),
            Some(700),
            Some(2000),
        ] {
            for until in [None, Some(0), Some(90), Some(400), Some(700), Some(2000)] {
                for end in [400_000, 150_000] {
                    let filter = time(since, until);
                    let ids = store.ids_of_time(&filter, end).unwrap();
                    assert!(ids.windows(2).all(|two| two[0].1 < two[1].0), "{ids:?}");
                    for (base, count, submit, start, ended) in &jobs {
                        let late = ended.is_none_or(|ended| since.is_none_or(|s| ended >= s));
                        let early = until.is_none_or(|u| start.unwrap_or(*submit) < u);
                        let inside = ids.iter().any(|r| r.0 <= *base && base + count <= r.1);
                        assert!(
                            !(late && early && base + count <= end) || inside,
                            "{filter:?} {base} {ids:?}"
                        );
                    }
                }
            }
        }
        let few = store
            .ids_of_time(&time(Some(28 * 24), None), 400_000)
            .unwrap();
        assert_eq!(few, [(90_001, 100_001), (280_001, 280_002), (290_001, 290_006)]);
        let early = store
            .ids_of_time(&time(Some(0), Some(24)), 400_000)
            .unwrap();
        assert_eq!(early, [(1, 2), (10_001, 10_002)]);
        assert_eq!(store.least_ended_since(Time(400 * HOUR)).unwrap(), 30_001);
        assert_eq!(store.least_ended_since(Time(500 * HOUR)).unwrap(), 200_001);
    }
}
