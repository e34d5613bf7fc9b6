//! The policy: a row for each account, user, association and quality of service.

use super::rows::encode;
use super::sql::{self, Connection, params};
use cosy_control::PolicyRow;

/// What schema 14 adds: accounts in their tree, who is in them, qualities of service.
pub(super) const TABLES: &str = "
    CREATE TABLE policy (name TEXT PRIMARY KEY, row BLOB NOT NULL) STRICT, WITHOUT ROWID;
";

/// Keeps a row, or forgets it.
pub(super) fn write(
    transaction: &Connection,
    key: &str,
    row: Option<&PolicyRow>,
) -> sql::Result<()> {
    let Some(row) = row else {
        let mut gone = transaction.prepare_cached("DELETE FROM policy WHERE name = ?1")?;
        return gone.run(params![key]);
    };
    transaction
        .prepare_cached("INSERT INTO policy (name, row) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET row = excluded.row")?
        .run(params![key, encode(row)?])
}
