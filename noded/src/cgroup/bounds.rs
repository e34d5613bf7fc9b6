//! What jobs and steps are to be held to, and what a job has used.

use crate::devices::DeviceNumber;
use cosy_model::step::StepId;
use std::path::PathBuf;

/// How many processes and threads a job may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Processes {
    /// As many as suit its cores ([`cosy_model::limits::JOB_PROCESSES`]).
    #[default]
    ByCores,
    /// At most so many.
    Most(u32),
    /// As many as the machine has.
    Unlimited,
}

/// What an attempt is to be held to.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttemptLimits<'a> {
    /// Name of its groups.
    pub name: &'a str,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Cores by number.
    pub cores: &'a [u32],
    /// Devices that it must not open.
    pub denied: &'a [DeviceNumber],
    /// It is the program of a trigger: it has a share of the processors that is worth one
    /// core, and few processes.
    pub trigger: bool,
}

/// What a step is to be held to, inside its job.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepLimits<'a> {
    /// Number of the step in its job.
    pub step: StepId,
    /// Memory in bytes, if less than the job's.
    pub memory_bytes: Option<u64>,
    /// Cores by number.
    pub cores: &'a [u32],
    /// Devices that it must not open.
    pub denied: &'a [DeviceNumber],
}

/// The groups in which the whole of a job is counted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JobGroups {
    /// Of version 2.
    pub unified: Option<PathBuf>,
    /// Of version 1's memory controller; where it is, version 2 counts no memory.
    pub memory: Option<PathBuf>,
}

/// What a job used on this node so far, with its steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JobUsage {
    /// Most memory in bytes; nothing where the job has no limit.
    pub peak_bytes: Option<u64>,
    /// User and system CPU time in microseconds.
    pub cpu_us: Option<(u64, u64)>,
}
