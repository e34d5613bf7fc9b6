//! Points in time as users write them (`now+2h`, `16:30`, `tomorrow`, RFC 3339) and as
//! the commands print them. The present and the zone are handed in.

use crate::units::{brief, brief_up};
use cosy_model::{Span, Time};
pub use cosy_view::json::rfc3339;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan, Zoned};

/// Which day is meant by a time of day without a date, like `16:30`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The next such time: for what is still to happen.
    Future,
    /// The last such time: for what has happened.
    Past,
}

const HELP: &str = "no point in time: use now+2h, 16:30, tomorrow, 2026-11-21, \
     2026-11-21T10:00 or RFC 3339 with a zone";

/// The present in the user's zone.
pub fn now() -> Zoned {
    Timestamp::now().to_zoned(crate::zone::local())
}

/// The same point in time in milliseconds since 1970, without a zone.
pub fn time_of(zoned: &Zoned) -> Time {
    Time(zoned.timestamp().as_millisecond())
}

/// Reads a point in time: `now`, `now+SPAN`, `now-SPAN`, `[DATE ]HH:MM[:SS]`, a date
/// (`today`, `tomorrow`, `yesterday`, `2026-11-21`; its first moment), date and time
/// joined by `T` or a blank, RFC 3339 with a zone.
///
/// # Errors
/// The text is no time; one line says what can be used.
pub fn parse(text: &str, now: &Zoned, direction: Direction) -> Result<Time, String> {
    parse_noting(text, now, direction, &mut Vec::new())
}

/// The same; what was taken for a local time that does not exist or exists twice is added to `notes`.
///
/// # Errors
/// The text is no time; one line says what can be used.
pub fn parse_noting(
    text: &str,
    now: &Zoned,
    direction: Direction,
    notes: &mut Vec<String>,
) -> Result<Time, String> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix("now") {
        return relative(rest, now);
    }
    if let Ok(stamp) = text.parse::<Timestamp>() {
        return Ok(Time(stamp.as_millisecond()));
    }
    let bad = || HELP.to_owned();
    let (date, clock) = match text.split_once(['T', ' ']) {
        Some((date, clock)) => (Some(date), Some(clock)),
        None if text.contains(':') => (None, Some(text)),
        None => (Some(text), None),
    };
    let clock = match clock {
        Some(clock) => time_of_day(clock).ok_or_else(bad)?,
        None => jiff::civil::Time::midnight(),
    };
    match date {
        Some(date) => zoned(day(date, now).ok_or_else(bad)?.to_datetime(clock), now, notes),
        None => on_nearest_day(clock, now, direction, notes),
    }
}

fn relative(rest: &str, now: &Zoned) -> Result<Time, String> {
    let at = time_of(now);
    let bad = || "after 'now' a length with its unit is needed, like now+90m or now+2h".to_owned();
    let span = |text: &str| -> Result<Span, String> {
        let text = text.trim();
        let fine = text.ends_with(|c: char| c.is_ascii_alphabetic()) || text.contains(':');
        let span = words_to_units(text).parse::<Span>();
        span.ok()
            .filter(|s| fine && !s.is_unlimited())
            .ok_or_else(bad)
    };
    let rest = rest.trim_start();
    match (rest.strip_prefix('+'), rest.strip_prefix('-')) {
        (Some(text), _) => Ok(at + span(text)?),
        (None, Some(text)) => Ok(at - span(text)?),
        (None, None) if rest.is_empty() => Ok(at),
        (None, None) => Err(bad()),
    }
}

/// `2hours` is `2h`.
fn words_to_units(text: &str) -> String {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    match &text[digits.len()..] {
        "second" | "seconds" | "sec" => format!("{digits}s"),
        "minute" | "minutes" | "min" => format!("{digits}m"),
        "hour" | "hours" => format!("{digits}h"),
        "day" | "days" => format!("{digits}d"),
        "week" | "weeks" | "w" => digits
            .parse::<u32>()
            .map_or_else(|_| text.to_owned(), |n| format!("{}d", u64::from(n) * 7)),
        _ => text.to_owned(),
    }
}

fn time_of_day(text: &str) -> Option<jiff::civil::Time> {
    let parts: Vec<i8> = text
        .split(':')
        .map(|p| {
            let fine = (1..=2).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_digit());
            fine.then(|| p.parse().ok()).flatten()
        })
        .collect::<Option<_>>()?;
    match *parts.as_slice() {
        [h, m] => jiff::civil::Time::new(h, m, 0, 0).ok(),
        [h, m, s] => jiff::civil::Time::new(h, m, s, 0).ok(),
        _ => None,
    }
}

fn day(text: &str, now: &Zoned) -> Option<Date> {
    let today = now.date();
    match text {
        "today" => Some(today),
        "tomorrow" => today.tomorrow().ok(),
        "yesterday" => today.yesterday().ok(),
        _ => text.parse().ok(),
    }
}

fn zoned(at: DateTime, now: &Zoned, notes: &mut Vec<String>) -> Result<Time, String> {
    local(at, now.time_zone(), notes).ok_or_else(|| HELP.to_owned())
}

/// The point at which clocks in `zone` show `at`. Where they never do, it is as long after
/// the change as `at` is after the first missing moment; where they do twice, the first
/// (RFC 5545, 3.3.5). Both are told in `notes`. `None` beyond the calendar.
pub fn local(at: DateTime, zone: &TimeZone, notes: &mut Vec<String>) -> Option<Time> {
    let found = zone.to_ambiguous_zoned(at);
    let offset = found.offset();
    let taken = found.compatible().ok()?;
    let name = zone.iana_name().unwrap_or("this zone");
    let (requested, shown) = (at.strftime("%Y-%m-%d %H:%M"), taken.strftime("%H:%M %:z"));
    match offset {
        AmbiguousOffset::Unambiguous { .. } => {}
        AmbiguousOffset::Gap { .. } => notes.push(format!(
            "{requested} does not exist in {name} (clocks are put forward): taken as {shown}"
        )),
        AmbiguousOffset::Fold { .. } => notes.push(format!(
            "{requested} exists twice in {name} (clocks are put back): taken as the first, {shown}"
        )),
    }
    Some(time_of(&taken))
}

fn on_nearest_day(
    clock: jiff::civil::Time,
    now: &Zoned,
    direction: Direction,
    notes: &mut Vec<String>,
) -> Result<Time, String> {
    let at = |date: Date, notes: &mut Vec<String>| zoned(date.to_datetime(clock), now, notes);
    let mut day_notes = Vec::new();
    let today = at(now.date(), &mut day_notes)?;
    let other = match direction {
        Direction::Future if today < time_of(now) => now.date().checked_add(1.day()),
        Direction::Past if today > time_of(now) => now.date().checked_sub(1.day()),
        Direction::Future | Direction::Past => {
            notes.append(&mut day_notes);
            return Ok(today);
        }
    };
    at(other.map_err(|_| HELP.to_owned())?, notes)
}

/// In the user's zone, whole.
pub fn long(time: Time, now: &Zoned) -> String {
    in_zone(time, now)
        .map_or_else(|| "far ahead".to_owned(), |z| z.strftime("%Y-%m-%d %H:%M:%S %:z").to_string())
}

/// In the user's zone, as short as it can be told: the time of today, else the date too,
/// else the year.
pub fn short(time: Time, now: &Zoned) -> String {
    let Some(z) = in_zone(time, now) else {
        return "far ahead".to_owned();
    };
    let form = if z.date() == now.date() {
        "%H:%M:%S"
    } else if z.year() == now.year() {
        "%m-%d %H:%M"
    } else {
        "%Y-%m-%d"
    };
    z.strftime(form).to_string()
}

/// As seen from now, as short as possible: `5m ago`, `now`, `in 3h20m`. What is to come is rounded
/// up, so that nothing is promised too early.
pub fn seen_from_now(time: Time, now: &Zoned) -> String {
    if in_zone(time, now).is_none() {
        return "far ahead".to_owned();
    }
    let to_come = time.0.saturating_sub(time_of(now).0);
    match to_come {
        1.. => format!("in {}", brief_up(Span(to_come))),
        -999..=0 => "now".to_owned(),
        _ => format!("{} ago", brief(Span(to_come.saturating_neg()))),
    }
}

/// In the zone of `now`; `None` beyond the calendar.
pub fn in_zone(time: Time, now: &Zoned) -> Option<Zoned> {
    let stamp = Timestamp::from_millisecond(time.0).ok()?;
    Some(stamp.to_zoned(now.time_zone().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noon() -> Zoned {
        "2026-11-21T12:00:00+01:00[+01:00]".parse().unwrap()
    }

    #[test]
    fn reads() {
        let check = |text: &str, direction: Direction, want: Option<&str>| {
            let got = parse(text, &noon(), direction).ok().and_then(rfc3339);
            let want = want.map(|w| format!("{w}.000Z"));
            assert_eq!(got, want, "{text} {direction:?}");
        };
        use Direction::{Future, Past};
        check("now", Future, Some("2026-11-21T11:00:00"));
        check("now+2h", Future, Some("2026-11-21T13:00:00"));
        check("now + 90m", Future, Some("2026-11-21T12:30:00"));
        check("now+2hours", Future, Some("2026-11-21T13:00:00"));
        check("now+1week", Future, Some("2026-11-28T11:00:00"));
        check("now+1:30:00", Future, Some("2026-11-21T12:30:00"));
        check("now-1d", Past, Some("2026-11-20T11:00:00"));
        check("16:30", Future, Some("2026-11-21T15:30:00"));
        check("16:30", Past, Some("2026-11-20T15:30:00"));
        check("8:00", Future, Some("2026-11-22T07:00:00"));
        check("08:00:30", Past, Some("2026-11-21T07:00:30"));
        check("today", Future, Some("2026-11-20T23:00:00"));
        check("tomorrow", Future, Some("2026-11-21T23:00:00"));
        check("tomorrow 10:00", Future, Some("2026-11-22T09:00:00"));
        check("yesterday", Past, Some("2026-11-19T23:00:00"));
        check("2026-12-01", Future, Some("2026-11-30T23:00:00"));
        check("2026-12-01T10:00", Future, Some("2026-12-01T09:00:00"));
        check("2026-07-01 10:00:05", Past, Some("2026-07-01T09:00:05"));
        check("2026-11-21T10:00:00Z", Future, Some("2026-11-21T10:00:00"));
        check("2026-11-21T10:00:00+05:00", Future, Some("2026-11-21T05:00:00"));
        for bad in [
            "",
            "foo",
            "now+",
            "now+5",
            "now*2h",
            "nowhere",
            "25:00",
            "1:2:3:4",
            "16:",
            "T",
            "12",
            "2026-13-01",
            "2026-02-30",
            "now+99999999999999999999h",
            "now+unlimited",
            "é",
            "now é",
            "tomorrow+1",
            "10000-01-01",
        ] {
            check(bad, Future, None);
        }
    }

    #[test]
    fn odd_times_are_told() {
        let now: Zoned = "2027-01-01T12:00:00+01:00[Europe/Berlin]".parse().unwrap();
        let check = |text: &str, want: &str, notice: &str| {
            let mut notes = Vec::new();
            let got = parse_noting(text, &now, Direction::Future, &mut notes).unwrap();
            assert_eq!(rfc3339(got).unwrap(), want, "{text}");
            assert_eq!(notes.join("|"), notice, "{text}");
        };
        check("2027-03-27 02:30", "2027-03-27T01:30:00.000Z", "");
        check(
            "2027-03-28 02:30",
            "2027-03-28T01:30:00.000Z",
            "2027-03-28 02:30 does not exist in Europe/Berlin (clocks are put forward): \
             taken as 03:30 +02:00",
        );
        check(
            "2027-10-31 02:30",
            "2027-10-31T00:30:00.000Z",
            "2027-10-31 02:30 exists twice in Europe/Berlin (clocks are put back): taken as \
             the first, 02:30 +02:00",
        );
        check("2027-10-31T02:30:00+01:00", "2027-10-31T01:30:00.000Z", "");
    }

    #[test]
    fn prints() {
        let now = noon();
        let at = |text: &str| parse(text, &now, Direction::Future).unwrap();
        assert_eq!(short(at("16:30"), &now), "16:30:00");
        assert_eq!(short(at("tomorrow"), &now), "11-22 00:00");
        assert_eq!(short(at("2027-01-01"), &now), "2027-01-01");
        assert_eq!(short(Time::FAR, &now), "far ahead");
        assert_eq!(long(at("16:30"), &now), "2026-11-21 16:30:00 +01:00");
        assert_eq!(rfc3339(Time::FAR), None);
    }

    #[test]
    fn as_seen_from_now() {
        let now = noon();
        let check = |ms: i64, want: &str| {
            assert_eq!(seen_from_now(Time(time_of(&now).0 + ms), &now), want, "{ms}");
        };
        check(0, "now");
        check(-999, "now");
        check(-1000, "1s ago");
        check(-65_500, "1m5s ago");
        check(1, "in 1s");
        check(3_600_000, "in 1h");
        check(3_599_001, "in 1h");
        check(-2 * 86_400_000, "2d ago");
        assert_eq!(seen_from_now(Time::FAR, &now), "far ahead");
    }
}
