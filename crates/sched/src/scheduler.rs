//! The planner's state, and the events that change it.
//!
//! What always holds: a job waits or runs, never both; each component's line has exactly
//! the jobs of its queues that start jobs; every change that could let a job start marks
//! the component for its next pass.

use crate::component::{Component, components};
use crate::group::Groups;
use crate::line::GroupId;
use crate::machine::Machine;
use crate::pass::Pass;
use crate::running::{RunId, RunningJobs};
use crate::shelf::Shelf;
use crate::table::JobTable;
use crate::{Block, Demand, NodeMask, OrderKey, Policy};
use cosy_model::{Amounts, JobId, NodeId, QueueId, ReservationId, Span, Time};
use std::sync::Arc;

/// A job that waits. Its id is in the key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitingJob {
    /// Its place in the order of service.
    pub key: OrderKey,
    /// Its queue: only nodes of the queue are chosen.
    pub queue: QueueId,
    /// What it asks for.
    pub demand: Arc<Demand>,
    /// Its time limit.
    pub limit: Span,
}

#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub nodes: NodeMask,
    pub component: usize,
    pub starts: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub job: WaitingJob,
    pub group: GroupId,
}

/// The planner: machine, queues, waiting and running jobs, accepted reservations.
///
/// A clone is a snapshot: playing it forward does not touch the original.
///
/// # Panics
/// No method panics on ids that are not known: such events change nothing.
#[derive(Clone, Debug)]
pub struct Scheduler {
    pub(crate) policy: Policy,
    pub(crate) machine: Machine,
    pub(crate) queues: Vec<Queue>,
    pub(crate) components: Vec<Component>,
    pub(crate) groups: Groups,
    pub(crate) waiting: JobTable<Waiting>,
    pub(crate) running: RunningJobs,
    pub(crate) blocks: Shelf<ReservationId, Arc<Block>>,
    /// Counts the changes of nodes and queues.
    pub(crate) epoch: u64,
    /// Counts the passes.
    pub(crate) passes: u64,
    /// Once it is asked for: no decision so far would have been another one with something
    /// else booked from then on.
    pub(crate) reach: Option<Time>,
    /// The memory of the last pass.
    pub(crate) spare: Box<Pass>,
}

impl Scheduler {
    /// An empty machine. `queues[i]` are the nodes of `QueueId(i)`.
    pub fn new(policy: Policy, nodes: Vec<Amounts>, queues: Vec<NodeMask>) -> Self {
        let mut scheduler = Self {
            policy,
            machine: Machine::default(),
            queues: Vec::new(),
            components: Vec::new(),
            groups: Groups::default(),
            waiting: JobTable::default(),
            running: RunningJobs::default(),
            blocks: Shelf::default(),
            epoch: 0,
            passes: 0,
            reach: None,
            spare: Box::default(),
        };
        scheduler.reconfigure(policy, nodes, queues);
        scheduler
    }

    /// Takes over new nodes, amounts and queues. Jobs, reservations and what was said about
    /// nodes and queues stay. Nodes are only ever appended: one that is missing at the end
    /// keeps its place without any resources. The demands of waiting jobs keep the node sets
    /// they were made with: to let them use new nodes, they are entered anew.
    pub fn reconfigure(&mut self, policy: Policy, nodes: Vec<Amounts>, queues: Vec<NodeMask>) {
        self.policy = policy;
        self.list_whole_jobs();
        self.machine.resize(nodes);
        let (regions, places) = components(&queues);
        self.machine.divide(&regions.iter().collect::<Vec<_>>());
        let component = |nodes| Component {
            nodes,
            dirty: true,
            reserved_is_old: true,
            ..Component::default()
        };
        self.components = regions.into_iter().map(component).collect();
        let starts: Vec<bool> = self.queues.iter().map(|queue| queue.starts).collect();
        let queue = |(at, (nodes, component)): (usize, _)| Queue {
            nodes,
            component,
            starts: starts.get(at).copied().unwrap_or(true),
        };
        let placed = queues.into_iter().zip(places).enumerate();
        self.queues = placed.map(queue).collect();
        self.epoch += 1;
        self.groups.forget_plain();
        self.refill();
    }

    /// Enters jobs and reservations into new components.
    fn refill(&mut self) {
        for waiting in self.waiting.sorted_by_key(|waiting| waiting.job.key) {
            let queue = self.queues.get(waiting.job.queue.index());
            if let Some(queue) = queue.filter(|queue| queue.starts) {
                let brief = self
                    .groups
                    .get(waiting.group)
                    .brief(waiting.group, waiting.job.limit);
                self.components[queue.component]
                    .line
                    .insert(waiting.job.key, brief);
            }
        }
        let running: Vec<RunId> = self.running.iter().map(|(id, _)| id).collect();
        running.into_iter().for_each(|id| self.enter(id));
        for (reservation, block) in self.blocks.iter() {
            for share in &block.shares {
                if let Some(region) = self.machine.region(share.node) {
                    let bounds = &mut self.components[region].bounds;
                    bounds.insert((block.start, *reservation), ());
                    bounds.insert((block.end, *reservation), ());
                }
            }
        }
    }

    /// Says whether new work may start on `node`. What runs there stays.
    pub fn set_available(&mut self, node: NodeId, available: bool) {
        if self.machine.open.contains(node) != available {
            self.machine.set_open(node, available);
            self.epoch += 1;
            self.touch(node);
        }
    }

    /// True when new work may start on `node`.
    pub fn is_available(&self, node: NodeId) -> bool {
        self.machine.open.contains(node)
    }

    /// Opens or closes a queue: jobs of a closed one neither start nor hold others back.
    pub fn set_queue_starts(&mut self, queue: QueueId, starts: bool) {
        let Some(known) = self.queues.get_mut(queue.index()) else {
            return;
        };
        if known.starts == starts {
            return;
        }
        known.starts = starts;
        for waiting in self.waiting.sorted_by_key(|waiting| waiting.job.key) {
            if waiting.job.queue != queue {
                continue;
            }
            let component = &mut self.components[known.component];
            if starts {
                let brief = self
                    .groups
                    .get(waiting.group)
                    .brief(waiting.group, waiting.job.limit);
                component.line.insert(waiting.job.key, brief);
                component.change();
            } else {
                component.take_out(&waiting.job.key);
            }
        }
    }

    /// Adds a job to the waiting ones. One with the same id that waits is replaced.
    pub fn enqueue(&mut self, mut job: WaitingJob) {
        let id = job.key.job;
        debug_assert!(!self.is_running(id), "job {id} runs already");
        let queue = self.queues.get(job.queue.index());
        let nodes = queue.map(|q| (&q.nodes, &self.components[q.component].nodes));
        let group = self.groups.join(job.queue, &mut job.demand, nodes);
        if !job.demand.holds_whole_nodes() {
            self.machine.note_changes();
        }
        let brief = self.groups.get(group).brief(group, job.limit);
        let (queue, key) = (job.queue, job.key);
        if let Some(old) = self.waiting.insert(id, Waiting { job, group }) {
            self.step_out(old.job.queue, &old.job.key);
            self.groups.leave(old.group);
        }
        if self.queues.get(queue.index()).is_some_and(|q| q.starts)
            && let Some(component) = self.component_of(queue)
        {
            component.add(key, brief);
        }
    }

    /// Removes a waiting job. False when it does not wait.
    pub fn dequeue(&mut self, job: JobId) -> bool {
        let Some(waiting) = self.waiting.remove(job) else {
            return false;
        };
        self.step_out(waiting.job.queue, &waiting.job.key);
        self.groups.leave(waiting.group);
        true
    }

    /// True when the job waits.
    pub fn is_waiting(&self, job: JobId) -> bool {
        self.waiting.contains(job)
    }

    /// The place of a waiting job in the order of service.
    pub fn order_of(&self, job: JobId) -> Option<OrderKey> {
        self.waiting.get(job).map(|waiting| waiting.job.key)
    }

    /// True when the job runs.
    pub fn is_running(&self, job: JobId) -> bool {
        self.running.find(job).is_some()
    }

    /// Starts what can start now. The jobs run from now on, and are expected to end when
    /// their limits are over. `now` does not go back but after [`Scheduler::clock_set`].
    pub fn schedule(&mut self, now: Time) -> Vec<JobId> {
        let mut starts = Vec::new();
        for component in 0..self.components.len() {
            if self.components[component].needs_pass(now) {
                self.pass(component, now, &mut starts);
            }
        }
        starts
    }

    /// `now` may go back, and has gone forward by more than has passed: everything that was
    /// to happen next is looked at again.
    pub fn clock_set(&mut self) {
        for component in &mut self.components {
            component.change();
            component.due = Time::EPOCH;
            component.reserved_is_old = true;
        }
    }

    /// Free on `node` now, whether new work may start there or not.
    pub fn free(&self, node: NodeId) -> Amounts {
        self.machine.used_and_free(node).1
    }

    /// Held by jobs on `node` now.
    pub fn used(&self, node: NodeId) -> Amounts {
        self.machine.used_and_free(node).0
    }

    /// The jobs that run, with their expected ends, by id.
    pub fn running_jobs(&self) -> impl Iterator<Item = (JobId, Time)> {
        let jobs = self
            .running
            .iter()
            .map(|(_, running)| (running.job, running.end));
        let mut jobs: Vec<(JobId, Time)> = jobs.collect();
        jobs.sort_unstable();
        jobs.into_iter()
    }

    /// How many jobs run.
    pub fn running_count(&self) -> usize {
        self.running.len()
    }

    /// How many jobs wait.
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// The first waiting job of all queues that share nodes with `queue` and start jobs.
    pub fn first_waiting(&self, queue: QueueId) -> Option<&OrderKey> {
        let queue = self.queues.get(queue.index())?;
        self.components[queue.component].line.first()
    }

    /// The waiting jobs in the order of service, those of closed queues among them.
    pub fn waiting_in_order(&self) -> impl Iterator<Item = &WaitingJob> {
        let jobs = self.waiting.sorted_by_key(|waiting| waiting.job.key);
        jobs.into_iter().map(|waiting| &waiting.job)
    }

    fn component_of(&mut self, queue: QueueId) -> Option<&mut Component> {
        let queue = self.queues.get(queue.index())?;
        self.components.get_mut(queue.component)
    }

    fn step_out(&mut self, queue: QueueId, key: &OrderKey) {
        if let Some(component) = self.component_of(queue) {
            component.take_out(key);
        }
    }

    pub(crate) fn touch(&mut self, node: NodeId) {
        if let Some(region) = self.machine.region(node) {
            self.components[region].change();
        }
    }
}
