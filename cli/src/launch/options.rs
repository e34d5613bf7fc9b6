//! Options of a step and of the command that follows it: `cosy run` and `srun` read them from
//! command lines of their own.

use super::interrupt::InterruptMode;
use crate::job_options::JobOptions;
use cosy_model::device::GpuRequest;
use cosy_model::step::{Bind, DisplayNodes, Distribution, GpuBind};
use cosy_model::{Dialect, JobId, Span, StepId};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// A step of a job, as in `12.0`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepRef {
    /// Id of the job, in `12.0` the 12.
    pub job: JobId,
    /// Number of the step within the job, from 0.
    pub step: StepId,
}

/// Options of `cosy run`, and those of `srun` that it understands in other words.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Options that `csub` has too.
    pub job: JobOptions,
    /// The running job in which the step starts (`--job`); `None`: the job around the command, else
    /// a new one.
    pub inside: Option<JobId>,
    /// Running step whose output is shown (`--attach`).
    pub attach: Option<StepRef>,
    /// Step to end (`--cancel`).
    pub cancel: Option<StepRef>,
    /// Lists the steps of a job instead of starting one (`--list`).
    pub list: bool,
    /// GPUs of each task (`--gpus-per-task`).
    pub gpus_per_task: Option<GpuRequest>,
    /// Which GPUs of the step a task sees (`--gpu-bind`).
    pub gpu_bind: GpuBind,
    /// Which task goes to which node (`--distribution`).
    pub distribution: Distribution,
    /// Nodes for the tasks in the order of ranks, each with a number of consecutive ranks; only in
    /// `srun`.
    pub places: Vec<(String, u32)>,
    /// What tasks are bound to (`--bind`).
    pub bind: Bind,
    /// The step may share cores with other steps of the job (`--overlap`).
    pub overlap: bool,
    /// There may be more tasks than cores (`--overcommit`).
    pub overcommit: bool,
    /// Longest wait for the start (`--wait-for`); zero for `--immediate`.
    pub max_wait: Option<Span>,
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
    /// Nodes on which programs find a display that is shown on this one's (`--x11`).
    pub x11: Option<DisplayNodes>,
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Copy of the program on the nodes, which is executed in its place; only in `srun`.
    pub copy: Option<OsString>,
    /// What the first interrupt does; only `srun` has options for it.
    pub interrupts: InterruptMode,
    /// How long the other tasks may run after the first end of a task; only in `srun`.
    pub wait: Option<Duration>,
    /// Reports where tasks start and how they end; only in `srun`.
    pub verbose: bool,
    /// Tasks report the cores that they are bound to; only in `srun`.
    pub tell_bind: bool,
    /// Wording of messages.
    pub dialect: Dialect,
    /// Level of messages of the tasks' supervisors, from 0; only in `srun`.
    pub supervisors: u32,
    /// Tasks stop before their programs begin, and their processes are listed; only in `srun`.
    pub stopped: bool,
}
