//! Who may be made to make room.

use cosy_model::{JobId, NodeShare, Time};

/// A running job that may be made to make room.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Its id.
    pub job: JobId,
    /// What is lost when it goes; in any measure, the sum counts.
    pub cost: u64,
    /// Since when it runs: of equal cost the youngest goes first.
    pub since: Time,
    /// What it goes on holding of nodes, for one that is only stopped: it keeps its amounts of
    /// resource pools too. `None`: it goes with all that it holds.
    pub keeps: Option<Vec<NodeShare>>,
}
