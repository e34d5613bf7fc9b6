//! The planner's state, and the events that change it.
//!
//! What always holds: a job waits or runs, never both; each component's line has exactly
//! the jobs of its queues that start jobs; every change that could let a job start marks
//! the component for its next pass.

use crate::component::{Component, components};
use crate::ends::End;
use crate::group::Groups;
use crate::line::GroupId;
use crate::machine::{Booking, Machine, Owner, Sight};
use crate::nodeset::NodeSet;
use crate::pass::{Pass, at_least_one};
use crate::running::{Holding, RunId, Running, RunningJobs};
use crate::select::{Pick, spread};
use crate::table::JobTable;
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
    pub(crate) blocks: BTreeMap<ReservationId, Block>,
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
            blocks: BTreeMap::new(),
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

    /// Books whole-node jobs node by node: what they hold stays when nodes change.
    fn list_whole_jobs(&mut self) {
        let whole = self
            .running
            .iter()
            .filter(|(_, running)| running.is_whole());
        for id in whole.map(|(id, _)| id).collect::<Vec<_>>() {
            let shares = self.shares_of(id);
            self.machine.let_go(&self.running.get(id).nodes);
            let running = self.running.get_mut(id);
            for share in &shares {
                self.machine.run(running.job, share, running.end, true);
            }
            running.holding = Holding::Listed(shares);
        }
    }

    /// Enters the end of a running job into the components of its nodes.
    fn enter(&mut self, id: RunId) {
        self.for_each_end(id, |component, end, listed| {
            component.ends.insert(end);
            component.listed += listed;
            component.dirty = true;
        });
    }

    /// Takes the end of a running job out of them.
    fn withdraw(&mut self, id: RunId) {
        self.for_each_end(id, |component, end, listed| {
            component.ends.remove(&end);
            component.listed -= listed;
            component.dirty = true;
        });
    }

    fn for_each_end(&mut self, run: RunId, what: impl Fn(&mut Component, End, u32)) {
        let running = self.running.get(run);
        let listed = u32::from(!running.is_whole());
        let end = |nodes| End {
            at: running.end,
            run,
            nodes,
        };
        if self.machine.is_plain() {
            let nodes = running.nodes.count();
            if nodes > 0 {
                what(&mut self.components[0], end(nodes), listed);
            }
            return;
        }
        let regions = running.nodes.iter().filter_map(|n| self.machine.region(n));
        let mut regions: Vec<usize> = regions.collect();
        regions.sort_unstable();
        for part in regions.chunk_by(|a, b| a == b) {
            let component = &mut self.components[part[0]];
            what(component, end(part.len() as u32), listed);
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
                component.dirty = true;
            } else {
                component.dirty |= component.line.remove(&waiting.job.key);
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
        if !job.demand.exclusive {
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
            component.line.insert(key, brief);
            component.dirty = true;
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

    /// True when the job runs.
    pub fn is_running(&self, job: JobId) -> bool {
        self.running.find(job).is_some()
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
        if exclusive && self.are_whole(&shares) {
            let nodes = shares.iter().map(|share| share.node).collect();
            let holding = Holding::WholeListed(shares);
            self.run_on(job, nodes, holding, expected_end);
        } else {
            self.run_listed(job, shares, expected_end, exclusive);
        }
    }

    /// True when these are all that some idle nodes have.
    fn are_whole(&self, shares: &[NodeShare]) -> bool {
        let nodes: NodeSet = shares.iter().map(|share| share.node).collect();
        let whole = |share: &NodeShare| {
            self.machine.idle.contains(share.node)
                && *self.machine.total(share.node) == share.amounts
        };
        nodes.count() as usize == shares.len() && shares.iter().all(whole)
    }

    /// A job runs on idle nodes that it holds as a whole.
    fn run_on(&mut self, job: JobId, nodes: NodeSet, holding: Holding, end: Time) {
        self.machine.hold(&nodes, end);
        let running = Running {
            job,
            end,
            nodes,
            holding,
        };
        let id = self.running.insert(running);
        self.enter(id);
    }

    fn run_listed(&mut self, job: JobId, shares: Vec<NodeShare>, end: Time, exclusive: bool) {
        for share in &shares {
            self.machine.run(job, share, end, exclusive);
        }
        let nodes = shares.iter().map(|share| share.node).collect();
        let holding = Holding::Listed(shares);
        let running = Running {
            job,
            end,
            nodes,
            holding,
        };
        let id = self.running.insert(running);
        self.enter(id);
    }

    /// Moves the time at which a running job is expected to end.
    pub fn set_expected_end(&mut self, job: JobId, end: Time) {
        let Some(id) = self.running.find(job) else {
            return;
        };
        self.withdraw(id);
        let running = self.running.get_mut(id);
        running.end = end;
        match &running.holding {
            Holding::Whole(_) | Holding::WholeListed(_) => {
                self.machine.set_held_until(&running.nodes, end);
            }
            Holding::Listed(shares) => {
                for share in shares {
                    self.machine.set_end(job, share.node, end);
                }
            }
        }
        self.enter(id);
    }

    /// Ends a running job and frees what it holds. False when it does not run.
    pub fn end(&mut self, job: JobId) -> bool {
        let Some(id) = self.running.find(job) else {
            return false;
        };
        self.withdraw(id);
        if let Some(running) = self.running.remove(job) {
            match &running.holding {
                Holding::Whole(_) | Holding::WholeListed(_) => self.machine.let_go(&running.nodes),
                Holding::Listed(shares) => {
                    for share in shares {
                        self.machine.release(job, share.node);
                    }
                }
            }
            self.spare.spare_set = Some(running.nodes);
        }
        true
    }

    /// Frees what a running job holds of one node, while it goes on elsewhere. A job that
    /// holds nothing any more has ended. False when it holds nothing there.
    pub fn release_node(&mut self, job: JobId, node: NodeId) -> bool {
        let Some(id) = self.running.find(job) else {
            return false;
        };
        let mut shares = self.shares_of(id);
        let before = shares.len();
        shares.retain(|share| share.node != node);
        if shares.len() == before {
            return false;
        }
        self.withdraw(id);
        let running = self.running.get_mut(id);
        match &running.holding {
            Holding::Whole(_) | Holding::WholeListed(_) => {
                let gone = std::iter::once(node).collect();
                self.machine.let_go(&gone);
                running.nodes.remove(node);
                // its tasks stay where they are
                self.machine.let_go(&running.nodes);
                for share in &shares {
                    self.machine.run(job, share, running.end, true);
                }
            }
            Holding::Listed(_) => {
                self.machine.release(job, node);
                running.nodes.remove(node);
            }
        }
        let ended = shares.is_empty();
        running.holding = Holding::Listed(shares);
        if ended {
            self.running.remove(job);
        } else {
            self.enter(id);
        }
        true
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
                self.components[region].reserved_is_old = true;
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
                self.components[region].reserved_is_old = true;
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

    /// Where a reservation of `[start, start + length)` could be, if running jobs take their
    /// limits: its shares, or `None` when it would be in the way of running jobs or of
    /// accepted reservations, when it would begin in the past, or when it is empty. Waiting
    /// jobs are not looked at. `demand.allowed` says which
    /// nodes count; nodes that are down do not.
    pub fn place(
        &self,
        now: Time,
        demand: &Demand,
        start: Time,
        length: Span,
    ) -> Option<Vec<NodeShare>> {
        if start < now || length <= Span::ZERO {
            return None;
        }
        let nodes = demand.allowed.and(&self.machine.open);
        let window = (start, start + length);
        let picks = self.picks_for(demand, &nodes, window, (now, Sight::Until(Time::FAR)))?;
        Some(self.shares_for(demand, &picks))
    }

    /// The waiting jobs in the order of service, those of closed queues among them.
    pub fn waiting_in_order(&self) -> impl Iterator<Item = &WaitingJob> {
        let jobs = self.waiting.sorted_by_key(|waiting| waiting.job.key);
        jobs.into_iter().map(|waiting| &waiting.job)
    }

    /// Moves a job from waiting to running, on whole nodes. Its line is told by the pass.
    pub(crate) fn start_on(&mut self, job: JobId, nodes: NodeSet, now: Time) {
        let Some(Waiting { job: known, group }) = self.waiting.remove(job) else {
            return;
        };
        self.groups.leave(group);
        let end = now + at_least_one(known.limit);
        self.run_on(job, nodes, Holding::Whole(known.demand), end);
    }

    /// Moves a job from waiting to running. Its line is told by the pass.
    pub(crate) fn start_picked(&mut self, job: JobId, picks: &[Pick], now: Time) {
        let Some(Waiting { job: known, group }) = self.waiting.remove(job) else {
            return;
        };
        let shares = self.shares_for(&known.demand, picks);
        self.groups.leave(group);
        let end = now + at_least_one(known.limit);
        self.run_listed(job, shares, end, known.demand.exclusive);
    }

    /// What a running job holds, by node index; nothing when it does not run. The script
    /// runs on the first node.
    pub fn held_by(&self, job: JobId) -> Vec<NodeShare> {
        let id = self.running.find(job);
        let mut shares = id.map(|id| self.shares_of(id)).unwrap_or_default();
        shares.sort_by_key(|share| share.node);
        shares
    }

    /// The nodes of a running job.
    pub(crate) fn nodes_of(&self, job: JobId) -> NodeSet {
        let running = self.running.find(job).map(|id| self.running.get(id));
        running.map_or_else(NodeSet::default, |running| running.nodes.clone())
    }

    fn shares_of(&self, id: RunId) -> Vec<NodeShare> {
        let running = self.running.get(id);
        match &running.holding {
            Holding::Listed(shares) | Holding::WholeListed(shares) => shares.clone(),
            Holding::Whole(demand) => {
                let room = |node| demand.capacity(self.machine.total(node));
                let nodes = running.nodes.iter().map(|node| (node, room(node)));
                let picks = spread(&nodes.collect::<Vec<_>>(), demand.tasks);
                self.shares_for(demand, &picks)
            }
        }
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
