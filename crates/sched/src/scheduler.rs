//! The planner's state, and the events that change it.
//!
//! What always holds: a job waits or runs, never both; each pool's line has exactly
//! the jobs of its queues that start jobs; every change that could let a job start marks
//! the pool for its next pass.

use crate::cow_map::CowMap;
use crate::group::{Feasible, Groups};
use crate::machine::Machine;
use crate::node_pool::{NodePool, pools};
use crate::nodeset::NodeSet;
use crate::pass::Pass;
use crate::resource_pool::all::ResourcePools;
use crate::resource_pool::classes::{ClassId, HoldClasses};
use crate::resource_pool::holder::OtherPlanners;
use crate::running::{RunId, RunningJobs};
use crate::shared_table::SharedTable;
use crate::waiting_line::{GroupId, QueueKey};
use crate::{Block, Demand, Holds, NodeMask, OrderKey, Policy};
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
    /// What it holds of resource pools while it runs.
    pub holds: Holds,
}

#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub nodes: NodeMask,
    pub pool: usize,
    pub starts: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub job: WaitingJob,
    pub group: GroupId,
    pub class: ClassId,
}

/// The planner: machine, queues, waiting and running jobs, accepted reservations.
///
/// A clone is a snapshot: playing it forward does not touch the original.
///
/// # Panics
/// No method panics on ids that are not known: such events change nothing.
#[derive(Clone, Debug)]
pub struct Scheduler {
    policy: Policy,
    pub(crate) machine: Machine,
    queues: Vec<Queue>,
    pub(crate) node_pools: Vec<NodePool>,
    pub(crate) groups: Groups,
    classes: HoldClasses,
    resource_pools: ResourcePools,
    waiting: SharedTable<Waiting>,
    pub(crate) running: RunningJobs,
    /// What other planners are told, and tell.
    others: OtherPlanners,
    pub(crate) blocks: CowMap<ReservationId, Arc<Block>>,
    /// Counts the changes of nodes and queues.
    epoch: u64,
    /// Counts the passes.
    passes: u64,
    /// Once it is asked for: no decision so far would have been another one with something
    /// else booked from then on.
    reach: Option<Time>,
    /// The memory of the last pass.
    spare: Box<Pass>,
}

impl Scheduler {
    /// An empty machine. `queues[i]` are the nodes of `QueueId(i)`.
    pub fn new(policy: Policy, nodes: Vec<Amounts>, queues: Vec<NodeMask>) -> Self {
        let mut scheduler = Self {
            policy,
            machine: Machine::default(),
            queues: Vec::new(),
            node_pools: Vec::new(),
            groups: Groups::default(),
            classes: HoldClasses::default(),
            resource_pools: ResourcePools::default(),
            waiting: SharedTable::default(),
            running: RunningJobs::default(),
            others: OtherPlanners::default(),
            blocks: CowMap::default(),
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
        let (regions, places) = pools(&queues);
        self.machine.divide(&regions.iter().collect::<Vec<_>>());
        let pool = |nodes| NodePool {
            nodes,
            dirty: true,
            reserved_is_old: true,
            ..NodePool::default()
        };
        self.node_pools = regions.into_iter().map(pool).collect();
        let starts: Vec<bool> = self.queues.iter().map(|queue| queue.starts).collect();
        let queue = |(at, (nodes, pool)): (usize, _)| Queue {
            nodes,
            pool,
            starts: starts.get(at).copied().unwrap_or(true),
        };
        let placed = queues.into_iter().zip(places).enumerate();
        self.queues = placed.map(queue).collect();
        self.epoch += 1;
        self.groups.forget_plain();
        self.refill();
    }

    /// Enters jobs and reservations into new pools.
    fn refill(&mut self) {
        for waiting in self.waiting.sorted_by_key(|waiting| waiting.job.key) {
            let queue = self.queues.get(waiting.job.queue.index());
            if let Some(queue) = queue.filter(|queue| queue.starts) {
                let queue_key = queue_key((&self.groups, &self.classes), waiting);
                self.node_pools[queue.pool]
                    .line
                    .insert(waiting.job.key, queue_key);
            }
        }
        let running: Vec<RunId> = self.running.iter().map(|(id, _)| id).collect();
        running.into_iter().for_each(|id| self.enter(id));
        for (reservation, block) in self.blocks.iter() {
            for share in &block.shares {
                if let Some(region) = self.machine.region(share.node) {
                    self.node_pools[region].bound(*reservation, (block.start, block.end));
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
        let mut broken = false;
        for waiting in self.waiting.sorted_by_key(|waiting| waiting.job.key) {
            if waiting.job.queue != queue {
                continue;
            }
            let pool = &mut self.node_pools[known.pool];
            if starts {
                let queue_key = queue_key((&self.groups, &self.classes), waiting);
                pool.line.insert(waiting.job.key, queue_key);
                pool.change();
            } else {
                pool.take_out(&waiting.job.key, self.classes.needs(waiting.class));
                broken |= pool.break_promise(waiting.job.key.job);
            }
        }
        if broken {
            self.touch_holders();
        }
    }

    /// That demand; the one of a job that waits in the queue, or did so a moment ago, if it is equal: who
    /// keeps demands beside the planner keeps equal ones once.
    pub fn shared_demand(&self, queue: QueueId, demand: Arc<Demand>) -> Arc<Demand> {
        self.groups.shared(queue, demand)
    }

    /// Adds a job to the waiting ones. One with the same id that waits is replaced.
    pub fn enqueue(&mut self, mut job: WaitingJob) {
        let id = job.key.job;
        debug_assert!(!self.is_running(id), "job {id} runs already");
        let group = self.join(job.queue, &mut job.demand);
        if !job.demand.holds_whole_nodes() {
            self.machine.note_changes();
        }
        let class = self.join_class(&job);
        let (queue, key) = (job.queue, job.key);
        let waiting = Waiting { job, group, class };
        let queue_key = queue_key((&self.groups, &self.classes), &waiting);
        if let Some(old) = self.waiting.insert(id, waiting) {
            self.step_out(&old);
        }
        if self.queues.get(queue.index()).is_some_and(|q| q.starts) {
            self.line_up(queue, key, queue_key);
        }
    }

    /// A waiting job has this key from now on: what it wants is the same as before. False when it does
    /// not wait.
    pub fn set_order(&mut self, key: OrderKey) -> bool {
        let Some(waiting) = self.waiting.get_mut(key.job) else {
            return false;
        };
        let old = std::mem::replace(&mut waiting.job.key, key);
        let (queue, class) = (waiting.job.queue, waiting.class);
        let queue_key = queue_key((&self.groups, &self.classes), waiting);
        self.out_of_line(queue, &old, class);
        if self.queues.get(queue.index()).is_some_and(|q| q.starts) {
            self.line_up(queue, key, queue_key);
        }
        true
    }

    /// Puts a job into the line of its queue, or beside the pool of its own that is full.
    fn line_up(&mut self, queue: QueueId, key: OrderKey, queue_key: QueueKey) {
        let full = self.full_own_pool(queue_key.class);
        if let Some(pool) = self.pool_of(queue) {
            match full {
                None => pool.add(key, queue_key),
                Some(need) => pool.park(need, key, queue_key),
            }
        }
    }

    /// Removes a waiting job. False when it does not wait.
    pub fn dequeue(&mut self, job: JobId) -> bool {
        let Some(waiting) = self.waiting.remove(job) else {
            return false;
        };
        self.step_out(&waiting);
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

    /// A waiting job as it was entered.
    pub fn waiting(&self, job: JobId) -> Option<&WaitingJob> {
        self.waiting.get(job).map(|waiting| &waiting.job)
    }

    /// The waiting jobs of the queues that share nodes with `queue` which have a guaranteed place,
    /// or stopped the last pass, in the order of service.
    pub fn heads_of(&self, queue: QueueId) -> Vec<&WaitingJob> {
        let pool = self.queue(queue).map(|queue| queue.pool);
        let pool = pool.and_then(|pool| self.node_pools.get(pool));
        let heads = pool.into_iter().flat_map(|pool| &pool.heads);
        let mut heads: Vec<&WaitingJob> = heads.filter_map(|(job, _)| self.waiting(*job)).collect();
        heads.sort_by_key(|head| head.key);
        heads
    }

    /// True when the job runs.
    pub fn is_running(&self, job: JobId) -> bool {
        self.running.find(job).is_some()
    }

    /// Starts what can start now. The jobs run from now on, and are expected to end when
    /// their limits are over. `now` does not go back but after [`Scheduler::clock_set`].
    pub fn schedule(&mut self, now: Time) -> Vec<JobId> {
        let mut starts = Vec::new();
        self.advance_pools(now);
        for pool in 0..self.node_pools.len() {
            if self.node_pools[pool].needs_pass(now) {
                self.pass(pool, now, &mut starts);
            }
        }
        starts
    }

    /// `now` may go back, and has gone forward by more than has passed: everything that was
    /// to happen next is looked at again.
    pub fn clock_set(&mut self) {
        for pool in &mut self.node_pools {
            pool.change();
            pool.due = Time::EPOCH;
            pool.reserved_is_old = true;
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
        self.node_pools[queue.pool].line.first()
    }

    /// The waiting jobs in the order of service, those of closed queues among them.
    pub fn waiting_in_order(&self) -> impl Iterator<Item = &WaitingJob> {
        let jobs = self.waiting.sorted_by_key(|waiting| waiting.job.key);
        jobs.into_iter().map(|waiting| &waiting.job)
    }

    /// One more job with that demand in that queue: equal demands become one.
    pub(crate) fn join(&mut self, queue: QueueId, demand: &mut Arc<Demand>) -> GroupId {
        let known = self.queues.get(queue.index());
        let nodes = known.map(|q| (&q.nodes, &self.node_pools[q.pool].nodes));
        self.groups.join(queue, demand, nodes)
    }

    /// One more job that wants what this one does of resource pools.
    pub(crate) fn join_class(&mut self, job: &WaitingJob) -> ClassId {
        let pools = &self.resource_pools;
        let shared = |id| pools.get(id).is_some_and(|pool| !pool.is_own());
        self.classes.join(&job.holds, &job.demand, shared)
    }

    /// What waiting jobs want of resource pools.
    pub(crate) fn classes(&self) -> &HoldClasses {
        &self.classes
    }

    /// What other planners are told, and tell.
    pub(crate) fn others(&self) -> &OtherPlanners {
        &self.others
    }

    pub(crate) fn others_mut(&mut self) -> &mut OtherPlanners {
        &mut self.others
    }

    pub(crate) fn resource_pools(&self) -> &ResourcePools {
        &self.resource_pools
    }

    pub(crate) fn resource_pools_mut(&mut self) -> &mut ResourcePools {
        &mut self.resource_pools
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    pub(crate) fn queue(&self, queue: QueueId) -> Option<&Queue> {
        self.queues.get(queue.index())
    }

    pub(crate) fn waiting_job(&self, job: JobId) -> Option<&Waiting> {
        self.waiting.get(job)
    }

    /// A job waits no more: it starts. Its line is told by the pass.
    pub(crate) fn take_waiting(&mut self, job: JobId) -> Option<Waiting> {
        let waiting = self.waiting.remove(job)?;
        self.groups.leave(waiting.group);
        self.classes.leave(waiting.class);
        Some(waiting)
    }

    /// The memory for one more pass.
    pub(crate) fn begin_pass(&mut self) -> Box<Pass> {
        self.passes += 1;
        std::mem::take(&mut self.spare)
    }

    /// The pass is over: its memory is for the next.
    pub(crate) fn end_pass(&mut self, pass: Box<Pass>) {
        self.spare = pass;
    }

    /// The number of the pass that is made, or was made last.
    pub(crate) fn pass_number(&self) -> u64 {
        self.passes
    }

    /// Keeps the memory of a set of nodes that is needed no more.
    pub(crate) fn keep_memory(&mut self, nodes: NodeSet) {
        self.spare.spare_set = Some(nodes);
    }

    /// Whether the group could run, found out once for each state of nodes and queues.
    pub(crate) fn feasible(&mut self, group: GroupId) -> Feasible {
        let group = self.groups.get_mut(group);
        let queue = &self.queues[group.queue().index()];
        let all = &self.node_pools[queue.pool].nodes;
        group.refresh(self.epoch, &self.machine, (&queue.nodes, all));
        group.feasible
    }

    /// Whether the group could run, without keeping the answer.
    pub(crate) fn known_feasible(&self, group: GroupId) -> Feasible {
        let known = self.groups.get(group);
        if known.is_current(self.epoch) {
            return known.feasible;
        }
        let queue = &self.queues[known.queue().index()];
        known.feasible_on(&self.machine, &queue.nodes)
    }

    /// Notes that a decision looks at what is booked until then.
    pub(crate) fn reaches(&mut self, end: Time) {
        self.reach = self.reach.map(|reach| reach.max(end));
    }

    /// How far ahead decisions have looked, once that is noted.
    pub(crate) fn reach(&self) -> Option<Time> {
        self.reach
    }

    /// Notes from now on how far ahead decisions look.
    pub(crate) fn watch_reach(&mut self) {
        self.reach = Some(Time(i64::MIN));
    }

    /// The machine and all that is booked on it, as far as it matters to one pool.
    pub(crate) fn scratch(&self, pool: usize) -> Self {
        let all = self.node_pools.iter().enumerate();
        let one = |(at, known): (usize, &NodePool)| match at == pool {
            true => known.without_line(),
            false => NodePool {
                promised: known.promised.clone(),
                ..NodePool::default()
            },
        };
        self.without_waiting(all.map(one).collect(), self.others.promised_alone())
    }

    /// The same machine, reservations and running jobs where these jobs alone wait. Those that do not
    /// wait here are passed over.
    pub(crate) fn with_only(&self, jobs: &[JobId]) -> Self {
        let line = |known: &NodePool| NodePool {
            promised: known.promised.clone(),
            ..known.without_line()
        };
        let pools = self.node_pools.iter().map(line).collect();
        let mut with = self.without_waiting(pools, self.others.clone());
        for waiting in jobs.iter().filter_map(|job| self.waiting.get(*job)) {
            with.enqueue(waiting.job.clone());
        }
        let Self {
            node_pools,
            waiting,
            ..
        } = &mut with;
        for pool in node_pools {
            pool.promised
                .retain(|promise| waiting.contains(promise.job));
        }
        with
    }

    fn without_waiting(&self, node_pools: Vec<NodePool>, others: OtherPlanners) -> Self {
        Self {
            policy: self.policy,
            machine: self.machine.clone(),
            queues: self.queues.clone(),
            node_pools,
            groups: Groups::default(),
            classes: HoldClasses::default(),
            resource_pools: self.resource_pools.clone(),
            waiting: SharedTable::default(),
            running: self.running.clone(),
            others,
            blocks: self.blocks.clone(),
            epoch: self.epoch,
            passes: self.passes,
            reach: None,
            spare: Box::default(),
        }
    }

    fn pool_of(&mut self, queue: QueueId) -> Option<&mut NodePool> {
        let queue = self.queues.get(queue.index())?;
        self.node_pools.get_mut(queue.pool)
    }

    /// A job that waits no more leaves its line.
    fn step_out(&mut self, waiting: &Waiting) {
        self.out_of_line(waiting.job.queue, &waiting.job.key, waiting.class);
        self.groups.leave(waiting.group);
        self.classes.leave(waiting.class);
    }

    fn out_of_line(&mut self, queue: QueueId, key: &OrderKey, class: ClassId) {
        if let Some(queue) = self.queues.get(queue.index())
            && let Some(pool) = self.node_pools.get_mut(queue.pool)
        {
            pool.take_out(key, self.classes.needs(class));
            if pool.break_promise(key.job) {
                self.touch_holders();
            }
        }
    }

    pub(crate) fn touch(&mut self, node: NodeId) {
        if let Some(region) = self.machine.region(node) {
            self.node_pools[region].change();
        }
    }
}

/// What a search needs to know of a waiting job.
fn queue_key((groups, classes): (&Groups, &HoldClasses), waiting: &Waiting) -> QueueKey {
    let group = groups.get(waiting.group);
    QueueKey {
        class: waiting.class,
        needs: classes.bits(waiting.class),
        ..group.queue_key(waiting.group, waiting.job.limit)
    }
}
