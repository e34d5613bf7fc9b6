//! A cluster's whole state from one store into another, of either kind, in pieces: what interrupts it,
//! it is gone on with. At the end both are read again and compared, row by row.
//!
//! What always holds: the rows of a piece and how far the copy has come are one transaction; until all
//! is there and the same, the target's schema has a number with which no controller takes it up.

use super::content::{Content, CopyError, Given, MissingArchives, Part, Sums, Watch, sums_of};
use super::logical::{COUNTERS, Sum, TABLES, Table, Values};
use super::rows::encode;
use super::schema::known_schema;
use super::sql::{self, Connection, OptionalExtension, OwnedValue, params};
use super::{Location, Store, StoreError, moves};
use cosy_control::RestoredRow;
use cosy_model::Time;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// How much one transaction has.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// About so many rows.
    pub rows: usize,
    /// About so many bytes.
    pub bytes: usize,
}

/// What is usual.
pub const PIECE: Bounds = Bounds {
    rows: 2000,
    bytes: 8 << 20,
};

/// How it is copied.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How much one transaction has.
    pub bounds: Bounds,
    /// Archives whose files are gone.
    pub missing: MissingArchives,
    /// What an interrupted copy has left is removed first.
    pub anew: bool,
    /// The date.
    pub now: Time,
}

/// A table in both stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compared {
    /// Its name.
    pub table: &'static str,
    /// What is in the source.
    pub source: Sum,
    /// What is in the target.
    pub target: Sum,
}

/// What has become of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was copied whole before, at that time; nothing was done.
    Already(Time),
    /// All was copied, and is the same.
    Copied(Vec<Compared>),
    /// All was copied, and something differs: the copy stays unfinished.
    Differs(Vec<Compared>),
}

/// What is written once all rows are there.
#[derive(Clone, Debug, Default)]
pub(super) struct Finish {
    /// No lower epoch leads from now on.
    pub(super) epoch: u64,
    /// No lower id is given to a job.
    pub(super) next_job: u64,
    /// The source that this is a copy of.
    pub(super) copied: Option<(String, Time)>,
    /// It was put back from a backup.
    pub(super) restored: Option<RestoredRow>,
}

/// Rows on their way.
#[derive(Default)]
pub(super) struct Piece {
    rows: Vec<(&'static Table, Values)>,
    bytes: usize,
    up_to: Option<Values>,
    done: bool,
}

impl Store {
    /// Opens a store that is to be filled, also where that was interrupted.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open_for_copy(location: &Location) -> Result<Self, StoreError> {
        let store = Self::writer(location)?;
        match store.migrate() {
            Err(StoreError::Unfinished { .. }) => {}
            migrated => migrated?,
        }
        let (found, known) = (store.schema()?, known_schema());
        match moves::is_unfinished(found) && found - moves::UNFINISHED != known {
            true => Err(StoreError::TooNew { found, known }),
            false => Ok(store),
        }
    }

    /// The number of the schema.
    pub(super) fn schema(&self) -> Result<i64, StoreError> {
        self.sql(super::schema::schema)
    }

    /// A table with rows of the state, if there is one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn filled_table(&self) -> Result<Option<&'static str>, StoreError> {
        for table in &TABLES {
            if !self.sql(|c| table.is_empty(c))? {
                return Ok(Some(table.name));
            }
        }
        Ok(None)
    }

    /// The highest epoch that has led.
    pub(super) fn epoch(&self) -> Result<u64, StoreError> {
        let kept = "SELECT COALESCE(MAX(value), 0) FROM counters WHERE name = 'epoch'";
        let kept = self.number(kept)?;
        Ok(match &self.connection {
            Connection::Sqlite(_) => kept,
            Connection::Postgres(_) => kept.max(self.number("SELECT epoch FROM leader")?),
        })
    }

    /// Makes ready what a copy goes into, and says where it goes on.
    fn begin_copy(&mut self, source: &str, anew: bool) -> Result<Begun, CopyError> {
        let is_unfinished = moves::is_unfinished(self.schema()?);
        let places = self.places()?;
        let of = places.get(&Default::default());
        if is_unfinished && of.is_some_and(|of| of.after == source) {
            return Ok(Begun::From(places));
        }
        let location = || self.location.to_string();
        if is_unfinished && !anew {
            let location = location();
            return Err(CopyError::OtherSource { location });
        }
        if !is_unfinished && let Some(at) = self.copied_at(source)? {
            return Ok(Begun::Whole(at));
        }
        if !is_unfinished && let Some(table) = self.filled_table()? {
            return Err(CopyError::NotEmpty {
                location: location(),
                table,
                remedy: "a copy goes into an empty store",
            });
        }
        self.in_transaction(|t| {
            if is_unfinished {
                clear(t)?;
            }
            set_schema(t, known_schema() + moves::UNFINISHED)?;
            t.execute(
                "INSERT INTO copying (part, name, after, done) VALUES ('', '', ?1, 0)",
                params![source],
            )
            .map(drop)
        })?;
        Ok(Begun::From(Places::new()))
    }

    fn copied_at(&self, source: &str) -> Result<Option<Time>, StoreError> {
        self.sql(|c| {
            c.query_row("SELECT at FROM copied WHERE source = ?1", params![source], |r| {
                r.get(0).map(Time)
            })
            .optional()
        })
    }

    fn places(&self) -> Result<Places, StoreError> {
        self.sql(|c| {
            c.prepare_cached("SELECT part, name, after, done FROM copying")?
                .query_map(params![], |r| {
                    let (after, done) = (r.get(2)?, r.get(3)?);
                    Ok(((r.get(0)?, r.get(1)?), Place { after, done }))
                })?
                .collect()
        })
    }
}

/// How far each part has come, by its kind and name.
type Places = BTreeMap<(String, String), Place>;

/// What a copy into a store finds there.
enum Begun {
    /// It goes on from there; from the beginning where there are no places.
    From(Places),
    /// It was whole at that time.
    Whole(Time),
}

/// How far a part has come.
struct Place {
    /// The last key, as text.
    after: String,
    done: bool,
}

/// Copies all of a store into another one.
///
/// # Errors
/// [`CopyError`]: what was copied stays, and is gone on with.
pub fn copy(
    source: &Store,
    target: &mut Store,
    options: Options,
    watch: Watch<'_>,
) -> Result<Outcome, CopyError> {
    source.unhurried()?;
    target.unhurried()?;
    source.connection.snapshot(|| {
        let content = Content::of(source, options.missing)?;
        let name = content.fingerprint()?;
        let places = match target.begin_copy(&name, options.anew)? {
            Begun::From(places) => places,
            Begun::Whole(at) => return Ok(Outcome::Already(at)),
        };
        for part in content.parts() {
            let (kind, name) = part.names();
            let mut rows = 0;
            let after = match places.get(&(kind.to_owned(), name.clone())) {
                Some(Place { done: true, .. }) => continue,
                Some(place) => key_of(&place.after)?,
                None => Values::new(),
            };
            pour(&content, part, &after, options.bounds, &mut |piece| {
                rows += piece.rows.len() as u64;
                target.in_transaction(|t| {
                    insert(t, &piece.rows)?;
                    note(t, (kind, &name), &piece)
                })?;
                watch(&format!("copying {name}"), rows)
            })?;
        }
        let compared = compare(&content.sums(watch)?, &sums_of(&target.connection, watch)?);
        if compared.iter().any(|one| one.source != one.target) {
            return Ok(Outcome::Differs(compared));
        }
        let finish = Finish {
            epoch: source.epoch()?.max(target.epoch()?),
            next_job: source.next_job()?,
            copied: Some((name, options.now)),
            restored: None,
        };
        target.in_transaction(|t| end(t, &finish))?;
        Ok(Outcome::Copied(compared))
    })
}

impl Store {
    /// A transaction of it may stand still for a while: another store is read meanwhile.
    pub(super) fn unhurried(&self) -> Result<(), StoreError> {
        self.sql(|c| match c {
            Connection::Sqlite(_) => Ok(()),
            Connection::Postgres(_) => {
                c.execute_batch("SET idle_in_transaction_session_timeout = '10min'")
            }
        })
    }
}

/// Gives what a part has behind a key to `put`, in pieces; the last says so.
pub(super) fn pour(
    content: &Content<'_>,
    part: Part,
    after: &[OwnedValue],
    bounds: Bounds,
    put: &mut dyn FnMut(Piece) -> Result<(), CopyError>,
) -> Result<(), CopyError> {
    let mut piece = Piece::default();
    content.each(part, after, &mut |given| {
        match given {
            Given::Row(table, values) => {
                piece.bytes += values.iter().map(bytes).sum::<usize>();
                piece.rows.push((table, values));
            }
            Given::UpTo(key) => piece.up_to = Some(key),
        }
        // A large array of an archive is in several pieces, of which only the last has come further.
        let over = |times: usize| {
            piece.rows.len() >= bounds.rows * times || piece.bytes >= bounds.bytes * times
        };
        match over(4) || piece.up_to.is_some() && over(1) {
            true => put(std::mem::take(&mut piece)),
            false => Ok(()),
        }
    })?;
    piece.done = true;
    put(piece)
}

fn bytes(value: &OwnedValue) -> usize {
    8 + match value {
        OwnedValue::Null | OwnedValue::Integer(_) => 0,
        OwnedValue::Text(text) => text.len(),
        OwnedValue::Blob(bytes) => bytes.len(),
    }
}

impl Piece {
    /// Puts its rows in.
    pub(super) fn insert(&self, t: &Connection) -> sql::Result<()> {
        insert(t, &self.rows)
    }

    /// How many rows it has.
    pub(super) const fn len(&self) -> usize {
        self.rows.len()
    }
}

fn insert(t: &Connection, rows: &[(&'static Table, Values)]) -> sql::Result<()> {
    let mut insertions: BTreeMap<&str, String> = BTreeMap::new();
    for (table, values) in rows {
        let text = insertions
            .entry(table.name)
            .or_insert_with(|| table.insertion());
        t.prepare_cached(text)?.run(values.as_slice())?;
    }
    Ok(())
}

/// Keeps how far a part has come.
fn note(t: &Connection, (part, name): (&str, &str), piece: &Piece) -> sql::Result<()> {
    let Some(key) = &piece.up_to else {
        // Only rows of a submission that goes on, or none at all.
        return match piece.done {
            true => write_place(t, (part, name), "[]", true),
            false => Ok(()),
        };
    };
    let key = Json::Array(key.iter().map(json).collect()).to_string();
    write_place(t, (part, name), &key, piece.done)
}

fn write_place(
    t: &Connection,
    (part, name): (&str, &str),
    after: &str,
    done: bool,
) -> sql::Result<()> {
    t.prepare_cached(
        "INSERT INTO copying (part, name, after, done) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (part, name) DO UPDATE SET after = excluded.after, done = excluded.done",
    )?
    .run(params![part, name, after, i64::from(done)])
}

fn json(value: &OwnedValue) -> Json {
    match value {
        OwnedValue::Null => Json::Null,
        OwnedValue::Integer(n) => (*n).into(),
        OwnedValue::Text(text) => text.as_str().into(),
        OwnedValue::Blob(bytes) => bytes.as_slice().into(),
    }
}

fn key_of(text: &str) -> Result<Values, CopyError> {
    let value = |json: Json| {
        Some(match json {
            Json::Null => OwnedValue::Null,
            Json::Number(n) => OwnedValue::Integer(n.as_i64()?),
            Json::String(text) => OwnedValue::Text(text),
            Json::Array(bytes) => {
                let byte = |n: &Json| n.as_u64().and_then(|n| u8::try_from(n).ok());
                OwnedValue::Blob(bytes.iter().map(byte).collect::<Option<_>>()?)
            }
            Json::Bool(_) | Json::Object(_) => return None,
        })
    };
    let all: Vec<Json> = serde_json::from_str(text).unwrap_or_default();
    let key: Option<Values> = all.into_iter().map(value).collect();
    let unreadable = || sql::Error::Other(format!("'{text}' is no key of a copy"));
    key.ok_or_else(|| unreadable().into())
}

/// Both sums of each table.
pub(super) fn compare(source: &Sums, target: &Sums) -> Vec<Compared> {
    let both = source.iter().zip(target);
    both.map(|((table, source), (_, target))| Compared {
        table,
        source: *source,
        target: *target,
    })
    .collect()
}

/// Removes all rows of the state, and what was said of copies.
pub(super) fn clear(t: &Connection) -> sql::Result<()> {
    let names = TABLES.iter().map(|table| table.name);
    let own = ["archives", "leaving", "end_days", "copying", "copied"];
    match t {
        Connection::Postgres(_) => {
            let names = names.chain(own);
            let names: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
            t.execute_batch(&format!("TRUNCATE {} RESTART IDENTITY", names.join(", ")))
        }
        Connection::Sqlite(_) => {
            // The ledger refuses it: its triggers are made again.
            let triggers: Vec<(String, String)> = t
                .prepare_cached("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")?
                .query_map(params![], |r| Ok((r.get(0)?, r.get(1)?)))?
                .collect::<sql::Result<_>>()?;
            for (name, _) in &triggers {
                t.execute_batch(&format!("DROP TRIGGER \"{name}\""))?;
            }
            for name in names.chain(own) {
                t.execute_batch(&format!("DELETE FROM \"{name}\""))?;
            }
            triggers
                .iter()
                .try_for_each(|(_, text)| t.execute_batch(text))
        }
    }
}

fn set_schema(t: &Connection, version: i64) -> sql::Result<()> {
    t.execute_batch(&match t {
        Connection::Sqlite(_) => format!("PRAGMA user_version = {version}"),
        Connection::Postgres(_) => format!("UPDATE schema_version SET version = {version}"),
    })
}

/// All rows are there: what is counted from them, and where numbers go on.
pub(super) fn end(t: &Connection, finish: &Finish) -> sql::Result<()> {
    t.execute_batch(
        "DELETE FROM end_days;
         INSERT INTO end_days SELECT ended / 86400000, MIN(id) FROM jobs
             WHERE ended IS NOT NULL GROUP BY 1;
         DELETE FROM copying;",
    )?;
    let last_job = finish.next_job.saturating_sub(1);
    for (name, value) in [("epoch", finish.epoch), ("jobs", last_job)] {
        t.execute(
            &format!(
                "INSERT INTO {COUNTERS} (name, value) VALUES (?1, ?2)
                 ON CONFLICT (name) DO UPDATE SET value = excluded.value
                 WHERE excluded.value > {COUNTERS}.value"
            ),
            params![name, value],
        )?;
    }
    if let Some((source, at)) = &finish.copied {
        let said = "INSERT INTO copied (source, at) VALUES (?1, ?2)";
        t.execute(said, params![source, at.0])?;
    }
    if let Some(row) = &finish.restored {
        t.execute(
            "INSERT INTO restored (id, row) VALUES (1, ?1)
             ON CONFLICT (id) DO UPDATE SET row = excluded.row",
            params![encode(row)?],
        )?;
    }
    if matches!(t, Connection::Postgres(_)) {
        for table in ["set_aside", "triggers"] {
            t.execute_batch(&format!(
                "SELECT setval(pg_get_serial_sequence('{table}', 'id'),
                     COALESCE(MAX(id), 1), MAX(id) IS NOT NULL) FROM {table}"
            ))?;
        }
        // Nodes obey no controller of an epoch below one that they have seen.
        t.execute(
            "UPDATE leader SET epoch = GREATEST(epoch, ?1), released = true, next = '',
                 holder = '', run = '', renewals = renewals + 1 WHERE id = 1",
            params![finish.epoch],
        )?;
    }
    set_schema(t, known_schema())
}

#[cfg(test)]
mod tests;
