//! All resource pools by number, and what the planner's events do to them.

use super::one::ResourcePool;
use super::{Held, PoolId};
use crate::cow_map::CowMap;
use cosy_model::{JobId, NodeId, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) use super::one::Booked;

/// The pools that are set or held. A copy shares what neither has changed since.
#[derive(Clone, Default, Debug)]
pub(crate) struct ResourcePools {
    all: CowMap<PoolId, Arc<ResourcePool>>,
    /// Pools whose capacity changes later, by the first change.
    steps: BTreeSet<(Time, PoolId)>,
    /// Pools of which passing time alone may free something for those who wait: shared ones, and
    /// own ones of which reservations keep amounts.
    timed: BTreeSet<PoolId>,
}

impl ResourcePools {
    pub fn get(&self, id: PoolId) -> Option<&ResourcePool> {
        self.all.get(&id).map(Arc::as_ref)
    }

    /// True when nothing is known of any pool.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All that are set, by number.
    pub fn iter(&self) -> impl Iterator<Item = (PoolId, &ResourcePool)> {
        self.all.iter().map(|(id, pool)| (*id, pool.as_ref()))
    }

    /// Changes a pool, which may be new, and forgets it when nothing is known of it any more.
    pub fn change<T>(&mut self, id: PoolId, change: impl FnOnce(&mut ResourcePool) -> T) -> T {
        if self.all.get(&id).is_none() {
            self.all.insert(id, Arc::default());
        }
        let Some(known) = self.all.get_mut(&id) else {
            return change(&mut ResourcePool::default()); // it was put in above
        };
        let pool = Arc::make_mut(known);
        let old = pool.later.first().map(|(at, _)| *at);
        let result = change(pool);
        let new = pool.later.first().map(|(at, _)| *at);
        let timed = pool.is_reserved() || !pool.is_own() && pool.capacity.is_some();
        let idle = pool.is_idle();
        if old != new {
            old.map(|at| self.steps.remove(&(at, id)));
            self.steps.extend(new.map(|at| (at, id)));
        }
        match timed && !idle {
            true => self.timed.insert(id),
            false => self.timed.remove(&id),
        };
        if idle {
            self.all.remove(&id);
        }
        result
    }

    /// A job holds this, on `nodes`, until `end`.
    pub fn take(&mut self, job: (JobId, Time), held: &Held, nodes: impl Iterator<Item = NodeId>) {
        let amount = (held.amount, held.count);
        self.change(held.pool, |pool| pool.take(job, amount, nodes));
    }

    /// A job gives this back.
    pub fn give_back(
        &mut self,
        job: (JobId, Time),
        held: &Held,
        nodes: impl Iterator<Item = NodeId>,
    ) {
        let amount = (held.amount, held.count);
        self.change(held.pool, |pool| pool.give_back(job, amount, nodes));
    }

    /// Capacities whose time has come count: the pools that have another one now.
    pub fn advance(&mut self, now: Time) -> Vec<PoolId> {
        let mut changed = Vec::new();
        while let Some((at, id)) = self.steps.first().copied().filter(|(at, _)| *at <= now) {
            if !self.change(id, |pool| pool.advance(now)) {
                self.steps.remove(&(at, id));
            }
            changed.push(id);
        }
        changed
    }

    /// The next time after now at which passing time alone may change what jobs that hold
    /// something are promised.
    pub fn next_due(&self, now: Time) -> Option<Time> {
        let timed = self.timed.iter().filter_map(|id| self.get(*id));
        let due = timed.filter_map(|pool| pool.next_due(now)).min();
        let step = self.steps.first().map(|(at, _)| *at);
        due.into_iter().chain(step).min()
    }

    /// The next bound of a reservation, or change of a capacity, after `at`.
    pub fn next_bound(&self, at: Time) -> Option<Time> {
        let timed = self.timed.iter().filter_map(|id| self.get(*id));
        let bound = timed.filter_map(|pool| pool.next_bound(at)).min();
        let mut steps = self.steps.iter().map(|(step, _)| *step);
        let step = steps.find(|step| *step > at);
        bound.into_iter().chain(step).min()
    }

    /// What is free of it at this moment; all there could be without a limit.
    pub fn free_now(&self, id: PoolId) -> u64 {
        self.get(id).map_or(u64::MAX, ResourcePool::free_now)
    }
}
