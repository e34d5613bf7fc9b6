//! Several planners, one of each resource pool: what jobs of another planner hold and are
//! promised, and what one planner leaves to another.
//!
//! One planner (the cluster's) knows what there is of each pool, and what the jobs of all others
//! hold ([`Scheduler::hold_elsewhere`]) and are promised. Each of the others (of a reservation) is
//! told what it may use over time ([`Scheduler::left_for`]): what there is, without what all but
//! its own jobs hold, have reserved and are promised.
//!
//! What always holds: a job runs here or holds elsewhere, never both.

use crate::resource_pool::all::Booked;
use crate::resource_pool::holder::{Holder, Promise, Promises};
use crate::resource_pool::{PoolId, PoolSpec};
use crate::scheduler::Scheduler;
use cosy_model::{JobId, ReservationId, Time};
use std::collections::BTreeSet;

/// So many changes of what there is of a pool are told to another planner; what comes later is
/// told as the least of it.
const STEPS: usize = 64;

/// Ends of jobs that are looked at for that.
const ENDS: usize = 48;

impl Scheduler {
    /// From now on it is noted which jobs have begun or ceased to hold something, or do so for
    /// another time.
    pub fn watch_holders(&mut self) {
        self.others_mut().watch();
    }

    /// Those jobs since it was asked last, once they are watched.
    pub fn take_changed_holders(&mut self) -> BTreeSet<JobId> {
        self.others_mut().take_changed()
    }

    /// What a job that runs here holds; `None` when it holds nothing.
    pub fn holder(&self, job: JobId) -> Option<Holder> {
        let running = self.running.get(self.running.find(job)?);
        let (nodes, held) = (&running.nodes, &running.held);
        (!held.is_empty()).then(|| Holder::new(running.end, nodes.clone(), held.clone()))
    }

    /// A job that runs in another planner holds this.
    pub fn hold_elsewhere(&mut self, job: JobId, holder: Holder) {
        if self.others().holder(job) == Some(&holder) {
            return;
        }
        self.let_go_elsewhere(job);
        let (held, nodes) = holder.parts();
        for held in held {
            let until = (job, holder.end());
            self.resource_pools_mut().take(until, held, nodes.iter());
        }
        self.others_mut().hold(job, holder);
        self.touch_holders();
    }

    /// A job of another planner holds nothing any more.
    pub fn let_go_elsewhere(&mut self, job: JobId) {
        if let Some(holder) = self.others_mut().let_go(job) {
            let (held, nodes) = holder.parts();
            self.give_back_held((job, holder.end()), held, nodes);
        }
    }

    /// The jobs of other planners that hold something, by id.
    pub fn holders_elsewhere(&self) -> impl Iterator<Item = (JobId, &Holder)> {
        self.others().holders()
    }

    /// In a plan: those that are late end right after now.
    pub(crate) fn put_off_late_elsewhere(&mut self, now: Time) {
        let soon = Time(now.0.saturating_add(1));
        while let Some((end, job)) = self.others().first() {
            let late = self.others().holder(job).filter(|_| end <= now).cloned();
            let Some(late) = late else { return };
            self.hold_elsewhere(job, late.until(soon));
        }
    }

    /// In a plan: what is expected to have ended elsewhere by now holds nothing any more.
    pub(crate) fn end_due_elsewhere(&mut self, now: Time) {
        while let Some((end, job)) = self.others().first() {
            if end > now {
                return;
            }
            self.let_go_elsewhere(job);
        }
    }

    /// What guaranteed places here hold of shared pools.
    pub fn promises(&self) -> Promises {
        let all = self.node_pools.iter().flat_map(|pool| &pool.promised);
        Promises::of(all.copied())
    }

    /// The same where a reservation keeps amounts for the jobs here: what places hold beyond that.
    /// What running jobs hold at the start of a place they have out of what is kept.
    pub fn promises_beyond(&self, now: Time, kept: &[(PoolId, u64)]) -> Promises {
        let mut all: Vec<Promise> = self.promises().iter().copied().collect();
        all.sort_by_key(|promise| (promise.booked.start, promise.job));
        let mut drawn: Vec<(PoolId, Booked)> = Vec::new();
        for promise in &mut all {
            let (pool, booked) = (promise.pool, promise.booked);
            let Some((_, kept)) = kept.iter().find(|(id, _)| *id == pool) else {
                continue;
            };
            let known = self.resource_pools().get(pool);
            let running = known.map_or(0, |known| known.held_at(booked.start, now));
            let overlaps = |other: &Booked| other.start < booked.end && booked.start < other.end;
            let before = drawn.iter().filter(|(id, of)| *id == pool && overlaps(of));
            let taken = before.fold(running, |sum, (_, of)| sum.saturating_add(of.amount));
            let amount = booked.amount.min(kept.saturating_sub(taken));
            drawn.push((pool, Booked { amount, ..booked }));
            promise.booked.amount -= amount;
        }
        Promises::of(all.into_iter().filter(|promise| promise.booked.amount > 0))
    }

    /// What guaranteed places in other planners hold of shared pools.
    pub fn promise_elsewhere(&mut self, promises: Promises) {
        if self.others_mut().promise(promises) {
            self.touch_holders();
        }
    }

    /// The pools of which waiting jobs want something, by number.
    pub fn wanted_pools(&self) -> BTreeSet<PoolId> {
        self.classes().pools().collect()
    }

    /// Whether a job that waits or runs here holds something of a pool.
    pub fn has_holders(&self) -> bool {
        self.classes().any() || !self.resource_pools().is_empty()
    }

    /// What the planner of a reservation may use of a pool from now on: what is there,
    /// without what all others hold, keep and are promised. `None` where the pool has no limit.
    pub fn left_for(
        &self,
        other: &Self,
        reservation: ReservationId,
        id: PoolId,
        now: Time,
    ) -> Option<PoolSpec> {
        let pool = self.resource_pools().get(id)?;
        let (reason, _) = (pool.reason.clone()?, pool.capacity?);
        let own = |job: JobId| other.running.find(job).is_some();
        let here = self.node_pools.iter().flat_map(|pool| &pool.promised);
        let promised = here.chain(self.others().promised().iter());
        let others = promised.filter(|p| p.pool == id && !other.is_waiting(p.job));
        let places: Vec<Booked> = others.map(|promise| promise.booked).collect();
        let (capacity, mut later) = pool.left_over_time(now, own, reservation, &places, ENDS);
        if later.len() > STEPS {
            let rest = later.split_off(STEPS);
            let least = rest.iter().map(|(_, left)| *left).min().unwrap_or(0);
            later.extend(rest.first().map(|(at, _)| (*at, least)));
        }
        later.dedup_by(|next, before| next.1 == before.1);
        Some(PoolSpec {
            kind: pool.kind,
            reason,
            capacity,
            later,
        })
    }
}
