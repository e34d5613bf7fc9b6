//! When use is forgotten as a whole, for sites without decay.
//!
//! Source: `slurm.conf(5)`, `PriorityUsageResetPeriod`.

use cosy_model::Time;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde::{Deserialize, Serialize};

/// How often use is forgotten, always when a day begins.
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

    /// The last moment, not after `at`, at which use was forgotten: when a day began in that zone. None for
    /// dates that no calendar has.
    pub fn last(self, at: Time, zone: &TimeZone) -> Option<Time> {
        let now = Timestamp::from_millisecond(at.0).ok()?;
        let today = zone.to_datetime(now).date();
        let first = self.first_day(today)?;
        let begins = first.to_zoned(zone.clone()).ok()?;
        Some(Time(begins.timestamp().as_millisecond()))
    }

    /// The day on which the period began that a day is in.
    fn first_day(self, day: Date) -> Option<Date> {
        match self {
            Self::None | Self::Now => None,
            Self::Daily => Some(day),
            Self::Weekly => {
                let since_sunday = day.weekday().to_sunday_zero_offset();
                day.checked_sub(i64::from(since_sunday).days()).ok()
            }
            Self::Monthly => Some(day.first_of_month()),
            Self::Quarterly => Date::new(day.year(), (day.month() - 1) / 3 * 3 + 1, 1).ok(),
            Self::Yearly => Some(day.first_of_year()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Time {
        let at: Timestamp = text.parse().expect("a moment");
        Time(at.as_millisecond())
    }

    fn zone(text: &str) -> TimeZone {
        TimeZone::posix(text).expect("a zone")
    }

    #[test]
    fn periods_begin_when_days_do_in_their_zone() {
        // a Wednesday
        let now = at("2026-11-25T13:15:00Z");
        let check = |period: ResetPeriod, name: &str, want: &str| {
            let last = period.last(now, &zone(name));
            assert_eq!(last, Some(at(want)), "{period:?} {name}");
            let begun = last.expect("there is one");
            assert_eq!(
                period.last(begun, &zone(name)),
                last,
                "{period:?} {name}: at its beginning"
            );
            let before = period.last(Time(begun.0 - 1), &zone(name));
            assert!(before.is_some_and(|before| before < begun), "{period:?} {name}: just before");
        };
        check(ResetPeriod::Daily, "UTC0", "2026-11-25T00:00:00Z");
        check(ResetPeriod::Daily, "CET-1", "2026-11-24T23:00:00Z");
        check(ResetPeriod::Daily, "PST8", "2026-11-25T08:00:00Z");
        check(ResetPeriod::Daily, "SBT-11", "2026-11-25T13:00:00Z");
        check(ResetPeriod::Weekly, "UTC0", "2026-11-22T00:00:00Z");
        check(ResetPeriod::Weekly, "CET-1", "2026-11-21T23:00:00Z");
        check(ResetPeriod::Monthly, "UTC0", "2026-11-01T00:00:00Z");
        check(ResetPeriod::Quarterly, "UTC0", "2026-10-01T00:00:00Z");
        check(ResetPeriod::Yearly, "UTC0", "2026-01-01T00:00:00Z");
        assert_eq!(ResetPeriod::None.last(now, &TimeZone::UTC), None);
        assert_eq!(ResetPeriod::Now.last(now, &TimeZone::UTC), None);
    }

    /// The first of October is in summer time, the days after the last Sunday of it are not.
    #[test]
    fn summer_time_is_kept() {
        let berlin = zone("CET-1CEST,M3.5.0,M10.5.0/3");
        let now = at("2026-11-25T13:15:00Z");
        let check = |period: ResetPeriod, want: &str| {
            assert_eq!(period.last(now, &berlin), Some(at(want)), "{period:?}");
        };
        check(ResetPeriod::Quarterly, "2026-09-30T22:00:00Z");
        check(ResetPeriod::Monthly, "2026-10-31T23:00:00Z");
        // the day on which clocks go back has 25 hours
        let late = at("2026-10-25T22:59:59Z");
        assert_eq!(ResetPeriod::Daily.last(late, &berlin), Some(at("2026-10-24T22:00:00Z")));
    }

    /// Where clocks go forward at midnight, the day begins at one.
    #[test]
    fn a_day_without_midnight_begins_at_its_first_moment() {
        let beirut = zone("EET-2EEST,M3.5.0/0,M10.5.0/0");
        let noon = at("2026-03-29T10:00:00Z");
        assert_eq!(ResetPeriod::Daily.last(noon, &beirut), Some(at("2026-03-28T22:00:00Z")));
    }

    #[test]
    fn moments_that_no_calendar_has_reset_nothing() {
        for never in [Time(i64::MIN), Time(i64::MAX)] {
            assert_eq!(ResetPeriod::Daily.last(never, &TimeZone::UTC), None);
        }
    }
}
