//! `cosyd store`: moving the state between SQLite and PostgreSQL, backups, and looking for faults.
//!
//! Knows where stores are and who must not run meanwhile; what is done is in [`crate::store`].

mod guard;
mod line;
mod place;
mod report;

use crate::clock;
use crate::house::{close_store, make_dir};
use crate::output::print;
use crate::store::backup::{self, Restoring, Since, beside, put_in_place};
use crate::store::check::check;
use crate::store::content::{Content, MissingArchives};
use crate::store::copy::{Options, Outcome, PIECE, copy};
use crate::store::{Location, Store};
use anyhow::{Context, bail};
use guard::{Guard, give_to_owner};
use line::{Command, Line};
use place::Place;
use report::{Progress, compared, same};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code for a command line that makes no sense.
const USAGE: u8 = 2;

const HELP: &str = "\
cosyd store - move, check and back up the controller's state

usage: cosyd store copy --from STORE --to STORE [options]
       cosyd store check [STORE]
       cosyd store backup FILE [options]
       cosyd store restore FILE [options]

  copy               copy a whole store into an empty one, of either kind; no
                     controller may run on either. What was interrupted is gone
                     on with when the same is said again. At the end all rows of
                     both are compared
  check              look for what does not fit together, a line for each, with
                     what to do; a controller may run meanwhile
  backup             write everything into one file, while a controller runs
  restore            put such a file into the place of the store; no controller
                     may run. Jobs that may have run since are held

STORE is a configuration, whose store is meant (cosy.toml), or sqlite:PATH, or
postgres:CONNECTION (libpq's words, or postgresql://...).

  --from STORE       what is copied
  --to STORE         where it is copied to
  --config STORE     of what the backup is, or where it is put back
                     (default /etc/cosy/cosy.toml)
  --name NAME        which [[controller]] of the configuration this is
  --anew             copy: remove what an interrupted copy has left, begin anew
  --replace          backup: replace a file; restore: replace what is in the
                     store. A store in a file is kept beside, with the date
  --nothing-since    restore: nothing has happened since the backup was made (the
                     controller was stopped for it): no job is held
  --without-missing-archives
                     leave out old jobs in archives whose files are gone
  -h, --help         this text

  cosyd store copy --from sqlite.toml --to postgres.toml
  cosyd store backup /backup/cosy-$(date +%F)

Exit codes: 0 done, or no fault found; 1 failure, difference or fault; 2 usage.
";

/// Carries out a command line, without the word `store`.
pub fn main(args: impl Iterator<Item = String>) -> ExitCode {
    let line = match line::read(args) {
        Ok(Some(line)) => line,
        Ok(None) => {
            return match print(HELP) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            };
        }
        Err(e) => {
            eprintln!("cosyd store: {e}; see cosyd store --help");
            return ExitCode::from(USAGE);
        }
    };
    match run(&line) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("cosyd store: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// Carries it out; false where something differs or does not fit.
fn run(line: &Line) -> anyhow::Result<bool> {
    let place = |text: &str| Place::of(text, line.name.as_deref());
    match &line.command {
        Command::Copy { from, to } => run_copy(line, &place(from)?, &place(to)?),
        Command::Check => run_check(&place(&line.config)?),
        Command::Backup { file } => run_backup(line, &place(&line.config)?, file).map(|()| true),
        Command::Restore { file } => run_restore(line, &place(&line.config)?, file).map(|()| true),
    }
}

fn run_copy(line: &Line, from: &Place, to: &Place) -> anyhow::Result<bool> {
    from.must_be_there()?;
    if from.is_same(to) {
        bail!("{} cannot be copied into itself", from.location);
    }
    if let Some(folder) = to.folder() {
        make_dir(&folder, 0o700)?;
    }
    let mut guard = Guard::take(&[from, to])?;
    if let Location::Sqlite(path) = &to.location {
        close_store(path)?;
    }
    let source = Store::open_at(&from.location)?;
    let mut target = Store::open_for_copy(&to.location)?;
    if let Some(epoch) = guard.epoch(to) {
        target.fence(epoch);
    }
    let options = Options {
        bounds: PIECE,
        missing: line.missing,
        anew: line.anew,
        now: clock::now(),
    };
    let mut progress = Progress::default();
    let outcome = copy(&source, &mut target, options, &mut |what, rows| {
        progress.tell(what, rows);
        guard.keep()
    })?;
    progress.end();
    drop(target);
    if let (Location::Sqlite(path), Some(folder)) = (&to.location, to.folder()) {
        for end in ["", "-wal", "-shm"] {
            give_to_owner(&beside(path, end), &folder)?;
        }
    }
    match outcome {
        Outcome::Already(at) => {
            let when = report::date(at);
            print(&format!(
                "{} was copied into {} on {when}, and has not changed since: nothing is done\n",
                from.location, to.location
            ))?;
            Ok(true)
        }
        Outcome::Copied(all) => {
            print(&format!("{}{}", compared(&all), same(&all)))?;
            Ok(true)
        }
        Outcome::Differs(all) => {
            print(&compared(&all))?;
            eprintln!(
                "cosyd store: {} is not the same: it stays unfinished; --anew begins anew",
                to.location
            );
            Ok(false)
        }
    }
}

fn run_check(place: &Place) -> anyhow::Result<bool> {
    place.must_be_there()?;
    let store = Store::open_reader(&place.location)?;
    let mut count = 0u64;
    let mut said = Ok(());
    check(&store, &mut |finding| {
        count += 1;
        if said.is_ok() {
            said = print(&format!("{finding}\n"));
        }
    })?;
    said?;
    match count {
        0 => print(&format!("{}: no faults\n", place.location))?,
        _ => eprintln!("cosyd store: {} has {count} faults", place.location),
    }
    Ok(count == 0)
}

fn run_backup(line: &Line, place: &Place, file: &Path) -> anyhow::Result<()> {
    place.must_be_there()?;
    if file.exists() && !line.replace {
        bail!("{} is there already: choose another name, or say --replace", file.display());
    }
    let store = Store::open_reader(&place.location)?;
    let mut progress = Progress::default();
    let all = backup::backup(&store, file, line.missing, &mut |what, rows| {
        progress.tell(what, rows);
        Ok(())
    })?;
    progress.end();
    let bytes = fs::metadata(file)?.len();
    Ok(print(&format!("{}: {} KiB, {}", file.display(), bytes.div_ceil(1024), same(&all)))?)
}

fn run_restore(line: &Line, place: &Place, file: &Path) -> anyhow::Result<()> {
    if !file.is_file() {
        bail!("there is no file {}", file.display());
    }
    let from = Place::of_file(file);
    if from.is_same(place) {
        bail!("{} cannot be put back into itself", file.display());
    }
    let (saved, _migrated) = open_backup(file)?;
    let restoring = Restoring {
        since: match line.nothing_since {
            true => Since::Nothing,
            false => Since::Unknown,
        },
        missing: line.missing,
        replace: line.replace,
        now: clock::now(),
    };
    let mut progress = Progress::default();
    let all = match &place.location {
        Location::Sqlite(path) => restore_file(place, path, &saved, restoring, &mut progress)?,
        Location::Postgres { .. } => {
            let guard = Guard::take(&[place])?;
            let mut target = Store::open_for_copy(&place.location)?;
            if let Some(epoch) = guard.epoch(place) {
                target.fence(epoch);
            }
            // The lead's row is locked by the one transaction in which all is done.
            backup::restore_server(&saved, &mut target, restoring, &mut |what, rows| {
                progress.tell(what, rows);
                Ok(())
            })?
        }
    };
    progress.end();
    let held = match restoring.since {
        Since::Unknown => {
            "at its first start the controller holds all jobs that wait (held_restored), and asks the nodes for those that ran: look at them, then 'cosy release' or 'ccancel'\n"
        }
        Since::Nothing => "",
    };
    Ok(print(&format!("{}: {}{held}", place.location, same(&all)))?)
}

fn restore_file(
    place: &Place,
    path: &Path,
    saved: &Store,
    restoring: Restoring,
    progress: &mut Progress,
) -> anyhow::Result<Vec<crate::store::copy::Compared>> {
    let folder = place
        .folder()
        .with_context(|| format!("{} is no file", path.display()))?;
    make_dir(&folder, 0o700)?;
    let _guard = Guard::take(&[place])?;
    if path.exists() && !restoring.replace {
        let there = Store::open_for_copy(&place.location).and_then(|store| store.filled_table());
        match there {
            Ok(None) => {}
            Ok(Some(table)) => bail!(
                "{} is not empty (table {table}): --replace puts it aside, with the date",
                path.display()
            ),
            Err(e) => bail!("{e}: --replace puts it aside, with the date"),
        }
    }
    let (new, all) = backup::restore_file(saved, path, restoring, &mut |what, rows| {
        progress.tell(what, rows);
        Ok(())
    })?;
    give_to_owner(&new, &folder)?;
    if path.exists() {
        put_aside(path, &folder)?;
    }
    put_in_place(&new, path)?;
    Ok(all)
}

/// Keeps a store in a file under another name, with its archives; until the new one has its name the
/// old one has it too.
fn put_aside(path: &Path, folder: &Path) -> anyhow::Result<()> {
    // What is in the log comes into the file, unless that is damaged.
    let _ = Store::open_for_copy(&Location::Sqlite(path.to_owned()))
        .and_then(|store| store.gather_log());
    let date = report::file_date(clock::now());
    let aside = beside(path, &format!(".{date}"));
    let about = || format!("cannot keep {} as {}", path.display(), aside.display());
    fs::hard_link(path, &aside).with_context(about)?;
    for end in ["-wal", "-shm"] {
        let log = beside(path, end);
        if log.exists() {
            fs::rename(&log, beside(&aside, end)).with_context(about)?;
        }
    }
    let archive = folder.join("archive");
    if archive.exists() {
        fs::rename(&archive, folder.join(format!("archive.{date}"))).with_context(about)?;
    }
    eprintln!("cosyd store: what was there is {} now", aside.display());
    Ok(())
}

/// A copy that goes when this does.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(beside(&self.0, end));
        }
    }
}

/// Opens a backup; of one that an earlier release made a copy is brought up to date.
fn open_backup(file: &Path) -> anyhow::Result<(Store, Option<Scratch>)> {
    let location = Location::Sqlite(file.to_owned());
    let store = Store::open_reader(&location)?;
    let old = Content::of(&store, MissingArchives::LeftOut).map(drop);
    let Err(crate::store::content::CopyError::Old { .. }) = old else {
        return Ok((store, None));
    };
    let scratch = Scratch(beside(file, ".migrating"));
    drop(Scratch(scratch.0.clone()));
    close_store(&scratch.0)?;
    store.copy_into(&scratch.0)?;
    let store = Store::open_at(&Location::Sqlite(scratch.0.clone()))?;
    Ok((store, Some(scratch)))
}

#[cfg(test)]
mod tests;
