//! When use is forgotten as a whole, for sites without decay.
//!
//! Source: `slurm.conf(5)`, `PriorityUsageResetPeriod`.

use cosy_model::{Span, Time};
use serde::{Deserialize, Serialize};

const DAY_MS: i64 = 86_400_000;

/// How often use is forgotten, always at 0:00.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResetPeriod {
    /// Use is never forgotten.
    #[default]
    None,
    /// Once, when the controller reads this word.
    Now,
    /// Every day.
    Daily,
    /// Every Sunday.
    Weekly,
    /// On the first of a month.
    Monthly,
    /// On the first of January, April, July and October.
    Quarterly,
    /// On the first of January.
    Yearly,
}

impl ResetPeriod {
    /// All of them with their words in configuration.
    pub const WORDS: [(Self, &'static str); 7] = [
        (Self::None, "none"),
        (Self::Now, "now"),
        (Self::Daily, "daily"),
        (Self::Weekly, "weekly"),
        (Self::Monthly, "monthly"),
        (Self::Quarterly, "quarterly"),
        (Self::Yearly, "yearly"),
    ];

    /// The first moment after `after` at which use is forgotten; `east`: how far local time is ahead of UTC.
    pub fn next(self, after: Time, east: Span) -> Option<Time> {
        let start = self.period_of(after, east)?;
        let next = match self {
            Self::None | Self::Now => return None,
            Self::Daily => start + 1,
            Self::Weekly => start + 7,
            Self::Monthly => month_after(start, 1),
            Self::Quarterly => month_after(start, 3),
            Self::Yearly => month_after(start, 12),
        };
        Some(moment(next, east))
    }

    /// The last moment, not after `at`, at which use was forgotten.
    pub fn last(self, at: Time, east: Span) -> Option<Time> {
        self.period_of(at, east).map(|day| moment(day, east))
    }

    /// The day since 1970 on which the period began that `at` is in.
    fn period_of(self, at: Time, east: Span) -> Option<i64> {
        let day = at.0.saturating_add(east.0).div_euclid(DAY_MS);
        let (year, month) = year_and_month(day);
        match self {
            Self::None | Self::Now => None,
            Self::Daily => Some(day),
            // 1970-01-01 was a Thursday: day 3 is a Sunday
            Self::Weekly => Some(day - (day + 4).rem_euclid(7)),
            Self::Monthly => Some(first_of(year, month)),
            Self::Quarterly => Some(first_of(year, (month - 1) / 3 * 3 + 1)),
            Self::Yearly => Some(first_of(year, 1)),
        }
    }
}

/// Midnight at the beginning of a day since 1970.
const fn moment(day: i64, east: Span) -> Time {
    Time(day.saturating_mul(DAY_MS).saturating_sub(east.0))
}

/// The first of a month, `months` after the one that begins on that day.
fn month_after(first: i64, months: i64) -> i64 {
    let (year, month) = year_and_month(first);
    first_of(year, month + months)
}

/// Year and month (1 to 12) of a day since 1970. Source: Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms", `civil_from_days`.
fn year_and_month(day: i64) -> (i64, i64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month)
}

/// The day since 1970 on which a month begins; months beyond 12 are of the next year. Source: as above,
/// `days_from_civil`.
fn first_of(year: i64, month: i64) -> i64 {
    let (year, month) = if month > 12 {
        (year + 1, month - 12)
    } else {
        (year, month)
    };
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_resets() {
        // 2026-11-25 13:15 UTC, a Wednesday
        let now = Time(1_795_612_500_000);
        let check = |period: ResetPeriod, east_hours: i64, want: i64| {
            let next = period.next(now, Span(east_hours * 3_600_000));
            assert_eq!(next, Some(Time::from_secs(want)), "{period:?}");
            let last = period.last(Time::from_secs(want), Span(east_hours * 3_600_000));
            assert_eq!(last, next, "{period:?}: at its beginning");
            let before = period.last(now, Span(east_hours * 3_600_000));
            assert!(before.is_some_and(|before| before <= now), "{period:?}");
        };
        check(ResetPeriod::Daily, 0, 1_795_651_200); // 26 November
        check(ResetPeriod::Daily, 1, 1_795_647_600);
        check(ResetPeriod::Daily, 11, 1_795_698_000);
        check(ResetPeriod::Weekly, 0, 1_795_910_400); // Sunday, 29 November
        check(ResetPeriod::Monthly, 0, 1_796_083_200); // 1 December
        check(ResetPeriod::Quarterly, 0, 1_798_761_600); // 1 January 2027
        check(ResetPeriod::Yearly, 0, 1_798_761_600);
        assert_eq!(ResetPeriod::None.next(now, Span::ZERO), None);
    }

    #[test]
    fn weekly_is_after_now_on_a_sunday() {
        let sunday = Time::from_secs(1_795_910_400);
        let next = ResetPeriod::Weekly.next(sunday, Span::ZERO);
        assert_eq!(next, Some(sunday + Span(7 * DAY_MS)));
    }

    #[test]
    fn months_of_many_years() {
        let mut day = 0;
        for year in 1970..2200 {
            for month in 1..=12 {
                assert_eq!(first_of(year, month), day, "{year}-{month}");
                assert_eq!(year_and_month(day), (year, month));
                let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
                day += match month {
                    2 => 28 + i64::from(leap),
                    4 | 6 | 9 | 11 => 30,
                    _ => 31,
                };
                assert_eq!(year_and_month(day - 1), (year, month));
            }
        }
    }
}
