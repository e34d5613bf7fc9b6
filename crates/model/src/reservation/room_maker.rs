//! Running jobs that make room for a reservation.

use crate::policy::PreemptMode;
use crate::{JobId, Time};
use serde::{Deserialize, Serialize};

/// A running job that is made to leave before a reservation begins.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RoomMaker {
    /// Its id.
    pub job: JobId,
    /// Login name of its user; empty for those who are not told of the jobs of others.
    pub user: String,
    /// Its queue.
    pub queue: String,
    /// How it leaves: it is cancelled, or goes back into the queue.
    pub mode: PreemptMode,
    /// What it loses if it runs until the reservation begins, in core-seconds.
    pub lost_core_secs: u64,
    /// When it is told.
    pub told: Time,
}
