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
    /// What was asked for.
    pub job: JobId,
    /// Its step.
    pub step: StepId,
}

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// As for `csub`.
    pub job: Options,
    /// Job whose step it is to be (`--job`); without, a job of its own is made.
    pub inside: Option<JobId>,
    /// Running step whose output is shown (`--attach`).
    pub attach: Option<StepRef>,
    /// Step to end (`--cancel`).
    pub cancel: Option<StepRef>,
    /// Lists the steps of a job instead of starting one (`--list`).
    pub list: bool,
    /// GPUs of each task (`--gpus-per-task`).
    pub gpus_per_task: Option<GpuRequest>,
    /// Which task goes to which node (`--distribution`).
    pub distribution: Distribution,
    /// Nodes of the tasks one by one, each with so many in a row; only in `srun`.
    pub places: Vec<(String, u32)>,
    /// What tasks are bound to (`--bind`).
    pub bind: Bind,
    /// The step may share cores with other steps of the job (`--overlap`).
    pub overlap: bool,
    /// There may be more tasks than cores (`--overcommit`).
    pub overcommit: bool,
    /// `--wait-for` or `--immediate`.
    pub patience: Option<Span>,
    /// The number of its task stands before each line of output (`--label`).
    pub label: bool,
    /// Output goes on as it comes, not line by line (`--unbuffered`).
    pub unbuffered: bool,
    /// Whether the first task with a bad exit code ends the others (`--kill-on-bad-exit`).
    pub kill_on_bad_exit: Option<bool>,
    /// File that says which task runs which program (`--multi-prog`).
    pub multi_prog: Option<PathBuf>,
    /// The first task gets a terminal (`--pty`).
    pub pty: bool,
    /// Name of the MPI plugin, or `none`; without, the program tells (`--mpi`).
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
