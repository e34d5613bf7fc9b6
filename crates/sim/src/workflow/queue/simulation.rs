//! Event by event: at each instant first the ends of jobs and tasks, then slots that are
//! over, submissions and cancellations, arrivals of workflows, slots that begin, tasks that
//! can begin earlier; then one pass of the planner.

use super::state::{FlowState, TaskRef, TaskState};
use super::{Flow, FlowEnd, RunSettings, Scheme};
use crate::replay::{JobRun, Machine, waiting};
use crate::workload::Job;
use cosy_model::{JobId, QueueId, Span, Time};
use cosy_sched::{Component, Demand, Policy, Scheduler};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// A machine, its queue, and the workflows beside it.
#[derive(Clone, Copy, Debug)]
pub struct Simulation<'a> {
    /// The nodes that queue and workflows share.
    pub machine: Machine,
    /// How the queue is served.
    pub policy: Policy,
    /// Jobs of the queue, sorted by submit time.
    pub jobs: &'a [Job],
    /// The workflows, by arrival.
    pub flows: &'a [Flow],
    /// Nodes of a task.
    pub task_nodes: u32,
}

/// What became of it all. Times of tasks are those of each, not times nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// For each job of the queue when it ran; `None` when it did not.
    pub job_runs: Vec<Option<JobRun>>,
    /// Jobs larger than the machine.
    pub too_large: u64,
    /// For each workflow its deadline and its end.
    pub ends: Vec<(Time, FlowEnd)>,
    /// When tasks ran, with the workflow.
    pub tasks: Vec<(usize, Time, Time)>,
    /// Used time in slots that have begun, and their lengths, grown ones in full.
    pub slots: (Span, Span),
    /// How often what was left of a workflow was planned again.
    pub replans: u64,
    /// By workflow that was booked: by how much the slot of its least lucky task is longer
    /// than the estimate, in thousandths of that.
    pub least_spare: Vec<i64>,
}

/// What is due, in the order in which it is done at an instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Event {
    JobEnd(usize),
    TaskEnd(TaskRef),
    SlotEnd(TaskRef),
    Submit(usize),
    Cancel(usize),
    Arrive(usize),
    SlotStart(TaskRef),
}

pub(super) struct Run<'a> {
    pub simulation: &'a Simulation<'a>,
    pub setting: &'a RunSettings,
    pub scheduler: Scheduler,
    /// What a task asks for, as a job of its own.
    pub task_demand: Arc<Demand>,
    /// The same as the one component of that job.
    pub task: Arc<Component>,
    pub states: Vec<FlowState>,
    pub outcome: Outcome,
    demands: BTreeMap<(u32, Option<u32>), Option<Arc<Demand>>>,
    due: BinaryHeap<Reverse<(Time, Event)>>,
    /// Nodes came free at this instant.
    freed: bool,
}

impl Simulation<'_> {
    /// Runs queue and workflows until all jobs and tasks have ended.
    pub fn run(&self, setting: &RunSettings) -> Outcome {
        let mut run = Run::new(self, setting);
        while let Some(Reverse((now, _))) = run.due.peek().copied() {
            run.instant(now);
        }
        let end = |state: FlowState| (state.deadline, state.end.unwrap_or(FlowEnd::Failed));
        run.outcome.ends = run.states.into_iter().map(end).collect();
        run.outcome
    }

    fn task_demand(&self) -> Demand {
        self.machine.demand(&Job {
            processors: self.task_nodes * self.machine.cores,
            nodes: Some(self.task_nodes),
            ..Job::default()
        })
    }
}

impl<'a> Run<'a> {
    fn new(simulation: &'a Simulation<'a>, setting: &'a RunSettings) -> Self {
        let submits = simulation.jobs.iter().enumerate();
        let submits = submits.map(|(at, job)| Reverse((job.submit, Event::Submit(at))));
        let arrivals = simulation.flows.iter().enumerate();
        let arrivals = arrivals.map(|(at, flow)| Reverse((flow.at, Event::Arrive(at))));
        let state = |flow: &Flow| FlowState {
            tasks: vec![TaskState::Open; flow.estimates.len()],
            deadline: flow.at,
            end: None,
        };
        let task_demand = simulation.task_demand();
        Self {
            simulation,
            setting,
            scheduler: simulation.machine.scheduler(simulation.policy),
            task: Arc::new(task_demand.first().clone()),
            task_demand: Arc::new(task_demand),
            states: simulation.flows.iter().map(state).collect(),
            outcome: Outcome {
                job_runs: vec![None; simulation.jobs.len()],
                ..Outcome::default()
            },
            demands: BTreeMap::new(),
            due: submits.chain(arrivals).collect(),
            freed: false,
        }
    }

    fn instant(&mut self, now: Time) {
        self.freed = false;
        self.events(now);
        if self.freed && matches!(self.setting.scheme, Scheme::Slots { early: true, .. }) {
            self.begin_early(now);
        }
        self.pass(now);
    }

    fn events(&mut self, now: Time) {
        while let Some(Reverse((at, event))) = self.due.peek().copied() {
            if at > now {
                return;
            }
            self.due.pop();
            match event {
                Event::JobEnd(job) => self.freed |= self.scheduler.end(JobId(job as u64)),
                Event::TaskEnd(task) => self.task_end(now, task),
                Event::SlotEnd(task) => self.slot_end(now, task),
                Event::Submit(job) => self.submit(job),
                Event::Cancel(job) => {
                    self.scheduler.dequeue(JobId(job as u64));
                }
                Event::Arrive(flow) => self.arrive(now, flow),
                Event::SlotStart(task) => self.slot_start(now, task),
            }
        }
    }

    pub fn expect(&mut self, at: Time, event: Event) {
        self.due.push(Reverse((at, event)));
    }

    fn submit(&mut self, at: usize) {
        let job = &self.simulation.jobs[at];
        let Some(demand) = self.demand(job) else {
            self.outcome.too_large += 1;
            return;
        };
        self.scheduler.enqueue(waiting(at as u64, job, &demand));
        if let Some(cancel) = job.cancel {
            self.expect(cancel.max(job.submit), Event::Cancel(at));
        }
    }

    fn demand(&mut self, job: &Job) -> Option<Arc<Demand>> {
        let (machine, scheduler) = (self.simulation.machine, &self.scheduler);
        let demand = self.demands.entry((job.processors, job.nodes));
        let demand = demand.or_insert_with(|| {
            let demand = machine.demand(job);
            let fits = scheduler.could_ever_run(&demand).is_ok();
            fits.then(|| Arc::new(demand))
        });
        demand.clone()
    }

    fn pass(&mut self, now: Time) {
        let starts = self.scheduler.schedule(now);
        let first = self.scheduler.first_waiting(QueueId(0)).copied();
        for start in starts {
            if let Some(task) = TaskRef::of(start) {
                self.plain_started(now, task);
                continue;
            }
            let at = start.0 as usize;
            let job = &self.simulation.jobs[at];
            let end = now + job.run.min(job.limit).max(Span(1));
            let before = first.is_some_and(|first| (first.submit, first.job) < (job.submit, start));
            self.outcome.job_runs[at] = Some(JobRun {
                start: now,
                end,
                backfilled: before,
            });
            self.expect(end, Event::JobEnd(at));
        }
    }

    fn task_end(&mut self, now: Time, of: TaskRef) {
        let actual = self.simulation.flows[of.flow].actual[of.task];
        let start = match &self.states[of.flow].tasks[of.task] {
            TaskState::Running(start, _) if *start + actual == now => *start,
            TaskState::Running(..)
            | TaskState::Open
            | TaskState::Planned(_)
            | TaskState::Done(..)
            | TaskState::Ended => {
                return;
            }
        };
        self.leave(now, of);
        let state = &mut self.states[of.flow];
        state.tasks[of.task] = TaskState::Done(start, now);
        let whole = state
            .tasks
            .iter()
            .all(|task| matches!(task, TaskState::Done(..)));
        if whole {
            state.end = Some(FlowEnd::Done(now));
        } else if state.end.is_none() && self.setting.scheme == Scheme::Plain {
            self.release_jobs(of.flow);
        }
    }

    /// A running task ends, done or not.
    pub fn leave(&mut self, now: Time, of: TaskRef) {
        self.scheduler.end(of.job());
        self.freed = true;
        if let TaskState::Running(start, slot) = &self.states[of.flow].tasks[of.task] {
            self.outcome.tasks.push((of.flow, *start, now));
            let length = slot.end.since(slot.start);
            self.outcome.slots.0 = self.outcome.slots.0 + now.since(*start);
            self.outcome.slots.1 = self.outcome.slots.1 + length;
        }
    }

    /// A task is ended before it is done: what has not started is given back.
    pub fn fail(&mut self, now: Time, of: TaskRef) {
        self.leave(now, of);
        let state = &mut self.states[of.flow];
        state.tasks[of.task] = TaskState::Ended;
        state.end = Some(FlowEnd::Failed);
        self.give_back(of.flow);
    }

    /// Slots and jobs of a workflow that have not begun go.
    pub fn give_back(&mut self, flow: usize) {
        for (task, state) in self.states[flow].tasks.iter_mut().enumerate() {
            let of = TaskRef { flow, task };
            match state {
                TaskState::Planned(_) => {
                    self.scheduler.remove_block(of.slot());
                }
                TaskState::Open => {
                    self.scheduler.dequeue(of.job());
                }
                TaskState::Running(..) | TaskState::Done(..) | TaskState::Ended => continue,
            }
            *state = TaskState::Ended;
            self.freed = true;
        }
    }
}
