//! The planner's state, and the events that change it.
//!
//! What always holds: a job waits or runs, never both; each component's line has exactly
//! the jobs of its queues that start jobs; every change that could let a job start marks
//! the component for its next pass.

use crate::component::{Component, components};
use crate::group::Groups;
use crate::line::GroupId;
use crate::machine::{Booking, Machine, Owner};
use crate::pass::at_least_one;
use crate::select::Pick;
use crate::{Demand, NodeMask, OrderKey, Policy};
use cosy_model::{Amounts, JobId, NodeId, NodeShare, QueueId, ReservationId, Span, Time};
use std::collections::BTreeMap;
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

/// An accepted reservation. Nothing else is started where it would be in the way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The reservation.
    pub reservation: ReservationId,
    /// What it holds.
    pub shares: Vec<NodeShare>,
    /// From then on.
    pub start: Time,
    /// Until then.
    pub end: Time,
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

#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub shares: Vec<NodeShare>,
    pub expected_end: Time,
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
    pub(crate) waiting: BTreeMap<JobId, Waiting>,
    pub(crate) running: BTreeMap<JobId, Running>,
    pub(crate) blocks: BTreeMap<ReservationId, Block>,
    /// Counts the changes of nodes and queues.
    pub(crate) epoch: u64,
    /// Counts the passes.
    pub(crate) passes: u64,
}

impl Scheduler {
    /// An empty machine. `queues[i]` are the nodes of `QueueId(i)`.
    pub fn new(policy: Policy, nodes: Vec<Amounts>, queues: Vec<NodeMask>) -> Self {
        let mut scheduler = Self {
            policy,
            machine: Machine::new(Vec::new()),
            queues: Vec::new(),
            components: Vec::new(),
            groups: Groups::default(),
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            blocks: BTreeMap::new(),
            epoch: 0,
            passes: 0,
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
        self.machine.resize(nodes);
        let (regions, places) = components(&queues);
        self.machine.divide(&regions.iter().collect::<Vec<_>>());
        let component = |nodes| Component {
            nodes,
            dirty: true,
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
        self.refill();
    }

    /// Enters jobs and reservations into new components.
    fn refill(&mut self) {
        for job in self.waiting.keys().copied().collect::<Vec<_>>() {
            self.line_up(job);
        }
        for (job, running) in &self.running {
            for share in &running.shares {
                if let Some(region) = self.machine.region(share.node) {
                    let ends = &mut self.components[region].ends;
                    ends.insert((running.expected_end, *job));
                }
            }
        }
        for (reservation, block) in &self.blocks {
            for share in &block.shares {
                if let Some(region) = self.machine.region(share.node) {
                    let bounds = &mut self.components[region].bounds;
                    bounds.insert((block.start, *reservation));
                    bounds.insert((block.end, *reservation));
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
        let jobs = self.waiting.values().filter(|w| w.job.queue == queue);
        let keys: Vec<OrderKey> = jobs.map(|w| w.job.key).collect();
        for key in keys {
            match starts {
                true => self.line_up(key.job),
                false => self.step_out(queue, &key),
            }
        }
    }

    /// Adds a job to the waiting ones. One with the same id that waits is replaced.
    pub fn enqueue(&mut self, job: WaitingJob) {
        let id = job.key.job;
        debug_assert!(!self.running.contains_key(&id), "job {id} runs already");
        let group = self.groups.join(job.queue, &job.demand);
        if let Some(old) = self.waiting.insert(id, Waiting { job, group }) {
            self.step_out(old.job.queue, &old.job.key);
            self.groups.leave(old.group);
        }
        self.line_up(id);
    }

    /// Removes a waiting job. False when it does not wait.
    pub fn dequeue(&mut self, job: JobId) -> bool {
        let Some(waiting) = self.waiting.remove(&job) else {
            return false;
        };
        self.step_out(waiting.job.queue, &waiting.job.key);
        self.groups.leave(waiting.group);
        true
    }

    /// True when the job waits.
    pub fn is_waiting(&self, job: JobId) -> bool {
        self.waiting.contains_key(&job)
    }

    /// True when the job runs.
    pub fn is_running(&self, job: JobId) -> bool {
        self.running.contains_key(&job)
    }

    /// Enters a job that runs already. `exclusive` keeps everyone else off its nodes.
    pub fn start_running(
        &mut self,
        job: JobId,
        shares: Vec<NodeShare>,
        expected_end: Time,
        exclusive: bool,
    ) {
        self.dequeue(job);
        self.end(job);
        self.run(job, shares, expected_end, exclusive);
    }

    fn run(&mut self, job: JobId, shares: Vec<NodeShare>, expected_end: Time, exclusive: bool) {
        for share in &shares {
            self.machine.run(job, share, expected_end, exclusive);
            if let Some(region) = self.machine.region(share.node) {
                let component = &mut self.components[region];
                component.ends.insert((expected_end, job));
                component.dirty = true;
            }
        }
        let running = Running {
            shares,
            expected_end,
        };
        self.running.insert(job, running);
    }

    /// Moves the time at which a running job is expected to end.
    pub fn set_expected_end(&mut self, job: JobId, end: Time) {
        let Some(running) = self.running.get_mut(&job) else {
            return;
        };
        let old = std::mem::replace(&mut running.expected_end, end);
        for share in &running.shares {
            self.machine.set_end(job, share.node, end);
            if let Some(region) = self.machine.region(share.node) {
                let component = &mut self.components[region];
                component.ends.remove(&(old, job));
                component.ends.insert((end, job));
                component.dirty = true;
            }
        }
    }

    /// Ends a running job and frees what it holds. False when it does not run.
    pub fn end(&mut self, job: JobId) -> bool {
        let Some(running) = self.running.remove(&job) else {
            return false;
        };
        for share in &running.shares {
            self.free_share(job, share.node, running.expected_end);
        }
        true
    }

    /// Frees what a running job holds of one node, while it goes on elsewhere. A job that
    /// holds nothing any more has ended. False when it holds nothing there.
    pub fn release_node(&mut self, job: JobId, node: NodeId) -> bool {
        let Some(running) = self.running.get_mut(&job) else {
            return false;
        };
        let before = running.shares.len();
        running.shares.retain(|share| share.node != node);
        if running.shares.len() == before {
            return false;
        }
        let (end, left) = (running.expected_end, running.shares.clone());
        self.free_share(job, node, end);
        for share in &left {
            if let Some(region) = self.machine.region(share.node) {
                self.components[region].ends.insert((end, job));
            }
        }
        if left.is_empty() {
            self.running.remove(&job);
        }
        true
    }

    fn free_share(&mut self, job: JobId, node: NodeId, end: Time) {
        self.machine.release(job, node);
        if let Some(region) = self.machine.region(node) {
            self.components[region].ends.remove(&(end, job));
        }
        self.touch(node);
    }

    /// Enters an accepted reservation. One with the same id is replaced.
    pub fn add_block(&mut self, block: Block) {
        self.remove_block(block.reservation);
        let owner = Owner::Reservation(block.reservation);
        for share in &block.shares {
            let booking = Booking {
                owner,
                start: block.start,
                end: block.end,
                amounts: share.amounts.clone(),
                whole: false,
            };
            self.machine.book(share.node, booking);
            if let Some(region) = self.machine.region(share.node) {
                let bounds = &mut self.components[region].bounds;
                bounds.insert((block.start, block.reservation));
                bounds.insert((block.end, block.reservation));
            }
            self.touch(share.node);
        }
        self.blocks.insert(block.reservation, block);
    }

    /// Removes a reservation: it was cancelled, or its job has started. False when there is
    /// none.
    pub fn remove_block(&mut self, reservation: ReservationId) -> bool {
        let Some(block) = self.blocks.remove(&reservation) else {
            return false;
        };
        for share in &block.shares {
            let owner = Owner::Reservation(reservation);
            self.machine.unbook(share.node, owner);
            if let Some(region) = self.machine.region(share.node) {
                let bounds = &mut self.components[region].bounds;
                bounds.remove(&(block.start, reservation));
                bounds.remove(&(block.end, reservation));
            }
            self.touch(share.node);
        }
        true
    }

    /// Starts what can start now. The jobs run from now on, and are expected to end when
    /// their limits are over. `now` must not go back.
    pub fn schedule(&mut self, now: Time) -> Vec<JobId> {
        let mut starts = Vec::new();
        for component in 0..self.components.len() {
            if self.components[component].needs_pass(now) {
                self.pass(component, now, &mut starts);
            }
        }
        starts
    }

    /// Free on `node` now, whether new work may start there or not.
    pub fn free(&self, node: NodeId) -> Amounts {
        let known = self.machine.get(node);
        known.map(|node| node.free.clone()).unwrap_or_default()
    }

    /// Held by jobs on `node` now.
    pub fn used(&self, node: NodeId) -> Amounts {
        let known = self.machine.get(node);
        known.map(|node| node.used.clone()).unwrap_or_default()
    }

    /// The jobs that run, with their expected ends, by id.
    pub fn running_jobs(&self) -> impl Iterator<Item = (JobId, Time)> {
        let running = self.running.iter();
        running.map(|(job, running)| (*job, running.expected_end))
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

    /// Where a reservation of `[start, start + length)` could be, if running jobs take their
    /// limits: its shares, or `None` when it would be in the way of running jobs or of
    /// accepted reservations. Waiting jobs are not looked at. `demand.allowed` says which
    /// nodes count; nodes that are down do not.
    pub fn place(
        &self,
        now: Time,
        demand: &Demand,
        start: Time,
        length: Span,
    ) -> Option<Vec<NodeShare>> {
        let nodes = demand.allowed.and(&self.machine.open);
        let picks = self.picks_for(demand, &nodes, (start, start + length), now)?;
        Some(self.shares_for(demand, &picks))
    }

    /// The waiting jobs in the order of service, those of closed queues among them.
    pub fn waiting_in_order(&self) -> impl Iterator<Item = &WaitingJob> {
        let mut jobs: Vec<&WaitingJob> = self.waiting.values().map(|w| &w.job).collect();
        jobs.sort_by_key(|job| job.key);
        jobs.into_iter()
    }

    /// Moves a job from waiting to running. Its line is told by the pass.
    pub(crate) fn start_waiting(&mut self, job: JobId, picks: &[Pick], now: Time) {
        let waiting = self.waiting.remove(&job);
        let Waiting { job: known, group } = waiting.expect("jobs in a line wait");
        let shares = self.shares(group, picks);
        self.groups.leave(group);
        let end = now + at_least_one(known.limit);
        self.run(job, shares, end, known.demand.exclusive);
    }

    /// What a running job holds, by node index; nothing when it does not run. The script
    /// runs on the first node.
    pub fn held_by(&self, job: JobId) -> Vec<NodeShare> {
        let mut shares = self.shares_of(job).to_vec();
        shares.sort_by_key(|share| share.node);
        shares
    }

    /// What a running job holds.
    pub(crate) fn shares_of(&self, job: JobId) -> &[NodeShare] {
        self.running
            .get(&job)
            .map_or(&[], |running| &running.shares)
    }

    /// Forgets reservations of a component whose time is over.
    pub(crate) fn drop_past_blocks(&mut self, component: usize, now: Time) {
        let bounds = &self.components[component].bounds;
        let past: Vec<ReservationId> = bounds
            .iter()
            .take_while(|(at, _)| *at <= now)
            .map(|(_, reservation)| *reservation)
            .filter(|r| self.blocks.get(r).is_some_and(|b| b.end <= now))
            .collect();
        for reservation in past {
            self.remove_block(reservation);
        }
    }

    fn component_of(&mut self, queue: QueueId) -> Option<&mut Component> {
        let queue = self.queues.get(queue.index())?;
        self.components.get_mut(queue.component)
    }

    fn line_up(&mut self, job: JobId) {
        let waiting = &self.waiting[&job];
        let (key, queue) = (waiting.job.key, waiting.job.queue);
        let group = self.groups.get(waiting.group);
        let brief = group.brief(waiting.group, waiting.job.limit);
        if !self.queues.get(queue.index()).is_some_and(|q| q.starts) {
            return;
        }
        if let Some(component) = self.component_of(queue) {
            component.line.insert(key, brief);
            component.dirty = true;
        }
    }

    fn step_out(&mut self, queue: QueueId, key: &OrderKey) {
        if let Some(component) = self.component_of(queue) {
            component.dirty |= component.line.remove(key);
        }
    }

    fn touch(&mut self, node: NodeId) {
        if let Some(region) = self.machine.region(node) {
            self.components[region].dirty = true;
        }
    }
}
