//! States of jobs by Slurm's names (`PENDING`) and codes (`PD`). Source: squeue(1),
//! "JOB STATE CODES"; the order is the one in which `squeue -t` lists them.

use cosy_model::JobState;
use std::fmt;
use std::str::FromStr;

macro_rules! states {
    ($($variant:ident $name:literal $code:literal $doc:literal,)*) => {
        /// A state or flag of a job as Slurm names it.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum SlurmState {
            $(#[doc = $doc] $variant,)*
        }

        impl SlurmState {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The long name, as in `squeue -o %T`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// The code, as in `squeue -o %t`.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$variant => $code),* }
            }
        }
    };
}

states! {
    Pending "PENDING" "PD" "In the queue.",
    Running "RUNNING" "R" "Has nodes and runs.",
    Suspended "SUSPENDED" "S" "Stopped; others may use its cores.",
    Completed "COMPLETED" "CD" "Ended with exit code 0.",
    Cancelled "CANCELLED" "CA" "Ended by a user or an administrator.",
    Failed "FAILED" "F" "Ended otherwise, or could not be launched.",
    Timeout "TIMEOUT" "TO" "Ended at its time limit.",
    NodeFail "NODE_FAIL" "NF" "A node was lost under it.",
    Preempted "PREEMPTED" "PR" "Gave way to a more important job.",
    BootFail "BOOT_FAIL" "BF" "Its nodes could not be booted.",
    Deadline "DEADLINE" "DL" "Could not end before its deadline.",
    OutOfMemory "OUT_OF_MEMORY" "OOM" "Used more memory than it had.",
    Completing "COMPLETING" "CG" "Over; some nodes are being cleaned.",
    Configuring "CONFIGURING" "CF" "Has nodes; they get ready.",
    Resizing "RESIZING" "RS" "Its allocation changes.",
    ResvDelHold "RESV_DEL_HOLD" "RD" "Held because its reservation was deleted.",
    Requeued "REQUEUED" "RQ" "Over, and about to wait again.",
    RequeueFed "REQUEUE_FED" "RF" "Requeued by a federation.",
    RequeueHold "REQUEUE_HOLD" "RH" "Requeued and held.",
    Revoked "REVOKED" "RV" "Another cluster runs it.",
    Signaling "SIGNALING" "SI" "Being sent a signal.",
    SpecialExit "SPECIAL_EXIT" "SE" "Requeued with a mark for special attention.",
    StageOut "STAGE_OUT" "SO" "Files are being copied out.",
    Stopped "STOPPED" "ST" "Stopped, keeps its cores.",
}

/// A text that is neither name nor code of a state.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("Invalid job state specified: {0}")]
pub struct UnknownState(pub String);

impl FromStr for SlurmState {
    type Err = UnknownState;

    /// Name or code, in letters of any case.
    fn from_str(text: &str) -> Result<Self, UnknownState> {
        let named =
            |s: &&Self| s.name().eq_ignore_ascii_case(text) || s.code().eq_ignore_ascii_case(text);
        let found = Self::ALL.iter().find(named).copied();
        found.ok_or_else(|| UnknownState(text.chars().take(60).collect()))
    }
}

/// The long name.
impl fmt::Display for SlurmState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What Slurm's tools are told. A launch that failed is `FAILED` there (with the reason
/// `JobLaunchFailure`); `BOOT_FAIL` is about nodes that did not come up.
impl From<JobState> for SlurmState {
    fn from(state: JobState) -> Self {
        match state {
            JobState::Waiting => Self::Pending,
            JobState::Starting => Self::Configuring,
            JobState::Running => Self::Running,
            JobState::Suspended => Self::Suspended,
            JobState::Completing => Self::Completing,
            JobState::Completed => Self::Completed,
            JobState::Failed | JobState::LaunchFailed => Self::Failed,
            JobState::Cancelled => Self::Cancelled,
            JobState::TimedOut => Self::Timeout,
            JobState::OutOfMemory => Self::OutOfMemory,
            JobState::NodeFailed => Self::NodeFail,
            JobState::Preempted => Self::Preempted,
            JobState::Deadline => Self::Deadline,
        }
    }
}

impl SlurmState {
    /// Cosy's states that are shown like this: what a filter for it has to let through.
    /// None for what does not happen here.
    pub fn job_states(self) -> impl Iterator<Item = JobState> {
        let like = move |s: &JobState| Self::from(*s) == self;
        JobState::ALL.into_iter().filter(like)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `squeue -t BAD` lists them.
    const LISTED: &str = "PENDING,RUNNING,SUSPENDED,COMPLETED,CANCELLED,FAILED,TIMEOUT,NODE_FAIL,\
        PREEMPTED,BOOT_FAIL,DEADLINE,OUT_OF_MEMORY,COMPLETING,CONFIGURING,RESIZING,RESV_DEL_HOLD,\
        REQUEUED,REQUEUE_FED,REQUEUE_HOLD,REVOKED,SIGNALING,SPECIAL_EXIT,STAGE_OUT,STOPPED";

    #[test]
    fn all_and_in_order() {
        let names: Vec<_> = SlurmState::ALL.iter().map(|s| s.name()).collect();
        assert_eq!(names.join(","), LISTED);
    }

    #[test]
    fn names_and_codes_come_back() {
        for state in SlurmState::ALL {
            for text in [state.name(), state.code(), &state.name().to_lowercase()] {
                assert_eq!(text.parse(), Ok(*state), "{text}");
            }
        }
        for bad in ["", "BAD", "P", "PENDING ", "pd,r"] {
            assert_eq!(bad.parse::<SlurmState>(), Err(UnknownState(bad.to_owned())));
        }
    }

    #[test]
    fn every_state_of_ours_is_found_again() {
        for ours in JobState::ALL {
            let theirs = SlurmState::from(ours);
            assert!(theirs.job_states().any(|s| s == ours), "{ours}");
        }
        assert_eq!(SlurmState::Failed.job_states().count(), 2);
        assert_eq!(SlurmState::BootFail.job_states().count(), 0);
    }
}
