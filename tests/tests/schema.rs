//! Databases of all releases are fixtures: every later release must read them.
//!
//! To make one for a new release run
//! `cargo test -p cosy-tests --test schema -- --ignored make_fixture`.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::JobRef;
use cosy_model::job::ArraySpec;
use cosy_model::{Dependency, DependencyKind, JobId, JobState};
use cosy_tests::{Cluster, Options, Row, run, script};
use nix::sys::signal::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Schema by schema; all hold the same jobs.
const FIXTURES: [&str; 4] = [
    "cosy-0.1.0.db",
    "cosy-0.1.0-schema-2.db",
    "cosy-0.1.0-schema-12.db",
    WITH_POLICY,
];
/// The first with accounts, users, qualities of service and use.
const WITH_POLICY: &str = "cosy-0.1.0-schema-15.db";

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
    let queues =
        "[[queue]]\nname = \"main\"\ndefault = true\nnodes = \"n1\"\norder = \"fair-share\"\n";
    let mut c = Cluster::start(
        1,
        Options {
            queues: Some(queues.to_owned()),
            ..Options::default()
        },
    );
    fs::write(c.work().join("site.toml"), SITE).unwrap();
    c.run(&["cadm", "account", "load", "site.toml"]).expect(0);
    fill(&c);
    c.cosyd.signal(Signal::SIGTERM);
    assert!(c.cosyd.await_end().success());
    let database = c.state_dir().join("cosy.db");
    // What is in the log goes into the one file that is kept.
    let checkpoint = "import sqlite3, sys; \
        sqlite3.connect(sys.argv[1]).execute('PRAGMA wal_checkpoint(TRUNCATE)')";
    let done = Command::new("python3")
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

/// The policy that fixtures have since there is one; every kind of row with all that it can have.
const SITE: &str = r#"
[[qos]]
name = "normal"
description = "Normal QOS default"
priority = 0
[[qos]]
name = "high"
description = "for what cannot wait"
priority = 100
flags = "DenyOnLimit,NoDecay"
usage-factor = "2.5"
preempt = "normal"
preempt-mode = "requeue"
preempt-exempt = "00:10:00"
grace = "00:01:00"
MaxWall = "12:00:00"
MaxTRESPerUser = "cpu=128,mem=64G,gres/gpu:a100=4"
[[account]]
name = "root"
description = "default root account"
organization = "root"
GrpJobs = "1000"
[[account]]
name = "science"
parent = "root"
description = "ünï"
organization = "faculty"
coordinators = "ann"
shares = 4
qos = "high,normal"
default-qos = "normal"
priority = 7
comment = "since 2026"
GrpTRES = "cpu=512"
[[account]]
name = "physics"
parent = "science"
description = "physics"
organization = "faculty"
shares = "parent"
[[user]]
name = "ann"
default = "physics"
level = "operator"
wckeys = "a,b"
default-wckey = "a"
[[user.in]]
account = "physics"
shares = 2
MaxJobs = "20"
[[user.in]]
account = "science"
queue = "main"
"#;

/// What a fixture has of the policy is as it was loaded, word by word.
fn policy_is_kept(c: &Cluster) {
    fs::write(c.work().join("site.toml"), SITE).unwrap();
    let load = [
        "cadm",
        "account",
        "load",
        "--prune",
        "--dry-run",
        "site.toml",
    ];
    let told = c.run(&load).expect(0).out;
    assert_eq!(told, "everything is as the file says\n");
    let transactions = [
        "sacctmgr",
        "-nP",
        "show",
        "transaction",
        "format=action,where",
    ];
    let told = c.run(&transactions).expect(0).out;
    let first = "Add QOS|high\nModify QOS|high\nModify Accounts|root\nAdd Accounts|science\n";
    assert!(told.contains(first), "{told}");
}

/// Adds to the number of the schema, and prints all that is in the database.
fn raise_schema(database: &Path, by: i32) -> String {
    let text = "import sqlite3, sys\n\
        c = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
        n = c.execute('PRAGMA user_version').fetchone()[0] + int(sys.argv[2])\n\
        c.execute(f'PRAGMA user_version = {n}')\n\
        print(n, *c.iterdump(), sep='\\n')";
    let mut python = Command::new("python3");
    python.args(["-c", text]).arg(database).arg(by.to_string());
    run::run(&mut python).expect(0).out
}

#[test]
fn a_database_of_a_later_release_is_left_alone() {
    let mut c = Cluster::start(1, Options::default());
    fill(&c);
    c.cosyd.signal(Signal::SIGTERM);
    assert!(c.cosyd.await_end().success());
    let database = c.state_dir().join("cosy.db");
    let before = raise_schema(&database, 1);
    c.start_cosyd_only();
    assert!(!c.cosyd.await_end().success());
    let said = c.cosyd.last_words(1);
    let schema: u32 = before.lines().next().unwrap().parse().unwrap();
    let why = format!(
        "the database has schema {schema}; this release knows up to {}: a later one has made it",
        schema - 1
    );
    assert!(said.contains(&why), "{said}");
    assert!(raise_schema(&database, 0) == before, "something was changed");
    raise_schema(&database, -1);
    c.start_cosyd();
    assert_eq!(c.submit(&script(&c.work(), "exit 0")), JobId(IDS + 1));
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
    if name == WITH_POLICY {
        policy_is_kept(&c);
    }
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
