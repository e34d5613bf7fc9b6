//! Queues that were made, changed or taken away at run time: one row for each, beside what the
//! configuration says.

use super::rows::encode;
use super::sql::{self, Connection, params};
use cosy_control::OwnQueue;

/// What schema 6 adds: queues made or changed at run time.
pub(super) const TABLES: &str = "
    CREATE TABLE own_queues (name TEXT PRIMARY KEY, row BLOB NOT NULL) STRICT, WITHOUT ROWID;
";

/// Keeps a queue, or forgets it. Of one that was taken away the state goes too.
pub(super) fn write(
    transaction: &Connection,
    name: &str,
    row: Option<&OwnQueue>,
) -> sql::Result<()> {
    let run = |sql| transaction.prepare_cached(sql)?.run(params![name]);
    let Some(row) = row else {
        run("DELETE FROM own_queues WHERE name = ?1")?;
        return Ok(());
    };
    if row.spec.is_none() {
        run("DELETE FROM queues WHERE name = ?1")?;
    }
    transaction
        .prepare_cached("INSERT INTO own_queues (name, row) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET row = excluded.row")?
        .run(params![name, encode(row)?])
}
