//! Whole-node jobs: a node is taken or it is not, so sets of nodes are enough and amounts
//! need not be looked at.
//!
//! Nodes that are alike are not ranked one by one. The ranks of `select` then depend on
//! two things only: since when and until when a node is free. Both are the same for all
//! nodes of one running job or one booking, so nodes are taken set by set.

use crate::NodeMask;
use crate::ends::{End, Ends, Place};
use crate::group::Group;
use crate::near::select;
use crate::node_pool::NodePool;
use crate::nodeset::NodeSet;
use crate::pass::{Pass, at_least_one};
use crate::scheduler::Scheduler;
use crate::select::{Candidate, count_alike};
use crate::timeline::Timeline;
use crate::waiting_line::QueueKey;
use cosy_model::{NodeId, Time};

/// Sets of nodes that are worked on, kept for their memory.
#[derive(Clone, Default, Debug)]
pub(crate) struct Masks {
    /// Nodes that will be idle.
    idle: NodeMask,
    /// Those that are clear of bookings and not taken yet.
    clear: NodeMask,
    taken: NodeMask,
    class: NodeMask,
    part: NodeMask,
}

/// The nodes that are idle as one running job after the other ends, remembered every few ends: each place
/// that is looked for in a pass walks over the same ends.
#[derive(Clone, Default, Debug)]
pub(crate) struct Vacated {
    /// After so many ends each: the place of the next, when the last of them is, and the idle nodes.
    known: Vec<(Place, Time, NodeMask)>,
    /// How many ends the walk has come by.
    walked: usize,
    /// Jobs that the pass had started then.
    started: usize,
}

/// So many ends lie between two that are remembered.
const EVERY: usize = 32;

impl Vacated {
    pub fn clear(&mut self) {
        self.known.clear();
    }

    /// Begins a walk that goes to `at`, as near to it as is known. `idle` are the nodes that are idle now.
    fn jump(&mut self, started: usize, at: Time, idle: &mut NodeMask) -> Place {
        if self.started != started {
            (self.started, self.walked) = (started, 0);
            self.known.clear();
        }
        let before = self.known.partition_point(|(_, last, _)| *last <= at);
        self.walked = before * EVERY;
        let last = before.checked_sub(1).and_then(|last| self.known.get(last));
        last.map_or(Ends::START, |(next, _, then)| {
            idle.set_to(then);
            *next
        })
    }

    /// One more job has ended, at `at`; `next` is the place behind it.
    fn walked(&mut self, next: Place, at: Time, idle: &NodeMask) {
        self.walked += 1;
        if self.walked == (self.known.len() + 1) * EVERY {
            self.known.push((next, at, idle.clone()));
        }
    }
}

/// Something to choose nodes for: a window of time, and what ends before it.
#[derive(Clone, Copy)]
struct Slot {
    at: Time,
    end: Time,
    /// Jobs before that place will have ended. `None` when it starts now.
    ended: Option<Place>,
}

impl Scheduler {
    /// The nodes on which a whole-node job can start now, given the places found so far.
    pub(crate) fn nodes_now(&self, pass: &mut Pass, queue_key: &QueueKey) -> Option<NodeSet> {
        let group = self.groups.get(queue_key.group);
        let free = self.node_pools[pass.pool].reserved_from() >= pass.far;
        let any = group.demand.first().topology.is_none() && free && pass.places.is_empty();
        if let Some(capacity) = group.alike.filter(|_| any) {
            let count = count_alike(group.demand.first(), capacity)?;
            return NodeSet::first_of(
                group.eligible(),
                &self.machine.idle,
                count,
                pass.spare_set.take(),
            );
        }
        let masks = &mut pass.masks;
        masks.idle.set_and(group.eligible(), &self.machine.idle);
        let slot = Slot {
            at: pass.now,
            end: pass.now + at_least_one(queue_key.limit),
            ended: None,
        };
        self.choose_whole(pass, queue_key, slot)
    }

    /// Marks the idle nodes that the head's place needs, the lowest ones, unless it has been done
    /// in this pass.
    pub(crate) fn keep_for_head(&self, pass: &mut Pass, queue_key: &QueueKey, kept: u32) {
        if pass.kept.is_empty() && kept > 0 {
            let group = self.groups.get(queue_key.group);
            let idle = &mut pass.masks.class;
            idle.set_and(group.eligible(), &self.machine.idle);
            pass.kept.take_first(idle, kept, None);
        }
    }

    /// The lowest idle nodes, for a job that may have any.
    pub(crate) fn lowest_idle(&self, pass: &mut Pass, queue_key: &QueueKey) -> Option<NodeSet> {
        let group = self.groups.get(queue_key.group);
        let count = count_alike(group.demand.first(), group.alike?)?;
        let spare = pass.spare_set.take();
        NodeSet::first_of(group.eligible(), &self.machine.idle, count, spare)
    }

    /// The lowest idle nodes that are not kept for the head.
    pub(crate) fn lowest_extra(&self, pass: &mut Pass, queue_key: &QueueKey) -> Option<NodeSet> {
        let group = self.groups.get(queue_key.group);
        let count = count_alike(group.demand.first(), group.alike?)?;
        let spare = pass.spare_set.take();
        let extra = &mut pass.masks.class;
        extra.set_to(&self.machine.idle);
        extra.subtract(&pass.kept);
        NodeSet::first_of(group.eligible(), extra, count, spare)
    }

    /// True when numbers of nodes are enough to tell when a job of the group can start, if
    /// that is not beyond the next reservation.
    pub(crate) fn is_counted(&self, pool: &NodePool, pass: &Pass, group: &Group) -> bool {
        let free = pool.reserved_from() >= pass.far && pass.places.is_empty();
        let any = group.demand.first().topology.is_none();
        free && any && group.everywhere && pool.listed == 0
    }

    /// The earliest time after now at which a whole-node job finds nodes for its whole
    /// limit, and the nodes: the end of something on nodes that may be chosen.
    pub(crate) fn earliest_whole(
        &self,
        pass: &mut Pass,
        queue_key: &QueueKey,
    ) -> Option<(Time, NodeSet)> {
        let group = self.groups.get(queue_key.group);
        let pool = &self.node_pools[pass.pool];
        let soon = Time(pass.now.0.saturating_add(1));
        // A job that waits for a resource pool alone is not served by numbers of nodes.
        let idle = self.machine.room(pass.pool).idle;
        if let Some(capacity) = group.alike
            && self.is_counted(pool, pass, group)
            && let count = count_alike(group.demand.first(), capacity)?
            && (!queue_key.class.holds() || count > idle)
        {
            let (at, nodes) = self.earliest_counted(pass, group, count)?;
            if at + at_least_one(queue_key.limit) <= pool.reserved_from()
                && self
                    .may_hold_later(pass, queue_key, at, || self.whole_shares_of(queue_key, &nodes))
            {
                return Some((at, nodes));
            }
        }
        pass.masks
            .idle
            .set_and(group.eligible(), &self.machine.idle);
        if pass.profile.is_empty() {
            self.begin_profile(pass);
        }
        let length = at_least_one(queue_key.limit);
        let (mut next, mut from) = (Ends::START, soon);
        loop {
            // In between there are too few nodes, whichever they are.
            let at = pass.profile.next((from, from + length), queue_key.whole)?;
            if at == Time::FAR {
                return None;
            }
            if !self.may_hold_at(pass, queue_key, at) {
                from = self.next_given_back(pass, queue_key, at)?;
                continue;
            }
            next = self.idle_at(pass, group, (&pool.ends, next, at));
            let slot = Slot {
                at,
                end: at + length,
                ended: Some(next),
            };
            let nodes = self.choose_whole(pass, queue_key, slot).filter(|nodes| {
                let shares = || self.whole_shares_of(queue_key, nodes);
                self.may_hold_later(pass, queue_key, at, shares)
            });
            if let Some(nodes) = nodes {
                return Some((at, nodes));
            }
            let end = pool.ends.get(next).map(|end| end.at.max(soon));
            let booked = pool.next_booked(&pass.places, at);
            let given = self.next_given_back(pass, queue_key, at);
            from = end.into_iter().chain(booked).chain(given).min()?;
        }
    }

    /// Counts what is free at most from now on. Where jobs share nodes, places of waiting
    /// jobs may lie on nodes that are counted already, and are left out.
    fn begin_profile(&self, pass: &mut Pass) {
        let pool = &self.node_pools[pass.pool];
        let soon = Time(pass.now.0.saturating_add(1));
        let ends = pool.ends.iter();
        let ends = ends.map(|end| (end.at.max(soon), end.nodes));
        let idle = pool.nodes.count_and(&self.machine.idle);
        pass.profile.begin(pass.now, idle, ends);
        // A node that is still busy then is not counted as free anyway.
        let free = |node, start: Time| self.machine.cleared(node, pass.now) <= start.max(pass.now);
        let mut booked = pool.reserved.booked(free);
        if !self.groups.share_nodes() {
            booked.extend(pass.places.booked(free));
        }
        for (start, end, nodes) in booked {
            let (start, end) = (start.max(pass.now), end.max(pass.now));
            pass.profile.take(start, end, nodes);
        }
    }

    /// The same where numbers tell the time: `count` nodes, those that come free latest.
    fn earliest_counted(
        &self,
        pass: &mut Pass,
        group: &Group,
        mut count: u32,
    ) -> Option<(Time, NodeSet)> {
        let ends = &self.node_pools[pass.pool].ends;
        let idle = self.machine.room(pass.pool).idle;
        let soon = Time(pass.now.0.saturating_add(1));
        let missing = count.saturating_sub(idle);
        let (at, next, _) = ends.freed(missing.into(), soon)?;
        if at == Time::FAR {
            return None;
        }
        let Masks { taken, class, .. } = &mut pass.masks;
        taken.clear();
        let mut freed = ends.before(next).peekable();
        while let Some(end) = freed.next().filter(|_| count > 0) {
            let nodes = &self.running.get(end.run).nodes;
            let same = |other: &&End| other.at.max(soon) == end.at.max(soon);
            if end.nodes <= count && freed.peek().is_none_or(|other| !same(other)) {
                taken.add_set(nodes);
                count -= end.nodes;
                continue;
            }
            class.clear();
            class.add_set(nodes);
            while let Some(other) = freed.next_if(same) {
                class.add_set(&self.running.get(other.run).nodes);
            }
            count -= taken.take_first(class, count, None);
        }
        if count > 0 {
            class.set_and(group.eligible(), &self.machine.idle);
            taken.take_first(class, count, None);
        }
        Some((at, NodeSet::of(taken)))
    }

    /// Brings the idle nodes from those before `next` to those at `at`. The place of the next end.
    fn idle_at(
        &self,
        pass: &mut Pass,
        group: &Group,
        (ends, mut next, at): (&Ends, Place, Time),
    ) -> Place {
        let soon = Time(pass.now.0.saturating_add(1));
        if group.everywhere && next == Ends::START {
            let started = pass.started.len();
            next = pass.vacated.jump(started, at, &mut pass.masks.idle);
        }
        while let Some(end) = ends.get(next).filter(|e| e.at.max(soon) <= at) {
            let ended = (end.at.max(soon), pass.now);
            self.vacate(&mut pass.masks.idle, group, end.run, ended);
            next = ends.after(next);
            if group.everywhere {
                pass.vacated.walked(next, ended.0, &pass.masks.idle);
            }
        }
        next
    }

    /// A running job ends at `at`: its nodes become idle.
    fn vacate(
        &self,
        idle: &mut NodeMask,
        group: &Group,
        run: crate::running::RunId,
        (at, now): (Time, Time),
    ) {
        let running = self.running.get(run);
        // Where a job holds nodes as a whole, no other job runs.
        if group.everywhere && (running.is_whole() || !self.machine.is_shared()) {
            idle.add_set(&running.nodes);
            return;
        }
        for node in running
            .nodes
            .iter()
            .filter(|n| group.eligible().contains(*n))
        {
            if self.machine.cleared(node, now) <= at {
                idle.insert(node);
            }
        }
    }

    /// The nodes that a whole-node job gets, of `masks.idle`.
    fn choose_whole(&self, pass: &mut Pass, queue_key: &QueueKey, slot: Slot) -> Option<NodeSet> {
        let pool = &self.node_pools[pass.pool];
        let (masks, places) = (&mut pass.masks, &pass.places);
        if masks.idle.count() < queue_key.whole {
            return None;
        }
        masks.clear.set_to(&masks.idle);
        for timeline in [&pool.reserved, places] {
            let window = (slot.at, slot.end);
            let enough = timeline.is_empty()
                || timeline.keep_clear(&mut masks.clear, window, queue_key.whole);
            if !enough {
                return None;
            }
        }
        let group = self.groups.get(queue_key.group);
        let Some(capacity) = group.alike else {
            return self.choose_unlike(pass, group, slot);
        };
        let count = count_alike(group.demand.first(), capacity)?;
        if count > masks.clear.count() {
            return None;
        }
        if let Some(topology) = group.demand.first().topology.as_ref().filter(|_| count > 1) {
            topology.narrow(&mut masks.clear, count);
        }
        masks.taken.clear();
        self.take_alike(pool, masks, places, count, (slot, pass.now, pass.far));
        Some(NodeSet::of(&masks.taken))
    }

    /// Takes `count` nodes of `masks.clear`: those that are busy longest before the slot,
    /// of these the ones that are booked soonest after it, of these the lowest.
    fn take_alike(
        &self,
        pool: &NodePool,
        masks: &mut Masks,
        places: &Timeline,
        mut count: u32,
        (slot, now, far): (Slot, Time, Time),
    ) {
        let soon = Time(now.0.saturating_add(1));
        if let Some(ended) = slot.ended {
            let ends = pool.ends.before(ended);
            let run = |end: &End| {
                let running = self.running.get(end.run);
                (end.at.max(soon), &running.nodes)
            };
            let booked =
                merge(pool.reserved.ended_by(slot.at), places.ended_by(slot.at), |a, b| a >= b);
            let booked = booked.take_while(|(at, _)| *at > now);
            let mut sets = merge(ends.map(run), booked, |a, b| a >= b).peekable();
            while let Some((at, nodes)) = sets.next().filter(|_| count > 0) {
                masks.class.clear();
                masks.class.add_set(nodes);
                while let Some((_, nodes)) = sets.next_if(|(other, _)| *other == at) {
                    masks.class.add_set(nodes);
                }
                masks.class.keep(&masks.clear);
                masks.clear.subtract(&masks.class);
                count -= take_class(pool, masks, places, count, (slot.end, far));
            }
        }
        if count > 0 {
            std::mem::swap(&mut masks.class, &mut masks.clear);
            take_class(pool, masks, places, count, (slot.end, far));
        }
    }

    /// The choice among nodes that are not alike, or for a job that tells them apart.
    fn choose_unlike(&self, pass: &Pass, group: &Group, slot: Slot) -> Option<NodeSet> {
        let pool = &self.node_pools[pass.pool];
        let (mut since, mut until) = (vec![pass.now; self.machine.len()], Vec::new());
        until.resize(self.machine.len(), Time::FAR);
        for timeline in [&pool.reserved, &pass.places] {
            for (at, nodes) in timeline.ended_by(slot.at) {
                let later = |n: NodeId| since[n.index()] = since[n.index()].max(at);
                nodes.iter().for_each(later);
            }
            let counts = |at| std::ptr::eq(timeline, &pass.places) || at < pass.far;
            let later = timeline.starting_from(slot.end);
            for (at, nodes) in later.take_while(|(at, _)| counts(*at)) {
                let sooner = |n: NodeId| until[n.index()] = until[n.index()].min(at);
                nodes.iter().for_each(sooner);
            }
        }
        let candidate = |node: NodeId| {
            let mut since = since[node.index()];
            if slot.ended.is_some() {
                since = since.max(self.machine.cleared(node, pass.now));
            }
            let gap = (since, until[node.index()]);
            Candidate::new(group.demand.first(), node, self.machine.total(node), gap)
        };
        let candidates = pass.masks.clear.iter().filter_map(candidate).collect();
        let picks = select(group.demand.first(), candidates)?;
        Some(picks.iter().map(|pick| pick.node).collect())
    }
}

/// Moves at most `count` nodes from `masks.class` to `masks.taken`, those first that are
/// booked soonest from `end` on. Returns how many.
fn take_class(
    pool: &NodePool,
    masks: &mut Masks,
    places: &Timeline,
    count: u32,
    (end, far): (Time, Time),
) -> u32 {
    let (class, taken) = (&mut masks.class, &mut masks.taken);
    let mut left = count;
    let reserved = pool.reserved.starting_from(end);
    let reserved = reserved.take_while(|(at, _)| *at < far);
    let mut sets = merge(reserved, places.starting_from(end), |a, b| a <= b).peekable();
    while let Some((at, nodes)) = sets.next().filter(|_| left > 0) {
        if sets.peek().is_none_or(|(other, _)| *other != at) {
            left -= taken.take_first(class, left, Some(nodes));
            continue;
        }
        masks.part.clear();
        masks.part.add_set(nodes);
        while let Some((_, nodes)) = sets.next_if(|(other, _)| *other == at) {
            masks.part.add_set(nodes);
        }
        left -= taken.take_first(class, left, Some(&NodeSet::of(&masks.part)));
    }
    left -= taken.take_first(class, left, None);
    count - left
}

/// Two sequences that are in order become one.
fn merge<'a>(
    a: impl Iterator<Item = (Time, &'a NodeSet)>,
    b: impl Iterator<Item = (Time, &'a NodeSet)>,
    before: impl Fn(Time, Time) -> bool,
) -> impl Iterator<Item = (Time, &'a NodeSet)> {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    std::iter::from_fn(move || match (a.peek(), b.peek()) {
        (Some((first, _)), Some((second, _))) if !before(*first, *second) => b.next(),
        (Some(_), _) => a.next(),
        (None, _) => b.next(),
    })
}
