//! One resource pool over time: what there is, what is held now, and when that is given back.

use super::{HoldAmount, PoolKind, PoolUse};
use cosy_model::{JobId, NodeId, ReservationId, Time, WaitReason};
use std::collections::{BTreeMap, BTreeSet};

/// Amounts that a reservation or a guaranteed place holds for some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Booked {
    pub start: Time,
    pub end: Time,
    pub amount: u64,
}

impl Booked {
    pub fn covers(&self, at: Time) -> bool {
        self.start <= at && at < self.end
    }
}

/// A pool, or what is held of one that nobody has set.
#[derive(Clone, Default, Debug)]
pub(crate) struct ResourcePool {
    pub kind: PoolKind,
    /// What those who wait for it are told; `None` as long as it has no limit.
    pub reason: Option<WaitReason>,
    /// `None`: no limit.
    pub capacity: Option<u64>,
    /// Capacities to come, the first change first.
    pub later: Vec<(Time, u64)>,
    /// Held by running jobs, without nodes that are counted.
    amounts: u64,
    /// Nodes of jobs whose nodes are counted, and of how many jobs.
    nodes: BTreeMap<NodeId, u32>,
    /// What is given back, by expected end.
    ends: BTreeMap<(Time, JobId), u64>,
    reserved: BTreeMap<ReservationId, Booked>,
}

impl ResourcePool {
    /// True when nothing is known of it: it need not be kept.
    pub fn is_idle(&self) -> bool {
        self.capacity.is_none() && self.ends.is_empty() && self.reserved.is_empty()
    }

    /// True when whoever waits for it holds back nobody.
    pub fn is_own(&self) -> bool {
        self.kind == PoolKind::Own
    }

    /// True when reservations keep something of it.
    pub fn is_reserved(&self) -> bool {
        !self.reserved.is_empty()
    }

    /// True when less of it may be free later, although nobody takes any.
    pub fn changes_later(&self) -> bool {
        !self.later.is_empty() || !self.reserved.is_empty()
    }

    pub fn held(&self) -> u64 {
        self.amounts.saturating_add(self.nodes.len() as u64)
    }

    pub fn usage(&self, now: Time) -> PoolUse {
        let reserved = self.reserved.values().filter(|booked| booked.covers(now));
        PoolUse {
            kind: self.kind,
            capacity: self.capacity,
            held: self.held(),
            reserved: reserved
                .map(|booked| booked.amount)
                .fold(0, u64::saturating_add),
        }
    }

    /// What a job that starts now may still hold at this moment.
    pub fn free_now(&self) -> u64 {
        let free = |capacity: u64| capacity.saturating_sub(self.held());
        self.capacity.map_or(u64::MAX, free)
    }

    /// How many of these nodes nobody in the pool has.
    pub fn new_nodes(&self, nodes: impl Iterator<Item = NodeId>) -> u64 {
        nodes.filter(|node| !self.nodes.contains_key(node)).count() as u64
    }

    /// A job holds `count`, on `nodes`, until `end`.
    pub fn take(
        &mut self,
        (job, end): (JobId, Time),
        (amount, count): (HoldAmount, u64),
        nodes: impl Iterator<Item = NodeId>,
    ) {
        let given_back = self.ends.entry((end, job)).or_default();
        *given_back = given_back.saturating_add(count);
        if amount != HoldAmount::Nodes {
            self.amounts = self.amounts.saturating_add(count);
            return;
        }
        for node in nodes {
            *self.nodes.entry(node).or_default() += 1;
        }
    }

    /// The same job gives it back.
    pub fn give_back(
        &mut self,
        (job, end): (JobId, Time),
        (amount, count): (HoldAmount, u64),
        nodes: impl Iterator<Item = NodeId>,
    ) {
        if let Some(given_back) = self.ends.get_mut(&(end, job)) {
            *given_back = given_back.saturating_sub(count);
            if *given_back == 0 {
                self.ends.remove(&(end, job));
            }
        }
        if amount != HoldAmount::Nodes {
            self.amounts = self.amounts.saturating_sub(count);
            return;
        }
        for node in nodes {
            if let Some(jobs) = self.nodes.get_mut(&node) {
                *jobs -= 1;
                if *jobs == 0 {
                    self.nodes.remove(&node);
                }
            }
        }
    }

    /// The job is expected to end at another time.
    pub fn move_end(&mut self, job: JobId, from: Time, to: Time) {
        if let Some(given_back) = self.ends.remove(&(from, job)) {
            self.ends.insert((to, job), given_back);
        }
    }

    pub fn reserve(&mut self, reservation: ReservationId, booked: Booked) {
        self.reserved.insert(reservation, booked);
    }

    pub fn unreserve(&mut self, reservation: ReservationId) {
        self.reserved.remove(&reservation);
    }

    /// Capacities whose time has come count from now on. True when there was one.
    pub fn advance(&mut self, now: Time) -> bool {
        let due = self.later.partition_point(|(at, _)| *at <= now);
        let last = self.later.drain(..due).next_back();
        if let Some((_, capacity)) = last {
            self.capacity = Some(capacity);
        }
        last.is_some()
    }

    /// What there is at a time from now on.
    pub fn capacity_at(&self, at: Time) -> Option<u64> {
        let next = self.later.partition_point(|(from, _)| *from <= at);
        let changed = next.checked_sub(1).and_then(|last| self.later.get(last));
        changed.map(|(_, capacity)| *capacity).or(self.capacity)
    }

    /// What running jobs and reservations hold at `at`, if jobs take their limits; one that is
    /// late ends right after now.
    pub fn held_at(&self, at: Time, now: Time) -> u64 {
        let held = self.held();
        let running = match at > now {
            false => held,
            true => {
                let after = (Time(at.0.saturating_add(1)), JobId(0));
                let later = self.ends.range(after..).map(|(_, amount)| *amount);
                // Nodes of several jobs count once.
                later.fold(0, u64::saturating_add).min(held)
            }
        };
        let reserved = self.reserved.values().filter(|booked| booked.covers(at));
        reserved.fold(running, |sum, booked| sum.saturating_add(booked.amount))
    }

    /// What is left to one planner of several, now and from later times on: what there is, without
    /// what all jobs but its `own`, all reservations but `except`, and `places` hold. Of ends the
    /// first `steps` are looked at: more may be left later than is told, never less.
    pub fn left_over_time(
        &self,
        now: Time,
        own: impl Fn(JobId) -> bool,
        except: ReservationId,
        places: &[Booked],
        steps: usize,
    ) -> (u64, Vec<(Time, u64)>) {
        let others = self.reserved.iter().filter(|(id, _)| **id != except);
        let kept: Vec<Booked> = others.map(|(_, booked)| *booked).collect();
        let kept: Vec<Booked> = kept.iter().chain(places).copied().collect();
        let mut held = self.held();
        let mut ends = Vec::new();
        let mut running = 0u64;
        for ((end, job), amount) in &self.ends {
            match own(*job) {
                true => held = held.saturating_sub(*amount),
                false => {
                    running = running.saturating_add(*amount);
                    ends.push((*end, *amount));
                }
            }
        }
        let left = |at: Time, running: u64| {
            let kept = kept.iter().filter(|booked| booked.covers(at));
            let taken = kept.fold(running, |sum, booked| sum.saturating_add(booked.amount));
            let capacity = self.capacity_at(at).unwrap_or(u64::MAX);
            capacity.saturating_sub(taken)
        };
        let soon = Time(now.0.saturating_add(1));
        let bounds = kept.iter().flat_map(|b| [b.start, b.end]);
        let changes = self.later.iter().map(|(at, _)| *at).chain([soon]);
        let first = ends.iter().take(steps).map(|(end, _)| *end);
        let times: BTreeSet<Time> = bounds.chain(changes).chain(first).collect();
        let mut ends = ends.iter().take(steps).peekable();
        let mut later: Vec<(Time, u64)> = Vec::new();
        for at in times.into_iter().filter(|at| *at > now) {
            while let Some((_, amount)) = ends.next_if(|(end, _)| *end <= at) {
                running = running.saturating_sub(*amount);
            }
            later.push((at, left(at, running.min(held))));
        }
        (left(now, held), later)
    }

    /// True when `wanted` is free for the whole of `[start, end)`, beside `places`.
    pub fn is_free(
        &self,
        wanted: u64,
        (start, end): (Time, Time),
        now: Time,
        places: &[Booked],
    ) -> bool {
        let fits = |at: Time| {
            let Some(capacity) = self.capacity_at(at) else {
                return true;
            };
            let booked = places.iter().filter(|booked| booked.covers(at));
            let held =
                booked.fold(self.held_at(at, now), |sum, booked| sum.saturating_add(booked.amount));
            wanted == 0 || held.saturating_add(wanted) <= capacity
        };
        let rises = self.reserved.values().chain(places).map(|b| b.start);
        let rises = rises.chain(self.later.iter().map(|(at, _)| *at));
        let mut rises = rises.filter(|at| start < *at && *at < end);
        fits(start) && rises.all(fits)
    }

    /// The most that there ever is of it from now on, and what is taken of that over time, if
    /// running jobs take their limits; `None` where it has no limit. What it once has less counts
    /// as taken.
    pub fn over_time(&self, now: Time) -> Option<(u64, Vec<Booked>)> {
        let mut capacities = vec![(now, self.capacity?)];
        capacities.extend(self.later.iter().copied());
        let total = capacities.iter().map(|(_, there)| *there).max()?;
        let soon = Time(now.0.saturating_add(1));
        let running = self.ends.iter().map(|((end, _), amount)| Booked {
            start: now,
            end: (*end).max(soon),
            amount: *amount,
        });
        let until = capacities.iter().skip(1).map(|(at, _)| *at);
        let until = until.chain([Time::FAR]);
        let less = capacities
            .iter()
            .zip(until)
            .map(|((start, there), end)| Booked {
                start: *start,
                end,
                amount: total - there,
            });
        let reserved = self.reserved.values().copied();
        let taken = running.chain(less).chain(reserved);
        Some((total, taken.filter(|booked| booked.amount > 0).collect()))
    }

    /// The instants at which more or less of it is free, in any order: ends of running jobs, bounds
    /// of reservations, other capacities.
    pub fn changes(&self) -> impl Iterator<Item = Time> {
        let ends = self.ends.keys().map(|(end, _)| *end);
        let bounds = self.reserved.values().flat_map(|b| [b.start, b.end]);
        let capacities = self.later.iter().map(|(at, _)| *at);
        ends.chain(bounds).chain(capacities)
    }

    /// When less than `wanted` is free for the first time, from now on; `None`: never.
    pub fn first_lack(&self, wanted: u64, now: Time, places: &[Booked]) -> Option<Time> {
        let soon = Time(now.0.saturating_add(1));
        let rises = self.reserved.values().chain(places).map(|b| b.start);
        let rises = rises.chain(self.later.iter().map(|(at, _)| *at));
        let mut rises: Vec<Time> = rises.filter(|at| *at > now).collect();
        rises.sort_unstable();
        let mut all = std::iter::once(now).chain(rises);
        all.find(|at| {
            let end = if *at == now {
                soon
            } else {
                Time(at.0.saturating_add(1))
            };
            !self.is_free(wanted, (*at, end), now, places)
        })
    }

    /// The next time after `at` at which something is given back, or the capacity changes.
    pub fn next_change(&self, at: Time, now: Time, places: &[Booked]) -> Option<Time> {
        let soon = Time(now.0.saturating_add(1));
        let late = self.ends.keys().next().map(|(end, _)| (*end).max(soon));
        let late = late.filter(|end| *end > at);
        let after = (Time(at.0.saturating_add(1)), JobId(0));
        let ends = self.ends.range(after..).next().map(|((end, _), _)| *end);
        let booked = self.reserved.values().chain(places).map(|b| b.end);
        let changes = self.later.iter().map(|(at, _)| *at);
        let others = booked.chain(changes).filter(|end| *end > at);
        others.chain(late).chain(ends).min()
    }

    /// The next time after now at which passing time alone changes what is planned: the bound of a
    /// reservation, and of a shared pool an end; at once while a job is late.
    pub fn next_due(&self, now: Time) -> Option<Time> {
        let soon = Time(now.0.saturating_add(1));
        let mut ends = self.ends.keys().take(usize::from(!self.is_own()));
        let end = ends.next().map(|(end, _)| (*end).max(soon));
        let bounds = self.reserved.values().flat_map(|b| [b.start, b.end]);
        let changes = self.later.iter().map(|(at, _)| *at);
        let others = bounds.chain(changes).filter(|at| *at > now);
        others.chain(end).min()
    }

    /// When the first end of a job or the first bound of a reservation comes after `at`.
    pub fn next_bound(&self, at: Time) -> Option<Time> {
        let bounds = self.reserved.values().flat_map(|b| [b.start, b.end]);
        let changes = self.later.iter().map(|(from, _)| *from);
        bounds.chain(changes).filter(|bound| *bound > at).min()
    }
}
