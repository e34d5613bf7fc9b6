//! What a store says of where it came from: of a copy into it that is under way or done, and of a
//! backup that it was put back from.

/// Schema 22. `copying`: how far a copy into this store has come, by part and table; the row without
/// names says of which source. `copied`: from which sources it was copied whole. `restored`: it was put
/// back from a backup and not taken up since.
pub(super) const TABLES: &str = "
    CREATE TABLE copying (
        part TEXT NOT NULL, name TEXT NOT NULL, after TEXT NOT NULL, done INTEGER NOT NULL,
        PRIMARY KEY (part, name)) STRICT, WITHOUT ROWID;
    CREATE TABLE copied (source TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE restored (id INTEGER PRIMARY KEY CHECK (id = 1), row BLOB NOT NULL) STRICT;
";

/// Added to the number of the schema while a copy is under way: no controller takes such a store up,
/// one of an earlier release neither.
pub(super) const UNFINISHED: i64 = 1_000_000;

/// Whether a copy into a store with that number of a schema is under way.
pub(super) const fn is_unfinished(schema: i64) -> bool {
    schema >= UNFINISHED
}
