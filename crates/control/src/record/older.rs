//! Rows that say that the store was an old copy, or a backup.

use cosy_model::node::StoreMark;
use cosy_model::{JobId, Time};
use serde::{Deserialize, Serialize};

/// The store was found to be older than what nodes have seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OlderRow {
    /// Time on the wall's clock.
    pub at: Time,
    /// The first id of a job that was given out by the store that is lost.
    pub first: JobId,
    /// One beyond the last: no such id is given out again.
    pub next: JobId,
    /// Numbers go on from here.
    pub mark: StoreMark,
}

/// The store was put back from a backup, and no controller has taken it up since. What happened after
/// the backup was made, nobody knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RestoredRow {
    /// When it was put back, on the wall's clock.
    #[serde(default)]
    pub at: Time,
    /// The last that happened in the backup.
    #[serde(default)]
    pub last: Time,
}
