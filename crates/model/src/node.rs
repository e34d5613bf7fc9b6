//! What the controller orders nodes to do and what nodes report: the words only.
//!
//! Orders may be repeated (a link broke before the answer came): a node does each
//! once, by job and attempt. Reports may be repeated too.

use crate::{
    Amounts, Attempt, End, Gid, JobId, MiB, OsText, Program, Span, Time, Uid, job::OpenMode,
    job::WarnSignal,
};
use serde::{Deserialize, Serialize};

/// One attempt of one job: what a node works on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct AttemptKey {
    /// Job.
    pub job: JobId,
    /// Attempt.
    pub attempt: Attempt,
}

/// An allocation as a node keeps it: whose, how much, until when.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Allocation {
    /// Job and attempt.
    pub key: AttemptKey,
    /// This node.
    pub node: String,
    /// All nodes of the allocation, as a host list, in the order of the job.
    pub nodes: String,
    /// User.
    pub uid: Uid,
    /// Primary group.
    pub gid: Gid,
    /// All groups.
    pub groups: Vec<Gid>,
    /// Login name.
    pub user: String,
    /// Home directory.
    pub home: String,
    /// Login shell.
    pub shell: String,
    /// Memory limit on this node; `None` is not limited.
    pub memory: Option<MiB>,
    /// Cores on this node, by number from 0.
    pub cores: Vec<u32>,
    /// GPUs on this node, by number from 0.
    pub gpus: Vec<u32>,
    /// Tasks on this node.
    pub tasks: u32,
    /// Longest run time.
    pub limit: Span,
    /// Signed by the controller over job, attempt, user, groups, nodes and expiry
    /// (`cosy_proto::ticket`). No node acts without a good one.
    pub ticket: OsText,
}

/// A batch program to start on the first node of an allocation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Launch {
    /// The allocation on this node.
    pub allocation: Allocation,
    /// What to run.
    pub program: Program,
    /// Text of the script.
    pub script: OsText,
    /// Working directory.
    pub workdir: OsText,
    /// Output file, expanded; relative to `workdir`.
    pub stdout: OsText,
    /// Error file, expanded; empty: where output goes.
    pub stderr: OsText,
    /// Input file, expanded; empty: `/dev/null`.
    pub stdin: OsText,
    /// How output files are opened.
    pub open_mode: OpenMode,
    /// Variables, `NAME=value` separated by NUL, complete but for those that only the
    /// node knows.
    pub environment: OsText,
    /// Start from the login environment.
    pub login_environment: bool,
    /// File mode mask.
    pub umask: u32,
    /// Resource limits: name, soft, hard.
    pub rlimits: Vec<(String, u64, u64)>,
    /// Signal before the limit.
    pub warn: Option<WarnSignal>,
    /// Between SIGTERM and SIGKILL.
    pub grace: Span,
}

/// Why a job is to be ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillCause {
    /// A user or administrator wants it.
    Cancelled,
    /// Its time limit passed and the node had not noticed.
    TimeLimit,
    /// It was given up: another attempt runs or the job has ended. No grace.
    Superseded,
    /// It goes back into the queue.
    Requeued,
}

/// What the controller tells a node daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeOrder {
    /// The first answer to a registration: these are yours.
    Welcome {
        /// Name of the cluster.
        cluster: String,
        /// How often to report being alive.
        heartbeat: Span,
        /// Names that are not in the configuration and so get no jobs.
        unknown: Vec<String>,
    },
    /// Get ready for an allocation: prolog, health check. Answer: [`NodeReport::Prepared`].
    Prepare(Box<Allocation>),
    /// Start a batch program; prepares first where that was not ordered before.
    /// Answers: [`NodeReport::Started`], then [`NodeReport::Ended`].
    Launch(Box<Launch>),
    /// End an attempt: SIGTERM, grace, SIGKILL (at once when superseded).
    Kill {
        /// Which.
        key: AttemptKey,
        /// On which node.
        node: String,
        /// Why.
        cause: KillCause,
    },
    /// Send a signal to a running attempt.
    Signal {
        /// Which.
        key: AttemptKey,
        /// On which node.
        node: String,
        /// Signal number.
        signal: i32,
        /// Only to the script itself.
        script_only: bool,
    },
    /// The allocation ends on this node: kill what is left, epilog.
    /// Answer: [`NodeReport::Released`].
    Release {
        /// Which.
        key: AttemptKey,
        /// On which node.
        node: String,
    },
    /// The end that was reported is durable: forget the attempt.
    Forget {
        /// Which.
        key: AttemptKey,
        /// On which node.
        node: String,
    },
    /// An answer to a command whose request was passed on.
    RelayReply {
        /// The connection, as the node numbered it.
        connection: u64,
        /// The frame's body, without its header.
        frame: OsText,
    },
}

/// How far an attempt on a node is, as told at registration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptPhase {
    /// Prepared; no program of its own here.
    Prepared,
    /// The program runs since then.
    Running {
        /// Start.
        since: Time,
    },
    /// The program has ended.
    Ended(End),
}

/// An attempt that a node knows of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InventoryItem {
    /// Which.
    pub key: AttemptKey,
    /// On which node (one daemon can play several).
    pub node: String,
    /// How far it is.
    pub phase: AttemptPhase,
}

/// A node as its daemon describes it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeSelf {
    /// Name.
    pub name: String,
    /// What was found there or configured.
    pub amounts: Amounts,
    /// Features from the node's own configuration.
    pub features: Vec<String>,
    /// Changes whenever the machine is started: what ran before is gone.
    pub boot_id: String,
    /// Cosy version of the daemon.
    pub version: String,
    /// The only user whose jobs it can run; `None` when it can run everyone's.
    pub only_uid: Option<Uid>,
}

/// What a node daemon tells the controller.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeReport {
    /// First on every link.
    Register {
        /// The nodes that this daemon plays.
        nodes: Vec<NodeSelf>,
        /// Every attempt that it knows of.
        inventory: Vec<InventoryItem>,
    },
    /// Still alive.
    Heartbeat,
    /// The allocation is ready, or why not (the node should then be drained).
    Prepared {
        /// Which.
        key: AttemptKey,
        /// On which node.
        node: String,
        /// `None` when all is well.
        failure: Option<PrepareFailure>,
    },
    /// The program runs.
    Started {
        /// Which.
        key: AttemptKey,
        /// On which node.
        node: String,
        /// Since when.
        at: Time,
    },
    /// The program has ended and everything it left was killed.
    Ended {
        /// Which.
        key: AttemptKey,
        /// On which node.
        node: String,
        /// How.
        end: End,
        /// The epilog failed: drain the node with this reason.
        drain: Option<String>,
    },
    /// The allocation is gone from this node.
    Released {
        /// Which.
        key: AttemptKey,
        /// On which node.
        node: String,
        /// The epilog failed: drain the node with this reason.
        drain: Option<String>,
    },
    /// The periodic health check says something new.
    Health {
        /// Node.
        node: String,
        /// `None` when it is well (again), else why not.
        problem: Option<String>,
    },
    /// A command on that host asks something.
    RelayRequest {
        /// The connection, as this node numbers it.
        connection: u64,
        /// Node.
        node: String,
        /// Who, as that host's kernel says.
        uid: Uid,
        /// Group.
        gid: Gid,
        /// The frame's body, without its header.
        frame: OsText,
    },
    /// That command has gone.
    RelayClosed {
        /// The connection.
        connection: u64,
    },
}

/// Why an allocation could not be prepared.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PrepareFailure {
    /// In one line.
    pub reason: String,
    /// The node is at fault (prolog, health check): drain it and run the job elsewhere.
    /// Otherwise the job is at fault (bad ticket, foreign user).
    pub drain: bool,
}
