//! What a task says of the processors that it is bound to (`srun --cpu-bind=verbose`), before
//! its program begins: read back from the kernel, so it is what holds.
//!
//! Source: srun(1), "--cpu-bind"; the line is that of Slurm's plugin for affinity.

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::io::Write;

/// What it says of itself.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Name of the task's node.
    pub node: String,
    /// True when the task was bound, false when it was left where its step is.
    pub by_mask: bool,
}

impl Bound {
    /// Says it on standard error; for use between fork and exec of a process with one thread.
    pub fn say(&self, rank: u32, place: u32) {
        let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else {
            return;
        };
        let processors = (0..CpuSet::count()).filter(|n| set.is_set(*n).unwrap_or(false));
        let mask = mask(processors);
        let line = self.line(rank, place, std::process::id(), &mask);
        let _ = std::io::stderr().write_all(line.as_bytes());
    }

    fn line(&self, rank: u32, place: u32, pid: u32, mask: &str) -> String {
        let node = &self.node;
        let (kind, end) = match self.by_mask {
            true => ("MASK", " set"),
            false => ("NULL", ""),
        };
        format!("cpu-bind={kind} - {node}, task {rank:2} {place:2} [{pid}]: mask {mask}{end}\n")
    }
}

/// `0x5` for 0 and 2.
fn mask(processors: impl Iterator<Item = usize>) -> String {
    let mut digits: Vec<u8> = vec![0];
    for n in processors {
        let at = n / 4;
        if digits.len() <= at {
            digits.resize(at + 1, 0);
        }
        digits[at] |= 1 << (n % 4);
    }
    let hex = digits.iter().rev().map(|d| format!("{d:x}"));
    format!("0x{}", hex.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let bound = |by_mask| Bound {
            node: "n1".to_owned(),
            by_mask,
        };
        let want = "cpu-bind=MASK - n1, task  3  0 [77]: mask 0x3 set\n";
        assert_eq!(bound(true).line(3, 0, 77, "0x3"), want);
        let want = "cpu-bind=NULL - n1, task 12 11 [77]: mask 0xff\n";
        assert_eq!(bound(false).line(12, 11, 77, "0xff"), want);
    }

    #[test]
    fn masks() {
        let check = |numbers: &[usize], want: &str| {
            assert_eq!(mask(numbers.iter().copied()), want, "{numbers:?}");
        };
        check(&[0, 1], "0x3");
        check(&[4], "0x10");
        check(&[0, 70], "0x400000000000000001");
        check(&[], "0x0");
    }
}
