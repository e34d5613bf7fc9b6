//! What the control groups of a job count. Source: the kernel's cgroup-v2 documentation, and for
//! version 1 that of the memory controller.

use crate::cgroup::{JobGroups, keyed, number, peak_memory};
use std::fs;
use std::path::Path;

/// What they say; `None` where they do not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// CPU time in microseconds.
    pub cpu_us: Option<u64>,
    /// Memory in bytes, without file pages that are not in use.
    pub memory_bytes: Option<u64>,
    /// The largest memory ever, in bytes.
    pub peak_bytes: Option<u64>,
    /// Number of processes and threads.
    pub processes: Option<u32>,
    /// Bytes read from disks.
    pub read_bytes: Option<u64>,
    /// Bytes written to disks.
    pub written_bytes: Option<u64>,
    /// Per mille of the last minute in which all waited for memory.
    pub memory_stall: Option<u16>,
}

impl Counted {
    /// Whether processes have to be looked at for the rest.
    pub const fn lacks(&self) -> bool {
        self.cpu_us.is_none() || self.memory_bytes.is_none()
    }
}

/// Reads them.
pub fn read(groups: &JobGroups) -> Counted {
    let mut counted = groups
        .unified
        .as_deref()
        .map(of_unified)
        .unwrap_or_default();
    if let Some(path) = &groups.memory {
        counted.memory_bytes = of_memory(path);
        counted.peak_bytes = peak_memory(path, false);
    }
    counted
}

fn of_unified(path: &Path) -> Counted {
    let text = |name: &str| fs::read_to_string(path.join(name)).ok();
    let io = text("io.stat");
    let memory = number(&path.join("memory.current"));
    Counted {
        cpu_us: text("cpu.stat").and_then(|text| keyed(&text, "usage_usec")),
        memory_bytes: memory.map(|all| {
            let stat = text("memory.stat").unwrap_or_default();
            all.saturating_sub(keyed(&stat, "inactive_file").unwrap_or(0))
        }),
        peak_bytes: peak_memory(path, true),
        processes: number(&path.join("pids.current")).and_then(|n| u32::try_from(n).ok()),
        read_bytes: io.as_deref().map(|text| summed(text, "rbytes=")),
        written_bytes: io.as_deref().map(|text| summed(text, "wbytes=")),
        memory_stall: text("memory.pressure").and_then(|text| stalled(&text)),
    }
}

fn of_memory(path: &Path) -> Option<u64> {
    let all = number(&path.join("memory.usage_in_bytes"))?;
    let stat = fs::read_to_string(path.join("memory.stat")).unwrap_or_default();
    Some(all.saturating_sub(keyed(&stat, "total_inactive_file").unwrap_or(0)))
}

/// The sum of a figure over all devices of `io.stat`.
fn summed(text: &str, key: &str) -> u64 {
    let words = text.split_ascii_whitespace();
    let numbers = words.filter_map(|word| word.strip_prefix(key)?.parse::<u64>().ok());
    numbers.fold(0, u64::saturating_add)
}

/// Per mille out of `full avg10=0.00 avg60=12.34 ...`.
fn stalled(text: &str) -> Option<u16> {
    let line = text.lines().find_map(|line| line.strip_prefix("full "))?;
    let mut words = line.split_ascii_whitespace();
    let percent: f64 = words
        .find_map(|word| word.strip_prefix("avg60="))?
        .parse()
        .ok()?;
    // A finite figure from 0 to 1000 fits.
    (0.0..=100.0)
        .contains(&percent)
        .then(|| (percent * 10.0).round() as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            fs::write(path.join(name), text).unwrap();
        }
    }

    #[test]
    fn version_2_says_all() {
        let dir = tempfile::tempdir().unwrap();
        write(
            dir.path(),
            &[
                ("cpu.stat", "usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\n"),
                ("memory.current", "1000\n"),
                ("memory.stat", "anon 300\ninactive_file 400\nactive_file 10\n"),
                ("memory.peak", "5000\n"),
                ("pids.current", "7\n"),
                (
                    "io.stat",
                    "8:0 rbytes=10 wbytes=20 rios=1 wios=1 dbytes=0\n8:16 rbytes=5 wbytes=0\n",
                ),
                (
                    "memory.pressure",
                    "some avg10=90.00 avg60=80.00 avg300=1.00 total=5\n\
                     full avg10=60.00 avg60=45.67 avg300=0.50 total=4\n",
                ),
            ],
        );
        let groups = JobGroups {
            unified: Some(dir.path().to_owned()),
            memory: None,
        };
        let want = Counted {
            cpu_us: Some(1_500_000),
            memory_bytes: Some(600),
            peak_bytes: Some(5000),
            processes: Some(7),
            read_bytes: Some(15),
            written_bytes: Some(20),
            memory_stall: Some(457),
        };
        assert_eq!(read(&groups), want);
        assert!(!want.lacks());
    }

    #[test]
    fn version_1_says_memory() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(
            one.path(),
            &[
                ("memory.usage_in_bytes", "900\n"),
                ("memory.max_usage_in_bytes", "950\n"),
                ("memory.stat", "inactive_file 1\ntotal_inactive_file 200\n"),
            ],
        );
        let groups = JobGroups {
            unified: Some(two.path().to_owned()),
            memory: Some(one.path().to_owned()),
        };
        let got = read(&groups);
        assert_eq!((got.memory_bytes, got.peak_bytes), (Some(700), Some(950)));
        assert!(got.lacks(), "nothing says what CPU time it took");
    }

    #[test]
    fn what_makes_no_sense_is_not_known() {
        let check = |text: &str, want: Option<u16>| assert_eq!(stalled(text), want, "{text}");
        check("", None);
        check("some avg10=1.00 avg60=2.00\n", None);
        check("full avg10=1.00\n", None);
        check("full avg60=x\n", None);
        check("full avg60=-1.00\n", None);
        check("full avg60=1e9\n", None);
        check("full avg60=NaN\n", None);
        check("full avg60=100.00\n", Some(1000));
        assert_eq!(
            summed("8:0 rbytes=x rbytes=18446744073709551615 rbytes=2", "rbytes="),
            u64::MAX
        );
        assert_eq!(read(&JobGroups::default()), Counted::default());
    }
}
