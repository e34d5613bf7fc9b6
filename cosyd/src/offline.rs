//! What is done to the store instead of running: looking after what is set aside, and making its
//! file small.

use crate::config::Config;
use crate::house::lock;
use crate::output::print;
use crate::store::set_aside::Unit;
use crate::store::{Location, Store};
use anyhow::bail;

/// What is done, instead of running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfflineCommand {
    /// Prints the rows that are set aside.
    ListSetAside,
    /// Puts this row back. The daemon may run: it takes notice at its next start.
    PutBack(u64),
    /// Gives this row up; so too.
    GiveUp(u64),
    /// Writes the database anew, without the room that is free in it. The daemon must not run.
    Compact,
}

/// Does it.
///
/// # Errors
/// There is no store yet, it cannot be read or written, nothing has that number, or the daemon
/// runs that must not.
pub fn run(config: &Config, command: OfflineCommand) -> anyhow::Result<()> {
    let folder = &config.daemon.state_dir;
    let database = config.daemon.database();
    if let Location::Sqlite(path) = &database
        && !path.exists()
    {
        bail!("there is no {database}");
    }
    let _lock = match command {
        OfflineCommand::Compact => Some(lock(folder)?),
        OfflineCommand::ListSetAside | OfflineCommand::PutBack(_) | OfflineCommand::GiveUp(_) => {
            None
        }
    };
    let mut store = Store::open_at(&database)?;
    match command {
        OfflineCommand::ListSetAside => list(&store),
        OfflineCommand::PutBack(id) => {
            told(id, store.put_back(id)?, "is taken up at the next start")
        }
        OfflineCommand::GiveUp(id) => told(id, store.give_up(id)?, "is given up"),
        OfflineCommand::Compact => compact(&mut store, &database),
    }
}

fn list(store: &Store) -> anyhow::Result<()> {
    let mut text = String::new();
    for aside in store.all_aside()? {
        let (id, at) = (aside.id, aside.at.0 / 1000);
        text.push_str(&format!("{id}\t{}\tsince @{at}\t{}\n", aside.unit, aside.why));
    }
    Ok(print(&text)?)
}

fn told(id: u64, unit: Option<Unit>, what: &str) -> anyhow::Result<()> {
    let Some(unit) = unit else {
        bail!("nothing that is set aside has number {id}");
    };
    Ok(print(&format!("{unit} {what}\n"))?)
}

fn compact(store: &mut Store, database: &Location) -> anyhow::Result<()> {
    let Location::Sqlite(path) = database else {
        store.compact()?;
        return Ok(print(&format!("{database} was vacuumed\n"))?);
    };
    let before = std::fs::metadata(path)?.len();
    store.compact()?;
    let after = std::fs::metadata(path)?.len();
    let mib = |bytes: u64| bytes >> 20;
    let path = path.display();
    Ok(print(&format!("{path} had {} MiB and has {} MiB now\n", mib(before), mib(after)))?)
}
