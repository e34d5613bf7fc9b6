//! Jobs with equal demand in the same queue, so that what holds for one is found out once.
//!
//! What always holds: a group that waits is found by its queue and demand; groups without
//! jobs are dropped in bulk once there are many.

use crate::line::{Brief, GroupId};
use crate::machine::{Machine, Window};
use crate::select::{Candidate, select};
use crate::{Demand, NodeMask};
use cosy_model::{QueueId, Span, Time};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

const UNUSED: usize = 1024;

/// Whether the nodes could hold a job of the group if nothing else ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Feasible {
    /// With the nodes that are up.
    Now,
    /// Only with nodes that are down or drained.
    Later,
    /// Not even then.
    Never,
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub demand: Arc<Demand>,
    /// Open nodes that may be chosen.
    pub eligible: NodeMask,
    pub feasible: Feasible,
    /// How many tasks an empty node takes, when all that may be chosen are alike and the
    /// demand does not tell nodes apart.
    pub alike: Option<u32>,
    queue: QueueId,
    jobs: usize,
    /// Of the machine that `eligible` and `feasible` were found for.
    epoch: u64,
    /// In this pass a job with that limit could not start.
    failed: (u64, Span),
}

impl Group {
    /// What a search needs to know of a job of the group.
    pub fn brief(&self, id: GroupId, limit: Span) -> Brief {
        let demand = &self.demand;
        let nodes = demand
            .nodes
            .unwrap_or(1)
            .max(demand.required.count())
            .max(1);
        let tasks = u64::from(demand.per_task.cores) * u64::from(demand.tasks);
        let once = u64::from(demand.per_node.cores) * u64::from(nodes);
        Brief {
            group: id,
            limit,
            whole: if demand.exclusive { nodes } else { 0 },
            cores: if demand.exclusive { 0 } else { tasks + once },
        }
    }

    /// The queue of its jobs.
    pub fn queue(&self) -> QueueId {
        self.queue
    }

    /// True when a job with a limit no longer than this has failed in this pass.
    pub fn has_failed(&self, pass: u64, limit: Span) -> bool {
        self.failed.0 == pass && self.failed.1 <= limit
    }

    pub fn set_failed(&mut self, pass: u64, limit: Span) {
        if !self.has_failed(pass, limit) {
            self.failed = (pass, limit);
        }
    }

    /// True when `eligible` and `feasible` are up to date.
    pub fn is_current(&self, epoch: u64) -> bool {
        self.epoch == epoch
    }

    /// True when it is known that no job of the group can run on the open nodes.
    pub fn is_out(&self, epoch: u64) -> bool {
        self.epoch == epoch && self.feasible != Feasible::Now
    }

    /// Brings `eligible` and `feasible` up to date.
    pub fn refresh(&mut self, epoch: u64, machine: &Machine, queue_nodes: &NodeMask) {
        if self.epoch == epoch {
            return;
        }
        self.epoch = epoch;
        let allowed = self.demand.allowed.and(queue_nodes);
        self.eligible = allowed.and(&machine.open);
        self.alike = alike(machine, &self.demand, &self.eligible);
        self.feasible = if fits_empty(machine, &self.demand, &self.eligible) {
            Feasible::Now
        } else if fits_empty(machine, &self.demand, &allowed) {
            Feasible::Later
        } else {
            Feasible::Never
        };
    }
}

fn alike(machine: &Machine, demand: &Demand, nodes: &NodeMask) -> Option<u32> {
    if !demand.required.is_empty() || !demand.tiers.is_empty() {
        return None;
    }
    let mut totals = nodes.iter().map(|id| &machine.node(id).total);
    let first = totals.next()?;
    totals
        .all(|other| other == first)
        .then(|| demand.capacity(first))
}

/// True when a job with `demand` fits on `nodes` when they are empty.
pub(crate) fn fits_empty(machine: &Machine, demand: &Demand, nodes: &NodeMask) -> bool {
    select(demand, empty(machine, demand, nodes)).is_some()
}

/// All of `nodes` that could take a task when they are empty.
pub(crate) fn empty(machine: &Machine, demand: &Demand, nodes: &NodeMask) -> Vec<Candidate> {
    let known = nodes.iter().filter_map(|id| Some((id, machine.get(id)?)));
    let candidate = |(id, node): (_, &crate::machine::Node)| {
        let window = Window {
            free: node.total.clone(),
            since: Time::EPOCH,
            until: Time::FAR,
        };
        Candidate::new(demand, id, &window)
    };
    known.filter_map(candidate).collect()
}

/// All groups.
#[derive(Clone, Default, Debug)]
pub(crate) struct Groups {
    groups: Vec<Option<Group>>,
    vacant: Vec<GroupId>,
    by_hash: BTreeMap<u64, Vec<GroupId>>,
    unused: usize,
}

impl Groups {
    pub fn get(&self, id: GroupId) -> &Group {
        let group = self.groups[id.0 as usize].as_ref();
        group.expect("a group with jobs is kept")
    }

    pub fn get_mut(&mut self, id: GroupId) -> &mut Group {
        let group = self.groups[id.0 as usize].as_mut();
        group.expect("a group with jobs is kept")
    }

    /// Counts one more job with `demand` in `queue`.
    pub fn join(&mut self, queue: QueueId, demand: &Arc<Demand>) -> GroupId {
        let hash = hash(queue, demand);
        let alike = self.by_hash.get(&hash).into_iter().flatten();
        let found = alike.copied().find(|id| {
            let group = self.get(*id);
            group.queue == queue && group.demand == *demand
        });
        let id = found.unwrap_or_else(|| self.found(hash, queue, demand));
        let group = self.get_mut(id);
        group.jobs += 1;
        if group.jobs == 1 {
            self.unused -= 1;
        }
        id
    }

    /// Counts one job less.
    pub fn leave(&mut self, id: GroupId) {
        let group = self.get_mut(id);
        group.jobs -= 1;
        if group.jobs == 0 {
            self.unused += 1;
            if self.unused > UNUSED {
                self.sweep();
            }
        }
    }

    fn found(&mut self, hash: u64, queue: QueueId, demand: &Arc<Demand>) -> GroupId {
        let group = Some(Group {
            demand: Arc::clone(demand),
            eligible: NodeMask::default(),
            feasible: Feasible::Never,
            alike: None,
            queue,
            jobs: 0,
            epoch: 0,
            failed: (0, Span::ZERO),
        });
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.groups.push(None);
            GroupId(self.groups.len() as u32 - 1)
        });
        self.groups[id.0 as usize] = group;
        self.by_hash.entry(hash).or_default().push(id);
        self.unused += 1;
        id
    }

    fn sweep(&mut self) {
        for (at, slot) in self.groups.iter_mut().enumerate() {
            if slot.as_ref().is_some_and(|group| group.jobs == 0) {
                *slot = None;
                self.vacant.push(GroupId(at as u32));
            }
        }
        let groups = &self.groups;
        self.by_hash.retain(|_, ids| {
            ids.retain(|id| groups[id.0 as usize].is_some());
            !ids.is_empty()
        });
        self.unused = 0;
    }
}

/// The standard hasher without a random key: the same in every run.
fn hash(queue: QueueId, demand: &Demand) -> u64 {
    let mut hasher = DefaultHasher::new();
    (queue, demand).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(tasks: u32) -> Arc<Demand> {
        Arc::new(Demand {
            tasks,
            ..Demand::default()
        })
    }

    #[test]
    fn equal_demands_are_one_group_and_unused_ones_go() {
        let mut groups = Groups::default();
        let kept = groups.join(QueueId(0), &demand(7));
        assert_eq!(groups.join(QueueId(0), &demand(7)), kept);
        assert_ne!(groups.join(QueueId(1), &demand(7)), kept);
        for tasks in 100..100 + 3 * UNUSED as u32 {
            let id = groups.join(QueueId(0), &demand(tasks));
            groups.leave(id);
        }
        assert!(groups.groups.len() < 2 * UNUSED, "{}", groups.groups.len());
        assert_eq!(groups.join(QueueId(0), &demand(7)), kept);
        groups.leave(kept);
        groups.leave(kept);
        assert_eq!(groups.get(kept).demand.tasks, 7);
    }
}
