//! How many of each licence are in use, in the cluster and outside of it, as was last told.

use super::rows::encode;
use super::sql::{self, Connection, params};
use cosy_model::LicenseUse;

/// What schema 16 adds.
pub(super) const TABLES: &str = "
    CREATE TABLE license_use (name TEXT PRIMARY KEY, row BLOB NOT NULL) STRICT, WITHOUT ROWID;
";

/// Keeps what was told of a licence in place of what was told before.
pub(super) fn write(transaction: &Connection, license: &str, row: &LicenseUse) -> sql::Result<()> {
    transaction
        .prepare_cached("INSERT INTO license_use (name, row) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET row = excluded.row")?
        .run(params![license, encode(row)?])
}
