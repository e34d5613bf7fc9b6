//! Triggers in the store: a row for each that is not over.
//!
//! Knows nothing of what they mean. What always holds: ids are never given out again, also
//! when nothing of them is left (SQLite keeps the largest, `AUTOINCREMENT`).

use super::set_aside::{Unit, Unreadable};
use super::{Store, StoreError, encode};
use cosy_control::{Loaded, TriggerRow};
use cosy_model::TriggerId;
use rusqlite::{Transaction, params};

/// Tables that schema 8 added.
pub(super) const TABLES: &str = "
    CREATE TABLE triggers (id INTEGER PRIMARY KEY AUTOINCREMENT, row BLOB NOT NULL) STRICT;
";

impl Store {
    /// Puts all triggers into `loaded`, and the next id.
    pub(super) fn load_triggers(
        &self,
        loaded: &mut Loaded,
        bad: &mut Unreadable,
    ) -> Result<(), StoreError> {
        loaded.triggers = self.numbered(
            "triggers",
            "SELECT id, row FROM triggers
             WHERE CAST(id AS TEXT) NOT IN (SELECT object FROM set_aside WHERE source = 'trigger')
             ORDER BY id",
            |id| Unit::Trigger(TriggerId(id)),
            bad,
        )?;
        loaded.next_trigger = self.number(
            "SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'triggers'), 0) + 1",
        )?;
        Ok(())
    }
}

/// Keeps a trigger, new or anew.
pub(super) fn write(transaction: &Transaction<'_>, row: &TriggerRow) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO triggers (id, row) VALUES (?1, ?2)
             ON CONFLICT (id) DO UPDATE SET row = excluded.row",
        )?
        .execute(params![row.id.0, encode(row)?])
        .map(drop)
}
