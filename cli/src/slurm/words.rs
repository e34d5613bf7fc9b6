//! Slurm's sentences for what becomes of a request.

use cosy_client::CallError;
use cosy_slurm::says;

/// Why there is no answer.
pub const fn of_call(e: &CallError) -> &'static str {
    match e {
        CallError::Unreachable { .. } | CallError::Lost { .. } => says::NO_CONTROLLER,
        CallError::Garbage { .. } | CallError::Version { .. } | CallError::Unexpected => {
            says::VERSION
        }
        CallError::TooLarge(_) => says::UNSPECIFIED,
        CallError::Refused(refusal) => says::about_job(refusal.code),
    }
}
