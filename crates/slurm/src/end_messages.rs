//! What Slurm's supervisor of a job writes into the job's own output: why it was ended, and
//! what could not be started. Tools look for these sentences in output files.
//!
//! Pure; the time is handed in as text. Source: captures time-limit-*, scancel-*,
//! nodefail-root, requeue, sbatch-bad-interp, sbatch-chdir-missing, srun-nocmd.

use cosy_model::node::{KillCause, KillOrder};

/// Why a job or step was ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndReason {
    /// Somebody wanted it.
    Cancelled,
    /// Its time limit.
    TimeLimit,
    /// It goes back into the queue.
    Requeue,
    /// A node was lost or taken down.
    NodeFailure,
    /// Something more important needed its nodes.
    Preemption,
}

impl EndReason {
    /// Of what somebody wants to end. An attempt is given up when a node of it is.
    pub const fn of(kill: KillOrder) -> Self {
        match kill.cause {
            _ if kill.preempted => Self::Preemption,
            KillCause::Cancelled => Self::Cancelled,
            KillCause::TimeLimit => Self::TimeLimit,
            KillCause::Requeued => Self::Requeue,
            KillCause::Superseded => Self::NodeFailure,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Cancelled => "",
            Self::TimeLimit => " DUE TO TIME LIMIT",
            Self::Requeue => " DUE TO JOB REQUEUE",
            Self::NodeFailure => " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS",
            Self::Preemption => " DUE TO PREEMPTION",
        }
    }
}

/// `slurmstepd: error: TEXT`, a whole line.
pub fn error(text: &str) -> String {
    format!("slurmstepd: error: {text}\n")
}

/// A job was ended on its first node.
pub fn job_cancelled(job: u64, node: &str, at: &str, why: EndReason) -> String {
    let words = why.words();
    error(&format!("*** JOB {job} ON {node} CANCELLED AT {at}{words} ***"))
}

/// A step, given as `12.0`, was ended.
pub fn step_cancelled(step: &str, node: &str, at: &str, why: EndReason) -> String {
    let words = why.words();
    error(&format!("*** STEP {step} ON {node} CANCELLED AT {at}{words} ***"))
}

/// The kernel killed processes of a step, given as `12.batch`, for want of memory.
pub fn out_of_memory(step: &str, kills: u64) -> String {
    let s = if kills == 1 { "" } else { "s" };
    error(&format!(
        "Detected {kills} oom_kill event{s} in StepId={step}. Some of the step tasks have been \
         OOM Killed."
    ))
}

/// A working directory that cannot be entered; another is taken.
pub fn no_workdir(path: &str, cause: &str) -> String {
    error(&format!("couldn't chdir to `{path}': {cause}: going to /tmp instead"))
}

/// A program that cannot be executed.
pub fn no_program(path: &str, cause: &str) -> String {
    error(&format!("execve(): {path}: {cause}"))
}

/// A script whose interpreter is not there.
pub fn no_interpreter(path: &str, cause: &str) -> String {
    error(&format!("execve(): bad interpreter({path}): {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences() {
        let at = "2026-11-21T02:16:55";
        let check = |got: String, want: &str| {
            assert_eq!(got, format!("slurmstepd: error: {want}\n"));
        };
        check(
            job_cancelled(170, "n1", at, EndReason::Cancelled),
            "*** JOB 170 ON n1 CANCELLED AT 2026-11-21T02:16:55 ***",
        );
        check(
            job_cancelled(1, "n3", at, EndReason::TimeLimit),
            "*** JOB 1 ON n3 CANCELLED AT 2026-11-21T02:16:55 DUE TO TIME LIMIT ***",
        );
        check(
            job_cancelled(263, "n1", at, EndReason::Requeue),
            "*** JOB 263 ON n1 CANCELLED AT 2026-11-21T02:16:55 DUE TO JOB REQUEUE ***",
        );
        check(
            step_cancelled("270.0", "n8", at, EndReason::NodeFailure),
            "*** STEP 270.0 ON n8 CANCELLED AT 2026-11-21T02:16:55 DUE TO NODE FAILURE, SEE \
             SLURMCTLD LOG FOR DETAILS ***",
        );
        check(
            out_of_memory("12.batch", 1),
            "Detected 1 oom_kill event in StepId=12.batch. Some of the step tasks have been OOM \
             Killed.",
        );
        check(
            no_workdir("/nonexistent", "No such file or directory"),
            "couldn't chdir to `/nonexistent': No such file or directory: going to /tmp instead",
        );
        check(
            no_interpreter("/no/such/interp", "No such file or directory"),
            "execve(): bad interpreter(/no/such/interp): No such file or directory",
        );
        check(
            no_program("nosuchcommand", "No such file or directory"),
            "execve(): nosuchcommand: No such file or directory",
        );
    }
}
