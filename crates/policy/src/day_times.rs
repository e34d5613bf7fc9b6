//! Numbers that depend on the time of day: so many from eight to six on working days, else others.
//!
//! Windows are of local time, so that summer time moves them as it moves people; a time that is skipped
//! or comes twice on the day of a change is taken as the calendar's library takes it.

use crate::reset::ResetPeriod;
use cosy_model::Time;
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use std::collections::BTreeSet;

/// Minutes of a day.
pub const DAY: u16 = 24 * 60;

/// A part of some days in which another number holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// Days on which it begins, counted from Monday as 0; all where none is named.
    pub days: BTreeSet<u8>,
    /// Minute of the day at which it begins, below [`DAY`].
    pub from: u16,
    /// Minute at which it is over, at most [`DAY`]. Where that is not behind the begin: of the next day.
    pub until: u16,
    /// What holds then.
    pub count: u32,
}

/// A number over time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DayTimes {
    /// What holds outside of all windows.
    pub usual: u32,
    /// The first that a moment is in decides.
    pub windows: Vec<Window>,
    /// Whose days and hours are meant.
    pub zone: TimeZone,
}

impl Window {
    fn is_over_night(&self) -> bool {
        self.until <= self.from
    }

    fn begins_on(&self, day: Date) -> bool {
        self.days.is_empty() || self.days.contains(&number_of(day.weekday()))
    }

    fn holds(&self, day: Date, minute: u16) -> bool {
        let yesterday = || day.checked_sub(1.day()).ok();
        match self.is_over_night() {
            false => self.begins_on(day) && (self.from..self.until).contains(&minute),
            true => {
                let begun = minute >= self.from && self.begins_on(day);
                let goes_on = || yesterday().is_some_and(|day| self.begins_on(day));
                begun || minute < self.until && goes_on()
            }
        }
    }
}

fn number_of(day: Weekday) -> u8 {
    day.to_monday_zero_offset().unsigned_abs()
}

impl DayTimes {
    /// The most that there ever is.
    pub fn most(&self) -> u32 {
        let counts = self.windows.iter().map(|window| window.count);
        counts.fold(self.usual, u32::max)
    }

    /// What holds at that time.
    pub fn at(&self, time: Time) -> u32 {
        let Ok(at) = Timestamp::from_millisecond(time.0) else {
            return self.usual;
        };
        let local = self.zone.to_datetime(at);
        let minute = u16::from(local.hour().unsigned_abs()) * 60;
        let minute = minute + u16::from(local.minute().unsigned_abs());
        let mut windows = self.windows.iter();
        let own = windows.find(|window| window.holds(local.date(), minute));
        own.map_or(self.usual, |window| window.count)
    }

    /// The day, counted in that zone, begins then; the time itself where no calendar has it.
    pub fn day_of(&self, time: Time) -> Time {
        ResetPeriod::Daily.last(time, &self.zone).unwrap_or(time)
    }

    /// When another number holds, behind `from` and before `until`, in the order of time.
    pub fn changes(&self, from: Time, until: Time) -> Vec<(Time, u32)> {
        let mut bounds: BTreeSet<Time> = BTreeSet::new();
        let Ok(first) = Timestamp::from_millisecond(from.0) else {
            return Vec::new();
        };
        let mut day = self.zone.to_datetime(first).date();
        loop {
            for window in &self.windows {
                bounds.extend(self.moment(day, window.from));
                bounds.extend(self.moment(day, window.until % DAY));
            }
            // A day of its own, so that what changes at midnight is seen, too.
            bounds.extend(self.moment(day, 0));
            let begins = self.moment(day, 0);
            let next = day.checked_add(1.day()).ok();
            match next.filter(|_| begins.is_none_or(|begins| begins < until)) {
                Some(next) => day = next,
                None => break,
            }
        }
        let mut count = self.at(from);
        let within = bounds.into_iter().filter(|at| *at > from && *at < until);
        let changed = within.filter_map(|at| {
            let then = self.at(at);
            (std::mem::replace(&mut count, then) != then).then_some((at, then))
        });
        changed.collect()
    }

    /// That minute of that day.
    fn moment(&self, day: Date, minute: u16) -> Option<Time> {
        let hour = i8::try_from(minute / 60).ok()?;
        let minute = i8::try_from(minute % 60).ok()?;
        let at = day
            .at(hour, minute, 0, 0)
            .to_zoned(self.zone.clone())
            .ok()?;
        Some(Time(at.timestamp().as_millisecond()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Time {
        let at: Timestamp = text.parse().expect("a moment");
        Time(at.as_millisecond())
    }

    /// Four by day from Monday to Friday, twenty over the night from Friday to Saturday, else ten.
    fn site(zone: &str) -> DayTimes {
        DayTimes {
            usual: 10,
            windows: vec![
                Window {
                    days: (0..5).collect(),
                    from: 8 * 60,
                    until: 18 * 60,
                    count: 4,
                },
                Window {
                    days: [4].into(),
                    from: 22 * 60,
                    until: 6 * 60,
                    count: 20,
                },
            ],
            zone: TimeZone::posix(zone).expect("a zone"),
        }
    }

    #[test]
    fn windows_hold_on_their_days() {
        let check = |text: &str, want: u32| assert_eq!(site("UTC0").at(at(text)), want, "{text}");
        check("2026-11-27T07:59:59Z", 10); // a Friday
        check("2026-11-27T08:00:00Z", 4);
        check("2026-11-27T17:59:59Z", 4);
        check("2026-11-27T18:00:00Z", 10);
        check("2026-11-27T22:00:00Z", 20);
        check("2026-11-28T05:59:59Z", 20);
        check("2026-11-28T06:00:00Z", 10);
        check("2026-11-28T12:00:00Z", 10);
        check("2026-11-28T23:00:00Z", 10);
        assert_eq!(site("UTC0").most(), 20);
        // It is nine o'clock there.
        assert_eq!(site("CET-1").at(at("2026-11-27T08:00:00Z")), 4);
        assert_eq!(site("CET-1").at(at("2026-11-27T07:00:00Z")), 4);
        assert_eq!(site("CET-1").at(at("2026-11-27T06:59:00Z")), 10);
        assert_eq!(site("UTC0").at(Time(i64::MAX)), 10, "no calendar has it");
    }

    #[test]
    fn changes_are_in_the_order_of_time() {
        let told = site("UTC0").changes(at("2026-11-27T08:30:00Z"), at("2026-11-30T09:00:00Z"));
        let want = [
            (at("2026-11-27T18:00:00Z"), 10),
            (at("2026-11-27T22:00:00Z"), 20),
            (at("2026-11-28T06:00:00Z"), 10),
            (at("2026-11-30T08:00:00Z"), 4),
        ];
        assert_eq!(told, want);
        // In summer the same hours are others of UTC.
        let berlin = site("CET-1CEST,M3.5.0,M10.5.0/3");
        let told = berlin.changes(at("2026-10-23T10:00:00Z"), at("2026-10-26T08:00:00Z"));
        let begins: Vec<Time> = told.iter().map(|(at, _)| *at).collect();
        assert!(begins.contains(&at("2026-10-23T16:00:00Z")), "{told:?}");
        assert!(begins.contains(&at("2026-10-26T07:00:00Z")), "{told:?}");
    }

    /// Between two changes the number is the same, and all of them are told.
    #[test]
    fn changes_are_all_there() {
        for zone in ["UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "PST8"] {
            let (site, from) = (site(zone), at("2026-10-20T13:07:00Z"));
            let until = Time(from.0 + 14 * 86_400_000);
            let told = site.changes(from, until);
            let mut now = from;
            while now < until {
                let last = told.iter().rev().find(|(at, _)| *at <= now);
                let want = last.map_or(site.at(from), |(_, count)| *count);
                assert_eq!(site.at(now), want, "{zone} {now:?}");
                now = Time(now.0 + 60_000);
            }
        }
    }
}
