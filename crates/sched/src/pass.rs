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
use crate::scheduler::{Scheduler, Start};
use crate::select::{Candidate, Pick, select};
use crate::{NodeMask, OrderKey};
use cosy_model::{JobId, NodeId, NodeShare, Span, Time, WaitReason};
use std::collections::BTreeSet;

/// A limit beyond which an end is treated as never (146 million years).
const ENDLESS: Span = Span(i64::MAX / 2);

/// What one pass has found so far.
struct Pass {
    component: usize,
    now: Time,
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
    heads: Vec<(JobId, WaitReason)>,
    started: Vec<OrderKey>,
}

impl Scheduler {
    /// Runs a pass over one component and appends what it starts.
    pub(crate) fn pass(&mut self, component: usize, now: Time, starts: &mut Vec<Start>) {
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
            heads: Vec::new(),
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
        starts: &mut Vec<Start>,
    ) -> bool {
        if self.feasible(brief.group) != Feasible::Now {
            return true;
        }
        if let Some(picks) = self.picks_now(pass, brief) {
            starts.push(self.start_waiting(key.job, &picks, pass.now));
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
            pass.heads.push((key.job, reason));
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
        if self
            .groups
            .get(brief.group)
            .has_failed(self.passes, brief.limit)
        {
            return None;
        }
        let picks = self.picks_at(brief, pass.now, pass.now, false)?;
        if pass.pending.is_empty() {
            return Some(picks);
        }
        self.find_places(pass);
        self.picks_at(brief, pass.now, pass.now, false)
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
            for share in self.shares(brief.group, &picks) {
                pass.booked.push(share.node);
                let booking = Booking {
                    owner: Owner::Place,
                    start,
                    end: start + at_least_one(brief.limit),
                    amounts: share.amounts,
                    whole: self.groups.get(brief.group).demand.exclusive,
                };
                self.machine.book(share.node, booking);
            }
        }
    }

    /// The earliest time after now at which the job finds nodes for its whole limit.
    fn earliest(&self, brief: &Brief, pass: &Pass) -> Option<(Time, Vec<Pick>)> {
        let eligible = &self.groups.get(brief.group).eligible;
        let soon = Time(pass.now.0.saturating_add(1));
        let mut ahead = BTreeSet::new();
        for node in eligible.and(&self.machine.ahead).iter() {
            ahead.extend(self.machine.ahead_ends(node).filter(|end| *end > pass.now));
        }
        let mut ends = self.components[pass.component].ends.iter().peekable();
        let mut room = self.upper_room(brief, eligible);
        let need = if brief.whole > 0 {
            brief.whole.into()
        } else {
            brief.cores
        };
        loop {
            let next_end = ends.peek().map(|(end, _)| (*end).max(soon));
            let next_ahead = ahead.first().copied();
            let at = [next_end, next_ahead].into_iter().flatten().min()?;
            if at == Time::FAR {
                return None;
            }
            let mut freed = ahead.remove(&at);
            while let Some((_, job)) = ends.next_if(|(end, _)| (*end).max(soon) == at) {
                for share in self.shares_of(*job) {
                    if eligible.contains(share.node) {
                        freed = true;
                        room += self.released(brief, share, at, pass.now);
                    }
                }
            }
            if !freed || room < need {
                continue;
            }
            if let Some(picks) = self.picks_at(brief, at, pass.now, false) {
                return Some((at, picks));
            }
        }
    }

    /// What is free now on `eligible`: whole nodes or cores, whichever the job needs.
    fn upper_room(&self, brief: &Brief, eligible: &NodeMask) -> u64 {
        if brief.whole > 0 {
            return eligible.and(&self.machine.idle).count().into();
        }
        let cores = |node| u64::from(self.machine.node(node).free.cores);
        eligible.iter().map(cores).sum()
    }

    /// What the end of a share at `at` adds to that.
    fn released(&self, brief: &Brief, share: &NodeShare, at: Time, now: Time) -> u64 {
        if brief.whole > 0 {
            return self.machine.cleared_by(share.node, at, now).into();
        }
        share.amounts.cores.into()
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
        } else if demand.exclusive {
            Some(group.eligible.and(&self.machine.idle))
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

    /// What the job will hold on the nodes picked for it.
    pub(crate) fn shares(&self, group: GroupId, picks: &[Pick]) -> Vec<NodeShare> {
        let demand = &self.groups.get(group).demand;
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

    fn feasible(&mut self, group: GroupId) -> Feasible {
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

/// Jobs without any time limit worth the name still take a millisecond.
pub(crate) fn at_least_one(limit: Span) -> Span {
    limit.max(Span(1))
}
