//! Which nodes a job gets, out of those that could take part of it.
//!
//! Nodes have a rank, the first is the best:
//! 1. nodes required by name, then those of the first tier, of the second, ..., the rest;
//! 2. the gap that the job leaves before itself is short (busy until late);
//! 3. the gap after itself is short (something else is booked there soon), so that jobs
//!    that end before a guaranteed place sit on its nodes and leave the others alone; a
//!    reservation counts only if the longest waiting job would run into it, were it started
//!    now: before that it is in nobody's way;
//! 4. tightest fit: few free GPUs, then few free cores, then little free memory;
//! 5. the node's index.
//!
//! Among all sets of the right size with room for its tasks, a job gets the one with the
//! most nodes of the better tiers, and among these the one that comes first in the order of
//! ranks. With an open number of nodes the size is the smallest that uses up better tiers
//! before worse ones.
//!
//! Where it matters how near nodes are to each other, that comes between the tiers and the rest of
//! the rank ([`crate::near`]).
//!
//! A job with numbers of nodes by set gets the set of nodes that comes first in the order of
//! ranks among those that have these numbers ([`crate::counted`]).
//!
//! What always holds: a set is found whenever there is one; the result depends on nothing
//! but demand and candidates.

use crate::Component;
use crate::counted_nodes;
use cosy_model::{Amounts, MiB, NodeId, Time};
use std::cmp::Reverse;

/// A node that could take at least one task.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Candidate {
    tier: u32,
    since: Reverse<Time>,
    until: Time,
    gpus: u32,
    cores: u32,
    memory: MiB,
    node: NodeId,
    capacity: u32,
}

/// Part of a job: a node and the tasks that go there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeTasks {
    pub node: NodeId,
    pub tasks: u32,
    /// For which component of the job.
    pub component: u16,
}

impl Candidate {
    /// The candidate that a node is with `free` of it and a gap from `since` to `until`, if
    /// a task fits.
    pub fn new(
        demand: &Component,
        node: NodeId,
        free: &Amounts,
        gap: (Time, Time),
    ) -> Option<Self> {
        Self::with_room(demand, node, free, gap, demand.capacity(free))
    }

    /// The same with room for `capacity` tasks, which the caller knows.
    pub fn with_room(
        demand: &Component,
        node: NodeId,
        free: &Amounts,
        (since, until): (Time, Time),
        capacity: u32,
    ) -> Option<Self> {
        (capacity > 0).then(|| Self {
            tier: tier(demand, node),
            since: Reverse(since),
            until,
            gpus: free.gpus,
            cores: free.cores,
            memory: free.memory,
            node,
            capacity,
        })
    }

    /// The same without a gap. `tier` takes the place of the wishes of the job, but for
    /// required nodes.
    pub fn plain(&self, tier: Option<u32>) -> Self {
        Self {
            tier: tier.filter(|_| self.tier > 0).unwrap_or(self.tier),
            since: Reverse(Time::EPOCH),
            until: Time::FAR,
            ..*self
        }
    }

    /// Number of the node that was looked at.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Room for so many tasks.
    pub fn room(&self) -> u32 {
        self.capacity
    }

    /// 0 where it is required by name, then 1 for the first tier and so on.
    pub fn tier(&self) -> u32 {
        self.tier
    }

    /// It is one of those required by name.
    pub fn is_required(&self) -> bool {
        self.tier == 0
    }
}

/// 0 for required nodes, then the tiers, then everything else.
fn tier(demand: &Component, node: NodeId) -> u32 {
    if demand.required.contains(node) {
        return 0;
    }
    let tiers = &demand.tiers;
    let at = tiers.iter().position(|tier| tier.contains(node));
    at.unwrap_or(tiers.len()) as u32 + 1
}

/// Chooses nodes and spreads the tasks, however far the nodes are from each other; parts are in the
/// order of node indices.
pub(crate) fn select_anywhere(
    demand: &Component,
    mut candidates: Vec<Candidate>,
) -> Option<Vec<NodeTasks>> {
    let required = demand.required.count() as usize;
    let found = candidates.iter().filter(|c| c.tier == 0).count();
    let nodes = match demand.nodes {
        _ if found < required => return None,
        Some(nodes) => nodes as usize,
        None => {
            let most = demand.max_nodes.unwrap_or(u32::MAX) as usize;
            let fewest = match demand.counted.is_empty() {
                true => fewest(demand, &mut candidates),
                false => fewest_counted(demand, &mut candidates),
            };
            fewest?.min(most)
        }
    };
    if nodes < required.max(1) || nodes > candidates.len() || nodes > demand.tasks as usize {
        return None;
    }
    if !demand.counted.is_empty() {
        return select_counted(demand, candidates, nodes);
    }
    if nodes < candidates.len() {
        candidates.select_nth_unstable(nodes - 1);
    }
    let room: u64 = capacity(&candidates[..nodes]);
    let mut chosen = if room >= demand.tasks.into() {
        candidates.truncate(nodes);
        candidates
    } else {
        candidates.sort_unstable();
        best_set(&candidates, nodes, demand.tasks.into())?
    };
    chosen.sort_unstable_by_key(|c| c.node);
    let chosen: Vec<_> = chosen.iter().map(|c| (c.node, c.capacity)).collect();
    Some(spread(&chosen, demand.tasks))
}

/// The first set in the order of ranks that has everything counted; if that has no room for
/// the tasks, one with most room.
fn select_counted(
    demand: &Component,
    mut candidates: Vec<Candidate>,
    nodes: usize,
) -> Option<Vec<NodeTasks>> {
    let fits = |chosen: &Vec<Candidate>| capacity(chosen) >= demand.tasks.into();
    candidates.sort_unstable();
    let first = counted_nodes::first(&demand.counted, &candidates, nodes)?;
    let mut chosen = match fits(&first) {
        true => first,
        false => {
            candidates.sort_by_key(|c| (!c.is_required(), Reverse(c.capacity)));
            counted_nodes::first(&demand.counted, &candidates, nodes).filter(fits)?
        }
    };
    chosen.sort_unstable_by_key(|c| c.node);
    let chosen: Vec<_> = chosen.iter().map(|c| (c.node, c.capacity)).collect();
    Some(spread(&chosen, demand.tasks))
}

/// With numbers of nodes by set: how few nodes have room for all tasks. More nodes never have
/// less room.
fn fewest_counted(demand: &Component, candidates: &mut [Candidate]) -> Option<usize> {
    candidates.sort_by_key(|c| (!c.is_required(), Reverse(c.capacity)));
    let fits = |nodes: &usize| {
        let chosen = counted_nodes::first(&demand.counted, candidates, *nodes);
        chosen.is_some_and(|chosen| capacity(&chosen) >= demand.tasks.into())
    };
    let (mut low, mut high) = (demand.fewest_nodes() as usize, candidates.len());
    if !fits(&high) {
        return None;
    }
    while low < high {
        let middle = low.midpoint(high);
        match fits(&middle) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Some(low)
}

/// The number of nodes that the largest ones need, better tiers used up first.
fn fewest(demand: &Component, candidates: &mut [Candidate]) -> Option<usize> {
    let tasks = u64::from(demand.tasks);
    let required = demand.required.count() as usize;
    candidates.sort_unstable_by_key(|c| (c.tier, Reverse(c.capacity)));
    let mut room = 0;
    for (at, candidate) in candidates.iter().enumerate() {
        room += u64::from(candidate.capacity);
        if room >= tasks && at + 1 >= required {
            return Some(at + 1);
        }
    }
    None
}

/// The best set of `nodes` candidates with room for `tasks`. `candidates` are sorted by rank.
fn best_set(candidates: &[Candidate], nodes: usize, tasks: u64) -> Option<Vec<Candidate>> {
    let tiers: Vec<&[Candidate]> = candidates.chunk_by(|a, b| a.tier == b.tier).collect();
    let quotas = quotas(&tiers, nodes, tasks)?;
    let most = tiers.iter().zip(&quotas);
    let most: Vec<u64> = most.map(|(tier, quota)| largest(tier)[*quota]).collect();
    let mut later: u64 = most.iter().sum();
    let (mut chosen, mut room) = (Vec::with_capacity(nodes), 0);
    for ((tier, quota), most) in tiers.iter().zip(quotas).zip(most) {
        later -= most;
        let part = first_of_tier(tier, quota, tasks.saturating_sub(room + later));
        room += capacity(&part);
        chosen.extend(part);
    }
    Some(chosen)
}

/// How many nodes to take of each tier: as many of the better ones as leaves room for
/// `tasks`, and all that are required.
fn quotas(tiers: &[&[Candidate]], nodes: usize, tasks: u64) -> Option<Vec<usize>> {
    let mut quotas = Vec::with_capacity(tiers.len());
    let (mut left, mut room) = (nodes, 0);
    for (at, tier) in tiers.iter().enumerate() {
        let own = largest(tier);
        let later = largest(&tiers[at + 1..].concat());
        let enough = |quota: &usize| {
            let rest = later.get(left - quota);
            rest.is_some_and(|rest| room + own[*quota] + rest >= tasks)
        };
        let quota = (0..=tier.len().min(left)).rev().find(enough)?;
        if tier[0].tier == 0 && quota < tier.len() {
            return None;
        }
        left -= quota;
        room += own[quota];
        quotas.push(quota);
    }
    Some(quotas)
}

/// The room of the largest 0, 1, 2, ... candidates.
fn largest(candidates: &[Candidate]) -> Vec<u64> {
    let mut rooms: Vec<u64> = candidates.iter().map(|c| c.capacity.into()).collect();
    rooms.sort_unstable_by_key(|room| Reverse(*room));
    let sum = |sum: &mut u64, room| {
        *sum += room;
        Some(*sum)
    };
    std::iter::once(0)
        .chain(rooms.into_iter().scan(0, sum))
        .collect()
}

/// The first `quota` of a tier, in the order of ranks, with room for `tasks`: a candidate is
/// passed over only if the largest after it could not make up for it.
fn first_of_tier(tier: &[Candidate], quota: usize, tasks: u64) -> Vec<Candidate> {
    let mut by_size: Vec<usize> = (0..tier.len()).collect();
    by_size.sort_by_key(|at| Reverse(tier[*at].capacity));
    let best_after = |at: usize, count: usize| -> u64 {
        let later = by_size.iter().filter(|other| **other > at).take(count);
        later.map(|at| u64::from(tier[*at].capacity)).sum()
    };
    let mut chosen = Vec::with_capacity(quota);
    let mut room = 0;
    for (at, candidate) in tier.iter().enumerate() {
        let more = quota - chosen.len();
        if more == 0 {
            break;
        }
        let with = room + u64::from(candidate.capacity);
        if tier.len() - at >= more && with + best_after(at, more - 1) >= tasks {
            room = with;
            chosen.push(candidate.clone());
        }
    }
    chosen
}

/// How many nodes a job gets when all are alike, entirely free and with room for `capacity`
/// tasks each, and there are neither required nodes nor tiers. `None` when there is no such
/// number.
pub(crate) fn count_alike(demand: &Component, capacity: u32) -> Option<u32> {
    let fewest = demand.tasks.div_ceil(capacity.max(1));
    let nodes = demand.nodes.unwrap_or(fewest);
    let most = demand.nodes.or(demand.max_nodes).unwrap_or(u32::MAX);
    let room = u64::from(nodes) * u64::from(capacity);
    let sound = 0 < nodes && nodes <= most && nodes <= demand.tasks;
    (sound && room >= demand.tasks.into()).then_some(nodes)
}

/// Block distribution: each node as many tasks as fit, as long as later ones get one each.
pub(crate) fn spread(chosen: &[(NodeId, u32)], tasks: u32) -> Vec<NodeTasks> {
    let mut left = tasks;
    let mut later = chosen.len() as u32;
    let place = |(node, capacity): &(NodeId, u32)| {
        later -= 1;
        let node = *node;
        let tasks = (*capacity).min(left - later);
        left -= tasks;
        NodeTasks {
            node,
            tasks,
            component: 0,
        }
    };
    chosen.iter().map(place).collect()
}

/// Room for so many tasks on all of them.
pub(crate) fn capacity<'a>(candidates: impl IntoIterator<Item = &'a Candidate>) -> u64 {
    candidates.into_iter().map(|c| u64::from(c.capacity)).sum()
}
