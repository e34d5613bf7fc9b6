//! Workflows planned on the machine as it is: around running jobs, to their limits, and
//! accepted reservations, on nodes that tasks ask for.
//!
//! The machines of the paper are sets of nodes here: all nodes of a set are equally fast
//! for a task, and a task takes as many of them as it asks for. On sets of one node that
//! takes one task at a time this is the paper's model.
//!
//! What always holds of a plan: no slot is in the way of a running job, of an accepted
//! reservation or of another slot; each task begins when its parents' slots are over and
//! their data is there; nothing begins before the earliest start or ends after the
//! deadline.
//!
//! Source: Zhao and Sakellariou, *Advance Reservation Policies for Workflows* (2006).

use super::DagError;
use crate::appraise::{Appraisal, Inquiry, Tariff};
use crate::{Component, Holds, NodeMask, Scheduler};
use cosy_model::workflow::{FlowDeadline, FlowScheduler, FlowSlackPolicy};
use cosy_model::{NodeShare, ReservationId, Span, Time};
use std::sync::Arc;

mod figures;
mod free_profile;
mod kinds;
mod lanes;
mod placement;
mod planning;
mod search;
#[cfg(test)]
mod tests;

/// A workflow with every name resolved.
#[derive(Clone, Debug)]
pub struct LiveFlow {
    /// Tasks by place.
    pub tasks: Vec<LiveTask>,
    /// Who waits for whom.
    pub edges: Vec<LiveEdge>,
    /// The nodes, divided into sets; no node is in two.
    pub sets: Vec<NodeMask>,
    /// How long a MiB takes from the nodes of one set to those of another, in microseconds.
    pub mib_us: Vec<Vec<u64>>,
    /// No task starts before.
    pub earliest: Time,
    /// By when it has to be done.
    pub deadline: FlowDeadline,
    /// How the first schedule is made.
    pub scheduler: FlowScheduler,
    /// How spare time is shared out.
    pub policy: FlowSlackPolicy,
    /// Sharing out ends when less than this share of the schedule's length is left, in
    /// thousandths.
    pub threshold_permille: u32,
    /// Jobs are told to end so long before their reservation's end, or a tenth of its
    /// length if that is less: slots are so much longer than estimates.
    pub margin: Span,
    /// Reservations that the new slots take the place of.
    pub replaces: Vec<ReservationId>,
    /// How slots are appraised; without, they are not.
    pub pricing: Option<Pricing>,
}

/// How slots are appraised.
#[derive(Clone, Debug)]
pub struct Pricing {
    /// A task as a plain job, and whose delays count. Its starts are not looked at.
    pub inquiry: Inquiry,
    /// Prices: [`LiveTask::tariff`] says which is a task's.
    pub tariffs: Vec<Tariff>,
}

/// A task as it is to be planned.
#[derive(Clone, Debug)]
pub struct LiveTask {
    /// What it asks for. `allowed` are the nodes that it may have at all.
    pub demand: Arc<Component>,
    /// What it holds of resource pools, wherever it is.
    pub holds: Holds,
    /// Estimated run time on the nodes of each set.
    pub estimates: Vec<Span>,
    /// Its prices, by place in [`Pricing::tariffs`].
    pub tariff: usize,
    /// It has its slot already: it runs, or is done.
    pub fixed: Option<StartedSlot>,
}

/// The slot of a task that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StartedSlot {
    /// When it began.
    pub start: Time,
    /// Its end, or when it ended.
    pub end: Time,
    /// The set of nodes that it is on, by place.
    pub set: usize,
}

/// Data from one task to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveEdge {
    /// It is waited for.
    pub from: usize,
    /// Place of the task that waits.
    pub to: usize,
    /// Data, in bytes.
    pub data_bytes: u64,
}

/// A slot for each task, with its price.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LivePlan {
    /// When the schedule without spare time ends.
    pub shortest_end: Time,
    /// The deadline, worked out.
    pub deadline: Time,
    /// Slots in the order of the tasks.
    pub slots: Vec<LiveSlot>,
    /// What the slots do to the queue and cost, by task, as far as that was asked for.
    pub figures: Option<Appraisal>,
}

impl LivePlan {
    /// The figures of a task's slot as those of a reservation by itself.
    pub fn figures_of(&self, task: usize) -> Option<Appraisal> {
        let all = self.figures.as_ref()?;
        Some(Appraisal {
            slots: vec![all.slots.get(task)?.clone()],
            ..Appraisal {
                slots: Vec::new(),
                ..*all
            }
        })
    }
}

/// A task's slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveSlot {
    /// First instant of the slot.
    pub start: Time,
    /// First instant after the slot.
    pub end: Time,
    /// The set of nodes that it is on, by place.
    pub set: usize,
    /// Its part of each node; empty for a task that had its slot already.
    pub shares: Vec<NodeShare>,
    /// The estimate there.
    pub estimate: Span,
    /// How much longer it may take without anyone being late.
    pub spare: Span,
    /// On the critical path.
    pub critical: bool,
}

/// Why there is no plan.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LiveError {
    /// Tasks and edges are no graph.
    #[error(transparent)]
    Graph(#[from] DagError),
    /// The task finds no place in any set, however late: nodes are too small, too few, or
    /// out of service, or there is too little of a resource pool.
    #[error("task {task} fits the nodes of no set")]
    Nowhere {
        /// Index of the task in the workflow.
        task: usize,
    },
    /// The deadline is before the end of the schedule without spare time.
    #[error("the deadline is too early")]
    TooEarly {
        /// The earliest that works.
        shortest_end: Time,
        /// The deadline that was asked for.
        deadline: Time,
    },
    /// The plan could not be made.
    #[error("the plan could not be worked out")]
    Failed,
}

impl LiveFlow {
    /// How long the slot of a task is at least.
    fn length_ms(&self, task: usize, set: usize) -> i64 {
        let estimate = self.tasks[task].estimates[set]
            .0
            .clamp(1, free_profile::NEVER);
        let margin = self.margin.0.max(0).min(estimate / 9 + 1);
        estimate.saturating_add(if self.margin.0 > 0 { margin } else { 0 })
    }

    /// What a task holds of resource pools.
    fn holds(&self, task: usize) -> Holds {
        let known = self.tasks.get(task);
        known.map(|task| task.holds.clone()).unwrap_or_default()
    }

    /// How long that many MiB take, rounded up.
    fn carry_ms(&self, data_mib: i64, from: usize, to: usize) -> i64 {
        if from == to {
            return 0;
        }
        let us = i128::from(data_mib) * i128::from(self.mib_us[from][to]);
        i64::try_from((us + 999) / 1000)
            .map_or(free_profile::NEVER, |ms| ms.min(free_profile::NEVER))
    }
}

impl Scheduler {
    /// A slot for each task, so that all are done by the deadline.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn plan_flow(&self, now: Time, flow: &LiveFlow) -> Result<LivePlan, LiveError> {
        let plan = planning::plan(self, now, flow)?;
        let figures = flow.pricing.as_ref();
        let figures = figures.map(|pricing| figures::of(self, now, flow, pricing, &plan.slots));
        Ok(LivePlan { figures, ..plan })
    }
}
