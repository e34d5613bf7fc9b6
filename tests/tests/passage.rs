//! Commands on a host that is none of their job's: the daemon there shows them the way, and
//! everything goes through it. Three node daemons on addresses of their own; the third is
//! the login host's. To the commands this machine is that host: they see another boot id,
//! and where the sockets of the other daemons are they find none.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::run::{finish, run_with, spawn};
use cosy_tests::{Cluster, Options, run, system, wait};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(90);

/// A cluster as it is seen from its login host.
struct Outside {
    covered: Vec<PathBuf>,
    cluster: Cluster,
}

impl Deref for Outside {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Drop for Outside {
    /// What is covered cannot be removed.
    fn drop(&mut self) {
        for path in &self.covered {
            let _ = umount2(path, MntFlags::MNT_DETACH);
        }
    }
}

impl Outside {
    fn cover(&mut self, path: PathBuf, with: &Path) {
        let none = None::<&str>;
        mount(Some(with), &path, none, MsFlags::MS_BIND, none).unwrap();
        self.covered.push(path);
    }
}

/// Two nodes and a login host; `None` where the machine does not let us be there.
fn outside() -> Option<Outside> {
    if !system::root_or_skip() {
        return None;
    }
    let cluster = Cluster::start(
        3,
        Options {
            queues: Some("[[queue]]\nname = \"main\"\ndefault = true\nnodes = \"n[1-2]\"\n".into()),
            entry: |n| if n == 3 { "login = true\n" } else { "" }.into(),
            noded: |n| match n {
                3 => "listen = \"127.0.0.3:0\"\nsocket = \"DIR/relay.sock\"\n".into(),
                n => format!("listen = \"127.0.0.{n}:0\"\n"),
            },
            ..Options::default()
        },
    );
    // Daemons run already: only this thread and the commands that it starts are elsewhere.
    if let Err(e) = unshare(CloneFlags::CLONE_NEWNS) {
        system::skip(&format!("no mounts of its own here: {e}"));
        return None;
    }
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    let boot = cluster.dir().join("boot_id");
    fs::write(&boot, "00000000-0000-4000-8000-000000000000\n").unwrap();
    let sockets = [
        cluster.socket(),
        cluster.steps_socket(0),
        cluster.steps_socket(1),
    ];
    let covered = Vec::new();
    let mut outside = Outside { covered, cluster };
    outside.cover("/proc/sys/kernel/random/boot_id".into(), &boot);
    for socket in sockets {
        outside.cover(socket, Path::new("/dev/null"));
    }
    Some(outside)
}

/// A command line on the login host.
fn command(c: &Cluster, words: &[&str]) -> Command {
    let mut command = c.command(words);
    command.env("COSY_SOCKET", c.dir().join("relay.sock"));
    command
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn steps_and_allocations_from_a_login_host() {
    let Some(c) = outside() else {
        return;
    };
    let text = "echo $COSY_NODENAME $COSY_TASK_RANK; cat; echo err >&2; \
                [ $COSY_TASK_RANK != 3 ] || exit 7";
    let words = [
        "cosy",
        "run",
        "-N2",
        "--tasks-per-node=2",
        "-n4",
        "-i",
        "0",
        "sh",
        "-c",
        text,
    ];
    let out = run_with(&mut command(&c, &words), b"typed\n").expect(7);
    let want = ["n1 0", "n1 1", "n2 2", "n2 3", "typed"];
    assert_eq!(sorted(&out.out), want, "{out:?}");
    assert_eq!(out.err.matches("err\n").count(), 4, "{out:?}");

    let long = "i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done";
    let out = run::run(&mut command(&c, &["cosy", "run", "sh", "-c", long])).expect(0);
    let want: String = (0..20000).map(|n| format!("{n}\n")).collect();
    assert!(out.out == want, "{} bytes of {}", out.out.len(), want.len());

    let text = "cosy run -N2 sh -c 'echo $COSY_NODENAME'; echo code $?; \
                cosy run -n1 sh -c 'kill -9 $$'; echo code $?; exit 5";
    let out = run::run(&mut command(&c, &["calloc", "-N2", "sh", "-c", text])).expect(5);
    let want = ["code 0", "code 137", "n1", "n2"];
    assert_eq!(sorted(&out.out), want, "{out:?}");
    c.until_no_job_processes();
}

/// Tasks on both nodes that run until they are ended.
fn start_sleepers(c: &Cluster, words: &[&str], name: &str) -> (Child, JobId) {
    let text = format!(
        "echo $COSY_JOB_ID > {name}.new.$COSY_TASK_RANK; \
         mv {name}.new.$COSY_TASK_RANK {name}.$COSY_TASK_RANK; trap '' TERM; \
         while :; do sleep 0.1; done"
    );
    let all = [words, &["cosy", "run", "-N2", "sh", "-c", &text]].concat();
    let child = spawn(&mut command(c, &all));
    let mut job = None;
    for rank in 0..2 {
        let file = c.work().join(format!("{name}.{rank}"));
        let text = wait::until("the tasks are up", || fs::read_to_string(&file).ok());
        job = text.trim().parse().ok();
    }
    (child, JobId(job.unwrap()))
}

fn state_of(job: &str) -> [&str; 5] {
    ["chist", "--no-header", "--format", "state", job]
}

#[test]
fn commands_that_are_killed_there_end_their_jobs() {
    let Some(c) = outside() else {
        return;
    };
    for (name, words) in [("run", &[][..]), ("calloc", &["calloc", "-N2"])] {
        let (mut child, job) = start_sleepers(&c, words, name);
        child.kill().unwrap();
        child.wait().unwrap();
        let state = wait::until("the job has ended", || {
            let out = run::run(&mut command(&c, &state_of(&job.to_string())));
            (out.code == 0).then_some(out.out)
        });
        assert_eq!(state.trim(), JobState::Cancelled.word(), "{name}");
        c.until_no_job_processes();
    }
    // A cancelled job is told to the command there.
    let (child, job) = start_sleepers(&c, &[], "cancelled");
    run::run(&mut command(&c, &["ccancel", &job.to_string()])).expect(0);
    let out = finish(child, &[], TIMEOUT);
    assert_ne!(out.code, 0, "{out:?}");
    assert!(out.err.contains("was cancelled"), "{out:?}");
    c.until_no_job_processes();
}
