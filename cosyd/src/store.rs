//! The durable state in SQLite: WAL, `synchronous=FULL`, one transaction per batch.
//!
//! Rows are the state, encoded as MessagePack maps so that a later release reads them;
//! beside them are the columns that history is searched by. The event table is written
//! in the same transactions. Knows nothing of what the rows mean. Reservations and money
//! have a module of their own, [`bookings`], and so have steps and workflows.

pub mod aside;
pub mod bookings;
mod flows;
pub mod history;
pub mod outcomes;
mod queues;
pub mod steps;
#[cfg(test)]
mod tests;
mod triggers;

use aside::{Table, Unit, Unreadable};
use cosy_control::{ClockRow, JobRow, Loaded, NodeRow, OlderRow, OwnQueue, Record, SubmissionRow};
use cosy_model::api::{HistoryEvent, JobRef};
use cosy_model::{JobId, OsText, QueueState, Time, Uid, limits};
use outcomes::Outcomes;
use rusqlite::types::{FromSql, Value};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde::{Serialize, de::DeserializeOwned};
use std::path::{Path, PathBuf};

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite says no.
    #[error("the database {path}: {source}")]
    Sql {
        /// Where the database is.
        path: PathBuf,
        /// The reason that SQLite gives.
        source: rusqlite::Error,
    },
    /// A row is not what was written.
    #[error("the database has an unreadable row in {table}: {why}")]
    Row {
        /// Name of the row's table.
        table: &'static str,
        /// What is wrong with the row.
        why: String,
    },
    /// Written by a later release.
    #[error("the database has schema {found}; this release knows up to {known}")]
    TooNew {
        /// Its schema.
        found: i64,
        /// The latest known here.
        known: i64,
    },
}

/// Steps from one schema to the next. Never change one that was released.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE submissions (
        base INTEGER PRIMARY KEY, ids INTEGER NOT NULL, uid INTEGER NOT NULL,
        user TEXT NOT NULL, queue TEXT NOT NULL, name TEXT NOT NULL, account TEXT NOT NULL,
        submit INTEGER NOT NULL, live INTEGER NOT NULL, row BLOB NOT NULL,
        environment BLOB NOT NULL, script BLOB NOT NULL) STRICT;
    CREATE INDEX submissions_live ON submissions(base) WHERE live = 1;
    CREATE TABLE jobs (
        id INTEGER PRIMARY KEY, base INTEGER NOT NULL, state TEXT NOT NULL,
        start INTEGER, ended INTEGER, row BLOB NOT NULL) STRICT;
    CREATE INDEX jobs_ended ON jobs(ended) WHERE ended IS NOT NULL;
    CREATE TABLE events (
        seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, what TEXT NOT NULL, who TEXT NOT NULL,
        object TEXT NOT NULL, detail TEXT NOT NULL) STRICT;
    CREATE TABLE nodes (name TEXT PRIMARY KEY, row BLOB NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE queues (name TEXT PRIMARY KEY, row BLOB NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE node_keys (name TEXT PRIMARY KEY, key TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE tokens (
        hash TEXT PRIMARY KEY, node TEXT NOT NULL, expiry INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE answers (
        uid INTEGER NOT NULL, key BLOB NOT NULL, at INTEGER NOT NULL, reply BLOB NOT NULL,
        PRIMARY KEY (uid, key)) STRICT, WITHOUT ROWID;
    CREATE INDEX answers_at ON answers(at);
    CREATE TABLE probe (id INTEGER PRIMARY KEY, n INTEGER NOT NULL) STRICT;
    INSERT INTO probe VALUES (1, 0);
",
    bookings::TABLES,
    steps::TABLES,
    steps::EXITS,
    flows::TABLES,
    queues::TABLES,
    LIVE,
    triggers::TABLES,
    REVOKED,
    BODIES,
    aside::TABLES,
    OLDER,
    CLOCK,
];

/// Schema 7: which submissions live, in a table of its own. In a column beside scripts and
/// variables the end of each took a page of several kilobytes to be read and written anew.
/// The column `submissions.live` means nothing any more.
const LIVE: &str = "
    CREATE TABLE live_submissions (base INTEGER PRIMARY KEY) STRICT;
    INSERT INTO live_submissions SELECT base FROM submissions WHERE live = 1;
    DROP INDEX submissions_live;
";

/// Keys of nodes that were revoked and are never accepted again.
const REVOKED: &str = "
    CREATE TABLE revoked_keys (
        key TEXT PRIMARY KEY, node TEXT NOT NULL, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
";

/// What changed jobs ask for, once for all that ask for the same, and how tasks of arrays stand
/// that have no row of their own.
const BODIES: &str = "
    CREATE TABLE bodies (
        base INTEGER NOT NULL, number INTEGER NOT NULL, row BLOB NOT NULL,
        PRIMARY KEY (base, number)) STRICT;
    CREATE TABLE standings (base INTEGER PRIMARY KEY, row BLOB NOT NULL) STRICT;
    ALTER TABLE jobs ADD COLUMN body INTEGER NOT NULL DEFAULT 0;
";

/// When the store was older than what nodes had seen, and what was given out since by the one
/// that is lost.
const OLDER: &str = "
    CREATE TABLE older (at INTEGER NOT NULL, row BLOB NOT NULL) STRICT;
";

/// How the clocks of the controller that wrote last stood to each other: one row.
const CLOCK: &str = "
    CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 1), row BLOB NOT NULL) STRICT;
";

/// An open store.
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

/// What a submission has beside its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Script text.
    pub script: OsText,
    /// The user's variables.
    pub environment: OsText,
}

impl Store {
    /// Opens the store for writing, makes or migrates it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let store = Self::connect(path)?;
        store.sql(|c| {
            c.pragma_update(None, "journal_mode", "WAL")?;
            c.pragma_update(None, "synchronous", "FULL")?;
            c.pragma_update(None, "cache_size", -4000)?;
            c.set_prepared_statement_cache_capacity(64);
            Ok(())
        })?;
        store.migrate()?;
        Ok(store)
    }

    /// Opens it a second time, for reading.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open_reader(path: &Path) -> Result<Self, StoreError> {
        let store = Self::connect(path)?;
        store.sql(|c| {
            c.pragma_update(None, "query_only", "ON")?;
            c.pragma_update(None, "cache_size", -2000)
        })?;
        Ok(store)
    }

    fn connect(path: &Path) -> Result<Self, StoreError> {
        let sql = |source| StoreError::Sql {
            path: path.to_owned(),
            source,
        };
        let connection = Connection::open(path).map_err(sql)?;
        connection
            .busy_timeout(std::time::Duration::from_secs(5))
            .map_err(sql)?;
        Ok(Self {
            connection,
            path: path.to_owned(),
        })
    }

    fn sql<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        work(&self.connection).map_err(|source| self.error(source))
    }

    fn error(&self, source: rusqlite::Error) -> StoreError {
        StoreError::Sql {
            path: self.path.clone(),
            source,
        }
    }

    fn migrate(&self) -> Result<(), StoreError> {
        let known = MIGRATIONS.len() as i64;
        let found: i64 =
            self.sql(|c| c.pragma_query_value(None, "user_version", |row| row.get(0)))?;
        if found > known {
            return Err(StoreError::TooNew { found, known });
        }
        for (at, step) in MIGRATIONS.iter().enumerate().skip(found as usize) {
            self.sql(|c| {
                let version = at + 1;
                c.execute_batch(&format!(
                    "BEGIN IMMEDIATE; {step} PRAGMA user_version = {version}; COMMIT;"
                ))
            })?;
        }
        Ok(())
    }

    /// Makes all records durable in one transaction, or none.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was changed.
    pub fn commit(&mut self, records: &[Record]) -> Result<(), StoreError> {
        self.in_transaction(|t| records.iter().try_for_each(|record| write(t, record)))
    }

    /// Writes something without meaning: whether the store can be written again.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn probe(&mut self) -> Result<(), StoreError> {
        self.sql(|c| c.execute("UPDATE probe SET n = n + 1 WHERE id = 1", []))
            .map(drop)
    }

    /// Everything that still lives and is not set aside, and what of it cannot be read.
    ///
    /// # Errors
    /// [`StoreError::Sql`].
    pub fn load(&self) -> Result<(Loaded, Unreadable), StoreError> {
        let mut bad = Unreadable::new();
        let (submissions, jobs) = self.live_jobs(&mut bad)?;
        let next_job = self.number("SELECT COALESCE(MAX(base + ids), 1) FROM submissions")?;
        let last_event = self.number("SELECT COALESCE(MAX(seq), 0) FROM events")?;
        let mut loaded = Loaded {
            next_job,
            last_event,
            ..Loaded::default()
        };
        loaded.older = self.older()?;
        loaded.clock = self.clock()?;
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
        loaded.node_keys = self.sql(|c| {
            let mut query = c.prepare("SELECT name, key FROM node_keys")?;
            query
                .query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?
                .collect()
        })?;
        loaded.revoked_keys = self.sql(|c| {
            let mut query = c.prepare("SELECT key, node, at FROM revoked_keys")?;
            query
                .query_map([], |r| Ok((r.get(0)?, r.get(1)?, Time(r.get(2)?))))?
                .collect()
        })?;
        loaded.tokens = self.sql(|c| {
            let mut query = c.prepare("SELECT hash, node, expiry FROM tokens")?;
            query
                .query_map([], |r| Ok((r.get(0)?, r.get(1)?, Time(r.get(2)?))))?
                .collect()
        })?;
        loaded.answers = self.answers()?;
        self.load_bookings(&mut loaded, &mut bad)?;
        self.load_flows(&mut loaded, &mut bad)?;
        self.load_triggers(&mut loaded, &mut bad)?;
        loaded.go_on_above_older();
        self.load_aside(&mut loaded)?;
        Ok((loaded, bad))
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
        let mut submissions = Vec::with_capacity(found.len());
        let mut jobs: Vec<JobRow> = Vec::new();
        for row in found {
            match self.blobs_of("jobs", row.base.0, row.base.0.saturating_add(row.ids())) {
                Ok(rows) => {
                    jobs.extend(rows);
                    submissions.push(row);
                }
                Err(e @ StoreError::Row { .. }) => {
                    bad.push((Unit::Submission(row.base), e.to_string()));
                }
                Err(e @ (StoreError::Sql { .. } | StoreError::TooNew { .. })) => return Err(e),
            }
        }
        Ok((submissions, jobs))
    }

    /// Rows with their numbers; what cannot be read is left out and told.
    fn numbered<T: DeserializeOwned>(
        &self,
        table: &'static str,
        query: &str,
        unit: impl Fn(u64) -> Unit,
        bad: &mut Unreadable,
    ) -> Result<Vec<T>, StoreError> {
        let rows: Vec<(u64, Vec<u8>)> = self.sql(|c| {
            c.prepare(query)?
                .query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?
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
            c.prepare("SELECT row FROM older ORDER BY at")?
                .query_map([], |r| r.get(0))?
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
            c.query_row("SELECT row FROM clock", [], |r| r.get(0))
                .optional()
        })?;
        Ok(blob.and_then(|blob| decode("clock", &blob).ok()))
    }

    fn live_bodies(&self, bad: &mut Unreadable) -> Result<Vec<(u32, SubmissionRow)>, StoreError> {
        let blobs: Vec<(u32, u64, Vec<u8>)> = self.sql(|c| {
            c.prepare(
                "SELECT b.number, b.base, b.row
                 FROM live_submissions l JOIN bodies b ON b.base = l.base",
            )?
            .query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?
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
        let bodies = bodies.iter().map(|(_, body)| &body.spec);
        let specs = submissions.iter().map(|s| &s.spec).chain(bodies);
        let specs = specs.chain(changed);
        let (mut facts, mut outcomes) = (Vec::new(), Outcomes::new(self));
        for d in specs.flat_map(|s| &s.dependencies) {
            let target = JobRef {
                job: d.job,
                task: d.task,
            };
            match outcomes.of(target) {
                Ok(old) => facts.extend(old.ok.map(|ok| (target, ok))),
                // What cannot be read is not known.
                Err(StoreError::Row { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(facts)
    }

    fn submission_of(&self, job: JobId) -> Result<Option<(SubmissionRow, bool)>, StoreError> {
        let found: Option<(Vec<u8>, bool)> = self.sql(|c| {
            c.prepare_cached(
                "SELECT row, EXISTS (SELECT 1 FROM live_submissions l WHERE l.base = s.base)
                 FROM submissions s WHERE s.base <= ?1 AND s.base + s.ids > ?1
                 ORDER BY s.base DESC LIMIT 1",
            )?
            .query_row([job.0], |r| Ok((r.get(0)?, r.get(1)?)))
            .optional()
        })?;
        found
            .map(|(blob, live)| Ok((decode("submissions", &blob)?, live)))
            .transpose()
    }

    /// Script and variables of a submission.
    ///
    /// # Errors
    /// [`StoreError`]; also when there is none.
    pub fn payload(&self, base: JobId) -> Result<Payload, StoreError> {
        self.sql(|c| {
            c.prepare_cached(
                "SELECT script, COALESCE(
                    (SELECT f.environment FROM flows f WHERE f.id = s.flow), s.environment)
                 FROM submissions s WHERE base = ?1",
            )?
            .query_row([base.0], |r| {
                Ok(Payload {
                    script: OsText(r.get(0)?),
                    environment: OsText(r.get(1)?),
                })
            })
        })
    }

    /// The script of a job, and whose it is.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn script(&self, job: JobId) -> Result<Option<(Uid, OsText)>, StoreError> {
        match self.submission_of(job)? {
            Some((row, _)) => Ok(Some((row.uid, self.payload(row.base)?.script))),
            None => Ok(None),
        }
    }

    /// Events after a number, oldest first: at most so many, and no more than a page of them.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn events(
        &self,
        after: u64,
        most: u32,
        latest: bool,
    ) -> Result<Vec<HistoryEvent>, StoreError> {
        let event = |r: &rusqlite::Row<'_>| {
            Ok(HistoryEvent {
                seq: r.get(0)?,
                at: Time(r.get(1)?),
                what: r.get(2)?,
                who: r.get(3)?,
                object: r.get(4)?,
                detail: r.get(5)?,
            })
        };
        let bytes = |e: &HistoryEvent| {
            EVENT_BYTES + e.what.len() + e.who.len() + e.object.len() + e.detail.len()
        };
        let query = match latest {
            true => {
                "SELECT seq, at, what, who, object, detail FROM events WHERE seq > ?1 ORDER BY seq DESC LIMIT ?2"
            }
            false => {
                "SELECT seq, at, what, who, object, detail FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2"
            }
        };
        let mut page = self.sql(|c| {
            let mut query = c.prepare_cached(query)?;
            let rows = query.query_map(params![after, most.min(limits::EVENT_ROWS)], event)?;
            page_of(rows, bytes)
        })?;
        if latest {
            page.reverse();
        }
        Ok(page)
    }

    fn number(&self, query: &str) -> Result<u64, StoreError> {
        self.sql(|c| c.query_row(query, [], |r| r.get(0)))
    }

    fn blobs_of(&self, table: &'static str, from: u64, to: u64) -> Result<Vec<JobRow>, StoreError> {
        let blobs: Vec<Vec<u8>> = self.sql(|c| {
            c.prepare_cached("SELECT row FROM jobs WHERE id >= ?1 AND id < ?2 ORDER BY id")?
                .query_map(params![from, to], |r| r.get(0))?
                .collect()
        })?;
        blobs.iter().map(|b| decode(table, b)).collect()
    }

    /// Rows by name, in the order of names; what cannot be read is left out and told.
    fn named<K: FromSql + ToString, T: DeserializeOwned>(
        &self,
        table: Table,
        bad: &mut Unreadable,
    ) -> Result<Vec<(K, T)>, StoreError> {
        let (name, column, _) = table.names();
        let rows: Vec<(K, Vec<u8>)> = self.sql(|c| {
            c.prepare(&format!(
                "SELECT {column}, row FROM {name} ORDER BY {column}"
            ))?
            .query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?
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

    #[allow(clippy::type_complexity)]
    fn answers(&self) -> Result<Vec<(Uid, [u8; 16], Time, cosy_model::api::Reply)>, StoreError> {
        let rows: Vec<(u32, Vec<u8>, i64, Vec<u8>)> = self.sql(|c| {
            // An earlier release kept answers of any size.
            c.prepare(
                "SELECT uid, key, at, reply FROM answers WHERE length(reply) <= ?1
                 ORDER BY at DESC LIMIT ?2",
            )?
            .query_map((limits::ANSWER_BYTES, limits::ANSWERS), |r| {
                Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?))
            })?
            .collect()
        })?;
        let mut answers = Vec::new();
        for (uid, key, at, reply) in rows {
            // One that cannot be read is forgotten, as all are after an hour.
            if let Ok(key) = key.try_into()
                && let Ok(reply) = decode("answers", &reply)
            {
                answers.push((Uid(uid), key, Time(at), reply));
            }
        }
        Ok(answers)
    }
}

/// Bytes of an event beside its texts.
const EVENT_BYTES: usize = 64;

/// Rows until a page is full: what comes after them is asked for by the number of the last.
fn page_of<T>(
    rows: impl Iterator<Item = rusqlite::Result<T>>,
    bytes: impl Fn(&T) -> usize,
) -> rusqlite::Result<Vec<T>> {
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
struct Query {
    text: String,
    values: Vec<Value>,
}

impl Query {
    fn and(&mut self, condition: &str, values: impl IntoIterator<Item = Value>) {
        self.text.push_str(" AND ");
        self.text.push_str(condition);
        self.values.extend(values);
    }

    fn one_of(&mut self, column: &str, texts: &[String]) {
        if !texts.is_empty() {
            let marks = vec!["?"; texts.len()].join(",");
            let values = texts.iter().map(|t| Value::from(t.clone()));
            self.and(&format!("{column} IN ({marks})"), values);
        }
    }

    /// Only of that user's.
    fn only(&mut self, uid: Option<Uid>) {
        if let Some(uid) = uid {
            self.and("s.uid = ?", [Value::from(i64::from(uid.0))]);
        }
    }

    /// Users by name, or by uid in digits.
    fn users(&mut self, users: &[String]) {
        if !users.is_empty() {
            let marks = vec!["?"; users.len()].join(",");
            let values = || users.iter().map(|u| Value::from(u.clone()));
            let both = format!("(s.user IN ({marks}) OR CAST(s.uid AS TEXT) IN ({marks}))");
            self.and(&both, values().chain(values()));
        }
    }
}

fn encode<T: Serialize>(value: &T) -> rusqlite::Result<Vec<u8>> {
    rmp_serde::to_vec_named(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))
}

fn decode<T: DeserializeOwned>(table: &'static str, blob: &[u8]) -> Result<T, StoreError> {
    rmp_serde::from_slice(blob).map_err(|e| StoreError::Row {
        table,
        why: e.to_string(),
    })
}

fn write(t: &Transaction<'_>, record: &Record) -> rusqlite::Result<()> {
    let run = |sql: &str, values: &[&dyn rusqlite::ToSql]| -> rusqlite::Result<()> {
        t.prepare_cached(sql)?.execute(values).map(drop)
    };
    let lives = |base: JobId| {
        run(
            "INSERT OR IGNORE INTO live_submissions (base) VALUES (?1)",
            params![base.0],
        )
    };
    match record {
        Record::Submitted {
            row,
            script,
            environment,
        } => {
            run(
                "INSERT INTO submissions (base, ids, uid, user, queue, name, account, submit, live, row, environment, script, flow)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, ?9, ?10, ?11, ?12)",
                params![
                    row.base.0, row.ids(), row.uid.0, row.user, row.queue, row.spec.name,
                    row.spec.account.as_deref().unwrap_or(""), row.submit.0, encode(row)?,
                    environment.0, script.0, row.flow.map(|of| of.flow.0)
                ],
            )?;
            lives(row.base)
        }
        Record::Body { number, row } => run(
            "INSERT OR REPLACE INTO bodies (base, number, row) VALUES (?1, ?2, ?3)",
            params![row.base.0, number, encode(row)?],
        ),
        Record::BodyGone { base, number } => run(
            "DELETE FROM bodies WHERE base = ?1 AND number = ?2",
            params![base.0, number],
        ),
        Record::Standing(row) => run(
            "INSERT OR REPLACE INTO standings (base, row) VALUES (?1, ?2)",
            params![row.base.0, encode(row)?],
        ),
        Record::Job(row) => {
            let end = row.end.as_ref();
            let start = end
                .and_then(|e| e.start)
                .or(row.run.as_ref().and_then(|r| r.started));
            run(
                "INSERT OR REPLACE INTO jobs (id, base, state, start, ended, row, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    row.id.0,
                    row.base.0,
                    row.state.word(),
                    start.map(|t| t.0),
                    end.map(|e| e.end.0),
                    encode(row)?,
                    row.body
                ],
            )
        }
        Record::SubmissionLives(base) => lives(*base),
        Record::Older(row) => run(
            "INSERT INTO older (at, row) VALUES (?1, ?2)",
            params![row.at.0, encode(row)?],
        ),
        Record::Clock(row) => run(
            "INSERT OR REPLACE INTO clock (id, row) VALUES (1, ?1)",
            params![encode(row)?],
        ),
        Record::SubmissionDone(base) => {
            run(
                "DELETE FROM live_submissions WHERE base = ?1",
                params![base.0],
            )?;
            // All its jobs have rows of their own now.
            run("DELETE FROM standings WHERE base = ?1", params![base.0])
        }
        Record::Node { name, row } => run(
            "INSERT OR REPLACE INTO nodes (name, row) VALUES (?1, ?2)",
            params![name, encode(row)?],
        ),
        Record::Queue { name, state } => run(
            "INSERT OR REPLACE INTO queues (name, row) VALUES (?1, ?2)",
            params![name, encode(state)?],
        ),
        Record::OwnQueue { name, row } => queues::write(t, name, row.as_deref()),
        Record::NodeKey { name, key } => run(
            "INSERT OR REPLACE INTO node_keys (name, key) VALUES (?1, ?2)",
            params![name, key],
        ),
        Record::NodeKeyGone { name } => run("DELETE FROM node_keys WHERE name = ?1", params![name]),
        Record::KeyRevoked { key, node, at } => run(
            "INSERT OR REPLACE INTO revoked_keys (key, node, at) VALUES (?1, ?2, ?3)",
            params![key, node, at.0],
        ),
        Record::Token { hash, node, expiry } => run(
            "INSERT OR REPLACE INTO tokens (hash, node, expiry) VALUES (?1, ?2, ?3)",
            params![hash, node, expiry.0],
        ),
        Record::TokenGone { hash } => run("DELETE FROM tokens WHERE hash = ?1", params![hash]),
        Record::Answered {
            uid,
            key,
            at,
            reply,
        } => run(
            "INSERT OR REPLACE INTO answers (uid, key, at, reply) VALUES (?1, ?2, ?3, ?4)",
            params![uid.0, key.as_slice(), at.0, encode(reply)?],
        ),
        Record::AnswerGone { uid, key } => run(
            "DELETE FROM answers WHERE uid = ?1 AND key = ?2",
            params![uid.0, key.as_slice()],
        ),
        Record::ForgetAnswers { before } => {
            run("DELETE FROM answers WHERE at < ?1", params![before.0])
        }
        Record::Happened(e) => run(
            "INSERT INTO events (seq, at, what, who, object, detail) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![e.seq, e.at.0, e.what, e.who, e.object, e.detail],
        ),
        Record::Trigger(row) => triggers::write(t, row),
        Record::TriggerGone(id) => run("DELETE FROM triggers WHERE id = ?1", params![id.0]),
        Record::Reservation(row) => bookings::write_reservation(t, row),
        Record::Account(row) => run(
            "INSERT OR REPLACE INTO accounts (name, row) VALUES (?1, ?2)",
            params![row.name, encode(row)?],
        ),
        Record::AccountGone(name) => run("DELETE FROM accounts WHERE name = ?1", params![name]),
        Record::Ledger(line) => bookings::write_entry(t, line),
        Record::Figures(row) => run(
            "INSERT OR REPLACE INTO figures (at, row) VALUES (?1, ?2)",
            params![row.at.0, encode(row)?],
        ),
        Record::ForgetFigures { before } => {
            run("DELETE FROM figures WHERE at < ?1", params![before.0])
        }
        Record::Steps(batch) => steps::write_steps(t, batch),
        Record::FlowMade {
            row,
            spec,
            environment,
        } => flows::write_made(t, row, spec, environment),
        Record::Flow(row) => flows::write_flow(t, row),
        Record::FlowTask(row) => flows::write_task(t, row),
        Record::HourPrice(row) => run(
            "INSERT OR REPLACE INTO hour_prices (hour, row) VALUES (?1, ?2)",
            params![row.hour, encode(row)?],
        ),
    }
}
