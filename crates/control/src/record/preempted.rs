//! What rows say of those for whom others make room: the row of an attempt that makes room, and
//! that of a waiting job that is pushed back by it.

use cosy_model::policy::PreemptMode;
use cosy_model::{JobId, ReservationId, Span, Time};
use serde::{Deserialize, Serialize};
use std::fmt;

/// For whom others make room. A job is its bare number, as earlier releases wrote it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Preemptor {
    /// A waiting job.
    Job(JobId),
    /// A reservation that is about to begin.
    Reservation {
        /// Its id.
        reservation: ReservationId,
    },
}

impl From<JobId> for Preemptor {
    fn from(job: JobId) -> Self {
        Self::Job(job)
    }
}

impl From<ReservationId> for Preemptor {
    fn from(reservation: ReservationId) -> Self {
        Self::Reservation { reservation }
    }
}

impl fmt::Display for Preemptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(job) => write!(f, "job {job}"),
            Self::Reservation { reservation } => write!(f, "reservation {reservation}"),
        }
    }
}

/// An attempt that is to leave before a reservation begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PromisedRow {
    /// The reservation.
    pub reservation: ReservationId,
    /// When the job is told.
    pub at: Time,
    /// By then it has ended; what force takes comes after it.
    pub until: Time,
    /// How it leaves; one that could not run again is cancelled.
    pub mode: PreemptMode,
    /// As its queue or quality of service gives it between the order and its force.
    pub grace: Span,
}

/// An attempt that makes room for another job, or for a reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PreemptedRow {
    /// For whom.
    pub by: Preemptor,
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
