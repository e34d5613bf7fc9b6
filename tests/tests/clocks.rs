//! Clocks that are wrong or set, with real daemons: a node whose date is off, one whose clock is set
//! while its jobs run, a controller that finds another date when it is started again.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::shifted::Shifted;
use cosy_tests::{Cluster, Options, script, wait};
use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

const HOUR: i64 = 3600;

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

#[test]
fn a_node_whose_date_is_off_takes_no_jobs_until_it_is_right() {
    let mut c = Cluster::prepare(2, Options::default());
    let Some(clock) = Shifted::of_node_or_skip(&mut c, 0) else {
        return;
    };
    clock.set(-HOUR);
    let c = c.start_prepared();
    let n1 = c.until_node("n1", "known to be off", |n| n.state == "unhealthy");
    let told = "its clock is 01:00:00 behind the controller's";
    let almost = "its clock is 00:59:59 behind the controller's";
    assert!([told, almost].contains(&&*n1.reason), "{n1:?}");
    assert!(n1.skew_ms.unwrap() < -3_590_000, "{n1:?}");
    let ping = || c.run(&["cadm", "ping"]).expect(0).out;
    let pinged = ping();
    let line = |told| pinged.contains(&format!("node n1: {told}\n"));
    assert!(line(told) || line(almost), "{pinged}");
    let slurm = c.run(&["scontrol", "ping"]).expect(0).out;
    assert_eq!(slurm.lines().count(), 1, "{slurm}");
    let jobs: Vec<JobId> = (0..3)
        .map(|_| c.submit(&script(&c.work(), "exit 0")))
        .collect();
    for job in jobs {
        let row = c.until_end(job);
        assert_eq!((row.state, &*row.nodes), (JobState::Completed, "n2"));
    }
    clock.set(0);
    c.until_node("n1", "in service", |n| n.state == "idle");
    let pinged = ping();
    assert!(!pinged.contains("its clock"), "{pinged}");
    let mut on_n1 = script(&c.work(), "exit 0");
    on_n1.spec.request.require = vec!["n1".into()];
    let job = c.submit(&on_n1);
    assert_eq!(c.until_end(job).state, JobState::Completed);
    let log = c.cosyd.log();
    assert!(log.contains("clock_wrong") || log.contains(told) || log.contains(almost), "{log}");
}

/// The node's clock is set by more than the job's limit while it runs, with and without a restart
/// of its daemon: job and steps keep the whole of their time, and dates are the controller's.
fn set_while_a_job_runs(by: i64, restart: bool) {
    let options = Options {
        policy: "heartbeat = \"1s\"\nnode_timeout = \"20s\"\ngrace = \"1s\"\nclock_skew = \"unlimited\"\n".into(),
        ..Options::default()
    };
    let mut c = Cluster::prepare(1, options);
    let Some(clock) = Shifted::of_node_or_skip(&mut c, 0) else {
        return;
    };
    let mut c = c.start_prepared();
    let before = now_ms();
    let text = "while ! [ -e go ]; do sleep 0.05; done\n\
        cosy run -n 1 -- sh -c 'echo step ran > step'\necho $? > code\nexit 3";
    let mut submission = script(&c.work(), text);
    let path = format!("PATH={}/bin:/usr/local/bin:/usr/bin:/bin", c.dir().display());
    submission.spec.environment = path.as_str().into();
    let job = c.submit(&submission);
    c.until_state(job, JobState::Running);
    clock.set(by);
    if restart {
        c.nodes[0].kill();
        c.start_noded(0);
        c.nodes[0].await_ready();
    }
    c.until_node("n1", "told of its clock", |n| {
        n.skew_ms.is_some_and(|ms| (ms - by * 1000).abs() < 5000)
    });
    fs::write(c.work().join("go"), "").unwrap();
    let row = c.until_end(job);
    assert_eq!((row.outcome(), row.attempt), ((JobState::Failed, 3), 1));
    let code = fs::read_to_string(c.work().join("code")).unwrap();
    assert_eq!(code, "0\n", "set by {by}, restart {restart}: {}", c.logs());
    let (start, end) = (row.start.unwrap(), row.end.unwrap());
    assert!(before <= start && start <= end && end <= now_ms(), "{row:?}");
    // Told in batches, at the latest before the end of the job.
    let told = c
        .run(&[
            "sacct",
            "-nPj",
            &format!("{job}.0"),
            "-o",
            "start,elapsedraw",
        ])
        .out;
    let elapsed = told
        .trim()
        .rsplit('|')
        .next()
        .and_then(|n| n.parse::<i64>().ok());
    assert!(elapsed.is_some_and(|secs| secs < HOUR), "{told}");
}

#[test]
fn a_nodes_clock_that_is_set_forward_ends_no_job_and_no_step() {
    set_while_a_job_runs(2 * HOUR, false);
    set_while_a_job_runs(2 * HOUR, true);
}

#[test]
fn a_nodes_clock_that_is_set_back_gives_no_job_more() {
    set_while_a_job_runs(-2 * HOUR, false);
    set_while_a_job_runs(-2 * HOUR, true);
}

/// What the store says of the clocks is what a controller compares its own with. Here the store is
/// changed, which looks the same as a clock that was set.
const OLDER_BY_AN_HOUR: &str = r#"
import sqlite3, struct, sys
store = sqlite3.connect(sys.argv[1])
[row] = store.execute("SELECT row FROM clock").fetchone()
at = row.index(b"\xa4wall") + 5
assert row[at] in (0xcf, 0xd3), row
wall = struct.unpack(">q", row[at + 1:at + 9])[0] - 3600 * 1000
store.execute("UPDATE clock SET row = ?", [row[:at + 1] + struct.pack(">q", wall) + row[at + 9:]])
store.commit()
"#;

#[test]
fn a_controller_sees_that_its_clock_was_set_while_it_was_stopped() {
    let mut c = Cluster::start(1, Options::default());
    let text = "while ! [ -e go ]; do sleep 0.05; done";
    let job = c.submit(&script(&c.work(), text));
    c.until_state(job, JobState::Running);
    c.cosyd.kill();
    let mut python = Command::new("python3");
    python.args(["-c", OLDER_BY_AN_HOUR]);
    let Ok(done) = python.arg(c.state_dir().join("cosy.db")).output() else {
        return cosy_tests::system::not_installed("python3");
    };
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    c.start_cosyd();
    c.until_state(job, JobState::Running);
    let events = wait::until("the step is told", || {
        let events = c.run(&["cadm", "events"]).out;
        events.contains("clock_set").then_some(events)
    });
    // An hour, less or more by what passed in between.
    let an_hour = ["set forward by 36", "set forward by 3599."];
    assert!(an_hour.iter().any(|told| events.contains(told)), "{events}");
    // Once: the next controller finds them as they are.
    c.cosyd.kill();
    c.start_cosyd();
    c.until_state(job, JobState::Running);
    let events = c.run(&["cadm", "events"]).out;
    assert_eq!(events.matches("clock_set").count(), 1, "{events}");
    fs::write(c.work().join("go"), "").unwrap();
    assert_eq!(c.until_end(job).state, JobState::Completed);
    c.until_no_job_processes();
}
