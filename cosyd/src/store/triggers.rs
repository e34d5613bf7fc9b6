//! Triggers in the store: a row for each that is not over.
//!
//! Knows nothing of what they mean. What always holds: ids are never given out again, also
//! when nothing of them is left (`counters` keeps the largest).

use super::set_aside::{Unit, Unreadable};
use super::sql::{self, Connection, params};
use super::{Store, StoreError, encode};
use cosy_control::{Loaded, TriggerRow};
use cosy_model::TriggerId;

/// Tables that schema 8 added.
pub(super) const TABLES: &str = "
    CREATE TABLE triggers (id INTEGER PRIMARY KEY AUTOINCREMENT, row BLOB NOT NULL) STRICT;
";

/// Schema 21: numbers that were given out, also where nothing of them is left.
pub(super) const COUNTERS: &str = "
    CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    INSERT INTO counters SELECT name, seq FROM sqlite_sequence WHERE name = 'triggers';
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
            "SELECT COALESCE((SELECT value FROM counters WHERE name = 'triggers'), 0) + 1",
        )?;
        Ok(())
    }
}

/// Keeps a trigger, new or anew.
pub(super) fn write(transaction: &Connection, row: &TriggerRow) -> sql::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO triggers (id, row) VALUES (?1, ?2)
             ON CONFLICT (id) DO UPDATE SET row = excluded.row",
        )?
        .run(params![row.id.0, encode(row)?])?;
    transaction
        .prepare_cached(
            "INSERT INTO counters (name, value) VALUES ('triggers', ?1)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value
             WHERE excluded.value > counters.value",
        )?
        .run(params![row.id.0])
}
