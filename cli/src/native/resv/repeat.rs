//! Starts that repeat by a rule (RFC 5545, `RRULE`), worked out in the user's zone.
//!
//! The rule is followed on the clock on the wall: the library sees plain dates and times
//! without any zone, and each of them is then looked up in the zone. So 14:00 stays 14:00
//! when summer time ends. At most [`REPEATS`] starts, never an endless rule, and work that
//! is bounded by the library's own limit on steps.

use crate::times;
use cosy_model::Time;
use cosy_model::limits::REPEATS;
use cosy_model::reservation::Repeat;
use jiff::Zoned;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rrule::RRuleSet;

/// Longest rule, in bytes.
const RULE_BYTES: usize = 500;
/// The form of a point in time in a rule.
const FORM: &str = "%Y%m%dT%H%M%S";

/// All starts by `rule` from `first` on, in the zone of `now`. Notes for the user are added to
/// `notes`.
///
/// # Errors
/// The text is no rule, or gives no start, too many, or endlessly many; one line says which.
pub fn repeat(
    rule: &str,
    first: Time,
    now: &Zoned,
    as_many_as_fit: bool,
    notes: &mut Vec<String>,
) -> Result<Repeat, String> {
    let bad = |why: String| format!("--repeat: '{}' {why}", super::words::clean(shorten(rule)));
    let zone = now.time_zone();
    let begin = times::in_zone(first, now)
        .ok_or_else(|| bad("begins beyond the calendar".to_owned()))?
        .datetime();
    let plain = plain_rule(rule, zone).map_err(bad)?;
    let dates = dates(begin, &plain).map_err(bad)?;
    let mut starts = Vec::new();
    for date in dates {
        let start = times::local(date, zone, notes)
            .ok_or_else(|| bad("goes beyond the calendar".to_owned()))?;
        starts.push(start);
    }
    starts.sort_unstable();
    starts.dedup();
    match starts.first() {
        None => return Err(bad("gives no start at all".to_owned())),
        Some(start) if *start != first => notes
            .push(format!("the first start by the rule is {}", super::words::clock(*start, now))),
        Some(_) => {}
    }
    Ok(Repeat {
        rule: rule.trim().to_owned(),
        starts,
        as_many_as_fit,
    })
}

fn shorten(rule: &str) -> &str {
    let end = rule.char_indices().nth(80).map_or(rule.len(), |(at, _)| at);
    &rule[..end]
}

/// The rule in capitals, its end brought to the clock on the wall. Checked for what a
/// reservation cannot have.
fn plain_rule(rule: &str, zone: &TimeZone) -> Result<String, String> {
    if rule.len() > RULE_BYTES {
        return Err(format!("has {} bytes; at most {RULE_BYTES} are allowed", rule.len()));
    }
    let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'=' | b';' | b',' | b'-' | b'+');
    let upper = rule.trim().to_ascii_uppercase();
    let upper = upper.strip_prefix("RRULE:").unwrap_or(&upper);
    if upper.is_empty() || !upper.bytes().all(fine) {
        return Err("is no rule of RFC 5545, like FREQ=WEEKLY;BYDAY=MO;COUNT=10".to_owned());
    }
    let mut ends = false;
    let mut parts = Vec::new();
    for part in upper.split(';').filter(|p| !p.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        ends |= matches!(name, "COUNT" | "UNTIL");
        parts.push(match name {
            "COUNT" => count(value)?,
            "UNTIL" => format!("UNTIL={}Z", until(value, zone)?.strftime(FORM)),
            "FREQ" if matches!(value, "SECONDLY" | "MINUTELY") => {
                return Err("repeats too often: hourly is the most that can be reserved".to_owned());
            }
            _ => part.to_owned(),
        });
    }
    if !ends {
        return Err("has no end: add COUNT=N or UNTIL=DATE, like COUNT=10".to_owned());
    }
    Ok(parts.join(";"))
}

fn count(value: &str) -> Result<String, String> {
    let n: Option<usize> = value.parse().ok();
    match n {
        Some(n) if (1..=REPEATS).contains(&n) => Ok(format!("COUNT={n}")),
        Some(_) | None => Err(format!(
            "has a COUNT that cannot be: from 1 to {REPEATS} starts can be reserved at once"
        )),
    }
}

/// The end of a rule: a date (its last second), a local time, or a time in UTC.
fn until(value: &str, zone: &TimeZone) -> Result<DateTime, String> {
    let bad = || "has an UNTIL that is no date: use 20261231, 20261231T140000 or 20261231T140000Z";
    let date = |text: &str| DateTime::strptime(FORM, text).map_err(|_| bad().to_owned());
    match (value.strip_suffix('Z'), value.len()) {
        (Some(utc), _) => {
            let at = date(utc)?.to_zoned(TimeZone::UTC);
            let at = at.map_err(|_| bad().to_owned())?;
            Ok(at.with_time_zone(zone.clone()).datetime())
        }
        (None, 8) => date(&format!("{value}T235959")),
        (None, _) => date(value),
    }
}

/// The dates of the rule on the clock on the wall; the library is told that this clock
/// shows UTC, where every time exists once.
fn dates(begin: DateTime, rule: &str) -> Result<Vec<DateTime>, String> {
    let begin = begin.strftime(FORM);
    let set: RRuleSet =
        format!("DTSTART:{begin}Z\nRRULE:{rule}")
            .parse()
            .map_err(|e: rrule::RRuleError| {
                format!("is no rule of RFC 5545 that can be followed: {e}")
            })?;
    let most = u16::try_from(REPEATS + 1).unwrap_or(u16::MAX);
    let found = set.all(most);
    if found.dates.len() > REPEATS {
        return Err(format!("gives more than {REPEATS} starts: lower COUNT or UNTIL"));
    }
    let local = |secs: i64| {
        let stamp = jiff::Timestamp::from_second(secs).ok()?;
        Some(stamp.to_zoned(TimeZone::UTC).datetime())
    };
    let dates = found.dates.iter().map(|d| local(d.timestamp()));
    dates
        .collect::<Option<_>>()
        .ok_or_else(|| "goes beyond the calendar".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::times::Direction;
    use proptest::prelude::*;

    fn now() -> Zoned {
        "2026-10-01T12:00:00+02:00[Europe/Berlin]".parse().unwrap()
    }

    fn starts(rule: &str, first: &str) -> Result<(Vec<String>, Vec<String>), String> {
        let mut notes = Vec::new();
        let first = times::parse(first, &now(), Direction::Future).unwrap();
        let repeat = repeat(rule, first, &now(), false, &mut notes)?;
        let show = |t: &Time| {
            times::in_zone(*t, &now())
                .unwrap()
                .strftime("%m-%d %H:%M %:z")
                .to_string()
        };
        Ok((repeat.starts.iter().map(show).collect(), notes))
    }

    #[test]
    fn rules() {
        let check = |rule: &str, first: &str, want: &[&str], notice: &str| {
            let (got, notes) = starts(rule, first).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(got, want, "{rule}");
            assert!(notes.join("|").contains(notice), "{rule}: {notes:?}");
            assert_eq!(notes.is_empty(), notice.is_empty(), "{rule}: {notes:?}");
        };
        // 14:00 stays 14:00 over the end of summer time.
        check(
            "FREQ=WEEKLY;BYDAY=MO;COUNT=3",
            "2026-10-19 14:00",
            &[
                "10-19 14:00 +02:00",
                "10-26 14:00 +01:00",
                "11-02 14:00 +01:00",
            ],
            "",
        );
        check(
            "rrule:freq=daily;until=20261003",
            "2026-10-02 08:00",
            &["10-02 08:00 +02:00", "10-03 08:00 +02:00"],
            "",
        );
        // 06:00 in UTC is 08:00: the last start is still in.
        check(
            "FREQ=DAILY;UNTIL=20261003T060000Z",
            "2026-10-02 08:00",
            &["10-02 08:00 +02:00", "10-03 08:00 +02:00"],
            "",
        );
        check(
            "FREQ=WEEKLY;BYDAY=MO;COUNT=1",
            "2026-10-20 14:00",
            &["10-26 14:00 +01:00"],
            "the first start by the rule is 10-26 14:00",
        );
        check(
            "FREQ=DAILY;COUNT=2",
            "2026-10-24 02:30",
            &["10-24 02:30 +02:00", "10-25 02:30 +02:00"],
            "2026-10-25 02:30 exists twice",
        );
        check(
            "FREQ=DAILY;COUNT=2",
            "2027-03-27 02:30",
            &["03-27 02:30 +01:00", "03-28 03:30 +02:00"],
            "2027-03-28 02:30 does not exist",
        );
    }

    #[test]
    fn no_rules() {
        let check = |rule: &str, want: &str| {
            let error = starts(rule, "2026-10-19 14:00").expect_err(rule);
            assert!(error.contains(want), "{rule}: {error}");
            assert!(!error.contains('\n'), "{rule}: {error}");
        };
        check("FREQ=WEEKLY;BYDAY=MO", "has no end");
        check("FREQ=SECONDLY;UNTIL=99991231", "too often");
        check("FREQ=HOURLY;UNTIL=99991231", "more than 400 starts");
        check("FREQ=DAILY;COUNT=401", "from 1 to 400");
        check("FREQ=DAILY;COUNT=0", "from 1 to 400");
        check("FREQ=DAILY;COUNT=-1", "from 1 to 400");
        check("FREQ=DAILY;UNTIL=2026", "no date");
        check("FREQ=DAILY;UNTIL=20261301", "no date");
        check("FREQ=DAILY;UNTIL=20200101", "");
        check("FREQ=DAILY;INTERVAL=0;COUNT=3", "no start at all");
        check("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;COUNT=3", "no start at all");
        check("FREQ=SOMETIMES;COUNT=3", "no rule");
        check("COUNT=3", "no rule");
        check("", "no rule");
        check("é", "no rule");
        check("FREQ=DAILY;COUNT=3\nRDATE:20261111T100000Z", "no rule");
        check(&"X".repeat(501), "501 bytes");
    }

    fn part() -> impl Strategy<Value = String> {
        let name = prop::sample::select(vec![
            "FREQ",
            "COUNT",
            "UNTIL",
            "INTERVAL",
            "BYDAY",
            "BYMONTH",
            "BYMONTHDAY",
            "BYYEARDAY",
            "BYWEEKNO",
            "BYHOUR",
            "BYMINUTE",
            "BYSECOND",
            "BYSETPOS",
            "WKST",
            "BYEASTER",
            "X",
        ]);
        let value = prop_oneof![
            prop::sample::select(vec![
                "HOURLY",
                "DAILY",
                "WEEKLY",
                "MONTHLY",
                "YEARLY",
                "MO",
                "-1SU,53TU",
                "99991231",
                "20270101T000000Z",
                "00010101T000000",
                "2,30",
                "-366,366",
                "0",
                "65535",
            ])
            .prop_map(str::to_owned),
            any::<i32>().prop_map(|n| n.to_string()),
            prop::collection::vec(-60i32..400, 1..8).prop_map(|v| v
                .iter()
                .map(i32::to_string)
                .collect::<Vec<_>>()
                .join(",")),
        ];
        (name, value).prop_map(|(n, v)| format!("{n}={v}"))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

        #[test]
        fn no_text_panics(text in "\\PC*", bytes in "[A-Z0-9=;,+-]{0,60}") {
            let _ = starts(&text, "2026-10-19 14:00");
            let _ = starts(&bytes, "2026-10-19 14:00");
        }

        #[test]
        fn no_rule_runs_away(
            freq in prop::sample::select(vec!["HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY"]),
            parts in prop::collection::vec(part(), 0..5),
            count in prop::bool::ANY,
        ) {
            let end = if count { "COUNT=400" } else { "UNTIL=99991231T235959Z" };
            let rule = format!("FREQ={freq};{};{end}", parts.join(";"));
            if let Ok((got, _)) = starts(&rule, "2026-10-19 14:00") {
                prop_assert!(!got.is_empty() && got.len() <= REPEATS);
            }
        }
    }
}
