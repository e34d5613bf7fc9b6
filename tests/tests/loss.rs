//! Loss of a node: noticed within the configured time, its jobs run again or fail as
//! they asked; the node comes back, ends what was superseded and returns to service.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::{Cluster, Options, script, system, wait};
use nix::sys::signal::Signal;
use std::fs;

fn cluster() -> Cluster {
    let policy = "heartbeat = \"1s\"\nnode_timeout = \"3s\"\ngrace = \"1s\"\n";
    Cluster::start(
        2,
        Options {
            policy: policy.into(),
            ..Options::default()
        },
    )
}

/// A job on n1 that stays until `go` is there, and writes where its attempts run.
fn start(cluster: &Cluster, requeue: bool) -> (JobId, i32) {
    let text = "echo $$ > pid.$COSY_JOB_ID.$COSY_JOB_ATTEMPT.new\n\
        mv pid.$COSY_JOB_ID.$COSY_JOB_ATTEMPT.new pid.$COSY_JOB_ID.$COSY_JOB_ATTEMPT\n\
        while ! [ -e go ]; do sleep 0.05; done\nexit 0";
    let mut submission = script(&cluster.work(), text);
    submission.spec.request.prefer = vec!["n1".into()];
    submission.spec.requeue = requeue;
    let job = cluster.submit(&submission);
    let row = cluster.until_state(job, JobState::Running);
    assert_eq!(row.nodes, "n1");
    (job, pid_of(cluster, job, 1))
}

fn pid_of(cluster: &Cluster, job: JobId, attempt: u32) -> i32 {
    let file = cluster.work().join(format!("pid.{job}.{attempt}"));
    let text = wait::until("the attempt runs", || fs::read_to_string(&file).ok());
    text.trim().parse().unwrap()
}

fn requeued_and_superseded(lose: impl Fn(&mut Cluster), find: impl Fn(&mut Cluster)) {
    let mut c = cluster();
    let (job, first) = start(&c, true);
    lose(&mut c);
    let row = c.until(job, "running again", |r| r.state == JobState::Running && r.attempt == 2);
    assert_eq!(row.nodes, "n2");
    let n1 = c.until_node("n1", "there", |_| true);
    assert!(!["idle", "mixed", "busy"].contains(&n1.state.as_str()), "{n1:?}");
    assert!(!n1.reason.is_empty(), "it says why: {n1:?}");
    let second = pid_of(&c, job, 2);
    find(&mut c);
    wait::until_true("the first attempt is killed", || !system::is_alive(first));
    assert!(system::is_alive(second), "the second one runs on");
    c.until_node("n1", "in service", |n| n.state == "idle");
    fs::write(c.work().join("go"), "").unwrap();
    let row = c.until_end(job);
    assert_eq!((row.outcome(), row.attempt), ((JobState::Completed, 0), 2));
    let mut on_n1 = script(&c.work(), "exit 0");
    on_n1.spec.request.require = vec!["n1".into()];
    let next = c.submit(&on_n1);
    assert_eq!(c.until_end(next).state, JobState::Completed);
    c.until_no_job_processes();
}

#[test]
fn daemon_stopped_then_awake() {
    requeued_and_superseded(
        |c| c.nodes[0].signal(Signal::SIGSTOP),
        |c| c.nodes[0].signal(Signal::SIGCONT),
    );
}

#[test]
fn daemon_killed_then_restarted() {
    requeued_and_superseded(|c| c.nodes[0].kill(), |c| c.start_noded(0));
}

#[test]
fn job_that_is_not_to_run_again() {
    let mut c = cluster();
    let (job, pid) = start(&c, false);
    c.nodes[0].kill();
    let row = c.until_end(job);
    assert_eq!((row.state, row.attempt), (JobState::NodeFailed, 1), "{row:?}");
    for command in [
        &["chist", &job.to_string()][..],
        &["cstat", "job", &job.to_string()],
        &["cosy", "wait", &job.to_string()],
    ] {
        let said = c.run(command).out;
        assert!(said.contains("node n1 was lost"), "{command:?}: {said}");
    }
    c.start_noded(0);
    wait::until_true("what it left is killed", || !system::is_alive(pid));
    c.until_node("n1", "in service", |n| n.state == "idle");
    c.until_no_job_processes();
}

#[test]
fn back_in_time() {
    let policy = "heartbeat = \"1s\"\nnode_timeout = \"30s\"\n".into();
    let mut c = Cluster::start(
        2,
        Options {
            policy,
            ..Options::default()
        },
    );
    let (job, pid) = start(&c, true);
    c.nodes[0].kill();
    c.start_noded(0);
    c.nodes[0].await_ready();
    fs::write(c.work().join("go"), "").unwrap();
    let row = c.until_end(job);
    assert_eq!((row.outcome(), row.attempt), ((JobState::Completed, 0), 1));
    assert!(!system::is_alive(pid));
}

#[test]
fn given_up_by_an_administrator() {
    let c = cluster();
    let (job, first) = start(&c, true);
    c.run(&["cadm", "node", "down", "n1", "--reason", "smoke"])
        .expect(0);
    let node = c.until_node("n1", "down", |n| n.state.contains("down"));
    assert_eq!(node.reason, "smoke");
    wait::until_true("the first attempt is killed", || !system::is_alive(first));
    c.until(job, "running again", |r| r.state == JobState::Running && r.nodes == "n2");
    c.run(&["cadm", "node", "resume", "n1"]).expect(0);
    c.until_node("n1", "in service", |n| n.state == "idle");
    c.cancel(job);
    assert_eq!(c.until_end(job).state, JobState::Cancelled);
}
