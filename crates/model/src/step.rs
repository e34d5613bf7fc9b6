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
//! Up this tree go [`UpFrame`] frames (output, ends of tasks), down go [`DownFrame`] frames (input,
//! signals). The command decides what the ends of tasks mean; the supervisors enforce the
//! time limit, and the end of everything when the command is gone.

mod display;
mod frames;
mod gpu_bind;
mod samples;
mod spec;

pub use display::{DISPLAY_COOKIE_BYTES, DisplayEvent, DisplayFrame, DisplayNodes, DisplayRequest};
pub use frames::{DownFrame, NodeEnd, Stream, TaskEnd, UpFrame};
pub use gpu_bind::GpuBind;
pub use samples::{JobSamples, NodeSummary, Sample, SampledNodes, Stretch};
pub use spec::{
    Bind, Distribution, InputFrom, OutputTo, StepCommand, StepProgram, StepSpec, Window, Wireup,
};

use crate::ids::AttemptKey;
use crate::{DeviceUse, End, Gid, JobId, MiB, OsText, Refusal, Span, Time, Uid};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;

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

/// Ranks `first`, `first + stride`, ... on one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RankRun {
    /// Lowest of the ranks.
    pub first: u32,
    /// How many ranks there are.
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
    /// Name, address and key of the node.
    pub peer: Peer,
    /// Tasks that the job was given there.
    pub tasks: u32,
    /// Cores that the job has on that node.
    pub cores: u32,
    /// Memory there; `None` is not limited.
    pub memory: Option<MiB>,
    /// GPUs that the job has on that node.
    pub gpus: u32,
}

/// What one node daemon orders another: start this step in your part of the tree.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepOrder {
    /// The attempt, and the step in it.
    pub key: StepKey,
    /// The step as its command has asked for it.
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
        /// The job in which the step is to run.
        job: JobId,
        /// The step as it is asked for.
        spec: Box<StepSpec>,
    },
    /// The same, for a step with a [`StepSpec::display`]: a word of its own, so that a node daemon
    /// that forwards none says so instead of starting it without.
    StartWithDisplay {
        /// The job in which the step is to run.
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
        /// The job whose steps are listed.
        job: JobId,
    },
    /// What script and steps have used so far on this node. Answer: [`StepAnswer::Usage`].
    Usage {
        /// The job whose use is told.
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
    /// On which ports programs of the job listen on its first node. Answer: [`StepAnswer::Ports`].
    Ports {
        /// The job whose ports are told.
        job: JobId,
    },
    /// Reach one of them. Answer: [`StepAnswer::Done`], and from there on what is sent and received.
    Connect {
        /// Job of the program that listens.
        job: JobId,
        /// Its port, on the first node's own address.
        port: u16,
    },
    /// What script and steps used over time. Answer: [`StepAnswer::Samples`].
    Samples {
        /// The job that is measured.
        job: JobId,
        /// On which of its nodes. Daemons of earlier releases tell of the first one, whatever this is:
        /// the answer names the node.
        #[serde(default, skip_serializing_if = "SampledNodes::is_first")]
        of: SampledNodes,
    },
    /// Whether a program of the job, on whichever of its nodes, is connected like that. Answer:
    /// [`StepAnswer::Holds`].
    Holds {
        /// The job whose programs are looked at.
        job: JobId,
        /// The connection, the program's end first.
        connection: TcpPair,
    },
    /// A part of a regular file, read as the user of a pass. Answer: [`StepAnswer::Piece`].
    Read {
        /// The job whose first node reads it.
        job: JobId,
        /// The job is over: the node that is asked reads it.
        #[serde(default)]
        here: bool,
        /// The file, an absolute path.
        path: OsText,
        /// From which byte on; without, the last ones.
        #[serde(default)]
        from: Option<u64>,
    },
    /// The same for the user that a pass of the controller names, whoever asks.
    For {
        /// Signed by the controller (`cosy_proto::pass`).
        pass: OsText,
        /// What is asked; no other of these.
        ask: Box<Self>,
    },
}

impl StepAsk {
    /// The job that it is about.
    pub const fn job(&self) -> JobId {
        match self {
            Self::Start { job, .. }
            | Self::StartWithDisplay { job, .. }
            | Self::Attach { job, .. }
            | Self::List { job }
            | Self::Usage { job }
            | Self::Samples { job, .. }
            | Self::Signal { job, .. }
            | Self::Ports { job }
            | Self::Connect { job, .. }
            | Self::Holds { job, .. }
            | Self::Read { job, .. }
            | Self::Limit { job, .. } => *job,
            Self::For { ask, .. } => ask.job(),
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
    /// Time limit of the step alone.
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
    /// Processor time in the kernel, in microseconds.
    pub system_cpu_us: u64,
    /// Memory in bytes: the most that is known of.
    pub memory_bytes: u64,
    /// Bytes read from disks, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes written to disks, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
}

/// What the parts of a job have used so far on one node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct JobUse {
    /// The script, where it runs there.
    pub script: Option<LiveUse>,
    /// Figures of each step that runs.
    #[serde(default)]
    pub steps: Vec<(StepId, LiveUse)>,
    /// Energy and GPUs of all of it together.
    #[serde(default, skip_serializing_if = "DeviceUse::is_empty")]
    pub devices: DeviceUse,
}

/// A port on which a program of a job listens.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct JobPort {
    /// Its number.
    pub port: u16,
    /// Name of the program, as the kernel has it.
    pub program: String,
}

/// A connection, as both ends see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TcpPair {
    /// Who has connected.
    pub from: SocketAddr,
    /// Who has listened.
    pub to: SocketAddr,
}

/// A part of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FilePiece {
    /// From which byte on; 0 where the file is shorter than what was asked for.
    pub from: u64,
    /// Bytes of the whole file.
    pub size: u64,
    /// At most [`crate::limits::FILE_PIECE`] of them.
    pub bytes: OsText,
}

impl FilePiece {
    /// Where a part of a file of that size begins: with the last bytes where none is asked for, and at
    /// the beginning of a file that has become shorter than that.
    pub const fn begin(size: u64, from: Option<u64>) -> u64 {
        match from {
            None => size.saturating_sub(crate::limits::FILE_PIECE),
            Some(from) if from > size => 0,
            Some(from) => from,
        }
    }
}

/// The answer of a node daemon to a [`StepAsk`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepAnswer {
    /// What script and steps have used so far.
    Usage(JobUse),
    /// No, and why; nothing was started.
    Refused(Refusal),
    /// It waits for what other steps of the job hold.
    Waits {
        /// Why it waits, in one line.
        reason: String,
    },
    /// It is being started: frames follow on this connection.
    Created {
        /// Job, attempt and number of the step.
        key: StepKey,
        /// Which tasks of the step run on which nodes.
        layout: StepLayout,
        /// Its longest run time, from its start; `Span::UNLIMITED` without.
        limit: Span,
    },
    /// Steps of the job that run or wait.
    Steps(Vec<StepInfo>),
    /// What was asked for is done.
    Done,
    /// Ports on which programs of the job listen.
    Ports(Vec<JobPort>),
    /// A part of a file.
    Piece(FilePiece),
    /// What script and steps used over time.
    Samples(JobSamples),
    /// Whether a program of the job is connected like that.
    Holds(bool),
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

/// What a pass of the controller says, by which whoever shows it to a node daemon asks for a user
/// ([`StepAsk::For`]).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PassClaims {
    /// The user that is asked for.
    pub uid: Uid,
    /// Primary group of the user.
    pub gid: Gid,
    /// All groups of the user.
    pub groups: Vec<Gid>,
    /// The job that may be asked about; without, files may be read.
    pub job: Option<JobId>,
    /// Nobody acts on it afterwards.
    pub expiry: Time,
}

/// How a command outside reaches an allocation's first node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AllocationEndpoint {
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
pub struct AllocationRoute {
    /// Job and attempt.
    pub key: AttemptKey,
    /// Owner of the allocation.
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
