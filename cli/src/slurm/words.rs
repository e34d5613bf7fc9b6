//! Slurm's sentences for failed requests.

use cosy_client::CallError;
use cosy_slurm::sentences;

/// The sentence for a request without an answer, or with a refusal.
pub const fn of_call(e: &CallError) -> &'static str {
    match e {
        CallError::Unreachable { .. } | CallError::Lost { .. } | CallError::NoLeader { .. } => {
            sentences::NO_CONTROLLER
        }
        CallError::Garbage { .. } | CallError::Version { .. } | CallError::Unexpected => {
            sentences::VERSION
        }
        CallError::TooLarge(_) => sentences::UNSPECIFIED,
        CallError::Refused(refusal) => sentences::about_job(refusal.code),
    }
}
