//! Guaranteed places on the nodes themselves, where numbers do not tell them: more guarantees
//! than one, jobs that share nodes, nodes that are not alike, reservations ahead.
//!
//! A place is the earliest time, with concrete nodes, that running jobs (by their expected
//! ends), reservations and earlier guaranteed places allow. It is found only when a later job
//! could start without it: a place takes room and never gives any, so what fails without it
//! fails with it.
//!
//! Source for more guarantees than one: Mu'alem and Feitelson (2001), conservative backfill.

use super::easy::Attempt;
use super::{ENDLESS, Pass, at_least_one};
use crate::OrderKey;
use crate::group::Feasible;
use crate::machine::{Booking, RegionRoom};
use crate::nodeset::NodeSet;
use crate::scheduler::Scheduler;
use crate::select::NodeTasks;
use crate::summary::Available;
use crate::waiting_line::QueueKey;
use cosy_model::{JobId, NodeShare, Time};

impl Scheduler {
    /// Gives a job a guaranteed place, found at once only where there may be none.
    pub(super) fn guarantee(&mut self, pass: &mut Pass, key: OrderKey, queue_key: &QueueKey) {
        pass.given += 1;
        pass.ahead += usize::from(key.ahead.is_some());
        pass.pending.push((key.job, *queue_key));
        pass.head = Some((key, *queue_key));
        if pass.endless || self.may_lack_place(queue_key.class) {
            self.find_places(pass);
        }
        pass.endless |= queue_key.limit >= ENDLESS;
    }

    /// Gives guaranteed places to these jobs, which wait before all others. False when nobody
    /// may start behind them.
    pub(crate) fn guarantee_all(
        &mut self,
        pass: &mut Pass,
        heads: impl Iterator<Item = (OrderKey, QueueKey)>,
    ) -> bool {
        for (key, queue_key) in heads {
            if !self.policy().backfill {
                return false;
            }
            let feasible = self.feasible(queue_key.group) == Feasible::Now;
            if feasible && self.gets_place(pass, key) {
                self.guarantee(pass, key, &queue_key);
            }
        }
        true
    }

    /// What jobs may still take beside the places that are found: nodes on which nothing within reach is
    /// booked ahead for as long as they like, the others until the last of what is booked begins.
    pub(super) fn room_beside_places(
        &self,
        pass: &mut Pass,
        free: RegionRoom,
    ) -> Available<'static> {
        let pool = &self.node_pools[pass.pool];
        let reserved = pass
            .reserved
            .get_or_insert_with(|| pool.reserved_within(pass.now, pass.far));
        let ahead = [&reserved.nodes, &pass.placed];
        let extra = match ahead.iter().all(|mask| mask.is_empty()) {
            true => free.idle,
            false => {
                let (open, idle) = (&self.machine.open, &self.machine.idle);
                pool.nodes.count_within([open, idle], ahead)
            }
        };
        Available {
            idle: free.idle,
            extra,
            until_shadow: reserved.last_start.max(pass.last_start).since(pass.now),
            cores: free.cores,
            groups: pass.groups,
            lacks: None,
            hopeless: None,
        }
    }

    /// The nodes on which a whole-node job can start now without moving a guaranteed place.
    pub(crate) fn nodes_beside_places(
        &mut self,
        pass: &mut Pass,
        queue_key: &QueueKey,
    ) -> Option<NodeSet> {
        let booked = self.node_pools[pass.pool].reserved_from() < pass.far;
        if !pass.pending.is_empty() {
            if booked {
                self.nodes_now(pass, queue_key)?;
            }
            self.find_places(pass);
        }
        self.nodes_now(pass, queue_key)
    }

    pub(super) fn start_shared(
        &mut self,
        pass: &mut Pass,
        job: JobId,
        queue_key: &QueueKey,
    ) -> Attempt {
        let picks = match self.picks_beside_places(pass, queue_key) {
            Ok(picks) => picks,
            Err(room) => {
                self.give_up_larger(pass, queue_key, room);
                return Attempt::NodesLack;
            }
        };
        if !self.may_hold_on(pass, queue_key, || self.shares_picked(queue_key, &picks)) {
            return Attempt::PoolsLack;
        }
        self.start_picked(job, &picks, pass.now);
        Attempt::Started
    }

    /// What a job will hold that gets these nodes as a whole.
    pub(crate) fn whole_shares_of(&self, queue_key: &QueueKey, nodes: &NodeSet) -> Vec<NodeShare> {
        self.whole_shares(self.groups.get(queue_key.group).demand.first(), nodes)
    }

    /// What a job will hold on the nodes picked for it.
    pub(crate) fn shares_picked(
        &self,
        queue_key: &QueueKey,
        picks: &[NodeTasks],
    ) -> Vec<NodeShare> {
        self.shares_for(&self.groups.get(queue_key.group).demand, picks)
    }

    /// Where a job that shares nodes can start now without moving a guaranteed place.
    ///
    /// # Errors
    /// As those of [`Self::picks_now`].
    pub(crate) fn picks_beside_places(
        &mut self,
        pass: &mut Pass,
        queue_key: &QueueKey,
    ) -> Result<Vec<NodeTasks>, u64> {
        self.book_places(pass);
        let picks = self.picks_now(pass, queue_key)?;
        if pass.pending.is_empty() {
            return Ok(picks);
        }
        self.find_places(pass);
        self.book_places(pass);
        self.picks_now(pass, queue_key)
    }

    /// Finds the places of all pending guarantees and books them. A guarantee for which no
    /// time can be told, because something never ends, is none and is given to another job.
    fn find_places(&mut self, pass: &mut Pass) {
        let mut pending = std::mem::take(&mut pass.pending);
        pass.shadow = None;
        for (job, queue_key) in pending.drain(..) {
            let found = match queue_key.whole {
                0 => self.place_shared(pass, job, &queue_key),
                _ => self.place_whole(pass, job, &queue_key),
            };
            match found {
                Some(start) => {
                    pass.last_start = pass.last_start.max(start);
                    self.reaches(start + at_least_one(queue_key.limit));
                }
                None => pass.given -= 1,
            }
        }
        pass.pending = pending;
    }

    fn place_whole(&mut self, pass: &mut Pass, job: JobId, queue_key: &QueueKey) -> Option<Time> {
        let found = self.looking_far_enough(pass, queue_key, |scheduler, pass| {
            scheduler.earliest_whole(pass, queue_key)
        });
        let (start, nodes) = found?;
        let end = start + at_least_one(queue_key.limit);
        let shares = || self.whole_shares_of(queue_key, &nodes);
        self.promise(pass, (job, queue_key.class), (start, end), shares);
        pass.placed.add_set(&nodes);
        if !pass.profile.is_empty() {
            pass.profile.take(start, end, nodes.count());
        }
        if self.groups.share_nodes() {
            pass.unbooked.push((nodes.clone(), start, end));
        }
        pass.places.book(nodes, start, end);
        Some(start)
    }

    /// What `find` finds when all reservations are looked at that begin before the place
    /// ends.
    fn looking_far_enough<T>(
        &mut self,
        pass: &mut Pass,
        queue_key: &QueueKey,
        find: impl Fn(&mut Self, &mut Pass) -> Option<(Time, T)>,
    ) -> Option<(Time, T)> {
        loop {
            let found = find(self, pass);
            let end = found
                .as_ref()
                .map(|(start, _)| *start + at_least_one(queue_key.limit));
            let end = end.unwrap_or(Time::FAR);
            let known = self.node_pools[pass.pool].reserved_until;
            if end <= known || !self.look_farther(pass.pool, pass.now, end) {
                return found;
            }
            pass.profile.clear();
        }
    }

    fn place_shared(&mut self, pass: &mut Pass, job: JobId, queue_key: &QueueKey) -> Option<Time> {
        self.book_places(pass);
        let found = self.looking_far_enough(pass, queue_key, |scheduler, pass| {
            scheduler.earliest_shared(pass, queue_key)
        });
        let (start, picks) = found?;
        let end = start + at_least_one(queue_key.limit);
        let shares = || self.shares_picked(queue_key, &picks);
        self.promise(pass, (job, queue_key.class), (start, end), shares);
        let nodes: NodeSet = picks.iter().map(|pick| pick.node).collect();
        pass.placed.add_set(&nodes);
        pass.places.book(nodes, start, end);
        let demand = std::sync::Arc::clone(&self.groups.get(queue_key.group).demand);
        for share in self.shares_for(&demand, &picks) {
            let NodeShare { node, amounts, .. } = share;
            pass.booked.push(node);
            let booking = Booking::place(start, end, amounts, false);
            self.machine.book(node, booking);
        }
        Some(start)
    }

    /// Books places of whole-node jobs node by node, for jobs that share nodes.
    fn book_places(&mut self, pass: &mut Pass) {
        for (nodes, start, end) in pass.unbooked.drain(..) {
            for node in nodes.iter() {
                pass.booked.push(node);
                let all = self.machine.total(node).clone();
                let booking = Booking::place(start, end, all, true);
                self.machine.book(node, booking);
            }
        }
    }
}
