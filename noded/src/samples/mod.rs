//! What jobs use of this node while they run: measured at an interval, for all jobs together, and
//! kept as a short series for each.
//!
//! Control groups of version 2 say all that is wanted; what they or those of version 1 do not say is
//! summed up over the processes that carry a job's mark, all of them in one look through `/proc`.
//! Nothing here decides anything.

pub mod energy;
pub mod groups;
pub mod kept;
pub mod processes;
pub mod sampled;
pub mod series;

use crate::cgroup::JobGroups;
use cosy_model::node::AttemptKey;
use cosy_model::step::Sample;
use cosy_model::{Time, Uid};
use groups::Counted;
use std::collections::BTreeMap;

/// A job that is to be measured.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its attempt here.
    pub key: AttemptKey,
    /// User of its processes.
    pub uid: Uid,
    /// Its control groups.
    pub groups: JobGroups,
}

/// What was measured of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// Its attempt here.
    pub key: AttemptKey,
    /// The figures.
    pub sample: Sample,
    /// The largest memory that the kernel has noted, in bytes.
    pub peak_bytes: Option<u64>,
}

/// What one look at all jobs and at the machine has found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Look {
    /// What each job used.
    pub jobs: Vec<Measured>,
    /// What the power meter says, in microwatts, where there is one.
    pub power_uw: Option<u64>,
}

/// Measures all of them. Blocks: it reads files of the kernel.
pub fn measure(subjects: &[Subject], instance: &str, now: impl Fn() -> Time) -> Vec<Measured> {
    let counted: Vec<Counted> = subjects.iter().map(|s| groups::read(&s.groups)).collect();
    let wanted: BTreeMap<AttemptKey, Uid> = subjects
        .iter()
        .zip(&counted)
        .filter(|(_, counted)| counted.lacks())
        .map(|(subject, _)| (subject.key, subject.uid))
        .collect();
    let found = match wanted.is_empty() {
        true => BTreeMap::new(),
        false => processes::sum(instance, &wanted),
    };
    let at = now();
    let one = |(subject, counted): (&Subject, Counted)| {
        let summed = found.get(&subject.key).copied().unwrap_or_default();
        Measured {
            key: subject.key,
            sample: Sample {
                at,
                cpu_us: counted.cpu_us.unwrap_or(summed.cpu_us),
                memory_bytes: counted.memory_bytes.unwrap_or(summed.memory_bytes),
                processes: counted.processes.unwrap_or(summed.processes),
                read_bytes: counted.read_bytes.or(summed.read_bytes),
                written_bytes: counted.written_bytes.or(summed.written_bytes),
                memory_stall: counted.memory_stall,
                ..Sample::default()
            },
            peak_bytes: counted.peak_bytes,
        }
    };
    subjects.iter().zip(counted).map(one).collect()
}
