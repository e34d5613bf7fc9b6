//! History, row by row: the latest first, in memory for one row.
//!
//! Looks through ids downwards, so that a page can end anywhere and the next go on there.
//! What always holds: the row of a submission is decoded once for all its jobs that follow
//! each other, a reader that has enough ends the query, and one page looks through
//! [`limits::HISTORY_IDS`] ids however few of them are meant.

use super::rows::joined;
use super::sql::{self, Connection, OptionalExtension, OwnedValue, params};
use super::{Query, Store, StoreError, decode, encode};
use cosy_control::{JobRow, SubmissionRow};
use cosy_model::api::{Cursor, JobFilter, JobRef};
use cosy_model::{JobId, Uid, limits};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Whether more rows are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Continuation {
    /// The next row is wanted.
    More,
    /// No further row is wanted.
    Enough,
}

/// The jobs of history that are wanted.
#[derive(Clone, Copy, Debug)]
pub struct HistoryQuery<'a> {
    /// Conditions that a job must meet.
    pub filter: &'a JobFilter,
    /// The user whose jobs alone may be seen.
    pub only: Option<Uid>,
    /// How many ids are looked through at most, whether their jobs are meant or not.
    pub most_ids: u64,
}

/// How far a reading of history has come.
struct Position {
    /// Ids below this one are next.
    before: u64,
    /// First id of the array whose last task was listed before the others.
    last_array: u64,
    /// Ids that may still be looked through.
    ids: u64,
}

/// The submission of the job before.
type PreviousSubmission = Option<Arc<SubmissionRow>>;
/// What the job before was changed to: its submission and number.
type PreviousBody = ((JobId, u32), Arc<SubmissionRow>);

/// The query for a range of ids.
struct Conditions {
    text: String,
    values: Vec<OwnedValue>,
    /// Not of jobs, but of their earlier runs: a job may have several, which are told together.
    runs: bool,
}

impl Store {
    /// Gives jobs that have started or ended to `take`, the latest first, until it has
    /// enough. The place where the rest is, `None` at the end.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn history(
        &self,
        reading: HistoryQuery<'_>,
        mut take: impl FnMut(&JobRow, &SubmissionRow) -> Continuation,
    ) -> Result<Option<Cursor>, StoreError> {
        let filter = reading.filter;
        let conditions = conditions(filter, reading.only);
        let names: BTreeSet<&str> = filter.nodes.iter().map(String::as_str).collect();
        let ranges = self.ranges(filter)?;
        let mut at = Position {
            before: filter.after.map_or(u64::MAX, |c| c.at),
            last_array: filter.after.map_or(0, |c| c.part),
            ids: reading.most_ids,
        };
        let mut submission: PreviousSubmission = None;
        let mut body: Option<PreviousBody> = None;
        let mut take = |row: &JobRow, of: &SubmissionRow| {
            if names.is_empty() || ran_on(row, &names) {
                take(row, of)
            } else {
                Continuation::More
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
                    (&mut submission, &mut body),
                    &mut take,
                )?;
                if found == Continuation::Enough {
                    return Ok(Some(Cursor {
                        part: at.last_array,
                        at: at.before,
                    }));
                }
                at.ids -= above - below;
                (above, at.before) = (below, below);
                if at.ids == 0 && below > 0 {
                    return Ok(Some(Cursor {
                        part: at.last_array,
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
        at: &mut Position,
        (submission, body): (&mut PreviousSubmission, &mut Option<PreviousBody>),
        take: &mut impl FnMut(&JobRow, &SubmissionRow) -> Continuation,
    ) -> Result<Continuation, StoreError> {
        let sql = |source| self.error(source);
        let mut query = self
            .connection
            .prepare_cached(&conditions.text)
            .map_err(sql)?;
        let mut rows = query.query(&conditions.of(window)[..]).map_err(sql)?;
        let mut full: Option<JobId> = None;
        let read = |found: &sql::Row<'_>| Ok(decode("jobs", found.bytes(0)?));
        while let Some(row) = rows.next_with(read).map_err(sql)? {
            let row: JobRow = row?;
            if row.id.0 == at.last_array {
                continue; // the last task of its array, which came before the others
            }
            if full.is_some_and(|last| last != row.id) {
                return Ok(Continuation::Enough);
            }
            let of = self.submission(row.base, submission)?;
            if !conditions.runs
                && of.id_at(0) != of.base
                && of.tasks() > 1
                && at.last_array != of.base.0
                && row.id != of.base
            {
                at.last_array = of.base.0;
                let among = ranges.iter().any(|r| (r.0..r.1).contains(&of.base.0));
                let last = if among {
                    self.one(conditions, of.base)?
                } else {
                    None
                };
                if let Some(last) = last
                    && take(&last, &*self.body(&last, &of, body)?) == Continuation::Enough
                {
                    at.before = row.id.0 + 1;
                    return Ok(Continuation::Enough);
                }
            }
            at.before = row.id.0;
            let enough = take(&row, &*self.body(&row, &of, body)?) == Continuation::Enough;
            match conditions.runs {
                true => full = full.or(enough.then_some(row.id)),
                false if enough => return Ok(Continuation::Enough),
                false => {}
            }
        }
        Ok(match full {
            Some(_) => Continuation::Enough,
            None => Continuation::More,
        })
    }

    /// The row with that id; only of that user's.
    pub(super) fn job_of(
        &self,
        id: JobId,
        only: Option<Uid>,
    ) -> Result<Option<JobRow>, StoreError> {
        self.one(&conditions(&JobFilter::default(), only), id)
    }

    /// The row with that id, if it is meant.
    fn one(&self, conditions: &Conditions, id: JobId) -> Result<Option<JobRow>, StoreError> {
        let found: Option<Vec<u8>> = self.sql(|c| {
            let values = conditions.of((id.0, id.0 + 1));
            c.prepare_cached(&conditions.text)?
                .query_row(&values[..], |r| r.get(0))
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
        let row: Result<_, StoreError> = self.sql(|c| {
            c.prepare_cached("SELECT row FROM submissions WHERE base = ?1")?
                .query_row(
                    params![base.0],
                    |r| Ok(decode("submissions", r.bytes(0)?).map(Arc::new)),
                )
        })?;
        let row: Arc<SubmissionRow> = row?;
        *at_hand = Some(row.clone());
        Ok(row)
    }

    /// What a job was changed to: the body at hand, or out of the store. One that was not
    /// changed is as submitted.
    fn body(
        &self,
        row: &JobRow,
        of: &Arc<SubmissionRow>,
        at_hand: &mut Option<PreviousBody>,
    ) -> Result<Arc<SubmissionRow>, StoreError> {
        if row.body == 0 {
            return Ok(of.clone());
        }
        let key = (row.base, row.body);
        if let Some((_, body)) = at_hand.as_ref().filter(|(known, _)| *known == key) {
            return Ok(body.clone());
        }
        let blob: Option<Vec<u8>> = self.sql(|c| {
            c.prepare_cached("SELECT row FROM bodies WHERE base = ?1 AND number = ?2")?
                .query_row(params![row.base.0, row.body], |r| r.get(0))
                .optional()
        })?;
        let Some(blob) = blob else {
            return Ok(of.clone());
        };
        let body: Arc<SubmissionRow> = Arc::new(decode("bodies", &blob)?);
        *at_hand = Some((key, body.clone()));
        Ok(body)
    }

    /// The ids that are meant, as ranges that do not touch, ascending; the end is not in.
    fn ranges(&self, filter: &JobFilter) -> Result<Vec<(u64, u64)>, StoreError> {
        if filter.ids.is_empty() {
            let end = self.number("SELECT COALESCE(MAX(id), 0) + 1 FROM jobs")?;
            return self.ids_of_time(filter, end);
        }
        Ok(joined(self.ranges_of(&filter.ids)?, 0))
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
                    let indices = row.indices.as_ref();
                    if let Some(place) = indices.and_then(|indices| indices.place_of(task)) {
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
    fn of(&self, (from, to): (u64, u64)) -> Vec<OwnedValue> {
        let id = |n: u64| OwnedValue::from(i64::try_from(n).unwrap_or(i64::MAX));
        let ids = [id(from), id(to)].into_iter();
        ids.chain(self.values.iter().cloned()).collect()
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
        query.and("(j.ended IS NULL OR j.ended >= ?)", [OwnedValue::from(since.0)]);
    }
    if let Some(until) = filter.until {
        query.and("COALESCE(j.start, s.submit) < ?", [OwnedValue::from(until.0)]);
    }
    // CROSS: jobs are gone through by their ids, whatever else there is.
    let (table, order) = match filter.earlier_runs {
        true => ("runs", "j.id DESC, j.attempt DESC"),
        false => ("jobs", "j.id DESC"),
    };
    let text = format!(
        "SELECT j.row FROM {table} j CROSS JOIN submissions s ON s.base = j.base
         WHERE j.id >= ? AND j.id < ? {} ORDER BY {order}",
        query.text
    );
    Conditions {
        text,
        values: query.values,
        runs: filter.earlier_runs,
    }
}

/// Tables that schema 17 added. The columns that history is searched by are those of `jobs`.
pub(super) const TABLES: &str = "
    CREATE TABLE runs (
        id INTEGER NOT NULL, attempt INTEGER NOT NULL, base INTEGER NOT NULL, state TEXT NOT NULL,
        start INTEGER, ended INTEGER, row BLOB NOT NULL,
        PRIMARY KEY (id, attempt)) STRICT;
";

/// Keeps a run that another one followed. Of a job no more than [`limits::EARLIER_RUNS`] are kept,
/// the latest.
pub(super) fn write_run(t: &Connection, row: &JobRow) -> sql::Result<()> {
    let end = row.end.as_ref();
    t.prepare_cached(
        "INSERT INTO runs (id, attempt, base, state, start, ended, row)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (id, attempt) DO UPDATE SET base = excluded.base, state = excluded.state, start = excluded.start, ended = excluded.ended, row = excluded.row",
    )?
    .run(params![
        row.id.0,
        row.attempt.0,
        row.base.0,
        row.state.word(),
        end.and_then(|end| end.start).map(|at| at.0),
        end.map(|end| end.end.0),
        encode(row)?
    ])?;
    t.prepare_cached("DELETE FROM runs WHERE id = ?1 AND attempt <= ?2")?
        .run(params![
            row.id.0,
            i64::from(row.attempt.0) - i64::from(limits::EARLIER_RUNS)
        ])
}

fn ran_on(job: &JobRow, names: &BTreeSet<&str>) -> bool {
    let parts = job.run.iter().flat_map(|run| &run.parts);
    parts
        .into_iter()
        .any(|part| names.contains(part.node.as_str()))
}

/// How many ids are looked through for one page, or for a command that asks for no pages.
pub fn most_ids(filter: &JobFilter) -> u64 {
    if filter.pages {
        limits::HISTORY_IDS
    } else {
        u64::MAX
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use cosy_control::Record;
    use cosy_model::{Attempt, End, EndCause, Gid, JobState, OsText, Time};
    use tempfile::TempDir;

    fn submission(base: u64, tasks: u32, uid: u32, last_first: bool) -> SubmissionRow {
        let numbering = if last_first { "last_first" } else { "in_order" };
        let indices: Option<Vec<u32>> = (tasks > 1).then(|| (1..=tasks).collect());
        serde_json::from_value(serde_json::json!({
            "base": base, "indices": indices, "numbering": numbering, "at_once": null,
            "uid": uid, "gid": 1, "user": format!("u{uid}"), "queue": "day", "submit": 1,
            "spec": {"name": "x", "program": "allocation", "request": {"cores_per_task": 1},
                "workdir": "/", "environment": "", "umask": 18},
        }))
        .unwrap()
    }

    /// A job of the submission that ended then.
    pub(in crate::store) fn ended_row(of: &SubmissionRow, place: usize, at: Time) -> Box<JobRow> {
        Box::new(JobRow {
            state: JobState::Completed,
            attempt: Attempt(1),
            end: Some(End::never_ran(EndCause::Exited, at)),
            ..JobRow::waiting(
                of.id_at(place),
                of.base,
                of.indices.as_ref().and_then(|all| all.get(place)),
            )
        })
    }

    fn ended(of: &SubmissionRow, place: usize) -> Record {
        let at = Time(of.id_at(place).0 as i64);
        Record::Job(ended_row(of, place, at))
    }

    fn store(submissions: &[SubmissionRow]) -> (TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("db")).unwrap();
        for of in submissions {
            let mut records = vec![Record::Submitted {
                row: Box::new(of.clone()),
                script: OsText::default(),
                environment: OsText::default(),
            }];
            records.extend((0..of.tasks() as usize).map(|place| ended(of, place)));
            store.commit(&records).unwrap();
        }
        (dir, store)
    }

    fn name(row: &JobRow) -> String {
        match row.index {
            Some(index) => format!("{}_{index}", row.base),
            None => row.id.to_string(),
        }
    }

    /// All rows in pages of at least so many, or of so many ids; the earliest first.
    fn pages(store: &Store, filter: &JobFilter, rows: usize, ids: u64) -> String {
        let mut all: Vec<String> = Vec::new();
        let mut filter = filter.clone();
        for _ in 0..1000 {
            let mut left = rows;
            let reading = HistoryQuery {
                filter: &filter,
                only: None,
                most_ids: ids,
            };
            let more = store.history(reading, |row, of| {
                assert_eq!(row.base, of.base);
                all.push(name(row));
                left = left.saturating_sub(1);
                if left == 0 {
                    Continuation::Enough
                } else {
                    Continuation::More
                }
            });
            match more.unwrap() {
                Some(more) => filter.after = Some(more),
                None => {
                    all.reverse();
                    return all.join(" ");
                }
            }
        }
        panic!("it does not end: {filter:?}");
    }

    fn refs(text: &str) -> JobFilter {
        JobFilter {
            ids: text
                .split_whitespace()
                .map(|t| t.parse().unwrap())
                .collect(),
            ..JobFilter::default()
        }
    }

    #[test]
    fn pages_of_any_size_make_the_whole() {
        let (_dir, store) = store(&[
            submission(1, 1, 7, false),
            submission(2, 4, 7, false),
            submission(6, 4, 8, true),
            submission(10, 1, 8, false),
            submission(500, 2, 8, true),
        ]);
        let all = "1 2_1 2_2 2_3 2_4 6_1 6_2 6_3 6_4 10 500_1 500_2";
        let check = |filter: &JobFilter, want: &str| {
            for rows in 1..14 {
                for ids in [1, 2, 3, 7, 100, u64::MAX] {
                    assert_eq!(pages(&store, filter, rows, ids), want, "{filter:?} {rows} {ids}");
                }
            }
        };
        check(&JobFilter::default(), all);
        check(&refs("6"), "6_1 6_2 6_3 6_4");
        check(&refs("6_4 6_1 2_3 2_3 10 77 6_9 1_1"), "2_3 6_1 6_4 10");
        check(&refs("6_1 6_2 6_3"), "6_1 6_2 6_3");
        // An id within an array is that task.
        check(&refs("3"), "2_2");
        let of = |user: &str| JobFilter {
            users: vec![user.to_owned()],
            ..JobFilter::default()
        };
        check(&of("u8"), "6_1 6_2 6_3 6_4 10 500_1 500_2");
        check(&of("7"), "1 2_1 2_2 2_3 2_4");
        check(&of("nobody"), "");
        let late = JobFilter {
            since: Some(Time(8)),
            ..JobFilter::default()
        };
        check(&late, "6_2 6_3 10 500_1 500_2");
    }

    /// The same job as if it had run so often before.
    fn earlier(of: &SubmissionRow, place: usize, attempts: std::ops::Range<u32>) -> Vec<Record> {
        let Record::Job(row) = ended(of, place) else {
            unreachable!()
        };
        let run = |attempt| {
            Record::EarlierRun(Box::new(JobRow {
                attempt: Attempt(attempt),
                state: JobState::Preempted,
                ..*row.clone()
            }))
        };
        attempts.map(run).collect()
    }

    /// All runs of a job are in one page, and of too many the latest are kept.
    #[test]
    fn earlier_runs() {
        let all = [submission(1, 1, 7, false), submission(2, 3, 8, true)];
        let (_dir, mut store) = store(&all);
        store.commit(&earlier(&all[0], 0, 1..4)).unwrap();
        store.commit(&earlier(&all[1], 1, 1..3)).unwrap();
        store.commit(&earlier(&all[1], 2, 1..2)).unwrap();
        let filter = JobFilter {
            earlier_runs: true,
            ..JobFilter::default()
        };
        let told = |filter: &JobFilter| {
            let whole = pages(&store, filter, 100, u64::MAX);
            for (rows, ids) in [(1, 100), (2, 100), (3, 1), (100, 1), (4, 2)] {
                assert_eq!(pages(&store, filter, rows, ids), whole, "{rows} {ids}");
            }
            whole
        };
        assert_eq!(told(&filter), "1 1 1 2_3 2_2 2_2");
        let of = |text: &str| JobFilter {
            earlier_runs: true,
            ..refs(text)
        };
        assert_eq!(told(&of("2")), "2_3 2_2 2_2");
        assert_eq!(told(&of("1 2_1")), "1 1 1");
        let states = |state| JobFilter {
            states: vec![state],
            ..filter.clone()
        };
        assert_eq!(told(&states(JobState::Completed)), "");
        store.commit(&earlier(&all[0], 0, 4..160)).unwrap();
        let many = pages(&store, &of("1"), 1000, u64::MAX);
        assert_eq!(many.split(' ').count(), cosy_model::limits::EARLIER_RUNS as usize);
    }

    #[test]
    fn only_what_is_the_users_own() {
        let (_dir, store) = store(&[submission(1, 1, 7, false), submission(2, 3, 8, true)]);
        let mut names = Vec::new();
        let reading = HistoryQuery {
            filter: &JobFilter::default(),
            only: Some(Uid(8)),
            most_ids: u64::MAX,
        };
        let more = store.history(reading, |row, of| {
            assert_eq!((of.uid, of.gid), (Uid(8), Gid(1)));
            names.push(name(row));
            Continuation::More
        });
        assert_eq!(more.unwrap(), None);
        assert_eq!(names, ["2_3", "2_2", "2_1"]);
    }
}
