//! Times as text for messages, in UTC: the controller knows no zones.
//!
//! Source: RFC 3339; the Gregorian calendar with March as the first month of its year, so
//! that a leap day comes last.

use cosy_model::Time;

/// `2026-11-21T14:30:00Z`. A part of a second counts as a whole one, so that a time told as
/// the earliest that passes does pass.
pub(crate) fn utc(time: Time) -> String {
    let secs = time
        .secs()
        .saturating_add(i64::from(time.0.rem_euclid(1000) != 0));
    let (day, second) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
    let (year, month, day) = date(day);
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}Z")
}

/// Year, month and day of the month, `days` after 1970-01-01.
fn date(days: i64) -> (i64, i64, i64) {
    const FROM_YEAR_ZERO: i64 = 719_468; // days from 0000-03-01 to 1970-01-01
    const ERA: i64 = 146_097; // days in 400 years
    let days = days + FROM_YEAR_ZERO;
    let (era, day) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    // Leap days are taken out: every 4 years one, but not every 100, but every 400.
    let year = (day - day / 1460 + day / 36_524 - day / (ERA - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on months are 31, 30, 31, 30, 31 days long, again and again.
    let march = (5 * day + 2) / 153;
    let day = day - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let check = |ms: i64, want: &str| assert_eq!(utc(Time(ms)), want);
        check(0, "1970-01-01T00:00:00Z");
        check(1, "1970-01-01T00:00:01Z"); // rounded up
        check(-1, "1970-01-01T00:00:00Z");
        check(-1000, "1969-12-31T23:59:59Z");
        check(951_782_400_000, "2000-02-29T00:00:00Z");
        check(951_868_800_000, "2000-03-01T00:00:00Z");
        check(1_709_164_800_000, "2024-02-29T00:00:00Z");
        check(4_107_542_400_000, "2100-03-01T00:00:00Z");
        check(1_795_271_400_000, "2026-11-21T14:30:00Z");
        check(253_402_300_799_000, "9999-12-31T23:59:59Z");
    }

    /// Counted day by day, with the lengths of months as every child learns them.
    #[test]
    fn every_day_of_eight_hundred_years() {
        let leap = |y: i64| (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
        let (mut y, mut m, mut d) = (1970, 1, 1);
        for day in 0..800 * 366 {
            assert_eq!(date(day), (y, m, d), "day {day}");
            let last = match m {
                2 if leap(y) => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (y, m, d) = match (m, d == last) {
                (12, true) => (y + 1, 1, 1),
                (_, true) => (y, m + 1, 1),
                (_, false) => (y, m, d + 1),
            };
        }
    }

    #[test]
    fn absurd_times_do_not_panic() {
        for ms in [i64::MIN, i64::MAX, i64::MIN + 1, i64::MAX - 1] {
            assert!(utc(Time(ms)).ends_with('Z'));
        }
    }
}
