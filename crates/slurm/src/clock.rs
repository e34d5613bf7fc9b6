//! Times and lengths of time as Slurm's commands print them: `2026-11-21T02:20:28` in the
//! user's zone, `1-02:03:04`.
//!
//! Knows no clock and no environment: the zone is handed in. Source: scontrol(1),
//! squeue(1), captures of 22.05.

use cosy_model::{Span, Time};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The point `at` on the clocks of `zone`; `Unknown` beyond the calendar.
pub fn stamp(at: Time, zone: &TimeZone) -> String {
    Timestamp::from_millisecond(at.0).map_or_else(
        |_| "Unknown".to_owned(),
        |t| {
            t.to_zoned(zone.clone())
                .strftime("%Y-%m-%dT%H:%M:%S")
                .to_string()
        },
    )
}

/// The same, or `without` where there is none.
pub fn stamp_or(at: Option<Time>, zone: &TimeZone, without: &str) -> String {
    at.map_or_else(|| without.to_owned(), |at| stamp(at, zone))
}

/// `[D-]HH:MM:SS` with all fields, as scontrol prints lengths; `UNLIMITED` without end.
pub fn span(length: Span) -> String {
    if length.is_unlimited() {
        return "UNLIMITED".to_owned();
    }
    length.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps() {
        let check = |secs: i64, want: &str| {
            assert_eq!(stamp(Time::from_secs(secs), &TimeZone::UTC), want);
        };
        check(0, "1970-01-01T00:00:00");
        check(1_795_227_325, "2026-11-21T02:15:25");
        check(i64::MAX, "Unknown");
        assert_eq!(stamp_or(None, &TimeZone::UTC, "N/A"), "N/A");
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        assert_eq!(stamp(Time(0), &zone), "1970-01-01T01:00:00");
    }

    #[test]
    fn spans() {
        let check = |secs: i64, want: &str| assert_eq!(span(Span::from_secs(secs)), want);
        check(4, "00:00:04");
        check(3000, "00:50:00");
        check(176_400, "2-01:00:00");
        check(-5, "00:00:00");
        check(i64::MAX, "UNLIMITED");
    }
}
