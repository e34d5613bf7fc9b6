//! Points in time and lengths of time, in whole milliseconds.
//!
//! Arithmetic saturates: an absurd limit gives a far future, never a wrap-around.
//!
//! There are two clocks. Dates ([`Time`]) are on the clock on the wall, which somebody may
//! set. What passes is measured on one that nobody sets ([`MonotonicTime`]) and that stands still
//! while the machine sleeps. A [`ClockReading`] is one look at both.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};

/// A point in time: milliseconds since 1970-01-01 00:00 UTC.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(pub i64);

/// A length of time in milliseconds.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Span(pub i64);

/// A point on a clock that nobody sets: milliseconds since a moment that means nothing.
/// Two of them from the same machine and its same run can be compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MonotonicTime(pub i64);

/// A run of a machine, from one start of it to the next. None is known by this number: 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct BootId(pub u128);

/// One look at both clocks of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ClockReading {
    /// The date, which administrators may set.
    pub wall: Time,
    /// What passes is measured on it.
    pub steady: MonotonicTime,
    /// How long the machine has slept since it was started.
    pub slept: Span,
    /// Which run of which machine: steady clocks of two are not comparable.
    pub boot: BootId,
}

/// Where nobody sets the clock on the wall (simulations, most tests) one number is both.
impl From<Time> for ClockReading {
    fn from(wall: Time) -> Self {
        Self {
            wall,
            steady: MonotonicTime(wall.0),
            slept: Span::ZERO,
            boot: BootId::default(),
        }
    }
}

/// A clock was set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ClockStep {
    /// What it would have shown.
    pub from: Time,
    /// By how much more it shows; less than zero when it was set back.
    pub by: Span,
}

impl ClockStep {
    /// Dates farther away were not counted on that clock: 1,000 days, longer than jobs are.
    const REACH: Span = Span(1000 * 86_400_000);
}

impl BootId {
    /// Whether two looks were made in the same run of the same machine, as far as is known.
    pub fn is_same(self, other: Self) -> bool {
        self.0 != 0 && self == other
    }
}

impl MonotonicTime {
    /// How long after `earlier` this is; zero when it is not.
    pub fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0).max(0))
    }
}

impl Time {
    /// Later than everything that is planned.
    pub const FAR: Self = Self(i64::MAX);
    /// 1970-01-01 00:00 UTC.
    pub const EPOCH: Self = Self(0);

    /// The time `secs` seconds after 1970.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Whole seconds since 1970, rounded down.
    pub const fn secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// How long after `earlier` this is; zero when it is not.
    pub fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0).max(0))
    }

    /// How far this is ahead of `other`; less than zero when it is behind.
    pub const fn ahead_of(self, other: Self) -> Span {
        Span(self.0.saturating_sub(other.0))
    }

    /// Not before `earliest` and not after `latest`; `latest` where these contradict.
    pub fn within(self, earliest: Self, latest: Self) -> Self {
        self.max(earliest).min(latest)
    }

    /// The same moment on a clock that was set. Dates that are no moments near the time that
    /// it showed ("never", "always", what comes from a clock that was right while this one had
    /// not been set yet) stay.
    pub const fn set_by(self, step: ClockStep) -> Self {
        let away = self.0.saturating_sub(step.from.0).saturating_abs();
        match away <= ClockStep::REACH.0 {
            true => Self(self.0.saturating_add(step.by.0)),
            false => self,
        }
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than any other: no limit, no end.
    pub const UNLIMITED: Self = Self(i64::MAX);

    /// A length of time in seconds; saturates.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// A length of time in minutes; saturates.
    pub const fn from_minutes(minutes: i64) -> Self {
        Self::from_secs(minutes.saturating_mul(60))
    }

    /// Whole seconds, rounded down.
    pub const fn secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Its length in milliseconds.
    pub const fn ms(self) -> i64 {
        self.0
    }

    /// The length without its direction.
    pub const fn abs(self) -> Self {
        Self(self.0.saturating_abs())
    }

    /// True for a length without end.
    pub const fn is_unlimited(self) -> bool {
        self.0 == i64::MAX
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, rhs: Span) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl Sub<Span> for Time {
    type Output = Self;
    fn sub(self, rhs: Span) -> Self {
        Self(self.0.saturating_sub(rhs.0))
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

/// `[D-]HH:MM:SS`, as the commands print it; `unlimited` without end.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unlimited() {
            return f.pad("unlimited");
        }
        let secs = self.secs().max(0);
        let (days, h, m, s) = (secs / 86_400, secs / 3600 % 24, secs / 60 % 60, secs % 60);
        if days > 0 {
            f.pad(&format!("{days}-{h:02}:{m:02}:{s:02}"))
        } else {
            f.pad(&format!("{h:02}:{m:02}:{s:02}"))
        }
    }
}

/// Why a text is no length of time.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no length of time: use minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS, a number with s, m, h or d (90s, 15m, 2h30m), or 'unlimited'"
)]
pub struct SpanError(pub String);

/// Reads a time limit: Slurm's grammar (`minutes`, `minutes:seconds`,
/// `hours:minutes:seconds`, `days-hours[:minutes[:seconds]]`, see sbatch(1) `--time`),
/// units (`90s`, `2h30m`, `1d`) and `unlimited` or `infinite`.
///
/// # Errors
/// [`SpanError`] with the text when it is none of these, or beyond 10,000 years.
impl std::str::FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let bad = || SpanError(text.chars().take(60).collect());
        let lower = text.trim().to_ascii_lowercase();
        if matches!(lower.as_str(), "unlimited" | "infinite") {
            return Ok(Self::UNLIMITED);
        }
        let secs = if lower.ends_with(['s', 'm', 'h', 'd']) {
            unit_secs(&lower)
        } else {
            clock_secs(&lower)
        }
        .ok_or_else(bad)?;
        const TEN_THOUSAND_YEARS: i64 = 10_000 * 366 * 86_400;
        if secs > TEN_THOUSAND_YEARS {
            return Err(bad());
        }
        Ok(Self::from_secs(secs))
    }
}

fn unit_secs(text: &str) -> Option<i64> {
    let mut total = 0i64;
    let mut digits = String::new();
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let n = number(&digits)?;
        digits.clear();
        let unit = match c {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return None,
        };
        total = total.checked_add(n.checked_mul(unit)?)?;
    }
    digits.is_empty().then_some(total)
}

fn clock_secs(text: &str) -> Option<i64> {
    let (days, rest, with_days) = match text.split_once('-') {
        Some((d, rest)) => (number(d)?, rest, true),
        None => (0, text, false),
    };
    let parts: Vec<i64> = rest.split(':').map(number).collect::<Option<_>>()?;
    let (h, m, s) = match (with_days, parts.as_slice()) {
        (true, [h]) => (*h, 0, 0),
        (true, [h, m]) => (*h, *m, 0),
        (false, [m]) => (0, *m, 0),
        (false, [m, s]) => (0, *m, *s),
        (_, [h, m, s]) => (*h, *m, *s),
        _ => return None,
    };
    days.checked_mul(86_400)?
        .checked_add(h.checked_mul(3600)?)?
        .checked_add(m.checked_mul(60)?)?
        .checked_add(s)
}

/// A non-negative whole number of at most 15 digits.
fn number(text: &str) -> Option<i64> {
    if text.is_empty() || text.len() > 15 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, secs: Option<i64>) {
        let got = text.parse::<Span>().ok().map(Span::secs);
        assert_eq!(got, secs, "{text}");
    }

    #[test]
    fn spans() {
        check("5", Some(300));
        check("0", Some(0));
        check("1:30", Some(90));
        check("1:00:00", Some(3600));
        check("2-3", Some(2 * 86_400 + 3 * 3600));
        check("2-3:4", Some(2 * 86_400 + 3 * 3600 + 240));
        check("2-3:4:5", Some(2 * 86_400 + 3 * 3600 + 245));
        check("90s", Some(90));
        check("2h30m", Some(9000));
        check("1d", Some(86_400));
        check("", None);
        check("-5", None);
        check("foo", None);
        check("1:2:3:4", None);
        check("99999999999999999999", None);
        check("999999999999999", None);
        check("5x", None);
        check("m", None);
        assert!("unlimited".parse::<Span>().unwrap().is_unlimited());
    }

    #[test]
    fn display() {
        assert_eq!(Span::from_secs(61).to_string(), "00:01:01");
        assert_eq!(Span::from_secs(90_061).to_string(), "1-01:01:01");
        assert_eq!(Span::UNLIMITED.to_string(), "unlimited");
        assert_eq!(Time::FAR + Span::from_secs(5), Time::FAR);
    }
}
