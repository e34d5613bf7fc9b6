//! The nodes and everything booked on them: running jobs, accepted reservations, and,
//! during a pass, the places guaranteed to waiting jobs.
//!
//! What always holds: intervals are half open, `[start, end)`; a running job counts until
//! its expected end, and past that until one millisecond after now; `used` is the sum of
//! what jobs booked on the node hold; `idle`, `held`, `open` and `ahead` follow the nodes
//! at once. A node that one job holds as a whole, by the planner's decision, is `held` and
//! has nothing else running; its amounts are not touched.

mod node;

use crate::changes::{Changes, Mark};
use crate::cow_vec::CowVec;
use crate::nodeset::{NodeSet, bits_of};
use crate::{Component, NodeMask};
use cosy_model::{Amounts, JobId, NodeId, NodeShare, Time};
use node::{Node, expected};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

pub(crate) use node::{Booking, Owner, ReservationHorizon, Window, left};

/// What is free now on the open nodes of a region (a pool of queues).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RegionRoom {
    /// Cores that nobody has.
    pub cores: u64,
    /// Nodes without running jobs.
    pub idle: u32,
    /// Nodes that take jobs.
    pub open: u32,
}

/// A part of a node that is taken for some time.
pub(crate) struct Commitment {
    pub start: Time,
    pub end: Time,
    pub amounts: Amounts,
    /// Nobody else may use the node meanwhile.
    pub whole: bool,
}

/// So many nodes that are alike are compared one by one.
const FEW: usize = 64;

/// Stands for a node that belongs to no region.
const NOWHERE: u32 = u32::MAX;

/// Nodes by number, with sums over them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    totals: Arc<Vec<Amounts>>,
    /// Nodes with the same total have the same number.
    class: Arc<Vec<u32>>,
    /// Nodes of each class that has many.
    large_classes: Arc<BTreeMap<u32, NodeMask>>,
    nodes: CowVec<Node>,
    /// Expected end of the job that holds the node as a whole.
    held_until: Vec<Time>,
    region: Arc<Vec<u32>>,
    /// The cores of each node, when all are in one region and have the same.
    plain: Option<u32>,
    /// New work may start there.
    pub open: NodeMask,
    /// How many nodes are not open.
    closed: u32,
    /// How many shares of running jobs are booked node by node.
    booked: usize,
    /// No running job.
    pub idle: NodeMask,
    /// A job holds the node as a whole.
    held: NodeMask,
    /// A reservation or a guaranteed place is booked.
    pub ahead: NodeMask,
    regions: Vec<RegionRoom>,
    changes: Changes,
}

impl Machine {
    /// Takes over new totals; nodes beyond the old ones are open, what is booked stays. No
    /// node may be held as a whole.
    pub fn resize(&mut self, mut totals: Vec<Amounts>) {
        debug_assert!(self.held.is_empty());
        let known = self.nodes.len();
        let count = totals.len().max(known);
        totals.resize_with(count, Amounts::default);
        (known..count).for_each(|_| self.nodes.push(Node::default()));
        self.held_until.resize(count, Time(i64::MIN));
        for at in known..count {
            self.open.insert(NodeId(at as u32));
            self.idle.insert(NodeId(at as u32));
        }
        for (at, total) in totals.iter().enumerate() {
            if let Some(node) = self.nodes.get_mut(at) {
                node.free = left(total, &node.used);
            }
        }
        self.class = Arc::new(classes(&totals));
        self.large_classes = Arc::new(large_classes(&self.class));
        self.totals = Arc::new(totals);
        self.closed = count as u32 - self.open.count();
        self.divide(&[]);
    }

    /// Divides the nodes into regions, whose room is counted from now on.
    pub fn divide(&mut self, regions: &[&NodeMask]) {
        let of = |at: u32| {
            let here = |region: &&NodeMask| region.contains(NodeId(at));
            let found = regions.iter().position(here);
            found.map_or(NOWHERE, |region| region as u32)
        };
        let all: Vec<u32> = (0..self.nodes.len() as u32).map(of).collect();
        let first = self.totals.first().map(|total| total.cores);
        let alike = |cores: &u32| self.totals.iter().all(|total| total.cores == *cores);
        let whole = regions.len() == 1 && all.iter().all(|region| *region == 0);
        self.plain = first.filter(|cores| whole && alike(cores));
        self.region = Arc::new(all);
        self.regions = vec![RegionRoom::default(); regions.len()];
        for at in 0..self.nodes.len() as u32 {
            self.count(NodeId(at), 1);
        }
        self.changes.forget();
    }

    /// The region of a node.
    pub fn region(&self, id: NodeId) -> Option<usize> {
        let region = self.region.get(id.index()).copied();
        region.filter(|r| *r != NOWHERE).map(|r| r as usize)
    }

    /// True when all nodes are in one region.
    pub fn is_plain(&self) -> bool {
        self.plain.is_some()
    }

    /// The cores of each node, when all nodes are in one region and have the same.
    pub fn common_cores(&self) -> Option<u32> {
        self.plain
    }

    /// What is free in a region.
    pub fn room(&self, region: usize) -> RegionRoom {
        self.regions[region]
    }

    /// Says whether new work may start on `id`.
    pub fn set_open(&mut self, id: NodeId, open: bool) {
        if id.index() < self.nodes.len() {
            self.count(id, -1);
            set(&mut self.open, id, open);
            self.closed = self.nodes.len() as u32 - self.open.count();
            self.count(id, 1);
        }
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// All that a node has.
    pub fn total(&self, id: NodeId) -> &Amounts {
        &self.totals[id.index()]
    }

    /// The total of some nodes, if all have the same.
    pub fn common_total(&self, nodes: &NodeMask) -> Option<&Amounts> {
        let known = nodes.iter().filter(|id| self.knows(*id));
        let mut classes = known.map(|id| (self.class[id.index()], id));
        let (class, first) = classes.next()?;
        let large = self.large_classes.get(&class);
        let alike = large.is_some_and(|all| nodes.is_subset(all))
            || classes.all(|(other, _)| other == class);
        alike.then(|| self.total(first))
    }

    /// True when there is such a node.
    pub fn knows(&self, id: NodeId) -> bool {
        id.index() < self.nodes.len()
    }

    /// What is held of a node now, and what is free.
    pub fn used_and_free(&self, id: NodeId) -> (Amounts, Amounts) {
        match self.nodes.get(id.index()) {
            None => Default::default(),
            Some(_) if self.held.contains(id) => (self.total(id).clone(), Amounts::default()),
            Some(node) => (node.used.clone(), node.free.clone()),
        }
    }

    /// What a job that shares nodes could take of a node now.
    pub fn free(&self, id: NodeId) -> Option<&Amounts> {
        let node = &self.nodes[id.index()];
        (node.wholes == 0 && !self.held.contains(id)).then_some(&node.free)
    }

    /// True when some job does not hold its nodes as a whole.
    pub fn is_shared(&self) -> bool {
        self.booked > 0
    }

    /// True when a job on the node keeps others off it, though it is not held as a whole.
    pub fn is_taken(&self, id: NodeId) -> bool {
        self.nodes[id.index()].wholes > 0
    }

    /// True when `job` is booked on the node and keeps others off it.
    pub fn has_alone(&self, job: JobId, id: NodeId) -> bool {
        let running = self.nodes.get(id.index()).map(|node| node.running.iter());
        let mut running = running.into_iter().flatten();
        running.any(|booking| booking.owner == Owner::Job(job) && booking.whole)
    }

    /// From now on changes are noted.
    pub fn note_changes(&mut self) {
        self.changes.want();
    }

    /// The nodes whose free amounts have changed since `mark`, and the mark of now.
    pub fn changed_since(&self, mark: Mark) -> (Option<&[NodeId]>, Mark) {
        (self.changes.since(mark), self.changes.mark())
    }

    /// Gives idle nodes to one job as a whole.
    pub fn hold(&mut self, nodes: &NodeSet, end: Time) {
        let plainly = self.count_plainly(nodes, -1);
        if !plainly {
            nodes.iter().for_each(|id| self.count(id, -1));
        }
        self.held.add_set(nodes);
        self.idle.take_set(nodes);
        self.set_held_until(nodes, end);
        if !plainly {
            nodes.iter().for_each(|id| self.count(id, 1));
        }
    }

    /// Takes back nodes that one job held as a whole.
    pub fn let_go(&mut self, nodes: &NodeSet) {
        if self.count_plainly(nodes, 1) {
            self.held.take_set(nodes);
            self.idle.add_set(nodes);
            return;
        }
        for id in nodes.iter() {
            self.count(id, -1);
            self.held.remove(id);
            let idle = self.nodes[id.index()].running.is_empty();
            set(&mut self.idle, id, idle);
            self.count(id, 1);
        }
    }

    /// Moves the expected end of the job that holds `nodes` as a whole.
    pub fn set_held_until(&mut self, nodes: &NodeSet, end: Time) {
        for (at, bits) in nodes.words() {
            if bits == u64::MAX
                && let Some(all) = self.held_until.get_mut(at * 64..at * 64 + 64)
            {
                all.fill(end);
                continue;
            }
            for id in bits_of(at, bits) {
                if let Some(until) = self.held_until.get_mut(id.index()) {
                    *until = end;
                }
            }
        }
    }

    /// Books a share of a running job.
    pub fn run(&mut self, job: JobId, share: &NodeShare, end: Time, whole: bool) {
        let id = share.node;
        if !self.knows(id) {
            return;
        }
        self.change(id, |node| {
            node.running.push(Booking {
                owner: Owner::Job(job),
                start: Time(i64::MIN),
                end,
                amounts: share.amounts.clone(),
                whole,
            });
            node.wholes += u32::from(whole);
            node.used.give(&share.amounts);
        });
        self.booked += 1;
    }

    /// Frees what `job` holds of `id`.
    pub fn release(&mut self, job: JobId, id: NodeId) {
        if !self.knows(id) {
            return;
        }
        let mut gone = 0;
        self.change(id, |node| {
            while let Some(at) = position(&node.running, Owner::Job(job)) {
                let booking = node.running.swap_remove(at);
                node.wholes -= u32::from(booking.whole);
                node.used.take(&booking.amounts);
                gone += 1;
            }
        });
        self.booked -= gone;
    }

    /// Moves the expected end of `job` on `id`.
    pub fn set_end(&mut self, job: JobId, id: NodeId, end: Time) {
        let running = self.nodes.get_mut(id.index()).map(|n| &mut n.running);
        for booking in running.into_iter().flatten() {
            if booking.owner == Owner::Job(job) {
                booking.end = end;
            }
        }
    }

    /// Books something ahead.
    pub fn book(&mut self, id: NodeId, booking: Booking) {
        if let Some(node) = self.nodes.get_mut(id.index()) {
            let ahead = Arc::make_mut(&mut node.ahead);
            let at = ahead.partition_point(|other| other.start <= booking.start);
            ahead.insert(at, booking);
            self.ahead.insert(id);
        }
    }

    /// Removes what `owner` has booked ahead on `id`.
    pub fn unbook(&mut self, id: NodeId, owner: Owner) {
        if let Some(node) = self.nodes.get_mut(id.index()) {
            Arc::make_mut(&mut node.ahead).retain(|booking| booking.owner != owner);
            set(&mut self.ahead, id, !node.ahead.is_empty());
        }
    }

    /// When all jobs that run on `id` are expected to have ended, `now` if none runs.
    pub fn cleared(&self, id: NodeId, now: Time) -> Time {
        let held = match self.held.contains(id) {
            true => expected(self.held_until[id.index()], now),
            false => now,
        };
        let running = self.nodes[id.index()].running.iter();
        running.map(|b| expected(b.end, now)).fold(held, Time::max)
    }

    /// What of `id` a job with `demand` could use during the whole of `[start, end)`, if
    /// anything.
    pub fn window(
        &self,
        id: NodeId,
        demand: &Component,
        window: (Time, Time),
        now: Time,
        sight: ReservationHorizon,
    ) -> Option<Window<'_>> {
        let held_until = self.held_until(id);
        let node = &self.nodes[id.index()];
        node.window(self.total(id), held_until, demand, window, now, sight)
    }

    /// The same if `owner` had nothing of the node.
    pub fn window_without(
        &self,
        owner: Owner,
        id: NodeId,
        demand: &Component,
        window: (Time, Time),
        now: Time,
        sight: ReservationHorizon,
    ) -> Option<Window<'_>> {
        // Where a job holds a node as a whole, there is no other job on it.
        let holds = matches!(owner, Owner::Job(_)) && self.held.contains(id);
        let node = self.nodes.get(id.index())?;
        if !holds && !node.has(owner) {
            return self.window(id, demand, window, now, sight);
        }
        let held_until = self.held_until(id).filter(|_| !holds);
        let total = self.totals.get(id.index())?;
        let node = node.without(owner, total);
        let found = node.window(total, held_until, demand, window, now, sight)?;
        Some(Window {
            free: Cow::Owned(found.free.into_owned()),
            ..found
        })
    }

    /// Expected end of the job that holds `id` as a whole, where one does.
    fn held_until(&self, id: NodeId) -> Option<Time> {
        let held = self.held.contains(id);
        held.then(|| self.held_until[id.index()])
    }

    /// All that is taken of a node, now and later.
    pub fn commitments(&self, id: NodeId, now: Time) -> Vec<Commitment> {
        let node = &self.nodes[id.index()];
        let held = self.held.contains(id).then(|| Commitment {
            start: now,
            end: expected(self.held_until[id.index()], now),
            amounts: self.total(id).clone(),
            whole: true,
        });
        let running = node.running.iter().map(|booking| Commitment {
            start: now,
            end: expected(booking.end, now),
            amounts: booking.amounts.clone(),
            whole: booking.whole,
        });
        let ahead = node.ahead.iter().map(|booking| Commitment {
            start: booking.start,
            end: booking.end,
            amounts: booking.amounts.clone(),
            whole: booking.whole,
        });
        held.into_iter().chain(running).chain(ahead).collect()
    }

    /// Changes the bookings of a node and everything that follows from them.
    fn change(&mut self, id: NodeId, change: impl FnOnce(&mut Node)) {
        self.count(id, -1);
        let total = self.totals.get(id.index());
        if let (Some(node), Some(total)) = (self.nodes.get_mut(id.index()), total) {
            change(node);
            node.free = left(total, &node.used);
            let idle = node.running.is_empty() && !self.held.contains(id);
            set(&mut self.idle, id, idle);
        }
        self.count(id, 1);
    }

    /// Counts a node in its region (`sign` 1) or not any more (-1).
    fn count(&mut self, id: NodeId, sign: i64) {
        if sign > 0 {
            self.changes.note(id, self.nodes.len());
        }
        let Some(region) = self.region(id).filter(|_| self.open.contains(id)) else {
            return;
        };
        let free = if self.held.contains(id) {
            0
        } else {
            self.nodes[id.index()].free.cores
        };
        let idle = i64::from(self.idle.contains(id));
        self.regions[region].count(sign * i64::from(free), sign * idle, sign);
    }

    /// Counts nodes that are idle in their region (`sign` 1) or not any more (-1), where all
    /// nodes are in one and are alike, and jobs hold them as a whole. False when it is not
    /// so.
    fn count_plainly(&mut self, nodes: &NodeSet, sign: i64) -> bool {
        let Some(cores) = self.plain.filter(|_| self.booked == 0) else {
            return false;
        };
        if self.changes.wanted() {
            let most = self.nodes.len();
            nodes.iter().for_each(|id| self.changes.note(id, most));
        }
        let open = match self.closed {
            0 => nodes.count(),
            _ => self.open.count_of(nodes),
        };
        let open = sign * i64::from(open);
        self.regions[0].count(open * i64::from(cores), open, 0);
        true
    }
}

impl RegionRoom {
    fn count(&mut self, cores: i64, idle: i64, open: i64) {
        self.cores = self.cores.saturating_add_signed(cores);
        self.idle = self.idle.saturating_add_signed(idle as i32);
        self.open = self.open.saturating_add_signed(open as i32);
    }
}

/// A number for each node, the same for those with the same total.
fn classes(totals: &[Amounts]) -> Vec<u32> {
    let mut known: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let mut classes = Vec::with_capacity(totals.len());
    for (at, total) in totals.iter().enumerate() {
        let mut hasher = DefaultHasher::new();
        total.hash(&mut hasher);
        let like = known.entry(hasher.finish()).or_default();
        let first = like.iter().copied().find(|other| totals[*other] == *total);
        if first.is_none() {
            like.push(at);
        }
        classes.push(first.unwrap_or(at) as u32);
    }
    classes
}

/// The nodes of classes that have more than a few: for others it is soon found out that not all are alike.
fn large_classes(class: &[u32]) -> BTreeMap<u32, NodeMask> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    class
        .iter()
        .for_each(|one| *counts.entry(*one).or_default() += 1);
    let mut large: BTreeMap<u32, NodeMask> = BTreeMap::new();
    for (at, one) in class.iter().enumerate() {
        if counts.get(one).is_some_and(|count| *count > FEW) {
            large.entry(*one).or_default().insert(NodeId(at as u32));
        }
    }
    large
}

fn position(bookings: &[Booking], owner: Owner) -> Option<usize> {
    bookings.iter().position(|booking| booking.owner == owner)
}

fn set(mask: &mut NodeMask, id: NodeId, inside: bool) {
    match inside {
        true => mask.insert(id),
        false => mask.remove(id),
    }
}
