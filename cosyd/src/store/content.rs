//! What a store has, as rows of the tables of the state: those in the database, and those of old jobs
//! that are in archives.
//!
//! What always holds: within one snapshot each row is given once. A submission that is in the database
//! is not taken from an archive; of one that is on its way there, rows that are still in the database
//! count as they are here.

use super::archives::Month;
use super::logical::{Sum, TABLES, Table, Values};
use super::rows::StoreError;
use super::sql::{self, Connection, OptionalExtension, OwnedValue, params};
use super::{Store, moves};
use cosy_model::Time;
use cosy_proto::keys::sha256_hex;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Between two words to who watches.
const WORD_ROWS: u64 = 5000;
/// Tables of an archive whose rows go with their submission's; the first column of each has an id.
const FOLLOWING: [&str; 4] = ["jobs", "runs", "bodies", "steps"];

/// Why a store is not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// One of the stores fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// One of the databases fails in the midst of it.
    #[error("the database: {0}")]
    Sql(#[from] sql::Error),
    /// A file cannot be written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// What is to be written is there already.
    #[error("{} is there already: choose another name, or say --replace", path.display())]
    IsThere {
        /// The file.
        path: PathBuf,
    },
    /// The store to be filled has something.
    #[error("{location} is not empty (table {table}): {remedy}")]
    NotEmpty {
        /// Where it is.
        location: String,
        /// A table with rows.
        table: &'static str,
        /// What would work.
        remedy: &'static str,
    },
    /// Part of another source was copied into it.
    #[error(
        "{location} has an unfinished copy of another source, or its source has changed since: --anew removes what was copied and begins anew"
    )]
    OtherSource {
        /// Where the target is.
        location: String,
    },
    /// A file with old jobs is not where it should be.
    #[error(
        "the archive {} is missing: put it back, or leave its jobs out with --without-missing-archives", path.display()
    )]
    ArchiveMissing {
        /// Where it should be.
        path: PathBuf,
    },
    /// Its tables are those of an earlier release.
    #[error("{location} has schema {found} of an earlier release: start cosyd on it once")]
    Old {
        /// Where it is.
        location: String,
        /// Number of its schema.
        found: i64,
    },
    /// A controller works on it.
    #[error("{location} is led by {holder}: stop all controllers first{hint}")]
    Led {
        /// Where it is.
        location: String,
        /// Who leads.
        holder: String,
        /// What else may help.
        hint: &'static str,
    },
    /// Somebody else took the lead meanwhile.
    #[error("a controller has taken the lead of {location} meanwhile: nothing is finished")]
    Deposed {
        /// Where it is.
        location: String,
    },
    /// What was copied is not what there is.
    #[error("what was copied differs in table {table}: nothing is finished")]
    Differs {
        /// The first such table.
        table: &'static str,
    },
    /// Who watched had enough.
    #[error("interrupted")]
    Interrupted,
}

/// Told how far it has come: what is done with which table, and the rows of it so far.
pub type Watch<'w> = &'w mut dyn FnMut(&str, u64) -> Result<(), CopyError>;

/// A part of the content that is gone through by itself.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// A table of the database.
    Table(&'static Table),
    /// An archive.
    Archive(Month),
}

impl Part {
    /// What kind it is, and which one.
    pub(super) fn names(self) -> (&'static str, String) {
        match self {
            Self::Table(table) => ("table", table.name.to_owned()),
            Self::Archive(month) => ("archive", month.to_string()),
        }
    }
}

/// What a part gives.
pub enum Given {
    /// A row.
    Row(&'static Table, Values),
    /// All rows up to this key of the part were given.
    UpTo(Values),
}

/// Whether archives whose files are missing are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MissingArchives {
    /// Nothing is copied then.
    #[default]
    Refused,
    /// Their jobs are lost.
    LeftOut,
}

/// Sums of all tables, in their order.
pub type Sums = Vec<(&'static str, Sum)>;

/// What is in a store as of one moment. Lives within a snapshot of its connection.
pub struct Content<'s> {
    store: &'s Store,
    months: Vec<Month>,
}

impl<'s> Content<'s> {
    /// Looks at what there is.
    ///
    /// # Errors
    /// Its schema is another one, an archive is missing; [`StoreError`].
    pub fn of(store: &'s Store, missing: MissingArchives) -> Result<Self, CopyError> {
        store.is_current()?;
        let mut months = Vec::new();
        for archive in store.archives()? {
            let path = store.archive_path(archive.month);
            match path.exists() {
                true => months.push(archive.month),
                false if missing == MissingArchives::LeftOut => {}
                false => return Err(CopyError::ArchiveMissing { path }),
            }
        }
        months.sort_unstable();
        Ok(Self { store, months })
    }

    /// All parts.
    pub fn parts(&self) -> Vec<Part> {
        let tables = TABLES.iter().map(Part::Table);
        let months = self.months.iter().map(|month| Part::Archive(*month));
        tables.chain(months).collect()
    }

    /// The store that it is in.
    pub const fn store(&self) -> &Store {
        self.store
    }

    /// Gives what a part has behind a key to `take`.
    ///
    /// # Errors
    /// The store cannot be read, or `take` fails.
    pub fn each(
        &self,
        part: Part,
        after: &[OwnedValue],
        take: &mut dyn FnMut(Given) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        match part {
            Part::Table(table) => table.each(&self.store.connection, after, |values| {
                let key = values.iter().take(table.keys).cloned().collect();
                take(Given::Row(table, values))?;
                take(Given::UpTo(key))
            }),
            Part::Archive(month) => self.each_archived(month, after, take),
        }
    }

    fn each_archived(
        &self,
        month: Month,
        after: &[OwnedValue],
        take: &mut dyn FnMut(Given) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        let archive = self.store.open_archive(month)?;
        let c = &archive.connection;
        let from = match after.first() {
            Some(OwnedValue::Integer(base)) => *base,
            Some(OwnedValue::Null | OwnedValue::Text(_) | OwnedValue::Blob(_)) | None => -1,
        };
        let mut all =
            c.prepare_cached("SELECT base, ids FROM submissions WHERE base > ?1 ORDER BY base")?;
        let mut all = all.query(params![from])?;
        let ids = |r: &sql::Row<'_>| Ok((r.get::<u64>(0)?, r.get::<u64>(1)?));
        while let Some((base, ids)) = all.next_with(ids)? {
            if self.store.has_submission(cosy_model::JobId(base))? {
                continue; // a crash has left a copy in the archive
            }
            self.archived(c, (base, base.saturating_add(ids)), take)?;
            take(Given::UpTo(vec![super::sql::postgres::number(base)]))?;
        }
        Ok(())
    }

    /// Gives a submission that is in an archive, with all that goes with it.
    fn archived(
        &self,
        archive: &Connection,
        (base, end): (u64, u64),
        take: &mut dyn FnMut(Given) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        let leaves: bool = self.store.connection.query_row(
            "SELECT EXISTS (SELECT 1 FROM leaving WHERE base = ?1)",
            params![base],
            |r| r.get(0),
        )?;
        let ids = [base, end].map(super::sql::postgres::number);
        for table in FOLLOWING.into_iter().filter_map(Table::named) {
            let id = table.columns.first().map_or("id", |(name, _)| name);
            let query = format!(
                "SELECT {} FROM {} WHERE {id} >= ?1 AND {id} < ?2 ORDER BY {id}",
                table.names(),
                table.name
            );
            table.rows(archive, &query, &ids, &mut |values| {
                if leaves && self.is_here(table, &values)? {
                    return Ok(());
                }
                take(Given::Row(table, values))
            })?;
        }
        let Some(table) = Table::named("submissions") else {
            return Ok(());
        };
        // Archives do not have that column, which means nothing any more.
        let names = table.names().replace("\"live\"", "0");
        let query = format!("SELECT {names} FROM submissions WHERE base >= ?1 AND base < ?2");
        table.rows(archive, &query, &ids, &mut |values| take(Given::Row(table, values)))
    }

    fn is_here(&self, table: &Table, values: &[OwnedValue]) -> sql::Result<bool> {
        let keys = table.columns.iter().take(table.keys).zip(1..);
        let same = keys.map(|((name, _), n)| format!("\"{name}\" = ?{n}"));
        let same = same.collect::<Vec<_>>().join(" AND ");
        let query = format!("SELECT 1 FROM \"{}\" WHERE {same}", table.name);
        let key: Values = values.iter().take(table.keys).cloned().collect();
        let found: Option<i64> = self
            .store
            .connection
            .query_row(&query, key.as_slice(), |r| r.get(0))
            .optional()?;
        Ok(found.is_some())
    }

    /// What the content is recognised by: how many rows, and the last key, of each part.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn fingerprint(&self) -> Result<String, CopyError> {
        let mut text = String::new();
        for part in self.parts() {
            let of = match part {
                Part::Table(table) => table.extent(&self.store.connection)?,
                Part::Archive(month) => {
                    let archive = self.store.open_archive(month)?;
                    let tables = FOLLOWING.into_iter().filter_map(Table::named);
                    let of = tables.map(|table| table.extent(&archive.connection));
                    let of: sql::Result<Vec<String>> = of.collect();
                    format!("{month} {}", of?.join(" "))
                }
            };
            text.push_str(&of);
            text.push('\n');
        }
        Ok(sha256_hex(text.as_bytes()))
    }

    /// Sums of all that there is.
    ///
    /// # Errors
    /// The store cannot be read, or who watches has enough.
    pub fn sums(&self, watch: Watch<'_>) -> Result<Sums, CopyError> {
        let mut sums: BTreeMap<&'static str, Sum> = BTreeMap::new();
        for part in self.parts() {
            let name = part.names().1;
            let mut rows = 0;
            self.each(part, &[], &mut |given| {
                let Given::Row(table, values) = given else {
                    return Ok(());
                };
                sums.entry(table.name).or_default().add(&values);
                rows += 1;
                match rows % WORD_ROWS {
                    0 => watch(&format!("reading {name}"), rows),
                    _ => Ok(()),
                }
            })?;
        }
        let of = |table: &Table| (table.name, sums.get(table.name).copied().unwrap_or_default());
        Ok(TABLES.iter().map(of).collect())
    }

    /// When the last event happened.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn last_event(&self) -> Result<Time, StoreError> {
        let at = self.store.sql(|c| {
            c.query_row("SELECT at FROM events ORDER BY seq DESC LIMIT 1", params![], |r| r.get(0))
                .optional()
        })?;
        Ok(Time(at.unwrap_or(0)))
    }
}

impl Store {
    /// Whether its tables are those of this release, and nothing is being copied into them.
    ///
    /// # Errors
    /// They are not.
    pub(super) fn is_current(&self) -> Result<(), CopyError> {
        let (found, known) = (self.schema()?, super::schema::known_schema());
        let location = self.location().to_string();
        if moves::is_unfinished(found) {
            return Err(StoreError::Unfinished { location }.into());
        }
        if found > known {
            return Err(StoreError::TooNew { found, known }.into());
        }
        match found < known {
            true => Err(CopyError::Old { location, found }),
            false => Ok(()),
        }
    }
}

/// Sums of all tables of a database.
///
/// # Errors
/// The database fails, or who watches has enough.
pub(super) fn sums_of(c: &Connection, watch: Watch<'_>) -> Result<Sums, CopyError> {
    let mut sums = Sums::new();
    for table in &TABLES {
        let mut sum = Sum::default();
        table.each::<CopyError>(c, &[], |values| {
            sum.add(&values);
            match sum.rows % WORD_ROWS {
                0 => watch(&format!("comparing {}", table.name), sum.rows),
                _ => Ok(()),
            }
        })?;
        sums.push((table.name, sum));
    }
    Ok(sums)
}
