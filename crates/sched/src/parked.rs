//! Jobs that wait for a pool of their own, which is full: they lie beside it, so that no pass
//! looks at them, and come back into the line when enough of it is free for them.
//!
//! What always holds: a job is in the line or parked, never both; a parked job wants more of the
//! pool than is free of it.

use crate::OrderKey;
use crate::node_pool::NodePool;
use crate::resource_pool::classes::ClassId;
use crate::resource_pool::{Need, PoolId};
use crate::scheduler::Scheduler;
use crate::waiting_line::{QueueKey, WaitingLine};
use cosy_model::{JobId, Span, Time};
use std::sync::Arc;

impl NodePool {
    /// A job waits for a pool of its own.
    pub fn park(&mut self, need: Need, key: OrderKey, queue_key: QueueKey) {
        let place = (need.pool, need.least);
        match self.parked.get_mut(&place) {
            Some(line) => Arc::make_mut(line).insert(key, queue_key),
            None => {
                let mut line = WaitingLine::default();
                line.insert(key, queue_key);
                self.parked.insert(place, Arc::new(line));
            }
        }
    }

    /// A job that was parked has gone.
    pub fn take_parked(&mut self, key: &OrderKey, needs: &[Need]) {
        for need in needs {
            let place = (need.pool, need.least);
            let Some(line) = self.parked.get_mut(&place).map(Arc::make_mut) else {
                continue;
            };
            if line.remove(key) {
                if line.is_empty() {
                    self.parked.remove(&place);
                }
                return;
            }
        }
    }

    /// `free` of a pool is free: those who wait for it and want no more come back.
    fn unpark(&mut self, pool: PoolId, free: u64) {
        let places = self.parked.from((pool, 0));
        let places = places.take_while(|(other, least)| *other == pool && *least <= free);
        for place in places.copied().collect::<Vec<_>>() {
            let line = self.parked.remove(&place);
            for (key, queue_key) in line.iter().flat_map(|line| line.iter()) {
                self.line.insert(key, queue_key);
            }
            self.change();
        }
    }

    /// The job has no guaranteed place any more. True when others were kept off by it.
    pub fn break_promise(&mut self, job: JobId) -> bool {
        let before = self.promised.len();
        self.promised.retain(|promise| promise.job != job);
        self.promised.len() < before
    }

    /// The longest limit of a job that is parked: it is a waiting job like others where nodes
    /// are chosen in view of reservations.
    pub fn parked_longest(&self) -> Span {
        let lines = self.parked.iter().map(|(_, line)| line.known_longest());
        lines.max().unwrap_or_default()
    }

    /// The line, and those of parked jobs: each waiting job whose queue starts jobs is in one of them.
    pub fn lines(&self) -> impl Iterator<Item = &WaitingLine> {
        let parked = self.parked.iter().map(|(_, line)| line.as_ref());
        std::iter::once(&self.line).chain(parked)
    }

    /// The jobs that are parked.
    pub fn parked_keys(&self) -> impl Iterator<Item = OrderKey> {
        let lines = self.parked.iter().map(|(_, line)| line);
        lines.flat_map(|line| line.keys().copied())
    }
}

impl Scheduler {
    /// The first of the own pools of a class that is full now for it.
    pub(crate) fn full_own_pool(&self, class: ClassId) -> Option<Need> {
        let needs = self.classes().needs(class).iter();
        let full = |need: &&Need| {
            let pool = self.resource_pools().get(need.pool);
            pool.is_some_and(|pool| pool.is_own() && pool.free_now() < need.least)
        };
        needs.copied().find(|need| full(&need))
    }

    /// More of a pool may be free now: those who are parked beside it come back.
    pub(crate) fn pool_freed(&mut self, pool: PoolId) {
        let free = self.resource_pools().free_now(pool);
        for node_pool in &mut self.node_pools {
            if !node_pool.parked.is_empty() {
                node_pool.unpark(pool, free);
            }
        }
    }

    /// The pool holds back others from now on, or has no limit: nobody is parked beside it.
    pub(crate) fn pool_unparked(&mut self, pool: PoolId) {
        self.node_pools
            .iter_mut()
            .for_each(|known| known.unpark(pool, u64::MAX));
    }

    /// Capacities whose time has come count.
    pub(crate) fn advance_pools(&mut self, now: Time) {
        let changed = self.resource_pools_mut().advance(now);
        if !changed.is_empty() {
            self.touch_holders();
            changed.into_iter().for_each(|pool| self.pool_freed(pool));
        }
    }

    /// What jobs hold of pools has changed: where jobs wait that hold something, decisions may
    /// be others.
    pub(crate) fn touch_holders(&mut self) {
        if self.classes().any() {
            self.node_pools.iter_mut().for_each(NodePool::change);
        }
    }
}
