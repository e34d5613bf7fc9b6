//! Workflows: planned on a snapshot elsewhere, held and booked as reservations of their
//! tasks, all or none, and run to their end.
//!
//! Every task has one job from the beginning, also while the workflow is only held. The job
//! depends on those of the task's parents; with a deadline it is attached to a reservation,
//! the task's slot, and starts when both let it. What becomes of the job becomes of the
//! task: whatever ends a job tells its workflow at the end of the turn.
//!
//! What always holds: a workflow lives as long as one of its jobs; a task that is not over
//! has its job; the rows of a workflow and those of its jobs and reservations are written
//! in one transaction.
//!
//! Source: Zhao and Sakellariou, *Advance Reservation Policies for Workflows* (2006).

pub(crate) mod book;
pub(crate) mod check;
pub(crate) mod course;
pub(crate) mod grow;
pub(crate) mod hold;
pub(crate) mod invariants;
pub(crate) mod plan;
pub(crate) mod procedures;
pub(crate) mod replan;
pub(crate) mod resolve;
pub(crate) mod show;
pub(crate) mod shown;
pub(crate) mod submit;

pub(crate) use plan::FlowPlans;
pub(crate) use show::FlowList;

use crate::jobs::job::Job;
use crate::record::{FlowRow, FlowTaskRow, OfFlow, ReservationRow};
use crate::workflows::check::Graph;
use crate::workflows::course::TaskEnd;
use crate::workflows::plan::FlowPending;
use cosy_model::workflow::{FlowSpec, FlowState, FlowTaskState};
use cosy_model::{ClockStep, FlowId, JobId, Refusal, RefusalCode, Span, Su, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Workflows that are over are remembered for so long.
pub(crate) const REMEMBER: Span = Span::from_secs(86_400);

/// A workflow in memory.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(in crate::workflows) row: FlowRow,
    /// Without scripts and environment.
    pub(in crate::workflows) spec: FlowSpec,
    pub(in crate::workflows) graph: Graph,
    pub(in crate::workflows) tasks: Vec<FlowTaskRow>,
    /// Tasks whose job is not over.
    pub(in crate::workflows) open: u32,
}

/// What is known of it.
impl Flow {
    pub fn row(&self) -> &FlowRow {
        &self.row
    }

    /// Without scripts and environment.
    pub fn spec(&self) -> &FlowSpec {
        &self.spec
    }

    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    pub fn tasks(&self) -> &[FlowTaskRow] {
        &self.tasks
    }
}

impl Flow {
    pub fn new(row: FlowRow, spec: FlowSpec, graph: Graph, tasks: Vec<FlowTaskRow>) -> Self {
        let open = tasks.iter().filter(|t| t.end.is_none()).count();
        Self {
            row,
            spec,
            graph,
            open: u32::try_from(open).unwrap_or(u32::MAX),
            tasks,
        }
    }

    pub fn name_of(&self, task: u32) -> &str {
        let task = self.spec.tasks.get(task as usize);
        task.map_or("", |task| task.name.as_str())
    }

    /// All that wait for a task, directly or not, by place.
    pub fn descendants(&self, task: u32) -> Vec<u32> {
        let mut found = BTreeSet::new();
        let mut open = vec![task];
        while let Some(next) = open.pop() {
            for child in &self.graph.children[next as usize] {
                if found.insert(*child) {
                    open.push(*child);
                }
            }
        }
        found.into_iter().collect()
    }
}

/// Where a task is planned again.
pub(crate) struct NewSlot {
    /// Start and end.
    pub slot: (Time, Time),
    pub estimate: Span,
    /// Names of the nodes among which it is.
    pub set: String,
    pub price: Su,
}

/// All that the controller knows of workflows.
#[derive(Debug)]
pub(crate) struct Workflows {
    /// Live ones, and those that were over within the last day.
    all: BTreeMap<FlowId, Flow>,
    /// How many of them live.
    live: usize,
    next: u64,
    /// Plans under way.
    plans: FlowPlans,
    /// Jobs that have ended in this turn.
    ended: Vec<TaskEnd>,
    /// When those that are over are forgotten.
    forget: BTreeSet<(Time, FlowId)>,
    /// Those whose slots may no longer fit.
    doubtful: BTreeSet<FlowId>,
    /// Until then none of these is planned again.
    pauses: BTreeMap<FlowId, Time>,
    dirty: BTreeSet<FlowId>,
    dirty_tasks: BTreeSet<OfFlow>,
}

impl Workflows {
    /// No workflow yet.
    pub fn new(now: Time) -> Self {
        Self {
            all: BTreeMap::new(),
            live: 0,
            next: 0,
            plans: FlowPlans::new(now),
            ended: Vec::new(),
            forget: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            pauses: BTreeMap::new(),
            dirty: BTreeSet::new(),
            dirty_tasks: BTreeSet::new(),
        }
    }

    /// The number of the next workflow.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Numbers go on there.
    pub fn go_on_at(&mut self, next: u64) {
        self.next = next;
    }

    pub fn get(&self, id: FlowId) -> Option<&Flow> {
        self.all.get(&id)
    }

    pub fn task(&self, of: OfFlow) -> Option<&FlowTaskRow> {
        self.get(of.flow)?.tasks.get(of.task as usize)
    }

    /// The workflow goes another way.
    pub fn goes_over(&mut self, id: FlowId, state: FlowState) -> bool {
        let row = self.row_mut(id);
        row.map(|row| row.state = state).is_some()
    }

    /// A task's job will not run: nobody needs it any more.
    pub fn task_released(&mut self, of: OfFlow) {
        if let Some(task) = self.task_mut(of) {
            task.state = FlowTaskState::Released;
        }
    }

    /// The job of a task has ended; `released` when that was not its own doing.
    pub fn task_ended(&mut self, ended: &TaskEnd, released: bool) {
        let good = ended.is_good();
        if let Some(task) = self.task_mut(ended.of) {
            task.start = ended.start;
            task.end = Some(ended.end);
            task.nodes.clone_from(&ended.nodes);
            task.state = match (released, good) {
                (true, _) => FlowTaskState::Released,
                (false, true) => FlowTaskState::Done,
                (false, false) => FlowTaskState::Failed,
            };
            if !released && !good {
                task.failures += 1;
                task.note = ended.words();
            }
        }
        self.task_over(ended.of.flow);
    }

    /// A task's slot is over before its job could start: it gets another one.
    pub fn needs_slot(&mut self, of: OfFlow) {
        if let Some(task) = self.task_mut(of) {
            task.replan = true;
            task.note = "its slot was over before it could start".to_owned();
            self.doubt(of.flow);
        }
    }

    /// A task has another slot. Tells its job.
    pub fn has_new_slot(&mut self, of: OfFlow, new: NewSlot) -> Option<JobId> {
        let task = self.task_mut(of)?;
        task.replan = false;
        task.slot = Some(new.slot);
        task.estimate = new.estimate;
        task.set = new.set;
        task.price = new.price;
        task.note = "planned again".to_owned();
        Some(task.job)
    }

    /// A task's row, to be changed: it is written at the end of the turn.
    pub(in crate::workflows) fn task_mut(&mut self, of: OfFlow) -> Option<&mut FlowTaskRow> {
        let flow = self.all.get_mut(&of.flow)?;
        self.dirty_tasks.insert(of);
        flow.tasks.get_mut(of.task as usize)
    }

    /// A workflow's row, to be changed: it is written at the end of the turn.
    pub(in crate::workflows) fn row_mut(&mut self, id: FlowId) -> Option<&mut FlowRow> {
        let flow = self.all.get_mut(&id)?;
        self.dirty.insert(id);
        Some(&mut flow.row)
    }

    /// A task's slot is where its reservation is, as long as that lives.
    pub fn follow(&mut self, row: &ReservationRow) {
        let Some(of) = row.flow.filter(|_| row.state.is_live()) else {
            return;
        };
        let slot = Some((row.start, row.end));
        let known = self.task(of).filter(|t| t.reservation == Some(row.id));
        if known.is_some_and(|task| task.slot != slot)
            && let Some(task) = self.task_mut(of)
        {
            task.slot = slot;
        }
    }

    /// True for a task's job whose slot is of no use any more.
    pub fn awaits_slot(&self, job: &Job) -> bool {
        let task = job.submitted().flow.and_then(|of| self.task(of));
        task.is_some_and(|task| task.replan && task.job == job.id())
    }

    /// The clock on the wall was set: holds and pauses last as long.
    pub fn clock_set(&mut self, step: ClockStep) {
        for until in self.pauses.values_mut() {
            *until = until.set_by(step);
        }
        let held = self.all.values_mut();
        for flow in held.filter(|flow| flow.row.state == FlowState::Held) {
            flow.row.hold_until = flow.row.hold_until.map(|at| at.set_by(step));
            self.dirty.insert(flow.row.id);
        }
    }

    /// When something happens next by itself.
    pub fn next_due(&self) -> Option<Time> {
        self.forget.first().map(|(at, _)| *at)
    }

    /// The number of the next workflow is taken.
    pub fn number_taken(&mut self) {
        self.next += 1;
    }

    /// All that are remembered.
    pub fn all(&self) -> impl Iterator<Item = &Flow> {
        self.all.values()
    }

    /// Takes one of the store into memory, unless it was over too long ago.
    pub fn enter_loaded(&mut self, now: Time, flow: Flow) -> bool {
        let id = flow.row.id;
        match flow.row.closed {
            Some(at) if at + REMEMBER <= now => return false,
            Some(at) => drop(self.forget.insert((at + REMEMBER, id))),
            None => self.live += 1,
        }
        if flow.row.is_live() {
            self.doubtful.insert(id);
        }
        self.all.insert(id, flow);
        true
    }

    /// Its slots may no longer fit.
    pub fn doubt(&mut self, id: FlowId) {
        self.doubtful.insert(id);
    }

    /// Tasks whose jobs have ended in this turn.
    pub fn take_ended(&mut self) -> Vec<TaskEnd> {
        std::mem::take(&mut self.ended)
    }

    /// Forgets those that were over long ago.
    pub fn forget_old(&mut self, now: Time) {
        while let Some(&(at, id)) = self.forget.first()
            && at <= now
        {
            self.forget.pop_first();
            self.all.remove(&id);
        }
    }

    /// One task's job more is over.
    pub fn task_over(&mut self, id: FlowId) {
        if let Some(flow) = self.all.get_mut(&id) {
            flow.open = flow.open.saturating_sub(1);
        }
    }

    /// For whom that plan was made.
    pub fn take_plan(&mut self, plan: u64) -> Option<FlowPending> {
        self.plans.take(plan)
    }

    /// It may be planned again at once.
    pub fn pauses_no_more(&mut self, id: FlowId) {
        self.pauses.remove(&id);
    }
}

pub(crate) fn no_flow(id: FlowId) -> Refusal {
    Refusal::new(
        RefusalCode::NotFound,
        format!("there is no workflow {id}, or it was over more than a day ago"),
    )
}
