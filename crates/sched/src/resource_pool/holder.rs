//! What one planner is told of another: what its jobs hold of resource pools, and what is promised
//! to its jobs.
//!
//! What always holds: ends of what is held elsewhere are known by time.

use super::one::Booked;
use super::{Held, PoolId};
use crate::cow_map::CowMap;
use crate::nodeset::NodeSet;
use cosy_model::{JobId, Time};
use std::collections::BTreeSet;

/// What the guaranteed place of a job holds of a shared pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Promise {
    pub job: JobId,
    pub pool: PoolId,
    pub booked: Booked,
}

/// What a running job holds of resource pools, and until when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    end: Time,
    nodes: NodeSet,
    held: Box<[Held]>,
}

impl Holder {
    pub(crate) const fn new(end: Time, nodes: NodeSet, held: Box<[Held]>) -> Self {
        Self { end, nodes, held }
    }

    /// Until when it is expected to hold it.
    pub(crate) const fn end(&self) -> Time {
        self.end
    }

    /// The same until another time.
    pub(crate) fn until(self, end: Time) -> Self {
        Self { end, ..self }
    }

    pub(crate) fn parts(&self) -> (&[Held], &NodeSet) {
        (&self.held, &self.nodes)
    }

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

    pub(crate) fn of(all: impl Iterator<Item = Promise>) -> Self {
        Self(all.collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Promise> {
        self.0.iter()
    }

    /// These too.
    pub fn add(&mut self, others: Self) {
        self.0.extend(others.0);
    }
}

/// What a planner knows of others, and what it is to tell them.
#[derive(Clone, Default, Debug)]
pub(crate) struct OtherPlanners {
    /// What their jobs hold, and when that ends.
    holders: CowMap<JobId, Holder>,
    ends: CowMap<(Time, JobId), ()>,
    /// What they have promised of shared pools.
    promised: Promises,
    /// Jobs here that they are to be told of, once these are watched.
    changed: Option<BTreeSet<JobId>>,
}

impl OtherPlanners {
    /// What matters to a pass: what others have promised. What they hold is in the pools.
    pub fn promised_alone(&self) -> Self {
        Self {
            promised: self.promised.clone(),
            ..Self::default()
        }
    }

    pub fn promised(&self) -> &Promises {
        &self.promised
    }

    /// True when that was not promised before.
    pub fn promise(&mut self, promises: Promises) -> bool {
        let changed = self.promised != promises;
        self.promised = promises;
        changed
    }

    pub fn holder(&self, job: JobId) -> Option<&Holder> {
        self.holders.get(&job)
    }

    pub fn holders(&self) -> impl Iterator<Item = (JobId, &Holder)> {
        self.holders.iter().map(|(job, holder)| (*job, holder))
    }

    /// The first that ends.
    pub fn first(&self) -> Option<(Time, JobId)> {
        self.ends.first().copied()
    }

    pub fn hold(&mut self, job: JobId, holder: Holder) {
        self.ends.insert((holder.end, job), ());
        self.holders.insert(job, holder);
    }

    pub fn let_go(&mut self, job: JobId) -> Option<Holder> {
        let holder = self.holders.remove(&job)?;
        self.ends.remove(&(holder.end, job));
        Some(holder)
    }

    pub fn watch(&mut self) {
        self.changed.get_or_insert_with(BTreeSet::new);
    }

    pub fn note(&mut self, job: JobId) {
        if let Some(changed) = &mut self.changed {
            changed.insert(job);
        }
    }

    pub fn take_changed(&mut self) -> BTreeSet<JobId> {
        let changed = self.changed.as_mut();
        changed.map(std::mem::take).unwrap_or_default()
    }
}
