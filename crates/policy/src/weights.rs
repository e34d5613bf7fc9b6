//! Priority as a sum of weighted factors, as a key that stays right while jobs age.
//!
//! `priority(t) = constant + age weight * min(1, (t - accrue start) / max age)`. While two jobs both age,
//! their difference does not change. So the key of an ageing job is its priority at the [`ORIGIN`] of the
//! measure, as if it had aged since then and always would ([`Terms::key`]), and need not be touched. The key of a job
//! that does not age any more (it has reached the max age, or its priority is set by hand) falls behind by
//! the age weight in each max age: [`Terms::stops_ageing`] says from when on, and who keeps keys makes
//! those of such jobs anew at marks.
//!
//! Numbers: factors have 32 bits behind the point, keys and priorities [`FINE`] of them.
//! Source: <https://slurm.schedmd.com/priority_multifactor.html>; `slurm.conf(5)`, `PriorityWeight*`.

use cosy_model::{Span, Time};
use serde::{Deserialize, Serialize};

/// A factor of one.
pub const ONE: u64 = 1 << 32;

/// Bits behind the point of keys and priorities.
pub const FINE: u32 = 10;

/// The moment at which keys are priorities: 2020-01-01 00:00 UTC.
pub const ORIGIN: Time = Time(1_577_836_800_000);

/// Shortest max age, so that keys of the longest weights fit into 63 bits for centuries.
pub const SHORTEST_MAX_AGE: Span = Span(3_600_000);

/// The highest priority that Slurm knows.
pub const HIGHEST: i64 = u32::MAX as i64;

/// How large a job counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeFactor {
    /// The larger, the higher.
    #[default]
    Large,
    /// The smaller, the higher (`PriorityFavorSmall`).
    Small,
    /// Cores by minutes of the limit: the more, the higher (`SMALL_RELATIVE_TO_TIME`).
    LargeByTime,
    /// The same, the less the higher.
    SmallByTime,
}

/// What each factor is multiplied with.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Weights {
    /// Of the time that a job could have run (`PriorityWeightAge`).
    #[serde(default)]
    pub age: u32,
    /// Of fair share (`PriorityWeightFairshare`).
    #[serde(default)]
    pub fair_share: u32,
    /// Of the size (`PriorityWeightJobSize`).
    #[serde(default)]
    pub size: u32,
    /// Of the queue (`PriorityWeightPartition`).
    #[serde(default)]
    pub queue: u32,
    /// Of the QOS (`PriorityWeightQOS`).
    #[serde(default)]
    pub qos: u32,
    /// Of the account's own priority (`PriorityWeightAssoc`).
    #[serde(default)]
    pub association: u32,
}

/// Factors of a job but its age, each from zero to [`ONE`] (more where they are not normalised).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Factors {
    /// Rank / number of users, or the classic factor.
    pub fair_share: u64,
    /// See [`size`].
    pub size: u64,
    /// Of the queue.
    pub queue: u64,
    /// Of the QOS.
    pub qos: u64,
    /// Of the account.
    pub association: u64,
    /// Sum of TRES factors times their weights, with 32 bits behind the point.
    pub tres: u64,
    /// Site factor, in whole points.
    pub site: i64,
    /// Nice, in whole points: taken away.
    pub nice: i64,
}

/// How long a job has been able to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ageing {
    /// It began to age then: it is neither held nor waits for its begin or for other jobs.
    Since(Time),
    /// It does not age.
    Not,
}

/// A priority as a function of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// All but age, with [`FINE`] bits behind the point.
    constant: i128,
    ageing: Ageing,
    age_weight: u32,
    max_age: Span,
}

/// What is asked about the size of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JobSize {
    /// Fewest nodes it runs on.
    pub nodes: u32,
    /// Cores of all nodes.
    pub cores: u32,
    /// Its time limit.
    pub limit: Span,
    /// Nodes of the cluster.
    pub all_nodes: u32,
    /// Cores of the cluster.
    pub all_cores: u32,
}

/// `part / whole` as a factor; at most one, and zero without a whole.
pub fn part_of(part: u128, whole: u128) -> u64 {
    crate::classic::ratio(part, whole)
}

/// The factor of size. Source: `priority_multifactor.c` of Slurm, `_get_size_factor`; its manual page.
pub fn size(how: SizeFactor, job: JobSize) -> u64 {
    let nodes = part_of(job.nodes.into(), job.all_nodes.into());
    let cores = part_of(job.cores.into(), job.all_cores.into());
    let by_time = || {
        let of_nodes = u128::from(job.nodes) * u128::from(job.all_cores);
        let of_nodes = of_nodes.checked_div(job.all_nodes.into()).unwrap_or(0);
        let minutes = (job.limit.0.max(0).unsigned_abs() / 60_000).max(1);
        let whole = u128::from(minutes) * u128::from(job.all_cores);
        part_of(of_nodes.max(job.cores.into()), whole)
    };
    match how {
        SizeFactor::Large if job.cores == 0 => nodes,
        SizeFactor::Large => (nodes + cores) / 2,
        SizeFactor::Small => ((ONE - nodes) + (ONE - cores)) / 2,
        SizeFactor::LargeByTime => by_time(),
        SizeFactor::SmallByTime => ONE - by_time(),
    }
}

/// A weighted factor with [`FINE`] bits behind the point.
fn weighted(weight: u32, factor: u64) -> i128 {
    (i128::from(weight) * i128::from(factor)) >> (32 - FINE)
}

impl Weights {
    /// What a job's priority is made of.
    pub fn terms(&self, factors: &Factors, ageing: Ageing, max_age: Span) -> Terms {
        let constant = weighted(self.fair_share, factors.fair_share)
            + weighted(self.size, factors.size)
            + weighted(self.queue, factors.queue)
            + weighted(self.qos, factors.qos)
            + weighted(self.association, factors.association)
            + weighted(1, factors.tres)
            + ((i128::from(factors.site) - i128::from(factors.nice)) << FINE);
        Terms {
            constant,
            ageing,
            age_weight: self.age,
            max_age: max_age.max(SHORTEST_MAX_AGE),
        }
    }

    /// The terms of a priority that was set by hand: it stays as it is.
    pub fn set_by_hand(&self, priority: u32, max_age: Span) -> Terms {
        Terms {
            constant: i128::from(priority) << FINE,
            ageing: Ageing::Not,
            age_weight: self.age,
            max_age: max_age.max(SHORTEST_MAX_AGE),
        }
    }
}

impl Terms {
    /// What age adds in that time, without an end.
    fn grown(self, span: Span) -> i128 {
        ((i128::from(self.age_weight) * i128::from(span.0)) << FINE) / i128::from(self.max_age.0)
    }

    /// The factor of age at a time, from zero to [`ONE`].
    pub fn age(self, now: Time) -> u64 {
        match self.ageing {
            Ageing::Not => 0,
            Ageing::Since(start) => {
                let age = now.since(start).0.unsigned_abs();
                part_of(age.into(), self.max_age.0.unsigned_abs().into())
            }
        }
    }

    /// The priority at a time, as Slurm shows it: at least 1.
    pub fn priority(self, now: Time) -> i64 {
        let sum = self.constant + weighted(self.age_weight, self.age(now));
        i64::try_from(sum >> FINE)
            .unwrap_or(HIGHEST)
            .clamp(1, HIGHEST)
    }

    /// When the job's key has to be made anew at marks, because it does not age any more. `None` where
    /// age does not count.
    pub fn stops_ageing(self) -> Option<Time> {
        match self.ageing {
            _ if self.age_weight == 0 => None,
            Ageing::Not => Some(Time(i64::MIN)),
            Ageing::Since(start) => Some(start + self.max_age),
        }
    }

    /// The key: of two jobs the one with the higher is served first. It stays right until
    /// [`Terms::stops_ageing`]; from then on it is that of `now`.
    pub fn key(self, now: Time) -> i64 {
        let at = match self.ageing {
            Ageing::Since(start) if now < start + self.max_age => {
                self.constant - self.grown(start.ahead_of(ORIGIN))
            }
            Ageing::Since(_) => {
                let full = self.constant + (i128::from(self.age_weight) << FINE);
                full - self.grown(now.ahead_of(ORIGIN))
            }
            Ageing::Not => self.constant - self.grown(now.ahead_of(ORIGIN)),
        };
        i64::try_from(at).unwrap_or(if at < 0 { i64::MIN } else { i64::MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: i64 = 3_600_000;
    const NOW: Time = Time(1_795_612_500_000);

    #[test]
    fn sizes() {
        let job = JobSize {
            nodes: 2,
            cores: 32,
            limit: Span(HOUR / 60 * 4),
            all_nodes: 8,
            all_cores: 64,
        };
        let check = |how, job, want: u64| assert_eq!(size(how, job), want, "{how:?}");
        check(SizeFactor::Large, job, ONE / 8 * 3);
        check(SizeFactor::Large, JobSize { cores: 0, ..job }, ONE / 4);
        check(SizeFactor::Small, job, ONE / 8 * 5);
        check(SizeFactor::LargeByTime, job, ONE / 8);
        check(SizeFactor::SmallByTime, job, ONE / 8 * 7);
        check(
            SizeFactor::LargeByTime,
            JobSize {
                limit: Span(0),
                ..job
            },
            ONE / 2,
        );
        check(SizeFactor::Small, JobSize::default(), ONE);
    }

    #[test]
    fn priorities() {
        let weights = Weights {
            age: 1000,
            fair_share: 10_000,
            size: 100,
            ..Weights::default()
        };
        let factors = Factors {
            fair_share: ONE / 4,
            size: ONE / 2,
            tres: 7 * ONE,
            site: -3,
            nice: 4,
            ..Factors::default()
        };
        let week = Span(7 * 24 * HOUR);
        let terms = weights.terms(&factors, Ageing::Since(NOW), week);
        assert_eq!(terms.priority(NOW), 2550);
        assert_eq!(terms.priority(NOW + Span(week.0 / 2)), 3050);
        assert_eq!(terms.priority(NOW + week), 3550);
        assert_eq!(terms.priority(Time::FAR), 3550);
        assert_eq!(weights.terms(&factors, Ageing::Not, week).priority(NOW), 2550);
        let low = Factors {
            nice: i64::from(i32::MAX),
            ..factors
        };
        assert_eq!(weights.terms(&low, Ageing::Not, week).priority(NOW), 1);
        assert_eq!(weights.set_by_hand(77, week).priority(Time::FAR), 77);
    }

    #[test]
    fn keys_of_extremes_saturate() {
        let weights = Weights {
            age: u32::MAX,
            ..Weights::default()
        };
        for start in [Time(i64::MIN), Time(0), NOW, Time::FAR] {
            for now in [Time(i64::MIN), NOW, Time::FAR] {
                let terms = weights.terms(&Factors::default(), Ageing::Since(start), Span(0));
                let _ = (terms.key(now), terms.priority(now), terms.stops_ageing());
            }
        }
    }

    fn terms() -> impl Strategy<Value = (u32, u64, i64, bool)> {
        (0..2000u32, 0..=ONE, 0..400 * HOUR, prop::bool::weighted(0.9))
    }

    proptest! {
        #[test]
        fn keys_made_early_order_as_priorities_do_later(age in 0..100_000u32,
            one in terms(), two in terms(), later in 0..400i64) {
            let week = Span(7 * 24 * HOUR);
            let now = NOW + Span(400 * HOUR);
            let make = |(size, factor, start, ages): (u32, u64, i64, bool)| {
                let weights = Weights { age, size, ..Weights::default() };
                let factors = Factors { size: factor, ..Factors::default() };
                let since = if ages { Ageing::Since(NOW + Span(start)) } else { Ageing::Not };
                weights.terms(&factors, since, week)
            };
            let (one, two) = (make(one), make(two));
            let at = now + Span(later * HOUR);
            // keys are made once, and anew only where a job has stopped ageing
            let key = |terms: Terms| match terms.stops_ageing() {
                Some(stops) if stops <= at => terms.key(at),
                _ => terms.key(now),
            };
            let exact = |terms: Terms| terms.constant + weighted(terms.age_weight, terms.age(at));
            let apart = exact(one) - exact(two);
            if apart.abs() > 4 { // more than what rounding makes
                prop_assert_eq!(key(one).cmp(&key(two)), exact(one).cmp(&exact(two)));
            }
        }
    }
}
