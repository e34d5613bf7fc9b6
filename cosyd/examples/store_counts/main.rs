//! Fixed pieces of work of a store in a file, to be counted in instructions: `store_counts NAME` does one
//! of them and prints what came out; `store_counts` alone prints the names.
//!
//! What is written is what a real controller asks for, batch by batch ([`site`]). `make bench-counts`
//! counts each piece from outside and compares: only what happens in [`measured`] counts, not what it is
//! done on.

mod site;

use anyhow::Context;
use cosy_control::Record;
use cosy_model::api::JobFilter;
use cosy_model::limits;
use cosyd::store::Store;
use cosyd::store::history::{Continuation, HistoryQuery};
use site::Site;
use std::hint::black_box;
use std::process::ExitCode;
use tempfile::TempDir;

/// Jobs of each piece.
const JOBS: u64 = 1000;

/// A piece of work: its name, and what does it.
type Work = (&'static str, fn() -> anyhow::Result<String>);

const ALL: [Work; 4] = [
    ("1,000 submissions written to a store in a file, one by one", submissions),
    ("1,000 jobs with a step each started and ended in a store in a file", runs),
    ("1,000 waiting jobs taken up from a store in a file", start),
    ("1,000 ended jobs read from a store in a file", history),
];

/// What is counted.
#[inline(never)]
fn measured<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}

fn main() -> ExitCode {
    let Some(name) = std::env::args().nth(1) else {
        ALL.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    };
    let Some((_, work)) = ALL.iter().find(|(known, _)| *known == name) else {
        eprintln!("store_counts: there is no '{name}'; without a name it prints all");
        return ExitCode::FAILURE;
    };
    match work() {
        Ok(told) => {
            println!("{told}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("store_counts: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// A new store. The folder goes with what is first.
fn store() -> anyhow::Result<(TempDir, Store)> {
    let folder = tempfile::tempdir().context("a temporary folder")?;
    let store = Store::open(&folder.path().join("cosy.db"))?;
    Ok((folder, store))
}

/// Each batch in a transaction of its own, as when nothing else waits to be written.
fn write(store: &mut Store, batches: &[Vec<Record>]) -> anyhow::Result<()> {
    for batch in batches {
        store.commit(batch)?;
    }
    Ok(())
}

fn told(batches: &[Vec<Record>]) -> String {
    let records: usize = batches.iter().map(Vec::len).sum();
    format!("{records} records in {} batches", batches.len())
}

fn submissions() -> anyhow::Result<String> {
    let mut site = Site::new();
    let batches = site.submit(JOBS);
    let (_folder, mut store) = store()?;
    measured(|| write(&mut store, black_box(&batches)))?;
    Ok(told(&batches))
}

fn runs() -> anyhow::Result<String> {
    let mut site = Site::new();
    let (_folder, mut store) = store()?;
    write(&mut store, &site.submit(JOBS))?;
    write(&mut store, &site.connect())?;
    let batches = site.run();
    measured(|| write(&mut store, black_box(&batches)))?;
    Ok(told(&batches))
}

fn start() -> anyhow::Result<String> {
    let (_folder, mut store) = store()?;
    write(&mut store, &Site::new().submit(JOBS))?;
    let (loaded, _) = measured(|| store.load())?;
    Ok(format!("{} jobs", loaded.submissions.len()))
}

fn history() -> anyhow::Result<String> {
    let mut site = Site::new();
    let (_folder, mut store) = store()?;
    for batches in [site.submit(JOBS), site.connect(), site.run()] {
        write(&mut store, &batches)?;
    }
    let reading = HistoryQuery {
        filter: &JobFilter::default(),
        only: None,
        most_ids: limits::HISTORY_IDS,
    };
    let mut ended = 0;
    measured(|| {
        store.history(reading, |row, _| {
            ended += u64::from(row.end.is_some());
            Continuation::More
        })
    })?;
    Ok(format!("{ended} jobs"))
}
