//! What the processes of jobs use, summed up in one look through `/proc`. Source: proc(5).

use crate::shepherd::all_processes;
use crate::sys::figures::{resident, times};
use crate::{spool, sweep};
use cosy_model::Uid;
use cosy_model::node::AttemptKey;
use cosy_model::variables::NODE_MARK;
use std::collections::BTreeMap;
use std::fs;

/// What the processes of a job use together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summed {
    /// CPU time in microseconds of those that live and of what they waited for.
    pub cpu_us: u64,
    /// Resident memory in bytes; what several share is counted for each.
    pub memory_bytes: u64,
    /// How many there are.
    pub processes: u32,
    /// Bytes read from disks by those that live and what they waited for.
    pub read_bytes: Option<u64>,
    /// Bytes written to disks by the same.
    pub written_bytes: Option<u64>,
}

/// Sums up all processes that carry the mark of one of these attempts and are of its user: the mark
/// alone proves nothing, it is only a variable.
pub fn sum(instance: &str, wanted: &BTreeMap<AttemptKey, Uid>) -> BTreeMap<AttemptKey, Summed> {
    let prefix = format!("{NODE_MARK}={instance}/").into_bytes();
    let mut all: BTreeMap<AttemptKey, Summed> = BTreeMap::new();
    for pid in all_processes() {
        // An environment may be long: those of other users are not read.
        let Some(user) = sweep::user_of(pid).map(Uid) else {
            continue;
        };
        if !wanted.values().any(|uid| *uid == user) {
            continue;
        }
        if let Some(key) = sweep::mark_of(pid).and_then(|mark| attempt_of(&mark, &prefix))
            && wanted.get(&key) == Some(&user)
        {
            all.entry(key).or_default().add(pid);
        }
    }
    all
}

/// The attempt that a mark names, of which it may be a step.
fn attempt_of(mark: &[u8], prefix: &[u8]) -> Option<AttemptKey> {
    let rest = mark.strip_prefix(prefix)?;
    let name = rest.split(|b| *b == b'/').next()?;
    spool::key_of(std::str::from_utf8(name).ok()?)?.job()
}

impl Summed {
    fn add(&mut self, pid: i32) {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}"));
        let (user, system) = read("stat").map_or((0, 0), |text| times(&text));
        let memory = read("status").map_or(0, |text| resident(&text));
        self.cpu_us = self.cpu_us.saturating_add(user).saturating_add(system);
        self.memory_bytes = self.memory_bytes.saturating_add(memory);
        self.processes = self.processes.saturating_add(1);
        // Those that have changed their user are not told of.
        if let Ok(text) = read("io") {
            add_to(&mut self.read_bytes, &text, "read_bytes: ");
            add_to(&mut self.written_bytes, &text, "write_bytes: ");
        }
    }
}

/// Adds the figure of that key in `/proc/PID/io`, where it is there.
pub fn add_to(sum: &mut Option<u64>, text: &str, key: &str) {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    if let Some(bytes) = line.and_then(|n| n.trim().parse::<u64>().ok()) {
        *sum = Some(sum.unwrap_or(0).saturating_add(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::{Attempt, JobId};

    #[test]
    fn marks_name_attempts() {
        let check = |mark: &str, want: Option<(u64, u32)>| {
            let key = attempt_of(mark.as_bytes(), b"COSY_NODE_MARK=cosy-n1-12/");
            let want = want.map(|(job, attempt)| AttemptKey {
                job: JobId(job),
                attempt: Attempt(attempt),
            });
            assert_eq!(key, want, "{mark}");
        };
        check("COSY_NODE_MARK=cosy-n1-12/7.2", Some((7, 2)));
        check("COSY_NODE_MARK=cosy-n1-12/7.2/s.3", Some((7, 2)));
        check("COSY_NODE_MARK=cosy-n1-13/7.2", None);
        check("COSY_NODE_MARK=cosy-n1-12/7", None);
        check("COSY_NODE_MARK=cosy-n1-12/\u{1b}", None);
    }

    #[test]
    fn bytes_are_summed() {
        let mut sum = None;
        add_to(&mut sum, "rchar: 9\nread_bytes: x\n", "read_bytes: ");
        assert_eq!(sum, None);
        add_to(&mut sum, "rchar: 9\nread_bytes: 4\n", "read_bytes: ");
        add_to(&mut sum, "read_bytes: 5\ncancelled_write_bytes: 1\n", "read_bytes: ");
        assert_eq!(sum, Some(9));
        let mut sum = None;
        add_to(&mut sum, "cancelled_write_bytes: 1\nwrite_bytes: 3\n", "write_bytes: ");
        assert_eq!(sum, Some(3));
    }
}
