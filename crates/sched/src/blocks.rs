//! Accepted reservations, and where one more could be.
//!
//! What always holds: the start and the end of a reservation are among the bounds of every
//! pool that it has nodes of.

use crate::machine::{Booking, Owner, ReservationHorizon, Window};
use crate::near::pick;
use crate::scheduler::Scheduler;
use crate::timeline::Timeline;
use crate::{Component, PoolId};
use cosy_model::{JobId, NodeId, NodeShare, ReservationId, Span, Time};
use std::sync::Arc;

/// All accepted reservations are looked at, however far ahead.
const ALL_AHEAD: ReservationHorizon = ReservationHorizon::Until(Time::FAR);

/// An accepted reservation. Nothing else is started where it would be in the way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The reservation that the block keeps nodes for.
    pub reservation: ReservationId,
    /// What it holds.
    pub shares: Vec<NodeShare>,
    /// From then on.
    pub start: Time,
    /// First instant after the block.
    pub end: Time,
    /// What it holds of resource pools.
    pub holds: Vec<(PoolId, u64)>,
}

impl Scheduler {
    /// Enters an accepted reservation. One with the same id is replaced.
    pub fn add_block(&mut self, block: Block) {
        self.remove_block(block.reservation);
        let owner = Owner::Reservation(block.reservation);
        for share in &block.shares {
            let booking = Booking {
                owner,
                start: block.start,
                end: block.end,
                amounts: share.amounts.clone(),
                whole: false,
            };
            self.machine.book(share.node, booking);
            if let Some(region) = self.machine.region(share.node) {
                self.node_pools[region].bound(block.reservation, (block.start, block.end));
                self.node_pools[region].reserve_anew(block.start);
            }
            self.touch(share.node);
        }
        self.reserve_amounts(block.reservation, (block.start, block.end), &block.holds);
        self.blocks.insert(block.reservation, Arc::new(block));
    }

    /// True when there is an accepted reservation of that id whose time is not over.
    pub fn has_block(&self, reservation: ReservationId) -> bool {
        self.blocks.get(&reservation).is_some()
    }

    /// What such a reservation holds of resource pools, by number.
    pub fn amounts_kept(&self, reservation: ReservationId) -> &[(PoolId, u64)] {
        let block = self.blocks.get(&reservation);
        block.map_or(&[], |block| &block.holds)
    }

    /// Removes a reservation: it was cancelled, or its job has started. False when there is
    /// none.
    pub fn remove_block(&mut self, reservation: ReservationId) -> bool {
        let Some(block) = self.take_block(reservation) else {
            return false;
        };
        for share in &block.shares {
            if let Some(region) = self.machine.region(share.node) {
                self.node_pools[region].reserve_anew(block.start);
            }
        }
        true
    }

    fn take_block(&mut self, reservation: ReservationId) -> Option<Arc<Block>> {
        let block = self.blocks.remove(&reservation)?;
        for share in &block.shares {
            let owner = Owner::Reservation(reservation);
            self.machine.unbook(share.node, owner);
            if let Some(region) = self.machine.region(share.node) {
                self.node_pools[region].unbound(reservation, (block.start, block.end));
            }
            self.touch(share.node);
        }
        self.unreserve_amounts(reservation, &block.holds);
        Some(block)
    }

    /// Forgets reservations of a pool whose time is over. They may stay in the timeline,
    /// where they are in nobody's way.
    pub(crate) fn drop_past_blocks(&mut self, pool: usize, now: Time) {
        let bounds = &self.node_pools[pool].bounds;
        let past: Vec<ReservationId> = bounds
            .iter()
            .map(|((at, reservation), ())| (*at, *reservation))
            .take_while(|(at, _)| *at <= now)
            .map(|(_, reservation)| reservation)
            .filter(|r| self.blocks.get(r).is_some_and(|b| b.end <= now))
            .collect();
        for reservation in past {
            self.take_block(reservation);
        }
    }

    /// Where a reservation of `[start, start + length)` could be, if running jobs take their
    /// limits: its shares, or `None` when it would be in the way of running jobs or of
    /// accepted reservations, when it would begin in the past, or when it is empty. Waiting
    /// jobs are not looked at. `demand.allowed` says which
    /// nodes count; nodes that are down do not.
    pub fn place(
        &self,
        now: Time,
        demand: &Component,
        start: Time,
        length: Span,
    ) -> Option<Vec<NodeShare>> {
        self.place_where(now, demand, (start, length), |node, window| {
            self.machine.window(node, demand, window, now, ALL_AHEAD)
        })
    }

    /// Where an accepted reservation could be instead: as [`Self::place`], if what it has now
    /// were not there. Nothing is changed.
    pub fn place_instead_of(
        &self,
        reservation: ReservationId,
        now: Time,
        demand: &Component,
        start: Time,
        length: Span,
    ) -> Option<Vec<NodeShare>> {
        let owner = Owner::Reservation(reservation);
        self.place_where(now, demand, (start, length), |node, window| {
            let machine = &self.machine;
            machine.window_without(owner, node, demand, window, now, ALL_AHEAD)
        })
    }

    /// Where a reservation could be, if `free` is what is free of a node for a window.
    fn place_where<'a>(
        &'a self,
        now: Time,
        demand: &Component,
        (start, length): (Time, Span),
        free: impl Fn(NodeId, (Time, Time)) -> Option<Window<'a>>,
    ) -> Option<Vec<NodeShare>> {
        if start < now || length <= Span::ZERO {
            return None;
        }
        let nodes = demand.allowed.and(&self.machine.open);
        let window = (start, start + length);
        let picks = pick(demand, &nodes, |node| free(node, window))?;
        Some(self.shares_of_component(demand, &picks))
    }

    /// True when nobody but `job` itself, which runs on these shares of nodes, is on them from
    /// now until `end`, if running jobs take their limits; `whole` when nobody else may be on
    /// the nodes at all. Accepted reservations count, waiting jobs do not. Nothing is changed.
    pub fn may_stay(
        &self,
        job: JobId,
        now: Time,
        shares: &[NodeShare],
        end: Time,
        whole: bool,
    ) -> bool {
        let demand = Component {
            exclusive: whole,
            ..Component::default()
        };
        let window = (now, end.max(Time(now.0.saturating_add(1))));
        let free = |share: &NodeShare| {
            let (machine, owner) = (&self.machine, Owner::Job(job));
            let part = machine.window_without(owner, share.node, &demand, window, now, ALL_AHEAD);
            part.is_some_and(|part| share.amounts.fits(&part.free))
        };
        shares.iter().all(|s| self.machine.knows(s.node) && free(s))
    }

    /// Brings the timeline of a pool's reservations up to date, so that all that start
    /// before `far` are in it.
    pub(crate) fn note_reserved(&mut self, pool: usize, now: Time, far: Time) {
        let known = &self.node_pools[pool];
        if known.bounds.is_empty() && known.reserved.is_empty() {
            return;
        }
        if known.reserved_is_old || known.reserved_until < far {
            // Farther than needed now: for later passes.
            self.note_until(pool, far + Span(far.since(now).0 / 4));
        }
    }

    /// Looks at reservations that start later than those in the timeline of a pool, at
    /// all before `until` and more. False when there are none.
    pub(crate) fn look_farther(&mut self, pool: usize, now: Time, until: Time) -> bool {
        let known = self.node_pools[pool].reserved_until;
        if known == Time::FAR {
            return false;
        }
        self.note_until(pool, until.max(known + known.since(now)));
        true
    }

    fn note_until(&mut self, pool: usize, until: Time) {
        let pool = &mut self.node_pools[pool];
        let mut reserved = Timeline::default();
        pool.reserved_until = Time::FAR;
        for ((at, reservation), ()) in pool.bounds.iter() {
            let block = self.blocks.get(reservation);
            let Some(block) = block.filter(|block| block.start == *at) else {
                continue;
            };
            if block.start >= until {
                pool.reserved_until = until;
                break;
            }
            let nodes = block.shares.iter().map(|share| share.node);
            let here = nodes.filter(|node| pool.nodes.contains(*node));
            reserved.book(here.collect(), block.start, block.end);
        }
        pool.reserved = Arc::new(reserved);
        pool.reserved_is_old = false;
    }
}
