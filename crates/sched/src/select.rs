//! Which nodes a job gets, out of those that could take part of it.
//!
//! Nodes have a rank, the first is the best:
//! 1. nodes required by name, then those of the first tier, of the second, ..., the rest;
//! 2. the gap that the job leaves before itself is short (busy until late);
//! 3. the gap after itself is short (something else is booked there soon), so that jobs
//!    that end before a guaranteed place sit on its nodes and leave the others alone;
//! 4. tightest fit: few free GPUs, then few free cores, then little free memory;
//! 5. the node's index.
//!
//! A job gets the set of nodes that comes first in the order of ranks among all sets of the
//! right size with room for its tasks. With an open number of nodes that size is the
//! smallest that uses up better tiers before worse ones.
//!
//! What always holds: a set is found whenever there is one; the result depends on nothing
//! but demand and candidates.

use crate::machine::Window;
use crate::{Demand, NodeMask};
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
pub(crate) struct Pick {
    pub node: NodeId,
    pub tasks: u32,
}

impl Candidate {
    /// The candidate that `node` is for `demand`, if a task fits.
    pub fn new(demand: &Demand, node: NodeId, window: &Window) -> Option<Self> {
        Self::with(demand, node, &window.free, window.since, window.until)
    }

    /// The candidate that a node is with `free` of it and a gap from `since` to `until`.
    pub fn with(
        demand: &Demand,
        node: NodeId,
        free: &Amounts,
        since: Time,
        until: Time,
    ) -> Option<Self> {
        let capacity = demand.capacity(free);
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

    /// The node.
    pub fn node(&self) -> NodeId {
        self.node
    }
}

/// 0 for required nodes, then the tiers, then everything else.
fn tier(demand: &Demand, node: NodeId) -> u32 {
    if demand.required.contains(node) {
        return 0;
    }
    let tiers = &demand.tiers;
    let at = tiers.iter().position(|tier| tier.contains(node));
    at.unwrap_or(tiers.len()) as u32 + 1
}

/// Chooses nodes and spreads the tasks; parts are in the order of node indices.
pub(crate) fn select(demand: &Demand, mut candidates: Vec<Candidate>) -> Option<Vec<Pick>> {
    let required = demand.required.count() as usize;
    let found = candidates.iter().filter(|c| c.tier == 0).count();
    let nodes = match demand.nodes {
        _ if found < required => return None,
        Some(nodes) => nodes as usize,
        None => fewest(demand, &mut candidates)?,
    };
    if nodes < required.max(1) || nodes > candidates.len() || nodes > demand.tasks as usize {
        return None;
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
        first_set(candidates, nodes, demand.tasks.into())?
    };
    chosen.sort_unstable_by_key(|c| c.node);
    let chosen: Vec<_> = chosen.iter().map(|c| (c.node, c.capacity)).collect();
    Some(spread(&chosen, demand.tasks))
}

/// The number of nodes that the largest ones need, better tiers used up first.
fn fewest(demand: &Demand, candidates: &mut [Candidate]) -> Option<usize> {
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

/// The first set of `nodes` candidates, in the order of ranks, with room for `tasks`.
/// `candidates` are sorted by rank.
fn first_set(candidates: Vec<Candidate>, nodes: usize, tasks: u64) -> Option<Vec<Candidate>> {
    let mut largest: Vec<usize> = (0..candidates.len()).collect();
    largest.sort_by_key(|at| Reverse(candidates[*at].capacity));
    let best_after = |at: usize, count: usize| -> u64 {
        let later = largest.iter().filter(|other| **other > at).take(count);
        later.map(|at| u64::from(candidates[*at].capacity)).sum()
    };
    let mut chosen = Vec::with_capacity(nodes);
    let mut room = 0;
    for (at, candidate) in candidates.iter().enumerate() {
        let more = nodes - chosen.len();
        if more == 0 {
            break;
        }
        let with = room + u64::from(candidate.capacity);
        let enough = candidates.len() - at >= more;
        if enough && with + best_after(at, more - 1) >= tasks {
            room = with;
            chosen.push(candidate.clone());
        } else if candidate.tier == 0 {
            return None;
        }
    }
    (chosen.len() == nodes && room >= tasks).then_some(chosen)
}

/// The choice among nodes that are alike, all entirely free and with room for `capacity`
/// tasks, when there are neither required nodes nor tiers: the first by gap and index.
/// `gaps` tells since when and until when a node is free.
pub(crate) fn select_alike(
    demand: &Demand,
    capacity: u32,
    clear: &NodeMask,
    gaps: impl Fn(NodeId) -> (Reverse<Time>, Time),
) -> Option<Vec<Pick>> {
    let nodes = demand
        .nodes
        .unwrap_or(demand.tasks.div_ceil(capacity.max(1)));
    let room = u64::from(nodes) * u64::from(capacity);
    if nodes == 0 || nodes > demand.tasks || room < demand.tasks.into() || nodes > clear.count() {
        return None;
    }
    let nodes = nodes as usize;
    let mut ranked: Vec<_> = clear.iter().map(|node| (gaps(node), node)).collect();
    if nodes < ranked.len() {
        ranked.select_nth_unstable(nodes - 1);
        ranked.truncate(nodes);
    }
    let mut chosen: Vec<(NodeId, u32)> = ranked.iter().map(|(_, node)| (*node, capacity)).collect();
    chosen.sort_unstable();
    Some(spread(&chosen, demand.tasks))
}

/// Block distribution: each node as many tasks as fit, as long as later ones get one each.
fn spread(chosen: &[(NodeId, u32)], tasks: u32) -> Vec<Pick> {
    let mut left = tasks;
    let mut later = chosen.len() as u32;
    let place = |(node, capacity): &(NodeId, u32)| {
        later -= 1;
        let node = *node;
        let tasks = (*capacity).min(left - later);
        left -= tasks;
        Pick { node, tasks }
    };
    chosen.iter().map(place).collect()
}

fn capacity(candidates: &[Candidate]) -> u64 {
    candidates.iter().map(|c| u64::from(c.capacity)).sum()
}
