//! The course of a workflow: its jobs end, failed ones are tried again, what can no longer
//! run is released, and it is over.

mod procedures;

use crate::record::OfFlow;
use cosy_model::{JobId, JobState, Time};

/// How the job of a task ended.
#[derive(Debug)]
pub(crate) struct TaskEnd {
    of: OfFlow,
    job: JobId,
    state: JobState,
    start: Option<Time>,
    end: Time,
    exit_code: i32,
    nodes: String,
    note: String,
}

impl TaskEnd {
    /// `failed, exit code 3: its node was lost`.
    fn words(&self) -> String {
        let code = match self.exit_code {
            0 => String::new(),
            code => format!(", exit code {code}"),
        };
        let note = match self.note.is_empty() {
            true => String::new(),
            false => format!(": {}", self.note),
        };
        format!("{}{code}{note}", self.state)
    }
}
