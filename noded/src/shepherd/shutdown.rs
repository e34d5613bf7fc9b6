//! The end of the machine, or of all jobs on it by the system's will: a file that the system
//! makes before it sends signals to anything, and removes before jobs may run again.
//!
//! Then it means nothing how a program ended: it got its SIGTERM from the system, at the same
//! time as its supervisor or before, and may have died of it or have ended as if it were done.
//! Its attempt is lost with the node, and runs again where it may.

use cosy_model::EndCause;
use std::path::PathBuf;
use std::sync::OnceLock;

static FILE: OnceLock<PathBuf> = OnceLock::new();

/// Looks at that file from now on, in all processes that are forked from this one too. Only the
/// first call has an effect.
pub fn look_at(file: PathBuf) {
    let _ = FILE.set(file);
}

/// Whether the machine goes down.
pub fn is_under_way() -> bool {
    FILE.get().is_some_and(|file| file.exists())
}

/// Why something ended, where the machine may be going down.
pub fn cause_with(cause: EndCause) -> EndCause {
    if is_under_way() {
        cause_at_shutdown(cause)
    } else {
        cause
    }
}

/// What was decided before stays; an end of its own may have been the system's doing.
fn cause_at_shutdown(cause: EndCause) -> EndCause {
    match cause {
        EndCause::Exited
        | EndCause::LaunchFailed(_)
        | EndCause::SupervisorLost
        | EndCause::NodeLost => EndCause::NodeLost,
        EndCause::Cancelled
        | EndCause::TimeLimit
        | EndCause::OutOfMemory
        | EndCause::Deadline
        | EndCause::Preempted => cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_decided_before_stays() {
        let check = |cause: EndCause, lost: bool| {
            let want = if lost {
                EndCause::NodeLost
            } else {
                cause.clone()
            };
            assert_eq!(cause_at_shutdown(cause), want);
        };
        check(EndCause::Exited, true);
        check(EndCause::LaunchFailed("no group".to_owned()), true);
        check(EndCause::SupervisorLost, true);
        check(EndCause::NodeLost, true);
        check(EndCause::Cancelled, false);
        check(EndCause::TimeLimit, false);
        check(EndCause::OutOfMemory, false);
        check(EndCause::Deadline, false);
    }
}
