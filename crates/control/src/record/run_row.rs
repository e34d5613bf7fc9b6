//! An attempt of a job, as it is written.

use super::part::PartRow;
use super::preempted::{PreemptedRow, PromisedRow};
use cosy_model::{DeviceUse, End, Span, Time};
use serde::{Deserialize, Serialize};

/// What follows an attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterRun {
    /// The job has ended like this.
    End(End),
    /// It waits again.
    Requeue,
}

/// The attempt that a job is at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunRow {
    /// When nodes were given.
    pub allocated: Time,
    /// When the program started.
    pub started: Option<Time>,
    /// Its time limit; the job's without.
    #[serde(default)]
    pub limit: Option<Span>,
    /// By how much that was cut because the program began late and its nodes were promised.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub cut: Span,
    /// Nodes; the first runs the script.
    pub parts: Vec<PartRow>,
    /// What follows when all nodes are clean; `None` while it runs.
    pub after: Option<AfterRun>,
    /// It was ordered to be ended.
    pub killed: Option<cosy_model::node::KillCause>,
    /// Who cancelled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canceller: Option<String>,
    /// Stopped since then.
    #[serde(default)]
    pub suspended: Option<Time>,
    /// How long it was stopped before.
    #[serde(default)]
    pub suspended_for: Span,
    /// Stopped only until it has its cores again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resuming: bool,
    /// Nodes that it gives back while it goes on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<PartRow>,
    /// When it has given nodes back last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resized: Option<Time>,
    /// When it waits again, it is held.
    #[serde(default)]
    pub hold_after: bool,
    /// Held as special when it waits again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub special_after: bool,
    /// It is to make room, or stands still for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempted: Option<PreemptedRow>,
    /// It is to leave before a reservation begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised: Option<PromisedRow>,
    /// Until then its work is safe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Time>,
    /// Nodes whose loss ends it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// How many of its nodes, the last ones, stand by for lost ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spares: u32,
    /// The store was restored since: whether it still runs, its nodes have to tell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub doubtful: bool,
    /// How its program ended, where the job waits again after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<End>,
    /// Energy and GPUs of the nodes that have given their share back, as long as its end does not tell
    /// it.
    #[serde(default, skip_serializing_if = "DeviceUse::is_empty")]
    pub devices: DeviceUse,
}

impl RunRow {
    /// Of a job that has ended: what its end tells is not told twice.
    pub(crate) fn of_ended(self) -> Self {
        Self {
            after: None,
            reported: None,
            devices: DeviceUse::default(),
            ..self
        }
    }
}

fn is_nothing(span: &Span) -> bool {
    *span == Span::ZERO
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}
