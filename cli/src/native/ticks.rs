//! Round places on an axis: times that people read on a clock, and sums with one digit.
//!
//! It knows nothing of pictures; the zone is handed in.

use crate::native::resv::words;
use cosy_model::{Span, Su, Time};
use jiff::{Timestamp, Zoned};

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
/// Milliseconds of a day.
pub const DAY: i64 = 24 * HOUR;
/// Lengths that people like to read, in milliseconds.
const ROUND_MS: [i64; 23] = [
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    30 * SECOND,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    4 * DAY,
    7 * DAY,
    14 * DAY,
    28 * DAY,
    56 * DAY,
];

/// The least round length of at least so many milliseconds; days beyond those.
pub fn round_up(least_ms: i64) -> i64 {
    let round = ROUND_MS.into_iter().find(|r| *r >= least_ms);
    round.unwrap_or_else(|| (least_ms / DAY).saturating_add(1).saturating_mul(DAY))
}

/// Round times from `from` to `to`, at most about `most`, as the clock on the wall has them, with
/// their words: the date only where it is not today's.
pub fn times(from: Time, to: Time, most: i64, now: &Zoned) -> Vec<(Time, String)> {
    let step = round_up(to.since(from).0.max(0) / most.max(1));
    let offset = offset_ms(from, now);
    let local = from.0.saturating_add(offset);
    let mut mark = local.div_euclid(step).saturating_mul(step);
    let mut marks = Vec::new();
    while mark.saturating_sub(offset) <= to.0 && (marks.len() as i64) <= most {
        // Summer time may have begun or ended since the first.
        let there = offset_ms(Time(mark.saturating_sub(offset)), now);
        let time = Time(mark.saturating_sub(there));
        if time >= from && time <= to {
            marks.push((time, label(time, step, now)));
        }
        mark = mark.saturating_add(step);
    }
    marks
}

fn label(time: Time, step: i64, now: &Zoned) -> String {
    let words = words::clock(time, now);
    match words.strip_suffix(" 00:00") {
        Some(date) if step >= DAY => date.to_owned(),
        Some(_) | None => words,
    }
}

fn offset_ms(time: Time, now: &Zoned) -> i64 {
    let zone = now.time_zone();
    let there = Timestamp::from_millisecond(time.0).map(|stamp| zone.to_offset(stamp));
    let offset = there.unwrap_or_else(|_| now.offset());
    i64::from(offset.seconds()) * SECOND
}

/// The least sum of at least `most` with one digit that is 1, 2 or 5; 1 SU where that is nothing.
pub fn sum(most: Su) -> Su {
    let mut power: i64 = 1;
    if most.0 <= 0 {
        return Su::whole(1);
    }
    loop {
        let round = [1, 2, 5].map(|digit| power.saturating_mul(digit));
        if let Some(sum) = round.into_iter().find(|sum| *sum >= most.0) {
            return Su(sum);
        }
        power = power.saturating_mul(10);
    }
}

/// The same of a length.
pub fn length(most: Span) -> Span {
    Span(round_up(most.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::resv::slots::sample::{at, now};

    #[test]
    fn clocks() {
        let check = |from: &str, to: &str, most: i64, want: &[&str]| {
            let got = times(at(from), at(to), most, &now());
            let got: Vec<_> = got.iter().map(|(_, words)| words.as_str()).collect();
            assert_eq!(got, want);
        };
        check("12:03", "13:58", 7, &["12:30", "13:00", "13:30"]);
        check("12:00", "12:04", 7, &["12:00", "12:01", "12:02", "12:03", "12:04"]);
        check(
            "18:00",
            "2026-11-22 14:00",
            4,
            &["18:00", "11-22 00:00", "11-22 06:00", "11-22 12:00"],
        );
        check("12:00", "2026-11-25 12:00", 4, &["11-22", "11-23", "11-24", "11-25"]);
        assert!(times(at("12:00"), Time::FAR, 7, &now()).len() <= 8);
        assert!(times(Time(i64::MIN), Time(i64::MAX), 7, &now()).len() <= 8);
        assert_eq!(times(at("12:00:30"), at("12:00:00"), 7, &now()), []);
    }

    /// Summer time ends at 03:00 on 2026-10-25 in Berlin.
    #[test]
    fn the_clock_on_the_wall_counts() {
        let now: Zoned = "2026-10-24T12:00:00+02:00[Europe/Berlin]".parse().unwrap();
        let from = crate::times::time_of(&now);
        let got = times(from, from + Span(DAY), 4, &now);
        let got: Vec<_> = got.iter().map(|(_, words)| words.as_str()).collect();
        assert_eq!(got, ["12:00", "18:00", "10-25 00:00", "10-25 06:00"]);
    }

    #[test]
    fn sums() {
        let check = |most: i64, want: i64| assert_eq!(sum(Su(most)), Su(want));
        check(0, 1_000_000);
        check(-5, 1_000_000);
        check(17_269_116, 20_000_000);
        check(2_000_000, 2_000_000);
        check(2_000_001, 5_000_000);
        check(25_834, 50_000);
        check(i64::MAX, i64::MAX);
    }
}
