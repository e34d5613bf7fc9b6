//! What is read at the start: everything that still lives, and what of it cannot be read.

use super::outcomes::Outcomes;
use super::rows::decode;
use super::set_aside::{Table, Unit, Unreadable};
use super::sql::{self, FromColumn, OptionalExtension, params};
use super::{Store, StoreError};
use cosy_control::{
    ClockRow, JobRow, Loaded, NodeRow, OlderRow, OwnQueue, PolicyRow, RestoredRow, SubmissionRow,
};
use cosy_model::api::{JobRef, Reply};
use cosy_model::{JobId, LicenseUse, QueueState, Time, Uid, limits};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};

/// Live submissions with all their jobs, and answers, as they are loaded.
pub(super) struct Live {
    pub submissions: Vec<SubmissionRow>,
    pub jobs: Vec<JobRow>,
    pub answers: Vec<Answer>,
}

impl Store {
    /// Everything that still lives and is not set aside, and what of it cannot be read.
    ///
    /// # Errors
    /// [`StoreError::Sql`].
    pub fn load(&self) -> Result<(Loaded, Unreadable), StoreError> {
        let mut bad = Unreadable::new();
        let (submissions, jobs) = self.live_jobs(&mut bad)?;
        let live = Live {
            submissions,
            jobs,
            answers: self.answers()?,
        };
        self.load_with(live, bad)
    }

    /// The rest of it.
    pub(super) fn load_with(
        &self,
        live: Live,
        mut bad: Unreadable,
    ) -> Result<(Loaded, Unreadable), StoreError> {
        let Live {
            submissions,
            jobs,
            answers,
        } = live;
        let next_job = self.next_job()?;
        let last_event = self.number("SELECT COALESCE(MAX(seq), 0) FROM events")?;
        let mut loaded = Loaded {
            next_job,
            last_event,
            ..Loaded::default()
        };
        loaded.older = self.older()?;
        loaded.clock = self.clock()?;
        loaded.restored = self.restored()?;
        loaded.bodies = self.live_bodies(&mut bad)?;
        loaded.standings = self.numbered(
            "standings",
            "SELECT s.base, s.row FROM live_submissions l JOIN standings s ON s.base = l.base",
            |base| Unit::Submission(JobId(base)),
            &mut bad,
        )?;
        loaded.facts = self.facts(&submissions, &loaded.bodies, &jobs)?;
        loaded.steps = self.load_steps(&jobs)?;
        loaded.submissions = submissions;
        loaded.jobs = jobs;
        loaded.nodes = self.named::<String, NodeRow>(Table::Nodes, &mut bad)?;
        loaded.queues = self.named::<String, QueueState>(Table::Queues, &mut bad)?;
        loaded.own_queues = self.named::<String, OwnQueue>(Table::OwnQueues, &mut bad)?;
        loaded.license_use = self.named::<String, LicenseUse>(Table::LicenseUse, &mut bad)?;
        let policy = self.named::<String, PolicyRow>(Table::Policy, &mut bad)?;
        loaded.policy = policy.into_iter().map(|(_, row)| row).collect();
        loaded.node_keys = self.sql(|c| {
            let mut query = c.prepare_cached("SELECT name, key FROM node_keys")?;
            query
                .query_map(params![], |r| Ok((r.get(0)?, r.get(1)?)))?
                .collect()
        })?;
        loaded.revoked_keys = self.sql(|c| {
            let mut query = c.prepare_cached("SELECT key, node, at FROM revoked_keys")?;
            query
                .query_map(params![], |r| Ok((r.get(0)?, r.get(1)?, Time(r.get(2)?))))?
                .collect()
        })?;
        loaded.tokens = self.sql(|c| {
            let mut query = c.prepare_cached("SELECT hash, node, expiry FROM tokens")?;
            query
                .query_map(params![], |r| Ok((r.get(0)?, r.get(1)?, Time(r.get(2)?))))?
                .collect()
        })?;
        loaded.answers = answers;
        self.load_bookings(&mut loaded, &mut bad)?;
        self.load_flows(&mut loaded, &mut bad)?;
        self.load_triggers(&mut loaded, &mut bad)?;
        loaded.go_on_above_older();
        self.load_aside(&mut loaded)?;
        Ok((loaded, bad))
    }

    /// The lowest id that was never given out. Ids of submissions do not overlap: the last has the
    /// highest, unless it is in an archive.
    pub(super) fn next_job(&self) -> Result<u64, StoreError> {
        self.number(
            "SELECT COALESCE(MAX(next), 1) FROM (
                SELECT * FROM (SELECT base + ids AS next FROM submissions ORDER BY base DESC LIMIT 1) AS s
                UNION ALL SELECT value + 1 FROM counters WHERE name = 'jobs'
                UNION ALL SELECT MAX(end_id) FROM archives) AS all_ids",
        )
    }

    /// Live submissions and their jobs. One that cannot be read is none at all, and neither
    /// is one with such a job: without its row the job would be started again.
    fn live_jobs(
        &self,
        bad: &mut Unreadable,
    ) -> Result<(Vec<SubmissionRow>, Vec<JobRow>), StoreError> {
        let found: Vec<SubmissionRow> = self.numbered(
            "submissions",
            "SELECT l.base, s.row FROM live_submissions l JOIN submissions s ON s.base = l.base
             ORDER BY l.base",
            |base| Unit::Submission(JobId(base)),
            bad,
        )?;
        let mut jobs: Vec<JobRow> = Vec::new();
        let mut broken: BTreeMap<u64, String> = BTreeMap::new();
        self.sql(|c| {
            // CROSS: live submissions are few, and each has its jobs side by side.
            let mut query = c.prepare_cached(
                "SELECT l.base, j.row FROM live_submissions l
                 CROSS JOIN submissions s ON s.base = l.base
                 CROSS JOIN jobs j ON j.id >= s.base AND j.id < s.base + s.ids
                 ORDER BY l.base, j.id",
            )?;
            query.query(params![])?.each(|r| {
                match decode("jobs", r.bytes(1)?) {
                    Ok(row) => jobs.push(row),
                    Err(e) => drop(broken.insert(r.get(0)?, e.to_string())),
                }
                Ok(())
            })
        })?;
        let mut submissions = Vec::with_capacity(found.len());
        for row in found {
            match broken.remove(&row.base.0) {
                Some(why) => bad.push((Unit::Submission(row.base), why)),
                None => submissions.push(row),
            }
        }
        if !bad.is_empty() {
            // Jobs of what cannot be read go with it.
            let whole: BTreeSet<JobId> = submissions.iter().map(|row| row.base).collect();
            jobs.retain(|job| whole.contains(&job.base));
        }
        Ok((submissions, jobs))
    }

    /// Rows with their numbers; what cannot be read is left out and told.
    pub(super) fn numbered<T: DeserializeOwned>(
        &self,
        table: &'static str,
        query: &str,
        unit: impl Fn(u64) -> Unit,
        bad: &mut Unreadable,
    ) -> Result<Vec<T>, StoreError> {
        let rows: Vec<(u64, Vec<u8>)> = self.sql(|c| {
            c.prepare_cached(query)?
                .query_map(params![], |r| Ok((r.get(0)?, r.get(1)?)))?
                .collect()
        })?;
        let mut all = Vec::with_capacity(rows.len());
        for (id, blob) in rows {
            match decode(table, &blob) {
                Ok(row) => all.push(row),
                Err(e) => bad.push((unit(id), e.to_string())),
            }
        }
        Ok(all)
    }

    /// Of one that cannot be read nothing is known.
    fn older(&self) -> Result<Vec<OlderRow>, StoreError> {
        let blobs: Vec<Vec<u8>> = self.sql(|c| {
            c.prepare_cached("SELECT row FROM older ORDER BY at")?
                .query_map(params![], |r| r.get(0))?
                .collect()
        })?;
        Ok(blobs
            .iter()
            .filter_map(|blob| decode("older", blob).ok())
            .collect())
    }

    /// One that cannot be read says nothing.
    fn clock(&self) -> Result<Option<ClockRow>, StoreError> {
        let blob: Option<Vec<u8>> = self.sql(|c| {
            c.query_row("SELECT row FROM clock", params![], |r| r.get(0))
                .optional()
        })?;
        Ok(blob.and_then(|blob| decode("clock", &blob).ok()))
    }

    /// That it was restored is known also where the rest cannot be read.
    fn restored(&self) -> Result<Option<RestoredRow>, StoreError> {
        let blob: Option<Vec<u8>> = self.sql(|c| {
            c.query_row("SELECT row FROM restored", params![], |r| r.get(0))
                .optional()
        })?;
        Ok(blob.map(|blob| decode("restored", &blob).unwrap_or_default()))
    }

    fn live_bodies(&self, bad: &mut Unreadable) -> Result<Vec<(u32, SubmissionRow)>, StoreError> {
        let blobs: Vec<(u32, u64, Vec<u8>)> = self.sql(|c| {
            c.prepare_cached(
                "SELECT b.number, b.base, b.row
                 FROM live_submissions l JOIN bodies b ON b.base = l.base",
            )?
            .query_map(params![], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?
            .collect()
        })?;
        let mut all = Vec::with_capacity(blobs.len());
        for (number, base, blob) in blobs {
            match decode("bodies", &blob) {
                Ok(row) => all.push((number, row)),
                Err(e) => bad.push((Unit::Submission(JobId(base)), e.to_string())),
            }
        }
        Ok(all)
    }

    /// How jobs ended that live ones depend on and that do not live themselves.
    fn facts(
        &self,
        submissions: &[SubmissionRow],
        bodies: &[(u32, SubmissionRow)],
        jobs: &[JobRow],
    ) -> Result<Vec<(JobRef, bool)>, StoreError> {
        let changed = jobs.iter().filter_map(|j| j.changed.as_deref());
        let bodies = bodies.iter().map(|(_, body)| &*body.spec);
        let specs = submissions.iter().map(|s| &*s.spec).chain(bodies);
        let specs = specs.chain(changed);
        let live: BTreeSet<JobId> = submissions.iter().map(|s| s.base).collect();
        let targets: BTreeSet<JobRef> = specs
            .flat_map(|s| &s.dependencies)
            // The whole of a submission that lives is not over.
            .filter(|d| d.task.is_some() || !live.contains(&d.job))
            .map(|d| JobRef {
                job: d.job,
                task: d.task,
            })
            .collect();
        let (mut facts, mut outcomes) = (Vec::new(), Outcomes::new(self));
        for target in targets {
            match outcomes.of(target) {
                Ok(old) => facts.extend(old.ok.map(|ok| (target, ok))),
                // What cannot be read is not known.
                Err(StoreError::Row { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(facts)
    }

    /// Rows by name, in the order of names; what cannot be read is left out and told.
    pub(super) fn named<K: FromColumn + ToString, T: DeserializeOwned>(
        &self,
        table: Table,
        bad: &mut Unreadable,
    ) -> Result<Vec<(K, T)>, StoreError> {
        let (name, column, _) = table.names();
        let rows: Vec<(K, Vec<u8>)> = self.sql(|c| {
            c.prepare_cached(&format!("SELECT {column}, row FROM {name} ORDER BY {column}"))?
                .query_map(params![], |r| Ok((r.get(0)?, r.get(1)?)))?
                .collect()
        })?;
        let mut all = Vec::with_capacity(rows.len());
        for (key, blob) in rows {
            match decode(name, &blob) {
                Ok(row) => all.push((key, row)),
                Err(e) => bad.push((Unit::Named(table, key.to_string()), e.to_string())),
            }
        }
        Ok(all)
    }

    fn answers(&self) -> Result<Vec<Answer>, StoreError> {
        self.sql(|c| {
            c.prepare_cached(&format!("{ANSWERS} ORDER BY at DESC LIMIT ?2"))?
                .query_map(params![limits::ANSWER_BYTES, limits::ANSWERS], answer)?
                .filter_map(Result::transpose)
                .collect()
        })
    }
}

/// User, key, time, answer.
pub(super) type Answer = (Uid, [u8; 16], Time, Reply);

/// Answers of so many bytes at most: an earlier release kept those of any size.
pub(super) const ANSWERS: &str =
    "SELECT uid, key, at, reply FROM answers WHERE length(reply) <= ?1";

/// An answer in a row; one that cannot be read is forgotten, as all are after an hour.
pub(super) fn answer(r: &sql::Row<'_>) -> sql::Result<Option<Answer>> {
    let (uid, key, at): (u32, Vec<u8>, i64) = (r.get(0)?, r.get(1)?, r.get(2)?);
    let reply = decode("answers", r.bytes(3)?).ok();
    let whole = key.try_into().ok().zip(reply);
    Ok(whole.map(|(key, reply)| (Uid(uid), key, Time(at), reply)))
}
