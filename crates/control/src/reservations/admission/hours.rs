//! What an hour of the week usually costs: the floor of f where today's queue says nothing.
//!
//! For each hour of the week (UTC) the sum of f over slots that begin in it, and of their
//! core-seconds; the floor of a slot is the mean of its first hour times its size. What
//! always holds: without history the floor is zero, and no sum overflows: before one would,
//! both are halved, which keeps the mean.
//!
//! Source: issue of advance reservations, "Money"; the pricing paper's f is zero behind the
//! last planned end (section 2).

use crate::record::HourPriceRow;
use cosy_model::{Su, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Hours in a week.
const HOURS: i64 = 168;
/// Most that is kept in either sum.
const MOST: u64 = Su::MOST.0 as u64;

/// Prices by hour of the week.
#[derive(Debug, Default)]
pub(crate) struct HourPrices {
    rows: BTreeMap<u8, HourPriceRow>,
    unsaved: BTreeSet<u8>,
}

impl HourPrices {
    /// As saved. Rows of hours that no week has are left out.
    pub(crate) fn restore(rows: Vec<HourPriceRow>) -> Self {
        let rows = rows.into_iter().filter(|row| i64::from(row.hour) < HOURS);
        Self {
            rows: rows.map(|row| (row.hour, row)).collect(),
            unsaved: BTreeSet::new(),
        }
    }

    /// A slot of `core_ms` core-milliseconds that begins at `start` has cost `extra`. Only
    /// what was paid is to be told: quotes, and bookings that are cancelled, cost nothing, so
    /// that whoever makes many could change the floor.
    pub(crate) fn record(&mut self, start: Time, core_ms: i128, extra: Su) {
        let core_s = u64::try_from(core_ms.max(0) / 1000)
            .unwrap_or(MOST)
            .min(MOST);
        if core_s == 0 {
            return;
        }
        let hour = hour_of_week(start);
        let row = self.rows.entry(hour).or_insert_with(|| HourPriceRow {
            hour,
            ..HourPriceRow::default()
        });
        let extra = extra.0.clamp(0, MOST as i64);
        while row.core_s > MOST - core_s || row.extra.0 > MOST as i64 - extra {
            row.core_s /= 2;
            row.extra = Su(row.extra.0 / 2);
        }
        row.core_s += core_s;
        row.extra = Su(row.extra.0 + extra);
        self.unsaved.insert(hour);
    }

    /// What f is at least, for a slot of `core_ms` core-milliseconds that begins at `start`.
    pub(crate) fn floor(&self, start: Time, core_ms: i128) -> Su {
        let Some(row) = self.rows.get(&hour_of_week(start)) else {
            return Su::ZERO;
        };
        let known_ms = i128::from(row.core_s) * 1000;
        let sum = core_ms
            .max(0)
            .saturating_mul(i128::from(row.extra.0.max(0)));
        let mean = sum.checked_div(known_ms).unwrap_or(0);
        Su(i64::try_from(mean).unwrap_or(i64::MAX)).min(Su::MOST)
    }

    /// The rows that are to be saved, since the last call.
    pub(crate) fn changed(&mut self) -> Vec<HourPriceRow> {
        let unsaved = std::mem::take(&mut self.unsaved);
        let rows = unsaved.iter().filter_map(|hour| self.rows.get(hour));
        rows.cloned().collect()
    }
}

/// 0 is Monday, 00 to 01 UTC.
fn hour_of_week(time: Time) -> u8 {
    const THURSDAY: i64 = 3 * 24; // 1970-01-01 was one
    let hours = time.secs().div_euclid(3600) + THURSDAY;
    hours.rem_euclid(HOURS) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i128 = 3_600_000;

    /// Monday 2026-11-23, 00:00 UTC, and so many hours.
    fn at(hours: i64) -> Time {
        Time::from_secs(1_795_392_000 + hours * 3600)
    }

    #[test]
    fn hours_of_the_week() {
        let check = |time: Time, hour| assert_eq!(hour_of_week(time), hour, "{time:?}");
        check(at(0), 0);
        check(Time(at(0).0 - 1), 167);
        check(at(167), 167);
        check(at(168), 0);
        check(Time::EPOCH, 72); // a Thursday
        check(Time(-1), 71);
        check(Time(i64::MAX), hour_of_week(Time(i64::MAX - i64::MAX % 1000)));
        assert!(i64::from(hour_of_week(Time(i64::MIN))) < HOURS);
    }

    #[test]
    fn the_floor_is_the_mean_of_the_hour() {
        let mut prices = HourPrices::default();
        prices.record(at(9), 10 * HOUR_MS, Su::whole(40));
        prices.record(at(9 + 168), 30 * HOUR_MS, Su::ZERO);
        prices.record(at(10), HOUR_MS, Su::whole(7));
        prices.record(at(11), 0, Su::whole(7));
        let check = |prices: &HourPrices, hour, cores: i128, wanted| {
            assert_eq!(prices.floor(at(hour), cores * HOUR_MS), wanted, "{hour}");
        };
        check(&prices, 9, 5, Su::whole(5));
        check(&prices, 9 + 2 * 168, 1, Su::whole(1));
        check(&prices, 10, 2, Su::whole(14));
        check(&prices, 11, 2, Su::ZERO); // nothing of any size was booked
        check(&prices, 12, 2, Su::ZERO);
        check(&prices, 10, -2, Su::ZERO);
        check(&prices, 10, i128::MAX / HOUR_MS, Su::MOST);
        let saved = prices.changed();
        assert_eq!(saved.len(), 2);
        assert_eq!(prices.changed(), []);
        check(&HourPrices::restore(saved), 9, 5, Su::whole(5));
    }

    #[test]
    fn sums_are_halved_before_they_overflow() {
        let mut prices = HourPrices::default();
        let large = i128::from(MOST) * 600;
        for _ in 0..20 {
            prices.record(at(0), large, Su::whole(1_000_000));
            prices.record(at(1), large, Su(i64::MAX));
            prices.record(at(2), i128::MAX, Su(i64::MIN));
        }
        let mean = prices.floor(at(0), large);
        assert!(mean <= Su::whole(1_000_000) && mean >= Su::whole(999_999), "{mean}");
        assert_eq!(prices.floor(at(2), large), Su::ZERO);
        for row in prices.changed() {
            assert!(row.core_s <= MOST && row.extra <= Su::MOST, "{row:?}");
        }
        let absurd = HourPriceRow {
            hour: 3,
            extra: Su(i64::MAX),
            core_s: u64::MAX,
        };
        let hour_of_no_week = HourPriceRow {
            hour: 168,
            ..absurd.clone()
        };
        let mut prices = HourPrices::restore(vec![absurd, hour_of_no_week]);
        prices.record(at(3), HOUR_MS, Su::whole(1));
        assert_eq!(prices.changed().len(), 1);
    }
}
