//! Advance reservations: a start, a length and nodes that are promised.
//!
//! Only what the planner must already respect is here: an accepted reservation is a
//! hard block in the timeline.

use crate::{ReservationId, Span, Time};
use serde::{Deserialize, Serialize};

/// The time of an accepted reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Slot {
    /// Whose slot it is.
    pub reservation: ReservationId,
    /// Promised start.
    pub start: Time,
    /// Promised length.
    pub length: Span,
}
