//! Points of time and durations as Slurm's commands print them: `2026-11-21T02:20:28`,
//! `1-02:03:04`. Sources: squeue(1) (`%M`, `%l`, `SLURM_TIME_FORMAT`), sacct(1), scontrol(1),
//! captures of 22.05.
//!
//! Knows no clock and no environment: the zone and the present are handed in.

use cosy_model::{Span, Time};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use std::fmt::Write;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// `3`, `50:00`, `1:00:00`, `2-01:00:00`: as `squeue` writes lengths.
pub fn short_duration(out: &mut String, span: Span) {
    let (days, hours, minutes, seconds) = parts(span);
    let written = if days > 0 {
        write!(out, "{days}-{hours:02}:{minutes:02}:{seconds:02}")
    } else if hours > 0 {
        write!(out, "{hours}:{minutes:02}:{seconds:02}")
    } else {
        write!(out, "{minutes}:{seconds:02}")
    };
    debug_assert!(written.is_ok(), "a string takes all");
}

/// `00:00:03`, `2-01:00:00`, `UNLIMITED`: as `sacct` and `scontrol` write durations.
pub fn duration(span: Span) -> String {
    if span.is_unlimited() {
        return "UNLIMITED".to_owned();
    }
    let (days, hours, minutes, seconds) = parts(span);
    if days > 0 {
        format!("{days}-{hours:02}:{minutes:02}:{seconds:02}")
    } else {
        format!("{hours:02}:{minutes:02}:{seconds:02}")
    }
}

fn parts(span: Span) -> (i64, i64, i64, i64) {
    let seconds = span.secs().max(0);
    (seconds / DAY, seconds % DAY / HOUR, seconds % HOUR / MINUTE, seconds % MINUTE)
}

/// The point `at` on the clocks of `zone`, as `scontrol` writes it; `Unknown` beyond the
/// calendar.
pub fn timestamp(at: Time, zone: &TimeZone) -> String {
    let mut out = String::new();
    write_in(&mut out, at, zone, standard);
    out
}

/// Adds `at` as `form` writes it; `Unknown` beyond the calendar.
fn write_in(out: &mut String, at: Time, zone: &TimeZone, form: impl Fn(&mut String, &Zoned)) {
    match Timestamp::from_millisecond(at.0) {
        Ok(at) => form(out, &at.to_zoned(zone.clone())),
        Err(_) => out.push_str("Unknown"),
    }
}

/// The same, or `without` where there is none.
pub fn timestamp_or(at: Option<Time>, zone: &TimeZone, without: &str) -> String {
    at.map_or_else(|| without.to_owned(), |at| timestamp(at, zone))
}

/// How points of time are written: `SLURM_TIME_FORMAT`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum TimeFormat {
    /// Date and time, `2026-11-21T02:20:28`.
    #[default]
    Standard,
    /// `02:20:28` today, `Tomorr 02:20`, `Ystday 02:20`, `Sat 02:20` within a week,
    /// `21 Nov 02:20` within a year.
    Relative,
    /// A format of strftime(3).
    Pattern(String),
}

impl From<&str> for TimeFormat {
    fn from(text: &str) -> Self {
        match text {
            "" | "standard" => Self::Standard,
            "relative" => Self::Relative,
            pattern => Self::Pattern(pattern.to_owned()),
        }
    }
}

/// Writes points of time in a zone.
#[derive(Clone, Debug)]
pub struct TimeWriter {
    zone: TimeZone,
    form: TimeFormat,
    today: Date,
}

impl TimeWriter {
    /// In the zone of `now`.
    pub fn new(now: &Zoned, form: TimeFormat) -> Self {
        Self {
            zone: now.time_zone().clone(),
            form,
            today: now.date(),
        }
    }

    /// Adds `at`; `Unknown` beyond the calendar.
    pub fn write(&self, out: &mut String, at: Time) {
        write_in(out, at, &self.zone, |out, at| self.zoned(out, at));
    }

    /// The same as a text of its own.
    pub fn text(&self, at: Time) -> String {
        let mut out = String::new();
        self.write(&mut out, at);
        out
    }

    fn zoned(&self, out: &mut String, at: &Zoned) {
        match &self.form {
            TimeFormat::Standard => standard(out, at),
            TimeFormat::Relative => out.push_str(&self.relative(at)),
            TimeFormat::Pattern(pattern) => match formatted(pattern, at) {
                Some(text) => out.push_str(&text),
                None => standard(out, at),
            },
        }
    }

    fn relative(&self, at: &Zoned) -> String {
        let days = self
            .today
            .until(at.date())
            .map_or(i32::MAX, |s| s.get_days());
        let pattern = match days {
            0 => "%H:%M:%S",
            1 => "Tomorr %H:%M",
            -1 => "Ystday %H:%M",
            -6..=6 => "%a %H:%M",
            -365..=365 => "%-d %b %H:%M",
            _ => "%-d %b %Y",
        };
        formatted(pattern, at).unwrap_or_default()
    }
}

fn standard(out: &mut String, at: &Zoned) {
    let written = write!(
        out,
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        at.year(),
        at.month(),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    );
    debug_assert!(written.is_ok(), "a string takes all");
}

/// `None` where the pattern is none.
fn formatted(pattern: &str, at: &Zoned) -> Option<String> {
    jiff::fmt::strtime::format(pattern, at).ok()
}

/// `Sat Nov 21 02:20:31 2026`: the line above long reports.
pub fn heading(now: &Zoned) -> String {
    formatted("%a %b %d %H:%M:%S %Y", now).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths() {
        let check = |seconds: i64, want: &str, want_padded: &str| {
            let (mut short, span) = (String::new(), Span::from_secs(seconds));
            short_duration(&mut short, span);
            assert_eq!((short.as_str(), duration(span).as_str()), (want, want_padded));
        };
        check(0, "0:00", "00:00:00");
        check(3, "0:03", "00:00:03");
        check(3000, "50:00", "00:50:00");
        check(3600, "1:00:00", "01:00:00");
        check(176_400, "2-01:00:00", "2-01:00:00");
        check(-5, "0:00", "00:00:00");
        assert_eq!(duration(Span(i64::MAX)), "UNLIMITED");
    }

    fn noon() -> Zoned {
        "2026-11-21T12:00:00+01:00[+01:00]".parse().unwrap()
    }

    #[test]
    fn stamps() {
        let check = |form: &str, seconds: i64, want: &str| {
            let at = Time(noon().timestamp().as_millisecond() + seconds * 1000);
            assert_eq!(TimeWriter::new(&noon(), form.into()).text(at), want, "{form}");
        };
        check("standard", 0, "2026-11-21T12:00:00");
        check("", 61, "2026-11-21T12:01:01");
        check("%s", 0, "1795258800");
        check("%H:%M", 0, "12:00");
        check("%", 0, "2026-11-21T12:00:00");
        check("relative", 0, "12:00:00");
        check("relative", DAY, "Tomorr 12:00");
        check("relative", -DAY, "Ystday 12:00");
        check("relative", 3 * DAY, "Tue 12:00");
        check("relative", -30 * DAY, "22 Oct 12:00");
        check("relative", 900 * DAY, "9 May 2029");
        assert_eq!(heading(&noon()), "Sat Nov 21 12:00:00 2026");
    }

    #[test]
    fn points_in_a_zone() {
        let check = |secs: i64, want: &str| {
            assert_eq!(timestamp(Time::from_secs(secs), &TimeZone::UTC), want);
        };
        check(0, "1970-01-01T00:00:00");
        check(1_795_227_325, "2026-11-21T02:15:25");
        check(i64::MAX, "Unknown");
        assert_eq!(timestamp_or(None, &TimeZone::UTC, "N/A"), "N/A");
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        assert_eq!(timestamp(Time(0), &zone), "1970-01-01T01:00:00");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_time_and_form(at: i64, form in "[%a-zA-Z0-9.:+-]{0,12}") {
            let text = TimeWriter::new(&noon(), form.as_str().into()).text(Time(at));
            prop_assert!(text.len() < 10_000);
        }
    }
}
