//! The durable state, one transaction per batch: in SQLite (WAL, `synchronous=FULL`) or in PostgreSQL.
//!
//! Both have the same tables with the same history ([`MIGRATIONS`]), and the same statements read and
//! write them ([`sql`]).
//!
//! Rows are the state, encoded as MessagePack maps so that a later release reads them;
//! beside them are the columns that history is searched by. The event table is written
//! in the same transactions. Knows nothing of what the rows mean. Reservations and money
//! have a module of their own, [`bookings`], and so have steps and workflows.

pub mod archive;
pub mod archives;
pub mod backup;
pub mod bookings;
pub mod check;
pub mod content;
pub mod copy;
#[cfg(test)]
mod earlier_tests;
mod expiry;
mod flows;
pub mod followed;
pub mod history;
pub mod hold;
pub mod lead;
mod licenses;
mod load;
pub mod location;
pub mod logical;
mod moves;
pub mod outcomes;
mod policy;
mod queues;
mod rows;
mod schema;
#[cfg(test)]
pub(crate) mod server_tests;
pub mod set_aside;
pub mod sources;
mod spans;
pub mod sql;
pub mod steps;
#[cfg(test)]
mod tests;
mod triggers;
#[cfg(test)]
pub(crate) mod whole_tests;

use cosy_control::{JobRow, Record, SubmissionRow};
use cosy_model::api::HistoryEvent;
use cosy_model::{JobId, OsText, Time, limits};
pub use lead::Settings;
pub use location::Location;
pub use rows::StoreError;
use rows::{Query, decode, encode, page_of};
use sql::{Connection, OptionalExtension, params};
use std::path::Path;

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
    set_aside::TABLES,
    OLDER,
    CLOCK,
    policy::TABLES,
    USAGE,
    licenses::TABLES,
    history::TABLES,
    ARCHIVES,
    END_DAYS,
    INDEX_RANGES,
    triggers::COUNTERS,
    moves::TABLES,
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

/// What users have used in their accounts.
const USAGE: &str = "
    CREATE TABLE usage (name TEXT PRIMARY KEY, row BLOB NOT NULL) STRICT, WITHOUT ROWID;
";

/// Schema 18: which files old jobs are in, by month, and which submissions are on their way there.
/// `dropped`: since when a submission's script and variables are not kept any more; `progress`: how
/// far that has come, by the end of jobs; `undropped`: submissions before that place which were not
/// over yet.
const ARCHIVES: &str = "
    CREATE TABLE archives (
        month INTEGER PRIMARY KEY, first_id INTEGER NOT NULL, end_id INTEGER NOT NULL,
        first_start INTEGER NOT NULL, last_end INTEGER NOT NULL) STRICT;
    CREATE TABLE leaving (
        base INTEGER PRIMARY KEY, ids INTEGER NOT NULL, month INTEGER NOT NULL) STRICT;
    CREATE TABLE progress (
        what TEXT PRIMARY KEY, ended INTEGER NOT NULL, id INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE undropped (base INTEGER PRIMARY KEY) STRICT;
    ALTER TABLE submissions ADD COLUMN dropped INTEGER;
";

/// Of the jobs that ended on a day of UTC, counted from 1970, the lowest id. The index of ends has
/// all that is needed to fill it.
const END_DAYS: &str = "
    CREATE TABLE end_days (day INTEGER PRIMARY KEY, least_id INTEGER NOT NULL) STRICT;
    INSERT INTO end_days SELECT ended / 86400000, MIN(id) FROM jobs
        WHERE ended IS NOT NULL GROUP BY 1;
";

/// Indices of arrays are written as ranges from now on, which earlier releases do not read. Lists of them
/// are read as they are.
const INDEX_RANGES: &str = "";

/// An open store.
pub struct Store {
    connection: Connection,
    location: Location,
    /// In whose name it writes, where several controllers share it.
    lead: Option<lead::Lead>,
}

/// What a submission has beside its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Text of its script, if it has one.
    pub script: OsText,
    /// The user's variables.
    pub environment: OsText,
}

impl Store {
    /// Opens a store in a file for writing, makes or migrates it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_at(&Location::Sqlite(path.to_owned()))
    }

    /// Opens a store for writing, makes or migrates it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open_at(location: &Location) -> Result<Self, StoreError> {
        let store = Self::writer(location)?;
        store.migrate()?;
        Ok(store)
    }

    fn writer(location: &Location) -> Result<Self, StoreError> {
        let store = Self::connect(location, true)?;
        if let Connection::Sqlite(c) = &store.connection {
            let made = || {
                // Has an effect on a store that is made now: it gives room back to the disk.
                c.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
                c.pragma_update(None, "journal_mode", "WAL")?;
                c.pragma_update(None, "synchronous", "FULL")?;
                c.pragma_update(None, "cache_size", -4000)?;
                c.set_prepared_statement_cache_capacity(64);
                Ok(())
            };
            made().map_err(|e: rusqlite::Error| store.error(e.into()))?;
        }
        Ok(store)
    }

    /// Opens a store a second time, for reading.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open_reader(location: &Location) -> Result<Self, StoreError> {
        let store = Self::connect(location, false)?;
        if let Connection::Sqlite(c) = &store.connection {
            c.pragma_update(None, "query_only", "ON")
                .and_then(|()| c.pragma_update(None, "cache_size", -2000))
                .map_err(|e| store.error(e.into()))?;
        }
        Ok(store)
    }

    fn connect(location: &Location, writes: bool) -> Result<Self, StoreError> {
        let connection = location.connect(writes).map_err(|source| StoreError::Sql {
            location: location.to_string(),
            source,
        })?;
        Ok(Self {
            connection,
            location: location.clone(),
            lead: None,
        })
    }

    /// Where it is.
    pub const fn location(&self) -> &Location {
        &self.location
    }

    /// Whether what is kept for the next question can still be asked; if not, it must be opened anew.
    pub fn still_answers(&self) -> bool {
        match &self.connection {
            Connection::Sqlite(_) => true,
            Connection::Postgres(c) => c.still_answers(),
        }
    }

    fn sql<T>(&self, work: impl FnOnce(&Connection) -> sql::Result<T>) -> Result<T, StoreError> {
        work(&self.connection).map_err(|source| self.error(source))
    }

    fn error(&self, source: sql::Error) -> StoreError {
        StoreError::Sql {
            location: self.location.to_string(),
            source,
        }
    }

    /// Makes all records durable in one transaction, or none.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was changed.
    pub fn commit(&mut self, records: &[Record]) -> Result<(), StoreError> {
        let all = |t: &Connection| records.iter().try_for_each(|record| write(t, record));
        match self.lead {
            Some(_) => self.commit_led(all),
            None => self.in_transaction(all),
        }
    }

    /// Writes something without meaning: whether the store can be written again.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn probe(&mut self) -> Result<(), StoreError> {
        if self.lead.is_some() {
            return self.renew();
        }
        self.sql(|c| c.execute("UPDATE probe SET n = n + 1 WHERE id = 1", params![]))
            .map(drop)
    }

    fn submission_of(&self, job: JobId) -> Result<Option<(SubmissionRow, bool)>, StoreError> {
        let found: Option<(Vec<u8>, bool)> = self.sql(|c| {
            c.prepare_cached(
                "SELECT row, EXISTS (SELECT 1 FROM live_submissions l WHERE l.base = s.base)
                 FROM submissions s WHERE s.base <= ?1 AND s.base + s.ids > ?1
                 ORDER BY s.base DESC LIMIT 1",
            )?
            .query_row(params![job.0], |r| Ok((r.get(0)?, r.get(1)?)))
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
            .query_row(params![base.0], |r| {
                Ok(Payload {
                    script: OsText(r.get(0)?),
                    environment: OsText(r.get(1)?),
                })
            })
        })
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
        let event = |r: &sql::Row<'_>| {
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
        self.sql(|c| c.query_row(query, params![], |r| r.get(0)))
    }
}

/// Bytes of an event beside its texts.
const EVENT_BYTES: usize = 64;

fn write(t: &Connection, record: &Record) -> sql::Result<()> {
    let run = |sql: &str, values: &[&dyn sql::ToParam]| -> sql::Result<()> {
        t.prepare_cached(sql)?.run(values)
    };
    let lives = |base: JobId| {
        run(
            "INSERT INTO live_submissions (base) VALUES (?1) ON CONFLICT DO NOTHING",
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
                "INSERT INTO submissions (base, ids, uid, \"user\", queue, name, account, submit, live, row, environment, script, flow)
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
            "INSERT INTO bodies (base, number, row) VALUES (?1, ?2, ?3) ON CONFLICT (base, number) DO UPDATE SET row = excluded.row",
            params![row.base.0, number, encode(row)?],
        ),
        Record::BodyGone { base, number } => {
            run("DELETE FROM bodies WHERE base = ?1 AND number = ?2", params![base.0, number])
        }
        Record::Standing(row) => run(
            "INSERT INTO standings (base, row) VALUES (?1, ?2) ON CONFLICT (base) DO UPDATE SET row = excluded.row",
            params![row.base.0, encode(row)?],
        ),
        Record::Job(row) => write_job(t, row),
        Record::EarlierRun(row) => history::write_run(t, row),
        Record::SubmissionLives(base) => lives(*base),
        Record::Older(row) => {
            run("INSERT INTO older (at, row) VALUES (?1, ?2)", params![row.at.0, encode(row)?])
        }
        Record::BackupTakenUp => run("DELETE FROM restored", params![]),
        Record::Clock(row) => run(
            "INSERT INTO clock (id, row) VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET row = excluded.row",
            params![encode(row)?],
        ),
        Record::SubmissionDone(base) => {
            run("DELETE FROM live_submissions WHERE base = ?1", params![base.0])?;
            // All its jobs have rows of their own now.
            run("DELETE FROM standings WHERE base = ?1", params![base.0])
        }
        Record::Node { name, row } => run(
            "INSERT INTO nodes (name, row) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET row = excluded.row",
            params![name, encode(row)?],
        ),
        Record::Queue { name, state } => run(
            "INSERT INTO queues (name, row) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET row = excluded.row",
            params![name, encode(state)?],
        ),
        Record::LicenseUse { license, row } => licenses::write(t, license, row),
        Record::OwnQueue { name, row } => queues::write(t, name, row.as_deref()),
        Record::Policy { key, row } => policy::write(t, &key.0, row.as_deref()),
        Record::NodeKey { name, key } => run(
            "INSERT INTO node_keys (name, key) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET key = excluded.key",
            params![name, key],
        ),
        Record::NodeKeyGone { name } => run("DELETE FROM node_keys WHERE name = ?1", params![name]),
        Record::KeyRevoked { key, node, at } => run(
            "INSERT INTO revoked_keys (key, node, at) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO UPDATE SET node = excluded.node, at = excluded.at",
            params![key, node, at.0],
        ),
        Record::Token { hash, node, expiry } => run(
            "INSERT INTO tokens (hash, node, expiry) VALUES (?1, ?2, ?3) ON CONFLICT (hash) DO UPDATE SET node = excluded.node, expiry = excluded.expiry",
            params![hash, node, expiry.0],
        ),
        Record::TokenGone { hash } => run("DELETE FROM tokens WHERE hash = ?1", params![hash]),
        Record::Answered {
            uid,
            key,
            at,
            reply,
        } => run(
            "INSERT INTO answers (uid, key, at, reply) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (uid, key) DO UPDATE SET at = excluded.at, reply = excluded.reply",
            params![uid.0, key.as_slice(), at.0, encode(reply)?],
        ),
        Record::AnswerGone { uid, key } => {
            run("DELETE FROM answers WHERE uid = ?1 AND key = ?2", params![uid.0, key.as_slice()])
        }
        Record::ForgetAnswers { before } => {
            run("DELETE FROM answers WHERE at < ?1", params![before.0])
        }
        Record::Happened(e) => run(
            "INSERT INTO events (seq, at, what, who, object, detail) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                e.seq,
                e.at.0,
                e.kind.word(),
                e.who,
                e.object.to_string(),
                e.detail
            ],
        ),
        Record::Trigger(row) => triggers::write(t, row),
        Record::TriggerGone(id) => run("DELETE FROM triggers WHERE id = ?1", params![id.0]),
        Record::Reservation(row) => bookings::write_reservation(t, row),
        Record::Account(row) => run(
            "INSERT INTO accounts (name, row) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET row = excluded.row",
            params![row.name, encode(row)?],
        ),
        Record::AccountGone(name) => run("DELETE FROM accounts WHERE name = ?1", params![name]),
        Record::Ledger(line) => bookings::write_entry(t, line),
        Record::Figures(row) => run(
            "INSERT INTO figures (at, row) VALUES (?1, ?2) ON CONFLICT (at) DO UPDATE SET row = excluded.row",
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
        Record::Usage(row) => bookings::write_usage(t, row),
        Record::HourPrice(row) => bookings::write_hour_price(t, row),
    }
}

/// When its last run started.
fn start_of(row: &JobRow) -> Option<Time> {
    let started = row.run.as_ref().and_then(|r| r.started);
    row.end.as_ref().and_then(|e| e.start).or(started)
}

fn write_job(t: &Connection, row: &JobRow) -> sql::Result<()> {
    let end = row.end.as_ref();
    let row_and_columns = params![
        row.id.0,
        row.base.0,
        row.state.word(),
        start_of(row).map(|t| t.0),
        end.map(|e| e.end.0),
        encode(row)?,
        row.body
    ];
    if let Some(end) = end {
        t.prepare_cached(
            "INSERT INTO end_days (day, least_id) VALUES (CAST(?1 AS BIGINT) / 86400000, ?2)
             ON CONFLICT (day) DO UPDATE SET least_id = excluded.least_id
             WHERE excluded.least_id < end_days.least_id",
        )?
        .run(params![end.end.0, row.id.0])?;
    }
    t.prepare_cached(
        "INSERT INTO jobs (id, base, state, start, ended, row, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (id) DO UPDATE SET base = excluded.base, state = excluded.state, start = excluded.start, ended = excluded.ended, row = excluded.row, body = excluded.body",
    )?
    .run(row_and_columns)
}
