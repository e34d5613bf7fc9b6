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
use std::sync::atomic::{AtomicI32, Ordering};

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

/// The parent of a process that has not ended, from `/proc/PID/stat`.
pub fn parent_of(pid: i32) -> Option<i32> {
    parent_in(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The parent, out of `/proc/PID/stat` (the name in it may hold anything, so what follows its
/// last bracket is read). A process whose first thread has ended looks like one that has, but
/// for its other threads.
fn parent_in(stat: &[u8]) -> Option<i32> {
    let at = stat.iter().rposition(|b| *b == b')')?;
    let rest = std::str::from_utf8(&stat[at + 1..]).ok()?;
    let mut words = rest.split_ascii_whitespace();
    let state = words.next()?;
    let parent = words.next()?.parse().ok()?;
    // State, parent and 15 others come before the number of threads.
    let threads: u32 = words.nth(15).and_then(|n| n.parse().ok()).unwrap_or(0);
    let ended = matches!(state, "Z" | "X") && threads < 2;
    (!ended).then_some(parent)
}

/// A child of this supervisor that is none of the job's processes: its number, or 0.
static SPARED: AtomicI32 = AtomicI32::new(0);

/// From now on this child of the supervisor, and no other, gets no signals that are meant
/// for the job: it writes what the job's processes have written, also when those are killed.
pub fn spare(child: Option<Pid>) {
    SPARED.store(child.map_or(0, Pid::as_raw), Ordering::Relaxed);
}

/// All descendants of this supervisor that are the job's.
fn own_descendants() -> BTreeSet<i32> {
    let mut all = descendants(nix::unistd::getpid());
    all.remove(&SPARED.load(Ordering::Relaxed));
    all
}

/// Everything that belongs to the job of this shepherd now.
fn members(groups: &[Group]) -> BTreeSet<i32> {
    match groups.iter().find(|g| g.unified) {
        Some(group) => group.processes().into_iter().filter(|p| *p > 0).collect(),
        None => own_descendants(),
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
        let fresh: Vec<i32> = own_descendants()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_its_first_thread_has_not_ended() {
        let check = |state: &str, threads: &str, want: Option<i32>| {
            let stat = format!("7 (a) b) {state} 42 7 7 0 -1 0 1 2 3 4 5 6 7 8 20 0 {threads} 0 9");
            assert_eq!(parent_in(stat.as_bytes()), want, "{stat}");
        };
        check("S", "1", Some(42));
        check("Z", "1", None);
        check("Z", "0", None);
        check("Z", "2", Some(42));
        check("X", "1", None);
        assert_eq!(parent_in(b"7 (a"), None);
    }
}
