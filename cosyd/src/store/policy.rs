//! The policy: a row for each account, user, association and quality of service.

use super::rows::encode;
use cosy_control::PolicyRow;
use rusqlite::{Transaction, params};

/// What schema 14 adds: accounts in their tree, who is in them, qualities of service.
pub(super) const TABLES: &str = "
    CREATE TABLE policy (name TEXT PRIMARY KEY, row BLOB NOT NULL) STRICT, WITHOUT ROWID;
";

/// Keeps a row, or forgets it.
pub(super) fn write(
    transaction: &Transaction<'_>,
    key: &str,
    row: Option<&PolicyRow>,
) -> rusqlite::Result<()> {
    let Some(row) = row else {
        let mut gone = transaction.prepare_cached("DELETE FROM policy WHERE name = ?1")?;
        return gone.execute(params![key]).map(drop);
    };
    transaction
        .prepare_cached("INSERT OR REPLACE INTO policy (name, row) VALUES (?1, ?2)")?
        .execute(params![key, encode(row)?])
        .map(drop)
}
