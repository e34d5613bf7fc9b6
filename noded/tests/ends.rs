//! How jobs end: limits, signals, orders, memory; and that nothing of them stays.

// In a test an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use cosy_model::job::WarnSignal;
use cosy_model::node::*;
use cosy_model::{Dialect, EndCause, OsText, Span};
use nix::libc;
use std::fs;

/// A process in a session of its own, forked twice, that ignores SIGTERM; then one that
/// only left the process group.
const STRAYS: &str = "\
(setsid sh -c '(trap \"\" TERM HUP; echo $$ > stray1; exec sleep 1000) & ' &)
setsid sh -c 'trap \"\" TERM; sh -c \"echo \\$\\$ > stray2; exec sleep 1000\" & wait' &
while ! [ -s stray1 ] || ! [ -s stray2 ]; do sleep 0.01; done
";

fn strays(bench: &Bench) -> [i32; 2] {
    ["stray1", "stray2"].map(|name| pid_in(&bench.path(name)))
}

/// Limits so short that not even the script may have begun come once it has.
fn set_limit(bench: &mut Bench, job: &Launch, limit: Span) {
    bench.order(NodeOrder::Limit {
        key: job.allocation.key.job().unwrap(),
        node: job.allocation.node.clone(),
        limit,
    });
}

#[test]
fn death_by_a_signal() {
    let mut bench = Bench::started();
    let job = bench.job(1, "kill -SEGV $$");
    let end = bench.run(job);
    assert_eq!((end.cause, end.exit_code, end.signal), (EndCause::Exited, 0, libc::SIGSEGV));
}

#[test]
fn the_time_limit_ends_what_moved_to_another_session_too() {
    let mut bench = Bench::started();
    let job = bench.job(1, &format!("{STRAYS}sleep 1000"));
    bench.launch(&job);
    let pids = strays(&bench);
    set_limit(&mut bench, &job, Span(700));
    let end = bench.ended(1);
    assert_eq!((end.cause.clone(), end.signal), (EndCause::TimeLimit, libc::SIGTERM));
    let ran = end.end.since(end.start.unwrap()).ms();
    assert!(ran >= 900, "limit and grace took {ran} ms");
    assert!(!pids.into_iter().any(alive));
}

#[test]
fn without_control_groups_too() {
    let mut bench = Bench::with("cgroup = 'none'");
    let job = bench.job(1, &format!("{STRAYS}sleep 1000"));
    bench.launch(&job);
    let pids = strays(&bench);
    set_limit(&mut bench, &job, Span(700));
    assert_eq!(bench.ended(1).cause, EndCause::TimeLimit);
    assert!(!pids.into_iter().any(alive));
    assert!(bench.groups().is_empty());
}

#[test]
fn what_a_finished_script_leaves_is_killed() {
    for extra in ["", "cgroup = 'none'"] {
        let mut bench = Bench::with(extra);
        let job = bench.job(1, &format!("{STRAYS}exit 4"));
        let end = bench.run(job);
        assert_eq!((end.cause, end.exit_code), (EndCause::Exited, 4));
        assert!(!strays(&bench).into_iter().any(alive));
    }
}

#[test]
fn a_fork_bomb_ends() {
    let mut bench = Bench::with("cgroup = 'none'");
    let mut job = bench.job(
        1,
        "f() { sleep 0.02; f & f & }; ulimit -u 400 2>/dev/null; (f) & (f) &\nsleep 0.3; exit 0",
    );
    job.rlimits = [("NPROC".into(), 400, 400)].into();
    // Root has no such limit; then the bomb is a short one.
    if is_root() {
        job = bench.job(
            1,
            "f() { [ $1 -gt 0 ] || exec sleep 1000; f $(($1-1)) & f $(($1-1)) & wait; }; f 7 &\nsleep 0.2",
        );
    }
    let end = bench.run(job);
    assert_eq!(end.cause, EndCause::Exited);
}

#[test]
fn a_warning_comes_before_the_limit() {
    let mut bench = Bench::started();
    let mut job = bench.job(1, "trap 'echo warned; exit 9' USR1\nsleep 1000 & wait");
    job.allocation.limit = Span::from_secs(60);
    job.warn = Some(WarnSignal {
        signal: libc::SIGUSR1,
        before: Span(59_500),
        script_only: true,
    });
    let end = bench.run(job);
    assert_eq!((end.cause, end.exit_code), (EndCause::Exited, 9));
    assert_eq!(bench.output(1), "warned\n");
}

#[test]
fn a_signal_by_order() {
    let mut bench = Bench::started();
    let job = bench.job(1, "trap 'echo usr2 >> got' USR2\ntouch up\nwhile :; do sleep 0.02; done");
    bench.launch(&job);
    let up = bench.path("up");
    wait_for("trap", || up.exists().then_some(()));
    bench.order(NodeOrder::Signal {
        key: job.allocation.key.job().unwrap(),
        node: bench.name.clone(),
        signal: libc::SIGUSR2,
        script_only: true,
        steps_only: false,
    });
    let got = bench.path("got");
    wait_for("signal", || got.exists().then_some(()));
    bench.order(NodeOrder::Signal {
        key: job.allocation.key.job().unwrap(),
        node: bench.name.clone(),
        signal: libc::SIGKILL,
        script_only: false,
        steps_only: false,
    });
    let end = bench.ended(1);
    assert_eq!((end.cause, end.signal), (EndCause::Exited, libc::SIGKILL));
}

#[test]
fn cancelled_jobs_get_a_grace_superseded_ones_none() {
    let mut bench = Bench::started();
    let text = "trap 'echo term; exit 5' TERM\ntouch up.$COSY_JOB_ID\nwhile :; do sleep 0.02; done";
    for (n, cause, want) in [
        (1, KillCause::Cancelled, (5, 0)),
        (2, KillCause::Superseded, (0, libc::SIGKILL)),
        (3, KillCause::Requeued, (5, 0)),
    ] {
        let mut job = bench.job(n, text);
        job.grace = Span::from_secs(60);
        bench.launch(&job);
        let up = bench.path(&format!("up.{n}"));
        wait_for("trap", || up.exists().then_some(()));
        bench.kill(&job, cause);
        bench.kill(&job, cause);
        let end = bench.ended(n);
        assert_eq!((end.exit_code, end.signal), want);
        assert_eq!(end.cause, EndCause::Cancelled);
    }
}

#[test]
fn a_start_that_hangs_can_be_ended() {
    let mut bench = Bench::started();
    nix::unistd::mkfifo(&bench.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut job = bench.job(1, "true");
    job.stdin = "fifo".into();
    bench.launch(&job);
    bench.wait_started(1);
    bench.kill(&job, KillCause::Cancelled);
    assert_eq!(bench.ended(1).cause, EndCause::Cancelled);
}

#[test]
fn the_end_of_something_unknown_is_told() {
    let mut bench = Bench::started();
    let job = bench.job(99, "");
    bench.kill(&job, KillCause::Cancelled);
    let end = bench.ended(99);
    assert_eq!((end.cause, end.start), (EndCause::Cancelled, None));
}

#[test]
fn more_memory_than_allowed() {
    let mut bench = Bench::started();
    if bench.log().contains("memory limits are not enforced") {
        return skip("memory limits need a memory control group");
    }
    let mut job = bench.job(1, "a=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#a}");
    job.allocation.memory = Some(cosy_model::MiB(32));
    let end = bench.run(job);
    assert_eq!(end.cause, EndCause::OutOfMemory);
    assert!(end.peak_memory_bytes > 16 << 20 && end.peak_memory_bytes <= 33 << 20);
    let mut job = bench.job(2, "echo small");
    job.allocation.memory = Some(cosy_model::MiB(32));
    assert_eq!(bench.run(job).cause, EndCause::Exited);
}

#[test]
fn cores_are_bound() {
    let mut bench = Bench::started();
    if bench.log().contains("cannot limit cores") {
        return skip("limits on cores need a control group");
    }
    if noded::detect::processors().len() < 2 {
        return skip("one processor only");
    }
    let job = bench.job(1, "grep Cpus_allowed_list /proc/self/status");
    bench.run(job);
    let first = noded::detect::processors()[0];
    assert_eq!(bench.output(1), format!("Cpus_allowed_list:\t{first}\n"));
}

#[test]
fn more_cores_than_real_ones_become_a_share() {
    let mut bench = Bench::with("cores = 4096");
    if bench.log().contains("cannot limit cores") {
        return skip("limits on cores need a control group");
    }
    let job = bench.job(1, "grep -E 'cpu[:,]|^0:' /proc/self/cgroup");
    bench.run(job);
    assert!(bench.output(1).contains("/1.1\n"), "{}", bench.output(1));
}

#[test]
fn the_end_of_the_lifeline_leaves_nothing() {
    for kill_noded in [false, true] {
        let mut bench = Bench::started();
        let mut job = bench.job(1, &format!("{STRAYS}sleep 1000"));
        job.allocation.memory = Some(cosy_model::MiB(64));
        bench.launch(&job);
        let pids = strays(&bench);
        let shepherd = bench.shepherd(job.allocation.key);
        if kill_noded {
            bench.daemon().kill();
        }
        bench.daemon().end_lifeline();
        for pid in pids.into_iter().chain([shepherd]) {
            wait_gone(pid);
        }
        if !kill_noded {
            let status = bench.daemon().child.wait().unwrap();
            assert!(status.success());
            assert!(!bench.path("spool").exists());
        }
        let spooled = bench.spooled(job.allocation.key);
        assert!(!spooled.exists());
        assert!(bench.groups().is_empty(), "{:?}", bench.groups());
    }
}

#[test]
fn a_suspended_job_stands_still_and_so_does_its_clock() {
    let mut bench = Bench::started();
    let mut job = bench.job(1, "echo $$ > pid\nsleep 1000 & wait");
    job.allocation.limit = Span::from_secs(5);
    bench.launch(&job);
    let pid = bench.path("pid");
    let pid = wait_for("its pid", || {
        let text = fs::read_to_string(&pid).ok()?;
        text.trim().parse::<u32>().ok()
    });
    let (key, node) = (job.allocation.key.job().unwrap(), bench.name.clone());
    bench.order(NodeOrder::Suspend {
        key,
        node: node.clone(),
    });
    // Comes again when a link was lost.
    bench.order(NodeOrder::Suspend {
        key,
        node: node.clone(),
    });
    wait_for("it stands still", || (state_of(pid) == Some('T')).then_some(()));
    // Another job is over in the meantime, so longer than the limit has passed.
    let other = bench.job(2, "sleep 5.5");
    assert_eq!(bench.run(other).cause, EndCause::Exited);
    assert_eq!(state_of(pid), Some('T'));
    bench.order(NodeOrder::Resume { key, node });
    wait_for("it goes on", || (state_of(pid) == Some('S')).then_some(()));
    let end = bench.ended(1);
    assert_eq!(end.cause, EndCause::TimeLimit);
    let ran = end.end.since(end.start.unwrap());
    assert!(ran >= Span::from_secs(10), "it ran and stood for {ran}");
}

#[test]
fn a_script_is_told_what_others_say() {
    let mut bench = Bench::started();
    let mut job = bench.job(1, "echo begun; sleep 1000 & wait");
    job.dialect = Dialect::Slurm;
    let output = bench.path("told");
    job.stdout = OsText::from(output.to_str().unwrap());
    bench.launch(&job);
    let text = || fs::read_to_string(&output).unwrap_or_default();
    wait_for("its output", || text().starts_with("begun").then_some(()));
    let (key, node) = (job.allocation.key.job().unwrap(), bench.name.clone());
    for text in ["one more hour", "second\nline"] {
        let (node, text) = (node.clone(), text.to_owned());
        bench.order(NodeOrder::Note { key, node, text });
    }
    let want = "begun\nslurmstepd: error: one more hour\nslurmstepd: error: second?line\n";
    wait_for("both messages", || (text() == want).then_some(()));
    bench.order(NodeOrder::Kill {
        key: key.into(),
        node,
        cause: KillCause::Cancelled,
        preempted: false,
    });
    assert_eq!(bench.ended(1).cause, EndCause::Cancelled);
}

/// The letter in `/proc/PID/stat`.
fn state_of(pid: u32) -> Option<char> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after = text.rsplit(')').next()?;
    after.trim_start().chars().next()
}

#[test]
fn a_suspended_job_can_be_ended() {
    let mut bench = Bench::started();
    let job = bench.job(1, "trap 'echo term; exit 5' TERM\ntouch up\nsleep 1000 & wait");
    bench.launch(&job);
    let up = bench.path("up");
    wait_for("trap", || up.exists().then_some(()));
    let (key, node) = (job.allocation.key.job().unwrap(), bench.name.clone());
    bench.order(NodeOrder::Suspend { key, node });
    bench.kill(&job, KillCause::Cancelled);
    let end = bench.ended(1);
    assert_eq!((end.cause, end.exit_code), (EndCause::Cancelled, 5));
    assert_eq!(bench.output(1), "term\n");
}

#[test]
fn another_limit_for_a_running_job() {
    let mut bench = Bench::started();
    for (id, first, then) in [(1, 600, 1), (2, 2, 600)] {
        let mut job = bench.job(id, "sleep 4");
        job.allocation.limit = Span::from_secs(first);
        bench.launch(&job);
        bench.wait_started(id);
        bench.order(NodeOrder::Limit {
            key: job.allocation.key.job().unwrap(),
            node: bench.name.clone(),
            limit: Span::from_secs(then),
        });
        let want = match then {
            1 => EndCause::TimeLimit,
            _ => EndCause::Exited,
        };
        assert_eq!(bench.ended(id).cause, want, "from {first} s to {then} s");
    }
}

#[test]
fn a_signal_for_steps_does_not_reach_the_script() {
    let mut bench = Bench::started();
    let job = bench.job(1, "trap 'echo usr1' USR1\ntouch up\nsleep 1 & wait\nwait");
    bench.launch(&job);
    let up = bench.path("up");
    wait_for("trap", || up.exists().then_some(()));
    bench.order(NodeOrder::Signal {
        key: job.allocation.key.job().unwrap(),
        node: bench.name.clone(),
        signal: libc::SIGUSR1,
        script_only: false,
        steps_only: true,
    });
    assert_eq!(bench.ended(1).cause, EndCause::Exited);
    assert_eq!(bench.output(1), "");
}

/// A node whose machine goes down while a file exists.
fn with_shutdown_file() -> (Bench, std::path::PathBuf) {
    let mut bench = Bench::new();
    let file = bench.path("shutdown");
    bench.args = vec!["--shutdown-file".into(), file.display().to_string()];
    bench.start();
    bench.accept();
    (bench, file)
}

/// A job that ends as if it were done when it gets SIGTERM, and says so.
const DONE_AT_SIGTERM: &str = "\
trap 'echo term >> terms; exit 0' TERM
echo $$ > pid
while :; do sleep 0.01; done";

#[test]
fn what_ends_while_the_machine_goes_down_is_lost_with_it() {
    // The system sends signals to all, in whatever order: only the program has got its own.
    let (mut bench, file) = with_shutdown_file();
    let job = bench.job(1, DONE_AT_SIGTERM);
    bench.launch(&job);
    let pid = pid_in(&bench.path("pid"));
    fs::write(&file, "").unwrap();
    unsafe { libc::kill(pid, libc::SIGTERM) };
    assert_eq!(bench.ended(1).cause, EndCause::NodeLost);
    // What was decided before is not changed by it.
    let job = bench.job(2, "echo $$ > pid2; exec sleep 1000");
    bench.launch(&job);
    pid_in(&bench.path("pid2"));
    bench.order(NodeOrder::Kill {
        key: job.allocation.key,
        node: job.allocation.node.clone(),
        cause: KillCause::Cancelled,
        preempted: false,
    });
    assert_eq!(bench.ended(2).cause, EndCause::Cancelled);
    // Jobs run again: it has gone.
    fs::remove_file(&file).unwrap();
    let job = bench.job(3, "exit 3");
    let end = bench.run(job);
    assert_eq!((end.cause, end.exit_code), (EndCause::Exited, 3));
}

#[test]
fn a_supervisor_that_the_system_ends_loses_its_job_with_the_node() {
    for down in [false, true] {
        let (mut bench, file) = with_shutdown_file();
        let job = bench.job(1, DONE_AT_SIGTERM);
        bench.launch(&job);
        let pid = pid_in(&bench.path("pid"));
        let shepherd = bench.shepherd(job.allocation.key);
        if down {
            fs::write(&file, "").unwrap();
        }
        unsafe { libc::kill(shepherd, libc::SIGTERM) };
        if down {
            // The system's own; a second one could disturb what the program does about it.
            unsafe { libc::kill(pid, libc::SIGTERM) };
        }
        assert_eq!(bench.ended(1).cause, EndCause::NodeLost, "{down}");
        let terms = fs::read_to_string(bench.path("terms")).unwrap();
        assert_eq!(terms, "term\n", "{down}");
    }
}
