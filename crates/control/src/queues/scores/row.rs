//! What is kept of use.

use cosy_model::Time;
use cosy_policy::usage::{Decay, Usage};
use serde::{Deserialize, Serialize};

/// What the ended jobs of a user in an account have used.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct UsageRow {
    /// Account, by name; empty for jobs that are in none.
    pub account: String,
    /// Login name.
    pub user: String,
    /// When it was written: what was used before a reset does not count.
    pub at: Time,
    /// The measure of what follows.
    pub decay: Decay,
    /// Use in that measure, its higher 64 bits.
    pub used_high: u64,
    /// The lower 64 bits.
    pub used_low: u64,
}

impl UsageRow {
    /// What was used, in the row's own measure.
    pub const fn used(&self) -> Usage {
        Usage(((self.used_high as u128) << 64) | self.used_low as u128)
    }
}
