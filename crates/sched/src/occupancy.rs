//! Running jobs come and go: what they hold is booked and freed, and the pools of
//! their nodes are told.
//!
//! What always holds: the end of a running job is entered in every pool that it has
//! nodes of, with the number of these nodes.

use crate::Component;
use crate::ends::End;
use crate::node_pool::NodePool;
use crate::nodeset::NodeSet;
use crate::pass::at_least_one;
use crate::resource_pool::{Held, Holds};
use crate::running::{Holding, RunId, Running};
use crate::scheduler::{Scheduler, Waiting};
use crate::select::{NodeTasks, spread};
use cosy_model::{JobId, NodeId, NodeShare, Time};

impl Scheduler {
    /// Enters a job that runs already. `exclusive` keeps everyone else off its nodes.
    pub fn start_running(
        &mut self,
        job: JobId,
        shares: Vec<NodeShare>,
        expected_end: Time,
        exclusive: bool,
    ) {
        self.start_running_holding(job, shares, expected_end, exclusive, &Holds::NONE);
    }

    /// The same for a job that holds something of resource pools.
    pub fn start_running_holding(
        &mut self,
        job: JobId,
        shares: Vec<NodeShare>,
        expected_end: Time,
        exclusive: bool,
        holds: &Holds,
    ) {
        self.dequeue(job);
        self.end(job);
        self.let_go_elsewhere(job);
        let held = Self::held_on(holds, || shares.clone());
        if exclusive && self.are_whole(&shares) {
            let nodes = shares.iter().map(|share| share.node).collect();
            let holding = Holding::WholeListed(shares);
            self.run_on(job, nodes, (holding, held), expected_end);
        } else {
            self.run_listed(job, (shares, held), expected_end, exclusive);
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

    /// Moves a job from waiting to running, on whole nodes. Its line is told by the pass.
    pub(crate) fn start_on(&mut self, job: JobId, nodes: NodeSet, now: Time) {
        let Some(Waiting { job: known, .. }) = self.take_waiting(job) else {
            return;
        };
        let end = now + at_least_one(known.limit);
        let held = Self::held_on(&known.holds, || self.whole_shares(known.demand.first(), &nodes));
        self.run_on(job, nodes, (Holding::Whole(known.demand), held), end);
    }

    /// Moves a job from waiting to running. Its line is told by the pass.
    pub(crate) fn start_picked(&mut self, job: JobId, picks: &[NodeTasks], now: Time) {
        let Some(Waiting { job: known, .. }) = self.take_waiting(job) else {
            return;
        };
        let shares = self.shares_for(&known.demand, picks);
        let end = now + at_least_one(known.limit);
        let held = Self::held_on(&known.holds, || shares.clone());
        self.run_listed(job, (shares, held), end, known.demand.holds_whole_nodes());
    }

    /// A job runs on idle nodes that it holds as a whole.
    fn run_on(&mut self, job: JobId, nodes: NodeSet, holding: (Holding, Box<[Held]>), end: Time) {
        self.machine.hold(&nodes, end);
        self.list(job, nodes, holding, end);
    }

    /// A job runs that keeps others off none of its nodes, with what it holds of pools.
    pub(crate) fn runs_on_with(
        &mut self,
        job: JobId,
        holding: (Vec<NodeShare>, Box<[Held]>),
        end: Time,
    ) {
        self.run_listed(job, holding, end, false);
    }

    fn run_listed(
        &mut self,
        job: JobId,
        (shares, held): (Vec<NodeShare>, Box<[Held]>),
        end: Time,
        exclusive: bool,
    ) {
        for share in &shares {
            self.machine.run(job, share, end, exclusive);
        }
        let nodes = shares.iter().map(|share| share.node).collect();
        self.list(job, nodes, (Holding::Listed(shares), held), end);
    }

    /// Enters a job whose nodes have been taken into the list of running ones.
    fn list(
        &mut self,
        job: JobId,
        nodes: NodeSet,
        (holding, held): (Holding, Box<[Held]>),
        end: Time,
    ) {
        let running = Running {
            job,
            end,
            nodes,
            holding,
            held,
        };
        let id = self.running.insert(running);
        self.take_held(id);
        self.enter(id);
    }

    /// Moves the time at which a running job is expected to end.
    pub fn set_expected_end(&mut self, job: JobId, end: Time) {
        let Some(id) = self.running.find(job) else {
            return;
        };
        self.withdraw(id);
        let running = self.running.get_mut(id);
        let before = std::mem::replace(&mut running.end, end);
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
        self.move_held(id, before, end);
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
            self.give_back_held((job, running.end), &running.held, &running.nodes);
            self.keep_memory(running.nodes);
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
        self.shrink_held(id, &shares);
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
            self.take_held(id);
            self.enter(id);
        }
        true
    }

    /// A running job gives back what it holds of pools, and is to hold what it does on `shares`.
    fn shrink_held(&mut self, id: RunId, shares: &[NodeShare]) {
        let running = self.running.get_mut(id);
        if running.held.is_empty() {
            return;
        }
        let smaller = running.held.iter().map(|held| Held {
            count: held.amount.on(shares),
            ..*held
        });
        let smaller = smaller.collect();
        let held = std::mem::replace(&mut running.held, smaller);
        let (job, nodes) = ((running.job, running.end), running.nodes.clone());
        self.give_back_held(job, &held, &nodes);
    }

    /// What a running job holds, by part and node index; nothing when it does not run. The
    /// script runs on the first node.
    pub fn held_by(&self, job: JobId) -> Vec<NodeShare> {
        let id = self.running.find(job);
        let mut shares = id.map(|id| self.shares_of(id)).unwrap_or_default();
        shares.sort_by_key(|share| (share.component, share.node));
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
            Holding::Whole(demand) => self.whole_shares(demand.first(), &running.nodes),
        }
    }

    /// What a job holds that has these nodes as a whole.
    pub(crate) fn whole_shares(&self, demand: &Component, nodes: &NodeSet) -> Vec<NodeShare> {
        let room = |node| demand.capacity(self.machine.total(node));
        let nodes = nodes.iter().map(|node| (node, room(node)));
        let picks = spread(&nodes.collect::<Vec<_>>(), demand.tasks);
        self.shares_of_component(demand, &picks)
    }

    /// Books whole-node jobs node by node: what they hold stays when nodes change.
    pub(crate) fn list_whole_jobs(&mut self) {
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

    /// Enters the end of a running job into the pools of its nodes.
    pub(crate) fn enter(&mut self, id: RunId) {
        self.for_each_end(id, |pool, end, listed| {
            pool.ends.insert(end);
            pool.listed += listed;
            pool.change();
        });
    }

    /// Takes the end of a running job out of them.
    fn withdraw(&mut self, id: RunId) {
        self.for_each_end(id, |pool, end, listed| {
            pool.ends.remove(&end);
            pool.listed -= listed;
            pool.change();
        });
    }

    fn for_each_end(&mut self, run: RunId, what: impl Fn(&mut NodePool, End, u32)) {
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
                what(&mut self.node_pools[0], end(nodes), listed);
            }
            return;
        }
        let regions = running.nodes.iter().filter_map(|n| self.machine.region(n));
        let mut regions: Vec<usize> = regions.collect();
        regions.sort_unstable();
        for part in regions.chunk_by(|a, b| a == b) {
            let pool = &mut self.node_pools[part[0]];
            what(pool, end(part.len() as u32), listed);
        }
    }
}
