//! Old submissions go into the archive of their month, with all their jobs, in small steps.
//!
//! A step copies some into the archive and makes that durable; then it takes their rows out of the
//! store: first the submission, by which everything else is found, then the rest, row by row, each
//! only where the archive has the same. What always holds: whatever step a crash interrupts, each
//! row is in one of the two, and the next step goes on there. Between the transactions in the store
//! there is a pause, in which others write.

use super::archives::{FOLDER, LAYOUT, Month};
use super::rows::have_all_ended;
use super::sql::{self, Connection, OptionalExtension, params};
use super::{Store, StoreError};
use cosy_model::Time;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Rows in one transaction, about.
const ROWS: u64 = 500;
/// Bytes of scripts and variables in one transaction, about.
const BYTES: u64 = 8 << 20;
/// Ended jobs that one step looks at.
const LOOKS: usize = 2000;
/// So many pages may be free in the file of the store.
const FREE_PAGES: i64 = 1000;
/// Longest pause between two transactions.
const PAUSE: Duration = Duration::from_millis(50);

/// The tables of an archive. Columns that history is searched by are those of the store.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS archive.submissions (
        base INTEGER PRIMARY KEY, ids INTEGER NOT NULL, uid INTEGER NOT NULL,
        user TEXT NOT NULL, queue TEXT NOT NULL, name TEXT NOT NULL, account TEXT NOT NULL,
        submit INTEGER NOT NULL, row BLOB NOT NULL,
        environment BLOB NOT NULL, script BLOB NOT NULL, flow INTEGER, dropped INTEGER) STRICT;
    CREATE TABLE IF NOT EXISTS archive.jobs (
        id INTEGER PRIMARY KEY, base INTEGER NOT NULL, state TEXT NOT NULL,
        start INTEGER, ended INTEGER, row BLOB NOT NULL, body INTEGER NOT NULL) STRICT;
    CREATE INDEX IF NOT EXISTS archive.jobs_ended ON jobs(ended) WHERE ended IS NOT NULL;
    CREATE TABLE IF NOT EXISTS archive.runs (
        id INTEGER NOT NULL, attempt INTEGER NOT NULL, base INTEGER NOT NULL, state TEXT NOT NULL,
        start INTEGER, ended INTEGER, row BLOB NOT NULL,
        PRIMARY KEY (id, attempt)) STRICT;
    CREATE TABLE IF NOT EXISTS archive.bodies (
        base INTEGER NOT NULL, number INTEGER NOT NULL, row BLOB NOT NULL,
        PRIMARY KEY (base, number)) STRICT;
    CREATE TABLE IF NOT EXISTS archive.steps (
        job INTEGER NOT NULL, attempt INTEGER NOT NULL, before INTEGER NOT NULL,
        count INTEGER NOT NULL, user_us INTEGER NOT NULL, system_us INTEGER NOT NULL,
        peak INTEGER NOT NULL, records BLOB NOT NULL, exit_code INTEGER NOT NULL,
        signal INTEGER NOT NULL, PRIMARY KEY (job, attempt, before)) STRICT;
    CREATE TABLE IF NOT EXISTS archive.live_submissions (base INTEGER PRIMARY KEY) STRICT;
";

/// A table whose rows go with the jobs or submissions that they belong to.
struct Following {
    table: &'static str,
    columns: &'static str,
    /// The column with the id of the job or submission.
    id: &'static str,
    /// When a row is the same there (`a`) as here (`m`).
    same: &'static str,
}

const FOLLOWING: [Following; 4] = [
    Following {
        table: "jobs",
        columns: "id, base, state, start, ended, row, body",
        id: "id",
        same: "a.id = m.id AND a.row = m.row",
    },
    Following {
        table: "runs",
        columns: "id, attempt, base, state, start, ended, row",
        id: "id",
        same: "a.id = m.id AND a.attempt = m.attempt AND a.row = m.row",
    },
    Following {
        table: "bodies",
        columns: "base, number, row",
        id: "base",
        same: "a.base = m.base AND a.number = m.number AND a.row = m.row",
    },
    Following {
        table: "steps",
        columns: "job, attempt, before, count, user_us, system_us, peak, records, exit_code, signal",
        id: "job",
        same: "a.job = m.job AND a.attempt = m.attempt AND a.before = m.before AND a.records = m.records",
    },
];

const SUBMISSION: &str =
    "base, ids, uid, user, queue, name, account, submit, row, environment, script, flow, dropped";

/// Nothing will start a job of the submission `s` again.
pub(super) const LIVES_NO_MORE: &str = "
    NOT EXISTS (SELECT 1 FROM live_submissions l WHERE l.base = s.base)
    AND NOT EXISTS (SELECT 1 FROM set_aside a
        WHERE a.source = 'job' AND a.object = CAST(s.base AS TEXT))";

/// How far a walk through old jobs has come.
#[derive(Debug)]
pub struct Walk {
    /// End and id of the job that was looked at last.
    after: (i64, u64),
    /// Months whose archives cannot be written, and why.
    pub failed: BTreeMap<Month, String>,
}

impl Default for Walk {
    fn default() -> Self {
        Self {
            after: (i64::MIN, 0),
            failed: BTreeMap::new(),
        }
    }
}

/// What one step has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// Jobs that went into archives.
    pub jobs: u64,
    /// Nothing old was left to look at.
    pub done: bool,
}

/// A submission that is over, and old.
#[derive(Clone, Debug)]
struct Unit {
    ids: Range<u64>,
    first_start: i64,
    last_end: i64,
    month: Month,
}

impl Store {
    /// Moves some submissions that were over before a moment into the archives of their months.
    ///
    /// # Errors
    /// [`StoreError`] of the store itself; what goes wrong with an archive is in the walk.
    pub fn archive_some(&mut self, before: Time, walk: &mut Walk) -> Result<Step, StoreError> {
        self.finish_leaving(walk)?;
        let (units, done) = self.next_units(before, walk)?;
        let Some(month) = units.first().map(|unit| unit.month) else {
            return Ok(Step { jobs: 0, done });
        };
        let moved = self.within(month, |store| {
            store.copy(&units)?;
            let jobs = store.switch(&units)?;
            store.clear(month)?;
            Ok(jobs)
        });
        let jobs = walk.judge(month, moved)?.unwrap_or(0);
        Ok(Step { jobs, done })
    }

    /// How many jobs ended before a moment, counted up to `most`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn ended_before(&self, before: Time, most: u64) -> Result<u64, StoreError> {
        self.sql(|c| {
            c.prepare_cached(
                "SELECT COUNT(*) FROM (SELECT 1 FROM jobs
                 WHERE ended IS NOT NULL AND ended < ?1 LIMIT ?2)",
            )?
            .query_row(params![before.0, most], |r| r.get(0))
        })
    }

    /// Ends and ids of the next jobs that ended before a moment, behind that end and id.
    pub(super) fn ended_after(
        &self,
        (ended, id): (i64, u64),
        before: Time,
        most: usize,
    ) -> Result<Vec<(i64, u64)>, StoreError> {
        self.sql(|c| {
            c.prepare_cached(
                "SELECT ended, id FROM jobs WHERE ended IS NOT NULL AND ended < ?1
                 AND ended >= ?2 AND (ended > ?2 OR id > ?3) ORDER BY ended, id LIMIT ?4",
            )?
            .query_map(params![before.0, ended, id, most], |r| Ok((r.get(0)?, r.get(1)?)))?
            .collect()
        })
    }

    /// Gives some of the room that is free in the file back to the disk; true when there is more.
    /// A store that an earlier release made keeps its room, and fills it again.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn shrink_some(&mut self) -> Result<bool, StoreError> {
        let begun = Instant::now();
        let Connection::Sqlite(c) = &self.connection else {
            return Ok(false); // a server looks after itself
        };
        let look = || {
            let mode: i64 = c.pragma_query_value(None, "auto_vacuum", |r| r.get(0))?;
            let free = |c: &rusqlite::Connection| -> rusqlite::Result<i64> {
                c.pragma_query_value(None, "freelist_count", |r| r.get(0))
            };
            const INCREMENTAL: i64 = 2;
            let pages: i64 = c.pragma_query_value(None, "page_count", |r| r.get(0))?;
            // What is free is needed again: a tenth stays.
            let too_much = |free: i64| free > (pages / 10).max(FREE_PAGES);
            if mode != INCREMENTAL || !too_much(free(c)?) {
                return Ok(false);
            }
            let mut work = c.prepare(&format!("PRAGMA incremental_vacuum({ROWS})"))?;
            let mut rows = work.query([])?;
            while rows.next()?.is_some() {}
            drop(rows);
            Ok(too_much(free(c)?))
        };
        let more = look().map_err(|e: rusqlite::Error| self.error(e.into()))?;
        give_way(begun);
        Ok(more)
    }

    /// Writes the whole file anew, without the room that is free in it. From then on room is given
    /// back as it becomes free ([`Self::shrink_some`]).
    ///
    /// # Errors
    /// [`StoreError`]; nothing was changed.
    pub fn compact(&mut self) -> Result<(), StoreError> {
        let Connection::Sqlite(c) = &self.connection else {
            return self.sql(|c| c.execute_batch("VACUUM"));
        };
        c.pragma_update(None, "auto_vacuum", "INCREMENTAL")
            .and_then(|()| c.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);"))
            .map_err(|e| self.error(e.into()))
    }

    /// Goes on where a crash has interrupted a step.
    fn finish_leaving(&mut self, walk: &mut Walk) -> Result<(), StoreError> {
        let months: Vec<Month> = self.sql(|c| {
            c.prepare_cached("SELECT DISTINCT month FROM leaving")?
                .query_map(params![], |r| r.get(0).map(Month))?
                .collect()
        })?;
        for month in months {
            if !walk.failed.contains_key(&month) {
                let cleared = self.within(month, |store| store.clear(month));
                walk.judge(month, cleared)?;
            }
        }
        Ok(())
    }

    /// The next submissions of one month that may leave; true when that was all.
    fn next_units(&self, before: Time, walk: &mut Walk) -> Result<(Vec<Unit>, bool), StoreError> {
        let ended = self.ended_after(walk.after, before, LOOKS)?;
        let done = ended.len() < LOOKS;
        let (mut units, mut rows, mut bytes): (Vec<Unit>, _, _) = (Vec::new(), 0, 0);
        for place in ended {
            // Each submission has a job with its own number, and is looked at once.
            if let Some((unit, size)) = self.unit(place.1, before)?
                && !walk.failed.contains_key(&unit.month)
            {
                let another = units.first().is_some_and(|first| first.month != unit.month);
                let ids = unit.ids.end - unit.ids.start;
                if another || (rows > 0 && (rows + ids > ROWS || bytes + size > BYTES)) {
                    return Ok((units, false));
                }
                (rows, bytes) = (rows + ids, bytes + size);
                units.push(unit);
            }
            walk.after = place;
        }
        Ok((units, done))
    }

    /// The submission with that number when it may leave, and bytes of it.
    fn unit(&self, base: u64, before: Time) -> Result<Option<(Unit, u64)>, StoreError> {
        let found: Option<(u64, u64, u64, i64, i64)> = self.sql(|c| {
            c.prepare_cached(&format!(
                "SELECT s.ids, LENGTH(s.row) + LENGTH(s.environment) + LENGTH(s.script),
                        COUNT(j.ended), MAX(j.ended), MIN(s.submit, MIN(COALESCE(j.start, s.submit)))
                 FROM submissions s JOIN jobs j ON j.id >= s.base AND j.id < s.base + s.ids
                 WHERE s.base = ?1 AND {LIVES_NO_MORE}
                 AND NOT EXISTS (SELECT 1 FROM flows f WHERE f.id = s.flow AND f.live = 1)
                 GROUP BY s.base",
            ))?
            .query_row(params![base], |r| {
                Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?))
            })
            .optional()
        })?;
        let Some((ids, bytes, ended, last_end, first_start)) = found else {
            return Ok(None);
        };
        let over = last_end < before.0 && self.sql(|c| have_all_ended(c, base, ended, ids))?;
        Ok(over.then(|| {
            let unit = Unit {
                ids: base..base.saturating_add(ids),
                first_start,
                last_end,
                month: Month::of(Time(last_end)),
            };
            (unit, bytes)
        }))
    }

    /// Works with the archive of a month at hand, which is made if there is none.
    fn within<T>(
        &mut self,
        month: Month,
        work: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let path = self.archive_path(month);
        let failed = |why| StoreError::Archive {
            path: path.clone(),
            why,
        };
        make_file(&path).map_err(|e| failed(e.to_string()))?;
        self.attach(&path).map_err(|e| failed(e.to_string()))?;
        let done = match prepare(&self.connection) {
            Ok(LAYOUT) => work(self).map_err(|e| failed(e.to_string())),
            Ok(other) => Err(failed(format!("it has layout {other}; this release knows {LAYOUT}"))),
            Err(e) => Err(failed(e.to_string())),
        };
        let detached = self.sql(|c| c.execute("DETACH DATABASE archive", params![]).map(drop));
        let done = done?;
        detached.map(|()| done)
    }

    fn attach(&self, path: &Path) -> Result<(), StoreError> {
        self.sql(|c| {
            let name = path
                .to_str()
                .ok_or_else(|| rusqlite::Error::InvalidPath(path.to_owned()))?;
            c.execute("ATTACH DATABASE ?1 AS archive", params![name])
                .map(drop)
        })
    }

    /// Copies submissions into the archive at hand. They are found there when all of them are.
    fn copy(&mut self, units: &[Unit]) -> Result<(), StoreError> {
        for unit in units.iter().filter(|unit| unit.is_large()) {
            for ids in unit.pieces() {
                self.in_archive(|t| copy_following(t, &ids))?;
            }
        }
        self.in_archive(|t| {
            for unit in units {
                if !unit.is_large() {
                    copy_following(t, &unit.ids)?;
                }
                t.prepare_cached(&format!(
                    "INSERT OR REPLACE INTO archive.submissions ({SUBMISSION})
                     SELECT {SUBMISSION} FROM main.submissions WHERE base = ?1"
                ))?
                .execute(params![unit.ids.start])?;
            }
            Ok(())
        })
    }

    /// From now on submissions are found in the archive at hand, and not in the store; tells how
    /// many jobs they have. One that lives again, or is not the same there, stays.
    fn switch(&mut self, units: &[Unit]) -> Result<u64, StoreError> {
        let mut jobs = 0;
        let begun = Instant::now();
        self.in_transaction(|t| {
            for unit in units {
                let (base, month) = (unit.ids.start, unit.month.0);
                let gone = t
                    .prepare_cached(
                        "DELETE FROM main.submissions AS m WHERE base = ?1
                         AND NOT EXISTS (SELECT 1 FROM live_submissions l WHERE l.base = m.base)
                         AND EXISTS (SELECT 1 FROM archive.submissions a
                             WHERE a.base = m.base AND a.row = m.row)",
                    )?
                    .execute(params![base])?;
                if gone == 0 {
                    continue;
                }
                let ids = unit.ids.end - base;
                jobs += ids;
                t.prepare_cached(
                    "INSERT OR REPLACE INTO main.leaving (base, ids, month) VALUES (?1, ?2, ?3)",
                )?
                .execute(params![base, ids, month])?;
                t.prepare_cached(
                    "INSERT INTO main.archives (month, first_id, end_id, first_start, last_end)
                     VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (month) DO UPDATE SET
                         first_id = MIN(first_id, excluded.first_id),
                         end_id = MAX(end_id, excluded.end_id),
                         first_start = MIN(first_start, excluded.first_start),
                         last_end = MAX(last_end, excluded.last_end)",
                )?
                .execute(params![
                    month,
                    base,
                    unit.ids.end,
                    unit.first_start,
                    unit.last_end
                ])?;
            }
            Ok(())
        })?;
        give_way(begun);
        Ok(jobs)
    }

    /// Takes what belongs to submissions that have left for the month at hand out of the store.
    fn clear(&mut self, month: Month) -> Result<(), StoreError> {
        loop {
            let leaving: Vec<(u64, u64)> = self.sql(|c| {
                c.prepare_cached("SELECT base, ids FROM main.leaving WHERE month = ?1 LIMIT ?2")?
                    .query_map(params![month.0, ROWS], |r| Ok((r.get(0)?, r.get(1)?)))?
                    .collect()
            })?;
            if leaving.is_empty() {
                return Ok(());
            }
            let mut differing = None;
            let begun = Instant::now();
            self.in_transaction(|t| {
                let mut rows = 0;
                for (base, ids) in leaving {
                    let ids = base..base.saturating_add(ids);
                    rows += clear_following(t, &ids)?;
                    if rows >= ROWS {
                        break;
                    }
                    if has_following(t, &ids)? {
                        differing = Some(ids);
                        break;
                    }
                    t.prepare_cached("DELETE FROM main.leaving WHERE base = ?1")?
                        .execute(params![base])?;
                }
                Ok(())
            })?;
            give_way(begun);
            if let Some(ids) = differing {
                // It came after it was copied: a node told of a step late.
                self.in_archive(|t| copy_following(t, &ids))?;
            }
        }
    }

    /// A transaction that only writes into the archive at hand: the store is not locked.
    fn in_archive(
        &mut self,
        work: impl FnOnce(&Connection) -> sql::Result<()>,
    ) -> Result<(), StoreError> {
        let done = self.connection.transact_deferred(work);
        done.map_err(|source| self.error(source))
    }
}

impl Walk {
    /// What went wrong with an archive is kept here, and others go on.
    fn judge<T>(
        &mut self,
        month: Month,
        done: Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match done {
            Ok(done) => Ok(Some(done)),
            Err(error @ StoreError::Archive { .. }) => {
                self.failed.insert(month, error.to_string());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Begins anew; archives that failed are tried again.
    pub fn begin_anew(&mut self) {
        *self = Self::default();
    }
}

impl Unit {
    const fn is_large(&self) -> bool {
        self.ids.end - self.ids.start > ROWS
    }

    fn pieces(&self) -> impl Iterator<Item = Range<u64>> {
        let end = self.ids.end;
        let starts = self.ids.clone().step_by(ROWS as usize);
        starts.map(move |from| from..end.min(from.saturating_add(ROWS)))
    }
}

fn copy_following(t: &Connection, ids: &Range<u64>) -> sql::Result<()> {
    for Following {
        table, columns, id, ..
    } in FOLLOWING
    {
        t.prepare_cached(&format!(
            "INSERT OR REPLACE INTO archive.{table} ({columns})
             SELECT {columns} FROM main.{table} WHERE {id} >= ?1 AND {id} < ?2"
        ))?
        .execute(params![ids.start, ids.end])?;
    }
    Ok(())
}

/// Removes rows that the archive has, as many as one transaction may; how many.
fn clear_following(t: &Connection, ids: &Range<u64>) -> sql::Result<u64> {
    let mut rows = 0;
    for Following {
        table, id, same, ..
    } in FOLLOWING
    {
        rows += t
            .prepare_cached(&format!(
                "DELETE FROM main.{table} WHERE rowid IN (
                     SELECT m.rowid FROM main.{table} m JOIN archive.{table} a ON {same}
                     WHERE m.{id} >= ?1 AND m.{id} < ?2 LIMIT ?3)"
            ))?
            .execute(params![ids.start, ids.end, ROWS])? as u64;
    }
    Ok(rows)
}

fn has_following(t: &Connection, ids: &Range<u64>) -> sql::Result<bool> {
    for Following { table, id, .. } in FOLLOWING {
        let found: bool = t
            .prepare_cached(&format!(
                "SELECT EXISTS (SELECT 1 FROM main.{table} WHERE {id} >= ?1 AND {id} < ?2)"
            ))?
            .query_row(params![ids.start, ids.end], |r| r.get(0))?;
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Makes the archive at hand ready to be written; its layout.
fn prepare(connection: &Connection) -> sql::Result<i64> {
    // EXTRA: a commit must not be undone by a journal that comes back after a power failure.
    connection.execute_batch("PRAGMA archive.synchronous = EXTRA;")?;
    let layout: i64 =
        connection.query_row("PRAGMA archive.user_version", params![], |r| r.get(0))?;
    if layout == 0 {
        connection.execute_batch(&format!(
            "BEGIN; {TABLES} PRAGMA archive.user_version = {LAYOUT}; COMMIT;"
        ))?;
        return Ok(LAYOUT);
    }
    Ok(layout)
}

/// Makes an empty file that others cannot open, and its folder, where there is none.
fn make_file(path: &Path) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new(FOLDER));
    if !folder.exists() {
        DirBuilder::new().mode(0o700).create(folder)?;
        if let Some(above) = folder.parent() {
            File::open(above)?.sync_all()?;
        }
    }
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?
        .sync_all()?;
    File::open(folder)?.sync_all()
}

/// Lets others write for as long as the transaction took.
fn give_way(begun: Instant) {
    std::thread::sleep(begun.elapsed().min(PAUSE));
}

#[cfg(test)]
mod tests;
