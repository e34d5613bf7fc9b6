//! Steps: programs that run inside an allocation, one task or thousands. The words that
//! commands, node daemons and supervisors share; how they travel is the business of
//! `cosy_proto::step` and `cosy_proto::peer`.
//!
//! A step is started by the job's first node, not by the controller, which only hears
//! afterwards, in batches, how steps ended ([`StepRecord`]).
//!
//! ```text
//! cosy run ── Unix socket ── supervisor on the job's first node (the head)
//!                              ├── supervisor on node 2 ── supervisor on node 5 ...
//!                              └── supervisor on node 3 ...
//! ```
//!
//! Up this tree go [`Up`] frames (output, ends of tasks), down go [`Down`] frames (input,
//! signals). The command decides what the ends of tasks mean; the supervisors enforce the
//! time limit, and the end of everything when the command is gone.

use crate::job::OpenMode;
use crate::node::AttemptKey;
use crate::{End, Gid, JobId, MiB, OsText, Refusal, Span, Time, Uid};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Number of a step within its attempt, from 0.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct StepId(pub u32);

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One step of one attempt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct StepKey {
    /// Job and attempt.
    pub attempt: AttemptKey,
    /// Number of the step within the job.
    pub step: StepId,
}

/// Without the attempt, `12.0`.
impl fmt::Display for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}", self.attempt.job, self.step))
    }
}

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
    /// Its own cores.
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
    /// To the command.
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
    /// They do not.
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
    /// Which task goes where.
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
    /// Working directory.
    pub workdir: OsText,
    /// Variables, `NAME=value` separated by NUL.
    pub environment: OsText,
    /// File mode mask.
    pub umask: u32,
    /// Resource limits: name, soft, hard.
    #[serde(default)]
    pub rlimits: Vec<(String, u64, u64)>,
    /// Where standard input of the tasks comes from.
    pub stdin: InputFrom,
    /// Where standard output of the tasks goes.
    pub stdout: OutputTo,
    /// Error output.
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
            rlimits: Vec::new(),
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
        }
    }
}

/// Ranks `first`, `first + stride`, ... on one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RankRun {
    /// Lowest of the ranks.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// From one to the next.
    pub stride: u32,
}

/// Where the tasks of a step are.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StepLayout {
    /// Nodes in the step's order; their place here is the node's number in the step.
    pub nodes: Vec<String>,
    /// Ranks of each node, ascending.
    pub ranks: Vec<Vec<RankRun>>,
    /// Number of tasks.
    pub tasks: u32,
    /// Cores of each task.
    pub cores_per_task: u32,
}

impl StepLayout {
    /// The ranks of a node by its number; empty for one that is not there.
    pub fn ranks_of(&self, node: u32) -> Vec<u32> {
        let runs = self.ranks.get(node as usize).map_or(&[][..], Vec::as_slice);
        runs.iter()
            .flat_map(|r| (0..r.count).map(|n| r.first.saturating_add(n.saturating_mul(r.stride))))
            .collect()
    }

    /// The nodes that have tasks. Others are only the last ones: those that the step's
    /// frames only pass through.
    pub fn nodes_with_tasks(&self) -> &[String] {
        let with = self.ranks.iter().take_while(|runs| !runs.is_empty());
        self.nodes.get(..with.count()).unwrap_or(&self.nodes)
    }

    /// Number of tasks of a node.
    pub fn count_of(&self, node: u32) -> u32 {
        let runs = self.ranks.get(node as usize).map_or(&[][..], Vec::as_slice);
        runs.iter().map(|r| r.count).sum()
    }
}

/// Where another node's daemon is reached, and the key that it must hold.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Peer {
    /// Name of the node.
    pub node: String,
    /// Address that other nodes reach it at, `HOST:PORT`.
    pub address: String,
    /// Public key in hexadecimal.
    pub key: String,
}

/// The share that the job has of one of its nodes, as its first node is told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobPart {
    /// Where it is.
    pub peer: Peer,
    /// Tasks that the job was given there.
    pub tasks: u32,
    /// Cores there.
    pub cores: u32,
    /// Memory there; `None` is not limited.
    pub memory: Option<MiB>,
    /// GPUs there.
    pub gpus: u32,
}

/// What one node daemon orders another: start this step in your part of the tree.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepOrder {
    /// The attempt, and the step in it.
    pub key: StepKey,
    /// As asked for.
    pub spec: StepSpec,
    /// The whole step.
    pub layout: StepLayout,
    /// Numbers of the nodes of this part of the tree; the first is the node addressed.
    pub tree: Vec<u32>,
    /// Where they are, in the same order (the first too).
    pub peers: Vec<Peer>,
}

/// What a command asks the daemon of a node, on the socket for steps.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepAsk {
    /// Start a step. Answers: any number of [`StepAnswer::Waits`], then
    /// [`StepAnswer::Created`], and from there on frames.
    Start {
        /// In which job.
        job: JobId,
        /// The step as it is asked for.
        spec: Box<StepSpec>,
    },
    /// See a running step's output from now on, and what is kept of it. Answer:
    /// [`StepAnswer::Created`], then frames; input is not taken.
    Attach {
        /// Job of the step.
        job: JobId,
        /// Number of the step.
        step: StepId,
    },
    /// Steps that run or wait. Answer: [`StepAnswer::Steps`].
    List {
        /// Of which job.
        job: JobId,
    },
    /// What script and steps have used so far on this node. Answer: [`StepAnswer::Usage`].
    Usage {
        /// Of which job.
        job: JobId,
    },
    /// Send a signal to a step's tasks. Answer: [`StepAnswer::Done`].
    Signal {
        /// Job of the step.
        job: JobId,
        /// Number of the step.
        step: StepId,
        /// Number; 0 ends the step (SIGTERM, grace, SIGKILL).
        signal: i32,
    },
    /// Give running steps another time limit of their own. Answer: [`StepAnswer::Done`] when
    /// all their nodes have it.
    Limit {
        /// Job of the step.
        job: JobId,
        /// Step; all that run without.
        #[serde(default)]
        step: Option<StepId>,
        /// From the beginning of the step. The job's end is the step's, whatever this says.
        limit: Span,
    },
}

impl StepAsk {
    /// The job that it is about.
    pub const fn job(&self) -> JobId {
        match self {
            Self::Start { job, .. }
            | Self::Attach { job, .. }
            | Self::List { job }
            | Self::Usage { job }
            | Self::Signal { job, .. }
            | Self::Limit { job, .. } => *job,
        }
    }
}

/// A step that runs or waits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepInfo {
    /// The attempt, and the step in it.
    pub key: StepKey,
    /// Name that the step was given, by default its program's.
    pub name: String,
    /// Its nodes as a host list; empty while it waits.
    pub nodes: String,
    /// Number of tasks.
    pub tasks: u32,
    /// Since when; `None` while it waits.
    pub start: Option<Time>,
    /// Its own limit.
    #[serde(default)]
    pub time_limit: Option<Span>,
    /// Its own memory on each node.
    #[serde(default)]
    pub memory: Option<MiB>,
}

/// What something that runs has used so far on one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LiveUse {
    /// Processor time in user mode, in microseconds.
    pub user_cpu_us: u64,
    /// In the kernel.
    pub system_cpu_us: u64,
    /// Memory in bytes: the most that is known of.
    pub memory_bytes: u64,
}

/// What the parts of a job have used so far on one node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct JobUse {
    /// The script, where it runs there.
    pub script: Option<LiveUse>,
    /// Figures of each step that runs.
    #[serde(default)]
    pub steps: Vec<(StepId, LiveUse)>,
}

/// What is answered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepAnswer {
    /// What is used.
    Usage(JobUse),
    /// No, and why; nothing was started.
    Refused(Refusal),
    /// It waits for what other steps of the job hold.
    Waits {
        /// In one line.
        reason: String,
    },
    /// It is being started: frames follow on this connection.
    Created {
        /// Its name.
        key: StepKey,
        /// Where its tasks are.
        layout: StepLayout,
        /// Its longest run time, from its start; `Span::UNLIMITED` without.
        limit: Span,
    },
    /// Steps of the job that run or wait.
    Steps(Vec<StepInfo>),
    /// What was asked for is done.
    Done,
}

/// Which of a task's outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output (and the terminal's output).
    Output,
    /// Standard error.
    Error,
}

/// How a task ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskEnd {
    /// Exit code; 0 when a signal ended it; 127 when it never ran.
    pub exit_code: i32,
    /// Signal that ended it; 0 without.
    pub signal: i32,
    /// Why it never ran: in one line.
    #[serde(default)]
    pub failure: Option<String>,
}

/// How a step ended on one node: sent when nothing of it is left there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeEnd {
    /// Why, what it used; exit code and signal are the worst task's.
    pub end: End,
    /// What could not be killed or cleaned up.
    #[serde(default)]
    pub drain: Option<String>,
    /// Processes that the kernel killed because there was no memory left.
    #[serde(default)]
    pub starved: u64,
}

/// From the tasks to the command.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Up {
    /// Output of a task. Never reordered within a task and stream; all of it comes before
    /// the [`Up::NodeEnded`] of its node.
    Output {
        /// Number of the task that wrote it.
        rank: u32,
        /// Which output.
        stream: Stream,
        /// What was written, as it came.
        bytes: Vec<u8>,
    },
    /// All tasks of a node were forked.
    Started {
        /// Number of the node in the step.
        node: u32,
        /// Process number of each rank there.
        tasks: Vec<(u32, i32)>,
    },
    /// A task has ended.
    TaskEnded {
        /// Number of the task within the step.
        rank: u32,
        /// Exit code or signal of the task.
        end: TaskEnd,
    },
    /// Nothing of the step is left on a node. The last frame about it.
    NodeEnded {
        /// Number of the node in the step.
        node: u32,
        /// What the step came to on that node.
        end: NodeEnd,
    },
    /// These nodes cannot be reached or refused: nothing more comes from them.
    Lost {
        /// Numbers of the nodes in the step.
        nodes: Vec<u32>,
        /// In one line.
        reason: String,
    },
    /// The step is being ended from outside: by an order to its head or at its limit. Only
    /// steps of Slurm's dialect say so.
    Ending {
        /// What the end is put down to.
        cause: crate::node::KillCause,
    },
    /// So many bytes of input were taken by all tasks that get input, in all.
    StdinTaken {
        /// Bytes since the start.
        bytes: u64,
    },
    /// What the nodes of this part of the tree add to an exchange (see [`Wireup`]).
    Gather {
        /// The how-manieth exchange of the step, from 0.
        round: u32,
        /// Node number and its share.
        parts: Vec<(u32, OsText)>,
    },
    /// A task wants the whole step to end (`MPI_Abort`).
    Abort {
        /// Number of the task that asks for it.
        rank: u32,
        /// With this exit code.
        code: i32,
        /// Why, in one line; may be empty.
        reason: String,
    },
}

/// From the command to the tasks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Down {
    /// Input. At most [`crate::limits::STDIN_WINDOW`] bytes may be under way that were not
    /// taken yet.
    Stdin {
        /// What the command has read, as it came.
        bytes: Vec<u8>,
    },
    /// No more input.
    StdinEnd,
    /// Send a signal to every task (and what it started).
    Signal {
        /// Number as the kernel has it.
        signal: i32,
    },
    /// End the step: SIGTERM, grace, SIGKILL; a second time: SIGKILL at once.
    Kill,
    /// The terminal has another size.
    Window(Window),
    /// The shares of all nodes in an exchange.
    Spread {
        /// Number of the exchange among the tasks.
        round: u32,
        /// Node number and its share, by node.
        parts: Vec<(u32, OsText)>,
    },
    /// The command has gone: end everything at once.
    Gone,
}

/// How a step ended, as it is kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepRecord {
    /// Number of the step within the job.
    pub step: StepId,
    /// Name that the step was given, by default its program's.
    pub name: String,
    /// Its nodes as a host list.
    pub nodes: String,
    /// Number of tasks.
    pub tasks: u32,
    /// Cores it held in all.
    pub cores: u32,
    /// How: CPU time summed over all nodes, memory the largest of one node, exit code and
    /// signal of the worst task.
    pub end: End,
}

/// How a command outside reaches an allocation's first node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Job and attempt.
    pub key: AttemptKey,
    /// The allocation's nodes as a host list, in its order.
    pub nodes: String,
    /// Socket for steps of the first node's daemon, on that host.
    pub socket: Option<String>,
    /// Changes whenever that host is started: with the same one the command is there.
    pub boot_id: String,
}

/// What the controller gives the daemon of a login host, so that commands there reach a
/// job's first node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Passage {
    /// Job and attempt.
    pub key: AttemptKey,
    /// Whose it is.
    pub uid: Uid,
    /// Primary group of the owner.
    pub gid: Gid,
    /// The job's first node.
    pub first: Peer,
    /// The allocation's ticket.
    pub ticket: OsText,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_nodes() {
        let run = |first, count, stride| RankRun {
            first,
            count,
            stride,
        };
        let layout = StepLayout {
            nodes: vec!["a".into(), "b".into()],
            ranks: vec![vec![run(0, 2, 3)], vec![run(1, 2, 1), run(4, 1, 1)]],
            tasks: 5,
            cores_per_task: 1,
        };
        assert_eq!(layout.ranks_of(0), [0, 3]);
        assert_eq!(layout.ranks_of(1), [1, 2, 4]);
        assert_eq!(layout.count_of(1), 3);
        assert!(layout.ranks_of(2).is_empty());
        assert_eq!(layout.nodes_with_tasks(), ["a", "b"]);
        let mut through = layout;
        through.nodes.push("c".into());
        through.ranks.push(Vec::new());
        assert_eq!(through.nodes_with_tasks(), ["a", "b"]);
    }
}
