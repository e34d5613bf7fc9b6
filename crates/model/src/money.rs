//! Service units: what machine time costs.
//!
//! Whole numbers only, so that sums are exact and a ledger balances to the last digit.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Service units (SU) in millionths. One SU is the price of one core for one hour at the
/// base rate (pricing paper, section 4: "one SU is equal to one processor hour").
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Su(pub i64);

/// Why a text is no sum of service units.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no sum of service units: use a number like 250 or 12.5, at most 6 decimals")]
pub struct SuError(pub String);

impl Su {
    /// No service units.
    pub const ZERO: Self = Self(0);
    /// Millionths in one.
    pub const ONE: i64 = 1_000_000;
    /// The largest sum that is accepted from outside: a trillion SU.
    pub const MOST: Self = Self(1_000_000_000_000 * Self::ONE);

    /// `units` whole service units, saturating.
    pub const fn whole(units: i64) -> Self {
        Self(units.saturating_mul(Self::ONE))
    }

    /// The price of `core_ms` core-milliseconds at `rate` for a core-hour, rounded up,
    /// saturating.
    pub fn of_core_ms(core_ms: i128, rate: Self) -> Self {
        const HOUR_MS: i128 = 3_600_000;
        let product = core_ms.saturating_mul(i128::from(rate.0));
        let up = i128::from(product.rem_euclid(HOUR_MS) != 0);
        let sum = product.div_euclid(HOUR_MS) + up;
        Self(sum.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
    }

    /// The sum, or `None` when it cannot be held.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// The sum, as large as can be held.
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, as small as can be held.
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// `12`, `12.5`, `-0.000001`.
impl fmt::Display for Su {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let all = self.0.unsigned_abs();
        let (whole, rest) = (all / Self::ONE as u64, all % Self::ONE as u64);
        let fraction = format!("{rest:06}");
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        f.pad(&format!("{sign}{whole}{point}{fraction}"))
    }
}

impl std::str::FromStr for Su {
    type Err = SuError;

    /// Reads `250`, `12.5`; no sign, at most a trillion, at most 6 decimals.
    fn from_str(text: &str) -> Result<Self, SuError> {
        let bad = || SuError(text.chars().take(60).collect());
        let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let empty = whole.is_empty() || (text.contains('.') && fraction.is_empty());
        if empty || whole.len() > 13 || fraction.len() > 6 || !digits(whole) || !digits(fraction) {
            return Err(bad());
        }
        let units: i64 = whole.parse().map_err(|_| bad())?;
        let millionths: i64 = format!("{fraction:0<6}").parse().map_err(|_| bad())?;
        let sum = Self::whole(units).plus(Self(millionths));
        (sum <= Self::MOST).then_some(sum).ok_or_else(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let check = |text: &str, want: Option<i64>| {
            assert_eq!(text.parse::<Su>().ok().map(|s| s.0), want, "{text}");
        };
        check("0", Some(0));
        check("12.5", Some(12_500_000));
        check("0.000001", Some(1));
        check("1000000000000", Some(Su::MOST.0));
        check("1000000000000.000001", None);
        check("-1", None);
        check(".5", None);
        check("5.", None);
        check("1e3", None);
        check("0.0000001", None);
        check("", None);
    }

    #[test]
    fn shown() {
        let check = |sum: i64, want: &str| assert_eq!(Su(sum).to_string(), want);
        check(12_500_000, "12.5");
        check(-1, "-0.000001");
        check(0, "0");
        check(i64::MIN, "-9223372036854.775808");
    }

    #[test]
    fn prices() {
        let check = |core_ms, rate, want| assert_eq!(Su::of_core_ms(core_ms, Su(rate)).0, want);
        check(3_600_000, 1_000_000, 1_000_000);
        check(1, 1_000_000, 1); // rounded up
        check(0, 1_000_000, 0);
        check(i128::MAX, i64::MAX, i64::MAX);
    }
}
