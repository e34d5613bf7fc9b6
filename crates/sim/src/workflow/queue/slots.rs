//! Slots: planned on arrival, begun in time or earlier, grown and planned again.
//!
//! As the controller does: a slot that is too short grows by an eighth of the estimate, at
//! least half a minute, or by as much of that as is free; over slots of its own workflow if
//! need be, which are planned again. A deadline that cannot be kept any more is given up for
//! the earliest end that can.

use super::simulation::{Event, Run};
use super::state::{TaskRef, TaskSlot, TaskState};
use super::{FlowEnd, Scheme};
use cosy_model::workflow::{FlowDeadline, FlowScheduler};
use cosy_model::{NodeShare, Span, Time};
use cosy_sched::workflow::live::{LiveEdge, LiveError, LiveFlow, LivePlan, LiveTask, StartedSlot};
use cosy_sched::{Block, NodeMask};
use std::sync::Arc;

/// A slot grows by this part of the estimate.
const PART: i64 = 8;
/// A slot grows by at least this.
const STEP: Span = Span::from_secs(30);
/// A slot does not grow by less than this.
const LEAST: Span = Span::from_secs(1);

impl Run<'_> {
    /// A workflow comes: its deadline is that of a plan around everything there is now.
    pub fn arrive(&mut self, now: Time, flow: usize) {
        let slack = FlowDeadline::Slack(self.setting.slack_percent.saturating_mul(10));
        let live = self.live(now, flow, slack);
        let Ok(plan) = self.scheduler.plan_flow(now, &live) else {
            self.states[flow].end = Some(FlowEnd::Refused);
            return;
        };
        self.states[flow].deadline = plan.deadline;
        match self.setting.scheme {
            Scheme::Plain => self.release_jobs(flow),
            Scheme::Slots { .. } => {
                self.outcome.least_spare.push(least_spare(&plan));
                self.book(flow, plan);
            }
        }
    }

    fn live(&self, now: Time, flow: usize, deadline: FlowDeadline) -> LiveFlow {
        let workflow = &self.simulation.flows[flow];
        let tasks = workflow.estimates.iter().zip(&self.states[flow].tasks);
        let task = |(estimate, task): (&Span, &TaskState)| LiveTask {
            demand: Arc::clone(&self.task),
            holds: cosy_sched::Holds::NONE,
            estimates: vec![*estimate],
            tariff: 0,
            fixed: fixed(task),
        };
        let edge = |(from, to): &(usize, usize)| LiveEdge {
            from: *from,
            to: *to,
            data_bytes: 0,
        };
        let planned =
            |task: &usize| matches!(self.states[flow].tasks[*task], TaskState::Planned(_));
        LiveFlow {
            tasks: tasks.map(task).collect(),
            edges: workflow.edges.iter().map(edge).collect(),
            sets: vec![NodeMask::all(self.simulation.machine.nodes as usize)],
            mib_us: vec![vec![0]],
            earliest: now,
            deadline,
            scheduler: FlowScheduler::default(),
            policy: self.setting.policy,
            threshold_permille: super::super::THRESHOLD_PERCENT as u32 * 10,
            margin: Span::ZERO,
            replaces: (0..workflow.estimates.len())
                .filter(planned)
                .map(|task| TaskRef { flow, task }.slot())
                .collect(),
            pricing: None,
        }
    }

    /// The slots of a plan take the place of those that have not begun.
    fn book(&mut self, flow: usize, plan: LivePlan) {
        for (task, planned) in plan.slots.into_iter().enumerate() {
            if planned.shares.is_empty() {
                continue;
            }
            let of = TaskRef { flow, task };
            let slot = TaskSlot {
                start: planned.start,
                end: planned.end,
                shares: planned.shares,
            };
            self.reserve(of, &slot);
            self.expect(slot.start, Event::SlotStart(of));
            self.states[flow].tasks[task] = TaskState::Planned(slot);
        }
    }

    fn reserve(&mut self, of: TaskRef, slot: &TaskSlot) {
        self.scheduler.add_block(Block {
            holds: Vec::new(),
            reservation: of.slot(),
            shares: slot.shares.clone(),
            start: slot.start,
            end: slot.end,
        });
    }

    pub fn slot_start(&mut self, now: Time, of: TaskRef) {
        if let TaskState::Planned(slot) = &self.states[of.flow].tasks[of.task]
            && slot.start == now
        {
            let slot = slot.clone();
            self.begin(now, of, slot);
        }
    }

    fn begin(&mut self, now: Time, of: TaskRef, slot: TaskSlot) {
        debug_assert!(
            self.simulation.flows[of.flow]
                .is_ready(of.task, |task| self.states[of.flow].is_done(task)),
            "{of:?} begins before its parents are done"
        );
        self.scheduler.remove_block(of.slot());
        self.scheduler
            .start_running(of.job(), slot.shares.clone(), slot.end, true);
        let actual = self.simulation.flows[of.flow].actual[of.task];
        self.expect(now + actual, Event::TaskEnd(of));
        self.expect(slot.end, Event::SlotEnd(of));
        self.states[of.flow].tasks[of.task] = TaskState::Running(now, slot);
    }

    /// Tasks whose parents are done begin where their nodes are free until their slots end.
    pub fn begin_early(&mut self, now: Time) {
        for flow in 0..self.states.len() {
            if self.states[flow].end.is_some() || self.simulation.flows[flow].at > now {
                continue;
            }
            for task in 0..self.states[flow].tasks.len() {
                self.try_early(now, TaskRef { flow, task });
            }
        }
    }

    fn try_early(&mut self, now: Time, of: TaskRef) {
        let state = &self.states[of.flow];
        let TaskState::Planned(slot) = &state.tasks[of.task] else {
            return;
        };
        if !self.simulation.flows[of.flow].is_ready(of.task, |task| state.is_done(task)) {
            return;
        }
        let slot = slot.clone();
        self.scheduler.remove_block(of.slot());
        let length = slot.end.since(now);
        match self.scheduler.are_free(now, &slot.shares, now, length) {
            true => self.begin(now, of, slot),
            false => self.reserve(of, &slot),
        }
    }

    /// A slot is over, and its task is not done.
    pub fn slot_end(&mut self, now: Time, of: TaskRef) {
        let slot = match &self.states[of.flow].tasks[of.task] {
            TaskState::Running(_, slot) if slot.end == now => slot.clone(),
            TaskState::Running(..)
            | TaskState::Open
            | TaskState::Planned(_)
            | TaskState::Done(..)
            | TaskState::Ended => {
                return;
            }
        };
        let replan = matches!(self.setting.scheme, Scheme::Slots { replan: true, .. });
        if !replan || self.states[of.flow].end.is_some() || !self.grow(now, of, slot) {
            self.fail(now, of);
        }
    }

    /// Makes a slot longer; false when its nodes are others' from now on.
    fn grow(&mut self, now: Time, of: TaskRef, mut slot: TaskSlot) -> bool {
        let estimate = self.simulation.flows[of.flow].estimates[of.task];
        let step = Span(estimate.0 / PART).max(STEP);
        self.scheduler.end(of.job());
        let (by, over) = match self.free_behind(now, &slot.shares, step) {
            Some(by) => (by, false),
            None => match self.free_over_own(now, of.flow, &slot.shares, step) {
                Some(by) => (by, true),
                None => return false,
            },
        };
        slot.end = now + by;
        let shares = slot.shares.clone();
        self.scheduler
            .start_running(of.job(), shares, slot.end, true);
        self.expect(slot.end, Event::SlotEnd(of));
        let end = slot.end;
        if let TaskState::Running(_, running_slot) = &mut self.states[of.flow].tasks[of.task] {
            *running_slot = slot;
        }
        if over || self.makes_late(of, end) {
            self.replan(now, of.flow);
        }
        true
    }

    fn free_behind(&self, now: Time, shares: &[NodeShare], step: Span) -> Option<Span> {
        let halves = std::iter::successors(Some(step), |span| Some(Span(span.0 / 2)));
        let mut worth = halves.take_while(|span| *span >= LEAST);
        worth.find(|span| self.scheduler.are_free(now, shares, now, *span))
    }

    fn free_over_own(
        &self,
        now: Time,
        flow: usize,
        shares: &[NodeShare],
        step: Span,
    ) -> Option<Span> {
        let mut without = self.scheduler.clone();
        for (task, state) in self.states[flow].tasks.iter().enumerate() {
            if matches!(state, TaskState::Planned(_)) {
                without.remove_block(TaskRef { flow, task }.slot());
            }
        }
        without.are_free(now, shares, now, step).then_some(step)
    }

    /// True when a child's slot begins before `end`.
    fn makes_late(&self, of: TaskRef, end: Time) -> bool {
        let tasks = &self.states[of.flow].tasks;
        let mut edges = self.simulation.flows[of.flow].edges.iter();
        edges.any(|(from, to)| {
            *from == of.task && matches!(&tasks[*to], TaskState::Planned(slot) if slot.start < end)
        })
    }

    /// What has not begun is planned again.
    fn replan(&mut self, now: Time, flow: usize) {
        self.outcome.replans += 1;
        let deadline = self.states[flow].deadline;
        let mut live = self.live(now, flow, FlowDeadline::By(deadline));
        let mut plan = self.scheduler.plan_flow(now, &live);
        if let Err(LiveError::TooEarly { shortest_end, .. }) = plan {
            live.deadline = FlowDeadline::By(shortest_end);
            plan = self.scheduler.plan_flow(now, &live);
        }
        match plan {
            Ok(plan) => self.book(flow, plan),
            Err(_) => {
                self.states[flow].end = Some(FlowEnd::Failed);
                self.give_back(flow);
            }
        }
    }
}

/// How much longer than its estimate the slot of the least lucky task is, in thousandths.
fn least_spare(plan: &LivePlan) -> i64 {
    let spare = plan.slots.iter().map(|slot| {
        let length = slot.end.since(slot.start).0;
        (length - slot.estimate.0) * 1000 / slot.estimate.0.max(1)
    });
    spare.min().unwrap_or(0)
}

fn fixed(task: &TaskState) -> Option<StartedSlot> {
    let (start, end) = match task {
        TaskState::Running(start, slot) => (*start, slot.end),
        TaskState::Done(start, end) => (*start, *end),
        TaskState::Open | TaskState::Planned(_) | TaskState::Ended => return None,
    };
    Some(StartedSlot { start, end, set: 0 })
}
