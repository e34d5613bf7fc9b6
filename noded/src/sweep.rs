//! Cleaning up after a shepherd that was killed: every process of its job is found and
//! killed, by control group where there is one, else by the mark in its environment and
//! by descent.
//!
//! Blocks; runs on a thread of its own.

use crate::cgroup::Group;
use crate::shepherd::descendants_of;
use crate::spool::Outcome;
use crate::sys;
use cosy_model::{End, EndCause, Time};
use nix::libc;
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// Variable that says to which attempt, on which node of which daemon, a process belongs.
pub const MARK: &str = "COSY_NODE_MARK";
/// After so long what is left is told instead.
const PATIENCE: Duration = Duration::from_secs(60);

/// An attempt whose shepherd was killed.
#[derive(Debug)]
pub struct Lost {
    /// Value of [`MARK`].
    pub mark: String,
    /// User.
    pub uid: u32,
    /// Its control groups.
    pub groups: Vec<Group>,
    /// When it was started.
    pub start: Time,
}

/// Kills until nothing is found any more.
pub fn sweep(lost: &Lost) -> Outcome {
    let until = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(2);
    let mut drain = None;
    loop {
        let found = kill_once(lost);
        if found.is_empty() {
            break;
        }
        if Instant::now() >= until {
            let list: Vec<String> = found.iter().take(10).map(i32::to_string).collect();
            let list = list.join(", ");
            drain = Some(format!(
                "processes of {} cannot be killed: {list}",
                lost.mark
            ));
            break;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(200));
    }
    let mut end = End {
        start: Some(lost.start),
        ..End::never_ran(EndCause::SupervisorLost, sys::now())
    };
    for group in &lost.groups {
        if let Some((user, system)) = group.cpu_time() {
            (end.user_cpu_us, end.system_cpu_us) = (user, system);
        }
        if group.memory {
            end.peak_memory_bytes = group.peak_memory().unwrap_or(0);
        }
        group.remove();
    }
    Outcome { end, drain }
}

/// One round: gives what was still there.
fn kill_once(lost: &Lost) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    for group in lost.groups.iter().filter(|g| !g.shared) {
        let inside = group.processes();
        if !inside.is_empty() {
            group.kill();
            found.extend(inside);
        }
    }
    let wanted = format!("{MARK}={}", lost.mark).into_bytes();
    let orphans = descendants_of(nix::unistd::getpid());
    for pid in crate::shepherd::all_processes() {
        let marked = match mark_of(pid) {
            Some(mark) => mark == wanted,
            // It has changed its environment; only orphans of shepherds get here.
            None => orphans.contains(&pid) && is_orphan(pid, lost),
        };
        if marked {
            found.extend(descendants_of(Pid::from_raw(pid)));
            found.insert(pid);
        }
    }
    for pid in &found {
        let _ = sys::kill(Pid::from_raw(*pid), libc::SIGKILL);
    }
    found
}

/// The mark in the environment of a process; `None` without one.
pub(crate) fn mark_of(pid: i32) -> Option<Vec<u8>> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    environment
        .split(|b| *b == 0)
        .find(|v| v.starts_with(MARK.as_bytes()) || v.starts_with(b"COSY_HOOK="))
        .map(<[u8]>::to_vec)
}

/// A child of this daemon that is neither nursery, shepherd nor hook and is the user's.
fn is_orphan(pid: i32, lost: &Lost) -> bool {
    let parent = crate::shepherd::parent_of(pid);
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let own = std::env::current_exe().ok();
    parent == Some(nix::unistd::getpid().as_raw())
        && program.is_some()
        && program != own
        && std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|m| m.uid() == lost.uid)
}
