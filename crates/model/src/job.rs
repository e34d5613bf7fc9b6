//! Jobs: what a user asks for, what becomes of it, and how it ends.

use crate::{JobId, MiB, OsText, Span, Time};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a job runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// A script. Its text travels beside the spec and is kept with the job's record.
    Script {
        /// File name as submitted; the job's name unless one is given.
        name: OsText,
        /// Arguments after the script.
        args: Vec<OsText>,
    },
    /// A command with arguments, executed without any shell.
    Command {
        /// Program, looked up in the job's `PATH`, and arguments.
        argv: Vec<OsText>,
    },
    /// Nothing: an allocation in which its owner starts steps until it is given back.
    Allocation,
}

/// Memory that a job asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryRequest {
    /// The queue's default per core; not limited where the queue has none.
    #[default]
    QueueDefault,
    /// So much on each node.
    PerNode(MiB),
    /// So much for each core that the job gets there.
    PerCore(MiB),
}

/// Resources and places that a job asks for, by name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResourceRequest {
    /// Number of nodes; `None`: as few as the tasks need.
    #[serde(default)]
    pub nodes: Option<u32>,
    /// Most nodes, when `nodes` is only the least (`-N 2-4`): as many are taken as nobody else
    /// can use when the job starts. Without effect where `tasks` are given.
    #[serde(default)]
    pub max_nodes: Option<u32>,
    /// Number of tasks; `None`: one per node, or `tasks_per_node` on each.
    #[serde(default)]
    pub tasks: Option<u32>,
    /// Most tasks on one node.
    #[serde(default)]
    pub tasks_per_node: Option<u32>,
    /// Cores of each task.
    pub cores_per_task: u32,
    /// Memory of each node, core or GPU.
    #[serde(default)]
    pub memory: MemoryRequest,
    /// Scratch disk on each node.
    #[serde(default)]
    pub disk_per_node: MiB,
    /// GPUs on each node.
    #[serde(default)]
    pub gpus_per_node: u32,
    /// GPUs of the whole job, where these are fewer than `gpus_per_node` on all its nodes
    /// (`--gpus=7` on two nodes): the last ones have fewer, but at least one. Without effect
    /// on whole nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_in_all: Option<u32>,
    /// Of which types they are, with numbers that make `gpus_per_node` together; of any
    /// one type when empty.
    #[serde(default, skip_serializing_if = "crate::Counted::is_empty")]
    pub gpu_types: crate::Counted,
    /// Other countable resources on each node.
    #[serde(default)]
    pub other_per_node: crate::Counted,
    /// Whole nodes, shared with nobody.
    #[serde(default)]
    pub exclusive: bool,
    /// Sharing its cores with others was offered; recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oversubscribe: bool,
    /// Nodes side by side were asked for; recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub contiguous: bool,
    /// Each node is given cores and memory for one task, however many tasks it gets; without
    /// effect on whole nodes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overcommit: bool,
    /// Features that every node must have.
    #[serde(default)]
    pub features: Vec<String>,
    /// Beside `features`, every node must have all of one of these groups; with none, nothing
    /// more is asked.
    #[serde(default)]
    pub any_features: Vec<Vec<String>>,
    /// All nodes must have all of the same one of these groups (`[rack1|rack2]`).
    #[serde(default)]
    pub same_features: Vec<Vec<String>>,
    /// So many nodes of each kind; a node counts for one of them (`[a*2&b*1]`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counted_features: Vec<CountedFeatures>,
    /// Nodes that have all of one of these groups are taken first, after those named (soft).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefer_features: Vec<Vec<String>>,
    /// Nodes that the job must get (hard).
    #[serde(default)]
    pub require: Vec<String>,
    /// Nodes that the job must not get (hard; COSY: disallowed nodes).
    #[serde(default)]
    pub avoid: Vec<String>,
    /// Nodes to take first (soft).
    #[serde(default)]
    pub prefer: Vec<String>,
    /// Node sets to take nodes from, in this order (soft).
    #[serde(default)]
    pub sets: Vec<String>,
}

impl Default for ResourceRequest {
    fn default() -> Self {
        Self {
            nodes: None,
            max_nodes: None,
            tasks: None,
            tasks_per_node: None,
            cores_per_task: 1,
            memory: MemoryRequest::QueueDefault,
            disk_per_node: MiB(0),
            gpus_per_node: 0,
            gpus_in_all: None,
            gpu_types: crate::Counted::default(),
            other_per_node: crate::Counted::default(),
            exclusive: false,
            oversubscribe: false,
            contiguous: false,
            overcommit: false,
            features: Vec::new(),
            any_features: Vec::new(),
            same_features: Vec::new(),
            counted_features: Vec::new(),
            prefer_features: Vec::new(),
            require: Vec::new(),
            avoid: Vec::new(),
            prefer: Vec::new(),
            sets: Vec::new(),
        }
    }
}

impl ResourceRequest {
    /// Number of tasks: as asked for, else as many as the nodes that are asked for have.
    pub fn task_count(&self) -> u32 {
        let each = self.tasks_per_node.unwrap_or(1);
        let nodes = self.nodes.or(self.counted_nodes());
        let by_nodes = nodes.map(|nodes| nodes.saturating_mul(each));
        self.tasks.or(by_nodes).or(self.tasks_per_node).unwrap_or(1)
    }

    /// All nodes whose features are asked for by number.
    pub fn counted_nodes(&self) -> Option<u32> {
        let counts = self.counted_features.iter().map(|counted| counted.nodes);
        let sum = counts.fold(0, u32::saturating_add);
        (sum > 0).then_some(sum)
    }
}

/// A number of nodes that have certain features.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CountedFeatures {
    /// All features of one of these groups.
    pub any: Vec<Vec<String>>,
    /// Number of nodes.
    pub nodes: u32,
}

/// A further part of a job whose parts differ in what they ask for (a heterogeneous job). Each
/// part has nodes of its own; all start at one instant and end together. The first part is
/// the job's own request, and its first node runs the script.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Bundle {
    /// What it is called in lists; as the job without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The queue whose nodes it uses; the default queue without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Resources and places.
    pub request: ResourceRequest,
}

/// Which end of another job a job waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DependencyKind {
    /// It has started (or was cancelled before).
    After,
    /// It has ended, however.
    AfterAny,
    /// It has ended with exit code 0.
    AfterOk,
    /// It has ended otherwise.
    AfterNotOk,
    /// No earlier job of the same user and name is left.
    Singleton,
    /// Of an array: its task of the same index has ended with exit code 0.
    AfterCorr,
}

/// One condition that must hold before a job may start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Dependency {
    /// What must have happened.
    pub kind: DependencyKind,
    /// To which job or, for the first id of an array, to all of its tasks. Not used by
    /// [`DependencyKind::Singleton`].
    pub job: JobId,
    /// Only this task of the array.
    #[serde(default)]
    pub task: Option<u32>,
    /// [`DependencyKind::After`]: so long after its start.
    #[serde(default)]
    pub delay: Span,
}

/// In which words a job is spoken to: variables, messages in its output, default names of
/// its files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Cosy's own.
    #[default]
    Cosy,
    /// Slurm's words, for jobs submitted by its commands.
    Slurm,
}

impl Dialect {
    /// One word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cosy => "cosy",
            Self::Slurm => "slurm",
        }
    }
}

/// Indices of an array's tasks and how many may run at once.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ArraySpec {
    /// Indices, ascending, as inclusive ranges with a step: `(first, last, step)`.
    pub ranges: Vec<(u32, u32, u32)>,
    /// Most tasks at once.
    pub at_once: Option<u32>,
}

impl ArraySpec {
    /// Number of tasks, before doubles are taken out.
    pub fn count(&self) -> u64 {
        self.ranges
            .iter()
            .map(|&(a, b, s)| u64::from(b.saturating_sub(a) / s.max(1)) + 1)
            .sum()
    }

    /// All indices, ascending, each once. Call only after [`ArraySpec::count`] was
    /// found to be within the limit.
    pub fn indices(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self
            .ranges
            .iter()
            .flat_map(|&(a, b, s)| (a..=b).step_by(s.max(1) as usize))
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Why a text is no array.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// Not of the form.
    #[error(
        "'{0}' is no array: use indices and ranges like 1-100, 0-31:4 or 1,5,7, then %N for N tasks at once"
    )]
    Syntax(String),
    /// An index beyond [`crate::limits::ARRAY_INDEX`].
    #[error("array index {0} is larger than {max}", max = crate::limits::ARRAY_INDEX)]
    Index(u64),
    /// More tasks than [`crate::limits::ARRAY_INDEX`].
    #[error("array of {0} tasks is larger than {max}", max = crate::limits::ARRAY_INDEX)]
    Count(u64),
}

impl std::str::FromStr for ArraySpec {
    type Err = ArrayError;

    /// Reads `1-100%5`, `0-31:4`, `1,5,7-9`.
    fn from_str(text: &str) -> Result<Self, ArrayError> {
        let bad = || ArrayError::Syntax(text.chars().take(60).collect());
        let number = |t: &str| -> Result<u32, ArrayError> {
            if t.is_empty() || t.len() > 18 || !t.bytes().all(|b| b.is_ascii_digit()) {
                return Err(bad());
            }
            let n: u64 = t.parse().map_err(|_| bad())?;
            u32::try_from(n)
                .ok()
                .filter(|n| *n <= crate::limits::ARRAY_INDEX)
                .ok_or(ArrayError::Index(n))
        };
        let (list, at_once) = match text.split_once('%') {
            Some((list, n)) => (list, Some(number(n)?)),
            None => (text, None),
        };
        let mut ranges = Vec::new();
        for part in list.split(',') {
            if ranges.len() >= crate::limits::HOST_LIST_NAMES {
                return Err(bad());
            }
            let (range, step) = match part.split_once(':') {
                Some((range, step)) => (range, number(step)?),
                None => (part, 1),
            };
            let (first, last) = match range.split_once('-') {
                Some((a, b)) => (number(a)?, number(b)?),
                None => (number(range)?, number(range)?),
            };
            if last < first || step == 0 {
                return Err(bad());
            }
            ranges.push((first, last, step));
        }
        let spec = Self {
            ranges,
            at_once: at_once.filter(|n| *n > 0),
        };
        if spec.count() > u64::from(crate::limits::ARRAY_INDEX) {
            return Err(ArrayError::Count(spec.count()));
        }
        Ok(spec)
    }
}

/// A signal to send some time before the time limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WarnSignal {
    /// Signal number.
    pub signal: i32,
    /// How long before the limit.
    pub before: Span,
    /// Only to the script itself, not to what it started.
    #[serde(default)]
    pub script_only: bool,
}

/// How output files are opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenMode {
    /// Emptied first; a requeued attempt appends.
    #[default]
    Truncate,
    /// Added to.
    Append,
}

/// Which changes of a job the user wants mail about.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MailRequest {
    /// At start.
    pub begin: bool,
    /// At any end.
    pub end: bool,
    /// At an end that is not success.
    pub fail: bool,
    /// When it is requeued.
    pub requeue: bool,
    /// When so many hundredths of its time limit are over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limit_shares: Vec<u8>,
    /// To whom; the submitting user when empty.
    #[serde(default)]
    pub to: String,
}

/// A job as its user asked for it. Does not change when the job runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobSpec {
    /// Name for lists and mail.
    pub name: String,
    /// Queue; the default queue without.
    #[serde(default)]
    pub queue: Option<String>,
    /// Queues that it may go to while it waits, the present one among them; it stays where it
    /// is without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// Account to charge; recorded.
    #[serde(default)]
    pub account: Option<String>,
    /// Runs inside this reservation.
    #[serde(default)]
    pub reservation: Option<crate::ReservationId>,
    /// Any text.
    #[serde(default)]
    pub comment: String,
    /// Any text of an administrator's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub admin_comment: String,
    /// What to run.
    pub program: Program,
    /// Resources and places.
    pub request: ResourceRequest,
    /// Further parts with nodes of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bundles: Vec<Bundle>,
    /// Longest run time; the queue's default without.
    #[serde(default)]
    pub time_limit: Option<Span>,
    /// Not before this time.
    #[serde(default)]
    pub begin: Option<Time>,
    /// Wait until released.
    #[serde(default)]
    pub hold: bool,
    /// Higher lets others go first, within queue and level.
    #[serde(default)]
    pub nice: i64,
    /// All must hold before the start.
    #[serde(default)]
    pub dependencies: Vec<Dependency>,
    /// Run again after a node was lost.
    #[serde(default)]
    pub requeue: bool,
    /// Working directory.
    pub workdir: OsText,
    /// Pattern of the output file; the default pattern without.
    #[serde(default)]
    pub stdout: Option<OsText>,
    /// Pattern of the error file; to the output file without.
    #[serde(default)]
    pub stderr: Option<OsText>,
    /// Pattern of the input file; `/dev/null` without.
    #[serde(default)]
    pub stdin: Option<OsText>,
    /// How output files are opened.
    #[serde(default)]
    pub open_mode: OpenMode,
    /// Variables, `NAME=value` separated by NUL.
    pub environment: OsText,
    /// Start from the user's login environment, `environment` on top of it.
    #[serde(default)]
    pub login_environment: bool,
    /// File mode mask.
    pub umask: u32,
    /// Resource limits of the submitting process: name as in `ulimit` of the kernel
    /// (`NOFILE`), soft, hard; `u64::MAX` is unlimited.
    #[serde(default)]
    pub rlimits: Vec<(String, u64, u64)>,
    /// Signal before the time limit.
    #[serde(default)]
    pub warn: Option<WarnSignal>,
    /// The command that asked for it stays with it (`calloc`, `cosy run`): when that is
    /// gone, the job ends. COSY, section 3.1: interactive.
    #[serde(default)]
    pub attended: bool,
    /// MPI plugin; found out without.
    #[serde(default)]
    pub mpi: Option<String>,
    /// Events that mail is sent about, and to whom.
    #[serde(default)]
    pub mail: MailRequest,
    /// In which words it is spoken to.
    #[serde(default)]
    pub dialect: Dialect,
    /// Quality of service; recorded.
    #[serde(default)]
    pub qos: Option<String>,
    /// Key under which it is counted; recorded.
    #[serde(default)]
    pub wckey: Option<String>,
    /// Host that it was submitted from; recorded.
    #[serde(default)]
    pub submit_host: Option<String>,
    /// Session that it was submitted in; recorded.
    #[serde(default)]
    pub submit_session: Option<u32>,
    /// Command line that it was submitted with, words with blanks between; recorded.
    #[serde(default)]
    pub submit_line: String,
    /// Licences that it holds while it runs, counted over the whole cluster.
    #[serde(default)]
    pub licenses: crate::Counted,
    /// It is ended when it cannot be over by then.
    #[serde(default)]
    pub deadline: Option<Time>,
    /// Shortest useful time limit; recorded.
    #[serde(default)]
    pub time_min: Option<Span>,
    /// One of `dependencies` is enough.
    #[serde(default)]
    pub any_dependency: bool,
    /// Whether it is ended when what it waits for can no longer happen; as the cluster is
    /// configured without.
    #[serde(default)]
    pub end_if_never: Option<bool>,
    /// Given by an administrator in the place of [`JobField::Priority`](crate::api::JobField)'s
    /// own number; higher goes first, within queue and level.
    #[serde(default)]
    pub priority: Option<u32>,
}

impl JobSpec {
    /// A job that asks for nothing beyond what is necessary, with one task.
    pub fn plain(name: impl Into<String>, program: Program, workdir: OsText) -> Self {
        Self {
            name: name.into(),
            queue: None,
            queues: Vec::new(),
            account: None,
            reservation: None,
            comment: String::new(),
            admin_comment: String::new(),
            program,
            request: ResourceRequest::default(),
            bundles: Vec::new(),
            time_limit: None,
            begin: None,
            hold: false,
            nice: 0,
            dependencies: Vec::new(),
            requeue: false,
            workdir,
            stdout: None,
            stderr: None,
            stdin: None,
            open_mode: OpenMode::default(),
            environment: OsText::default(),
            login_environment: false,
            umask: 0o22,
            rlimits: Vec::new(),
            warn: None,
            attended: false,
            mpi: None,
            mail: MailRequest::default(),
            dialect: Dialect::default(),
            qos: None,
            wckey: None,
            submit_host: None,
            submit_session: None,
            submit_line: String::new(),
            licenses: crate::Counted::default(),
            deadline: None,
            time_min: None,
            any_dependency: false,
            end_if_never: None,
            priority: None,
        }
    }
}

/// Whether a name can be that of an MPI plugin, which is the name of a directory.
///
/// # Errors
/// Why not.
pub fn check_plugin(name: &str) -> Result<(), String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    let good = name.len() <= crate::limits::NAME_BYTES
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(fine);
    if good {
        return Ok(());
    }
    let short: String = name.chars().take(60).collect();
    Err(format!(
        "'{short}' is no MPI plugin: a name has letters, digits, '-', '_', '.' and '+', and starts with a letter or digit"
    ))
}

/// What has become of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// In the queue.
    Waiting,
    /// Has nodes; they are being prepared.
    Starting,
    /// Its nodes are ready, and it runs.
    Running,
    /// Stopped for a while, keeps its nodes.
    Suspended,
    /// Its program has ended; nodes are being cleaned.
    Completing,
    /// Ended with exit code 0.
    Completed,
    /// Ended with another exit code or a signal.
    Failed,
    /// Ended by its user or an administrator.
    Cancelled,
    /// Ended at its time limit.
    TimedOut,
    /// Ended because it used more memory than it had.
    OutOfMemory,
    /// A node was lost under it.
    NodeFailed,
    /// Ended because something more important needed its nodes.
    Preempted,
    /// Could not be started.
    LaunchFailed,
    /// Could not be over at its deadline.
    Deadline,
}

impl JobState {
    /// All states.
    pub const ALL: [Self; 14] = [
        Self::Waiting,
        Self::Starting,
        Self::Running,
        Self::Suspended,
        Self::Completing,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::TimedOut,
        Self::OutOfMemory,
        Self::NodeFailed,
        Self::Preempted,
        Self::LaunchFailed,
        Self::Deadline,
    ];

    /// True when nothing more happens to the job.
    pub const fn is_end(self) -> bool {
        match self {
            Self::Waiting | Self::Starting | Self::Running | Self::Suspended | Self::Completing => {
                false
            }
            Self::Completed
            | Self::Failed
            | Self::Cancelled
            | Self::TimedOut
            | Self::OutOfMemory
            | Self::NodeFailed
            | Self::Preempted
            | Self::LaunchFailed
            | Self::Deadline => true,
        }
    }

    /// One word, as users see and type it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Suspended => "suspended",
            Self::Completing => "completing",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::OutOfMemory => "out_of_memory",
            Self::NodeFailed => "node_failed",
            Self::Preempted => "preempted",
            Self::LaunchFailed => "launch_failed",
            Self::Deadline => "deadline",
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl std::str::FromStr for JobState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|s| s.word().eq_ignore_ascii_case(text))
            .ok_or_else(|| {
                let words: Vec<_> = Self::ALL.iter().map(|s| s.word()).collect();
                format!("'{text}' is no job state: use {}", words.join(", "))
            })
    }
}

/// Why a job's program ended, as its node reports it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// By itself.
    Exited,
    /// The time limit.
    TimeLimit,
    /// A user or administrator.
    Cancelled,
    /// The kernel ended it because it used more memory than it had.
    OutOfMemory,
    /// It never ran: the reason.
    LaunchFailed(String),
    /// Its supervisor on the node was killed; it was cleaned up.
    SupervisorLost,
    /// The node was restarted under it or was given up.
    NodeLost,
    /// It could not be over at its deadline.
    Deadline,
}

/// How an attempt ended and what it used.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct End {
    /// What the end is put down to.
    pub cause: EndCause,
    /// Exit code of the program; 0 when a signal ended it.
    pub exit_code: i32,
    /// Signal that ended the program; 0 without.
    pub signal: i32,
    /// When its program started; `None` when it never did.
    pub start: Option<Time>,
    /// When it ended.
    pub end: Time,
    /// User CPU time, in microseconds.
    pub user_cpu_us: u64,
    /// System CPU time, in microseconds.
    pub system_cpu_us: u64,
    /// Peak memory in bytes (control group where there is one, else the largest process).
    pub peak_memory_bytes: u64,
}

impl End {
    /// The end of an attempt that never ran.
    pub fn never_ran(cause: EndCause, at: Time) -> Self {
        Self {
            cause,
            exit_code: 0,
            signal: 0,
            start: None,
            end: at,
            user_cpu_us: 0,
            system_cpu_us: 0,
            peak_memory_bytes: 0,
        }
    }

    /// The state that this end leads to.
    pub fn state(&self) -> JobState {
        match self.cause {
            EndCause::Exited if self.exit_code == 0 && self.signal == 0 => JobState::Completed,
            EndCause::Exited => JobState::Failed,
            EndCause::TimeLimit => JobState::TimedOut,
            EndCause::Cancelled => JobState::Cancelled,
            EndCause::OutOfMemory => JobState::OutOfMemory,
            EndCause::LaunchFailed(_) => JobState::LaunchFailed,
            EndCause::SupervisorLost => JobState::Failed,
            EndCause::NodeLost => JobState::NodeFailed,
            EndCause::Deadline => JobState::Deadline,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays() {
        let check = |text: &str, want: Option<(&[u32], Option<u32>)>| {
            let got = text.parse::<ArraySpec>().ok();
            let got = got.map(|a| (a.indices(), a.at_once));
            assert_eq!(got, want.map(|(i, n)| (i.to_vec(), n)), "{text}");
        };
        check("1-3", Some((&[1, 2, 3], None)));
        check("0-8:4%2", Some((&[0, 4, 8], Some(2))));
        check("7,1-2,2", Some((&[1, 2, 7], None)));
        check("3%0", Some((&[3], None)));
        check("", None);
        check("5-1", None);
        check("1-5:0", None);
        check("1-5:", None);
        check("foo", None);
        check("1-99999999999", None);
        assert!("0-4000000,0-4000000".parse::<ArraySpec>().is_err());
    }

    #[test]
    fn plugins() {
        let check = |name: &str, good: bool| {
            assert_eq!(check_plugin(name).is_ok(), good, "{name}");
        };
        check("openmpi", true);
        check("mpich-4.0", true);
        check("", false);
        check(".", false);
        check("../x", false);
        check("a/b", false);
        check("a b", false);
        check("a\nb", false);
    }

    #[test]
    fn ends() {
        let mut end = End::never_ran(EndCause::Exited, Time(0));
        assert_eq!(end.state(), JobState::Completed);
        end.exit_code = 3;
        assert_eq!(end.state(), JobState::Failed);
        end.cause = EndCause::TimeLimit;
        assert_eq!(end.state(), JobState::TimedOut);
    }
}
