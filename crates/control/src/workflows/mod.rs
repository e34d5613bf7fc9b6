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

mod book;
mod cancel;
mod check;
mod course;
mod grow;
mod hold;
pub(crate) mod invariants;
mod load;
mod plan;
mod price;
mod replan;
mod resolve;
mod show;
mod shown;
mod submit;

pub(crate) use plan::FlowPlans;
pub(crate) use show::FlowList;

use crate::controller::Controller;
use crate::event::{Caller, ClientId};
use crate::jobs::job::Job;
use crate::record::{FlowRow, FlowTaskRow, OfFlow, Record, ReservationRow};
use crate::workflows::check::Graph;
use crate::workflows::course::TaskEnd;
use cosy_model::api::{Reply, Request};
use cosy_model::workflow::{FlowSpec, FlowState};
use cosy_model::{ClockStep, FlowId, Refusal, RefusalCode, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Workflows that are over are remembered for so long.
const REMEMBER: Span = Span::from_secs(86_400);

/// A workflow in memory.
#[derive(Debug)]
pub(crate) struct Flow {
    pub row: FlowRow,
    /// Without scripts and environment.
    pub spec: FlowSpec,
    pub graph: Graph,
    pub tasks: Vec<FlowTaskRow>,
    /// Tasks whose job is not over.
    pub open: u32,
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

    /// A task's row, to be changed: it is written at the end of the turn.
    pub fn task_mut(&mut self, of: OfFlow) -> Option<&mut FlowTaskRow> {
        let flow = self.all.get_mut(&of.flow)?;
        self.dirty_tasks.insert(of);
        flow.tasks.get_mut(of.task as usize)
    }

    /// A workflow's row, to be changed: it is written at the end of the turn.
    pub fn row_mut(&mut self, id: FlowId) -> Option<&mut FlowRow> {
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
        let task = job.submitted.flow.and_then(|of| self.task(of));
        task.is_some_and(|task| task.replan && task.job == job.id)
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
}

impl Controller {
    pub(crate) fn flow_request(
        &mut self,
        now: Time,
        client: ClientId,
        caller: &Caller,
        key: Option<[u8; 16]>,
        request: Request,
    ) -> Result<Option<Reply>, Refusal> {
        match request {
            Request::PlanFlow { spec } => {
                check::check(now, &spec)?;
                self.plan_flow(now, client, caller, *spec)
            }
            Request::SubmitFlow { spec, hold } => {
                self.submit_flow(now, client, caller, key, *spec, hold)
            }
            Request::ConfirmFlow { id } => self.confirm_flow(now, caller, id).map(Some),
            Request::CancelFlow { ids } => self.cancel_flows(now, caller, &ids).map(Some),
            Request::Flows { filter } => self.list_flows(now, client, caller, &filter),
            _ => Err(Refusal::invalid("this is no request about workflows")),
        }
    }

    /// One that the caller owns, or an administrator.
    pub(crate) fn own_flow(
        &self,
        caller: &Caller,
        id: FlowId,
        what: &str,
    ) -> Result<&Flow, Refusal> {
        let found = self.workflows.get(id).ok_or_else(|| no_flow(id))?;
        if found.row.uid == caller.user.uid || self.is_admin(caller) {
            return Ok(found);
        }
        Err(Refusal::new(
            RefusalCode::Forbidden,
            format!(
                "workflow {id} belongs to user {}: only they and administrators may {what} it",
                found.row.user
            ),
        ))
    }

    /// Writes what has changed of workflows, each row once.
    pub(crate) fn save_flows(&mut self) {
        for id in std::mem::take(&mut self.workflows.dirty) {
            if let Some(flow) = self.workflows.get(id) {
                let row = Box::new(flow.row.clone());
                self.record(Record::Flow(row));
            }
        }
        for of in std::mem::take(&mut self.workflows.dirty_tasks) {
            if let Some(task) = self.workflows.task(of) {
                let row = Box::new(task.clone());
                self.record(Record::FlowTask(row));
            }
        }
    }

    /// Says something about a workflow in its row and in the history.
    pub(crate) fn note_flow(&mut self, now: Time, id: FlowId, what: &str, who: &str, note: &str) {
        if let Some(row) = self.workflows.row_mut(id) {
            row.note = note.to_owned();
        }
        self.happened(now, what, who, format!("workflow {id}"), note.to_owned());
    }

    /// The same, and tells its owner by mail.
    pub(crate) fn tell_flow_owner(&mut self, now: Time, id: FlowId, what: &str, note: &str) {
        self.note_flow(now, id, what, "controller", note);
        if let Some(flow) = self.workflows.get(id) {
            let to = flow.row.user.clone();
            let name = &flow.spec.name;
            let subject = format!("{} workflow {id} ({name}): {note}", self.config.name);
            self.effect(crate::event::Effect::Mail { to, subject });
        }
    }
}

pub(crate) fn no_flow(id: FlowId) -> Refusal {
    Refusal::new(
        RefusalCode::NotFound,
        format!("there is no workflow {id}, or it was over more than a day ago"),
    )
}
