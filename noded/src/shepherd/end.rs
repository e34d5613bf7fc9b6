//! Finding and killing what a job left, whatever session it moved to.
//!
//! The shepherd is a child subreaper: whatever a job starts is a descendant of it, also
//! when it forked twice or called setsid. A version 2 control group does the same in one
//! write. Both are used; the job is over when the shepherd has no child left.

use crate::cgroup::Group;
use crate::sys;
use nix::libc;
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};

/// All descendants of a process, itself not included.
pub fn descendants(of: Pid) -> BTreeSet<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for pid in all_processes() {
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = BTreeSet::new();
    let mut next = vec![of.as_raw()];
    while let Some(pid) = next.pop() {
        for child in children.remove(&pid).into_iter().flatten() {
            found.insert(child);
            next.push(child);
        }
    }
    found
}

/// Every process of the machine.
pub fn all_processes() -> impl Iterator<Item = i32> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The parent of a process, from `/proc/PID/stat` (the name in it may hold anything, so
/// what follows its last bracket is read).
pub fn parent_of(pid: i32) -> Option<i32> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let at = text.iter().rposition(|b| *b == b')')?;
    let rest = std::str::from_utf8(&text[at + 1..]).ok()?;
    let mut words = rest.split_ascii_whitespace();
    let state = words.next()?;
    let parent = words.next()?.parse().ok()?;
    (state != "Z" && state != "X").then_some(parent)
}

/// Everything that belongs to the job of this shepherd now.
fn members(groups: &[Group]) -> BTreeSet<i32> {
    match groups.iter().find(|g| g.unified) {
        Some(group) => group.processes().into_iter().filter(|p| *p > 0).collect(),
        None => descendants(nix::unistd::getpid()),
    }
}

/// Sends a signal to everything of the job.
pub fn signal_all(groups: &[Group], signal: i32) {
    for pid in members(groups) {
        let _ = sys::kill(Pid::from_raw(pid), signal);
    }
}

/// Kills everything of the job once. What forks faster than it is found is stopped
/// first, until nothing new appears.
pub fn kill_all(groups: &[Group], thorough: bool) {
    for group in groups.iter().filter(|g| g.unified) {
        group.kill();
        if !thorough {
            return;
        }
    }
    let mut stopped = BTreeSet::new();
    for _ in 0..16 {
        let fresh: Vec<i32> = descendants(nix::unistd::getpid())
            .into_iter()
            .filter(|pid| stopped.insert(*pid))
            .collect();
        if fresh.is_empty() {
            break;
        }
        for pid in fresh {
            let _ = sys::kill(Pid::from_raw(pid), libc::SIGSTOP);
        }
    }
    for pid in stopped {
        let _ = sys::kill(Pid::from_raw(pid), libc::SIGKILL);
    }
}

/// What is still there, for a message.
pub fn left_over(groups: &[Group]) -> String {
    let pids: Vec<String> = members(groups)
        .into_iter()
        .take(10)
        .map(|p| p.to_string())
        .collect();
    pids.join(", ")
}
