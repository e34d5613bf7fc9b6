//! What the row of an attempt says of the job that it makes room for.

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
