//! Random clusters and random histories: the planner and the brute-force oracle are driven
//! side by side, and what always holds is checked after every step.
#![allow(dead_code)] // each test program uses its part

#[path = "../oracle/mod.rs"]
pub mod oracle;

use cosy_model::{
    AccessLevel, Amounts, JobId, MiB, NodeId, NodeShare, QueueId, ReservationId, Span, Time,
    WaitReason,
};
use cosy_sched::{
    Block, Component, Demand, Depth, Hold, HoldAmount, Holds, NodeMask, OrderKey, Policy, PoolId,
    PoolKind, PoolSpec, Scheduler, Topology, WaitingJob,
};
use oracle::{Decision, Holding, Occupancy, Resource, World};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

pub const QUEUES: usize = 3;

/// A cluster in small numbers.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub policy: Policy,
    pub nodes: Vec<Amounts>,
    pub queues: Vec<NodeMask>,
    /// The nodes of leaf switches, of which the first half are under one switch and the rest under
    /// another; none where nobody minds.
    pub leaves: Vec<NodeMask>,
}

/// What can happen to it. Numbers are taken modulo what there is.
#[derive(Clone, Debug)]
pub enum Step {
    Submit(Request),
    End(usize),
    Release(usize, usize),
    Dequeue(usize),
    /// A waiting job stands elsewhere in its line.
    Reorder(usize, i64),
    Extend(usize, i64),
    Block(Vec<(u32, u32)>, i64, i64),
    Unblock(usize),
    Available(u32, bool),
    Queue(u16, bool),
    Wait(i64),
    /// A pool is set: whether it is an own one, its capacity, and one from later on.
    Pool(u32, bool, u64, Option<(i64, u64)>),
    RemovePool(u32),
    /// A reservation of an amount of a pool, from then on, for so long.
    Keep(u32, u64, i64, i64),
}

/// A job in small numbers.
#[derive(Clone, Debug)]
pub struct Request {
    pub queue: u16,
    pub level: u8,
    pub nice: i64,
    pub nodes: Option<u32>,
    pub max_nodes: Option<u32>,
    pub tasks: u32,
    pub tasks_per_node: Option<u32>,
    pub cores: u32,
    pub memory: u64,
    pub per_node: (u64, u32, u32),
    pub exclusive: bool,
    pub avoid: u32,
    pub required: u32,
    pub tiers: Vec<u32>,
    pub max_switches: Option<u32>,
    pub contiguous: bool,
    pub limit: i64,
    /// Pools, and what is held of them.
    pub holds: Vec<(u32, HoldAmount)>,
    /// Further components; their queue, order and limit are those of the first.
    pub further: Vec<Request>,
}

impl Request {
    /// One task of one core for so long, in the first queue.
    pub fn plain(limit: i64) -> Self {
        Self {
            queue: 0,
            level: 0,
            nice: 0,
            nodes: None,
            max_nodes: None,
            tasks: 1,
            tasks_per_node: None,
            cores: 1,
            memory: 0,
            per_node: (0, 0, 0),
            exclusive: false,
            avoid: 0,
            required: 0,
            tiers: Vec::new(),
            max_switches: None,
            contiguous: false,
            limit,
            holds: Vec::new(),
            further: Vec::new(),
        }
    }

    /// The same for so many whole nodes, whichever they are.
    pub fn whole(&self) -> Self {
        let nodes = self.nodes.unwrap_or(1);
        Self {
            nodes: Some(nodes),
            max_nodes: None,
            tasks: nodes,
            tasks_per_node: None,
            cores: 1,
            memory: 0,
            per_node: (0, 0, 0),
            exclusive: true,
            avoid: 0,
            required: 0,
            tiers: Vec::new(),
            further: Vec::new(),
            ..self.clone()
        }
    }
}

pub fn mask(bits: u32) -> NodeMask {
    (0..32).filter(|n| bits >> n & 1 == 1).map(NodeId).collect()
}

pub fn amounts((cores, memory, gpus, licenses): (u32, u64, u32, u32)) -> Amounts {
    let mut amounts = Amounts {
        cores,
        memory: MiB(memory * 100),
        disk: MiB(1000),
        gpus,
        ..Amounts::default()
    };
    amounts.other.set("licence", licenses);
    amounts
}

pub fn policies() -> impl Strategy<Value = Policy> {
    let depth = prop_oneof![
        3 => Just(Depth::Count(1)),
        1 => (0u32..4).prop_map(Depth::Count),
        1 => Just(Depth::All),
    ];
    (depth, prop::bool::weighted(0.8)).prop_map(|(depth, backfill)| Policy { depth, backfill })
}

pub fn clusters() -> impl Strategy<Value = Cluster> {
    let alike = (1usize..=6, 1u32..=4).prop_map(|(n, cores)| vec![(cores, 8, 0, 0); n]);
    let mixed = prop::collection::vec((1u32..=4, 4u64..=8, 0u32..=1, 0u32..=2), 1..=6);
    let nodes = prop_oneof![alike, mixed];
    let queues = prop_oneof![
        Just(vec![u32::MAX; QUEUES]),
        Just(vec![0b000011, 0b001100, 0b110000]),
        Just(vec![0b000111, 0b001100, 0b110000]),
        prop::collection::vec(0u32..64, QUEUES),
    ];
    (policies(), nodes, queues).prop_map(|(policy, nodes, queues)| {
        let all = (1 << nodes.len()) - 1;
        Cluster {
            policy,
            nodes: nodes.into_iter().map(amounts).collect(),
            queues: queues.into_iter().map(|q| mask(q & all)).collect(),
            leaves: Vec::new(),
        }
    })
}

/// The same with two to four leaf switches.
pub fn wired(clusters: impl Strategy<Value = Cluster>) -> impl Strategy<Value = Cluster> {
    let leaf_of = prop::collection::vec(0usize..4, 6);
    (clusters, leaf_of, 2usize..=4).prop_map(|(cluster, leaf_of, leaves)| {
        let on = |leaf: usize| {
            let nodes = (0..cluster.nodes.len()).filter(|node| leaf_of[*node] % leaves == leaf);
            nodes.map(|node| NodeId(node as u32)).collect()
        };
        Cluster {
            leaves: (0..leaves).map(on).collect(),
            ..cluster
        }
    })
}

/// Jobs of which some mind how near their nodes are.
pub fn near_requests(request: impl Strategy<Value = Request>) -> impl Strategy<Value = Request> {
    let most = prop_oneof![2 => Just(None), 1 => (1u32..=2).prop_map(Some)];
    (request, most, prop::bool::weighted(0.15)).prop_map(|(request, max_switches, contiguous)| {
        Request {
            max_switches,
            contiguous,
            ..request
        }
    })
}

/// What can happen where there are switches.
pub fn near_steps(blocks: u32) -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => near_requests(requests()).prop_map(Step::Submit),
        2 => steps(blocks),
    ]
}

/// Jobs of one component, and some of several.
pub fn requests() -> impl Strategy<Value = Request> {
    let further = prop_oneof![
        5 => Just(Vec::new()),
        2 => prop::collection::vec(single_requests(), 1..3),
    ];
    (single_requests(), further).prop_map(|(first, further)| Request { further, ..first })
}

/// Jobs of one component.
pub fn single_requests() -> impl Strategy<Value = Request> {
    let shape = (
        prop_oneof![1 => Just(None), 2 => (1u32..=4).prop_map(Some)],
        1u32..=6,
        prop_oneof![3 => Just(None), 1 => (1u32..=3).prop_map(Some)],
        0u32..=3,
        0u64..=3,
        prop_oneof![2 => Just((0, 0, 0)), 1 => (0u64..=4, 0u32..=1, 0u32..=1)],
        any::<bool>(),
        prop_oneof![4 => Just(None), 1 => (1u32..=3).prop_map(Some)],
    );
    let place = (
        prop_oneof![3 => Just(0), 1 => 0u32..64],
        prop_oneof![6 => Just(0), 1 => (0u32..6).prop_map(|n| 1 << n), 1 => 0u32..64],
        prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(0u32..64, 1..3)],
    );
    let order = (0u16..QUEUES as u16, 0u8..3, -1i64..=1);
    let limit = prop_oneof![20 => 1i64..30, 1 => Just(0), 1 => Just(i64::MAX)];
    (order, shape, place, limit).prop_map(|(order, shape, place, limit)| {
        let (nodes, extra, tasks_per_node, cores, memory, per_node, exclusive, max_nodes) = shape;
        Request {
            queue: order.0,
            level: order.1,
            nice: order.2,
            nodes,
            max_nodes,
            tasks: nodes.map_or(extra, |n| n + extra / 2),
            tasks_per_node,
            cores,
            memory,
            per_node,
            exclusive,
            avoid: place.0,
            required: place.1,
            tiers: place.2,
            max_switches: None,
            contiguous: false,
            limit,
            holds: Vec::new(),
            further: Vec::new(),
        }
    })
}

/// Jobs of which most hold something of one of six pools: those with even numbers are shared.
pub fn holding_requests() -> impl Strategy<Value = Request> {
    let amount = prop_oneof![
        6 => (1u64..=4).prop_map(HoldAmount::Fixed),
        1 => Just(HoldAmount::Cores),
        1 => Just(HoldAmount::Nodes),
        1 => Just(HoldAmount::Memory),
    ];
    let holds = prop::collection::btree_map(0u32..6, amount, 0..3);
    (requests(), holds).prop_map(|(request, holds)| Request {
        holds: holds.into_iter().collect(),
        ..request
    })
}

/// What can happen where there are pools.
pub fn pool_steps() -> impl Strategy<Value = Step> {
    let later = prop_oneof![2 => Just(None), 1 => (1i64..30, 0u64..8).prop_map(Some)];
    prop_oneof![
        16 => holding_requests().prop_map(Step::Submit),
        24 => steps(1),
        4 => (0u32..6, 0u64..8, later).prop_map(|(id, capacity, later)| {
            Step::Pool(id, id % 2 == 1, capacity, later)
        }),
        1 => (0u32..6).prop_map(Step::RemovePool),
        2 => (0u32..6, 1u64..4, 0i64..40, 1i64..20).prop_map(|(id, amount, at, length)| {
            Step::Keep(id, amount, at, length)
        }),
    ]
}

pub fn steps(blocks: u32) -> impl Strategy<Value = Step> {
    let shares = prop::collection::vec((0u32..6, 1u32..=4), 1..4);
    prop_oneof![
        12 => requests().prop_map(Step::Submit),
        8 => (0usize..20).prop_map(Step::End),
        1 => (0usize..20, 0usize..4).prop_map(|(j, n)| Step::Release(j, n)),
        1 => (0usize..20).prop_map(Step::Dequeue),
        2 => (0usize..20, -3i64..3).prop_map(|(j, nice)| Step::Reorder(j, nice)),
        1 => (0usize..20, -5i64..20).prop_map(|(j, d)| Step::Extend(j, d)),
        blocks => (shares, -3i64..60, 1i64..20).prop_map(|(s, at, d)| Step::Block(s, at, d)),
        1 => (0usize..5).prop_map(Step::Unblock),
        1 => (0u32..6, any::<bool>()).prop_map(|(n, up)| Step::Available(n, up)),
        1 => (0u16..QUEUES as u16, any::<bool>()).prop_map(|(q, on)| Step::Queue(q, on)),
        8 => (0i64..12).prop_map(Step::Wait),
    ]
}

/// What a request asks of a machine with the nodes `all`.
fn demand(request: &Request, all: u32, topology: Option<&Arc<Topology>>) -> Demand {
    let further = request.further.iter();
    let further = further.map(|one| component(one, all, topology));
    Demand::new(component(request, all, topology), further.collect())
}

/// What the first component of a request asks for.
fn component(request: &Request, all: u32, topology: Option<&Arc<Topology>>) -> Component {
    let per_task = amounts((request.cores, request.memory, 0, 0));
    let (memory, gpus, licenses) = request.per_node;
    let mut per_node = amounts((0, memory, gpus, licenses));
    per_node.disk = MiB(memory * 100);
    Component {
        nodes: request.nodes,
        max_nodes: request.max_nodes,
        tasks: request.tasks,
        tasks_per_node: request.tasks_per_node,
        per_task: Amounts {
            disk: MiB(0),
            ..per_task
        },
        per_node,
        exclusive: request.exclusive,
        allowed: mask(!request.avoid & all).into(),
        required: mask(request.required & all),
        counted: Vec::new(),
        tiers: request.tiers.iter().map(|t| mask(t & all)).collect(),
        topology: topology.cloned(),
        max_switches: request.max_switches.filter(|_| topology.is_some()),
        segment: None,
        contiguous: request.contiguous,
    }
}

/// The planner and the oracle in the same state.
#[derive(Clone, Debug)]
pub struct Pair {
    pub cluster: Cluster,
    topology: Option<Arc<Topology>>,
    pub scheduler: Scheduler,
    pub world: World,
    pub now: i64,
    pub blocks: BTreeMap<ReservationId, Block>,
    /// What each job holds of pools.
    holds: BTreeMap<JobId, Holds>,
    /// Whether something has happened to the pool of each queue since its last pass.
    touched: Vec<bool>,
    last: Vec<i64>,
    next: u64,
}

impl Pair {
    pub fn new(cluster: &Cluster) -> Self {
        let Cluster {
            policy,
            nodes,
            queues,
            leaves,
        } = cluster.clone();
        let halves = leaves.len() as u32 / 2;
        let above = vec![
            (1, (0..halves).collect()),
            (1, (halves..leaves.len() as u32).collect()),
        ];
        let wired = || Arc::new(Topology::new(nodes.len(), leaves.clone(), above));
        Self {
            cluster: cluster.clone(),
            topology: (!leaves.is_empty()).then(wired),
            scheduler: Scheduler::new(policy, nodes.clone(), queues.clone()),
            world: World {
                policy,
                open: vec![true; nodes.len()],
                starts: vec![true; queues.len()],
                nodes,
                queues,
                leaves,
                ..World::default()
            },
            now: 1000,
            blocks: BTreeMap::new(),
            holds: BTreeMap::new(),
            touched: vec![true; QUEUES],
            last: vec![0; QUEUES],
            next: 1,
        }
    }

    pub fn running(&self) -> Vec<JobId> {
        let mut jobs: Vec<JobId> = self.world.taken.iter().filter_map(|t| t.job).collect();
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    pub fn shares(&self, job: JobId) -> Vec<&Occupancy> {
        let taken = self.world.taken.iter();
        taken.filter(|t| t.job == Some(job)).collect()
    }

    fn touch_queue(&mut self, queue: usize) {
        for near in self.world.pool(queue) {
            self.touched[near] = true;
        }
    }

    fn touch_node(&mut self, node: usize) {
        let id = NodeId(node as u32);
        for queue in 0..QUEUES {
            if self.world.queues[queue].contains(id) {
                self.touch_queue(queue);
            }
        }
    }

    pub fn job(&mut self, request: &Request) -> WaitingJob {
        let level = [AccessLevel::Prefer, AccessLevel::Allow, AccessLevel::Defer];
        let all = (1 << self.world.nodes.len()) - 1;
        let demand = demand(request, all, self.topology.as_ref());
        let holds = request.holds.iter().map(|(pool, amount)| Hold {
            pool: PoolId(*pool),
            amount: *amount,
        });
        let holds: Holds = holds.collect();
        let job = JobId(self.next);
        self.holds.insert(job, holds.clone());
        self.next += 1;
        WaitingJob {
            holds: holds.clone(),
            key: OrderKey {
                queue_priority: i32::from(request.queue) / 2,
                level: level[usize::from(request.level)],
                nice: request.nice,
                ..OrderKey::first_come(job, Time(self.now))
            },
            queue: QueueId(request.queue),
            demand: Arc::new(demand),
            limit: Span(request.limit),
        }
    }

    pub fn step(&mut self, step: &Step) {
        let running = self.running();
        let pick = |n: &usize| (!running.is_empty()).then(|| running[n % running.len()]);
        let nodes = self.world.nodes.len();
        match step {
            Step::Submit(request) => {
                let job = self.job(request);
                self.touch_queue(job.queue.index());
                self.world.waiting.push(job.clone());
                self.scheduler.enqueue(job);
            }
            Step::End(n) => {
                if let Some(job) = pick(n) {
                    self.end(job);
                }
            }
            Step::Release(n, node) => {
                if let Some(job) = pick(n) {
                    let shares = self.shares(job);
                    let node = shares[node % shares.len()].node;
                    assert!(self.scheduler.release_node(job, NodeId(node as u32)));
                    self.world
                        .taken
                        .retain(|t| t.job != Some(job) || t.node != node);
                    self.touch_node(node);
                    self.shrink(job, NodeId(node as u32));
                }
            }
            Step::Dequeue(n) if !self.world.waiting.is_empty() => {
                let at = n % self.world.waiting.len();
                let job = self.world.waiting.remove(at);
                assert!(self.scheduler.dequeue(job.key.job));
                if self.world.starts[job.queue.index()] {
                    self.touch_queue(job.queue.index());
                }
                self.break_promises(&[job.key.job]);
            }
            Step::Reorder(n, nice) if !self.world.waiting.is_empty() => {
                let at = n % self.world.waiting.len();
                let job = &mut self.world.waiting[at];
                job.key.nice = *nice;
                let (key, queue) = (job.key, job.queue.index());
                assert!(self.scheduler.set_order(key));
                if self.world.starts[queue] {
                    self.touch_queue(queue);
                }
                self.break_promises(&[key.job]);
            }
            Step::Dequeue(_) | Step::Reorder(..) => {}
            Step::Extend(n, by) => {
                if let Some(job) = pick(n) {
                    self.extend(job, self.now + by);
                }
            }
            Step::Block(shares, start, length) => self.block(shares, *start, *length),
            Step::Unblock(n) => {
                if let Some(id) = self.blocks.keys().nth(*n).copied() {
                    self.unblock(id);
                }
            }
            Step::Available(node, up) => {
                let node = *node as usize % nodes;
                self.scheduler.set_available(NodeId(node as u32), *up);
                if self.world.open[node] != *up {
                    self.world.open[node] = *up;
                    self.touch_node(node);
                }
            }
            Step::Queue(queue, on) => {
                let at = usize::from(*queue);
                self.scheduler.set_queue_starts(QueueId(*queue), *on);
                let jobs = self.world.waiting.iter();
                let waits = jobs.filter(|j| j.queue.index() == at).count() > 0;
                if self.world.starts[at] != *on && waits {
                    self.touch_queue(at);
                }
                self.world.starts[at] = *on;
                if !*on {
                    let jobs = self.world.waiting.iter().filter(|j| j.queue.index() == at);
                    let jobs: Vec<JobId> = jobs.map(|j| j.key.job).collect();
                    self.break_promises(&jobs);
                }
            }
            Step::Wait(by) => self.now += by,
            Step::Pool(id, own, capacity, later) => self.set_pool(*id, *own, *capacity, *later),
            Step::RemovePool(id) => {
                self.scheduler.remove_pool(PoolId(*id));
                self.world.resources.remove(&PoolId(*id));
                self.touch_holders();
            }
            Step::Keep(id, amount, start, length) => {
                self.block_of(&[], (*start, *length), vec![(PoolId(*id), *amount)]);
            }
        }
    }

    /// Guaranteed places of jobs that wait no more hold nothing.
    fn break_promises(&mut self, jobs: &[JobId]) {
        let mut broken = false;
        for places in self.world.promised.values_mut() {
            let before = places.len();
            places.retain(|place| place.job.is_none_or(|job| !jobs.contains(&job)));
            broken |= places.len() < before;
        }
        if broken {
            self.touch_holders();
        }
    }

    /// A job has given back a node, and holds less where nodes are counted.
    fn shrink(&mut self, job: JobId, node: NodeId) {
        if self.shares(job).is_empty() {
            self.give_back(job);
            return;
        }
        let left: Vec<NodeShare> = self.scheduler.held_by(job);
        let holds = self.holds.get(&job).cloned().unwrap_or_default();
        for held in self.world.held.iter_mut().filter(|h| h.job == Some(job)) {
            let hold = holds.iter().find(|hold| hold.pool == held.pool);
            held.amount = hold.map_or(held.amount, |hold| oracle::amount(hold, &left));
            if let Some(nodes) = &mut held.nodes {
                nodes.retain(|other| *other != node);
            }
        }
        if !holds.is_empty() {
            self.touch_holders();
        }
    }

    /// Ends the jobs that are over by now, for the oracle only.
    pub fn expire(&mut self) {
        let now = self.now;
        let over = |t: &Occupancy| t.job.is_some() && t.end <= now;
        let taken = self.world.taken.iter();
        for node in taken
            .filter(|t| over(t))
            .map(|t| t.node)
            .collect::<Vec<_>>()
        {
            self.touch_node(node);
        }
        self.world.taken.retain(|t| !over(t));
        let before = self.world.held.len();
        self.world.held.retain(|h| !h.running || h.end > now);
        if self.world.held.len() < before {
            self.touch_holders();
        }
    }

    pub fn end(&mut self, job: JobId) {
        assert!(self.scheduler.end(job));
        for node in self.shares(job).iter().map(|t| t.node).collect::<Vec<_>>() {
            self.touch_node(node);
        }
        self.world.taken.retain(|t| t.job != Some(job));
        self.give_back(job);
    }

    /// A job that has ended holds nothing any more.
    fn give_back(&mut self, job: JobId) {
        let before = self.world.held.len();
        self.world.held.retain(|h| h.job != Some(job));
        if self.world.held.len() < before {
            self.touch_holders();
        }
    }

    fn extend(&mut self, job: JobId, end: i64) {
        self.scheduler.set_expected_end(job, Time(end));
        for node in self.shares(job).iter().map(|t| t.node).collect::<Vec<_>>() {
            self.touch_node(node);
        }
        let taken = self.world.taken.iter_mut();
        taken
            .filter(|t| t.job == Some(job))
            .for_each(|t| t.end = end);
        let held = self.world.held.iter_mut().filter(|h| h.job == Some(job));
        if held.map(|h| h.end = end).count() > 0 {
            self.touch_holders();
        }
    }

    fn block(&mut self, shares: &[(u32, u32)], start: i64, length: i64) {
        self.block_of(shares, (start, length), Vec::new());
    }

    /// Sets a pool. What was promised of one that is an own one now does not count.
    fn set_pool(&mut self, id: u32, own: bool, capacity: u64, later: Option<(i64, u64)>) {
        let id = PoolId(id);
        let kind = if own { PoolKind::Own } else { PoolKind::Shared };
        let later: Vec<(i64, u64)> = later.iter().map(|(at, c)| (self.now + at, *c)).collect();
        let spec = PoolSpec {
            later: later.iter().map(|(at, c)| (Time(*at), *c)).collect(),
            ..PoolSpec::new(kind, WaitReason::Licenses, capacity)
        };
        self.scheduler.set_pool(id, spec);
        let resource = Resource {
            own,
            capacity,
            later,
        };
        self.world.resources.insert(id, resource);
        self.touch_holders();
    }

    /// Where jobs wait that hold something, all is looked at again.
    fn touch_holders(&mut self) {
        if self.world.waiting.iter().any(|job| !job.holds.is_empty()) {
            self.touched.fill(true);
        }
    }

    fn block_of(
        &mut self,
        shares: &[(u32, u32)],
        (start, length): (i64, i64),
        holds: Vec<(PoolId, u64)>,
    ) {
        let nodes = self.world.nodes.len() as u32;
        let reservation = ReservationId(self.next);
        self.next += 1;
        let share = |(node, cores): &(u32, u32)| NodeShare {
            component: 0,
            node: NodeId(node % nodes),
            tasks: 1,
            amounts: Amounts {
                cores: *cores,
                ..Amounts::default()
            },
        };
        let block = Block {
            holds,
            reservation,
            shares: shares.iter().map(share).collect(),
            start: Time(self.now + start),
            end: Time(self.now + start + length),
        };
        for share in &block.shares {
            self.world.taken.push(Occupancy {
                node: share.node.index(),
                start: block.start.0,
                end: block.end.0,
                amounts: share.amounts.clone(),
                whole: false,
                job: None,
                reservation: Some(reservation),
            });
            self.touch_node(share.node.index());
        }
        let holding = |(pool, amount): &(PoolId, u64)| Holding {
            pool: *pool,
            start: block.start.0,
            end: block.end.0,
            amount: *amount,
            job: None,
            reservation: Some(reservation),
            running: false,
            nodes: None,
        };
        self.world.held.extend(block.holds.iter().map(holding));
        self.scheduler.add_block(block.clone());
        if !block.holds.is_empty() {
            self.touch_holders();
        }
        self.blocks.insert(reservation, block);
    }

    pub fn unblock(&mut self, id: ReservationId) {
        let block = self.blocks.remove(&id).unwrap();
        let dropped = !self.scheduler.remove_block(id);
        assert!(!dropped || block.end.0 <= self.now, "{block:?} is gone");
        for share in &block.shares {
            // one whose time was over may have been forgotten before
            if !dropped {
                self.touch_node(share.node.index());
            }
        }
        self.world.taken.retain(|t| t.reservation != Some(id));
        self.world.held.retain(|h| h.reservation != Some(id));
        if !block.holds.is_empty() {
            self.touch_holders();
        }
    }

    /// True when the passing of time alone asks for a pass over the pool.
    fn time_counts(&self, pool: &[usize], last: i64) -> bool {
        let inside = |t: &&Occupancy| {
            let id = NodeId(t.node as u32);
            pool.iter().any(|q| self.world.queues[*q].contains(id))
        };
        let passed = |at: i64| last < at && at <= self.now;
        let shared = |pool: &PoolId| self.world.resources.get(pool).is_some_and(|r| !r.own);
        let timed = |h: &&Holding| shared(&h.pool) || h.reservation.is_some();
        let held = self.world.held.iter().filter(timed);
        let mut held = held.map(|h| {
            let late = h.running && h.end <= last && last < self.now;
            late || passed(h.end) || (h.reservation.is_some() && passed(h.start))
        });
        let changes = self.world.resources.values().flat_map(|r| &r.later);
        let mut changes = changes.map(|(at, _)| passed(*at));
        let holders = self.world.waiting.iter().any(|job| !job.holds.is_empty());
        if holders && (held.any(|due| due) || changes.any(|due| due)) {
            return true;
        }
        self.world.taken.iter().filter(inside).any(|t| {
            let late = t.job.is_some() && t.end <= last && last < self.now;
            passed(t.end) || late || (t.reservation.is_some() && passed(t.start))
        })
    }

    /// What the oracle starts now, in every pool that something happened to.
    pub fn decide(&mut self) -> Vec<Decision> {
        let mut decisions = Vec::new();
        let mut done = Vec::new();
        for queue in 0..QUEUES {
            let pool = self.world.pool(queue);
            if done.contains(&queue) {
                continue;
            }
            done.extend(pool.clone());
            let waits = |j: &WaitingJob| {
                pool.contains(&j.queue.index()) && self.world.starts[j.queue.index()]
            };
            let any = self.world.waiting.iter().any(waits);
            let due = self.touched[queue] || self.time_counts(&pool, self.last[queue]);
            if any && due {
                let promised = self.world.promised.clone();
                let waiting = self.world.waiting.clone();
                let holders =
                    |all: &[WaitingJob]| all.iter().filter(|j| !j.holds.is_empty()).count();
                let mut left = holders(&waiting);
                let decided = self.world.decide(&pool, self.now);
                let mut touch = self.world.promised.get(&pool[0]) != promised.get(&pool[0])
                    && !(promised.get(&pool[0]).is_none_or(Vec::is_empty)
                        && self.world.promised.get(&pool[0]).is_none_or(Vec::is_empty))
                    && holders(&self.world.waiting) > 0;
                for (job, _) in &decided {
                    let started = waiting.iter().find(|j| j.key.job == *job);
                    if started.is_some_and(|j| !j.holds.is_empty()) {
                        left -= 1;
                        touch |= left > 0;
                    }
                }
                if touch {
                    self.touched.fill(true);
                }
                decisions.extend(decided);
                for queue in pool {
                    self.touched[queue] = false;
                    self.last[queue] = self.now;
                }
            }
        }
        decisions
    }

    /// Both decide. Returns what was started, after comparing it.
    pub fn schedule(&mut self) -> Result<Vec<Decision>, TestCaseError> {
        let before = self.clone();
        let planned = self.scheduler.plan(Time(self.now), None);
        let got = self.scheduler.schedule(Time(self.now));
        let got = holdings(&self.scheduler, got);
        let mut wanted = self.decide();
        wanted.sort_by_key(|d| d.0);
        prop_assert_eq!(&got, &wanted, "at {}: {:#?}", self.now, before.world);
        let first = planned.predictions.iter();
        let mut first: Vec<JobId> = first
            .filter(|p| p.start == Some(Time(self.now)))
            .map(|p| p.job)
            .collect();
        first.sort_unstable();
        let started: Vec<JobId> = got.iter().map(|d| d.0).collect();
        prop_assert_eq!(first, started, "the plan's first instant");
        self.check()?;
        Ok(got)
    }

    /// What holds at any time.
    pub fn check(&self) -> Result<(), TestCaseError> {
        for (at, total) in self.world.nodes.iter().enumerate() {
            let mut used = Amounts::default();
            let here = |t: &&Occupancy| t.node == at && t.job.is_some();
            let jobs: Vec<&Occupancy> = self.world.taken.iter().filter(here).collect();
            jobs.iter().for_each(|t| used.give(&t.amounts));
            prop_assert!(used.fits(total), "node {} is overbooked: {:?}", at, jobs);
            let alone = jobs.iter().all(|t| !t.whole) || jobs.len() == 1;
            prop_assert!(alone, "node {} is shared with a whole-node job", at);
            let id = NodeId(at as u32);
            prop_assert_eq!(self.scheduler.used(id), used);
        }
        for id in (0..6).map(PoolId) {
            let held = self
                .scheduler
                .pool_use(Time(self.now), id)
                .map_or(0, |pool| pool.held);
            prop_assert_eq!(held, self.world.held_now(id), "of {:?}", id);
        }
        prop_assert_eq!(self.scheduler.waiting_count(), self.world.waiting.len());
        prop_assert_eq!(self.scheduler.running_count(), self.running().len());
        Ok(())
    }
}

/// What jobs that have just started hold, by job.
pub fn holdings(scheduler: &Scheduler, mut started: Vec<JobId>) -> Vec<Decision> {
    started.sort_unstable();
    let holding = |job: JobId| (job, scheduler.held_by(job));
    started.into_iter().map(holding).collect()
}
