//! Going back to an older copy of the controller's database.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::JobState;
use cosy_model::node::StoreMark;
use cosy_tests::{Cluster, Options, script, wait};
use std::fs;

/// How far the node has seen the store.
fn seen(cluster: &Cluster) -> u64 {
    let file = cluster.node_dir(0).join("spool/n1/seen");
    let bytes = fs::read(file).unwrap_or_default();
    StoreMark::from_bytes(&bytes).map_or(0, |mark| mark.events)
}

#[test]
fn what_has_run_since_does_not_run_again() {
    let mut c = Cluster::start(1, Options::default());
    c.run(&["cadm", "node", "drain", "n1", "-r", "later"])
        .expect(0);
    let job = c.submit(&script(&c.work(), "echo ran >> ran"));
    let database = c.state_dir().join("cosy.db");
    let copy = c.work().join("copy.db");
    // Whole in one file once the controller has stopped.
    c.cosyd.kill();
    fs::copy(&database, &copy).unwrap();
    let log = c.state_dir().join("cosy.db-wal");
    let copied_log = c.work().join("copy.db-wal");
    if log.exists() {
        fs::copy(&log, &copied_log).unwrap();
    }
    c.start_cosyd();
    c.run(&["cadm", "node", "resume", "n1"]).expect(0);
    assert_eq!(c.until_end(job).state, JobState::Completed);
    let before = seen(&c);
    let later = c.submit(&script(&c.work(), "exit 0"));
    assert_eq!(c.until_end(later).state, JobState::Completed);
    wait::until_true("the node has seen that", || seen(&c) > before + 2);
    c.cosyd.kill();
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(c.state_dir().join(format!("cosy.db{end}")));
    }
    fs::copy(&copy, &database).unwrap();
    if copied_log.exists() {
        fs::copy(&copied_log, &log).unwrap();
    }
    c.start_cosyd();
    let row = c.until(job, "held", |row| row.reason == "held_restored");
    assert_eq!(row.state, JobState::Waiting);
    c.run(&["cadm", "node", "resume", "n1"]).expect(0);
    let next = c.submit(&script(&c.work(), "exit 0"));
    assert!(next > later, "ids go on: {next}");
    assert_eq!(c.until_end(next).state, JobState::Completed);
    let events = c.run(&["cadm", "events"]).out;
    assert!(events.contains("store_restored"), "{events}");
    assert_eq!(fs::read_to_string(c.work().join("ran")).unwrap(), "ran\n");
    c.run(&["cosy", "release", &job.to_string()]).expect(0);
    assert_eq!(c.until_end(job).state, JobState::Completed);
    assert_eq!(fs::read_to_string(c.work().join("ran")).unwrap(), "ran\nran\n");
}

/// A backup by command, put back by command: what waited in it is held before any node has said anything.
#[test]
fn a_backup_that_was_put_back_holds_what_may_have_run() {
    let mut c = Cluster::start(1, Options::default());
    c.run(&["cadm", "node", "drain", "n1", "-r", "later"])
        .expect(0);
    let job = c.submit(&script(&c.work(), "echo ran >> ran"));
    let config = c.dir().join("cosy.toml").display().to_string();
    let file = c.work().join("backup");
    let file = file.display().to_string();
    // While the controller runs.
    c.run(&["cadm", "store", "backup", &file, "--config", &config])
        .expect(0);
    c.run(&["cadm", "node", "resume", "n1"]).expect(0);
    assert_eq!(c.until_end(job).state, JobState::Completed);
    let restore = [
        "cadm",
        "store",
        "restore",
        &file,
        "--replace",
        "--config",
        &config,
    ];
    c.run(&restore).expect(1);
    c.cosyd.kill();
    c.run(&restore).expect(0);
    c.run(&["cadm", "store", "check", &config]).expect(0);
    c.start_cosyd();
    let row = c.until(job, "held", |row| row.reason == "held_restored");
    assert_eq!(row.state, JobState::Waiting);
    let events = c.run(&["cadm", "events"]).out;
    assert!(events.contains("put back from a backup"), "{events}");
    c.run(&["cadm", "node", "resume", "n1"]).expect(0);
    let next = c.submit(&script(&c.work(), "exit 0"));
    assert!(next.0 > 100_000, "ids go on: {next}");
    assert_eq!(c.until_end(next).state, JobState::Completed);
    assert_eq!(fs::read_to_string(c.work().join("ran")).unwrap(), "ran\n");
    c.run(&["cosy", "release", &job.to_string()]).expect(0);
    assert_eq!(c.until_end(job).state, JobState::Completed);
    assert_eq!(fs::read_to_string(c.work().join("ran")).unwrap(), "ran\nran\n");
}
