//! Figures of stretches of time: for the notice rule, and for what hours usually cost.

use cosy_model::{Su, Time};
use serde::{Deserialize, Serialize};

/// Figures for the notice rule, of one stretch of time.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FiguresRow {
    /// Begin of the stretch.
    pub at: Time,
    /// Jobs accepted in the time that the row is about.
    pub jobs: u64,
    /// Core-seconds that they ask for.
    pub jobs_core_s: u64,
    /// Reservations accepted in the time that the row is about.
    pub reservations: u64,
    /// Core-seconds of these reservations.
    pub reservations_core_s: u64,
    /// Queued jobs started.
    pub started: u64,
    /// The sum of their waits.
    pub wait_ms: u64,
    /// Core-seconds that the started ask for.
    pub started_core_s: u64,
    /// The sum over the started of wait in seconds times core-seconds, in thousands.
    pub wait_s_core_ks: u64,
}

/// What an hour of the week usually costs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HourPriceRow {
    /// Hour of the week in UTC, 0 is Monday 00 to 01.
    pub hour: u8,
    /// Sum of f over the reservations that began in it.
    pub extra: Su,
    /// Sum of their core-seconds.
    pub core_s: u64,
}
