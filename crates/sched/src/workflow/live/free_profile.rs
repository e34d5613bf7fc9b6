//! What is free of each node, and of each resource pool, over time: what others hold, and the
//! slots given so far. A pool that tasks hold something of is one more node, behind all nodes,
//! with so many cores as there is of it.
//!
//! Amounts are rows of numbers here, one for each kind of resource that any task asks for,
//! and one more that says how many share the node: whoever wants it alone takes all of it.
//!
//! What always holds: steps of a node are in order, the first is at the beginning of time,
//! each counts until the next, and at the last nothing is taken but what never ends.

use crate::machine::Commitment;
use crate::{Component, Holds, PoolId, Scheduler};
use cosy_model::{Amounts, NodeId, Time};
use std::collections::BTreeSet;

/// All of a node, when it is counted who shares it.
const ALONE: u64 = 1 << 32;
/// An instant after all others, in milliseconds.
pub(super) const NEVER: i64 = i64::MAX / 4;

/// The kinds of resources that are looked at.
#[derive(Clone, Debug)]
pub(super) struct Kinds {
    others: Vec<String>,
}

impl Kinds {
    /// Those of some demands.
    pub fn of<'a>(demands: impl Iterator<Item = &'a Component>) -> Self {
        let mut others: Vec<String> = Vec::new();
        for demand in demands {
            for amounts in [&demand.per_task, &demand.per_node] {
                let names = amounts.other.iter().map(|(name, _)| name);
                others.extend(names.map(str::to_owned));
            }
            others.sort_unstable();
            others.dedup();
        }
        Self { others }
    }

    fn count(&self) -> usize {
        5 + self.others.len()
    }

    /// So much of a resource pool.
    fn row_of_pool(&self, amount: u64) -> Vec<u64> {
        let mut row = vec![0; self.count()];
        if let Some(cores) = row.get_mut(1) {
            *cores = amount;
        }
        row
    }

    fn row(&self, sharing: u64, amounts: &Amounts) -> Vec<u64> {
        let plain = [
            sharing,
            amounts.cores.into(),
            amounts.memory.0,
            amounts.disk.0,
            amounts.gpus.into(),
        ];
        let others = self.others.iter().map(|n| amounts.other.get(n).into());
        plain.into_iter().chain(others).collect()
    }
}

/// What a task takes of a node.
#[derive(Clone, Debug)]
pub(super) struct Footprint {
    once: Vec<u64>,
    each: Vec<u64>,
    most: u64,
    alone: bool,
}

impl Footprint {
    pub fn of(kinds: &Kinds, demand: &Component) -> Self {
        let sharing = if demand.exclusive { ALONE } else { 1 };
        Self {
            once: kinds.row(sharing, &demand.per_node),
            each: kinds.row(0, &demand.per_task),
            most: demand
                .tasks_per_node
                .unwrap_or(u32::MAX)
                .min(demand.tasks)
                .into(),
            alone: demand.exclusive,
        }
    }

    /// How many tasks fit where so much is taken.
    fn capacity(&self, total: &[u64], occupancy: &[u64]) -> u64 {
        if self.alone && occupancy[0] > 0 {
            return 0;
        }
        let mut tasks = self.most;
        let rows = total
            .iter()
            .zip(occupancy)
            .zip(self.once.iter().zip(&self.each));
        for ((total, occupancy), (once, each)) in rows {
            let Some(left) = total.saturating_sub(*occupancy).checked_sub(*once) else {
                return 0;
            };
            tasks = left.checked_div(*each).map_or(tasks, |fit| tasks.min(fit));
        }
        tasks
    }

    /// What so many tasks take.
    pub fn row(&self, tasks: u32) -> Vec<u64> {
        let rows = self.once.iter().zip(&self.each);
        let sum = rows.map(|(once, each)| once.saturating_add(each.saturating_mul(tasks.into())));
        sum.collect()
    }
}

/// What is free on one node, over time.
#[derive(Clone, Debug)]
struct Node {
    total: Vec<u64>,
    at: Vec<i64>,
    /// Taken from each step on, one row after another.
    occupancy: Vec<u64>,
}

impl Node {
    /// The step that counts at a time.
    fn step(&self, at: i64) -> usize {
        self.at
            .partition_point(|step| *step <= at)
            .saturating_sub(1)
    }

    fn row(&self, step: usize) -> &[u64] {
        let width = self.total.len();
        &self.occupancy[step * width..(step + 1) * width]
    }

    fn until(&self, step: usize) -> i64 {
        self.at.get(step + 1).copied().unwrap_or(NEVER)
    }

    /// The step that begins at a time, made if there is none.
    fn cut(&mut self, at: i64) -> usize {
        let step = self.step(at);
        if self.at[step] == at {
            return step;
        }
        let width = self.total.len();
        self.at.insert(step + 1, at);
        let row = step * width..(step + 1) * width;
        let copied: Vec<u64> = self.occupancy[row].to_vec();
        let behind = (step + 1) * width;
        self.occupancy.splice(behind..behind, copied);
        step + 1
    }

    fn take(&mut self, from: i64, to: i64, row: &[u64]) {
        if from >= to {
            return;
        }
        let (first, last) = (
            self.cut(from),
            if to < NEVER {
                self.cut(to)
            } else {
                self.at.len()
            },
        );
        let width = self.total.len();
        for step in self.occupancy[first * width..last * width].chunks_mut(width) {
            for (occupancy, more) in step.iter_mut().zip(row) {
                *occupancy = occupancy.saturating_add(*more);
            }
        }
    }
}

/// All nodes, and behind them resource pools; times are milliseconds from some instant.
#[derive(Clone, Debug)]
pub(super) struct FreeProfile {
    nodes: Vec<Node>,
    /// Of each pool its place among the nodes.
    pools: Vec<(PoolId, NodeId)>,
}

/// When a node could take part of a task, and how much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Free {
    pub start: i64,
    /// Tasks that fit from then on.
    pub capacity: u64,
}

impl FreeProfile {
    /// What others hold, from `begin` on, of the nodes and of these pools.
    pub fn new(
        scheduler: &Scheduler,
        kinds: &Kinds,
        pools: &BTreeSet<PoolId>,
        (now, begin): (Time, Time),
    ) -> Self {
        let width = kinds.count();
        let node = |id: NodeId| {
            let mut node = Node {
                total: kinds.row(ALONE, scheduler.machine.total(id)),
                at: vec![-NEVER],
                occupancy: vec![0; width],
            };
            for held in scheduler.machine.commitments(id, now) {
                let Commitment {
                    start,
                    end,
                    amounts,
                    whole,
                } = held;
                let sharing = if whole { ALONE } else { 1 };
                node.take(since(begin, start), since(begin, end), &kinds.row(sharing, &amounts));
            }
            node
        };
        let count = scheduler.machine.len() as u32;
        let mut nodes: Vec<Node> = (0..count).map(|at| node(NodeId(at))).collect();
        let limited = pools
            .iter()
            .filter_map(|id| Some((*id, scheduler.resource_pools().get(*id)?.over_time(now)?)));
        let mut placed = Vec::new();
        for (id, (total, taken)) in limited {
            let mut pool = Node {
                total: kinds.row_of_pool(total),
                at: vec![-NEVER],
                occupancy: vec![0; width],
            };
            for booked in taken {
                let (start, end) = (since(begin, booked.start), since(begin, booked.end));
                pool.take(start, end, &kinds.row_of_pool(booked.amount));
            }
            placed.push((id, NodeId(nodes.len() as u32)));
            nodes.push(pool);
        }
        Self {
            nodes,
            pools: placed,
        }
    }

    /// What these holds take, with the places of their pools; nothing of a pool without limit.
    pub fn rows_of(&self, kinds: &Kinds, holds: &Holds) -> Vec<(NodeId, Vec<u64>)> {
        let row = |(id, amount): (PoolId, u64)| {
            let (_, place) = self.pools.iter().find(|(pool, _)| *pool == id)?;
            Some((*place, kinds.row_of_pool(amount)))
        };
        holds.on(&[]).into_iter().filter_map(row).collect()
    }

    /// True when nothing is taken of any node, now or later.
    pub fn is_idle(&self) -> bool {
        self.nodes.iter().all(|node| node.at.len() == 1)
    }

    /// Room for tasks on an entirely free node.
    pub fn capacity_of_all(&self, node: NodeId, print: &Footprint) -> u64 {
        let node = &self.nodes[node.index()];
        print.capacity(&node.total, &vec![0; node.total.len()])
    }

    /// The earliest start from `from` on at which `print` has room for a task for so long.
    pub fn free(&self, node: NodeId, print: &Footprint, from: i64, length: i64) -> Free {
        self.free_for(node, from, length, |node, step| print.capacity(&node.total, node.row(step)))
    }

    /// The same for a part of a node that is known.
    pub fn free_row(&self, node: NodeId, row: &[u64], from: i64, length: i64) -> i64 {
        let fits = |node: &Node, step: usize| {
            let rows = node.total.iter().zip(node.row(step)).zip(row);
            let mut rows =
                rows.map(|((total, occupancy), own)| total.saturating_sub(*occupancy) >= *own);
            u64::from(rows.all(|fits| fits))
        };
        self.free_for(node, from, length, fits).start
    }

    fn free_for(
        &self,
        node: NodeId,
        from: i64,
        length: i64,
        capacity: impl Fn(&Node, usize) -> u64,
    ) -> Free {
        let node = &self.nodes[node.index()];
        let mut free = Free {
            start: from,
            capacity: u64::MAX,
        };
        let mut step = node.step(from);
        loop {
            let profile = capacity(node, step);
            let until = node.until(step);
            if profile == 0 {
                if until >= NEVER {
                    return Free {
                        start: NEVER,
                        capacity: 0,
                    };
                }
                free = Free {
                    start: until,
                    capacity: u64::MAX,
                };
            } else {
                free.capacity = free.capacity.min(profile);
                if until >= NEVER || until >= free.start.saturating_add(length) {
                    return free;
                }
            }
            step += 1;
        }
    }

    /// From when on, not before `from`, a known part of a node is taken by others.
    pub fn blocked(&self, node: NodeId, row: &[u64], from: i64) -> Option<i64> {
        let node = &self.nodes[node.index()];
        let fits = |step: usize| {
            let rows = node.total.iter().zip(node.row(step)).zip(row);
            let mut rows =
                rows.map(|((total, occupancy), own)| total.saturating_sub(*occupancy) >= *own);
            rows.all(|fits| fits)
        };
        let first = node.step(from);
        let blocked = (first..node.at.len()).find(|step| !fits(*step));
        blocked.map(|step| node.at[step].max(from))
    }

    /// How many parts like this an entirely free node has.
    pub fn copies(&self, node: NodeId, row: &[u64]) -> u64 {
        let rows = self.nodes[node.index()].total.iter().zip(row);
        rows.filter_map(|(total, own)| total.checked_div(*own))
            .min()
            .unwrap_or(1)
    }

    /// When a node has no room for a task: from, until.
    pub fn shut(&self, node: NodeId, print: &Footprint) -> Vec<(i64, i64)> {
        let node = &self.nodes[node.index()];
        let none = |step: &usize| print.capacity(&node.total, node.row(*step)) == 0;
        let steps = (0..node.at.len()).filter(none);
        steps
            .map(|step| (node.at[step], node.until(step)))
            .collect()
    }

    /// When what is taken of a node changes next.
    pub fn next_change(&self, node: NodeId, after: i64) -> i64 {
        let node = &self.nodes[node.index()];
        node.until(node.step(after))
    }

    /// From then on nothing changes on a node any more.
    pub fn settled(&self, node: NodeId) -> i64 {
        self.nodes[node.index()]
            .at
            .last()
            .copied()
            .unwrap_or(-NEVER)
    }

    /// Takes a part of a node.
    pub fn take(&mut self, node: NodeId, row: &[u64], start: i64, end: i64) {
        self.nodes[node.index()].take(start, end, row);
    }
}

/// Milliseconds from `begin`, within what can be counted with.
pub(super) fn since(begin: Time, at: Time) -> i64 {
    at.0.saturating_sub(begin.0).clamp(-NEVER, NEVER)
}
