//! Programs that switch nodes, as they are ordered and end, and plans of whom they are needed for.

use cosy_model::{JobId, Span, Time};
use cosy_sched::Scheduler;

/// Who would have which nodes as soon as they are up?
#[derive(Debug)]
pub struct WakeQuestion {
    /// The time of the snapshot.
    pub now: Time,
    /// What begins later is not wanted.
    pub until: Time,
    /// A copy of the planner: what is planned on it changes nothing.
    pub scheduler: Scheduler,
}

/// How a program that switches nodes has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PowerEnd {
    /// Which one.
    pub program: PowerProgram,
    /// What it was to switch.
    pub nodes: Vec<String>,
    /// Why it has failed, in one sentence.
    pub failure: Option<String>,
}

/// A program that switches nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PowerProgram {
    /// It switches nodes off.
    Suspend,
    /// It switches nodes on.
    Resume,
    /// It is told of nodes that did not come up.
    ResumeFailed,
}

impl PowerProgram {
    /// In one or two words.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::ResumeFailed => "resume fail",
        }
    }
}

/// A program to be run for nodes that are switched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PowerOrder {
    /// Which one.
    pub program: PowerProgram,
    /// Its path and arguments; the nodes follow as a host list.
    pub command: Vec<String>,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// For whom they are switched on.
    pub jobs: Vec<ResumedJob>,
    /// It is ended when it takes longer.
    pub time: Span,
}

/// A job for which nodes are switched on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResumedJob {
    /// The job, or the task of an array.
    pub job: JobId,
    /// Those that are switched on for it.
    pub nodes: Vec<String>,
    /// Name of its queue.
    pub queue: String,
    /// Features that it asks for.
    pub features: Vec<String>,
    /// It has its nodes to itself.
    pub exclusive: bool,
}
