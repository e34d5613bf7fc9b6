//! The children of this process: ended ones collected, others ended.
//!
//! Only direct children are ever signalled: their ids cannot be taken by others before
//! they are collected here. What they leave behind becomes a direct child in turn,
//! because this process is a child subreaper.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};
use std::fs;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// After so long, strangers that were asked to end are killed.
const STRANGERS: Duration = Duration::from_secs(1);
/// After so long, daemons that should have stopped by themselves are killed.
const DAEMONS: Duration = Duration::from_secs(10);
/// After so long, what cannot be killed is left.
const HOPELESS: Duration = Duration::from_secs(20);
/// Between two looks when nothing ends.
const TICK: Duration = Duration::from_millis(50);

/// Collects children that have ended; the flag is true when no child is left.
pub fn collect() -> (Vec<(Pid, WaitStatus)>, bool) {
    let mut ended = Vec::new();
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(one)) => ended.push(one),
            Ok(None) => return (ended, false),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return (ended, true),
        }
    }
}

/// Exit code of an ended child as a shell has it.
pub fn code_of(status: WaitStatus) -> u8 {
    let code = status.exit_status().unwrap_or(0);
    crate::exit::of_end(code, status.terminating_signal().unwrap_or(0), true)
}

/// Direct children that still run.
fn running() -> Vec<Pid> {
    let me = std::process::id();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| parent_of(*pid) == Some(me))
        .filter_map(Pid::from_raw)
        .collect()
}

/// The parent of a process; `None` when the process is gone or has ended.
fn parent_of(pid: i32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in parentheses, may hold anything.
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    match words.next()? {
        "Z" | "X" => None,
        _ => words.next()?.parse().ok(),
    }
}

/// Ends all children. The programs named in `daemons` (and so what noded started under
/// its own program: shepherds) stop by themselves and are given time for it; all others
/// are asked to end at once. `wake_pipe` becomes readable when a child ends. False when
/// something could not be ended.
pub fn end_all(daemons: &[PathBuf], mut wake_pipe: Option<&mut UnixStream>) -> bool {
    let start = Instant::now();
    let mut signalled: Vec<Pid> = Vec::new();
    loop {
        if collect().1 {
            return true;
        }
        let age = start.elapsed();
        for pid in running() {
            let patient = is_one_of(pid, daemons);
            if age >= if patient { DAEMONS } else { STRANGERS } {
                let _ = kill_process(pid, Signal::KILL);
            } else if !patient && !signalled.contains(&pid) {
                signalled.push(pid);
                for signal in [Signal::TERM, Signal::HUP, Signal::CONT] {
                    let _ = kill_process(pid, signal);
                }
            }
        }
        if age >= HOPELESS {
            return false;
        }
        pause(wake_pipe.as_deref_mut());
    }
}

fn is_one_of(pid: Pid, programs: &[PathBuf]) -> bool {
    let link = format!("/proc/{}/exe", pid.as_raw_nonzero());
    fs::read_link(Path::new(&link)).is_ok_and(|exe| programs.contains(&exe))
}

fn pause(wake_pipe: Option<&mut UnixStream>) {
    let Some(wake_pipe) = wake_pipe else {
        std::thread::sleep(TICK / 5);
        return;
    };
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(TICK.subsec_nanos()),
    };
    let ready = poll(&mut [PollFd::new(wake_pipe, PollFlags::IN)], Some(&timeout));
    if ready.is_ok_and(|n| n > 0) {
        let _ = wake_pipe.read(&mut [0; 64]);
    }
}
