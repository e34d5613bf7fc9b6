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
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// After so long, strangers that were asked to end are killed.
const STRANGERS: Duration = Duration::from_secs(1);
/// After so long, daemons that should have stopped by themselves are killed.
const DAEMONS: Duration = Duration::from_secs(10);
/// After so long, the database server is killed.
const LAST: Duration = Duration::from_secs(16);
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

/// How the processes of programs are ended that are not strangers.
#[derive(Default)]
pub struct Manners {
    /// Stop by themselves, and are only given time for it: noded, and what it started under its
    /// own program (shepherds).
    pub by_themselves: Vec<PathBuf>,
    /// Are told to stop, and given the same time: cosyd, of which one may have been started by hand.
    pub told: Vec<PathBuf>,
    /// Is told to stop when nothing else runs any more: the database server.
    pub last: Option<PathBuf>,
}

/// How a process is ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    ByItself,
    Told,
    Last,
    Stranger,
}

impl Manners {
    fn of(&self, pid: Pid) -> Manner {
        let link = format!("/proc/{}/exe", pid.as_raw_nonzero());
        let Ok(exe) = fs::read_link(link) else {
            return Manner::Stranger;
        };
        if self.by_themselves.contains(&exe) {
            Manner::ByItself
        } else if self.told.contains(&exe) {
            Manner::Told
        } else if self.last.as_ref() == Some(&exe) {
            Manner::Last
        } else {
            Manner::Stranger
        }
    }
}

impl Manner {
    /// What tells a process of the kind to end.
    fn signals(self) -> &'static [Signal] {
        match self {
            Self::ByItself => &[],
            Self::Told => &[Signal::TERM, Signal::CONT],
            // A PostgreSQL server ends at once and orderly.
            Self::Last => &[Signal::INT, Signal::CONT],
            Self::Stranger => &[Signal::TERM, Signal::HUP, Signal::CONT],
        }
    }

    /// The age of the end at which it is killed.
    fn patience(self) -> Duration {
        match self {
            Self::ByItself | Self::Told => DAEMONS,
            Self::Last => LAST,
            Self::Stranger => STRANGERS,
        }
    }
}

/// Ends all children, strangers at once. `wake_pipe` becomes readable when a child ends. False when
/// something could not be ended.
pub fn end_all(manners: &Manners, mut wake_pipe: Option<&mut UnixStream>) -> bool {
    let start = Instant::now();
    let mut signalled: Vec<Pid> = Vec::new();
    loop {
        if collect().1 {
            return true;
        }
        let age = start.elapsed();
        let all: Vec<(Pid, Manner)> = running()
            .into_iter()
            .map(|pid| (pid, manners.of(pid)))
            .collect();
        let only_last = all.iter().all(|(_, manner)| *manner == Manner::Last);
        for (pid, manner) in all {
            if age >= manner.patience() {
                let _ = kill_process(pid, Signal::KILL);
            } else if (manner != Manner::Last || only_last) && !signalled.contains(&pid) {
                signalled.push(pid);
                for signal in manner.signals() {
                    let _ = kill_process(pid, *signal);
                }
            }
        }
        if age >= HOPELESS {
            return false;
        }
        pause(wake_pipe.as_deref_mut());
    }
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
