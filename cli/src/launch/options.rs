//! What a step is asked for, and what the command does while the step runs: `cosy run` and
//! `srun` read it from command lines of their own.

use super::interrupt::Rule;
use crate::job_options::Options;
use cosy_model::device::GpuRequest;
use cosy_model::step::{Bind, Distribution};
use cosy_model::{Dialect, JobId, Span, StepId};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// A step of a job, as in `12.0`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepRef {
    /// The job.
    pub job: JobId,
    /// Its step.
    pub step: StepId,
}

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// As for `csub`.
    pub job: Options,
    /// `--job`.
    pub inside: Option<JobId>,
    /// `--attach`.
    pub attach: Option<StepRef>,
    /// `--cancel`.
    pub cancel: Option<StepRef>,
    /// `--list`.
    pub list: bool,
    /// `--gpus-per-task`.
    pub gpus_per_task: Option<GpuRequest>,
    /// `--distribution`.
    pub distribution: Distribution,
    /// Nodes of the tasks one by one, each with so many in a row; only in `srun`.
    pub places: Vec<(String, u32)>,
    /// `--bind`.
    pub bind: Bind,
    /// `--overlap`.
    pub overlap: bool,
    /// `--overcommit`.
    pub overcommit: bool,
    /// `--wait-for` or `--immediate`.
    pub patience: Option<Span>,
    /// `--label`.
    pub label: bool,
    /// `--unbuffered`.
    pub unbuffered: bool,
    /// `--kill-on-bad-exit`.
    pub kill_on_bad_exit: Option<bool>,
    /// `--multi-prog`.
    pub multi_prog: Option<PathBuf>,
    /// `--pty`.
    pub pty: bool,
    /// `--mpi`.
    pub mpi: Option<String>,
    /// What to run.
    pub command: Vec<OsString>,
    /// What an interrupt means; Slurm's commands have options for it.
    pub interrupts: Rule,
    /// After the first end of a task, the others have so long; only in `srun`.
    pub wait: Option<Duration>,
    /// Say how it goes along; only in `srun`.
    pub verbose: bool,
    /// Tasks tell what they are bound to; only in `srun`.
    pub tell_bind: bool,
    /// In whose words mistakes are told.
    pub dialect: Dialect,
    /// How much the tasks' supervisors say; only in `srun`.
    pub supervisors: u32,
    /// Tasks stop before their programs, and are listed; only in `srun`.
    pub stopped: bool,
}
