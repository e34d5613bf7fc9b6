//! A step as it is asked for.

use super::{DisplayRequest, GpuBind};
use crate::job::OpenMode;
use crate::{MiB, OsText, Span, Time};
use serde::{Deserialize, Serialize};

/// Which task goes to which node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Neighbours together: node 1 is filled, then node 2.
    #[default]
    Block,
    /// One after another round the nodes.
    Cyclic,
    /// Blocks of so many round the nodes (at least 1).
    Plane(u32),
}

/// What a task is bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bind {
    /// The cores that the task was given.
    #[default]
    Cores,
    /// The step's cores in the NUMA nodes that its own cores are in; memory from there.
    Numa,
    /// All cores of the step on that node.
    None,
}

/// Where a task's input comes from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputFrom {
    /// What the command reads goes to all tasks.
    All,
    /// What the command reads goes to this one, the others have none.
    Rank(u32),
    /// A file on the task's node; a pattern.
    File(OsText),
    /// Tasks read the end of file at once.
    Null,
}

/// Where a task's output goes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputTo {
    /// Output goes to the command that has started the step.
    Command,
    /// To the command, of this task only; that of the others is dropped.
    Rank(u32),
    /// To a file on the task's node; a pattern that differs by task or node (`%t`, `%n`,
    /// `%N`), else the command writes it.
    File(OsText),
    /// Output is dropped.
    Null,
    /// Where standard output goes (for standard error).
    Output,
}

/// How large a terminal is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Window {
    /// Lines of the screen.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

/// How the tasks of a parallel program find each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wireup {
    /// The tasks do not find each other by the supervisor.
    #[default]
    None,
    /// PMI-1 or PMI-2, whichever the program speaks, over `PMI_FD`.
    Pmi,
    /// PMIx, by a helper process.
    Pmix,
}

/// What a task executes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepCommand {
    /// A program, looked up in the step's `PATH`, and its arguments. No shell.
    Run {
        /// Program and arguments; `%t` (rank) and `%o` (place among the ranks of its
        /// program) are replaced where `expand` says so.
        argv: Vec<OsText>,
        /// Replace `%t` and `%o` (several programs in one step).
        #[serde(default)]
        expand: bool,
    },
    /// Writes its input to a file, beside its place first (`cbcast`).
    Receive {
        /// Where; relative to the working directory.
        path: OsText,
        /// Mode of the file.
        mode: u32,
        /// Replace what is there.
        force: bool,
        /// Access and modification time to give it.
        times: Option<(Time, Time)>,
    },
}

/// One of the programs of a step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepProgram {
    /// Ranks that execute it, as inclusive ranges; empty: all.
    #[serde(default)]
    pub ranks: Vec<(u32, u32)>,
    /// The program and how it is found.
    pub command: StepCommand,
}

/// What a command asks for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepSpec {
    /// Name; the program's without.
    pub name: String,
    /// At least one. Every rank has exactly one.
    pub programs: Vec<StepProgram>,
    /// Number of nodes; as many as the tasks need of the allocation's without.
    #[serde(default)]
    pub nodes: Option<u32>,
    /// Number of tasks; one per node, or `tasks_per_node` on each, without.
    #[serde(default)]
    pub tasks: Option<u32>,
    /// Most tasks on one node.
    #[serde(default)]
    pub tasks_per_node: Option<u32>,
    /// Cores of each task; the job's without.
    #[serde(default)]
    pub cores_per_task: Option<u32>,
    /// GPUs of each task.
    #[serde(default)]
    pub gpus_per_task: u32,
    /// Which of its GPUs on a node each task there sees.
    #[serde(default, skip_serializing_if = "GpuBind::is_default")]
    pub gpu_bind: GpuBind,
    /// GPUs on each node, for all tasks there together; all of the job's there without
    /// this and `gpus_per_task`.
    #[serde(default)]
    pub gpus_per_node: Option<u32>,
    /// Memory on each node; the job's without.
    #[serde(default)]
    pub memory: Option<MiB>,
    /// Nodes that it must have.
    #[serde(default)]
    pub require: Vec<String>,
    /// Nodes that it must not have.
    #[serde(default)]
    pub avoid: Vec<String>,
    /// How tasks are dealt out to nodes.
    #[serde(default)]
    pub distribution: Distribution,
    /// Which node the tasks are on, by their ranks: a node, and so many in a row. Where there
    /// are any, numbers of nodes and tasks and the distribution mean nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<(String, u32)>,
    /// What tasks are bound to.
    #[serde(default)]
    pub bind: Bind,
    /// Takes cores, memory and GPUs that other steps of the job hold, too.
    #[serde(default)]
    pub overlap: bool,
    /// Tasks may be more than cores.
    #[serde(default)]
    pub overcommit: bool,
    /// How long it may wait until other steps give their share back; without end without.
    #[serde(default)]
    pub patience: Option<Span>,
    /// Longest run time; the job's end without.
    #[serde(default)]
    pub time_limit: Option<Span>,
    /// Between SIGTERM and SIGKILL.
    pub grace: Span,
    /// Working directory of the tasks: an absolute path.
    pub workdir: OsText,
    /// Variables, `NAME=value` separated by NUL.
    pub environment: OsText,
    /// File mode mask.
    pub umask: u32,
    /// Resource limits: name, soft, hard.
    #[serde(default)]
    pub rlimits: crate::job::Rlimits,
    /// Where standard input of the tasks comes from.
    pub stdin: InputFrom,
    /// Where standard output of the tasks goes.
    pub stdout: OutputTo,
    /// Where standard error of the tasks goes.
    pub stderr: OutputTo,
    /// How files are opened.
    #[serde(default)]
    pub open_mode: OpenMode,
    /// Task 0 has a terminal of this size; all others have no input.
    #[serde(default)]
    pub pty: Option<Window>,
    /// How tasks find each other.
    #[serde(default)]
    pub wireup: Wireup,
    /// In which words its tasks are spoken to.
    #[serde(default)]
    pub dialect: crate::Dialect,
    /// Signal before its limit; the job's for its steps without.
    #[serde(default)]
    pub warn: Option<crate::job::WarnSignal>,
    /// Slurm's variables about numbers of nodes and tasks stay those of the job.
    #[serde(default)]
    pub keep_counts: bool,
    /// Lines in files of the tasks begin with the rank, as in what goes to the command.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub label: bool,
    /// Tasks stop before their programs begin, for a debugger; SIGCONT lets them go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// Each task tells on its standard error what it is bound to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tell_bind: bool,
    /// Container in which its tasks run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Box<crate::Container>>,
    /// Windows of its programs are shown on the display of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<DisplayRequest>,
}

impl StepSpec {
    /// One program for all ranks, with nothing asked for beyond that: no input, output to
    /// the command, no variables, in `/`, killed at once when it is to end.
    pub fn plain(name: &str, command: StepCommand) -> Self {
        Self {
            name: name.to_owned(),
            programs: vec![StepProgram {
                ranks: Vec::new(),
                command,
            }],
            nodes: None,
            tasks: None,
            tasks_per_node: None,
            cores_per_task: None,
            gpus_per_task: 0,
            gpu_bind: GpuBind::Default,
            gpus_per_node: None,
            memory: None,
            require: Vec::new(),
            avoid: Vec::new(),
            distribution: Distribution::default(),
            places: Vec::new(),
            bind: Bind::default(),
            overlap: false,
            overcommit: false,
            patience: None,
            time_limit: None,
            grace: Span::ZERO,
            workdir: OsText::from("/"),
            environment: OsText::default(),
            umask: 0o022,
            rlimits: Default::default(),
            stdin: InputFrom::Null,
            stdout: OutputTo::Command,
            stderr: OutputTo::Command,
            open_mode: OpenMode::default(),
            pty: None,
            wireup: Wireup::default(),
            dialect: crate::Dialect::default(),
            warn: None,
            keep_counts: false,
            label: false,
            stopped: false,
            tell_bind: false,
            container: None,
            display: None,
        }
    }
}
