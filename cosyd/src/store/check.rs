//! Looking for what does not fit together in a store: rows that name others which are not there, columns
//! that differ from the row they were made of, rows that cannot be read, books that do not add up.
//!
//! Reads as of one moment, so that a controller may write meanwhile; changes nothing. What always holds:
//! memory is taken for what is live, set aside or an account, and for no table as a whole.

mod archives;
mod books;
mod jobs;
mod rows;

use super::Store;
use super::content::CopyError;
use super::sql::{self, Connection, OwnedValue, Row, params};
use std::collections::BTreeSet;
use std::fmt;

/// Lines that SQLite says at most of a file that is damaged.
const DAMAGES: u32 = 100;

/// What may be done about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// Only a backup has it as it was.
    Restore,
    /// Nothing needs to be done; what follows from it.
    Harmless(&'static str),
    /// It is set aside at the next start.
    SetAside,
    /// Something else.
    Other(&'static str),
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restore => f.write_str("put a backup back (cosyd store restore)"),
            Self::Harmless(why) => write!(f, "harmless: {why}"),
            Self::SetAside => f.write_str(
                "the next start sets it aside: then cosyd --set-aside lists it, and --give-up ends it",
            ),
            Self::Other(what) => f.write_str(what),
        }
    }
}

/// Something that does not fit, in one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// In which table, and which row.
    pub place: String,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub remedy: Remedy,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one_line = |text: &str| text.replace(char::is_control, " ");
        write!(f, "{}: {}: {}", one_line(&self.place), one_line(&self.what), self.remedy)
    }
}

/// Told of what is found.
pub type Tell<'t> = &'t mut dyn FnMut(Finding);

/// What a check goes through.
struct Check<'c> {
    store: &'c Store,
    c: &'c Connection,
    /// What is set aside, by kind and name.
    aside: BTreeSet<(String, String)>,
    tell: Tell<'c>,
}

/// Looks through a store, and its archives.
///
/// # Errors
/// It cannot be read, or its schema is not of this release. What is wrong inside is told.
pub fn check(store: &Store, tell: Tell<'_>) -> Result<(), CopyError> {
    store.is_current()?;
    store.unhurried()?;
    integrity(&store.connection, "the database", tell);
    store.connection.snapshot(|| {
        let aside = store
            .connection
            .prepare_cached("SELECT source, object FROM set_aside")?;
        let aside = aside.all_pairs()?;
        let mut check = Check {
            store,
            c: &store.connection,
            aside,
            tell,
        };
        check.jobs()?;
        check.belongings()?;
        check.rows()?;
        check.books()?;
        check.archives()
    })
}

/// What SQLite itself says of its file; a server looks after its files itself.
fn integrity(c: &Connection, of: &str, tell: Tell<'_>) {
    if matches!(c, Connection::Postgres(_)) {
        return;
    }
    let lines = || -> sql::Result<Vec<String>> {
        c.prepare_cached(&format!("PRAGMA integrity_check({DAMAGES})"))?
            .query_map(params![], |r| r.get(0))?
            .collect()
    };
    // Where the damage is such that it cannot even look.
    let lines = lines().unwrap_or_else(|e| vec![e.to_string()]);
    for line in lines.into_iter().filter(|line| line != "ok") {
        tell(Finding {
            place: of.to_owned(),
            what: format!("the file is damaged: {line}"),
            remedy: Remedy::Restore,
        });
    }
}

impl sql::Statement<'_> {
    fn all_pairs(mut self) -> sql::Result<BTreeSet<(String, String)>> {
        self.query_map(params![], |r| Ok((r.get(0)?, r.get(1)?)))?
            .collect()
    }
}

impl Check<'_> {
    fn found(&mut self, place: String, what: impl Into<String>, remedy: Remedy) {
        let what = what.into();
        (self.tell)(Finding {
            place,
            what,
            remedy,
        });
    }

    fn is_aside(&self, source: &str, object: impl ToString) -> bool {
        let key = (source.to_owned(), object.to_string());
        self.aside.contains(&key)
    }

    /// Gives each row of a query to `read`.
    fn each<T>(
        &mut self,
        query: &str,
        read: impl Fn(&Row<'_>) -> sql::Result<T>,
        mut take: impl FnMut(&mut Self, T) -> sql::Result<()>,
    ) -> sql::Result<()> {
        let c = self.c;
        let mut statement = c.prepare_cached(query)?;
        let mut rows = statement.query(params![])?;
        while let Some(row) = rows.next_with(&read)? {
            take(self, row)?;
        }
        Ok(())
    }

    /// Tells of each row that a query finds, by the numbers or names in its columns.
    fn each_is_wrong(
        &mut self,
        table: &str,
        query: &str,
        columns: usize,
        what: &str,
        remedy: Remedy,
    ) -> sql::Result<()> {
        let key = |r: &Row<'_>| {
            let parts: sql::Result<Vec<String>> = (0..columns).map(|at| r.get(at)).collect();
            Ok(parts?.join("."))
        };
        self.each(query, key, |check, key| {
            check.found(format!("{table} {key}"), what, remedy);
            Ok(())
        })
    }

    /// Whether a query finds something.
    fn exists(&self, query: &str, values: &[OwnedValue]) -> sql::Result<bool> {
        let query = format!("SELECT EXISTS ({query})");
        self.c.query_row(&query, values, |r| r.get(0))
    }
}

#[cfg(test)]
mod tests;
