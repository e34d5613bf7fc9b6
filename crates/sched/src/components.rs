//! The nodes of a job of several components (a heterogeneous job): each component gets nodes of
//! its own, and all start at one instant.
//!
//! Components take their nodes one after another, in the order in which they were asked for, each
//! as if it were a job on what is left. Where that finds no nodes for a later component, gaps are
//! left aside, and then wishes too: nodes are taken first that the fewest other components could
//! use, and each component in turn comes first, before the others in the order of how many nodes
//! they have to spare.
//!
//! What always holds: no node is in two components; what fits on an empty machine is found as soon
//! as the machine is empty, because the ways without gaps see the same then.

use crate::Demand;
use crate::near::select;
use crate::select::{Candidate, NodeTasks};
use crate::table::Table;
use cosy_model::NodeId;

/// Nodes for all components, in the order of the components. `candidates` are those of each component.
pub(crate) fn select_all(
    demand: &Demand,
    mut candidates: Vec<Vec<Candidate>>,
) -> Option<Vec<NodeTasks>> {
    leave_required(demand, &mut candidates);
    let asked: Vec<usize> = (0..candidates.len()).collect();
    take(demand, &candidates, &asked).or_else(|| without_gaps(demand, &candidates))
}

/// True when there are nodes for all components on a machine that is empty.
pub(crate) fn fit(demand: &Demand, mut candidates: Vec<Vec<Candidate>>) -> bool {
    leave_required(demand, &mut candidates);
    without_gaps(demand, &candidates).is_some()
}

/// No component takes a node that another one requires by name.
fn leave_required(demand: &Demand, candidates: &mut [Vec<Candidate>]) {
    for (at, own) in candidates.iter_mut().enumerate() {
        let others = demand.iter().enumerate().filter(|(other, _)| *other != at);
        for (_, other) in others.filter(|(_, other)| !other.required.is_empty()) {
            own.retain(|candidate| !other.required.contains(candidate.node()));
        }
    }
}

fn without_gaps(demand: &Demand, candidates: &[Vec<Candidate>]) -> Option<Vec<NodeTasks>> {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    let plain = |component: &Vec<Candidate>| component.iter().map(|c| c.plain(None)).collect();
    let plainly: Vec<_> = candidates.iter().map(plain).collect();
    if let Some(found) = take(demand, &plainly, &order) {
        return Some(found);
    }
    let spare = |component: &usize| {
        let needed = demand.get(*component as u16);
        let needed = needed.map_or(1, |one| one.nodes.unwrap_or(1).max(one.fewest_nodes()));
        candidates[*component].len().saturating_sub(needed as usize)
    };
    order.sort_by_key(spare);
    let contested = contested(candidates);
    (0..order.len()).find_map(|first| {
        let mut order = order.clone();
        order[..=first].rotate_right(1);
        take(demand, &contested, &order)
    })
}

/// The candidates in the order of how many components could use them.
fn contested(candidates: &[Vec<Candidate>]) -> Vec<Vec<Candidate>> {
    let mut users: Table<NodeId, u32> = Table::default();
    for candidate in candidates.iter().flatten() {
        let known = users.remove(candidate.node()).unwrap_or(0);
        users.insert(candidate.node(), known + 1);
    }
    let ranked = |candidate: &Candidate| candidate.plain(users.get(candidate.node()).copied());
    let component = |component: &Vec<Candidate>| component.iter().map(ranked).collect();
    candidates.iter().map(component).collect()
}

/// Each component takes the best of what the ones before it leave.
fn take(demand: &Demand, candidates: &[Vec<Candidate>], order: &[usize]) -> Option<Vec<NodeTasks>> {
    let mut taken: Table<NodeId, ()> = Table::default();
    let mut picks = vec![Vec::new(); candidates.len()];
    for at in order {
        let left = candidates[*at].iter();
        let left = left.filter(|c| taken.get(c.node()).is_none()).cloned();
        let component = *at as u16;
        let found = select(demand.get(component)?, left.collect())?;
        found.iter().for_each(|pick| {
            taken.insert(pick.node, ());
        });
        let own = |pick: NodeTasks| NodeTasks { component, ..pick };
        picks[*at] = found.into_iter().map(own).collect();
    }
    Some(picks.concat())
}
