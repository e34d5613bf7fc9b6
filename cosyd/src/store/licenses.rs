//! How many of each licence are in use, in the cluster and outside of it, as was last told.

use super::rows::encode;
use cosy_model::LicenseUse;
use rusqlite::{Transaction, params};

/// What schema 16 adds.
pub(super) const TABLES: &str = "
    CREATE TABLE license_use (name TEXT PRIMARY KEY, row BLOB NOT NULL) STRICT, WITHOUT ROWID;
";

/// Keeps what was told of a licence in place of what was told before.
pub(super) fn write(
    transaction: &Transaction<'_>,
    license: &str,
    row: &LicenseUse,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("INSERT OR REPLACE INTO license_use (name, row) VALUES (?1, ?2)")?
        .execute(params![license, encode(row)?])
        .map(drop)
}
