//! Workflows: tasks that wait for each other, run in slots that are planned so that the
//! whole ends by a deadline.
//!
//! What always holds: every accepted workflow has at least one task, its names are unique,
//! its edges run between its tasks and in no circle. Tasks are named by their place.
//!
//! Source: Zhao and Sakellariou, *Advance Reservation Policies for Workflows* (2006).

use crate::job::JobSpec;
use crate::{FlowId, JobId, OsText, ReservationId, Span, Su, Time};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Makes an enum's words: what users see and type.
macro_rules! words {
    ($name:ident, $what:literal, { $($variant:ident => $word:literal),+ $(,)? }) => {
        impl $name {
            /// All of them.
            pub const ALL: [Self; [$(Self::$variant),+].len()] = [$(Self::$variant),+];

            /// One word, as users see and type it.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let found = Self::ALL.into_iter().find(|one| one.word() == text);
                found.ok_or_else(|| {
                    let words: Vec<_> = Self::ALL.iter().map(|one| one.word()).collect();
                    format!(concat!("'{}' is no ", $what, ": use {}"), text, words.join(", "))
                })
            }
        }
    };
}

/// How the first schedule is made (the paper, 4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowScheduler {
    /// Heterogeneous earliest finish time.
    Heft,
    /// Hybrid heuristic with balanced minimum completion time.
    #[default]
    Hbmct,
    /// Fast critical path.
    Fcp,
    /// Dynamic level scheduling.
    Dls,
}

words!(FlowScheduler, "scheduler of workflows", {
    Heft => "heft", Hbmct => "hbmct", Fcp => "fcp", Dls => "dls",
});

/// How the time until the deadline is shared out (the paper, 3.3, 3.4 and 4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowSlackPolicy {
    /// Again and again, the same time for each task.
    REvenTime,
    /// Again and again, the same share of its estimate for each task.
    REvenPercent1,
    /// As `r_even_percent1`, the first time only for the critical path.
    RCpFirst,
    /// As `r_even_percent1`, less what a task has anyway.
    REvenPercent2,
    /// The critical path first, the same time for each of its tasks.
    CpEvenTime,
    /// The critical path first, the same share of its estimate for each of its tasks.
    #[default]
    CpEvenPercent,
}

words!(FlowSlackPolicy, "way to share out spare time", {
    REvenTime => "r_even_time",
    REvenPercent1 => "r_even_percent1",
    RCpFirst => "r_cp_first",
    REvenPercent2 => "r_even_percent2",
    CpEvenTime => "cp_even_time",
    CpEvenPercent => "cp_even_percent",
});

/// What becomes of a task that is not done at the end of its slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overrun {
    /// It is ended, as a job at its limit.
    #[default]
    Kill,
    /// Its slot grows as long as nothing is in the way; then it is ended.
    Extend,
    /// Its slot grows, and what has not started is planned again around it.
    Replan,
}

words!(Overrun, "way to treat a task that outlives its slot", {
    Kill => "kill", Extend => "extend", Replan => "replan",
});

/// By when a workflow has to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowDeadline {
    /// At this time.
    By(Time),
    /// Length of its schedule without spare time, and this many thousandths of that length.
    Slack(u32),
}

/// Data from one task to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlowEdge {
    /// The parent, by its place in [`FlowSpec::tasks`].
    pub from: u32,
    /// The child, which waits for it, by its place in [`FlowSpec::tasks`].
    pub to: u32,
    /// Data handed on, in bytes.
    #[serde(default)]
    pub data_bytes: u64,
}

/// A task of a workflow, as its user asks for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlowTask {
    /// Its name, unique in the workflow.
    pub name: String,
    /// What it runs and asks for, without what all tasks share ([`FlowSpec::environment`]
    /// and what follows it): `environment`, `rlimits` and `umask` in here are not read.
    pub spec: JobSpec,
    /// The script's text; empty for a command.
    #[serde(default)]
    pub script: OsText,
    /// Estimated run time on nodes of speed 1.
    pub estimate: Span,
    /// Estimated run time on the nodes of a set, instead of what its speed gives.
    #[serde(default)]
    pub estimates: Vec<(String, Span)>,
    /// How often the task is started again after it failed.
    #[serde(default)]
    pub retries: u32,
}

/// Speed of the nodes of a set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SetSpeed {
    /// Name of the node set.
    pub set: String,
    /// In thousandths of that of nodes in no such set.
    pub speed_permille: u32,
}

/// What it takes to carry data from the nodes of one set to those of another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Transfer {
    /// From the nodes of this set; from any without.
    #[serde(default)]
    pub from: Option<String>,
    /// To the nodes of this set; to any without.
    #[serde(default)]
    pub to: Option<String>,
    /// Bytes in a second; never 0.
    pub bytes_per_second: u64,
}

/// A workflow as its user asks for it. Without [`FlowSpec::deadline`] its tasks are plain
/// jobs that depend on each other.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlowSpec {
    /// Name for lists.
    pub name: String,
    /// Tasks in the order of the file; parents may stand behind their children.
    pub tasks: Vec<FlowTask>,
    /// Which task waits for which.
    pub edges: Vec<FlowEdge>,
    /// Node sets whose nodes are slower or faster. With none, and no estimates by set, all
    /// nodes count as alike.
    #[serde(default)]
    pub speeds: Vec<SetSpeed>,
    /// Transfers between sets; what is not listed takes no time, as does what stays within
    /// a set. The first that fits counts.
    #[serde(default)]
    pub transfers: Vec<Transfer>,
    /// By when it has to be done.
    #[serde(default)]
    pub deadline: Option<FlowDeadline>,
    /// No task starts before.
    #[serde(default)]
    pub earliest: Option<Time>,
    /// How the first schedule is made.
    #[serde(default)]
    pub scheduler: FlowScheduler,
    /// How spare time is shared out.
    #[serde(default)]
    pub slack_policy: FlowSlackPolicy,
    /// Sharing out ends when less spare time than this share of the schedule's length is
    /// left, in thousandths (the paper, 4.1: 50).
    #[serde(default = "usual_threshold")]
    pub threshold_permille: u32,
    /// A task starts before its slot when its parents are done and nodes are free.
    #[serde(default)]
    pub early: bool,
    /// What becomes of a task that outlives its slot.
    #[serde(default)]
    pub overrun: Overrun,
    /// Account that pays; the user's default account without.
    #[serde(default)]
    pub account: Option<String>,
    /// Refused when all slots together would cost more.
    #[serde(default)]
    pub max_price: Option<Su>,
    /// Remark of its owner, at most [`limits::COMMENT_BYTES`](crate::limits::COMMENT_BYTES).
    #[serde(default)]
    pub comment: String,
    /// Variables of all tasks, `NAME=value` separated by NUL.
    #[serde(default)]
    pub environment: OsText,
    /// File mode mask of all tasks.
    #[serde(default)]
    pub umask: u32,
    /// Resource limits of all tasks, as in [`JobSpec::rlimits`].
    #[serde(default)]
    pub rlimits: crate::job::Rlimits,
}

const fn usual_threshold() -> u32 {
    50
}

/// A task's slot in a plan.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlannedTask {
    /// Which: its place in [`FlowSpec::tasks`].
    pub task: u32,
    /// Start of its slot.
    pub start: Time,
    /// End of its slot.
    pub end: Time,
    /// Its estimate on the nodes of its slot.
    pub estimate: Span,
    /// How much longer than its estimate it may take without anyone being late: the slot
    /// beyond its estimate, and the gap after it.
    pub spare: Span,
    /// On the critical path.
    pub critical: bool,
    /// The node set that it was planned on; empty where all nodes are alike.
    pub set: String,
    /// Nodes as a host list.
    pub nodes: String,
    /// Price of the slot.
    pub price: Su,
    /// Number of waiting jobs that it pushes back.
    pub delayed_jobs: u32,
    /// By how much in all.
    pub total_delay: Span,
}

/// A plan for a workflow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlowPlan {
    /// The controller's time.
    pub now: Time,
    /// Start of the first slot.
    pub start: Time,
    /// When the schedule without spare time ends: no deadline before it can be kept.
    pub shortest_end: Time,
    /// The deadline, worked out.
    pub deadline: Time,
    /// Slots, in the order of the tasks.
    pub tasks: Vec<PlannedTask>,
    /// Price of all slots together.
    pub price: Su,
    /// Waiting jobs that the slots push back, those of the user marked: job, delay, own.
    pub delayed: Vec<(JobId, Span, bool)>,
    /// What the rules of admission say against it, with figures; empty when it would be
    /// taken.
    pub refusals: Vec<String>,
}

/// What has become of a workflow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowState {
    /// Its slots are kept until the hold expires.
    Held,
    /// Its tasks wait and run.
    Running,
    /// All its tasks ended with exit code 0.
    Completed,
    /// A task failed for good; what had not started was given back.
    Failed,
    /// Given up by its owner or an administrator.
    Cancelled,
    /// It was not confirmed in time.
    Expired,
}

words!(FlowState, "state of a workflow", {
    Held => "held",
    Running => "running",
    Completed => "completed",
    Failed => "failed",
    Cancelled => "cancelled",
    Expired => "expired",
});

impl FlowState {
    /// True when it is not over.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Held | Self::Running)
    }
}

/// What has become of a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowTaskState {
    /// It waits for its parents or for its slot.
    Waiting,
    /// Its job runs.
    Running,
    /// It ended with exit code 0.
    Done,
    /// It failed, and is not started again.
    Failed,
    /// It never started, because something before it failed or it was cancelled.
    Released,
}

words!(FlowTaskState, "state of a workflow's task", {
    Waiting => "waiting",
    Running => "running",
    Done => "done",
    Failed => "failed",
    Released => "released",
});

/// A task of a workflow as commands show it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlowTaskInfo {
    /// Name within the workflow.
    pub name: String,
    /// How far the task has come.
    pub state: FlowTaskState,
    /// Names of the tasks that it waits for.
    pub parents: Vec<String>,
    /// Its slot's start as planned now; `None` without a slot.
    pub slot_start: Option<Time>,
    /// Its slot's end as planned now; `None` without a slot.
    pub slot_end: Option<Time>,
    /// Estimated run time on the nodes of its slot.
    pub estimate: Span,
    /// Spare time in its slot.
    pub spare: Span,
    /// The reservation that is its slot; `None` without a slot.
    pub reservation: Option<ReservationId>,
    /// Its job, once there is one.
    pub job: Option<JobId>,
    /// When its job started.
    pub start: Option<Time>,
    /// When its job ended.
    pub end: Option<Time>,
    /// Times that it failed.
    pub failures: u32,
    /// Nodes as a host list.
    pub nodes: String,
    /// What users should know: planned again, extended, why it failed.
    pub note: String,
}

/// A workflow as commands show it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlowInfo {
    /// Number that the controller gave it.
    pub id: FlowId,
    /// Name for lists.
    pub name: String,
    /// Login name of its owner.
    pub user: String,
    /// How far the workflow has come.
    pub state: FlowState,
    /// When it was asked for.
    pub made: Time,
    /// Deadline; `None` without.
    pub deadline: Option<Time>,
    /// When it is going to be done as planned now, or was done.
    pub end: Option<Time>,
    /// A hold's end, while held.
    pub hold_until: Option<Time>,
    /// Number of tasks.
    pub task_count: u32,
    /// Number of tasks that are done.
    pub done_count: u32,
    /// Price of its slots together.
    pub price: Su,
    /// Account that pays.
    pub account: String,
    /// What users should know: planned again, late, why it failed.
    pub note: String,
    /// Tasks in the order of the file; empty in lists.
    pub tasks: Vec<FlowTaskInfo>,
}

/// Which workflows: all conditions that are not empty must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowFilter {
    /// Only these; all when empty.
    pub ids: Vec<FlowId>,
    /// Only those of these owners, by login name; all when empty.
    pub users: Vec<String>,
    /// Ended ones too, of the time that the controller remembers.
    pub ended: bool,
    /// With their tasks.
    pub tasks: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_again() {
        for one in FlowSlackPolicy::ALL {
            assert_eq!(one.word().parse::<FlowSlackPolicy>(), Ok(one));
        }
        for one in FlowScheduler::ALL {
            assert_eq!(one.word().parse::<FlowScheduler>(), Ok(one));
        }
        let wrong = "speedy".parse::<FlowScheduler>().unwrap_err();
        assert_eq!(wrong, "'speedy' is no scheduler of workflows: use heft, hbmct, fcp, dls");
    }
}
