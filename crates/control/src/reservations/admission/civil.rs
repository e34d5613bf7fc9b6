//! Times as text for messages, in UTC: the controller knows no zones.

use cosy_model::Time;
use jiff::Timestamp;

/// `2026-11-21T14:30:00Z`. A part of a second counts as a whole one, so that a time told as
/// the earliest that passes does pass. Times beyond the years -9999 to 9999 are told as the
/// last moment inside.
pub(crate) fn utc(time: Time) -> String {
    let part = i64::from(time.0.rem_euclid(1000) != 0);
    let secs = time.secs().saturating_add(part);
    let inside = secs.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    Timestamp::from_second(inside)
        .unwrap_or_default()
        .to_string()
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
        check(253_402_207_199_000, "9999-12-30T21:59:59Z");
    }

    /// Counted day by day, with the lengths of months as every child learns them.
    #[test]
    fn every_day_of_eight_hundred_years() {
        let leap = |y: i64| (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
        let (mut y, mut m, mut d) = (1970, 1, 1);
        for day in 0..800 * 366 {
            let want = format!("{y:04}-{m:02}-{d:02}T00:00:00Z");
            assert_eq!(utc(Time(day * 86_400_000)), want, "day {day}");
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
