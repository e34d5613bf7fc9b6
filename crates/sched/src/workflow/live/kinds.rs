//! Kinds of tasks: what alike tasks ask for, which nodes of each set they may have, and how
//! many of them a set takes at a time.

use super::free_profile::{Footprint, FreeProfile, Kinds};
use super::search::chosen;
use super::{LiveError, LiveFlow};
use crate::{Component, NodeMask, Scheduler};
use cosy_model::NodeId;
use std::sync::Arc;

/// So many kinds are told apart before tasks that are alike count as different.
const COMPARED: usize = 64;

/// Tasks that ask for the same.
#[derive(Debug)]
pub(super) struct Kind {
    pub demand: Arc<Component>,
    pub print: Footprint,
    /// By set; `None` where such a task never fits.
    pub on: Vec<Option<Place>>,
}

/// A kind of task on a set.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Nodes in service that it may have.
    pub nodes: Arc<[NodeId]>,
    /// So many such tasks at a time, when nobody else is there.
    pub at_a_time: u64,
}

/// All kinds, and the kind of each task.
#[derive(Debug)]
pub(super) struct AllKinds {
    pub kinds: Vec<Kind>,
    pub of: Vec<usize>,
}

/// Nodes by what is allowed, of each set.
type NodesByMask = Vec<(Arc<NodeMask>, Vec<Arc<[NodeId]>>)>;

impl AllKinds {
    /// # Errors
    /// [`LiveError::Nowhere`]: a task fits no set.
    pub fn of(
        scheduler: &Scheduler,
        flow: &LiveFlow,
        rows: &Kinds,
        profile: &FreeProfile,
    ) -> Result<Self, LiveError> {
        let mut all = Self {
            kinds: Vec::new(),
            of: Vec::with_capacity(flow.tasks.len()),
        };
        let mut known = NodesByMask::new();
        for (task, live) in flow.tasks.iter().enumerate() {
            let alike =
                |kind: &Kind| Arc::ptr_eq(&kind.demand, &live.demand) || kind.demand == live.demand;
            let found = all.kinds.iter().rev().take(COMPARED).position(alike);
            let at = match found {
                Some(back) => all.kinds.len() - 1 - back,
                None => {
                    let nodes = nodes_of(scheduler, flow, &live.demand, &mut known);
                    all.kinds.push(kind(rows, profile, &live.demand, nodes));
                    all.kinds.len() - 1
                }
            };
            if live.fixed.is_none() && all.kinds[at].on.iter().all(Option::is_none) {
                return Err(LiveError::Nowhere { task });
            }
            all.of.push(at);
        }
        Ok(all)
    }

    /// The kind of a task.
    pub fn kind(&self, task: usize) -> &Kind {
        &self.kinds[self.of[task]]
    }
}

fn nodes_of(
    scheduler: &Scheduler,
    flow: &LiveFlow,
    demand: &Component,
    known: &mut NodesByMask,
) -> Vec<Arc<[NodeId]>> {
    if let Some((_, nodes)) = known.iter().find(|(allowed, _)| *allowed == demand.allowed) {
        return nodes.clone();
    }
    let open = demand.allowed.and(&scheduler.machine.open);
    let here = |set: &NodeMask| {
        let nodes = open.and(set);
        let there = nodes.iter().filter(|node| scheduler.machine.knows(*node));
        there.collect::<Arc<[NodeId]>>()
    };
    let nodes: Vec<_> = flow.sets.iter().map(here).collect();
    if known.len() < COMPARED {
        known.push((demand.allowed.clone(), nodes.clone()));
    }
    nodes
}

fn kind(
    rows: &Kinds,
    profile: &FreeProfile,
    demand: &Arc<Component>,
    nodes: Vec<Arc<[NodeId]>>,
) -> Kind {
    let print = Footprint::of(rows, demand);
    let place = |nodes: Arc<[NodeId]>| {
        let all = nodes
            .iter()
            .map(|n| (*n, profile.capacity_of_all(*n, &print)));
        let all: Vec<_> = all.filter(|(_, capacity)| *capacity > 0).collect();
        let picks = chosen(demand, &all)?;
        let most = picks.iter().map(|pick| pick.tasks).max().unwrap_or(1);
        let row = print.row(most);
        let copies = nodes.iter().map(|node| profile.copies(*node, &row));
        let parts = copies.fold(0, u64::saturating_add);
        Some(Place {
            nodes,
            at_a_time: (parts / picks.len().max(1) as u64).max(1),
        })
    };
    Kind {
        demand: demand.clone(),
        on: nodes.into_iter().map(place).collect(),
        print,
    }
}
