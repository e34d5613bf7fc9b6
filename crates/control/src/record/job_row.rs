//! What is known of a job's row without looking at others.

use super::JobRow;
use cosy_model::node::AttemptKey;
use cosy_model::{Attempt, JobId, JobState};

impl JobRow {
    /// Of a job that waits and has never run, as its submission has it.
    pub const fn waiting(id: JobId, base: JobId, index: Option<u32>) -> Self {
        Self {
            id,
            body: 0,
            base,
            index,
            state: JobState::Waiting,
            attempt: Attempt(0),
            held: None,
            changed: None,
            queue: None,
            eligible: None,
            ages_from: None,
            run: None,
            end: None,
            note: String::new(),
            derived: (0, 0),
            moved: None,
            ahead: None,
        }
    }

    /// Job and attempt.
    pub fn key(&self) -> AttemptKey {
        AttemptKey {
            job: self.id,
            attempt: self.attempt,
        }
    }
}
