//! Triggers: a program of a user that runs when something happens to a job or to nodes.
//!
//! Source: strigger(1).

use crate::{JobId, OsText, Span, TriggerId, Uid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The kind of event that a trigger waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerEvent {
    /// A node does not answer any more, or was set down.
    Down,
    /// A node that was down is back.
    Up,
    /// A node takes no jobs and has none left. For the nodes of a job: it takes no others.
    Drained,
    /// A node's own health check says that something is wrong with it.
    Fail,
    /// A node has had nothing to do for the trigger's offset.
    Idle,
    /// The configuration was read anew, or an administrator has changed nodes.
    Reconfigured,
    /// The job's time limit is reached, or it ended before.
    TimeLimit,
    /// The job has ended.
    Ended,
}

impl TriggerEvent {
    /// True for what can happen to a job or its nodes.
    pub const fn is_of_jobs(self) -> bool {
        match self {
            Self::Down | Self::Up | Self::Drained | Self::Fail => true,
            Self::TimeLimit | Self::Ended => true,
            Self::Idle | Self::Reconfigured => false,
        }
    }

    /// True for what can happen to nodes or to the cluster.
    pub const fn is_of_nodes(self) -> bool {
        match self {
            Self::Down | Self::Up | Self::Drained | Self::Fail => true,
            Self::Idle | Self::Reconfigured => true,
            Self::TimeLimit | Self::Ended => false,
        }
    }
}

/// The job or the nodes that a trigger watches.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerTarget {
    /// A job, and the nodes that it runs on.
    Job(JobId),
    /// These nodes; none named: all of them.
    Nodes(Vec<String>),
}

/// A trigger as it was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TriggerSpec {
    /// The job or the nodes that are watched.
    pub on: TriggerTarget,
    /// What is waited for: any of these.
    pub events: BTreeSet<TriggerEvent>,
    /// The program runs so long after the event. Below zero: before it, where that can be
    /// foreseen, which is at a time limit.
    pub offset: Span,
    /// Path of the program, and arguments between blanks. What happened is its last
    /// argument: the job's number, the nodes as a host list, or `reconfig`.
    pub program: OsText,
    /// True for a trigger that stays after the event.
    pub permanent: bool,
    /// Variables for the program, `NAME=value` separated by NUL.
    #[serde(default)]
    pub environment: OsText,
}

/// A trigger as commands show it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TriggerInfo {
    /// Number that it is removed by.
    pub id: TriggerId,
    /// User who has set it, and as whom the program runs.
    pub uid: Uid,
    /// Login name of that user.
    pub user: String,
    /// The trigger as it was asked for.
    pub spec: TriggerSpec,
}
