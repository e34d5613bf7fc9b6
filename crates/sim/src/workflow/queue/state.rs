//! A workflow, how it is run, and what has become of its tasks so far.

use cosy_model::{JobId, NodeShare, ReservationId, Span, Time};
use cosy_sched::workflow::FlowSlackPolicy;
use serde::Serialize;

/// Jobs of the queue have lower numbers than tasks.
const FIRST_TASK: u64 = 1 << 40;
/// Numbers of a workflow's tasks.
const PER_FLOW: u64 = 1 << 20;

/// A workflow that arrives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flow {
    /// When it is submitted.
    pub at: Time,
    /// Estimated run time of each task.
    pub estimates: Vec<Span>,
    /// How long each really takes.
    pub actual: Vec<Span>,
    /// Indices of parent and child.
    pub edges: Vec<(usize, usize)>,
}

impl Flow {
    /// True when all parents of a task are among those that are done.
    pub(super) fn is_ready(&self, task: usize, done: impl Fn(usize) -> bool) -> bool {
        let mut parents = self.edges.iter().filter(|(_, to)| *to == task);
        parents.all(|(from, _)| done(*from))
    }
}

/// Whether workflows have slots, and what is done when one is too short.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Scheme {
    /// Each task is a job of the queue once its parents are done; no reservations.
    Plain,
    /// A slot for each task.
    Slots {
        /// A task starts before its slot when its parents are done and its nodes are free.
        early: bool,
        /// A slot that is too short grows, and the rest is planned again; otherwise the
        /// task is ended there.
        replan: bool,
    },
}

impl Scheme {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Plain,
        Self::Slots {
            early: false,
            replan: false,
        },
        Self::Slots {
            early: true,
            replan: false,
        },
        Self::Slots {
            early: false,
            replan: true,
        },
        Self::Slots {
            early: true,
            replan: true,
        },
    ];

    /// The scheme's name in tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Plain => "jobs, no slots",
            Self::Slots { early, replan } => match (early, replan) {
                (false, false) => "slots, kill",
                (true, false) => "slots, kill, early",
                (false, true) => "slots, replan",
                (true, true) => "slots, replan, early",
            },
        }
    }
}

/// How workflows are planned and run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct RunSettings {
    /// Whether workflows have slots, and what is done when one is too short.
    pub scheme: Scheme,
    /// The deadline is so much behind the end of the first schedule, in per cent of its
    /// length.
    pub slack_percent: u32,
    /// How that time is shared out.
    pub policy: FlowSlackPolicy,
}

/// What became of a workflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowEnd {
    /// No plan could be made for it.
    Refused,
    /// A task was ended before it was done.
    Failed,
    /// All tasks were done by then.
    Done(Time),
}

/// A task of a workflow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct TaskRef {
    pub flow: usize,
    pub task: usize,
}

impl TaskRef {
    const fn number(self) -> u64 {
        FIRST_TASK + self.flow as u64 * PER_FLOW + self.task as u64
    }

    pub const fn job(self) -> JobId {
        JobId(self.number())
    }

    pub const fn slot(self) -> ReservationId {
        ReservationId(self.number())
    }

    /// The task that is this job; `None` for one of the queue.
    pub const fn of(job: JobId) -> Option<Self> {
        match job.0.checked_sub(FIRST_TASK) {
            None => None,
            Some(number) => Some(Self {
                flow: (number / PER_FLOW) as usize,
                task: (number % PER_FLOW) as usize,
            }),
        }
    }
}

/// What is reserved for a task: when, and on which nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TaskSlot {
    pub start: Time,
    pub end: Time,
    pub shares: Vec<NodeShare>,
}

/// What has become of a task so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum TaskState {
    /// It waits for its parents, or in the queue, without a slot.
    Open,
    /// Its slot has not begun.
    Planned(TaskSlot),
    /// Since then, in that slot.
    Running(Time, TaskSlot),
    /// When it ran: start and end.
    Done(Time, Time),
    /// It was ended before it was done, or its slot was given back.
    Ended,
}

/// What has become of a workflow so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FlowState {
    pub tasks: Vec<TaskState>,
    pub deadline: Time,
    pub end: Option<FlowEnd>,
}

impl FlowState {
    pub fn is_done(&self, task: usize) -> bool {
        matches!(self.tasks[task], TaskState::Done(..))
    }
}
