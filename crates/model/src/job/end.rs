//! States of a job, and how it came to its end.

use super::DeviceUse;
use crate::Time;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What has become of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It stands in its queue.
    Waiting,
    /// Has nodes; they are being prepared.
    Starting,
    /// Its nodes are ready, and it runs.
    Running,
    /// Stopped for a while, keeps its nodes.
    Suspended,
    /// Its program has ended; nodes are being cleaned.
    Completing,
    /// Ended with exit code 0.
    Completed,
    /// Ended with another exit code or a signal.
    Failed,
    /// Ended by its user or an administrator.
    Cancelled,
    /// Ended at its time limit.
    TimedOut,
    /// Ended because it used more memory than it had.
    OutOfMemory,
    /// A node was lost under it.
    NodeFailed,
    /// Ended because something more important needed its nodes.
    Preempted,
    /// Could not be started.
    LaunchFailed,
    /// Could not be over at its deadline.
    Deadline,
}

impl JobState {
    /// Every state, in the order of the declaration.
    pub const ALL: [Self; 14] = [
        Self::Waiting,
        Self::Starting,
        Self::Running,
        Self::Suspended,
        Self::Completing,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::TimedOut,
        Self::OutOfMemory,
        Self::NodeFailed,
        Self::Preempted,
        Self::LaunchFailed,
        Self::Deadline,
    ];

    /// True when nothing more happens to the job.
    pub const fn is_end(self) -> bool {
        match self {
            Self::Waiting | Self::Starting | Self::Running | Self::Suspended | Self::Completing => {
                false
            }
            Self::Completed
            | Self::Failed
            | Self::Cancelled
            | Self::TimedOut
            | Self::OutOfMemory
            | Self::NodeFailed
            | Self::Preempted
            | Self::LaunchFailed
            | Self::Deadline => true,
        }
    }

    /// One word, as users see and type it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Suspended => "suspended",
            Self::Completing => "completing",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::OutOfMemory => "out_of_memory",
            Self::NodeFailed => "node_failed",
            Self::Preempted => "preempted",
            Self::LaunchFailed => "launch_failed",
            Self::Deadline => "deadline",
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl std::str::FromStr for JobState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|s| s.word().eq_ignore_ascii_case(text))
            .ok_or_else(|| {
                let words: Vec<_> = Self::ALL.iter().map(|s| s.word()).collect();
                format!("'{text}' is no job state: use {}", words.join(", "))
            })
    }
}

/// Why a job's program ended, as its node reports it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// It ended by itself, with an exit code or by a signal.
    Exited,
    /// The time limit.
    TimeLimit,
    /// A user or administrator.
    Cancelled,
    /// The kernel ended it because it used more memory than it had.
    OutOfMemory,
    /// It never ran: the reason.
    LaunchFailed(String),
    /// Its supervisor on the node was killed; it was cleaned up.
    SupervisorLost,
    /// The node was restarted under it or was given up.
    NodeLost,
    /// It could not be over at its deadline.
    Deadline,
    /// Something more important needed its nodes.
    Preempted,
}

/// How an attempt ended and what it used.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct End {
    /// What the end is put down to.
    pub cause: EndCause,
    /// Exit code of the program; 0 when a signal ended it.
    pub exit_code: i32,
    /// Signal that ended the program; 0 without.
    pub signal: i32,
    /// When its program started; `None` when it never did.
    pub start: Option<Time>,
    /// When it ended.
    pub end: Time,
    /// User CPU time, in microseconds.
    pub user_cpu_us: u64,
    /// System CPU time, in microseconds.
    pub system_cpu_us: u64,
    /// Peak memory in bytes (control group where there is one, else the largest process).
    pub peak_memory_bytes: u64,
    /// Energy and GPUs, as its node tells when it has ended there; daemons of earlier releases tell
    /// nothing.
    #[serde(default, skip_serializing_if = "DeviceUse::is_empty")]
    pub devices: DeviceUse,
}

impl End {
    /// The end of an attempt that never ran.
    pub fn never_ran(cause: EndCause, at: Time) -> Self {
        Self {
            cause,
            exit_code: 0,
            signal: 0,
            start: None,
            end: at,
            user_cpu_us: 0,
            system_cpu_us: 0,
            peak_memory_bytes: 0,
            devices: DeviceUse::default(),
        }
    }

    /// The state that this end leads to.
    pub fn state(&self) -> JobState {
        match self.cause {
            EndCause::Exited if self.exit_code == 0 && self.signal == 0 => JobState::Completed,
            EndCause::Exited => JobState::Failed,
            EndCause::TimeLimit => JobState::TimedOut,
            EndCause::Cancelled => JobState::Cancelled,
            EndCause::OutOfMemory => JobState::OutOfMemory,
            EndCause::LaunchFailed(_) => JobState::LaunchFailed,
            EndCause::SupervisorLost | EndCause::NodeLost => JobState::NodeFailed,
            EndCause::Deadline => JobState::Deadline,
            EndCause::Preempted => JobState::Preempted,
        }
    }
}

/// Why a job is to be ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillCause {
    /// A user or administrator wants it.
    Cancelled,
    /// Its time limit passed and the node had not noticed.
    TimeLimit,
    /// It was given up: another attempt runs or the job has ended. No grace.
    Superseded,
    /// It goes back into the queue.
    Requeued,
}

/// An end that is ordered, and whether it makes room for another job. That is no cause of its own:
/// a daemon of an earlier release passes over an order whose cause it does not know, and would end
/// nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KillOrder {
    /// What the end is put down to.
    pub cause: KillCause,
    /// Said in the job's output instead of the cause.
    pub preempted: bool,
}

impl From<KillCause> for KillOrder {
    fn from(cause: KillCause) -> Self {
        Self {
            cause,
            preempted: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends() {
        let mut end = End::never_ran(EndCause::Exited, Time(0));
        assert_eq!(end.state(), JobState::Completed);
        end.exit_code = 3;
        assert_eq!(end.state(), JobState::Failed);
        end.cause = EndCause::TimeLimit;
        assert_eq!(end.state(), JobState::TimedOut);
    }
}
