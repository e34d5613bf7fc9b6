//! Which nodes a job gets where it matters how near they are to each other: on few switches
//! ([`crate::topology`]), or side by side.
//!
//! Nodes of better tiers come before few switches; that there are to be no more than so many, or nodes
//! side by side, holds in any case. As many nodes are taken as would be
//! otherwise, but where a job leaves their number open and few switches are a condition: then a
//! switch with smaller nodes may be the one that is enough.

use crate::counted_nodes;
use crate::machine::Window;
use crate::select::{Candidate, NodeTasks, capacity, select_anywhere, spread};
use crate::topology::{self, Offer, Topology, Unequal};
use crate::{Component, NodeMask};
use cosy_model::NodeId;
use std::cell::Cell;

/// The nodes of `nodes` that something with `demand` would get, if `free` is what is free of each.
pub(crate) fn pick<'a>(
    demand: &Component,
    nodes: &NodeMask,
    free: impl Fn(NodeId) -> Option<Window<'a>>,
) -> Option<Vec<NodeTasks>> {
    let candidate = |node| {
        let window = free(node)?;
        Candidate::new(demand, node, &window.free, (window.since, window.until))
    };
    select(demand, nodes.iter().filter_map(candidate).collect())
}

/// Chooses nodes and spreads the tasks; parts are in the order of node indices.
pub(crate) fn select(demand: &Component, candidates: Vec<Candidate>) -> Option<Vec<NodeTasks>> {
    match &demand.topology {
        _ if demand.contiguous => side_by_side(demand, candidates),
        Some(topology) if demand.segment.is_some() => in_segments(demand, topology, candidates),
        Some(topology) => on_few_switches(demand, topology, candidates, &Cell::new(false)),
        None => select_anywhere(demand, candidates),
    }
}

/// Whether there are nodes for that, as far as can be told without much work.
pub(crate) fn might_fit(demand: &Component, candidates: Vec<Candidate>) -> bool {
    let special = demand.contiguous || demand.segment.is_some();
    let Some(topology) = demand.topology.as_ref().filter(|_| !special) else {
        return select(demand, candidates).is_some();
    };
    let gave_up = Cell::new(false);
    on_few_switches(demand, topology, candidates, &gave_up).is_some() || gave_up.get()
}

/// The nodes of a job on few switches.
fn on_few_switches(
    demand: &Component,
    topology: &Topology,
    candidates: Vec<Candidate>,
    gave_up: &Cell<bool>,
) -> Option<Vec<NodeTasks>> {
    let anywhere = select_anywhere(demand, candidates.clone())?;
    let nodes = anywhere.len();
    let few = |most| topology.switches_of(anywhere.iter().map(|part| part.node)) <= most;
    let counted = !demand.counted.is_empty();
    let good = match demand.max_switches {
        None => nodes < 2 || counted,
        Some(most) => counted && few(most),
    };
    if good {
        return Some(anywhere);
    }
    let on_any = || {
        let any = Choice {
            nodes: demand.nodes.map_or(0, |nodes| nodes as usize),
            taken: 0,
            good: &|_| true,
            search: Some(gave_up),
        };
        any.on_some_switches(demand, topology, candidates.iter())
    };
    if counted {
        return on_any();
    }
    // Nodes of better tiers are taken in any case, and as many of the worst as before.
    let mut tiers: Vec<(NodeId, u32)> = candidates.iter().map(|c| (c.node(), c.tier())).collect();
    tiers.sort_unstable();
    let tier_of = |part: &NodeTasks| {
        let at = tiers.binary_search_by_key(&part.node, |(node, _)| *node);
        at.ok()
            .and_then(|at| tiers.get(at))
            .map_or(0, |(_, tier)| *tier)
    };
    let worst = anywhere.iter().map(tier_of).max().unwrap_or(0);
    let of_worst = |found: &[NodeTasks]| found.iter().filter(|p| tier_of(p) == worst).count();
    let before = of_worst(&anywhere);
    let as_many = Choice {
        nodes,
        taken: worst,
        good: &|found| found.len() == nodes && of_worst(found) == before,
        search: None,
    };
    let near = candidates.iter().filter(|one| one.tier() <= worst);
    let found = as_many.on_some_switches(demand, topology, near);
    match demand.max_switches {
        None => found,
        Some(_) => found.or_else(on_any),
    }
}

/// What a choice of switches is to come to.
struct Choice<'a> {
    /// So many nodes; 0 where the number is open.
    nodes: usize,
    /// Nodes of better tiers than this are in it, and those that are required.
    taken: u32,
    /// Whether that many nodes, of these tiers, were meant.
    good: &'a dyn Fn(&[NodeTasks]) -> bool,
    /// Where sets of switches are tried one after the other at last: whether that was given up.
    search: Option<&'a Cell<bool>>,
}

/// The nodes of each leaf switch.
fn by_leaf<'a>(
    topology: &Topology,
    candidates: impl Iterator<Item = &'a Candidate>,
) -> Vec<Vec<&'a Candidate>> {
    let mut by_leaf = vec![Vec::new(); topology.leaf_count()];
    for candidate in candidates {
        if let Some(own) = by_leaf.get_mut(topology.leaf(candidate.node()) as usize) {
            own.push(candidate);
        }
    }
    by_leaf
}

impl Choice<'_> {
    fn on_some_switches<'a>(
        &self,
        demand: &Component,
        topology: &Topology,
        candidates: impl Iterator<Item = &'a Candidate>,
    ) -> Option<Vec<NodeTasks>> {
        let by_leaf = by_leaf(topology, candidates);
        let here: Vec<u32> = by_leaf.iter().map(|own| own.len() as u32).collect();
        let room: Vec<u64> = by_leaf
            .iter()
            .map(|own| capacity(own.iter().copied()))
            .collect();
        let taken = |one: &&Candidate| one.is_required() || one.tier() < self.taken;
        let must = (0..).zip(&by_leaf);
        let must = must.filter(|(_, own)| own.iter().any(taken));
        let must: Vec<u32> = must.map(|(leaf, _)| leaf).collect();
        let least = by_leaf.iter().flatten().map(|one| one.room()).min();
        let least = u64::from(least.unwrap_or(0)) * self.nodes as u64;
        let equal = demand.counted.is_empty() && least >= demand.tasks.into();
        let unequal = Unequal {
            room: &room,
            need: (self.nodes as u64, demand.tasks.into()),
            search: self.search,
        };
        let offer = Offer {
            nodes: &here,
            must: &must,
            most: demand.max_switches,
            unequal: (!equal).then_some(unequal),
        };
        let among = |leaves: &[u32]| -> Vec<Candidate> {
            let own = leaves.iter().filter_map(|leaf| by_leaf.get(*leaf as usize));
            let own = own.flatten();
            own.map(|candidate| (*candidate).clone()).collect()
        };
        let chosen = topology.choose(&offer, |leaves| {
            let count = topology::sum(&here, leaves);
            match equal {
                true => count >= self.nodes as u64,
                false => {
                    let found = select_anywhere(demand, among(leaves));
                    found.is_some_and(|found| (self.good)(&found))
                }
            }
        })?;
        select_anywhere(demand, among(&chosen))
    }
}

/// The nodes of a job in groups of a size, each group on one leaf switch. Source: sbatch(1),
/// `--segment`.
fn in_segments(
    demand: &Component,
    topology: &Topology,
    mut candidates: Vec<Candidate>,
) -> Option<Vec<NodeTasks>> {
    let (segment, nodes) = (demand.segment?.max(1), demand.nodes?.max(1));
    let each = demand.tasks.div_ceil(nodes);
    candidates.retain(|candidate| candidate.room() >= each);
    candidates.sort_unstable();
    let by_leaf = by_leaf(topology, candidates.iter());
    let whole = |own: &Vec<&Candidate>| own.len() as u32 / segment * segment;
    let here: Vec<u32> = by_leaf.iter().map(whole).collect();
    let offer = Offer {
        nodes: &here,
        must: &[],
        most: demand.max_switches,
        unequal: None,
    };
    let enough = |leaves: &[u32]| topology::sum(&here, leaves) >= nodes.into();
    let mut left = nodes;
    let mut chosen: Vec<(NodeId, u32)> = Vec::new();
    for leaf in topology.choose(&offer, enough)? {
        let count = here.get(leaf as usize).copied().unwrap_or(0).min(left);
        left -= count;
        let own = by_leaf.get(leaf as usize).into_iter().flatten();
        chosen.extend(own.take(count as usize).map(|c| (c.node(), c.room())));
    }
    chosen.sort_unstable_by_key(|(node, _)| *node);
    let complete = left == 0 && nodes.is_multiple_of(segment) && nodes <= demand.tasks;
    complete.then(|| spread(&chosen, demand.tasks))
}

/// The nodes of a job side by side in the order of their numbers: of the shortest row that is long
/// enough the first. With an open number, the fewest.
fn side_by_side(demand: &Component, mut candidates: Vec<Candidate>) -> Option<Vec<NodeTasks>> {
    candidates.sort_unstable_by_key(Candidate::node);
    let next_to = |a: &Candidate, b: &Candidate| a.node().0 + 1 == b.node().0;
    let rows = candidates.chunk_by(next_to);
    let found =
        rows.flat_map(|row| Windows::of(demand, row).map(move |window| (row.len(), window)));
    let found = found.min_by_key(|(row, window)| (window.len(), *row));
    let (_, window) = found?;
    let chosen: Vec<(NodeId, u32)> = window.iter().map(|c| (c.node(), c.room())).collect();
    Some(spread(&chosen, demand.tasks))
}

/// From each node of a row on, the fewest that are enough.
struct Windows<'a> {
    demand: &'a Component,
    /// From the first node of the window to the end of the row.
    row: &'a [Candidate],
    /// Nodes of the window.
    nodes: usize,
    room: u64,
    required: u32,
    /// How many nodes of the window each leaf switch has.
    on: Vec<u32>,
    switches: u32,
}

impl<'a> Windows<'a> {
    fn of(demand: &'a Component, row: &'a [Candidate]) -> Self {
        let topology = demand.topology.as_ref();
        let topology = topology.filter(|_| demand.max_switches.is_some());
        Self {
            demand,
            row,
            nodes: 0,
            room: 0,
            required: 0,
            on: topology.map_or(Vec::new(), |topology| vec![0; topology.leaf_count()]),
            switches: 0,
        }
    }

    /// How many nodes of the window are on the switch of a node.
    fn on(&mut self, candidate: &Candidate) -> Option<&mut u32> {
        let topology = self.demand.topology.as_ref()?;
        self.on.get_mut(topology.leaf(candidate.node()) as usize)
    }

    /// The row is longer by a node. False where it has no more.
    fn grow(&mut self) -> bool {
        let row = self.row;
        let Some(candidate) = row.get(self.nodes) else {
            return false;
        };
        self.nodes += 1;
        self.room += u64::from(candidate.room());
        self.required += u32::from(candidate.is_required());
        if let Some(on) = self.on(candidate) {
            *on += 1;
            let new = *on == 1;
            self.switches += u32::from(new);
        }
        true
    }

    /// The row begins a node later.
    fn leave_first(&mut self) -> Option<()> {
        let (first, rest) = self.row.split_first()?;
        self.nodes = self.nodes.checked_sub(1)?;
        self.row = rest;
        self.room -= u64::from(first.room());
        self.required -= u32::from(first.is_required());
        if let Some(on) = self.on(first) {
            *on -= 1;
            let gone = *on == 0;
            self.switches -= u32::from(gone);
        }
        Some(())
    }

    /// The nodes of the window, if they are enough, on whatever switches.
    fn enough(&self) -> Option<&'a [Candidate]> {
        let (demand, nodes) = (self.demand, self.nodes);
        let window = self.row.get(..nodes).filter(|window| !window.is_empty())?;
        let counted = &demand.counted;
        let enough = self.room >= demand.tasks.into()
            && self.required == demand.required.count()
            && demand.nodes.is_none_or(|asked| asked as usize == nodes)
            && (counted.is_empty() || counted_nodes::first(counted, window, nodes).is_some());
        enough.then_some(window)
    }
}

impl<'a> Iterator for Windows<'a> {
    type Item = &'a [Candidate];

    fn next(&mut self) -> Option<&'a [Candidate]> {
        let demand = self.demand;
        let most = demand.nodes.or(demand.max_nodes).unwrap_or(u32::MAX);
        let most = most.min(demand.tasks) as usize;
        // With more nodes there are no fewer switches.
        let few = demand.max_switches.unwrap_or(u32::MAX);
        loop {
            while self.enough().is_none() && self.nodes < most && self.grow() {}
            let found = self.enough().filter(|_| self.switches <= few);
            self.leave_first()?;
            if found.is_some() {
                return found;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::{Amounts, Time};
    use proptest::prelude::*;
    use std::sync::Arc;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// Each switch gives a multiple of the segment, no more switches than needed do, and nodes are
        /// found whenever there are any.
        #[test]
        fn segments_are_whole(
            free in prop::collection::vec(0_u32..6, 1..6),
            segment in 1_u32..4,
            count in 1_u32..5,
            most in prop::option::of(1_u32..4),
        ) {
            let leaf = |number: u32| -> NodeMask { (0..6).map(|n| NodeId(number * 6 + n)).collect() };
            let leaves = free.len() as u32;
            let topology = Topology::new(6 * free.len(), (0..leaves).map(leaf).collect(), vec![]);
            let demand = Component {
                nodes: Some(segment * count),
                tasks: segment * count,
                topology: Some(Arc::new(topology)),
                segment: Some(segment),
                max_switches: most,
                ..Component::default()
            };
            let there = free.iter().zip(0..).flat_map(|(free, leaf)| (0..*free).map(move |n| leaf * 6 + n));
            let gap = (Time::EPOCH, Time::FAR);
            let candidate = |n: u32| Candidate::with_room(&demand, NodeId(n), &Amounts::default(), gap, 1);
            let found = select(&demand, there.filter_map(candidate).collect());
            let groups: Vec<u32> = free.iter().map(|free| free / segment).collect();
            let good = |bits: u32| {
                let own = groups.iter().zip(0..).filter(|(_, leaf)| bits >> leaf & 1 == 1);
                own.map(|(groups, _)| groups).sum::<u32>() >= count
            };
            let least = (1..1_u32 << leaves).filter(|bits| good(*bits)).map(u32::count_ones).min();
            let least = least.filter(|least| most.is_none_or(|most| *least <= most));
            prop_assert_eq!(found.is_some(), least.is_some());
            if let Some(found) = found {
                prop_assert_eq!(found.len() as u32, segment * count);
                let on = |leaf| found.iter().filter(|part| part.node.0 / 6 == leaf).count() as u32;
                let each: Vec<u32> = (0..leaves).map(on).collect();
                prop_assert!(each.iter().all(|on| on % segment == 0), "{each:?}");
                let used = each.iter().filter(|on| **on > 0).count() as u32;
                prop_assert_eq!(Some(used), least);
            }
        }
    }
}
