//! A backup: one file, which is a store in SQLite with everything that the store has, old jobs out of
//! archives too. It is made of a store of either kind while that is written, and put back into one of
//! either kind.
//!
//! What always holds: the file has its name once it is whole, the same as the store, and on the disk.

use super::content::{Content, CopyError, MissingArchives, Watch, sums_of};
use super::copy::{Compared, Finish, PIECE, clear, compare, end, pour};
use super::sql::{self, Connection};
use super::{Location, Store, StoreError};
use cosy_control::RestoredRow;
use cosy_model::Time;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Takeovers that may have been since a backup was made.
const SKIPPED_EPOCHS: u64 = 1_000_000;

/// Writes a backup of a store, which may be written meanwhile.
///
/// # Errors
/// [`CopyError`]; then there is no such file, or it is the one that was there before.
pub fn backup(
    source: &Store,
    file: &Path,
    missing: MissingArchives,
    watch: Watch<'_>,
) -> Result<Vec<Compared>, CopyError> {
    let new = beside(file, ".part");
    let finish = |content: &Content<'_>| {
        Ok(Finish {
            epoch: content.store().epoch()?,
            next_job: content.store().next_job()?,
            ..Finish::default()
        })
    };
    let made = make_file(source, &new, missing, &finish, watch);
    let compared = match made {
        Ok(compared) => compared,
        Err(e) => {
            let _ = fs::remove_file(&new);
            return Err(e);
        }
    };
    put_in_place(&new, file)?;
    Ok(compared)
}

/// What a restored store says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Since {
    /// Nobody knows what has happened since the backup: what may have run is held.
    Unknown,
    /// Nothing has: all goes on as it was.
    Nothing,
}

/// How a backup is put back.
#[derive(Clone, Copy, Debug)]
pub struct Restoring {
    /// What has happened since it was made.
    pub since: Since,
    /// Archives whose files are gone.
    pub missing: MissingArchives,
    /// What is in the store is removed.
    pub replace: bool,
    /// The date.
    pub now: Time,
}

impl Restoring {
    fn finish(self, content: &Content<'_>, own_epoch: u64) -> Result<Finish, CopyError> {
        let row = RestoredRow {
            at: self.now,
            last: content.last_event()?,
        };
        // Where none has led, no node asks for one.
        let epoch = match content.store().epoch()?.max(own_epoch) {
            0 => 0,
            epoch => epoch.saturating_add(SKIPPED_EPOCHS),
        };
        Ok(Finish {
            epoch,
            next_job: content.store().next_job()?,
            copied: None,
            restored: (self.since == Since::Unknown).then_some(row),
        })
    }
}

/// Makes a store in a file out of a backup, beside the place where it belongs; gives the new file.
///
/// # Errors
/// [`CopyError`]; then there is no new file.
pub fn restore_file(
    backup: &Store,
    place: &Path,
    restoring: Restoring,
    watch: Watch<'_>,
) -> Result<(PathBuf, Vec<Compared>), CopyError> {
    let new = beside(place, ".restoring");
    let finish = |content: &Content<'_>| restoring.finish(content, 0);
    match make_file(backup, &new, restoring.missing, &finish, watch) {
        Ok(compared) => Ok((new, compared)),
        Err(e) => {
            let _ = fs::remove_file(&new);
            Err(e)
        }
    }
}

/// Puts a backup into a database on a server: all of it in one transaction, with the removal of what
/// was there.
///
/// # Errors
/// [`CopyError`]; nothing was changed.
pub fn restore_server(
    backup: &Store,
    target: &mut Store,
    restoring: Restoring,
    watch: Watch<'_>,
) -> Result<Vec<Compared>, CopyError> {
    if !restoring.replace
        && let Some(table) = target.filled_table()?
    {
        return Err(CopyError::NotEmpty {
            location: target.location().to_string(),
            table,
            remedy: "--replace removes what is there",
        });
    }
    target.unhurried()?;
    let own_epoch = target.epoch()?;
    backup.connection.snapshot(|| {
        let content = Content::of(backup, restoring.missing)?;
        let finish = restoring.finish(&content, own_epoch)?;
        let mut done = Ok(Vec::new());
        let carried_out = target.connection.transact(|t| {
            done = fill(&content, t, &finish, watch);
            match &done {
                Ok(_) => Ok(()),
                Err(e) => Err(sql::Error::Other(e.to_string())),
            }
        });
        let compared = done?;
        carried_out.map_err(|source| target.error(source))?;
        Ok(compared)
    })
}

fn fill(
    content: &Content<'_>,
    t: &Connection,
    finish: &Finish,
    watch: Watch<'_>,
) -> Result<Vec<Compared>, CopyError> {
    clear(t)?;
    for part in content.parts() {
        let (name, mut rows) = (part.names().1, 0);
        pour(content, part, &[], PIECE, &mut |piece| {
            rows += piece.len() as u64;
            piece.insert(t)?;
            // What is kept back until the end of the transaction is sent.
            t.execute_batch("SELECT 1")?;
            watch(&format!("restoring {name}"), rows)
        })?;
    }
    let compared = same(compare(&content.sums(watch)?, &sums_of(t, watch)?))?;
    end(t, finish)?;
    Ok(compared)
}

fn same(compared: Vec<Compared>) -> Result<Vec<Compared>, CopyError> {
    match compared.iter().find(|one| one.source != one.target) {
        Some(Compared { table, .. }) => Err(CopyError::Differs { table }),
        None => Ok(compared),
    }
}

/// Makes a whole store in a new file, on the disk.
fn make_file(
    source: &Store,
    new: &Path,
    missing: MissingArchives,
    finish: &dyn Fn(&Content<'_>) -> Result<Finish, CopyError>,
    watch: Watch<'_>,
) -> Result<Vec<Compared>, CopyError> {
    let failed = |source: io::Error| CopyError::File {
        path: new.to_owned(),
        source,
    };
    match fs::remove_file(new) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
        Ok(()) | Err(_) => {}
    }
    // SQLite makes its files with the mode of the database file.
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(new)
        .map_err(failed)?;
    let mut target = Store::new_file(new)?;
    source.unhurried()?;
    let compared = source.connection.snapshot(|| {
        let content = Content::of(source, missing)?;
        for part in content.parts() {
            let (name, mut rows) = (part.names().1, 0);
            pour(&content, part, &[], PIECE, &mut |piece| {
                rows += piece.len() as u64;
                target.in_transaction(|t| piece.insert(t))?;
                watch(&format!("writing {name}"), rows)
            })?;
        }
        let target_sums = sums_of(&target.connection, watch)?;
        let compared = same(compare(&content.sums(watch)?, &target_sums))?;
        let finish = finish(&content)?;
        target.in_transaction(|t| end(t, &finish))?;
        Ok::<_, CopyError>(compared)
    })?;
    drop(target);
    file.sync_all().map_err(failed)?;
    Ok(compared)
}

impl Store {
    /// An empty store in a new file, without a log beside it; what is written is on the disk when
    /// somebody syncs the file.
    fn new_file(path: &Path) -> Result<Self, StoreError> {
        let store = Self::connect(&Location::Sqlite(path.to_owned()), true)?;
        if let Connection::Sqlite(c) = &store.connection {
            let made = || {
                c.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
                c.pragma_update(None, "journal_mode", "MEMORY")?;
                c.pragma_update(None, "synchronous", "OFF")?;
                c.pragma_update(None, "cache_size", -16_000)
            };
            made().map_err(|e: rusqlite::Error| store.error(e.into()))?;
        }
        store.migrate()?;
        Ok(store)
    }

    /// Brings what is in the log of a file into the file itself.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn gather_log(&self) -> Result<(), StoreError> {
        self.sql(|c| match c {
            Connection::Sqlite(_) => c.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)"),
            Connection::Postgres(_) => Ok(()),
        })
    }

    /// Copies a store in a file as it is into another one, which is empty.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn copy_into(&self, path: &Path) -> Result<(), StoreError> {
        self.sql(|c| {
            let name = path
                .to_str()
                .ok_or_else(|| rusqlite::Error::InvalidPath(path.to_owned()))?;
            // It writes nothing here, and is refused all the same to those who only read.
            c.execute_batch("PRAGMA query_only = OFF")?;
            c.execute("VACUUM INTO ?1", sql::params![name]).map(drop)
        })
    }
}

/// The path with something behind it.
pub fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// The folder that a file is in.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    }
}

/// Gives a file its name; on the disk when this is done.
///
/// # Errors
/// The system says no.
pub fn put_in_place(new: &Path, path: &Path) -> Result<(), CopyError> {
    fs::rename(new, path)
        .and_then(|()| File::open(folder_of(path))?.sync_all())
        .map_err(|source| CopyError::File {
            path: path.to_owned(),
            source,
        })
}

#[cfg(test)]
mod tests;
