//! Databases of all releases are fixtures: every later release must read them.
//!
//! To make one for a new release run
//! `cargo test -p cosy-tests --test schema -- --ignored make_fixture`.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::JobRef;
use cosy_model::job::ArraySpec;
use cosy_model::{Dependency, DependencyKind, JobId, JobState};
use cosy_tests::{Cluster, Options, Row, script};
use std::fs;
use std::path::{Path, PathBuf};

/// Schema by schema; all hold the same jobs.
const FIXTURES: [&str; 3] = [
    "cosy-0.1.0.db",
    "cosy-0.1.0-schema-2.db",
    "cosy-0.1.0-schema-12.db",
];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name)
}

/// The jobs that every fixture holds, in the order of their ids.
fn fill(c: &Cluster) {
    let work = c.work();
    let ended = c.submit(&script(&work, "exit 0"));
    c.until_end(ended);
    let failed = c.submit(&script(&work, "exit 3"));
    c.until_end(failed);
    let mut held = script(&work, "echo from the fixture > seen");
    held.spec.hold = true;
    held.spec.name = "held".into();
    held.spec.comment = "ünï".into();
    let held = c.submit(&held);
    let mut array = script(&work, "exit $COSY_ARRAY_TASK");
    array.spec.hold = true;
    array.array = Some("1-3%2".parse::<ArraySpec>().unwrap());
    c.submit(&array);
    let mut after = script(&work, "exit 0");
    after.spec.dependencies = vec![Dependency {
        kind: DependencyKind::AfterOk,
        job: held,
        task: None,
        delay: cosy_model::Span::ZERO,
    }];
    c.submit(&after);
    let mut cancelled = script(&work, "exit 0");
    cancelled.spec.hold = true;
    let cancelled = c.submit(&cancelled);
    c.cancel(cancelled);
    c.until_end(cancelled);
}

/// Ids that [`fill`] leads to: 1 ended, 2 failed, 3 held, 4 to 6 an array, 7 after 3,
/// 8 cancelled.
const IDS: u64 = 8;

#[test]
#[ignore = "makes a fixture for a new release"]
fn make_fixture() {
    let mut c = Cluster::start(1, Options::default());
    fill(&c);
    c.cosyd.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(c.cosyd.await_end().success());
    let database = c.state_dir().join("cosy.db");
    // What is in the log goes into the one file that is kept.
    let checkpoint = "import sqlite3, sys; \
        sqlite3.connect(sys.argv[1]).execute('PRAGMA wal_checkpoint(TRUNCATE)')";
    let done = std::process::Command::new("python3")
        .args(["-c", checkpoint])
        .arg(&database)
        .status();
    assert!(done.unwrap().success());
    // The header's `user_version`. Source: "Database File Format" of SQLite, 1.3.13.
    let header = fs::read(&database).unwrap();
    let schema = u32::from_be_bytes(*header[60..].first_chunk().unwrap());
    let name = format!("cosy-{}-schema-{schema}.db", env!("CARGO_PKG_VERSION"));
    fs::copy(database, fixture(&name)).unwrap();
}

#[test]
fn databases_of_earlier_releases() {
    for name in FIXTURES {
        reads(name);
    }
}

fn reads(name: &str) {
    let mut c = Cluster::prepare(1, Options::default());
    fs::copy(fixture(name), c.state_dir().join("cosy.db")).unwrap();
    c.start_cosyd();
    c.start_noded(0);
    c.nodes[0].await_ready();
    let table = c.client().history(Default::default()).unwrap();
    let mut ended = Row::all(&table);
    ended.retain(|r| r.state.is_end());
    ended.sort_by_key(|r| r.id);
    let outcomes: Vec<_> = ended.iter().map(|r| (r.id.0, r.outcome())).collect();
    let want = [
        (1, (JobState::Completed, 0)),
        (2, (JobState::Failed, 3)),
        (8, (JobState::Cancelled, 0)),
    ];
    assert_eq!(outcomes, want, "{name}");
    let table = c.client().jobs(Default::default()).unwrap();
    let waiting: Vec<Row> = Row::all(&table)
        .into_iter()
        .filter(|r| !r.state.is_end())
        .collect();
    let mut names: Vec<&str> = waiting.iter().map(|r| r.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["3", "4_1", "4_2", "4_3", "7"], "{name}");
    assert!(waiting.iter().all(|r| r.state == JobState::Waiting));
    let reason = |id: u64| c.row(JobId(id)).reason;
    assert_eq!(reason(3), "held_by_user");
    assert_eq!(reason(7), "dependency");
    let shown = c.run(&["cstat", "--json", "3"]).expect(0).out;
    assert!(shown.contains("ünï"), "{shown}");
    let kept = c.run(&["cstat", "--script", "3"]).expect(0).out;
    assert_eq!(kept, "#!/bin/sh\necho from the fixture > seen\n");
    // Ids go on where they were.
    let next = c.submit(&script(&c.work(), "exit 0"));
    assert_eq!(next, JobId(IDS + 1), "{name}");
    // What waited can run, where its directory is; that of the fixture is gone.
    c.run(&["cosy", "release", "3", "4"]).expect(0);
    for id in [3, 4] {
        let job = JobRef {
            job: JobId(id),
            task: None,
        };
        cosy_tests::wait::until("they have ended", || {
            c.rows(job)?.iter().all(|r| r.state.is_end()).then_some(())
        });
    }
}
