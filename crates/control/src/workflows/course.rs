//! The course of a workflow: its jobs end, failed ones are tried again, what can no longer
//! run is released, and it is over.

pub(crate) mod procedures;

use crate::record::OfFlow;
use cosy_model::{JobId, JobState, Time};

/// How the job of a task ended.
#[derive(Debug)]
pub(crate) struct TaskEnd {
    pub of: OfFlow,
    pub job: JobId,
    pub state: JobState,
    pub start: Option<Time>,
    pub end: Time,
    pub exit_code: i32,
    pub nodes: String,
    pub note: String,
}

impl TaskEnd {
    /// What waits for the task may go on.
    pub fn is_good(&self) -> bool {
        self.state == JobState::Completed
    }

    /// `failed, exit code 3: its node was lost`.
    pub fn words(&self) -> String {
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
