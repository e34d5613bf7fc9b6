//! One pass over the waiting jobs of a component: what starts now.
//!
//! Jobs are taken in the order of service. A job that can start without moving a
//! guaranteed place starts. Of those that cannot, the first `depth` get a guaranteed place:
//! the earliest time, with concrete nodes, that running jobs (by their expected ends),
//! reservations and earlier guaranteed places allow.
//!
//! Guaranteed places are found only when a later job could start without them: a place
//! takes room and never gives any, so what fails without it fails with it.
//!
//! What always holds: after a pass no guaranteed place is left in the machine.

use crate::group::Feasible;
use crate::line::{Brief, Cursor, GroupId, Room};
use crate::machine::{Booking, Owner};
use crate::scheduler::Scheduler;
use crate::select::{Candidate, Pick, select};
use crate::timeline::Timeline;
use crate::{Demand, NodeMask, OrderKey};
use cosy_model::{Amounts, JobId, NodeId, NodeShare, Span, Time, WaitReason};
use std::collections::{BTreeMap, BTreeSet};

/// A limit beyond which an end is treated as never (146 million years).
const ENDLESS: Span = Span(i64::MAX / 2);

/// What one pass has found so far.
pub(crate) struct Pass {
    pub component: usize,
    pub now: Time,
    /// Guarantees given, found or still to find.
    given: usize,
    /// Those whose places are still to find.
    pending: Vec<Brief>,
    /// Nodes with places.
    booked: Vec<NodeId>,
    /// Latest start of a place.
    last_start: Time,
    /// A job may have no place at all, because something has no end.
    endless: bool,
    /// What is booked ahead, for whole-node jobs.
    pub timeline: Timeline,
    heads: BTreeMap<JobId, WaitReason>,
    started: Vec<OrderKey>,
}

impl Scheduler {
    /// Runs a pass over one component and appends what it starts.
    pub(crate) fn pass(&mut self, component: usize, now: Time, starts: &mut Vec<JobId>) {
        self.passes += 1;
        self.drop_past_blocks(component, now);
        let mut pass = Pass {
            component,
            now,
            given: 0,
            pending: Vec::new(),
            booked: Vec::new(),
            last_start: now,
            endless: self.components[component].has_endless(),
            timeline: self.reserved(component),
            heads: BTreeMap::new(),
            started: Vec::new(),
        };
        let mut cursor = Cursor::default();
        while let Some((key, brief)) = self.next_in_line(&pass, &mut cursor) {
            if !self.consider(&mut pass, key, &brief, starts) {
                break;
            }
        }
        self.finish(pass);
    }

    /// The next job that might start, or that is to be given a guarantee.
    fn next_in_line(&self, pass: &Pass, cursor: &mut Cursor) -> Option<(OrderKey, Brief)> {
        let every = !self.policy.backfill || self.policy.depth.allows(pass.given);
        let room = (!every).then(|| self.room(pass));
        let line = &self.components[pass.component].line;
        line.next(cursor, room.as_ref(), |group, limit| {
            let group = self.groups.get(group);
            group.has_failed(self.passes, limit) || group.is_out(self.epoch)
        })
    }

    fn room(&self, pass: &Pass) -> Room {
        let free = self.machine.room(pass.component);
        let component = &self.components[pass.component];
        let lasting = if self.machine.ahead.is_empty() {
            free.idle
        } else {
            component
                .nodes
                .count_and3(&self.machine.open, &self.machine.idle, &self.machine.ahead)
        };
        let last = component.bounds.last().map_or(pass.now, |bound| bound.0);
        Room {
            idle: free.idle,
            lasting,
            slack: last.max(pass.last_start).since(pass.now),
            cores: free.cores,
        }
    }

    /// Decides on one job. False when the pass is over.
    fn consider(
        &mut self,
        pass: &mut Pass,
        key: OrderKey,
        brief: &Brief,
        starts: &mut Vec<JobId>,
    ) -> bool {
        if self.feasible(brief.group) != Feasible::Now {
            return true;
        }
        if let Some(picks) = self.picks_now(pass, brief) {
            self.start_waiting(key.job, &picks, pass.now);
            starts.push(key.job);
            pass.started.push(key);
            pass.endless |= brief.limit >= ENDLESS;
            return true;
        }
        let passes = self.passes;
        self.groups
            .get_mut(brief.group)
            .set_failed(passes, brief.limit);
        let guaranteed = self.policy.depth.allows(pass.given);
        if guaranteed || !self.policy.backfill {
            let reason = self.reason_of_head(pass, brief);
            pass.heads.insert(key.job, reason);
        }
        if guaranteed && self.policy.backfill {
            pass.given += 1;
            pass.pending.push(*brief);
            if pass.endless {
                self.find_places(pass);
            }
            pass.endless |= brief.limit >= ENDLESS;
        }
        self.policy.backfill
    }

    /// The nodes on which the job can start now without moving a guaranteed place.
    fn picks_now(&mut self, pass: &mut Pass, brief: &Brief) -> Option<Vec<Pick>> {
        let passes = self.passes;
        if self.groups.get(brief.group).has_failed(passes, brief.limit) {
            return None;
        }
        let may = self.may_have_cores(pass, brief);
        let picks = if may {
            self.picks_free(pass, brief)
        } else {
            None
        };
        let Some(picks) = picks else {
            if !may || self.lacks_room(brief) {
                let group = self.groups.get_mut(brief.group);
                group.set_failed(passes, Span::ZERO);
            }
            return None;
        };
        if pass.pending.is_empty() {
            return Some(picks);
        }
        self.find_places(pass);
        self.picks_free(pass, brief)
    }

    /// False when a look at how many nodes have how many free cores shows that the job
    /// cannot start.
    fn may_have_cores(&self, pass: &Pass, brief: &Brief) -> bool {
        let demand = &*self.groups.get(brief.group).demand;
        if demand.exclusive || demand.per_task.cores == 0 {
            return true;
        }
        let alike = self.machine.nodes_by_cores(pass.component);
        let rooms = alike.map(|(cores, nodes)| (demand.core_capacity(cores), nodes));
        Need::of(demand).met_by(rooms)
    }

    /// True when what is free at this moment is too little, so that no shorter limit helps.
    fn lacks_room(&self, brief: &Brief) -> bool {
        let group = self.groups.get(brief.group);
        if brief.whole > 0 {
            return group.eligible.and(&self.machine.idle).count() < brief.whole;
        }
        let demand = &*group.demand;
        let free = |id| demand.capacity(&self.machine.node(id).free);
        !Need::of(demand).met_by(group.eligible.iter().map(|id| (free(id), 1)))
    }

    /// The nodes on which the job can start now, given the places found so far.
    fn picks_free(&self, pass: &Pass, brief: &Brief) -> Option<Vec<Pick>> {
        if brief.whole == 0 {
            return self.picks_at(brief, pass.now, pass.now, false);
        }
        let eligible = &self.groups.get(brief.group).eligible;
        let idle = eligible.and(&self.machine.idle);
        self.picks_whole(pass, brief, pass.now, &idle)
    }

    /// Finds the places of all pending guarantees and books them. A guarantee for which no
    /// time can be told, because something never ends, is none and is given to another job.
    fn find_places(&mut self, pass: &mut Pass) {
        for brief in std::mem::take(&mut pass.pending) {
            let Some((start, picks)) = self.earliest(&brief, pass) else {
                pass.given -= 1;
                continue;
            };
            pass.last_start = pass.last_start.max(start);
            let nodes = picks.iter().map(|pick| pick.node);
            let end = start + at_least_one(brief.limit);
            pass.timeline.book(nodes, start, end);
            for share in self.shares(brief.group, &picks) {
                pass.booked.push(share.node);
                let booking = Booking {
                    owner: Owner::Place,
                    start,
                    end,
                    amounts: share.amounts,
                    whole: self.groups.get(brief.group).demand.exclusive,
                };
                self.machine.book(share.node, booking);
            }
        }
    }

    /// The earliest time after now at which the job finds nodes for its whole limit: the
    /// end of something on nodes that may be chosen.
    fn earliest(&self, brief: &Brief, pass: &Pass) -> Option<(Time, Vec<Pick>)> {
        let eligible = &self.groups.get(brief.group).eligible;
        let soon = Time(pass.now.0.saturating_add(1));
        let mut ahead = BTreeSet::new();
        for node in eligible.and(&self.machine.ahead).iter() {
            ahead.extend(self.machine.ahead_ends(node).filter(|end| *end > pass.now));
        }
        let mut ends = self.components[pass.component].ends.iter().peekable();
        let mut outlook = Outlook::new(self, brief, eligible);
        loop {
            let next_end = ends.peek().map(|(end, _)| (*end).max(soon));
            let next_ahead = ahead.first().copied();
            let at = [next_end, next_ahead].into_iter().flatten().min()?;
            if at == Time::FAR {
                return None;
            }
            let mut freed = ahead.remove(&at);
            while let Some((_, job)) = ends.next_if(|(end, _)| (*end).max(soon) == at) {
                let shares = self.shares_of(*job).iter();
                for share in shares.filter(|share| eligible.contains(share.node)) {
                    freed = true;
                    outlook.release(self, share, at, pass.now);
                }
            }
            if !freed || !outlook.is_enough() {
                continue;
            }
            let picks = match brief.whole {
                0 => self.picks_at(brief, at, pass.now, false),
                _ => self.picks_whole(pass, brief, at, &outlook.idle),
            };
            if let Some(picks) = picks {
                return Some((at, picks));
            }
        }
    }

    /// The nodes that the job would get at `at` for its whole limit. `blind` leaves
    /// reservations out of account.
    pub(crate) fn picks_at(
        &self,
        brief: &Brief,
        at: Time,
        now: Time,
        blind: bool,
    ) -> Option<Vec<Pick>> {
        let group = self.groups.get(brief.group);
        let demand = &*group.demand;
        let usable = if at > now {
            None
        } else if demand.per_task.cores + demand.per_node.cores > 0 {
            Some(group.eligible.and_not(&self.machine.full))
        } else {
            None
        };
        let nodes = usable.as_ref().unwrap_or(&group.eligible);
        if nodes.count() < brief.whole.max(1) {
            return None;
        }
        let window = (at, at + at_least_one(brief.limit));
        let candidate = |node| {
            let free = self.machine.window(node, demand, window, now, blind)?;
            Candidate::new(demand, node, &free)
        };
        select(demand, nodes.iter().filter_map(candidate).collect())
    }

    /// The nodes of `nodes` that something with `demand` would get for a window.
    pub(crate) fn picks_for(
        &self,
        demand: &Demand,
        nodes: &NodeMask,
        window: (Time, Time),
        now: Time,
    ) -> Option<Vec<Pick>> {
        let candidate = |node| {
            let free = self.machine.window(node, demand, window, now, false)?;
            Candidate::new(demand, node, &free)
        };
        select(demand, nodes.iter().filter_map(candidate).collect())
    }

    /// What the job will hold on the nodes picked for it.
    pub(crate) fn shares(&self, group: GroupId, picks: &[Pick]) -> Vec<NodeShare> {
        self.shares_for(&self.groups.get(group).demand, picks)
    }

    /// What something with `demand` will hold on the nodes picked for it.
    pub(crate) fn shares_for(&self, demand: &Demand, picks: &[Pick]) -> Vec<NodeShare> {
        let share = |pick: &Pick| NodeShare {
            node: pick.node,
            tasks: pick.tasks,
            amounts: match demand.exclusive {
                true => self.machine.node(pick.node).total.clone(),
                false => demand.share(pick.tasks),
            },
        };
        picks.iter().map(share).collect()
    }

    /// Why a job that cannot start waits, when nobody else is before it.
    fn reason_of_head(&self, pass: &Pass, brief: &Brief) -> WaitReason {
        let reserved = !self.components[pass.component].bounds.is_empty();
        if reserved && self.picks_at(brief, pass.now, pass.now, true).is_some() {
            return WaitReason::Reservation;
        }
        WaitReason::Resources
    }

    /// Whether the group could run, found out once for each state of nodes and queues.
    pub(crate) fn feasible(&mut self, group: GroupId) -> Feasible {
        let group = self.groups.get_mut(group);
        let queue = &self.queues[group.queue().index()];
        group.refresh(self.epoch, &self.machine, &queue.nodes);
        group.feasible
    }

    fn finish(&mut self, pass: Pass) {
        for node in pass.booked {
            self.machine.unbook(node, Owner::Place);
        }
        let component = &mut self.components[pass.component];
        for key in &pass.started {
            component.line.remove(key);
        }
        component.heads = pass.heads;
        component.dirty = false;
        component.due = component.next_due(pass.now);
    }
}

/// What will be free as running jobs end: no less than what the job can really get,
/// because nothing booked ahead is counted.
struct Outlook<'a> {
    demand: &'a Demand,
    /// Whole nodes without running jobs.
    idle: NodeMask,
    /// Free amounts of nodes on which something has ended.
    freed: BTreeMap<NodeId, Amounts>,
    /// Nodes (of a whole-node job) or tasks that there is room for.
    room: u64,
    need: u64,
}

impl<'a> Outlook<'a> {
    fn new(scheduler: &'a Scheduler, brief: &Brief, eligible: &NodeMask) -> Self {
        let demand = &*scheduler.groups.get(brief.group).demand;
        let tasks = |id| u64::from(demand.capacity(&scheduler.machine.node(id).free));
        let idle = match demand.exclusive {
            true => eligible.and(&scheduler.machine.idle),
            false => NodeMask::default(),
        };
        let (room, need) = match demand.exclusive {
            true => (idle.count().into(), brief.whole.into()),
            false => (eligible.iter().map(tasks).sum(), demand.tasks.into()),
        };
        Self {
            demand,
            idle,
            freed: BTreeMap::new(),
            room,
            need,
        }
    }

    /// A share of a running job ends at `at`.
    fn release(&mut self, scheduler: &Scheduler, share: &NodeShare, at: Time, now: Time) {
        let node = share.node;
        if self.demand.exclusive {
            if !self.idle.contains(node) && scheduler.machine.cleared(node, now) <= at {
                self.idle.insert(node);
                self.room += 1;
            }
            return;
        }
        let now_free = || scheduler.machine.node(node).free.clone();
        let free = self.freed.entry(node).or_insert_with(now_free);
        let before = self.demand.capacity(free);
        free.give(&share.amounts);
        self.room += u64::from(self.demand.capacity(free) - before);
    }

    fn is_enough(&self) -> bool {
        self.room >= self.need
    }
}

/// Nodes and tasks that there must be room for.
#[derive(Clone, Copy)]
struct Need {
    nodes: u64,
    tasks: u64,
}

impl Need {
    fn of(demand: &Demand) -> Self {
        Self {
            nodes: demand.nodes.unwrap_or(1).max(1).into(),
            tasks: demand.tasks.into(),
        }
    }

    /// Whether so many nodes with room for so many tasks each could be enough.
    fn met_by(mut self, rooms: impl Iterator<Item = (u32, u32)>) -> bool {
        for (room, nodes) in rooms.filter(|(room, _)| *room > 0) {
            let tasks = u64::from(room) * u64::from(nodes);
            self.nodes = self.nodes.saturating_sub(nodes.into());
            self.tasks = self.tasks.saturating_sub(tasks);
            if self.nodes == 0 && self.tasks == 0 {
                return true;
            }
        }
        false
    }
}

/// Jobs without any time limit worth the name still take a millisecond.
pub(crate) fn at_least_one(limit: Span) -> Span {
    limit.max(Span(1))
}
