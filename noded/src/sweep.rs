//! Cleaning up after a shepherd that was killed: every process of its job is found and
//! killed, by control group where there is one, else by the mark in its environment and
//! by descent.
//!
//! Blocks; runs on a thread of its own.

use crate::cgroup::Group;
use crate::shepherd::descendants_of;
use crate::spool::{self, Outcome};
use crate::sys;
use cosy_model::node::AllocationKey;
use cosy_model::variables::{HOOK, NODE_MARK, value_of};
use cosy_model::{End, EndCause, Time};
use nix::libc;
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// After so long what is left is told instead.
const PATIENCE: Duration = Duration::from_secs(60);

/// An attempt whose shepherd was killed.
#[derive(Debug)]
pub struct Lost {
    /// Value of [`NODE_MARK`]: to which attempt, on which node of which daemon, a process belongs.
    pub mark: String,
    /// Number of the job's owner.
    pub uid: u32,
    /// Control groups of the attempt.
    pub groups: Vec<Group>,
    /// When it was started.
    pub start: Time,
    /// Its shepherd, where that still lives: it is ended, too.
    pub shepherd: Option<Pid>,
    /// Its steps are meant, too.
    pub with_steps: bool,
    /// What is told of it.
    pub cause: EndCause,
}

/// What processes on this machine say of themselves that belong to `instance`: `JOB.ATTEMPT`,
/// also those of steps.
pub fn attempts_of(instance: &str) -> BTreeSet<AllocationKey> {
    let prefix = format!("{NODE_MARK}={instance}/").into_bytes();
    let marks = crate::shepherd::all_processes().filter_map(mark_of);
    let names = marks.filter_map(|mark| {
        let rest = mark.strip_prefix(prefix.as_slice())?;
        let name = rest.split(|b| *b == b'/').next()?;
        spool::key_of(std::str::from_utf8(name).ok()?)
    });
    names.collect()
}

/// Kills until nothing is found any more.
pub fn sweep(lost: &Lost) -> Outcome {
    let until = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(2);
    let mut drain = None;
    let mut shepherd = lost.shepherd;
    loop {
        let mut found = kill_once(lost);
        if let Some(pid) = shepherd.take() {
            found.extend(kill_tree(pid));
        }
        if found.is_empty() {
            break;
        }
        if Instant::now() >= until {
            let list: Vec<String> = found.iter().take(10).map(i32::to_string).collect();
            let list = list.join(", ");
            drain = Some(format!("processes of {} cannot be killed: {list}", lost.mark));
            break;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(200));
    }
    let mut end = End {
        start: Some(lost.start),
        ..End::never_ran(lost.cause.clone(), sys::now())
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
    let wanted = format!("{NODE_MARK}={}", lost.mark).into_bytes();
    let step = [wanted.as_slice(), b"/"].concat();
    let is_of = |mark: &[u8]| mark == wanted || lost.with_steps && mark.starts_with(&step);
    let orphans = descendants_of(nix::unistd::getpid());
    for pid in crate::shepherd::all_processes() {
        let marked = match mark_of(pid) {
            Some(mark) => is_of(&mark),
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

/// Ends a shepherd and all that it has, also what says nothing of itself.
fn kill_tree(shepherd: Pid) -> BTreeSet<i32> {
    let mut all: BTreeSet<i32> = descendants_of(shepherd).into_iter().collect();
    all.insert(shepherd.as_raw());
    for pid in &all {
        let _ = sys::kill(Pid::from_raw(*pid), libc::SIGKILL);
    }
    all
}

/// The mark in the environment of a process; `None` without one.
pub(crate) fn mark_of(pid: i32) -> Option<Vec<u8>> {
    let environment = environment_of(pid)?;
    let mark = |v: &&[u8]| value_of(v, NODE_MARK).is_some();
    environment
        .split(|b| *b == 0)
        .find(mark)
        .map(<[u8]>::to_vec)
}

/// The environment of a process. The first thread of one that has others may have ended:
/// then it is theirs.
fn environment_of(pid: i32) -> Option<Vec<u8>> {
    let of = |path: String| std::fs::read(path).ok().filter(|e| !e.is_empty());
    of(format!("/proc/{pid}/environ")).or_else(|| {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let mut names = threads.flatten().map(|thread| thread.file_name());
        names.find_map(|name| of(format!("/proc/{pid}/task/{}/environ", name.to_str()?)))
    })
}

/// A child of this daemon that a supervisor has left, of the user whose job is swept. What
/// the daemon itself has started is of its own user; only where the job is of that user, too,
/// is it told by program and variable, which others could choose as they like.
fn is_orphan(pid: i32, lost: &Lost) -> bool {
    let parent = crate::shepherd::parent_of(pid);
    parent == Some(nix::unistd::getpid().as_raw())
        && user_of(pid) == Some(lost.uid)
        && (lost.uid != sys::own_uid().0 || !is_own(pid))
}

/// Real user of the process. Who owns its directory in `/proc` is another thing,
/// which a process may change for itself.
pub(crate) fn user_of(pid: i32) -> Option<u32> {
    let status = std::fs::read(format!("/proc/{pid}/status")).ok()?;
    let mut lines = status.split(|b| *b == b'\n');
    let line = lines.find_map(|line| line.strip_prefix(b"Uid:"))?;
    let words = std::str::from_utf8(line).ok()?;
    words.split_ascii_whitespace().next()?.parse().ok()
}

/// Nursery, shepherd or hook of this daemon.
fn is_own(pid: i32) -> bool {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let own = std::env::current_exe().ok();
    let environment = environment_of(pid).unwrap_or_default();
    let mut variables = environment.split(|b| *b == 0);
    program.is_some() && program == own || variables.any(|v| value_of(v, HOOK).is_some())
}
