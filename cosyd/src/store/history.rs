//! History, row by row: the latest first, in memory for one row.
//!
//! Looks through ids downwards, so that a page can end anywhere and the next go on there.
//! What always holds: the row of a submission is decoded once for all its jobs that follow
//! each other, a reader that has enough ends the query, and one page looks through
//! [`limits::HISTORY_IDS`] ids however few of them are meant.

use super::{Query, Store, StoreError, decode};
use cosy_control::{JobRow, SubmissionRow};
use cosy_model::api::{Cursor, JobFilter, JobRef};
use cosy_model::{JobId, Uid, limits};
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, params};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Whether more rows are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wants {
    /// Go on.
    More,
    /// That was enough.
    Enough,
}

/// Which part of history.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// Which jobs.
    pub filter: &'a JobFilter,
    /// Only of that user's.
    pub only: Option<Uid>,
    /// Only names, queues, accounts and users of the submission count: what a job has been
    /// changed to does not.
    pub most_ids: u64,
}

/// Where a reading stands.
struct At {
    /// Ids below this one are next.
    before: u64,
    /// The array whose last task has been told, which has its first id.
    told: u64,
    /// Ids that may still be looked through.
    ids: u64,
}

/// The query for a range of ids.
struct Conditions {
    text: String,
    values: Vec<Value>,
}

impl Store {
    /// Gives jobs that have started or ended to `take`, the latest first, until it has
    /// enough. The place where the rest is, `None` at the end.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn history(
        &self,
        reading: Reading<'_>,
        mut take: impl FnMut(&JobRow, &SubmissionRow) -> Wants,
    ) -> Result<Option<Cursor>, StoreError> {
        let filter = reading.filter;
        let conditions = conditions(filter, reading.only);
        let names: BTreeSet<&str> = filter.nodes.iter().map(String::as_str).collect();
        let ranges = self.ranges(filter)?;
        let mut at = At {
            before: filter.after.map_or(u64::MAX, |c| c.at),
            told: filter.after.map_or(0, |c| c.part),
            ids: reading.most_ids,
        };
        let mut submission: Option<Arc<SubmissionRow>> = None;
        let mut take = |row: &JobRow, of: &SubmissionRow| {
            if names.is_empty() || ran_on(row, &names) {
                take(row, of)
            } else {
                Wants::More
            }
        };
        for range in ranges.iter().rev() {
            let mut above = range.1.min(at.before);
            while above > range.0 {
                let below = range.0.max(above.saturating_sub(at.ids));
                let window = (below, above);
                let found = self.window(
                    &conditions,
                    &ranges,
                    window,
                    &mut at,
                    &mut submission,
                    &mut take,
                )?;
                if found == Wants::Enough {
                    return Ok(Some(Cursor {
                        part: at.told,
                        at: at.before,
                    }));
                }
                at.ids -= above - below;
                (above, at.before) = (below, below);
                if at.ids == 0 && below > 0 {
                    return Ok(Some(Cursor {
                        part: at.told,
                        at: below,
                    }));
                }
            }
        }
        Ok(None)
    }

    /// The rows with ids in `window`.
    fn window(
        &self,
        conditions: &Conditions,
        ranges: &[(u64, u64)],
        window: (u64, u64),
        at: &mut At,
        submission: &mut Option<Arc<SubmissionRow>>,
        take: &mut impl FnMut(&JobRow, &SubmissionRow) -> Wants,
    ) -> Result<Wants, StoreError> {
        let sql = |source| self.error(source);
        let mut query = self
            .connection
            .prepare_cached(&conditions.text)
            .map_err(sql)?;
        let mut rows = query
            .query(rusqlite::params_from_iter(conditions.of(window)))
            .map_err(sql)?;
        while let Some(found) = rows.next().map_err(sql)? {
            let blob = found
                .get_ref(0)
                .and_then(|b| Ok(b.as_blob()?))
                .map_err(sql)?;
            let row: JobRow = decode("jobs", blob)?;
            if row.id.0 == at.told {
                continue; // the last task of its array, which came before the others
            }
            let of = self.submission(row.base, submission)?;
            if of.id_at(0) != of.base && of.tasks() > 1 && at.told != of.base.0 && row.id != of.base
            {
                at.told = of.base.0;
                let among = ranges.iter().any(|r| (r.0..r.1).contains(&of.base.0));
                let last = if among {
                    self.one(conditions, of.base)?
                } else {
                    None
                };
                if let Some(last) = last
                    && take(&last, &of) == Wants::Enough
                {
                    at.before = row.id.0 + 1;
                    return Ok(Wants::Enough);
                }
            }
            at.before = row.id.0;
            if take(&row, &of) == Wants::Enough {
                return Ok(Wants::Enough);
            }
        }
        Ok(Wants::More)
    }

    /// The row with that id, if it is meant.
    fn one(&self, conditions: &Conditions, id: JobId) -> Result<Option<JobRow>, StoreError> {
        let found: Option<Vec<u8>> = self.sql(|c| {
            let values = conditions.of((id.0, id.0 + 1));
            c.prepare_cached(&conditions.text)?
                .query_row(rusqlite::params_from_iter(values), |r| r.get(0))
                .optional()
        })?;
        found.map(|blob| decode("jobs", &blob)).transpose()
    }

    /// The submission with that first id: the one at hand, or out of the store.
    fn submission(
        &self,
        base: JobId,
        at_hand: &mut Option<Arc<SubmissionRow>>,
    ) -> Result<Arc<SubmissionRow>, StoreError> {
        if let Some(row) = at_hand.as_ref().filter(|row| row.base == base) {
            return Ok(row.clone());
        }
        let blob: Vec<u8> = self.sql(|c| {
            c.prepare_cached("SELECT row FROM submissions WHERE base = ?1")?
                .query_row([base.0], |r| r.get(0))
        })?;
        let row: Arc<SubmissionRow> = Arc::new(decode("submissions", &blob)?);
        *at_hand = Some(row.clone());
        Ok(row)
    }

    /// The ids that are meant, as ranges that do not touch, ascending; the end is not in.
    fn ranges(&self, filter: &JobFilter) -> Result<Vec<(u64, u64)>, StoreError> {
        if filter.ids.is_empty() {
            let end = self.number("SELECT COALESCE(MAX(id), 0) + 1 FROM jobs")?;
            return Ok(vec![(0, end)]);
        }
        let mut all = self.ranges_of(&filter.ids)?;
        all.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (from, to) in all {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        Ok(merged)
    }

    /// The ids that each reference stands for.
    fn ranges_of(&self, refs: &[JobRef]) -> Result<Vec<(u64, u64)>, StoreError> {
        let once: BTreeSet<JobRef> = refs.iter().copied().collect();
        let mut at_hand: Option<Arc<SubmissionRow>> = None;
        let mut all = Vec::with_capacity(once.len());
        for JobRef { job, task } in once {
            let ids: Option<u64> = self.sql(|c| {
                c.prepare_cached("SELECT ids FROM submissions WHERE base = ?1")?
                    .query_row(params![job.0], |r| r.get(0))
                    .optional()
            })?;
            match (task, ids) {
                (None, Some(ids)) => all.push((job.0, job.0.saturating_add(ids))),
                (None, None) => all.push((job.0, job.0.saturating_add(1))),
                (Some(task), Some(_)) => {
                    let row = self.submission(job, &mut at_hand)?;
                    let indices = row.indices.as_deref().unwrap_or_default();
                    if let Ok(place) = indices.binary_search(&task) {
                        let id = row.id_at(place).0;
                        all.push((id, id + 1));
                    }
                }
                (Some(_), None) => {}
            }
        }
        Ok(all)
    }
}

impl Conditions {
    /// Values for the query of a range of ids.
    fn of(&self, (from, to): (u64, u64)) -> impl Iterator<Item = Value> {
        let id = |n: u64| Value::from(i64::try_from(n).unwrap_or(i64::MAX));
        [id(from), id(to)].into_iter().chain(self.values.clone())
    }
}

fn conditions(filter: &JobFilter, only: Option<Uid>) -> Conditions {
    let mut query = Query::default();
    query.users(&filter.users);
    query.one_of("s.queue", &filter.queues);
    query.one_of("s.name", &filter.names);
    query.one_of("s.account", &filter.accounts);
    let words: BTreeSet<&str> = filter.states.iter().map(|s| s.word()).collect();
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    query.one_of("j.state", &words);
    query.only(only);
    if let Some(since) = filter.since {
        query.and("(j.ended IS NULL OR j.ended >= ?)", [Value::from(since.0)]);
    }
    if let Some(until) = filter.until {
        query.and("COALESCE(j.start, s.submit) < ?", [Value::from(until.0)]);
    }
    // CROSS: jobs are gone through by their ids, whatever else there is.
    let text = format!(
        "SELECT j.row FROM jobs j CROSS JOIN submissions s ON s.base = j.base
         WHERE j.id >= ? AND j.id < ? {} ORDER BY j.id DESC",
        query.text
    );
    Conditions {
        text,
        values: query.values,
    }
}

fn ran_on(job: &JobRow, names: &BTreeSet<&str>) -> bool {
    let parts = job.run.iter().flat_map(|run| &run.parts);
    parts
        .into_iter()
        .any(|part| names.contains(part.node.as_str()))
}

/// So many ids are looked through for one page, or for a command that asks for no pages.
pub fn most_ids(filter: &JobFilter) -> u64 {
    if filter.pages {
        limits::HISTORY_IDS
    } else {
        u64::MAX
    }
}
