//! What jobs and reservations hold of resource pools: pools come, change and go, jobs take and
//! give back, and whoever asks is told why a job waits for which pool.

use crate::WaitingJob;
use crate::nodeset::NodeSet;
use crate::pass::at_least_one;
use crate::resource_pool::all::Booked;
use crate::resource_pool::{Held, Hold, Holds, PoolId, PoolKind, PoolShortage, PoolSpec, PoolUse};
use crate::running::RunId;
use crate::scheduler::Scheduler;
use cosy_model::{JobId, NodeShare, ReservationId, Span, Time, WaitReason};

impl Scheduler {
    /// Sets a pool. Jobs that run already hold what they hold, also when it is more than there
    /// is: then nothing that wants of it starts until it has fallen.
    pub fn set_pool(&mut self, id: PoolId, spec: PoolSpec) {
        let PoolSpec {
            kind,
            reason,
            capacity,
            mut later,
        } = spec;
        later.sort_by_key(|(at, _)| *at);
        later.dedup_by_key(|(at, _)| *at);
        let (reason, capacity) = (Some(reason), Some(capacity));
        let known = self.resource_pools().get(id);
        let same = known.is_some_and(|known| {
            (known.kind, known.capacity) == (kind, capacity)
                && (&known.reason, &known.later) == (&reason, &later)
        });
        if same {
            return;
        }
        self.resource_pools_mut().change(id, |pool| {
            (pool.kind, pool.capacity) = (kind, capacity);
            (pool.reason, pool.later) = (reason, later);
        });
        self.pool_changed(id);
    }

    /// Changes how much there is of a pool that is set. False when there is none.
    pub fn set_pool_capacity(&mut self, id: PoolId, capacity: u64) -> bool {
        let known = self.resource_pools().get(id).and_then(|pool| pool.capacity);
        if known.is_none_or(|known| known == capacity) {
            return known.is_some();
        }
        self.resource_pools_mut()
            .change(id, |pool| pool.capacity = Some(capacity));
        self.pool_changed(id);
        true
    }

    /// From now on the pool has no limit. What jobs hold of it is remembered.
    pub fn remove_pool(&mut self, id: PoolId) {
        if self
            .resource_pools()
            .get(id)
            .is_none_or(|pool| pool.capacity.is_none())
        {
            return;
        }
        self.resource_pools_mut().change(id, |pool| {
            (pool.capacity, pool.later) = (None, Vec::new());
            pool.reason = None;
        });
        self.pool_changed(id);
    }

    fn pool_changed(&mut self, id: PoolId) {
        let own = self
            .resource_pools()
            .get(id)
            .is_some_and(|pool| pool.is_own());
        for node_pool in &mut self.node_pools {
            if own {
                node_pool.promised.retain(|promise| promise.pool != id);
            }
        }
        self.touch_holders();
        match own {
            true => self.pool_freed(id),
            false => self.pool_unparked(id),
        }
    }

    /// A pool as it is now; `None` when it is neither set nor held.
    pub fn pool_use(&self, now: Time, id: PoolId) -> Option<PoolUse> {
        self.resource_pools().get(id).map(|pool| pool.usage(now))
    }

    /// All pools that are set or held, by number.
    pub fn pool_uses(&self, now: Time) -> impl Iterator<Item = (PoolId, PoolUse)> {
        let all = self.resource_pools().iter();
        all.map(move |(id, pool)| (id, pool.usage(now)))
    }

    /// What a running job holds of pools; nothing of one that does not run.
    pub fn pools_held_by(&self, job: JobId) -> impl Iterator<Item = (PoolId, u64)> {
        let running = self.running.find(job).map(|id| self.running.get(id));
        let held = running.into_iter().flat_map(|running| running.held.iter());
        held.map(|held| (held.pool, held.count))
    }

    /// The pool for which a waiting job waits, if for one: the first of its own ones that is full
    /// for it, else the one of which enough is free last. Places guaranteed to others do not
    /// count, what running jobs and reservations hold does.
    pub fn pool_shortage(&self, now: Time, job: JobId) -> Option<PoolShortage> {
        let waiting = self.waiting_job(job)?;
        self.shortage_of(now, &waiting.job)
    }

    /// What a waiting job is told that waits for a pool.
    pub(crate) fn pool_reason(&self, now: Time, job: JobId) -> Option<WaitReason> {
        let waiting = self.waiting_job(job)?;
        if !waiting.class.holds() {
            return None;
        }
        let short = self.shortage_of(now, &waiting.job)?;
        self.resource_pools().get(short.pool)?.reason.clone()
    }

    /// The same for a job that does not wait here.
    pub fn shortage_of(&self, now: Time, job: &WaitingJob) -> Option<PoolShortage> {
        let mut classes = crate::resource_pool::classes::HoldClasses::default();
        let class = classes.join(&job.holds, &job.demand, |_| false);
        let needs = classes.needs(class).iter();
        let wants = needs.map(|need| (need.pool, need.least));
        let length = at_least_one(job.limit);
        let mut short = wants.filter_map(|want| self.shortage_from(now, want, (now, length)));
        let first = short.next()?;
        Some(short.fold(first, |worst, other| {
            let (own, far) = (PoolKind::Own, Time::FAR);
            let rank = |one: &PoolShortage| (one.kind == own, one.frees.unwrap_or(far));
            if rank(&other) > rank(&worst) {
                other
            } else {
                worst
            }
        }))
    }

    /// Whether these amounts are free for `[start, start + length)`, if running jobs take their
    /// limits; accepted reservations count, waiting jobs do not.
    ///
    /// # Errors
    /// The first pool of which too little is free.
    pub fn are_amounts_free(
        &self,
        now: Time,
        wants: &[(PoolId, u64)],
        start: Time,
        length: Span,
    ) -> Result<(), PoolShortage> {
        let mut short = wants.iter();
        let short = short.find_map(|want| self.shortage_from(now, *want, (start, length)));
        short.map_or(Ok(()), Err)
    }

    /// True when all of `shares`, and these amounts beside them, are free for
    /// `[start, start + length)`, if running jobs take their limits.
    pub fn are_all_free(
        &self,
        now: Time,
        (shares, wants): (&[NodeShare], &[(PoolId, u64)]),
        start: Time,
        length: Span,
    ) -> bool {
        self.are_free(now, shares, start, length)
            && self.are_amounts_free(now, wants, start, length).is_ok()
    }

    /// True when these amounts would be free, if a reservation kept nothing.
    pub fn would_be_free_without(
        &self,
        reservation: ReservationId,
        now: Time,
        wants: &[(PoolId, u64)],
        (start, length): (Time, Span),
    ) -> bool {
        wants.iter().all(|(id, wanted)| {
            self.resource_pools().get(*id).is_none_or(|pool| {
                let mut without = pool.clone();
                without.unreserve(reservation);
                without.is_free(*wanted, (start, start + length), now, &[])
            })
        })
    }

    fn shortage_from(
        &self,
        now: Time,
        (id, wanted): (PoolId, u64),
        (start, length): (Time, Span),
    ) -> Option<PoolShortage> {
        let pool = self.resource_pools().get(id)?;
        let free = |at: Time| pool.is_free(wanted, (at, at + length), now, &[]);
        if free(start) {
            return None;
        }
        let mut frees = pool.next_change(start, now, &[]);
        while let Some(at) = frees.filter(|at| *at < Time::FAR && !free(*at)) {
            frees = pool.next_change(at, now, &[]);
        }
        Some(PoolShortage {
            pool: id,
            kind: pool.kind,
            capacity: pool.capacity_at(start)?,
            held: pool.held_at(start, now),
            wanted,
            frees: frees.filter(|at| *at < Time::FAR),
        })
    }

    /// What a job holds on these shares of nodes.
    pub(crate) fn held_on(holds: &Holds, shares: impl FnOnce() -> Vec<NodeShare>) -> Box<[Held]> {
        if holds.is_empty() {
            return Box::default();
        }
        let fixed = holds.iter().all(|hold| hold.amount.is_fixed());
        let shares = if fixed { Vec::new() } else { shares() };
        let held = |hold: &Hold| Held {
            pool: hold.pool,
            amount: hold.amount,
            count: hold.amount.on(&shares),
        };
        holds.iter().map(held).collect()
    }

    /// A running job takes what it holds.
    pub(crate) fn take_held(&mut self, id: RunId) {
        let running = self.running.get(id);
        if running.held.is_empty() {
            return;
        }
        let (job, nodes) = ((running.job, running.end), running.nodes.clone());
        for held in running.held.clone() {
            self.resource_pools_mut().take(job, &held, nodes.iter());
        }
        self.others_mut().note(job.0);
        self.touch_holders();
    }

    /// A running job gives back what it holds.
    pub(crate) fn give_back_held(&mut self, job: (JobId, Time), held: &[Held], nodes: &NodeSet) {
        if held.is_empty() {
            return;
        }
        for one in held {
            self.resource_pools_mut().give_back(job, one, nodes.iter());
        }
        self.others_mut().note(job.0);
        self.touch_holders();
        held.iter().for_each(|one| self.pool_freed(one.pool));
    }

    /// A running job is expected to end at another time.
    pub(crate) fn move_held(&mut self, id: RunId, from: Time, to: Time) {
        let running = self.running.get(id);
        if running.held.is_empty() {
            return;
        }
        let (job, pools) = (running.job, running.held.clone());
        for held in pools {
            self.resource_pools_mut()
                .change(held.pool, |pool| pool.move_end(job, from, to));
        }
        self.others_mut().note(job);
        self.touch_holders();
    }

    /// An accepted reservation keeps these amounts.
    pub(crate) fn reserve_amounts(
        &mut self,
        reservation: ReservationId,
        (start, end): (Time, Time),
        holds: &[(PoolId, u64)],
    ) {
        for (id, amount) in holds {
            let booked = Booked {
                start,
                end,
                amount: *amount,
            };
            self.resource_pools_mut()
                .change(*id, |pool| pool.reserve(reservation, booked));
        }
        if !holds.is_empty() {
            self.touch_holders();
        }
    }

    /// It keeps them no more.
    pub(crate) fn unreserve_amounts(
        &mut self,
        reservation: ReservationId,
        holds: &[(PoolId, u64)],
    ) {
        for (id, _) in holds {
            self.resource_pools_mut()
                .change(*id, |pool| pool.unreserve(reservation));
        }
        if !holds.is_empty() {
            self.touch_holders();
        }
    }
}
