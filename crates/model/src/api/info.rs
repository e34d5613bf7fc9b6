//! Rows of answers: queues, nodes, ended jobs and steps, events, figures of the controller.

use super::filter::{Cursor, JobRef};
use crate::{Amounts, JobId, JobState, Time, Uid};
use serde::{Deserialize, Serialize};

/// Kind of a whole turn of the controller, with its end and all that was decided in it, in the
/// meter.
pub const WHOLE_TURN: &str = "whole turn";

/// Times by which turns of the controller are counted, in milliseconds.
pub const TURN_BOUNDS_MS: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/// What a controller is doing, where a cluster has several.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControllerRole {
    /// It answers commands and starts jobs.
    Leads,
    /// It led last; nobody has taken the lead since.
    Led,
    /// It takes the lead when the leader fails.
    StandsBy,
}

/// One of several controllers of a cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ControllerRow {
    /// Its name in the configuration.
    pub name: String,
    /// Where nodes reach it, as `HOST:PORT`.
    pub address: String,
    /// What it is doing.
    pub role: ControllerRole,
    /// How long it was not heard, in milliseconds.
    pub silent_ms: u64,
}

impl ControllerRow {
    /// Whether it was heard lately: who stands by says so every second.
    pub const fn is_heard(&self) -> bool {
        self.silent_ms < 5000
    }
}

/// How long one kind of request, or of anything else that happens, holds others up. All
/// since the controller was started.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MeterRow {
    /// Which kind: [`crate::api::Request::kind`], or another word.
    pub kind: String,
    /// How often it has happened.
    pub count: u64,
    /// Longest time in one turn of the controller, in microseconds.
    pub longest_turn_us: u64,
    /// User whose request had the longest turn; for administrators only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_turn_of: Option<Uid>,
    /// Time in turns altogether, in microseconds.
    pub turns_us: u64,
    /// How many turns took at most as long as each of [`TURN_BOUNDS_MS`] and longer than the
    /// one before; the last are all longer ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turn_counts: Vec<u64>,
    /// Longest time that the controller's thread was at work in one turn, in microseconds: less
    /// than the turn where it waited for a processor.
    #[serde(default)]
    pub longest_cpu_us: u64,
    /// User whose request had the turn with the most time at work; for administrators only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_cpu_of: Option<Uid>,
    /// Time at work in turns altogether, in microseconds.
    #[serde(default)]
    pub cpu_us: u64,
    /// As `turn_counts`, by the time at work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_counts: Vec<u64>,
    /// Longest read of the store, in microseconds.
    pub longest_read_us: u64,
    /// User whose request had the longest read; for administrators only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_read_of: Option<Uid>,
}

/// How much of what is limited is in use now.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BudgetRow {
    /// What is counted, in words for administrators.
    pub what: String,
    /// Amount in use at this moment.
    pub used: u64,
    /// Most that there was since the controller was started.
    pub peak: u64,
    /// Limit of one user.
    pub per_user: u64,
    /// Limit of all users together, the reserve for administrators beside it.
    pub in_all: u64,
    /// How often somebody was refused.
    pub refused: u64,
}

/// A queue as commands show it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct QueueInfo {
    /// As configured; the state is the present one.
    pub spec: crate::QueueSpec,
    /// True for the default queue.
    pub default: bool,
    /// Number of jobs that wait in it.
    pub waiting: u32,
    /// Number of jobs out of it that run.
    pub running: u32,
    /// Nodes in all.
    pub nodes: u32,
    /// Nodes that can take jobs.
    pub nodes_up: u32,
    /// Cores in all, and held by jobs of any queue.
    pub cores: u32,
    /// Cores of its nodes that jobs of any queue hold.
    pub cores_used: u32,
    /// The asking user's level.
    pub your_level: crate::AccessLevel,
    /// How its jobs make room for more important ones; `None`: they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempt: Option<crate::policy::PreemptMode>,
    /// Between the order to make room and its force.
    #[serde(default)]
    pub grace: crate::Span,
    /// What has become of starts that were predicted in it.
    #[serde(default)]
    pub predictions: PredictionRecord,
}

/// What has become of predicted starts since the controller was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PredictionRecord {
    /// Jobs that have started no later than they were first told, within a tolerance.
    pub kept: u64,
    /// Jobs that waited longer.
    pub missed: u64,
}

/// How long before a start it was told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PredictedWait {
    /// Less than 10 minutes.
    Minutes,
    /// Less than an hour.
    Hour,
    /// Less than 6 hours.
    Hours,
    /// Less than a day.
    Day,
    /// A day or more.
    Days,
}

impl PredictedWait {
    /// The kind of a wait.
    pub fn of(wait: crate::Span) -> Self {
        match wait.secs() {
            ..600 => Self::Minutes,
            600..3600 => Self::Hour,
            3600..21_600 => Self::Hours,
            21_600..86_400 => Self::Day,
            _ => Self::Days,
        }
    }

    /// In words: what stands before "ahead".
    pub const fn words(self) -> &'static str {
        match self {
            Self::Minutes => "less than 10 min",
            Self::Hour => "10 min to 1 h",
            Self::Hours => "1 h to 6 h",
            Self::Day => "6 h to 24 h",
            Self::Days => "24 h and more",
        }
    }
}

/// A node as commands show it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeInfo {
    /// Name as in the configuration.
    pub name: String,
    /// What it does, in one word: `cosy_view::node::NodeCondition` has them all.
    pub state: String,
    /// Why it is drained or down.
    pub reason: String,
    /// User who gave the reason; empty where nobody did.
    #[serde(default)]
    pub reason_by: String,
    /// When it began; unknown in what earlier releases wrote.
    #[serde(default)]
    pub reason_since: Option<Time>,
    /// What the node has: cores, memory, devices.
    pub amounts: Amounts,
    /// What jobs hold of it.
    pub used: Amounts,
    /// Words that jobs may ask nodes for.
    pub features: Vec<String>,
    /// Switches that it hangs on, from the top down with dots: `top.leaf1`; empty without any.
    #[serde(default)]
    pub switch: String,
    /// Nodes with a lower weight are taken first.
    #[serde(default)]
    pub weight: u32,
    /// Queues that it is in.
    pub queues: Vec<String>,
    /// Number of jobs on it.
    pub jobs: u32,
    /// Cosy version of its daemon, empty while unknown.
    pub version: String,
    /// When it was last heard of.
    pub last_seen: Option<Time>,
    /// By how many milliseconds its clock is ahead of the controller's, behind if less than
    /// zero; `None` while its daemon has not told.
    #[serde(default)]
    pub skew_ms: Option<i64>,
    /// The machine under it, as far as its daemon tells.
    #[serde(default)]
    pub machine: crate::node::Machine,
    /// Types of its GPUs, by number.
    #[serde(default)]
    pub gpu_types: Vec<String>,
    /// Cores that jobs hold, by number.
    #[serde(default)]
    pub cores_held: Vec<u32>,
    /// GPUs that jobs hold, by number.
    #[serde(default)]
    pub gpus_held: Vec<u32>,
    /// Whether it is switched on; `None` where nobody has switched it yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<crate::PowerInfo>,
}

/// How a job that was waited for has ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EndedJob {
    /// The job, or the task of an array.
    pub job: JobRef,
    /// The state in which it ended.
    pub state: JobState,
    /// Exit code of its program; 0 when a signal ended it.
    pub exit_code: i32,
    /// Signal that ended its script; 0 for none.
    pub signal: i32,
    /// What there is to say of it: which of its nodes was lost, say. Empty without.
    #[serde(default)]
    pub note: String,
}

/// What a while of archiving has done.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Archived {
    /// Jobs that ended before this moment are meant.
    pub before: Time,
    /// Jobs that went into archives.
    pub jobs: u64,
    /// Jobs that ended before and are in the store, counted up to a million.
    pub left: u64,
    /// Those that are left stay: they belong to arrays or workflows that are not over, or their
    /// archive cannot be written. Without, the next request goes on.
    pub done: bool,
    /// Archives that cannot be written, and why.
    #[serde(default)]
    pub failed: Vec<String>,
}

/// Where a list of steps goes on. Commands hand it back as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepCursor {
    /// Its jobs; history goes on there.
    pub jobs: Cursor,
    /// The last of those before, of which some steps are told: its attempt, and the number of that
    /// attempt's records up to which all are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<(JobId, crate::Attempt, u64)>,
}

/// An ended step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepRow {
    /// Its job as users name it.
    pub job: JobRef,
    /// Attempt of the job that the step belongs to.
    pub attempt: crate::Attempt,
    /// What is kept of it.
    pub record: crate::step::StepRecord,
}

/// Something that happened, out of the event table: text, for the table may be of another release
/// and have words that this one does not know. What is written now is a [`crate::history::Event`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HistoryEvent {
    /// Number of the event; later ones have higher numbers.
    pub seq: u64,
    /// Time on the wall's clock.
    pub at: Time,
    /// What has happened, in one word.
    pub what: String,
    /// Who: user name, `node NAME`, or `controller`.
    pub who: String,
    /// Which object: `job 12`, `node n1`, `queue day`.
    pub object: String,
    /// The rest in words.
    pub detail: String,
}
