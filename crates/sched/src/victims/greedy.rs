//! Sets that are enough, put together quickly: node by node, or job by job. Who can be left out
//! again is left out, the dearest first.

use super::question::{Question, Set};
use super::room::{Holder, Room};
use cosy_model::NodeId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Nodes are emptied one after another, those first that cost the least for each task that they
/// then have room for. Who has gone from one node is gone from all.
pub(super) fn by_node(
    question: &mut Question<'_>,
    mut room: Room<'_>,
    all: &Room<'_>,
) -> Option<Set> {
    let (demand, eligible) = room.first()?;
    let wanted = demand
        .nodes
        .map(|nodes| demand.tasks.div_ceil(nodes.max(1)));
    let mut on: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
    for (at, holder) in question.holders.iter().enumerate() {
        let useful = holder.nodes().filter(|node| eligible.contains(*node));
        useful.for_each(|node| on.entry(node).or_default().push(at));
    }
    let price = |question: &Question<'_>, node: NodeId, who: &[usize]| {
        let gain = all.tasks_on(node);
        let tasks = wanted.map_or(gain, |wanted| gain.min(wanted));
        let cost = who.iter().filter_map(|at| question.order.get(*at));
        let cost: u128 = cost.map(|one| u128::from(one.cost)).sum();
        let required = demand.required.contains(node);
        // Per task, in thousandths: only the order matters.
        (!required, cost * 1000 / u128::from(tasks.max(1)), node)
    };
    let mut heap = BinaryHeap::new();
    for (node, who) in &on {
        if all.tasks_on(*node) > room.tasks_on(*node) {
            heap.push(Reverse(price(question, *node, who)));
        }
    }
    while !room.fits() {
        let Some(Reverse(known)) = heap.pop() else {
            break;
        };
        let who = on.get(&known.2).map(Vec::as_slice).unwrap_or_default();
        // Those of one node the cheapest first, and no more of them than it takes.
        let enough = wanted.unwrap_or(u32::MAX).min(all.tasks_on(known.2));
        for at in who {
            if room.tasks_on(known.2) >= enough || room.fits() {
                break;
            }
            if let Some(holder) = question.holders.get(*at) {
                question.left = question.left.saturating_sub(holder.size());
                room.free(*at, holder);
            }
        }
    }
    if !room.fits() {
        for (at, holder) in question.holders.iter().enumerate() {
            room.free(at, holder);
        }
    }
    leave_out(question, room)
}

/// Jobs go one after another, those first that cost the least for each of their nodes.
pub(super) fn by_job(
    question: &mut Question<'_>,
    mut room: Room<'_>,
    all: &Room<'_>,
) -> Option<Set> {
    let helped = |holder: &Holder| {
        let nodes = holder.nodes();
        let helped = nodes.filter(|node| all.has_more_than(&room, *node)).count();
        helped.max(1) as u128
    };
    let both = question.order.iter().zip(&question.holders).enumerate();
    let mut ranked: Vec<(u128, usize)> = both
        .map(|(at, (one, holder))| (u128::from(one.cost) * 1000 / helped(holder), at))
        .collect();
    ranked.sort_unstable();
    for (_, at) in ranked {
        if room.fits() {
            break;
        }
        if let Some(holder) = question.holders.get(at) {
            question.left = question.left.saturating_sub(holder.size());
            room.free(at, holder);
        }
    }
    leave_out(question, room)
}

/// Puts back everybody who can stay, the dearest first.
fn leave_out(question: &mut Question<'_>, mut room: Room<'_>) -> Option<Set> {
    if !room.fits() {
        return None;
    }
    for (at, holder) in question.holders.iter().enumerate().rev() {
        if !room.is_free(at) {
            continue;
        }
        question.left = question.left.saturating_sub(2 * holder.size());
        if question.left == 0 {
            return None;
        }
        room.take(at, holder);
        if !room.fits() {
            room.free(at, holder);
        }
    }
    let who = 0..question.order.len();
    let who = who.filter(|at| room.is_free(*at)).collect();
    Some(question.set(who))
}
