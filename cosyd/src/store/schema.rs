//! The number of the schema: which steps of [`MIGRATIONS`] a store has behind it.
//!
//! A store of an earlier release is brought up to this one, never back; one of a later release is not
//! touched. On a server tables are changed only while no controller leads, and none that led with the
//! earlier ones goes on.

use super::sql::postgres::dialect;
use super::sql::{self, Connection, params};
use super::{MIGRATIONS, Store, StoreError, moves};

/// The number of the schema of this release.
pub(super) const fn known_schema() -> i64 {
    MIGRATIONS.len() as i64
}

/// The number of the schema; 0 where there are no tables yet.
pub(super) fn schema(c: &Connection) -> sql::Result<i64> {
    match c {
        Connection::Sqlite(c) => Ok(c.pragma_query_value(None, "user_version", |row| row.get(0))?),
        Connection::Postgres(_) => {
            let there: bool =
                c.query_row("SELECT to_regclass('schema_version') IS NOT NULL", params![], |r| {
                    r.get(0)
                })?;
            if !there {
                c.execute_batch(&format!("BEGIN; {} COMMIT;", dialect::OWN))?;
            }
            c.query_row("SELECT version FROM schema_version", params![], |r| r.get(0))
        }
    }
}

impl Store {
    /// That no later release has changed the tables, also meanwhile.
    ///
    /// # Errors
    /// [`StoreError::TooNew`]; [`StoreError::Unfinished`], where one is being copied into it.
    pub fn is_no_later_one(&self) -> Result<(), StoreError> {
        self.found_schema().map(drop)
    }

    /// Its schema, which this release knows.
    fn found_schema(&self) -> Result<i64, StoreError> {
        let (found, known) = (self.sql(schema)?, known_schema());
        if moves::is_unfinished(found) {
            return Err(StoreError::Unfinished {
                location: self.location.to_string(),
            });
        }
        match found > known {
            true => Err(StoreError::TooNew { found, known }),
            false => Ok(found),
        }
    }

    /// Makes the tables, or brings those of an earlier release up to this one.
    ///
    /// # Errors
    /// [`StoreError`]: a later release made them, or a controller leads with them.
    pub(super) fn migrate(&self) -> Result<(), StoreError> {
        let found = self.found_schema()?;
        let unled = if found == 0 { "" } else { dialect::UNLED };
        for (at, step) in MIGRATIONS.iter().enumerate().skip(found as usize) {
            let version = at + 1;
            self.sql(|c| match c {
                Connection::Sqlite(_) => c.execute_batch(&format!(
                    "BEGIN IMMEDIATE; {step} PRAGMA user_version = {version}; COMMIT;"
                )),
                Connection::Postgres(_) => c.execute_batch(&format!(
                    "BEGIN; {unled} {} UPDATE schema_version SET version = {version}; COMMIT;",
                    dialect::migration(step)
                )),
            })?;
        }
        Ok(())
    }
}
