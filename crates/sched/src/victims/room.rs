//! How many tasks of a job each node has room for, as running jobs are taken away and put back.
//!
//! What always holds: when a job can start, it fits in here; the other way round that is true of
//! one component without numbers of nodes by set, where nobody stands before the job and nobody
//! else has a claim to a pool.

use super::candidate::Candidate;
use crate::machine::{Machine, ReservationHorizon};
use crate::nodeset::NodeSet;
use crate::pass::at_least_one;
use crate::running::Holding;
use crate::scheduler::{Scheduler, WaitingJob};
use crate::{Component, NodeMask, PoolId};
use cosy_model::{JobId, NodeId, NodeShare, Time};
use std::collections::BTreeMap;

/// A running job with what it holds.
pub(super) struct Holder {
    job: JobId,
    end: Time,
    nodes: NodeSet,
    /// `None`: it has its nodes as a whole. Else its shares, and whether nobody else may be there.
    shares: Option<Vec<(NodeShare, bool)>>,
    keeps: Vec<NodeShare>,
    /// What it gives back of pools.
    pools: Vec<(PoolId, u64)>,
}

/// The room that there is for a job.
#[derive(Clone)]
pub(super) struct Room<'a> {
    machine: Machine,
    now: Time,
    end: Time,
    parts: Vec<Part<'a>>,
    pools: Vec<Lack>,
    freed: Vec<bool>,
}

/// The room for one component.
#[derive(Clone)]
struct Part<'a> {
    demand: &'a Component,
    eligible: NodeMask,
    /// Tasks that fit, by node.
    tasks: Vec<u32>,
    /// How many nodes have room for so many tasks, without those that are required.
    by_tasks: BTreeMap<u32, u32>,
}

/// A pool of which the job wants something.
#[derive(Clone)]
struct Lack {
    pool: PoolId,
    wanted: u64,
    free: u64,
}

impl Holder {
    pub fn of(planner: &Scheduler, candidate: &Candidate) -> Self {
        let job = candidate.job;
        let known = planner.running.find(job).map(|id| planner.running.get(id));
        let shares = known.and_then(|known| match &known.holding {
            Holding::Listed(shares) => Some(shares.clone()),
            Holding::Whole(_) | Holding::WholeListed(_) => None,
        });
        let whole = |share: NodeShare| {
            let alone = planner.machine.has_alone(job, share.node);
            (share, alone)
        };
        let pools = planner.pools_held_by(job);
        Self {
            job,
            end: known.map_or(Time::FAR, |known| known.end),
            nodes: known.map(|known| known.nodes.clone()).unwrap_or_default(),
            shares: shares.map(|shares| shares.into_iter().map(whole).collect()),
            keeps: candidate.keeps.clone().unwrap_or_default(),
            pools: match candidate.keeps {
                None => pools.collect(),
                Some(_) => Vec::new(),
            },
        }
    }

    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter()
    }

    /// How many nodes it has, at least 1.
    pub fn size(&self) -> u64 {
        u64::from(self.nodes.count()).max(1)
    }
}

impl<'a> Room<'a> {
    /// What there is while everybody runs. `open`: nodes of the queue that take jobs.
    pub fn new(planner: &Scheduler, now: Time, job: &'a WaitingJob, open: &NodeMask) -> Self {
        let part = |demand: &'a Component| Part {
            demand,
            eligible: demand.allowed.and(open),
            tasks: vec![0; planner.machine.len()],
            by_tasks: BTreeMap::new(),
        };
        let mut classes = crate::resource_pool::classes::HoldClasses::default();
        let class = classes.join(&job.holds, &job.demand, |_| false);
        let mut pools: Vec<Lack> = Vec::new();
        for need in classes.needs(class) {
            match pools.iter_mut().find(|known| known.pool == need.pool) {
                Some(known) => known.wanted = known.wanted.saturating_add(need.least),
                None => pools.push(Lack {
                    pool: need.pool,
                    wanted: need.least,
                    free: planner.resource_pools().free_now(need.pool),
                }),
            }
        }
        let mut room = Self {
            machine: planner.machine.clone(),
            now,
            end: now + at_least_one(job.limit),
            parts: job.demand.iter().map(part).collect(),
            pools,
            freed: Vec::new(),
        };
        let nodes: Vec<NodeId> = open.iter().collect();
        nodes.into_iter().for_each(|node| room.look_at(node));
        room
    }

    /// Candidates have these numbers from now on, and none of them is taken away.
    pub fn number_anew(&mut self, count: usize) {
        self.freed.resize(count, false);
    }

    /// How many tasks of the first component a node has room for.
    pub fn tasks_on(&self, node: NodeId) -> u32 {
        let first = self.parts.first();
        first.map_or(0, |part| part.on(node))
    }

    /// The first component, and the nodes that it may use.
    pub fn first(&self) -> Option<(&'a Component, &NodeMask)> {
        let first = self.parts.first()?;
        Some((first.demand, &first.eligible))
    }

    /// True when a node has room for more tasks than in `other`.
    pub fn has_more_than(&self, other: &Self, node: NodeId) -> bool {
        let mut both = self.parts.iter().zip(&other.parts);
        both.any(|(own, other)| own.on(node) > other.on(node))
    }

    /// True when the job wants something of a pool that `holder` holds.
    pub fn wants_of(&self, holder: &Holder) -> bool {
        let wanted = |pool: &PoolId| self.pools.iter().any(|lack| lack.pool == *pool);
        holder.pools.iter().any(|(pool, _)| wanted(pool))
    }

    /// The candidate goes.
    pub fn free(&mut self, at: usize, holder: &Holder) {
        if self.mark(at, true) {
            return;
        }
        match &holder.shares {
            None => self.machine.let_go(&holder.nodes),
            Some(_) => holder
                .nodes()
                .for_each(|node| self.machine.release(holder.job, node)),
        }
        for share in &holder.keeps {
            self.machine.run(holder.job, share, Time::FAR, false);
        }
        self.changed(holder, |free, amount| free.saturating_add(amount));
    }

    /// The candidate comes back.
    pub fn take(&mut self, at: usize, holder: &Holder) {
        if !self.mark(at, false) {
            return;
        }
        for share in &holder.keeps {
            self.machine.release(holder.job, share.node);
        }
        match &holder.shares {
            None => self.machine.hold(&holder.nodes, holder.end),
            Some(shares) => {
                for (share, alone) in shares {
                    self.machine.run(holder.job, share, holder.end, *alone);
                }
            }
        }
        self.changed(holder, |free, amount| free.saturating_sub(amount));
    }

    /// True when the candidate has been taken away.
    pub fn is_free(&self, at: usize) -> bool {
        self.freed.get(at).copied().unwrap_or(false)
    }

    fn mark(&mut self, at: usize, free: bool) -> bool {
        if at >= self.freed.len() {
            self.freed.resize(at + 1, false);
        }
        let known = self.freed.get_mut(at);
        known.is_some_and(|known| std::mem::replace(known, free))
    }

    fn changed(&mut self, holder: &Holder, change: impl Fn(u64, u64) -> u64) {
        for node in holder.nodes() {
            self.look_at(node);
        }
        for (pool, amount) in &holder.pools {
            for lack in self.pools.iter_mut().filter(|lack| lack.pool == *pool) {
                lack.free = change(lack.free, *amount);
            }
        }
    }

    /// Counts anew what a node has room for.
    fn look_at(&mut self, node: NodeId) {
        let (now, window) = (self.now, (self.now, self.end));
        for part in &mut self.parts {
            if !part.eligible.contains(node) {
                continue;
            }
            let demand = part.demand;
            let sight = ReservationHorizon::Until(Time::FAR);
            let free = self.machine.window(node, demand, window, now, sight);
            let tasks = free.map_or(0, |part| demand.capacity(&part.free));
            part.has_room_for(node, tasks);
        }
    }

    /// True when all components find nodes, each by itself, and pools have what is wanted.
    pub fn fits(&self) -> bool {
        let lacks = |lack: &Lack| lack.free < lack.wanted;
        self.parts.iter().all(Part::fits) && !self.pools.iter().any(lacks)
    }
}

impl Part<'_> {
    fn on(&self, node: NodeId) -> u32 {
        self.tasks.get(node.index()).copied().unwrap_or(0)
    }

    fn has_room_for(&mut self, node: NodeId, tasks: u32) {
        let Some(known) = self.tasks.get_mut(node.index()) else {
            return;
        };
        let old = std::mem::replace(known, tasks);
        if old == tasks || self.demand.required.contains(node) {
            return;
        }
        if let Some(count) = self.by_tasks.get_mut(&old) {
            *count -= 1;
            if *count == 0 {
                self.by_tasks.remove(&old);
            }
        }
        if tasks > 0 {
            *self.by_tasks.entry(tasks).or_default() += 1;
        }
    }

    fn fits(&self) -> bool {
        let demand = self.demand;
        let required = demand.required.count();
        let named = demand.required.iter().map(|node| self.on(node));
        let mut room = 0;
        for tasks in named {
            if tasks == 0 {
                return false;
            }
            room += u64::from(tasks);
        }
        let most = demand.nodes.or(demand.max_nodes).unwrap_or(u32::MAX);
        let Some(mut others) = most.checked_sub(required) else {
            return false;
        };
        let mut nodes = required;
        for (tasks, count) in self.by_tasks.iter().rev() {
            let taken = others.min(*count);
            room += u64::from(*tasks) * u64::from(taken);
            others -= taken;
            nodes += taken;
            if others == 0 {
                break;
            }
        }
        let exact = demand.nodes.is_none_or(|wanted| nodes == wanted);
        let least = demand.nodes.unwrap_or(required.max(1));
        exact && nodes >= 1 && least <= demand.tasks && room >= u64::from(demand.tasks)
    }
}
