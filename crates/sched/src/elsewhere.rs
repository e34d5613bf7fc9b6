//! Several planners, one of each resource pool: what jobs of another planner hold and are
//! promised, and what one planner leaves to another.
//!
//! One planner (the cluster's) knows what there is of each pool, and what the jobs of all others
//! hold ([`Scheduler::hold_elsewhere`]) and are promised. Each of the others (of a reservation) is
//! told what it may use over time ([`Scheduler::left_for`]): what there is, without what all but
//! its own jobs hold, have reserved and are promised.
//!
//! What always holds: a job runs here or holds elsewhere, never both; ends of what is held
//! elsewhere are known by time.

use crate::node_pool::Promise;
use crate::nodeset::NodeSet;
use crate::resource_pool::all::Booked;
use crate::resource_pool::{Held, PoolId, PoolSpec};
use crate::running::RunId;
use crate::scheduler::Scheduler;
use cosy_model::{JobId, ReservationId, Time};
use std::collections::BTreeSet;

/// So many changes of what there is of a pool are told to another planner; what comes later is
/// told as the least of it.
const STEPS: usize = 64;

/// Ends of jobs that are looked at for that.
const ENDS: usize = 48;

/// What a running job holds of resource pools, and until when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    end: Time,
    nodes: NodeSet,
    held: Box<[Held]>,
}

impl Holder {
    /// How much of which pool.
    pub fn held(&self) -> impl Iterator<Item = (PoolId, u64)> {
        self.held.iter().map(|held| (held.pool, held.count))
    }

    /// So much of a pool it has from somebody who is counted by themselves: its reservation.
    pub fn draws(&mut self, pool: PoolId, amount: u64) {
        if let Some(held) = self.held.iter_mut().find(|held| held.pool == pool) {
            held.count = held.count.saturating_sub(amount);
        }
    }
}

/// What guaranteed places of a planner hold of shared pools, to be told to another planner.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Promises(Vec<Promise>);

impl Promises {
    /// True when nothing is promised.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These too.
    pub fn add(&mut self, others: Self) {
        self.0.extend(others.0);
    }
}

impl Scheduler {
    /// From now on it is noted which jobs have begun or ceased to hold something, or do so for
    /// another time.
    pub fn watch_holders(&mut self) {
        self.holders_changed.get_or_insert_with(BTreeSet::new);
    }

    /// Those jobs since it was asked last, once they are watched.
    pub fn take_changed_holders(&mut self) -> BTreeSet<JobId> {
        let changed = self.holders_changed.as_mut();
        changed.map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn note_holder(&mut self, job: JobId) {
        if let Some(changed) = &mut self.holders_changed {
            changed.insert(job);
        }
    }

    /// What a job that runs here holds; `None` when it holds nothing.
    pub fn holder(&self, job: JobId) -> Option<Holder> {
        let running = self.running.get(self.running.find(job)?);
        (!running.held.is_empty()).then(|| Holder {
            end: running.end,
            nodes: running.nodes.clone(),
            held: running.held.clone(),
        })
    }

    /// A job that runs in another planner holds this.
    pub fn hold_elsewhere(&mut self, job: JobId, holder: Holder) {
        if self.elsewhere.get(&job) == Some(&holder) {
            return;
        }
        self.let_go_elsewhere(job);
        for held in &holder.held {
            let until = (job, holder.end);
            self.resource_pools_mut()
                .take(until, held, holder.nodes.iter());
        }
        self.elsewhere_ends.insert((holder.end, job), ());
        self.elsewhere.insert(job, holder);
        self.touch_holders();
    }

    /// A job of another planner holds nothing any more.
    pub fn let_go_elsewhere(&mut self, job: JobId) {
        if let Some(holder) = self.elsewhere.remove(&job) {
            self.elsewhere_ends.remove(&(holder.end, job));
            self.give_back_held((job, holder.end), &holder.held, &holder.nodes);
        }
    }

    /// The jobs of other planners that hold something, by id.
    pub fn holders_elsewhere(&self) -> impl Iterator<Item = (JobId, &Holder)> {
        self.elsewhere.iter().map(|(job, holder)| (*job, holder))
    }

    /// In a plan: those that are late end right after now.
    pub(crate) fn put_off_late_elsewhere(&mut self, now: Time) {
        let soon = Time(now.0.saturating_add(1));
        while let Some((end, job)) = self.elsewhere_ends.first().copied() {
            let late = self.elsewhere.get(&job).filter(|_| end <= now).cloned();
            let Some(late) = late else { return };
            self.hold_elsewhere(job, Holder { end: soon, ..late });
        }
    }

    /// In a plan: what is expected to have ended elsewhere by now holds nothing any more.
    pub(crate) fn end_due_elsewhere(&mut self, now: Time) {
        while let Some((end, job)) = self.elsewhere_ends.first().copied() {
            if end > now {
                return;
            }
            self.let_go_elsewhere(job);
        }
    }

    /// The first end of what is held elsewhere.
    pub(crate) fn first_end_elsewhere(&self) -> Option<Time> {
        self.elsewhere_ends.first().map(|(end, _)| *end)
    }

    /// What guaranteed places here hold of shared pools.
    pub fn promises(&self) -> Promises {
        let all = self.node_pools.iter().flat_map(|pool| &pool.promised);
        Promises(all.copied().collect())
    }

    /// What guaranteed places in other planners hold of shared pools.
    pub fn promise_elsewhere(&mut self, promises: Promises) {
        if self.promised_elsewhere != promises.0 {
            self.promised_elsewhere = promises.0;
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
        let promised = here.chain(&self.promised_elsewhere);
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

    /// Somebody else is told of what a running job holds.
    pub(crate) fn note_run(&mut self, id: RunId) {
        if self.holders_changed.is_some() {
            self.note_holder(self.running.get(id).job);
        }
    }
}
