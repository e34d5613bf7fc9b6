//! Where and when a task could be on the nodes of a set.

use super::free_profile::{Footprint, FreeProfile, NEVER};
use crate::Component;
use crate::near::select;
use crate::select::{Candidate, NodeTasks};
use cosy_model::{Amounts, NodeId, Time};

/// So many starts are looked at one after another before the one behind everything.
const TRIES: usize = 500;

/// What is looked for.
#[derive(Clone, Copy)]
pub(super) struct SlotQuery<'a> {
    pub demand: &'a Component,
    pub print: &'a Footprint,
    /// Nodes of one set that are in service.
    pub nodes: &'a [NodeId],
    pub length: i64,
}

impl FreeProfile {
    /// The earliest start from `ready` on, and the nodes then. `None`: never.
    pub fn earliest(&self, wanted: SlotQuery<'_>, ready: i64) -> Option<(i64, Vec<NodeTasks>)> {
        if let Some(picks) = self.at_once(wanted, ready) {
            return Some((ready, picks));
        }
        let mut at = ready;
        let least = least_nodes(wanted.demand);
        let mut starts: Vec<i64> = vec![ready; wanted.nodes.len()];
        for _ in 0..TRIES {
            let mut here = Vec::new();
            for (place, node) in wanted.nodes.iter().enumerate() {
                // What was found for an earlier time may count still.
                if starts[place] <= at {
                    let free = self.free(*node, wanted.print, at, wanted.length);
                    starts[place] = free.start;
                    here.extend((free.start == at).then_some((*node, free.capacity)));
                }
            }
            if let Some(picks) = chosen(wanted.demand, &here) {
                return Some((at, picks));
            }
            at = self.next_try(wanted, &starts, at, least)?;
        }
        let settled = wanted.nodes.iter().map(|node| self.settled(*node));
        let last = settled.max().unwrap_or(at).max(at);
        self.at_once(wanted, last).map(|picks| (last, picks))
    }

    /// The next start at which more could be free.
    fn next_try(
        &self,
        wanted: SlotQuery<'_>,
        starts: &[i64],
        at: i64,
        least: usize,
    ) -> Option<i64> {
        let mut later: Vec<i64> = starts.to_vec();
        if least > later.len() {
            return None;
        }
        let (_, enough, _) = later.select_nth_unstable(least.saturating_sub(1));
        let enough = *enough;
        let next = if enough > at {
            enough
        } else {
            let waits = starts.iter().copied().filter(|start| *start > at);
            let nodes = wanted
                .nodes
                .iter()
                .zip(starts)
                .filter(|(_, start)| **start == at);
            let changes = nodes.map(|(node, _)| self.next_change(*node, at));
            waits.chain(changes).min().unwrap_or(NEVER)
        };
        (next < NEVER).then_some(next)
    }

    /// The first nodes in order that are free at `at`, as soon as there are enough.
    fn at_once(&self, wanted: SlotQuery<'_>, at: i64) -> Option<Vec<NodeTasks>> {
        let demand = wanted.demand;
        let simple = demand.required.is_empty() && demand.tiers.is_empty();
        let mut here: Vec<(NodeId, u64)> = Vec::new();
        let (mut profile, mut largest) = (0u64, true);
        for node in wanted.nodes {
            let free = self.free(*node, wanted.print, at, wanted.length);
            if free.start != at {
                continue;
            }
            here.push((*node, free.capacity));
            profile = profile.saturating_add(free.capacity);
            largest &= free.capacity >= most_on_one(demand);
            let count = here.len() as u32;
            let enough = match demand.nodes {
                Some(nodes) => count >= nodes,
                // As few as can be: only when no node could have more.
                None => largest,
            };
            if simple && enough && profile >= demand.tasks.into() {
                break;
            }
        }
        chosen(demand, &here)
    }
}

fn most_on_one(demand: &Component) -> u64 {
    demand
        .tasks_per_node
        .unwrap_or(u32::MAX)
        .min(demand.tasks)
        .into()
}

/// Fewer nodes than this are never enough.
pub(super) fn least_nodes(demand: &Component) -> usize {
    let by_tasks = match demand.tasks_per_node {
        Some(most) => demand.tasks.div_ceil(most.max(1)),
        None => 1,
    };
    demand.nodes.unwrap_or(by_tasks).max(1) as usize
}

/// The planner's own choice among nodes with so much room.
pub(super) fn chosen(demand: &Component, here: &[(NodeId, u64)]) -> Option<Vec<NodeTasks>> {
    if here.len() < least_nodes(demand) {
        return None;
    }
    let candidates = here.iter().filter_map(|(node, capacity)| {
        let capacity = u32::try_from(*capacity).unwrap_or(u32::MAX);
        let gap = (Time(0), Time::FAR);
        Candidate::with_room(demand, *node, &Amounts::default(), gap, capacity)
    });
    select(demand, candidates.collect())
}
