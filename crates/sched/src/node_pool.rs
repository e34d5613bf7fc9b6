//! Queues that share nodes, directly or through other queues, are one pool: they are
//! served in one order and have one set of heads. Pools never hold each other back.

use crate::cow_map::CowMap;
use crate::ends::Ends;
use crate::resource_pool::holder::Promise;
use crate::resource_pool::{Need, PoolId};
use crate::timeline::Timeline;
use crate::waiting_line::{QueueKey, WaitingLine};
use crate::{NodeMask, OrderKey};
use cosy_model::{JobId, ReservationId, Time, WaitReason};
use std::sync::Arc;

/// So many jobs that have come between two passes are looked at alone; of more, all are.
const MOST_FRESH: usize = 64;

/// Reservations that are not over and begin before a time.
#[derive(Clone, Debug)]
pub(crate) struct ReservedWithin {
    /// All their nodes.
    pub nodes: NodeMask,
    /// When the last of them begins; now where there is none.
    pub last_start: Time,
}

/// Queues that share nodes, with the jobs that wait and run there.
#[derive(Clone, Default, Debug)]
pub(crate) struct NodePool {
    /// All nodes of its queues.
    pub nodes: NodeMask,
    /// Its waiting jobs whose queues start jobs, without those that are parked.
    pub line: WaitingLine,
    /// Jobs that wait for a pool of their own, by pool and by how much of it they want.
    pub parked: CowMap<(PoolId, u64), Arc<WaitingLine>>,
    /// What the places guaranteed in the last pass hold of shared pools.
    pub promised: Vec<Promise>,
    /// Expected ends of the jobs that run on its nodes, as announced.
    pub ends: Ends,
    /// How many of these jobs do not hold their nodes as a whole.
    pub listed: u32,
    /// Starts and ends of reservations on its nodes.
    pub bounds: CowMap<(Time, ReservationId), ()>,
    /// The ends among them.
    pub block_ends: CowMap<(Time, ReservationId), ()>,
    /// The nodes of reservations over time, up to date during a pass: of all that start
    /// before `reserved_until`, and of some that are over.
    pub reserved: Arc<Timeline>,
    pub reserved_until: Time,
    /// One of these has come or gone since `reserved` was made.
    pub reserved_is_old: bool,
    /// Something has changed since the last pass.
    pub dirty: bool,
    /// The jobs that have come since then, and whether nothing else has happened.
    pub fresh: Vec<(OrderKey, QueueKey)>,
    pub only_fresh: bool,
    /// The job whose place was the only one in the last pass, and was told by counting.
    pub head: Option<(OrderKey, QueueKey)>,
    /// From then on the passing of time may change a decision.
    pub due: Time,
    /// The jobs that the last pass has given a guaranteed place, or that stopped it.
    /// By job.
    pub heads: Vec<(JobId, WaitReason)>,
}

impl NodePool {
    /// Something has happened that may let a waiting job start.
    pub fn change(&mut self) {
        self.dirty = true;
        self.only_fresh = false;
    }

    /// A job has come.
    pub fn add(&mut self, key: OrderKey, queue_key: QueueKey) {
        self.line.insert(key, queue_key);
        self.dirty = true;
        if self.only_fresh && self.fresh.len() < MOST_FRESH {
            self.fresh.push((key, queue_key));
        } else {
            self.only_fresh = false;
        }
    }

    /// The same nodes, running jobs and reservations, with nobody in the line.
    pub fn without_line(&self) -> Self {
        Self {
            nodes: self.nodes.clone(),
            ends: self.ends.clone(),
            listed: self.listed,
            bounds: self.bounds.clone(),
            block_ends: self.block_ends.clone(),
            reserved: Arc::clone(&self.reserved),
            reserved_until: self.reserved_until,
            reserved_is_old: self.reserved_is_old,
            ..Self::default()
        }
    }

    /// A job with these needs has gone.
    pub fn take_out(&mut self, key: &OrderKey, needs: &[Need]) {
        if self.line.remove(key) {
            self.change();
        } else {
            self.take_parked(key, needs);
        }
    }

    /// A reservation from `start` to `end` has nodes here.
    pub fn bound(&mut self, reservation: ReservationId, (start, end): (Time, Time)) {
        self.bounds.insert((start, reservation), ());
        self.bounds.insert((end, reservation), ());
        self.block_ends.insert((end, reservation), ());
    }

    /// It has none any more.
    pub fn unbound(&mut self, reservation: ReservationId, (start, end): (Time, Time)) {
        self.bounds.remove(&(start, reservation));
        self.bounds.remove(&(end, reservation));
        self.block_ends.remove(&(end, reservation));
    }

    /// The first begin or end of a reservation after `now`.
    pub fn next_bound(&self, now: Time) -> Option<Time> {
        let soon = (Time(now.0.saturating_add(1)), ReservationId(0));
        self.bounds.from(soon).next().map(|bound| bound.0)
    }

    /// The first end of a reservation after `now`.
    pub fn next_block_end(&self, now: Time) -> Option<Time> {
        let soon = (Time(now.0.saturating_add(1)), ReservationId(0));
        self.block_ends.from(soon).next().map(|end| end.0)
    }

    /// A reservation that starts at `start` has come or gone.
    pub fn reserve_anew(&mut self, start: Time) {
        self.reserved_is_old |= start < self.reserved_until;
    }

    /// True when a pass at `now` could start something.
    pub fn needs_pass(&self, now: Time) -> bool {
        !self.line.is_empty() && (self.dirty || self.due <= now)
    }

    /// The first time after `now` at which decisions may change without an event: an
    /// expected end or the bound of a reservation passes. Once a job is past its expected
    /// end, that is at once.
    pub fn next_due(&self, now: Time) -> Time {
        let soon = Time(now.0.saturating_add(1));
        let end = self.ends.first().map_or(Time::FAR, |end| end.at);
        let bound = self.next_bound(now).unwrap_or(Time::FAR);
        if end <= now { soon } else { end.min(bound) }
    }

    /// True when something on its nodes has no planned end.
    pub fn has_endless(&self) -> bool {
        let end = self.ends.last().is_some_and(|end| end.at == Time::FAR);
        end || self.bounds.last().is_some_and(|b| b.0 == Time::FAR)
    }

    /// When reservations begin to matter, if the longest waiting job is started now or later:
    /// the start of the first one that is still ahead, at once when one has begun.
    pub fn reserved_from(&self) -> Time {
        self.bounds.first().map_or(Time::FAR, |bound| bound.0)
    }

    /// The reservations that are in the way of jobs that start now and end by `far`. During a pass.
    pub fn reserved_within(&self, now: Time, far: Time) -> ReservedWithin {
        let mut within = ReservedWithin {
            nodes: NodeMask::default(),
            last_start: now,
        };
        if self.reserved_from() < far {
            for (start, nodes) in self.reserved.during((now, far)) {
                within.nodes.add_set(nodes);
                within.last_start = within.last_start.max(start);
            }
        }
        within
    }

    /// The first end of a reservation or of one of `places` after `at`.
    pub fn next_booked(&self, places: &Timeline, at: Time) -> Option<Time> {
        let ends = [self.reserved.next_end(at), places.next_end(at)];
        ends.into_iter().flatten().min()
    }

    /// Why a job waits that the last pass has stopped at.
    pub fn reason_of(&self, job: JobId) -> Option<&WaitReason> {
        let found = self.heads.binary_search_by_key(&job, |(head, _)| *head);
        found.ok().map(|at| &self.heads[at].1)
    }
}

/// The pools of `queues`, and for each queue the place of its pool.
pub(crate) fn pools(queues: &[NodeMask]) -> (Vec<NodeMask>, Vec<usize>) {
    let mut found: Vec<NodeMask> = Vec::new();
    for queue in queues {
        let (touched, mut apart): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|nodes| nodes.intersects(queue));
        let joined = touched
            .iter()
            .fold(queue.clone(), |all, nodes| all.or(nodes));
        apart.push(joined);
        found = apart;
    }
    let place = |queue: &NodeMask| {
        let mut all = found.iter();
        let at = all.position(|nodes| nodes.intersects(queue) || nodes == queue);
        at.expect("every queue went into a pool")
    };
    let places = queues.iter().map(place).collect();
    (found, places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::NodeId;

    fn check(queues: &[&[u32]], places: &[usize]) {
        let mask = |nodes: &&[u32]| nodes.iter().map(|n| NodeId(*n)).collect();
        let queues: Vec<NodeMask> = queues.iter().map(mask).collect();
        let (_, got) = pools(&queues);
        for a in 0..got.len() {
            for b in 0..got.len() {
                assert_eq!(got[a] == got[b], places[a] == places[b], "{queues:?} {got:?}");
            }
        }
    }

    #[test]
    fn queues_that_share_nodes_belong_together() {
        check(&[&[0, 1], &[2, 3]], &[0, 1]);
        check(&[&[0, 1], &[1, 2]], &[0, 0]);
        check(&[&[0, 1], &[2, 3], &[1, 2]], &[0, 0, 0]);
        check(&[&[0], &[4], &[0, 1], &[4, 5]], &[0, 1, 0, 1]);
        check(&[&[], &[0]], &[0, 1]);
    }
}
