//! Rows of reservations.

use cosy_model::reservation::{ReservationSpec, ReservationState, RoomMaker};
use cosy_model::{Amounts, FlowId, Gid, JobId, ReservationId, Span, Su, Time, Uid};
use serde::{Deserialize, Serialize};

/// A reservation. Live ones are loaded; ended ones stay in the store as history.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReservationRow {
    /// The id, which is never given out again.
    pub id: ReservationId,
    /// Id of the first of its series.
    #[serde(default)]
    pub series: Option<ReservationId>,
    /// The user who owns it.
    pub uid: Uid,
    /// Primary group of its owner.
    pub gid: Gid,
    /// Name of its owner when it was made.
    pub user: String,
    /// Queue, by name.
    pub queue: String,
    /// Account that pays.
    #[serde(default)]
    pub account: Option<String>,
    /// As asked for; the start is in `start`.
    pub ask: ReservationSpec,
    /// The state when it was written.
    pub state: ReservationState,
    /// Nodes are missing.
    #[serde(default)]
    pub degraded: bool,
    /// First instant at which its nodes are its own.
    pub start: Time,
    /// End; of one that ended early when it ended.
    pub end: Time,
    /// When it was over, given back or lapsed.
    #[serde(default)]
    pub closed: Option<Time>,
    /// What it holds of which node.
    pub shares: Vec<ShareRow>,
    /// When it was asked for.
    pub made: Time,
    /// A hold's end: until then it is given back for nothing, also when confirmed.
    #[serde(default)]
    pub hold_until: Option<Time>,
    /// Cancelling costs nothing until then.
    #[serde(default)]
    pub free_until: Option<Time>,
    /// Its price by the tariff: p·n·d (pricing paper, section 3).
    pub base: Su,
    /// What it pays for delaying others: f (pricing paper, section 3).
    pub extra: Su,
    /// Held of the account's budget.
    #[serde(default)]
    pub held: Su,
    /// Charged to the account, less what was given back.
    #[serde(default)]
    pub charged: Su,
    /// Whom it pushed back when it was booked, and by how much.
    #[serde(default)]
    pub delays: Vec<(JobId, Span)>,
    /// Its attached job.
    #[serde(default)]
    pub job: Option<JobId>,
    /// When something was first started in it.
    #[serde(default)]
    pub first_use: Option<Time>,
    /// Core-milliseconds that jobs inside have used.
    #[serde(default)]
    pub used_core_ms: i64,
    /// What users should know.
    #[serde(default)]
    pub note: String,
    /// The workflow that it is a slot of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<OfFlow>,
    /// Running jobs that make room for it, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub makers: Vec<MakerRow>,
}

/// A running job that makes room for a reservation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MakerRow {
    /// As users are told of it.
    pub maker: RoomMaker,
    /// The user whose job it is.
    pub uid: Uid,
    /// It was told, or went already for another reason when it was to be told.
    #[serde(default)]
    pub told: bool,
}

/// Which task of which workflow a job or a reservation belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct OfFlow {
    /// The workflow that the job or the slot belongs to.
    pub flow: FlowId,
    /// Its task, by place.
    pub task: u32,
}

/// The share of a node that a reservation holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShareRow {
    /// The node by name.
    pub node: String,
    /// Tasks that the demand counts there.
    pub tasks: u32,
    /// What is held of that node.
    pub amounts: Amounts,
}
