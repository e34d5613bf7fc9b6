//! Rows that were set aside, because they cannot be read or because the controller fails
//! when it takes them up: kept, said, and not loaded until somebody puts them back.
//!
//! Rows by number stay where they are, so that no number is given out again; they are only
//! not loaded. Rows by name are kept in this table, and their name is free. Knows nothing of
//! what a row means, and changes none.

use super::sql::{self, Connection, OptionalExtension, params};
use super::{Store, StoreError};
use cosy_control::{Loaded, SetAside};
use cosy_model::{FlowId, JobId, ReservationId, Time, TriggerId};
use std::fmt;

/// `row` is null where the row is still in its table.
pub(super) const TABLES: &str = "
    CREATE TABLE set_aside (
        id INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL, object TEXT NOT NULL,
        at INTEGER NOT NULL, why TEXT NOT NULL, row BLOB, UNIQUE (source, object)) STRICT;
";

/// What is loaded, or set aside, as a whole.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Unit {
    /// A submission with all its jobs, by its first id.
    Submission(JobId),
    /// A reservation, by its id.
    Reservation(ReservationId),
    /// A workflow with its tasks; its jobs are submissions of their own.
    Flow(FlowId),
    /// A trigger, by its id.
    Trigger(TriggerId),
    /// A row by name.
    Named(Table, String),
}

/// Tables with rows by name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Table {
    /// What is known of nodes.
    Nodes,
    /// States of queues.
    Queues,
    /// Queues that were made or changed at run time.
    OwnQueues,
    /// Accounts: members, budgets, what was granted.
    Accounts,
    /// The tree of accounts, users, associations, qualities of service.
    Policy,
    /// Figures of the notice rule, by time.
    Figures,
    /// Prices of hours, by hour.
    HourPrices,
    /// What users have used, by user and account.
    Usage,
    /// How many of a licence are in use, by licence.
    LicenseUse,
}

impl Table {
    const ALL: [Self; 9] = [
        Self::Nodes,
        Self::Queues,
        Self::OwnQueues,
        Self::Accounts,
        Self::Policy,
        Self::Figures,
        Self::HourPrices,
        Self::Usage,
        Self::LicenseUse,
    ];

    /// Its name in the store, the column of its names, and what one row is called.
    pub(super) const fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Nodes => ("nodes", "name", "node"),
            Self::Queues => ("queues", "name", "state of queue"),
            Self::OwnQueues => ("own_queues", "name", "queue"),
            Self::Accounts => ("accounts", "name", "account"),
            Self::Policy => ("policy", "name", "policy of"),
            Self::Figures => ("figures", "at", "figures"),
            Self::HourPrices => ("hour_prices", "hour", "price of hour"),
            Self::Usage => ("usage", "name", "use of"),
            Self::LicenseUse => ("license_use", "name", "use of licence"),
        }
    }
}

impl Unit {
    /// What it is called, and which one.
    fn words(&self) -> (&'static str, String) {
        match self {
            Self::Submission(id) => ("job", id.to_string()),
            Self::Reservation(id) => ("reservation", id.to_string()),
            Self::Flow(id) => ("workflow", id.to_string()),
            Self::Trigger(id) => ("trigger", id.to_string()),
            Self::Named(table, name) => (table.names().2, name.clone()),
        }
    }

    fn of(source: &str, object: &str) -> Option<Self> {
        let number = || object.parse().ok();
        Some(match source {
            "job" => Self::Submission(JobId(number()?)),
            "reservation" => Self::Reservation(ReservationId(number()?)),
            "workflow" => Self::Flow(FlowId(number()?)),
            "trigger" => Self::Trigger(TriggerId(number()?)),
            other => {
                let mut tables = Table::ALL.into_iter();
                let table = tables.find(|table| table.names().2 == other)?;
                Self::Named(table, object.to_owned())
            }
        })
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, object) = self.words();
        write!(f, "{source} {object}")
    }
}

/// A row that is set aside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowSetAside {
    /// Number of the row among those set aside.
    pub id: u64,
    /// The object that was set aside.
    pub unit: Unit,
    /// When it was set aside.
    pub at: Time,
    /// Why, in one line.
    pub why: String,
}

/// Rows that cannot be read.
pub type Unreadable = Vec<(Unit, String)>;

impl Store {
    /// Sets a row aside; nothing of it is lost.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was changed.
    pub fn set_aside(&mut self, unit: &Unit, why: &str, now: Time) -> Result<(), StoreError> {
        self.in_transaction(|t| set_aside(t, unit, why, now))
    }

    /// Everything that is set aside, the oldest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn all_aside(&self) -> Result<Vec<RowSetAside>, StoreError> {
        let rows: Vec<(u64, String, String, i64, String)> = self.sql(|c| {
            c.prepare_cached("SELECT id, source, object, at, why FROM set_aside ORDER BY id")?
                .query_map(params![], |r| {
                    Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?))
                })?
                .collect()
        })?;
        let aside = |(id, source, object, at, why): (u64, String, String, i64, String)| {
            let unit = Unit::of(&source, &object)?;
            let at = Time(at);
            Some(RowSetAside { id, unit, at, why })
        };
        Ok(rows.into_iter().filter_map(aside).collect())
    }

    /// Puts a row back: it is taken up at the next start. `None`: nothing has that number.
    ///
    /// # Errors
    /// [`StoreError`]; also when another row has its name by now. Nothing was changed.
    pub fn put_back(&mut self, id: u64) -> Result<Option<Unit>, StoreError> {
        let found = self.all_aside()?.into_iter().find(|aside| aside.id == id);
        let Some(RowSetAside { unit, .. }) = found else {
            return Ok(None);
        };
        self.in_transaction(|t| put_back(t, id, &unit))?;
        Ok(Some(unit))
    }

    /// Gives a row up: it is never taken up again. `None`: nothing has that number.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was changed.
    pub fn give_up(&mut self, id: u64) -> Result<Option<Unit>, StoreError> {
        let found = self.all_aside()?.into_iter().find(|aside| aside.id == id);
        let Some(RowSetAside { unit, .. }) = found else {
            return Ok(None);
        };
        self.in_transaction(|t| give_up(t, id, &unit))?;
        Ok(Some(unit))
    }

    /// The submission that a job belongs to, by its first id, if it lives.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn live_base(&self, job: JobId) -> Result<Option<JobId>, StoreError> {
        self.sql(|c| {
            c.prepare_cached(
                "SELECT s.base FROM live_submissions l JOIN submissions s ON s.base = l.base
                 WHERE s.base <= ?1 AND s.base + s.ids > ?1 ORDER BY s.base DESC LIMIT 1",
            )?
            .query_row(params![job.0], |r| r.get(0).map(JobId))
            .optional()
        })
    }

    /// Tells the controller what is missing.
    pub(super) fn load_aside(&self, loaded: &mut Loaded) -> Result<(), StoreError> {
        for aside in self.all_aside()? {
            let ids = match &aside.unit {
                Unit::Submission(base) => Some((*base, self.ids_of(*base)?)),
                Unit::Reservation(_) | Unit::Flow(_) | Unit::Trigger(_) | Unit::Named(..) => None,
            };
            let node = match &aside.unit {
                Unit::Named(Table::Nodes, name) => Some(name.clone()),
                Unit::Named(..)
                | Unit::Submission(_)
                | Unit::Reservation(_)
                | Unit::Flow(_)
                | Unit::Trigger(_) => None,
            };
            loaded.set_aside.push(SetAside {
                what: aside.unit.to_string(),
                at: aside.at,
                why: aside.why,
                ids,
                node,
            });
        }
        Ok(())
    }

    fn ids_of(&self, base: JobId) -> Result<u64, StoreError> {
        let ids = self.sql(|c| {
            c.prepare_cached("SELECT ids FROM submissions WHERE base = ?1")?
                .query_row(params![base.0], |r| r.get(0))
                .optional()
        })?;
        Ok(ids.unwrap_or(1))
    }

    /// Does all of a work in one transaction, or nothing of it.
    pub(super) fn in_transaction(
        &mut self,
        work: impl FnOnce(&Connection) -> sql::Result<()>,
    ) -> Result<(), StoreError> {
        let done = self.connection.transact(work);
        done.map_err(|source| self.error(source))
    }
}

fn set_aside(t: &Connection, unit: &Unit, why: &str, now: Time) -> sql::Result<()> {
    let (source, object) = unit.words();
    let row: Option<Vec<u8>> = match unit {
        Unit::Submission(base) => {
            t.execute("DELETE FROM live_submissions WHERE base = ?1", params![base.0])?;
            None
        }
        Unit::Reservation(_) | Unit::Flow(_) | Unit::Trigger(_) => None,
        Unit::Named(table, name) => {
            let (table, column, _) = table.names();
            let select = format!("SELECT row FROM {table} WHERE {column} = ?1");
            let row = t
                .query_row(&select, params![name], |r| r.get(0))
                .optional()?;
            t.execute(&format!("DELETE FROM {table} WHERE {column} = ?1"), params![name])?;
            row
        }
    };
    t.execute(
        "INSERT INTO set_aside (source, object, at, why, row) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (source, object) DO UPDATE SET at = excluded.at, why = excluded.why, row = excluded.row",
        params![source, object, now.0, why, row],
    )
    .map(drop)
}

fn put_back(t: &Connection, id: u64, unit: &Unit) -> sql::Result<()> {
    match unit {
        Unit::Submission(base) => {
            t.execute(
                "INSERT INTO live_submissions (base) VALUES (?1) ON CONFLICT DO NOTHING",
                params![base.0],
            )?;
        }
        Unit::Reservation(_) | Unit::Flow(_) | Unit::Trigger(_) => {}
        Unit::Named(table, name) => {
            let (table, column, _) = table.names();
            t.execute(
                &format!(
                    "INSERT INTO {table} ({column}, row) SELECT ?2, row FROM set_aside WHERE id = ?1"
                ),
                params![id, name],
            )?;
        }
    }
    t.execute("DELETE FROM set_aside WHERE id = ?1", params![id])
        .map(drop)
}

/// What is over is remembered for a day after its end: an end long ago is not loaded.
fn give_up(t: &Connection, id: u64, unit: &Unit) -> sql::Result<()> {
    match unit {
        // It lives no more; its rows stay as history.
        Unit::Submission(_) | Unit::Named(..) => {}
        Unit::Reservation(id) => {
            t.execute("UPDATE reservations SET live = 0, ended = 0 WHERE id = ?1", params![id.0])?;
        }
        Unit::Flow(id) => {
            t.execute("UPDATE flows SET live = 0, ended = 0 WHERE id = ?1", params![id.0])?;
        }
        Unit::Trigger(id) => {
            t.execute("DELETE FROM triggers WHERE id = ?1", params![id.0])?;
        }
    }
    t.execute("DELETE FROM set_aside WHERE id = ?1", params![id])
        .map(drop)
}
