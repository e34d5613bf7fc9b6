//! What somebody has used, fading by half in each half-life, without ever being touched for it.
//!
//! Forward decay (Cormode, Shkapenyuk, Srivastava, Xu, ICDE 2009): instead of making all old use
//! smaller as time goes by, new use is made larger. What is used at time x counts
//! `2^((x - origin) / half-life)`; whoever looks at time t divides by `2^((t - origin) / half-life)`.
//! Shares of a sum need no division at all, so ranks depend on stored numbers alone.
//!
//! A job that holds `rate` from a to b adds `rate * (G(b) - G(a))`, where G is the integral of that
//! factor ([`Decay::integral`]), rounded to an integer once. So it does not matter into how many pieces
//! a run is cut, and what running jobs have added so far is `rates * G(now) - sum(rate * G(start))`:
//! two numbers for each user ([`Running`]), no walk over jobs.
//!
//! Numbers: a rate is in thousandths of a billing unit (a core without weights), up to 2⁴⁸ for the whole
//! cluster; G is in 256ths of a millisecond. The origin moves each [`EPOCH`] half-lives, and stored use
//! is then shifted down by as many bits, so that sums stay below 2¹²⁰. All sums saturate.
//!
//! Slurm multiplies all use by `(1 - 0.693 / half-life)^t` each PriorityCalcPeriod, which is the same
//! to about 0.1 %. Source: `slurm.conf(5)`, PriorityDecayHalfLife.

use crate::power;
use cosy_model::{Span, Time};
use serde::{Deserialize, Serialize};

/// The origin of the measure moves after so many half-lives.
pub const EPOCH: i64 = 16;

/// Bits behind the point of a millisecond in [`Decay::integral`].
const FINE: i32 = 8;

/// `1 / ln 2` with 62 bits behind the point.
const BY_LN_2: u64 = 6_653_256_548_922_161_245;

/// Longest half-life: ten years of 366 days, which keeps all products in 128 bits.
pub const LONGEST_HALF_LIFE: Span = Span(3660 * 86_400_000);

/// How use fades.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Decay {
    /// After this time use counts half; zero when it never fades.
    half_life: Span,
    /// How often the origin has moved since 1970.
    epoch: i64,
}

/// Use in the measure of a [`Decay`]: comparable with others of the same origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Usage(pub u128);

impl Usage {
    /// With more added; saturates.
    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0))
    }
}

impl Decay {
    /// Use never fades.
    pub const NONE: Self = Self {
        half_life: Span::ZERO,
        epoch: 0,
    };

    /// Use counts half after `half_life`, at most [`LONGEST_HALF_LIFE`]; zero or less: it never fades.
    pub fn new(half_life: Span, now: Time) -> Self {
        let half_life = half_life.max(Span::ZERO).min(LONGEST_HALF_LIFE);
        let mut it = Self {
            half_life,
            epoch: 0,
        };
        it.epoch = it.epoch_at(now);
        it
    }

    fn epoch_at(self, at: Time) -> i64 {
        match self.half_life.0 {
            0 => 0,
            half => at.0.div_euclid(half.saturating_mul(EPOCH)),
        }
    }

    /// Time since the origin, in milliseconds.
    fn since_origin(self, at: Time) -> i64 {
        let origin = self.half_life.0.saturating_mul(EPOCH);
        at.0.saturating_sub(origin.saturating_mul(self.epoch))
    }

    /// The half-life; zero when use never fades.
    pub const fn half_life(self) -> Span {
        self.half_life
    }

    /// The integral of the factor up to then, in 256ths of a millisecond at the origin's worth. It
    /// never falls as time goes by. Without decay it is the time since 1970.
    pub fn integral(self, at: Time) -> u128 {
        let (since, half) = (self.since_origin(at), self.half_life.0);
        if half == 0 {
            return u128::try_from(since).map_or(0, |ms| ms << FINE);
        }
        let (whole, rest) = (since.div_euclid(half), since.rem_euclid(half));
        let rest = ((rest as u128) << 62) / half as u128;
        let power = power::fraction(u64::try_from(rest).unwrap_or(0));
        // below 2^64 as 2 / ln 2 is below 4
        let factor = (u128::from(BY_LN_2) * u128::from(power)) >> 62;
        shifted(factor.saturating_mul(half as u128), whole.saturating_add(i64::from(FINE) - 62))
    }

    /// What `rate` (thousandths of a billing unit) adds when it is held from one time to the other.
    /// Pieces of a run add up to exactly the whole.
    pub fn used(self, rate: u64, from: Time, to: Time) -> Usage {
        Usage(self.between(from, to).saturating_mul(u128::from(rate)))
    }

    /// What a rate of one adds from one time to the other.
    pub fn between(self, from: Time, to: Time) -> u128 {
        self.integral(to)
            .saturating_sub(self.integral(from.min(to)))
    }

    /// What use is worth at that time, in thousandths of billing units times milliseconds.
    pub fn worth(self, usage: Usage, at: Time) -> u128 {
        let half = self.half_life.0;
        if half == 0 {
            return usage.0 >> FINE;
        }
        let since = self.since_origin(at);
        let (whole, rest) = (since.div_euclid(half), since.rem_euclid(half));
        let rest = ((rest as u128) << 32) / half as u128;
        let power = power::inverse(u64::try_from(rest).unwrap_or(0));
        // a product of two numbers of 128 and 62 bits, shifted back: halves of it fit
        let (high, low) = (usage.0 >> 62, usage.0 & ((1 << 62) - 1));
        let now = high
            .saturating_mul(u128::from(power))
            .saturating_add((low * u128::from(power)) >> 62);
        shifted(now, whole.saturating_add(i64::from(FINE)).saturating_neg())
    }

    /// Use of that worth at that time: the other way round, to one part in 2⁵⁰.
    pub fn of_worth(self, worth: u128, at: Time) -> Usage {
        let half = self.half_life.0;
        if half == 0 {
            return Usage(shifted(worth, i64::from(FINE)));
        }
        let since = self.since_origin(at);
        let (whole, rest) = (since.div_euclid(half), since.rem_euclid(half));
        let rest = ((rest as u128) << 62) / half as u128;
        let power = power::fraction(u64::try_from(rest).unwrap_or(0));
        let (high, low) = (worth >> 62, worth & ((1 << 62) - 1));
        let then = high
            .saturating_mul(u128::from(power))
            .saturating_add((low * u128::from(power)) >> 62);
        Usage(shifted(then, whole.saturating_add(i64::from(FINE))))
    }

    /// By how many bits use in this measure is shifted down to be in that one, where they differ by their
    /// origins alone.
    pub fn rebased_to(self, other: Self) -> Option<u32> {
        let by = other.epoch.checked_sub(self.epoch)?;
        let same = self.half_life == other.half_life && by >= 0;
        same.then(|| u32::try_from(by.saturating_mul(EPOCH)).unwrap_or(u32::MAX))
    }

    /// Moves the origin where it is time; `Some` says by how many bits all that is stored has to be
    /// shifted down ([`Usage::rebased`]).
    pub fn rebase(&mut self, now: Time) -> Option<u32> {
        let epoch = self.epoch_at(now);
        let by = epoch.saturating_sub(self.epoch);
        if by <= 0 {
            return None; // a clock that was set back keeps the origin
        }
        self.epoch = epoch;
        let bits = by.saturating_mul(EPOCH);
        Some(u32::try_from(bits).unwrap_or(u32::MAX))
    }
}

impl Usage {
    /// The same use after the origin has moved.
    #[must_use]
    pub fn rebased(self, bits: u32) -> Self {
        Self(self.0.checked_shr(bits).unwrap_or(0))
    }

    /// The same use, measured with another half-life from now on.
    #[must_use]
    pub fn measured_anew(self, before: Decay, after: Decay, now: Time) -> Self {
        match before == after {
            true => self,
            false => after.of_worth(before.worth(self, now), now),
        }
    }
}

/// Shifted up by `by` bits, or down; what does not fit is the most there is.
fn shifted(number: u128, by: i64) -> u128 {
    let bits = u32::try_from(by.unsigned_abs()).unwrap_or(u32::MAX);
    match by < 0 {
        true => number.checked_shr(bits).unwrap_or(0),
        false if number == 0 => 0,
        false if bits >= number.leading_zeros() => u128::MAX,
        false => number << bits,
    }
}

/// What the running jobs of one user hold, as three sums. Jobs that are suspended have no rate and no
/// rest; what they have used until then is taken off `at_start`, so that it is told with the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Running {
    /// Rates of all of them, in thousandths of billing units.
    rates: u64,
    /// Each rate times the integral at its start, as a number that may be below zero.
    at_start: u128,
    /// Each rate times its limit in milliseconds since 1970.
    at_limit: u128,
}

/// One run that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Thousandths of a billing unit, with the factor of its QOS.
    pub rate: u64,
    /// The integral of the decay ([`Decay::integral`]) when it began to count.
    pub start: u128,
    /// When its limit is reached.
    pub limit: Time,
}

impl Running {
    /// A job has begun to run.
    pub fn begins(&mut self, run: Run) {
        let rate = u128::from(run.rate);
        self.rates = self.rates.saturating_add(run.rate);
        let start = rate.wrapping_mul(run.start);
        self.at_start = self.at_start.wrapping_add(start);
        self.at_limit = self.at_limit.saturating_add(rate * run.limit_ms());
    }

    /// That job runs no more. What it has used is to be added to what is stored: [`Decay::used`].
    pub fn ends(&mut self, run: Run) {
        let rate = u128::from(run.rate);
        self.rates = self.rates.saturating_sub(run.rate);
        let start = rate.wrapping_mul(run.start);
        self.at_start = self.at_start.wrapping_sub(start);
        self.at_limit = self.at_limit.saturating_sub(rate * run.limit_ms());
    }

    /// A job that is suspended has used so much.
    pub const fn pauses(&mut self, used: Usage) {
        self.at_start = self.at_start.wrapping_sub(used.0);
    }

    /// That job is suspended no more.
    pub const fn goes_on(&mut self, used: Usage) {
        self.at_start = self.at_start.wrapping_add(used.0);
    }

    /// Whether nothing is counted in it.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Rates of all that run, in thousandths of billing units.
    pub const fn rates(&self) -> u64 {
        self.rates
    }

    /// What they have used until now; `integral` is that of now.
    pub fn used(&self, integral: u128) -> Usage {
        let held = u128::from(self.rates).saturating_mul(integral);
        // in two's complement: less than nothing where the clock was set back
        let used = held.wrapping_sub(self.at_start);
        Usage(if used >> 127 == 1 { 0 } else { used })
    }

    /// What is left of their limits, each times its rate, in thousandths of billing units times
    /// milliseconds.
    pub fn rest(&self, now: Time) -> u128 {
        let passed = u128::from(self.rates) * u128::from(now.0.max(0).unsigned_abs());
        self.at_limit.saturating_sub(passed)
    }

    /// What they have used, and what they may still use until their limits as if it were used now:
    /// committed use, which a burst of long jobs has at once.
    pub fn committed(&self, decay: Decay, now: Time) -> Usage {
        let rest = decay.of_worth(self.rest(now), now);
        self.used(decay.integral(now)).plus(rest)
    }
}

impl Run {
    /// The limit in milliseconds since 1970, at most 2⁴³ (in the year 2248), so that sums fit.
    fn limit_ms(self) -> u128 {
        u128::from(self.limit.0.clamp(0, 1 << 43).unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: i64 = 86_400_000;
    const NOW: Time = Time(1_790_000_000_000);

    fn week() -> Decay {
        Decay::new(Span(7 * DAY), NOW)
    }

    fn later(ms: i64) -> Time {
        NOW + Span(ms)
    }

    /// Worth as a number with a point, in unit-milliseconds.
    fn worth(decay: Decay, usage: Usage, at: Time) -> f64 {
        decay.worth(usage, at) as f64 / 1000.0
    }

    fn close(got: f64, want: f64) {
        let error = (got - want).abs() / want.abs().max(1.0);
        assert!(error < 1e-6, "{got} instead of {want}");
    }

    #[test]
    fn half_is_left_after_a_half_life() {
        let decay = week();
        let used = decay.used(1000, NOW, later(3_600_000));
        let at_end = worth(decay, used, later(3_600_000));
        let half_lives = 3_600_000.0 / (7.0 * DAY as f64);
        close(at_end, 7.0 * DAY as f64 / 2f64.ln() * (1.0 - (-half_lives).exp2()));
        for weeks in 1..20 {
            let then = worth(decay, used, later(3_600_000 + weeks * 7 * DAY));
            assert!((then - at_end / 2f64.powi(weeks as i32)).abs() < 0.01, "{weeks}: {then}");
        }
    }

    #[test]
    fn without_decay_use_stays() {
        let decay = Decay::new(Span::ZERO, NOW);
        let used = decay.used(2500, NOW, later(1000));
        assert_eq!(decay.worth(used, later(900 * DAY)), 2_500_000);
        assert_eq!(decay.clone().rebase(later(9_000_000 * DAY)), None);
    }

    #[test]
    fn clocks_that_are_absurd_saturate() {
        for at in [Time(i64::MIN), Time(-1), Time::FAR] {
            for half in [0, 1, 7 * DAY, i64::MAX] {
                let decay = Decay::new(Span(half), NOW);
                let used = decay.used(u64::MAX, NOW, at);
                let _ = (decay.worth(used, at), decay.of_worth(u128::MAX, at));
                let mut moved = Decay::new(Span(half), at);
                let _ = (moved.rebase(Time::FAR), moved.integral(NOW));
            }
        }
    }

    proptest! {
        #[test]
        fn pieces_add_up_exactly(half in 60_000..3660 * DAY, rate in 0..1u64 << 40,
            cuts in prop::collection::vec(-10 * DAY..30 * DAY, 2..9)) {
            let decay = Decay::new(Span(half), NOW);
            let mut cuts = cuts;
            cuts.sort_unstable();
            let pieces = cuts.windows(2).fold(Usage(0), |sum, two| {
                sum.plus(decay.used(rate, later(two[0]), later(two[1])))
            });
            let whole = decay.used(rate, later(cuts[0]), later(cuts[cuts.len() - 1]));
            prop_assume!(whole.0 < u128::MAX);
            prop_assert_eq!(pieces, whole);
        }

        #[test]
        fn the_integral_never_falls(half in 1000..3660 * DAY, at in -100 * DAY..100 * DAY, by in 0..100i64) {
            let decay = Decay::new(Span(half), NOW);
            prop_assert!(decay.integral(later(at)) <= decay.integral(later(at + by)));
        }

        #[test]
        fn sums_of_running_jobs_are_those_of_each(
            jobs in prop::collection::vec((1..1u64 << 30, 0..30 * DAY, 1..10 * DAY), 0..20), now in 30 * DAY..60 * DAY) {
            let decay = week();
            let mut running = Running::default();
            let run = |(rate, start, length): (u64, i64, i64)| Run {
                rate, start: decay.integral(later(start)), limit: later(start + length),
            };
            jobs.iter().for_each(|job| running.begins(run(*job)));
            let each = jobs.iter().fold(Usage(0), |sum, (rate, start, _)| {
                sum.plus(decay.used(*rate, later(*start), later(now)))
            });
            prop_assert_eq!(running.used(decay.integral(later(now))), each);
            jobs.iter().for_each(|job| running.ends(run(*job)));
            prop_assert_eq!(running, Running::default());
        }

        #[test]
        fn committed_use_is_what_was_used_and_the_rest(rate in 1000..1u64 << 30, hours in 1..90i64) {
            let decay = week();
            let mut running = Running::default();
            let run = Run { rate, start: decay.integral(NOW), limit: later(100 * 3_600_000) };
            running.begins(run);
            let at = later(hours * 3_600_000);
            let rest = rate as f64 / 1000.0 * ((100 - hours) * 3_600_000) as f64;
            let used = worth(decay, running.used(decay.integral(at)), at);
            close(worth(decay, running.committed(decay, at), at), used + rest);
        }

        #[test]
        fn a_moved_origin_changes_nothing_that_is_seen(rate in 1000..1u64 << 40, days in 1..400i64) {
            let mut decay = week();
            let used = decay.used(rate, NOW, later(DAY));
            let at = later(days * DAY);
            let before = worth(decay, used, at);
            let bits = decay.rebase(at).unwrap_or(0);
            let after = worth(decay, used.rebased(bits), at);
            prop_assert!((before - after).abs() <= 1e-6 * before + 1.0, "{} {}", before, after);
        }

        #[test]
        fn another_half_life_keeps_what_use_is_worth(rate in 1000..1u64 << 40, days in 0..100i64) {
            let (before, after) = (week(), Decay::new(Span(30 * DAY), NOW));
            let used = before.used(rate, NOW, later(DAY));
            let at = later(days * DAY);
            let anew = used.measured_anew(before, after, at);
            let (old, new) = (worth(before, used, at), worth(after, anew, at));
            prop_assert!((old - new).abs() <= 1e-6 * old + 1.0, "{} {}", old, new);
        }
    }
}
