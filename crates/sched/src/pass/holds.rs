//! Resource pools in a pass: whether what a job holds of them is free as long as it runs, and
//! what guaranteed places keep of them.
//!
//! What always holds: the places of a pass leave out nothing that the last pass of another pool
//! of nodes has promised, so that jobs of queues that share no nodes do not starve each other of
//! a licence.

use super::{Pass, at_least_one};
use crate::resource_pool::all::Booked;
use crate::resource_pool::classes::ClassId;
use crate::resource_pool::holder::Promise;
use crate::resource_pool::{HoldAmount, Need, PoolId};
use crate::scheduler::Scheduler;
use crate::waiting_line::QueueKey;
use cosy_model::{JobId, NodeId, NodeShare, Time};

/// So much of so many pools, each pool once.
pub(crate) type Wants = Vec<(PoolId, u64)>;

impl Scheduler {
    /// Takes over what other pools of nodes have promised.
    pub(crate) fn note_promises(&self, pass: &mut Pass) {
        for (at, other) in self.node_pools.iter().enumerate() {
            if at != pass.pool {
                pass.promised.extend(&other.promised);
            }
        }
        pass.promised.extend(self.others().promised().iter());
        pass.foreign = pass.promised.len();
    }

    /// What a job of the class wants at least.
    pub(crate) fn least_wanted(&self, class: ClassId) -> Wants {
        self.wanted(class, |need| need.least)
    }

    /// What a job of the class will hold on these shares of nodes, if it starts now.
    pub(crate) fn wanted_now(&self, class: ClassId, shares: &[NodeShare]) -> Wants {
        let pool = |need: &Need| self.resource_pools().get(need.pool);
        self.wanted(class, |need| match (need.amount, pool(need)) {
            (HoldAmount::Nodes, Some(pool)) if pool.is_own() => {
                let mut nodes: Vec<NodeId> = shares.iter().map(|share| share.node).collect();
                nodes.dedup();
                pool.new_nodes(nodes.into_iter())
            }
            _ => need.amount.on(shares),
        })
    }

    /// What a job of the class will hold on these shares of nodes later.
    pub(crate) fn wanted_later(&self, class: ClassId, shares: &[NodeShare]) -> Wants {
        self.wanted(class, |need| need.amount.on(shares))
    }

    fn wanted(&self, class: ClassId, amount: impl Fn(&Need) -> u64) -> Wants {
        let mut all: Wants = Vec::new();
        for need in self.classes().needs(class) {
            let amount = amount(need);
            match all.last_mut().filter(|(pool, _)| *pool == need.pool) {
                Some((_, sum)) => *sum = sum.saturating_add(amount),
                None => all.push((need.pool, amount)),
            }
        }
        all
    }

    /// True when all of it is free during `[start, end)` beside the places found so far.
    pub(crate) fn are_held_free(
        &self,
        pass: &Pass,
        wants: &[(PoolId, u64)],
        window: (Time, Time),
    ) -> bool {
        wants.iter().all(|(id, amount)| {
            let pool = self.resource_pools().get(*id);
            pool.is_none_or(|pool| pool.is_free(*amount, window, pass.now, &places(pass, *id)))
        })
    }

    /// True when what a job wants at least is free for its whole limit, if it starts now.
    pub(crate) fn may_hold_now(&self, pass: &Pass, queue_key: &QueueKey) -> bool {
        if !queue_key.class.holds() {
            return true;
        }
        let window = (pass.now, pass.now + at_least_one(queue_key.limit));
        self.are_held_free(pass, &self.least_wanted(queue_key.class), window)
    }

    /// True when what a job holds on these nodes is free for its whole limit, if it starts now.
    pub(crate) fn may_hold_on(
        &self,
        pass: &Pass,
        queue_key: &QueueKey,
        shares: impl FnOnce() -> Vec<NodeShare>,
    ) -> bool {
        if !queue_key.class.holds() {
            return true;
        }
        let window = (pass.now, pass.now + at_least_one(queue_key.limit));
        let wants = self.wanted_now(queue_key.class, &shares());
        self.are_held_free(pass, &wants, window)
    }

    /// True when what a job wants at least is free for its whole limit from `at` on.
    pub(crate) fn may_hold_at(&self, pass: &Pass, queue_key: &QueueKey, at: Time) -> bool {
        if !queue_key.class.holds() {
            return true;
        }
        let window = (at, at + at_least_one(queue_key.limit));
        self.are_held_free(pass, &self.least_wanted(queue_key.class), window)
    }

    /// True when what a job holds on these nodes is free for its whole limit from `at` on.
    pub(crate) fn may_hold_later(
        &self,
        pass: &Pass,
        queue_key: &QueueKey,
        at: Time,
        shares: impl FnOnce() -> Vec<NodeShare>,
    ) -> bool {
        if !queue_key.class.holds() {
            return true;
        }
        let window = (at, at + at_least_one(queue_key.limit));
        let wants = self.wanted_later(queue_key.class, &shares());
        self.are_held_free(pass, &wants, window)
    }

    /// A job could not have what it wants of pools: nor can others that want as much for as long.
    pub(super) fn note_lacks(&self, pass: &mut Pass, queue_key: &QueueKey) {
        for need in self.classes().needs(queue_key.class) {
            let bit = self.classes().bit_of(need);
            let (Some(bit), Some(pool)) = (bit, self.resource_pools().get(need.pool)) else {
                continue;
            };
            let lack = pool.first_lack(need.least, pass.now, &places(pass, need.pool));
            if let Some(lack) = lack {
                pass.lacks.note(bit, lack.since(pass.now));
            }
        }
    }

    /// The next time after `at` at which more may be free of what a job holds.
    pub(crate) fn next_given_back(
        &self,
        pass: &Pass,
        queue_key: &QueueKey,
        at: Time,
    ) -> Option<Time> {
        let needs = self.classes().needs(queue_key.class).iter();
        let next = needs.filter_map(|need| {
            let pool = self.resource_pools().get(need.pool)?;
            pool.next_change(at, pass.now, &places(pass, need.pool))
        });
        next.min().filter(|at| *at < Time::FAR)
    }

    /// The guaranteed place of a job keeps what it holds of pools.
    pub(super) fn promise(
        &self,
        pass: &mut Pass,
        (job, class): (JobId, ClassId),
        (start, end): (Time, Time),
        shares: impl FnOnce() -> Vec<NodeShare>,
    ) {
        if !class.holds() {
            return;
        }
        for (pool, amount) in self.wanted_later(class, &shares()) {
            let booked = Booked { start, end, amount };
            pass.promised.push(Promise { job, pool, booked });
        }
    }

    /// True when a place for the job is to be found at once: there may be none, or jobs of other
    /// pools of nodes are to know of it. Where a fixed amount of an own pool is free now, it is
    /// later.
    pub(super) fn may_lack_place(&self, class: ClassId) -> bool {
        let mut needs = self.classes().needs(class).iter();
        needs.any(|need| {
            let pool = self.resource_pools().get(need.pool);
            pool.is_some_and(|pool| {
                let later = !pool.is_own() || pool.changes_later();
                pool.capacity.is_some() && (later || !need.amount.is_fixed())
            })
        })
    }

    /// Keeps what the places of the pass hold of shared pools, for the passes of others. True
    /// when that is not what was promised before.
    pub(super) fn keep_promises(&mut self, pass: &mut Pass) -> bool {
        let own = pass.promised.drain(..).skip(pass.foreign);
        let pools = &self.resource_pools();
        let shared = |promise: &Promise| pools.get(promise.pool).is_some_and(|p| !p.is_own());
        let promised: Vec<Promise> = own.filter(shared).collect();
        let Some(known) = self.node_pools.get_mut(pass.pool) else {
            return false;
        };
        let changed = known.promised != promised;
        known.promised = promised;
        changed
    }
}

fn places(pass: &Pass, pool: PoolId) -> Vec<Booked> {
    let of = pass.promised.iter().filter(|promise| promise.pool == pool);
    of.map(|promise| promise.booked).collect()
}
