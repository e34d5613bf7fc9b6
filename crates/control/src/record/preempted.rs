//! What rows say of those for whom others make room: the row of an attempt that makes room, and
//! that of a waiting job that is pushed back by it.

use cosy_model::policy::PreemptMode;
use cosy_model::{JobId, Time};
use serde::{Deserialize, Serialize};

/// An attempt that makes room for another job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PreemptedRow {
    /// The job that it makes room for.
    pub by: JobId,
    /// Since when.
    pub at: Time,
    /// Until then it may end by itself; when it only stands still, the same as `at`.
    pub until: Time,
    /// How it makes room; one that could not run again is cancelled.
    pub mode: PreemptMode,
    /// It was told: from then on it cannot be spared any more.
    #[serde(default)]
    pub told: bool,
}

/// The guaranteed start of a waiting job is later, since room was made for another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MovedRow {
    /// The last for whom room was made so.
    pub by: JobId,
    /// When it would have started before the first of them came.
    pub from: Time,
    /// When it starts now.
    pub to: Time,
}
