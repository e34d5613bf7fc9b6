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

use super::rows::decode;
use super::sql::{self, Connection, params};
use super::{Store, StoreError};
use cosy_control::{JobRow, Loaded, SubmissionRow};
use cosy_model::api::Reply;
use cosy_model::{JobSpec, Time, Uid, limits};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most ranges of ids in which one look reads.
const RANGES: usize = 64;

/// Live submissions, their jobs, and answers.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// The lowest number of a transaction that was under way at the last look.
    since: Option<String>,
    /// In which epoch the database was at the last look.
    epoch: u64,
    /// Something cannot be read: then the store is read as a whole, which sets it aside.
    unreadable: bool,
    submissions: BTreeMap<u64, SubmissionRow>,
    jobs: BTreeMap<u64, JobRow>,
    answers: BTreeMap<(u32, Vec<u8>), (Time, Reply)>,
    latest: Latest,
}

/// What was asked for last: the next ones mostly ask for the same, and are kept once.
#[derive(Clone, Debug, Default)]
struct Latest(Vec<Arc<JobSpec>>);

impl Latest {
    /// Requests that are compared with the next one.
    const MOST: usize = 8;

    /// The row with a request that is there already, if that is equal.
    fn share(&mut self, mut row: SubmissionRow) -> SubmissionRow {
        match self.0.iter().find(|spec| **spec == row.spec) {
            Some(known) => row.spec = known.clone(),
            None => {
                self.0.truncate(Self::MOST - 1);
                self.0.insert(0, row.spec.clone());
            }
        }
        row
    }
}

impl Followed {
    /// How many submissions live.
    pub fn submissions(&self) -> usize {
        self.submissions.len()
    }

    /// The epoch of the database as of the last look.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Ids of a submission's jobs: the first, and the one behind the last.
    fn ids(row: &SubmissionRow) -> (u64, u64) {
        (row.base.0, row.base.0.saturating_add(row.ids()))
    }

    /// Of those that live, in order: the ones that are not known yet.
    fn leave_what_lives_no_more(&mut self, live: &[u64]) -> BTreeSet<u64> {
        let (mut gone, mut new) = (Vec::new(), BTreeSet::new());
        let mut known = self.submissions.keys().copied().peekable();
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
        if let Some(row) = self.submissions.remove(&base) {
            let (first, end) = Self::ids(&row);
            let gone: Vec<u64> = self.jobs.range(first..end).map(|(id, _)| *id).collect();
            for id in gone {
                self.jobs.remove(&id);
            }
        }
    }

    fn read_submission(&mut self, bytes: &[u8]) {
        match decode("submissions", bytes) {
            Ok(row) => {
                let row = self.latest.share(row);
                self.submissions.insert(row.base.0, row);
            }
            Err(_) => self.unreadable = true,
        }
    }

    fn read_job(&mut self, id: u64, bytes: &[u8]) {
        match decode::<JobRow>("jobs", bytes) {
            Ok(row) if self.submissions.contains_key(&row.base.0) => {
                self.jobs.insert(id, row);
            }
            Ok(_) => {}
            Err(_) => self.unreadable = true,
        }
    }
}

/// Answers as they are loaded.
type Answers = Vec<(Uid, [u8; 16], Time, Reply)>;

/// Live submissions with all their jobs, and answers.
pub(super) struct Live {
    pub submissions: Vec<SubmissionRow>,
    pub jobs: Vec<JobRow>,
    pub answers: Answers,
}

impl From<Followed> for Live {
    fn from(followed: Followed) -> Self {
        let mut answers: Answers = followed
            .answers
            .into_iter()
            .filter_map(|((uid, key), (at, reply))| {
                Some((Uid(uid), key.try_into().ok()?, at, reply))
            })
            .collect();
        answers.sort_by_key(|(uid, key, at, _)| (std::cmp::Reverse(*at), *uid, *key));
        answers.truncate(limits::ANSWERS);
        Self {
            submissions: followed.submissions.into_values().collect(),
            jobs: followed.jobs.into_values().collect(),
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
    gaps.sort_unstable_by_key(|gap| std::cmp::Reverse(*gap));
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

    /// Everything that still lives, out of what was followed and what has changed since. `None` where
    /// that has something that cannot be read, or the database is not in that epoch.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn load_followed(
        &self,
        mut followed: Followed,
        epoch: u64,
    ) -> Result<Option<Loaded>, StoreError> {
        self.follow(&mut followed)?;
        if followed.unreadable || followed.epoch != epoch {
            return Ok(None);
        }
        let (loaded, bad) = self.load_with(followed.into(), Vec::new())?;
        Ok(bad.is_empty().then_some(loaded))
    }

    fn look_at_live(&self, followed: &mut Followed) -> sql::Result<()> {
        let c = &self.connection;
        let now: String = c.query_row(
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
        let since = followed.since.clone();
        if let Some(since) = &since {
            changed_jobs(c, followed, since)?;
        }
        new_submissions(c, followed, &new)?;
        followed.unreadable |= followed.submissions.len() != live.len();
        answers(c, followed, since.as_deref())?;
        followed.since = Some(now);
        Ok(())
    }
}

/// Rows of jobs that were written since, of submissions that are known.
fn changed_jobs(c: &Connection, followed: &mut Followed, since: &str) -> sql::Result<()> {
    for (first, end) in ranges(followed.submissions.values().map(Followed::ids)) {
        let mut query = c.prepare_cached(
            "SELECT id, row FROM jobs
             WHERE id >= ?1 AND id < ?2 AND age(xmin) <= age(CAST(?3 AS xid))",
        )?;
        let mut rows = query.query(params![first, end, since])?;
        let read = |followed: &mut Followed, r: &sql::Row<'_>| {
            followed.read_job(r.get(0)?, r.bytes(1)?);
            Ok(())
        };
        while rows.next_with(|r| read(followed, r))?.is_some() {}
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
        let mut rows = query.query(params![first, end])?;
        let read = |followed: &mut Followed, r: &sql::Row<'_>| {
            if new.contains(&r.get(0)?) {
                followed.read_submission(r.bytes(1)?);
            }
            Ok(())
        };
        while rows.next_with(|r| read(followed, r))?.is_some() {}
    }
    let rows = new
        .iter()
        .filter_map(|base| followed.submissions.get(base).map(Followed::ids));
    for (first, end) in ranges(rows) {
        let mut query = c.prepare_cached("SELECT id, row FROM jobs WHERE id >= ?1 AND id < ?2")?;
        let mut rows = query.query(params![first, end])?;
        let read = |followed: &mut Followed, r: &sql::Row<'_>| {
            followed.read_job(r.get(0)?, r.bytes(1)?);
            Ok(())
        };
        while rows.next_with(|r| read(followed, r))?.is_some() {}
    }
    Ok(())
}

/// Answers that were given since; those that the leader has forgotten go.
fn answers(c: &Connection, followed: &mut Followed, since: Option<&str>) -> sql::Result<()> {
    let short = "SELECT uid, key, at, reply FROM answers WHERE length(reply) <= ?1";
    let later = format!("{short} AND age(xmin) <= age(CAST(?2 AS xid))");
    let bytes = limits::ANSWER_BYTES;
    let mut query = c.prepare_cached(if since.is_some() { &later } else { short })?;
    let mut rows = match since {
        Some(since) => query.query(params![bytes, since])?,
        None => query.query(params![bytes])?,
    };
    let read = |followed: &mut Followed, r: &sql::Row<'_>| {
        // One that cannot be read is forgotten, as all are after an hour.
        if let Ok(reply) = decode("answers", r.bytes(3)?) {
            let key = (r.get(0)?, r.get(1)?);
            followed.answers.insert(key, (Time(r.get(2)?), reply));
        }
        Ok(())
    };
    while rows.next_with(|r| read(followed, r))?.is_some() {}
    let count = "SELECT COUNT(*) FROM answers WHERE length(reply) <= ?1";
    let count: u64 = c.query_row(count, params![bytes], |r| r.get(0))?;
    if count == followed.answers.len() as u64 {
        return Ok(());
    }
    let there: BTreeSet<(u32, Vec<u8>)> = c
        .prepare_cached("SELECT uid, key FROM answers")?
        .query_map(params![], |r| Ok((r.get(0)?, r.get(1)?)))?
        .collect::<sql::Result<_>>()?;
    followed.answers.retain(|key, _| there.contains(key));
    Ok(())
}
