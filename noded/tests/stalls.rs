//! What users and their file systems can stop, with a whole daemon: neither the node nor the
//! end of a job; and what outlives the first thread of its process.

// In a test an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/hung_file_system.rs"]
mod hung_file_system;

use common::*;
use cosy_model::node::*;
use cosy_model::{Dialect, EndCause, Gid, OsText, Uid};
use hung_file_system::HungFileSystem;
use nix::libc;
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Processes that this node's supervisors are or have made.
fn left_of(bench: &Bench, job: u64) -> Vec<i32> {
    let name = format!("cosy:{job}.1\n");
    let own = bench.daemons.iter().map(Daemon::pid).collect::<Vec<_>>();
    noded::shepherd::all_processes()
        .filter(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c == name))
        .filter(|pid| {
            noded::shepherd::parent_of(*pid).is_some_and(|parent| {
                let grandparent = noded::shepherd::parent_of(parent);
                own.contains(&parent) || grandparent.is_some_and(|g| own.contains(&g))
            })
        })
        .collect()
}

#[test]
fn a_job_whose_output_hangs_is_ended_and_nothing_stays() {
    let mut bench = Bench::started();
    let Some(hung) = HungFileSystem::at(&bench.path("hung")) else {
        return;
    };
    let mut job = bench.job(1, "exit 3");
    job.dialect = Dialect::Slurm;
    job.stdout = OsText::from(hung.file());
    bench.launch(&job);
    bench.wait_started(1);
    bench.kill(&job, KillCause::Cancelled);
    assert_eq!(bench.ended(1).cause, EndCause::Cancelled);
    wait_for("nothing of it", || left_of(&bench, 1).is_empty().then_some(()));
    // The node goes on.
    let next = bench.job(2, "exit 4");
    assert_eq!(bench.run(next).exit_code, 4);
}

/// A process whose first thread ends; a second one writes its number and stays.
const HEADLESS: &str = r#"
import ctypes, os, threading, time
def stay():
    while open('/proc/self/stat').read().rsplit(')')[1].split()[0] != 'Z':
        time.sleep(0.01)
    with open('left', 'w') as f:
        f.write('%d' % os.getpid() + chr(10))
    time.sleep(1000)
threading.Thread(target=stay, daemon=True).start()
ctypes.CDLL(None).syscall(SYS_exit, 0)
"#;

fn headless() -> Option<String> {
    let there = std::process::Command::new("/usr/bin/python3")
        .arg("-V")
        .output();
    if there.is_err() {
        not_installed("no python3");
        return None;
    }
    let program = HEADLESS.replace("SYS_exit", &libc::SYS_exit.to_string());
    Some(format!("/usr/bin/python3 -c \"{program}\""))
}

/// True while a process has a thread that has not ended.
fn lives(pid: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    threads.into_iter().flatten().flatten().any(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").map_or("X", |(_, rest)| rest);
        !state.starts_with(['Z', 'X'])
    })
}

#[test]
fn a_process_without_its_first_thread_ends_with_its_job() {
    for extra in ["", "cgroup = 'none'"] {
        let mut bench = Bench::with(extra);
        let Some(program) = headless() else {
            return;
        };
        let script =
            format!("setsid {program} &\nwhile ! [ -s left ]; do sleep 0.01; done; exit 5");
        let job = job_of_somebody(&bench, &script);
        assert_eq!(bench.run(job).exit_code, 5);
        let pid = pid_in(&bench.path("place").join("left"));
        assert!(!lives(pid), "{extra}");
    }
}

const NOBODY: u32 = 65534;

/// A job in a directory where it may write; an ordinary user's, where the test is root's.
fn job_of_somebody(bench: &Bench, script: &str) -> Launch {
    let place = bench.path("place");
    fs::create_dir_all(&place).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
    let script = format!("#!/bin/sh\ncd '{}'\n{script}\n", place.display());
    let mut job = bench.raw_job(1, script.as_bytes());
    job.stdout = OsText::default();
    if is_root() {
        (job.allocation.uid, job.allocation.gid) = (Uid(NOBODY), Gid(NOBODY));
        job.allocation.groups = vec![Gid(NOBODY)];
        bench.sign(&mut job.allocation);
    }
    job
}

/// Loses the supervisor of a job that has left a process in the background, which writes its
/// number to the file `left`.
fn swept(extra: &str, background: &str) {
    let mut bench = Bench::with(extra);
    let job = job_of_somebody(
        &bench,
        &format!("{background}\nwhile ! [ -s left ]; do sleep 0.01; done; touch up; sleep 1000"),
    );
    bench.launch(&job);
    let place = bench.path("place");
    let (pid, up) = (pid_in(&place.join("left")), place.join("up"));
    wait_for("the job", || up.exists().then_some(()));
    let shepherd = bench.shepherd(job.allocation.key);
    let kill = |pid| nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
    kill(shepherd).unwrap();
    assert_eq!(bench.ended(1).cause, EndCause::SupervisorLost);
    let outlived = lives(pid);
    // Also when the test fails nothing stays.
    let _ = kill(pid);
    assert!(!outlived, "with {extra:?}: {background}");
}

#[test]
fn a_process_without_its_first_thread_is_swept() {
    let Some(program) = headless() else {
        return;
    };
    for extra in ["", "cgroup = 'none'"] {
        swept(extra, &format!("setsid {program} &"));
        swept(extra, &format!("(setsid env -i {program} &)"));
    }
}

#[test]
fn nothing_in_its_environment_hides_a_process() {
    let hidden = "/bin/sh -c 'echo $$ > left; exec sleep 1000'";
    for extra in ["", "cgroup = 'none'"] {
        swept(extra, &format!("setsid env COSY_HOOK=prolog {hidden} &"));
        swept(extra, &format!("(setsid env -i COSY_HOOK=prolog {hidden} &)"));
    }
}
