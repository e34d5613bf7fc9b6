//! Jobs outlive daemons: what runs while a daemon is killed with
//! -9 is not touched, and its end arrives.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::{Cluster, Options, script, system, wait};
use nix::sys::signal::Signal;
use std::fs;
use std::path::PathBuf;

struct Scene {
    cluster: Cluster,
    go: PathBuf,
    pid: i32,
    job: JobId,
}

/// One running job that ends with exit code 7 when a file is there.
fn scene() -> Scene {
    scene_of(true)
}

/// The same of a job that may run again, or may not.
fn scene_of(requeue: bool) -> Scene {
    let cluster = Cluster::start(1, Options::default());
    let (go, pid_file) = (cluster.work().join("go"), cluster.work().join("pid"));
    let text = format!(
        "echo $$ > pid.new; mv pid.new {}\nwhile ! [ -e {} ]; do sleep 0.05; done\nexit 7",
        pid_file.display(),
        go.display()
    );
    let mut submission = script(&cluster.work(), &text);
    submission.spec.requeue = requeue;
    let job = cluster.submit(&submission);
    let pid = wait::until("the job runs", || fs::read_to_string(&pid_file).ok());
    cluster.until_state(job, JobState::Running);
    Scene {
        cluster,
        go,
        pid: pid.trim().parse().unwrap(),
        job,
    }
}

/// Where it says that it is ready nothing can be written.
#[test]
fn a_controller_goes_on_where_nobody_hears_that_it_is_ready() {
    let mut c = Cluster::start(1, Options::default());
    c.cosyd.kill();
    let open = "exec 77>/dev/full; exec \"$@\"";
    c.cosyd.before = ["bash", "-c", open, "bash"].map(str::to_owned).to_vec();
    c.cosyd.args = ["--ready-fd", "77"].map(str::to_owned).to_vec();
    c.start_cosyd_only();
    let job = wait::until("an answer", || {
        let out = c.run(&["csub", "--parsable", "-o", "/dev/null", "--", "true"]);
        out.out.trim().parse().ok().map(JobId)
    });
    assert_eq!(c.until_end(job).state, JobState::Completed);
    let told = "nobody reads that it is ready (file descriptor 77)";
    assert!(c.cosyd.log().contains(told), "{}", c.cosyd.log());
}

impl Scene {
    fn still_runs(&self) {
        assert!(system::is_alive(self.pid), "the job was touched");
        let row = self.cluster.until_state(self.job, JobState::Running);
        assert_eq!(row.attempt, 1);
    }

    fn let_end(&self) {
        fs::write(&self.go, "").unwrap();
    }

    fn ended_with_7(&self) {
        let row = self.cluster.until_end(self.job);
        assert_eq!(row.outcome(), (JobState::Failed, 7), "{row:?}");
        assert_eq!(row.attempt, 1, "{row:?}");
        self.cluster.until_no_job_processes();
    }

    fn restart_noded(&mut self) {
        self.cluster.start_noded(0);
        self.cluster.nodes[0].await_ready();
    }
}

#[test]
fn cosyd_killed() {
    let mut s = scene();
    s.cluster.cosyd.kill();
    s.cluster.start_cosyd();
    s.still_runs();
    s.cluster.until_node("n1", "up", |n| n.state == "mixed");
    s.let_end();
    s.ended_with_7();
}

#[test]
fn job_ends_while_cosyd_is_down() {
    let mut s = scene();
    s.cluster.cosyd.kill();
    s.let_end();
    wait::until_true("the job has ended", || !system::is_alive(s.pid));
    s.cluster.start_cosyd();
    s.ended_with_7();
}

#[test]
fn noded_killed() {
    let mut s = scene();
    s.cluster.nodes[0].kill();
    s.still_runs();
    s.restart_noded();
    s.still_runs();
    s.let_end();
    s.ended_with_7();
}

#[test]
fn job_ends_while_noded_is_down() {
    let mut s = scene();
    s.cluster.nodes[0].kill();
    s.let_end();
    wait::until_true("the job has ended", || !system::is_alive(s.pid));
    s.restart_noded();
    s.ended_with_7();
}

#[test]
fn both_killed() {
    let mut s = scene();
    s.cluster.nodes[0].kill();
    s.cluster.cosyd.kill();
    assert!(system::is_alive(s.pid));
    s.cluster.start_cosyd();
    s.restart_noded();
    s.still_runs();
    s.let_end();
    s.ended_with_7();
}

#[test]
fn both_killed_and_the_job_ends_meanwhile() {
    let mut s = scene();
    s.cluster.nodes[0].kill();
    s.cluster.cosyd.kill();
    s.let_end();
    wait::until_true("the job has ended", || !system::is_alive(s.pid));
    s.cluster.start_cosyd();
    s.restart_noded();
    s.ended_with_7();
}

#[test]
fn cancelled_while_noded_is_down() {
    let mut s = scene();
    s.cluster.nodes[0].kill();
    s.cluster.cancel(s.job);
    s.restart_noded();
    let row = s.cluster.until_end(s.job);
    assert_eq!(row.state, JobState::Cancelled, "{row:?}");
    s.cluster.until_no_job_processes();
    assert!(!system::is_alive(s.pid));
}

fn kill_shepherd(s: &Scene) {
    let shepherds = s.cluster.shepherds();
    assert_eq!(shepherds.len(), 1, "{shepherds:?}");
    shepherds[0].kill(Signal::SIGKILL);
}

fn cleaned_up_and_reported(s: &Scene) {
    let row = s.cluster.until_end(s.job);
    assert_eq!(row.state, JobState::NodeFailed, "{row:?}");
    assert!(!row.reason.is_empty(), "it says why: {row:?}");
    s.cluster.until_no_job_processes();
    assert!(!system::is_alive(s.pid), "the job was cleaned up");
    let next = s.cluster.submit(&script(&s.cluster.work(), "exit 0"));
    assert_eq!(s.cluster.until_end(next).state, JobState::Completed);
}

#[test]
fn shepherd_killed() {
    let s = scene_of(false);
    kill_shepherd(&s);
    cleaned_up_and_reported(&s);
}

#[test]
fn shepherd_killed_of_a_job_that_may_run_again() {
    let s = scene();
    kill_shepherd(&s);
    let again = |row: &cosy_tests::Row| row.state == JobState::Running && row.attempt == 2;
    s.cluster.until(s.job, "running again", again);
    assert!(!system::is_alive(s.pid), "its first attempt was cleaned up");
    fs::write(&s.go, "").unwrap();
    let row = s.cluster.until_end(s.job);
    assert_eq!((row.outcome(), row.attempt), ((JobState::Failed, 7), 2));
}

#[test]
fn shepherd_killed_while_noded_is_down() {
    let mut s = scene_of(false);
    s.cluster.nodes[0].kill();
    kill_shepherd(&s);
    s.restart_noded();
    cleaned_up_and_reported(&s);
}

#[test]
fn nursery_killed() {
    let s = scene();
    let mut nurseries = s.cluster.processes();
    nurseries.retain(|p| p.name == system::NURSERY);
    assert_eq!(nurseries.len(), 1, "{nurseries:?}");
    nurseries[0].kill(Signal::SIGKILL);
    s.still_runs();
    let next = s.cluster.submit(&script(&s.cluster.work(), "exit 0"));
    assert_eq!(s.cluster.until_end(next).state, JobState::Completed);
    s.still_runs();
    s.let_end();
    s.ended_with_7();
}
