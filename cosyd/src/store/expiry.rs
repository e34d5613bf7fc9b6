//! What the store does not keep for ever, though nothing takes its place: scripts and variables of
//! submissions that are over, and events.
//!
//! What always holds: a submission of which a job has not ended, or that is set aside, keeps its
//! script; the latest event stays, whose number and time the next start goes on from.

use super::archive::LIVES_NO_MORE;
use super::rows::have_all_ended;
use super::sql::{self, Connection, OptionalExtension, params};
use super::{Store, StoreError};
use cosy_model::Time;

/// Rows in one transaction.
const ROWS: usize = 500;

impl Store {
    /// Drops scripts and variables of some submissions that were over before a moment; true when
    /// there are no more.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was changed.
    pub fn drop_some_scripts(&mut self, before: Time, now: Time) -> Result<bool, StoreError> {
        let place: Option<(i64, u64)> = self.sql(|c| {
            c.prepare_cached("SELECT ended, id FROM progress WHERE what = 'scripts'")?
                .query_row(params![], |r| Ok((r.get(0)?, r.get(1)?)))
                .optional()
        })?;
        let place = place.unwrap_or((i64::MIN, 0));
        let ended = self.ended_after(place, before, ROWS)?;
        let Some(last) = ended.last().copied() else {
            self.drop_late(before, now)?;
            return Ok(true);
        };
        self.in_transaction(|t| {
            for (_, id) in ended {
                // Each submission has a job with its own number, and is looked at once.
                let kept: bool = t
                    .prepare_cached(
                        "SELECT EXISTS (SELECT 1 FROM submissions WHERE base = ?1 AND dropped IS NULL)",
                    )?
                    .query_row(params![id], |r| r.get(0))?;
                if kept && !drop_script(t, id, before, now)? {
                    t.prepare_cached("INSERT INTO undropped (base) VALUES (?1) ON CONFLICT DO NOTHING")?
                        .execute(params![id])?;
                }
            }
            t.prepare_cached(
                "INSERT INTO progress (what, ended, id) VALUES ('scripts', ?1, ?2) ON CONFLICT (what) DO UPDATE SET ended = excluded.ended, id = excluded.id",
            )?
            .run(params![last.0, last.1])
        })?;
        Ok(false)
    }

    /// Drops scripts of submissions that were not over when they were looked at, and variables of
    /// workflows.
    fn drop_late(&mut self, before: Time, now: Time) -> Result<(), StoreError> {
        let late: Vec<u64> = self.sql(|c| {
            c.prepare_cached("SELECT base FROM undropped ORDER BY base")?
                .query_map(params![], |r| r.get(0))?
                .collect()
        })?;
        for bases in late.chunks(ROWS) {
            let due = bases
                .iter()
                .map(|base| Ok((*base, is_over(&self.connection, *base, before)?)));
            let due: Vec<(u64, bool)> =
                due.collect::<sql::Result<_>>().map_err(|e| self.error(e))?;
            self.in_transaction(|t| {
                for (base, _) in due.into_iter().filter(|(_, is_due)| *is_due) {
                    drop_script(t, base, before, now)?;
                    t.prepare_cached("DELETE FROM undropped WHERE base = ?1")?
                        .execute(params![base])?;
                }
                Ok(())
            })?;
        }
        self.in_transaction(|t| {
            t.prepare_cached(
                "DELETE FROM undropped
                 WHERE NOT EXISTS (SELECT 1 FROM submissions s WHERE s.base = undropped.base)",
            )?
            .execute(params![])?;
            t.prepare_cached(
                "UPDATE flows SET environment = ?3 WHERE id IN (
                     SELECT id FROM flows WHERE ended IS NOT NULL AND ended < ?1 AND live = 0
                     AND LENGTH(environment) > 0 LIMIT ?2)",
            )?
            .run(params![before.0, ROWS, Vec::<u8>::new()])
        })
    }

    /// Forgets some of the events before a moment; true when there are no more.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was changed.
    pub fn forget_some_events(&mut self, before: Time) -> Result<bool, StoreError> {
        let first: Vec<(u64, i64)> = self.sql(|c| {
            c.prepare_cached(
                "SELECT seq, at FROM events WHERE seq < (SELECT MAX(seq) FROM events)
                 ORDER BY seq LIMIT ?1",
            )?
            .query_map(params![ROWS], |r| Ok((r.get(0)?, r.get(1)?)))?
            .collect()
        })?;
        let old = first.iter().take_while(|(_, at)| *at < before.0);
        let Some((last, _)) = old.last().copied() else {
            return Ok(true);
        };
        self.in_transaction(|t| {
            t.prepare_cached("DELETE FROM events WHERE seq <= ?1")?
                .run(params![last])
        })?;
        Ok(false)
    }
}

/// Drops script and variables of a submission; false when it was not over before that moment.
fn drop_script(t: &Connection, base: u64, before: Time, now: Time) -> sql::Result<bool> {
    if !is_over(t, base, before)? {
        return Ok(false);
    }
    t.prepare_cached(
        "UPDATE submissions SET script = ?3, environment = ?3, dropped = ?2 WHERE base = ?1",
    )?
    .execute(params![base, now.0, Vec::<u8>::new()])?;
    Ok(true)
}

/// Whether all jobs of a submission ended before a moment, and nothing will start one again.
fn is_over(c: &Connection, base: u64, before: Time) -> sql::Result<bool> {
    let found: Option<(u64, u64)> = c
        .prepare_cached(&format!(
            "SELECT COUNT(j.ended), s.ids
             FROM submissions s JOIN jobs j ON j.id >= s.base AND j.id < s.base + s.ids
             WHERE s.base = ?1 AND {LIVES_NO_MORE}
             GROUP BY s.base, s.ids HAVING MAX(j.ended) < ?2",
        ))?
        .query_row(params![base, before.0], |r| Ok((r.get(0)?, r.get(1)?)))
        .optional()?;
    match found {
        Some((ended, ids)) => have_all_ended(c, base, ended, ids),
        None => Ok(false),
    }
}
