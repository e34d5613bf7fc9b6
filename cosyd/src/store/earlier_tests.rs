//! Databases of earlier releases: every row is read with all that is in it.
//!
//! `tests/tools/make-state.py` makes them.

use super::sql::{self, params};
use super::{Store, StoreError, decode};
use cosy_control::record::{OwnQueue, PolicyRow};
use cosy_control::{
    AccountRow, FiguresRow, HourPriceRow, JobRow, NodeRow, ReservationRow, UsageRow,
};
use cosy_control::{ClockRow, OlderRow, StandingRow, SubmissionRow, TriggerRow};
use cosy_control::{FlowRow, FlowTaskRow};
use cosy_kept::{MessagePackValue, lost_fields};
use cosy_model::api::Reply;
use cosy_model::step::StepRecord;
use cosy_model::workflow::FlowSpec;
use cosy_model::{LicenseUse, QueueState, TaskIndices};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// One that has every kind of record.
const WHOLE: &str = "state-0.1.0-schema-12/cosy.db";

const ALL: [&str; 4] = [
    "cosy-0.1.0.db",
    "cosy-0.1.0-schema-2.db",
    "cosy-0.1.0-schema-12.db",
    WHOLE,
];

/// Tables that it does not have yet.
const LATER: [&str; 5] = ["clock", "policy", "usage", "license_use", "runs"];

/// Stores whose records are maps with names; those of the first schemas had lists.
const NAMED: [&str; 2] = ["cosy-0.1.0-schema-12.db", WHOLE];

/// What of a record is lost when it is read.
type Losses = fn(&[u8]) -> Vec<String>;

/// Every column with records, and as what they are read.
const RECORDS: [(&str, &str, Losses); 23] = [
    ("submissions", "row", lost_fields::<SubmissionRow>),
    ("bodies", "row", lost_fields::<SubmissionRow>),
    ("standings", "row", lost_fields::<StandingRow>),
    ("jobs", "row", lost_fields::<JobRow>),
    ("runs", "row", lost_fields::<JobRow>),
    ("steps", "records", lost_fields::<Vec<StepRecord>>),
    ("nodes", "row", lost_fields::<NodeRow>),
    ("queues", "row", lost_fields::<QueueState>),
    ("own_queues", "row", lost_fields::<OwnQueue>),
    ("answers", "reply", lost_fields::<Reply>),
    ("reservations", "row", lost_fields::<ReservationRow>),
    ("accounts", "row", lost_fields::<AccountRow>),
    ("policy", "row", lost_fields::<PolicyRow>),
    ("figures", "row", lost_fields::<FiguresRow>),
    ("hour_prices", "row", lost_fields::<HourPriceRow>),
    ("usage", "row", lost_fields::<UsageRow>),
    ("license_use", "row", lost_fields::<LicenseUse>),
    ("flows", "row", lost_fields::<FlowRow>),
    ("flows", "spec", lost_fields::<FlowSpec>),
    ("flow_tasks", "row", lost_fields::<FlowTaskRow>),
    ("triggers", "row", lost_fields::<TriggerRow>),
    ("older", "row", lost_fields::<OlderRow>),
    ("clock", "row", lost_fields::<ClockRow>),
];

/// A copy of a fixture: to open a database may change it.
fn copy_of(name: &str) -> (TempDir, PathBuf) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cosy.db");
    fs::copy(fixtures.join(name), &path).unwrap();
    (dir, path)
}

fn blobs(store: &Store, table: &str, column: &str) -> Vec<Vec<u8>> {
    let query = format!("SELECT {column} FROM {table}");
    let found = store.sql(|c| {
        c.prepare_cached(&query)?
            .query_map(params![], |r| r.get(0))?
            .collect::<Result<Vec<_>, _>>()
    });
    found.unwrap()
}

#[test]
fn every_row_of_an_earlier_release_is_read_whole() {
    let mut all = BTreeSet::new();
    for name in NAMED {
        let (_dir, path) = copy_of(name);
        let store = Store::open(&path).unwrap();
        let unreadable = set_aside(&store);
        for (table, column, losses) in RECORDS {
            let rows = blobs(&store, table, column);
            let expected = name == WHOLE && !LATER.contains(&table);
            assert!(!expected || !rows.is_empty(), "no row in {table}");
            let read = rows.iter().filter(|row| !unreadable.contains(row));
            all.extend(
                read.flat_map(|row| losses(row))
                    .filter(|what| !is_list_of_indices(what))
                    .map(|what| format!("{name}: {table}{what}")),
            );
        }
    }
    assert!(all.is_empty(), "lost: {all:#?}");
}

/// Indices of an array were a list: they are written as ranges since, and lists are read as what they stand
/// for.
fn is_list_of_indices(lost: &str) -> bool {
    let both = lost.strip_prefix("/indices was List([Int(");
    let both = both.and_then(|both| both.strip_suffix("\")"));
    let both = both.and_then(|both| both.split_once(")]) and is Text(\""));
    both.is_some_and(|(list, text)| {
        let list = list.split("), Int(").map_while(|index| index.parse().ok());
        list.collect::<TaskIndices>().to_string() == text
    })
}

/// Rows of submissions that the release that made the fixture could not read either.
fn set_aside(store: &Store) -> Vec<Vec<u8>> {
    let aside = "set_aside a ON a.source = 'job' AND a.object = CAST(s.base AS TEXT)";
    blobs(store, &format!("submissions s JOIN {aside}"), "s.row")
}

#[test]
fn nothing_of_an_earlier_release_is_set_aside() {
    for name in ALL {
        let (_dir, path) = copy_of(name);
        let (loaded, bad) = Store::open(&path).unwrap().load().unwrap();
        assert_eq!(bad, [], "{name}");
        assert!(!loaded.submissions.is_empty());
        assert_eq!(name == WHOLE, !loaded.flows.is_empty());
        assert_eq!(name == WHOLE, !loaded.triggers.is_empty());
    }
}

/// Events are kept in columns: each has its text when it is read.
#[test]
fn events_of_an_earlier_release_are_told_as_they_were() {
    for name in ALL {
        let (_dir, path) = copy_of(name);
        let store = Store::open(&path).unwrap();
        let kept: Vec<MessagePackValue> = store
            .sql(|c| {
                c.prepare_cached(
                    "SELECT seq, at, what, who, object, detail FROM events ORDER BY seq",
                )?
                .query_map(params![], event)?
                .collect()
            })
            .unwrap();
        let read = all_events(&store).unwrap();
        assert_eq!(read.len(), kept.len(), "{name}");
        assert_eq!(read, kept, "{name}");
    }
}

fn event(r: &sql::Row<'_>) -> sql::Result<MessagePackValue> {
    let name = |text: &str| MessagePackValue::Text(text.to_owned());
    let mut all = BTreeMap::new();
    for (at, column) in ["seq", "at"].into_iter().enumerate() {
        all.insert(name(column), MessagePackValue::Int(r.get::<i64>(at)?.into()));
    }
    for (at, column) in ["what", "who", "object", "detail"].into_iter().enumerate() {
        all.insert(name(column), MessagePackValue::Text(r.get(2 + at)?));
    }
    Ok(MessagePackValue::Map(all))
}

fn all_events(store: &Store) -> Result<Vec<MessagePackValue>, StoreError> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let page = store.events(after, 1000, false)?;
        let Some(last) = page.last() else {
            return Ok(all);
        };
        after = last.seq;
        for event in &page {
            all.push(decode("events", &super::encode(event).unwrap())?);
        }
    }
}
