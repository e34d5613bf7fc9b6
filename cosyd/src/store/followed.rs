//! What one who stands by has read of the live part of the leader's store on PostgreSQL, so that a
//! takeover reads only what has changed since.
//!
//! The leader writes nothing for it. PostgreSQL keeps with each row the number of the transaction that
//! wrote it (`xmin`). A look first asks which is the lowest number that is still under way; whatever the
//! next look does not see as it is here was written by that transaction or a later one. Numbers are
//! compared by their age, since they begin anew after 2³² of them; a row that is read once too often
//! does no harm.
//!
//! What always holds: what is followed was read over one connection to one server. Whoever loses it
//! begins anew, since another server may have given the same numbers to other transactions.

#[cfg(test)]
mod tests;

use super::load::{ANSWERS, Answer, Live, answer};
use super::rows::decode;
use super::sql::{self, Connection, params};
use super::{Store, StoreError};
use cosy_control::{JobRow, Loaded, SharedSpecs, SubmissionRow};
use cosy_model::api::Reply;
use cosy_model::{Time, Uid, limits};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Most ranges of ids in which one look reads.
const RANGES: usize = 64;
/// The number of no transaction: everything was written since.
const BEGINNING: &str = "0";
/// Which rows were written since the transaction of that number.
const WRITTEN_SINCE: &str = "age(xmin) <= age(CAST(?2 AS xid))";

/// Live submissions, their jobs, and answers.
#[derive(Debug)]
pub struct Followed {
    /// The lowest number of a transaction that was under way at the last look.
    since: String,
    /// In which epoch the database was at the last look.
    epoch: u64,
    /// Something cannot be read: then the store is read as a whole, which sets it aside.
    unreadable: bool,
    /// Equal requests are kept once.
    specs: SharedSpecs,
    rows: Rows,
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    submissions: BTreeMap<u64, SubmissionRow>,
    jobs: BTreeMap<u64, JobRow>,
    answers: BTreeMap<(Uid, [u8; 16]), (Time, Reply)>,
}

impl Default for Followed {
    fn default() -> Self {
        Self {
            since: BEGINNING.to_owned(),
            epoch: 0,
            unreadable: false,
            specs: SharedSpecs::default(),
            rows: Rows::default(),
        }
    }
}

impl Followed {
    /// How many submissions live.
    pub fn submissions(&self) -> usize {
        self.rows.submissions.len()
    }

    /// What was read; `None` where something cannot be.
    pub fn rows(&self) -> Option<&Rows> {
        (!self.unreadable).then_some(&self.rows)
    }

    /// The same for the leader of an epoch; `None` also where the database is in another one.
    pub fn into_rows_of(self, epoch: u64) -> Option<Rows> {
        (!self.unreadable && self.epoch == epoch).then_some(self.rows)
    }

    /// Ids of a submission's jobs: the first, and the one behind the last.
    fn ids(row: &SubmissionRow) -> (u64, u64) {
        (row.base.0, row.base.0.saturating_add(row.ids()))
    }

    /// Of those that live, in order: the ones that are not known yet.
    fn leave_what_lives_no_more(&mut self, live: &[u64]) -> BTreeSet<u64> {
        let (mut gone, mut new) = (Vec::new(), BTreeSet::new());
        let mut known = self.rows.submissions.keys().copied().peekable();
        for base in live {
            while let Some(before) = known.next_if(|known| known < base) {
                gone.push(before);
            }
            if known.next_if_eq(base).is_none() {
                new.insert(*base);
            }
        }
        gone.extend(known);
        gone.into_iter().for_each(|base| self.leave(base));
        new
    }

    fn leave(&mut self, base: u64) {
        if let Some(row) = self.rows.submissions.remove(&base) {
            let (first, end) = Self::ids(&row);
            let gone: Vec<u64> = self
                .rows
                .jobs
                .range(first..end)
                .map(|(id, _)| *id)
                .collect();
            for id in gone {
                self.rows.jobs.remove(&id);
            }
        }
    }

    fn read_submission(&mut self, bytes: &[u8]) {
        match decode::<SubmissionRow>("submissions", bytes) {
            Ok(mut row) => {
                row.spec = self.specs.share(row.spec);
                self.rows.submissions.insert(row.base.0, row);
            }
            Err(_) => self.unreadable = true,
        }
    }

    fn read_job(&mut self, id: u64, bytes: &[u8]) {
        match decode::<JobRow>("jobs", bytes) {
            Ok(row) if self.rows.submissions.contains_key(&row.base.0) => {
                self.rows.jobs.insert(id, row);
            }
            Ok(_) => {}
            Err(_) => self.unreadable = true,
        }
    }
}

impl From<Rows> for Live {
    fn from(rows: Rows) -> Self {
        let answers = rows.answers.into_iter();
        let mut answers: Vec<Answer> = answers
            .map(|((uid, key), (at, reply))| (uid, key, at, reply))
            .collect();
        answers.sort_by_key(|(uid, key, at, _)| (Reverse(*at), *uid, *key));
        answers.truncate(limits::ANSWERS);
        Self {
            submissions: rows.submissions.into_values().collect(),
            jobs: rows.jobs.into_values().collect(),
            answers,
        }
    }
}

/// Ranges that have all of these, at most [`RANGES`] of them: what is between two that are near each
/// other is in them too.
fn ranges(of: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let all: Vec<(u64, u64)> = of.collect();
    let gap = |pair: &[(u64, u64)]| match pair {
        [(_, end), (next, _)] => next.saturating_sub(*end),
        _ => 0,
    };
    let mut gaps: Vec<u64> = all.windows(2).map(gap).filter(|gap| *gap > 0).collect();
    gaps.sort_unstable_by_key(|gap| Reverse(*gap));
    let bridged = gaps.get(RANGES - 1).copied().unwrap_or(0);
    let mut some: Vec<(u64, u64)> = Vec::new();
    for (first, end) in all {
        match some.last_mut() {
            Some(last) if first.saturating_sub(last.1) <= bridged => last.1 = last.1.max(end),
            Some(_) | None => some.push((first, end)),
        }
    }
    some
}

impl Store {
    /// Looks what has changed since the last look.
    ///
    /// # Errors
    /// [`StoreError`]; what was followed is of no use any more. On SQLite nothing is followed.
    pub fn follow(&self, followed: &mut Followed) -> Result<(), StoreError> {
        let looked = self.connection.snapshot(|| self.look_at_live(followed));
        looked.map_err(|source| self.error(source))
    }

    /// Everything that still lives, out of what was followed up to now. `None` where something of it
    /// cannot be read.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn load_followed(&self, rows: Rows) -> Result<Option<Loaded>, StoreError> {
        let (loaded, bad) = self.load_with(rows.into(), Vec::new())?;
        Ok(bad.is_empty().then_some(loaded))
    }

    fn look_at_live(&self, followed: &mut Followed) -> sql::Result<()> {
        let c = &self.connection;
        let now = c.query_row(
            "SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS xid) AS TEXT)",
            params![],
            |r| r.get(0),
        )?;
        let epoch = "SELECT epoch FROM leader WHERE id = 1";
        followed.epoch = c.query_row(epoch, params![], |r| r.get(0))?;
        let live: Vec<u64> = c
            .prepare_cached("SELECT base FROM live_submissions ORDER BY base")?
            .query_map(params![], |r| r.get(0))?
            .collect::<sql::Result<_>>()?;
        let new = followed.leave_what_lives_no_more(&live);
        let since = std::mem::replace(&mut followed.since, now);
        let known = ranges(followed.rows.submissions.values().map(Followed::ids));
        read_jobs(c, followed, known, &since)?;
        new_submissions(c, followed, &new)?;
        followed.unreadable |= followed.rows.submissions.len() != live.len();
        answers(c, followed, &since)
    }
}

/// Rows of jobs with these ids that were written since, of submissions that are known.
fn read_jobs(
    c: &Connection,
    followed: &mut Followed,
    ids: Vec<(u64, u64)>,
    since: &str,
) -> sql::Result<()> {
    let text = format!("SELECT id, row FROM jobs WHERE id >= ?1 AND id < ?3 AND {WRITTEN_SINCE}");
    for (first, end) in ids {
        let mut query = c.prepare_cached(&text)?;
        query.query(params![first, since, end])?.each(|r| {
            followed.read_job(r.get(0)?, r.bytes(1)?);
            Ok(())
        })?;
    }
    Ok(())
}

/// Submissions that live since, with all their jobs, however old their rows are.
fn new_submissions(
    c: &Connection,
    followed: &mut Followed,
    new: &BTreeSet<u64>,
) -> sql::Result<()> {
    for (first, end) in ranges(new.iter().map(|base| (*base, base.saturating_add(1)))) {
        let mut query =
            c.prepare_cached("SELECT base, row FROM submissions WHERE base >= ?1 AND base < ?2")?;
        query.query(params![first, end])?.each(|r| {
            if new.contains(&r.get(0)?) {
                followed.read_submission(r.bytes(1)?);
            }
            Ok(())
        })?;
    }
    let submissions = &followed.rows.submissions;
    let found = new.iter().filter_map(|base| submissions.get(base));
    let ids = ranges(found.map(Followed::ids));
    read_jobs(c, followed, ids, BEGINNING)
}

/// Answers that were given since; those that the leader has forgotten go.
fn answers(c: &Connection, followed: &mut Followed, since: &str) -> sql::Result<()> {
    let known = &mut followed.rows.answers;
    c.prepare_cached(&format!("{ANSWERS} AND {WRITTEN_SINCE}"))?
        .query(params![limits::ANSWER_BYTES, since])?
        .each(|r| {
            if let Some((uid, key, at, reply)) = answer(r)? {
                known.insert((uid, key), (at, reply));
            }
            Ok(())
        })?;
    let count = "SELECT COUNT(*) FROM answers WHERE length(reply) <= ?1";
    let count: u64 = c.query_row(count, params![limits::ANSWER_BYTES], |r| r.get(0))?;
    if count == known.len() as u64 {
        return Ok(());
    }
    let there: BTreeSet<(u32, Vec<u8>)> = c
        .prepare_cached("SELECT uid, key FROM answers")?
        .query_map(params![], |r| Ok((r.get(0)?, r.get(1)?)))?
        .collect::<sql::Result<_>>()?;
    known.retain(|(uid, key), _| there.contains(&(uid.0, key.to_vec())));
    Ok(())
}
