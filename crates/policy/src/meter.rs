//! What somebody has used of several resources at once: amounts times time, fading like all use
//! ([`crate::usage`]).
//!
//! Resources are numbers ([`Resource`]) here; who keeps the meters gives them out. What ended jobs have used is
//! stored; what running jobs have used until now follows from sums of their rates and starts. A meter of
//! somebody who runs nothing has 32 bytes for each resource that was ever used.
//!
//! What always holds: lists are in the order of the numbers, without entries of nothing.

use crate::usage::{Decay, Run, Running, Usage};
use cosy_model::Time;
use serde::{Deserialize, Serialize};

/// Number of a resource.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Resource(pub u16);

/// Rates of a job by resource: thousandths of an amount, with the usage factor of its QOS. In the order of
/// the numbers, without those that are zero.
pub type Rates = Box<[(Resource, u64)]>;

/// How use is measured, and from when on it counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measure {
    /// How it fades.
    pub decay: Decay,
    /// What was used before does not count.
    pub since: Time,
}

/// A job on its nodes: what it holds, since when and until when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// What it holds.
    pub rates: Rates,
    /// When it began to.
    pub start: Time,
    /// When its limit is reached.
    pub limit: Time,
    /// It is suspended since then, and uses nothing.
    pub suspended: Option<Time>,
}

impl Held {
    /// From when on it counts.
    fn counts_from(&self, measure: Measure) -> Time {
        self.start.max(measure.since)
    }

    /// Each resource as a run of its own, as far as it counts.
    fn runs(&self, measure: Measure) -> impl Iterator<Item = (Resource, Run)> {
        let start = measure.decay.integral(self.counts_from(measure));
        let run = move |rate| Run {
            rate,
            start,
            limit: self.limit,
        };
        self.rates
            .iter()
            .map(move |(resource, rate)| (*resource, run(*rate)))
    }

    /// Of one that is suspended: what a rate of one has used until then.
    fn until_paused(&self, measure: Measure) -> Option<u128> {
        let from = self.counts_from(measure);
        let used = |since| measure.decay.between(from, since);
        self.suspended.map(used)
    }

    /// The rate of one resource.
    pub fn rate(&self, resource: Resource) -> u64 {
        let at = self.rates.binary_search_by_key(&resource, |(r, _)| *r);
        let found = at.ok().and_then(|at| self.rates.get(at));
        found.map_or(0, |(_, rate)| *rate)
    }
}

/// Use of several resources.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Meter {
    /// What ended jobs have used.
    stored: Vec<(Resource, Usage)>,
    /// What running and suspended jobs hold.
    running: Vec<(Resource, Running)>,
}

impl Meter {
    /// Nothing was used.
    pub const EMPTY: Self = Self {
        stored: Vec::new(),
        running: Vec::new(),
    };

    /// A job holds nodes.
    pub fn begins(&mut self, measure: Measure, held: &Held) {
        let paused = held.until_paused(measure);
        for (resource, run) in held.runs(measure) {
            change(&mut self.running, resource, |running| match paused {
                None => running.begins(run),
                Some(held) => running.pauses(Usage(held.saturating_mul(run.rate.into()))),
            });
        }
    }

    /// It holds them no more, or in another way; told as it was told at its beginning.
    pub fn ends(&mut self, measure: Measure, held: &Held) {
        let paused = held.until_paused(measure);
        for (resource, run) in held.runs(measure) {
            change(&mut self.running, resource, |running| match paused {
                None => running.ends(run),
                Some(held) => running.goes_on(Usage(held.saturating_mul(run.rate.into()))),
            });
        }
        self.running.retain(|(_, running)| !running.is_nothing());
    }

    /// What a job has used until then is stored.
    pub fn stores(&mut self, measure: Measure, held: &Held, until: Time) {
        let until = held.suspended.map_or(until, |since| since.min(until));
        let one = measure.decay.between(held.counts_from(measure), until);
        for (resource, rate) in &held.rates {
            let used = Usage(one.saturating_mul(u128::from(*rate)));
            if used.0 > 0 {
                change(&mut self.stored, *resource, |stored| *stored = stored.plus(used));
            }
        }
    }

    /// What running jobs hold is forgotten, to be told anew.
    pub fn holds_nothing(&mut self) {
        self.running = Vec::new();
    }

    /// What was used before is forgotten; false when that was nothing.
    pub fn forget(&mut self) -> bool {
        let any = !self.stored.is_empty();
        self.stored = Vec::new();
        any
    }

    /// The measure of what is stored is another: `anew` makes one of the other. What running jobs hold
    /// is to be told anew.
    pub fn measured_anew(&mut self, anew: impl Fn(Usage) -> Usage) {
        self.holds_nothing();
        for (_, usage) in &mut self.stored {
            *usage = anew(*usage);
        }
        self.stored.retain(|(_, usage)| usage.0 > 0);
    }

    /// Adds what is stored of somebody below.
    pub fn adds_stored(&mut self, other: &Self) {
        for (resource, usage) in &other.stored {
            change(&mut self.stored, *resource, |stored| *stored = stored.plus(*usage));
        }
    }

    /// So much is stored of a resource.
    pub fn set_stored(&mut self, resource: Resource, usage: Usage) {
        change(&mut self.stored, resource, |stored| *stored = usage);
        self.stored.retain(|(_, usage)| usage.0 > 0);
    }

    /// What ended jobs have used, by resource.
    pub fn stored(&self) -> &[(Resource, Usage)] {
        &self.stored
    }

    /// What ended jobs have used of one.
    pub fn stored_of(&self, resource: Resource) -> Usage {
        find(&self.stored, resource)
    }

    /// What running jobs hold of one.
    pub fn running_of(&self, resource: Resource) -> Running {
        find(&self.running, resource)
    }

    /// What was used of a resource until now, by ended and by running jobs.
    pub fn used(&self, decay: Decay, resource: Resource, now: Time) -> Usage {
        let running = self.running_of(resource).used(decay.integral(now));
        self.stored_of(resource).plus(running)
    }

    /// Resources that were used, or are held.
    pub fn resources(&self) -> Vec<Resource> {
        let stored = self.stored.iter().map(|(resource, _)| *resource);
        let held = self.running.iter().map(|(resource, _)| *resource);
        let mut all: Vec<Resource> = stored.chain(held).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether nothing was used, and nothing is held.
    pub fn is_nothing(&self) -> bool {
        *self == Self::EMPTY
    }
}

/// Changes the entry of a resource, made where there is none.
fn change<T: Default>(
    list: &mut Vec<(Resource, T)>,
    resource: Resource,
    change: impl FnOnce(&mut T),
) {
    let at = list.partition_point(|(r, _)| *r < resource);
    match list.get_mut(at) {
        Some((there, value)) if *there == resource => change(value),
        _ => {
            let mut value = T::default();
            change(&mut value);
            list.reserve_exact(1);
            list.insert(at, (resource, value));
        }
    }
}

fn find<T: Copy + Default>(list: &[(Resource, T)], resource: Resource) -> T {
    let at = list.binary_search_by_key(&resource, |(r, _)| *r).ok();
    at.and_then(|at| list.get(at))
        .map_or(T::default(), |(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::Span;
    use proptest::prelude::*;

    const HOUR: i64 = 3_600_000;
    const NOW: Time = Time(1_790_000_000_000);
    const ALL: u16 = 4;

    fn later(ms: i64) -> Time {
        NOW + Span(ms)
    }

    fn measure() -> Measure {
        Measure {
            decay: Decay::new(Span(7 * 24 * HOUR), NOW),
            since: later(20 * HOUR),
        }
    }

    fn held() -> impl Strategy<Value = Held> {
        let rates = prop::collection::btree_map(0..ALL, 1..1u64 << 30, 0..4);
        (rates, 0..100i64, 1..50i64, prop::option::of(0..60i64)).prop_map(
            |(rates, start, hours, pause)| Held {
                rates: rates
                    .into_iter()
                    .map(|(r, rate)| (Resource(r), rate))
                    .collect(),
                start: later(start * HOUR),
                limit: later((start + hours) * HOUR),
                suspended: pause.map(|after| later((start + after) * HOUR)),
            },
        )
    }

    /// Counted from the jobs themselves: those before `ended` have ended at their limit.
    fn counted(decay: Decay, jobs: &[Held], ended: usize, resource: Resource, now: Time) -> Usage {
        let each = jobs.iter().enumerate().map(|(at, held)| {
            let until = if at < ended { held.limit } else { now };
            let until = held.suspended.map_or(until, |since| since.min(until));
            decay.used(held.rate(resource), held.start.max(later(20 * HOUR)), until)
        });
        each.fold(Usage(0), Usage::plus)
    }

    proptest! {
        #[test]
        fn what_is_told_is_what_jobs_have_used(jobs in prop::collection::vec(held(), 0..12), ended in 0..12usize) {
            let measure = measure();
            let decay = measure.decay;
            let ended = ended.min(jobs.len());
            let mut meter = Meter::default();
            jobs.iter().for_each(|job| meter.begins(measure, job));
            for job in &jobs[..ended] {
                meter.ends(measure, job);
                meter.stores(measure, job, job.limit);
            }
            let now = later(200 * HOUR);
            for resource in (0..ALL).map(Resource) {
                let want = counted(decay, &jobs, ended, resource, now);
                prop_assert_eq!(meter.used(decay, resource, now), want);
                let going = jobs[ended..].iter().filter(|job| job.suspended.is_none());
                let (rates, rest) = going.fold((0, 0), |(rates, rest), job| {
                    let left = job.limit.since(later(30 * HOUR)).0;
                    let rate = job.rate(resource);
                    (rates + rate, rest + i128::from(left) * i128::from(rate))
                });
                prop_assert_eq!(meter.running_of(resource).rates(), rates);
                if rest >= 0 && jobs.iter().all(|job| job.limit >= later(30 * HOUR)) {
                    prop_assert_eq!(meter.running_of(resource).rest(later(30 * HOUR)), rest as u128);
                }
            }
            jobs[ended..].iter().for_each(|job| meter.ends(measure, job));
            prop_assert_eq!(meter.stored().len(), meter.resources().len(), "running jobs are forgotten");
        }
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nothing_of_running_jobs() {
        let measure = measure();
        let decay = measure.decay;
        let mut meter = Meter::default();
        let job = Held {
            rates: [(Resource(0), 1000)].into(),
            start: later(20 * HOUR),
            limit: later(30 * HOUR),
            suspended: None,
        };
        meter.begins(measure, &job);
        assert_eq!(meter.used(decay, Resource(0), later(19 * HOUR)), Usage(0));
        assert!(meter.used(decay, Resource(0), later(21 * HOUR)) > Usage(0));
        meter.stores(measure, &job, later(19 * HOUR));
        assert_eq!(meter.stored(), []);
        assert_eq!(meter.resources(), [Resource(0)]);
    }

    #[test]
    fn stored_use_is_measured_anew_and_forgotten() {
        let mut meter = Meter::default();
        meter.set_stored(Resource(3), Usage(5));
        meter.set_stored(Resource(1), Usage(1));
        meter.measured_anew(|usage| usage.rebased(1));
        assert_eq!(meter.stored(), [(Resource(3), Usage(2))]);
        let mut sum = Meter::default();
        sum.adds_stored(&meter);
        sum.adds_stored(&meter);
        assert_eq!(sum.stored_of(Resource(3)), Usage(4));
        assert!(meter.forget() && !meter.forget());
    }
}
