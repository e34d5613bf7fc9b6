//! One queue as it is now.
//!
//! What always holds: the jobs of all users together are the jobs of the queue; a user without any
//! is not kept.

use cosy_model::{QueueSpec, QueueState, Uid};
use cosy_sched::NodeMask;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Queue {
    spec: QueueSpec,
    state: QueueState,
    nodes: Arc<NodeMask>,
    /// Live jobs in it.
    jobs: u32,
    /// Live jobs by user.
    by_user: BTreeMap<Uid, u32>,
    /// Jobs that hold nodes.
    running: u32,
}

impl Queue {
    /// A queue in which no job is counted yet.
    pub fn new(spec: QueueSpec, state: QueueState, nodes: NodeMask) -> Self {
        Self {
            spec,
            state,
            nodes: Arc::new(nodes),
            jobs: 0,
            by_user: BTreeMap::new(),
            running: 0,
        }
    }

    /// What the configuration and administrators have made of it.
    pub fn spec(&self) -> &QueueSpec {
        &self.spec
    }

    /// Whether it takes and starts jobs.
    pub fn state(&self) -> QueueState {
        self.state
    }

    /// These nodes, kept once where they are all of its own.
    pub fn own_or(&self, nodes: NodeMask) -> Arc<NodeMask> {
        match *self.nodes == nodes {
            true => Arc::clone(&self.nodes),
            false => Arc::new(nodes),
        }
    }

    /// Its nodes by number.
    pub fn nodes(&self) -> &NodeMask {
        &self.nodes
    }

    /// Live jobs in it; each component of a job counts.
    pub fn jobs(&self) -> u32 {
        self.jobs
    }

    /// Live jobs of a user in it.
    pub fn jobs_of(&self, uid: Uid) -> u32 {
        self.by_user.get(&uid).copied().unwrap_or(0)
    }

    /// Users with live jobs in it.
    pub fn users(&self) -> impl Iterator<Item = Uid> {
        self.by_user.keys().copied()
    }

    /// The sum of what is counted for each user.
    pub fn jobs_of_all_users(&self) -> u32 {
        self.by_user.values().sum()
    }

    /// Jobs that hold nodes.
    pub fn running(&self) -> u32 {
        self.running
    }

    /// An administrator has opened or closed it.
    pub fn opened_or_closed(&mut self, state: QueueState) {
        self.state = state;
    }

    /// So many jobs of a user have come.
    pub fn came(&mut self, uid: Uid, jobs: u32) {
        self.jobs += jobs;
        *self.by_user.entry(uid).or_default() += jobs;
    }

    /// So many jobs of a user are gone.
    pub fn left(&mut self, uid: Uid, jobs: u32) {
        self.jobs = self.jobs.saturating_sub(jobs);
        match self.jobs_of(uid).saturating_sub(jobs) {
            0 => self.by_user.remove(&uid),
            still => self.by_user.insert(uid, still),
        };
    }

    /// So many jobs in it have got nodes.
    pub fn started(&mut self, jobs: u32) {
        self.running += jobs;
    }

    /// So many jobs in it hold no nodes any more.
    pub fn stopped(&mut self, jobs: u32) {
        self.running = self.running.saturating_sub(jobs);
    }

    /// Its jobs are counted anew.
    pub fn count_anew(&mut self) {
        (self.jobs, self.running) = (0, 0);
        self.by_user.clear();
    }
}
