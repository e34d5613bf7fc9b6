//! Steps on this node: what daemon and supervisor agree on, and where it is kept.
//!
//! ```text
//! SPOOL/NODE/JOB.ATTEMPT/steps      records of steps that have ended, for the controller
//! SPOOL/NODE/JOB.ATTEMPT/next       number of the next step (first node only)
//! SPOOL/NODE/JOB.ATTEMPT/s.STEP/    one step on this node
//!     launch      phase, start time, then the [`StepTask`] as MessagePack (0600); locked
//!                 by its supervisor, as an attempt's is
//!     outcome     a [`StepOutcome`], written before anyone is told
//!     io          Unix socket of the supervisor: further hops connect there
//!     limit       the limit that it was given since it began, in milliseconds
//! ```
//!
//! The daemon gives the supervisor one descriptor at its start: its way up. That is the
//! connection of the command itself where it is on this host ([`UpKind::Command`]), so
//! that the daemon is not between them; else one end of a pair whose other end the daemon
//! carries to the next node up ([`UpKind::Hop`]). To every child in the tree the daemon
//! connects twice: to the `io` socket here and to the other node's daemon; then it only
//! carries bytes. When it is killed, its successor connects the same two ends again.

use crate::cgroup::Group;
use cosy_model::job::WarnSignal;
use cosy_model::node::Allocation;
use cosy_model::step::{NodeEnd, StepId, StepOrder, StepRecord, TaskEnd};
use cosy_model::{OsText, Span};
use serde::{Deserialize, Serialize};

mod adopt;
pub mod check;
mod command_requests;
mod connections;
pub mod device_share;
mod devices;
mod end;
#[cfg(test)]
pub(crate) mod fixture;
pub mod layout;
pub mod ledger;
mod login_end;
mod login_environment;
mod login_list;
mod logins;
mod others;
mod peer_requests;
mod pending;
pub mod ports;
mod reach;
mod reached;
pub mod records;
mod sampling;
pub mod serve;
pub mod spool;
mod start;
pub mod table;
mod time_limit;
pub mod tree;
mod unreported;
pub mod usage;

/// Name of a step's directory in its attempt's.
pub fn directory_name(step: StepId) -> String {
    format!("s.{step}")
}

/// Reads the name of a step's directory.
pub fn step_of(name: &str) -> Option<StepId> {
    let step = StepId(name.strip_prefix("s.")?.parse().ok()?);
    (directory_name(step) == name).then_some(step)
}

/// What a supervisor's way up is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpKind {
    /// The command's own connection: its end means that the command has gone.
    Command,
    /// Carried by daemons: its end means that a daemon was restarted or a link broke; it
    /// comes again on the `io` socket, or the step ends.
    Hop,
}

/// First frame (MessagePack, [`cosy_proto::frame`]) of the daemon on an `io` socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoPurpose {
    /// The way to this child, by its place in [`StepTask::children`].
    Child(u32),
    /// The way up, anew.
    Up,
    /// A further command that only looks on.
    Watch,
}

/// Cores, GPUs and memory of a step on this node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StepShare {
    /// Cores by number from 0, as in [`Allocation::cores`].
    pub cores: Vec<u32>,
    /// The processor behind each of them; empty where numbers of cores mean nothing.
    pub processors: Vec<u32>,
    /// GPUs by number, as in [`Allocation::gpus`].
    pub gpus: Vec<u32>,
}

/// What a task has of its own, beside what its step has.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TaskExtras {
    /// Control groups: made with the step's, joined by this task after the step's.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// Variables that count more than the step's, `NAME=value`.
    #[serde(default)]
    pub variables: Vec<OsText>,
}

/// What the supervisor of a step on this node needs to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepTask {
    /// The step; this node is `order.tree[0]`.
    pub order: StepOrder,
    /// The allocation here: user, groups, home, shell.
    pub allocation: Allocation,
    /// What it may use here.
    pub share: StepShare,
    /// Control groups of the step here, in the order in which they are made.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// Control groups that the supervisor makes and joins itself before that.
    #[serde(default)]
    pub keep: Vec<Group>,
    /// Variables that the node sets, `NAME=value`.
    #[serde(default)]
    pub variables: Vec<OsText>,
    /// For each task here in the order of ranks: what it has of its own (its GPUs). Empty:
    /// every task has what the step has.
    #[serde(default)]
    pub own: Vec<TaskExtras>,
    /// Numbers of the nodes below each child, the child's own first.
    #[serde(default)]
    pub children: Vec<Vec<u32>>,
    /// The way up.
    pub up: UpKind,
    /// Longest run time from now on.
    pub limit: Span,
    /// Signal before the limit.
    #[serde(default)]
    pub warn: Option<WarnSignal>,
    /// The daemon is protected from the out-of-memory killer; its jobs are not.
    #[serde(default)]
    pub reset_oom_score: bool,
}

/// How a step ended on this node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepOutcome {
    /// How its tasks on this node ended together.
    pub end: NodeEnd,
    /// Ends of its tasks on this node, by rank.
    pub tasks: Vec<(u32, TaskEnd)>,
    /// On the head of the tree: the whole step.
    pub whole: Option<StepRecord>,
}
