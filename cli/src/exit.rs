//! Exit codes of the commands: part of their interface, do not renumber.
//!
//! `csub --wait` and `cosy wait` give the job's own exit code (128 and the signal when
//! a signal ended it), `cosy dev` that of its command.

use cosy_client::CallError;
use cosy_model::api::EndedJob;

/// Success: everything that was requested is done.
pub const OK: u8 = 0;
/// Refused, or failed for the reason printed (Slurm's commands give 1 too).
pub const FAILED: u8 = 1;
/// The command line makes no sense, or the command is not there in this version.
pub const USAGE: u8 = 2;
/// The controller cannot be reached or does not answer.
pub const UNREACHABLE: u8 = 3;
/// `cosy dev` itself failed: no cluster was started.
pub const DEV_FAILED: u8 = 125;
/// A job's or a step's program: its container cannot be made.
pub const NO_CONTAINER: u8 = 125;
/// `cosy dev`: the command cannot be executed.
pub const DEV_NOT_EXECUTABLE: u8 = 126;
/// `cosy dev`: the command does not exist.
pub const DEV_NOT_FOUND: u8 = 127;
/// Added to the number of the signal that ended a program.
pub const SIGNAL_BASE: i32 = 128;

/// An error with an exit code of its own; any other error ends a command with [`FAILED`] or
/// [`UNREACHABLE`].
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ExitError {
    /// What the command exits with.
    pub code: u8,
    /// One line for the user.
    pub message: String,
}

/// An error with that exit code.
pub fn error(code: u8, message: impl Into<String>) -> anyhow::Error {
    let message = message.into();
    anyhow::Error::new(ExitError { code, message })
}

/// An error on the command line: exit code [`USAGE`].
pub fn usage(message: impl Into<String>) -> anyhow::Error {
    error(USAGE, message)
}

/// The exit code that stands for how a program ended: its own, 128 and the signal, or 1 where both
/// are 0 and the program did not succeed all the same (`succeeded` is the controller's verdict).
pub fn of_end(exit_code: i32, signal: i32, succeeded: bool) -> u8 {
    let code = match (signal, exit_code) {
        (0, 0) if succeeded => 0,
        (0, 0) => i32::from(FAILED),
        (0, code) => code,
        (signal, _) => SIGNAL_BASE + signal,
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// The exit code of a command whose request failed.
pub const fn of_call(error: &CallError) -> u8 {
    if error.is_unreachable() {
        UNREACHABLE
    } else {
        FAILED
    }
}

/// The largest exit code of ended jobs; 0 without jobs.
pub fn of_jobs(jobs: &[EndedJob]) -> u8 {
    let one =
        |j: &EndedJob| of_end(j.exit_code, j.signal, j.state == cosy_model::JobState::Completed);
    jobs.iter().map(one).max().unwrap_or(OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends() {
        let check = |exit, signal, fine, want| assert_eq!(of_end(exit, signal, fine), want);
        check(0, 0, true, 0);
        check(3, 0, false, 3);
        check(0, 9, false, 137);
        check(0, 0, false, 1);
        check(4711, 0, false, 255);
    }
}
