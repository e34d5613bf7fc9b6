//! The options of time, read into a [`StartChoice`] and the window around it.
//!
//! Errors that show without the controller are refused here, with figures. Points in time are
//! rounded to whole seconds, inwards, so that a start "in two hours" is a second that can be
//! promised.

use crate::native::arg::{flag, value};
use crate::native::resv::words;
use crate::times::{self, Direction};
use clap::{Arg, ArgMatches};
use cosy_model::reservation::StartChoice;
use cosy_model::{Span, Time};
use jiff::Zoned;

/// Longest reservation that is sent, and how far ahead one may begin: ten years.
pub const LONGEST: Span = Span::from_minutes(3653 * 24 * 60);

/// The chosen start and the window around it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// How the start is chosen among the possible ones.
    pub pick: StartChoice,
    /// No start before this time.
    pub earliest: Option<Time>,
    /// No end after this time.
    pub latest_end: Option<Time>,
}

/// The options about start, end and time zone.
pub fn args() -> [Arg; 9] {
    [
        value(
            "at",
            "TIME",
            "Start exactly then: 14:20, now+2h, tomorrow 14:00, 2026-12-01T14:00, RFC 3339",
        )
        .conflicts_with_all([
            "from",
            "until",
            "finish-by",
            "not-before",
            "soonest",
            "cheapest",
            "alpha",
        ]),
        value("from", "TIME", "Start of a window: not before")
            .conflicts_with_all(["finish-by", "not-before"]),
        value("until", "TIME", "End of a window: ended by then")
            .conflicts_with_all(["finish-by", "not-before"]),
        value(
            "finish-by",
            "TIME",
            "End exactly then; moved to an earlier start later on where that delays nobody",
        )
        .conflicts_with_all(["soonest", "cheapest", "alpha", "repeat"]),
        value("not-before", "TIME", "With --finish-by: never moved before").requires("finish-by"),
        flag("soonest", "The first possible start (in the window)")
            .conflicts_with_all(["cheapest", "alpha"]),
        flag("cheapest", "The cheapest start in the window").conflicts_with("alpha"),
        value("alpha", "0..1", "Between the two: 0 is the soonest, 1 the cheapest")
            .value_parser(alpha),
        value(
            "zone",
            "NAME",
            "Read and show times in this zone, like Europe/Berlin (default: yours)",
        ),
    ]
}

/// alpha in thousandths, of a number from 0 to 1.
///
/// # Errors
/// Not such a number.
pub fn alpha(text: &str) -> Result<u32, String> {
    let bad = || "a number from 0 to 1 with at most 3 decimals is needed, like 0.25".to_owned();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let fine = matches!(whole, "0" | "1")
        && (1..=3).contains(&fraction.len())
        && fraction.bytes().all(|b| b.is_ascii_digit());
    let thousandths: u32 = format!("{fraction:0<3}").parse().map_err(|_| bad())?;
    let permille = if whole == "1" { 1000 } else { 0 } + thousandths;
    (fine && permille <= 1000)
        .then_some(permille)
        .ok_or_else(bad)
}

/// The length of a reservation.
///
/// # Errors
/// Not a length, nothing, without end, or beyond [`LONGEST`].
pub fn length(span: Option<Span>) -> Result<Span, String> {
    let span = span.ok_or("how long? A length is needed: --time 2h")?;
    if span.is_unlimited() {
        return Err("--time: a reservation has an end: 'unlimited' cannot be reserved".to_owned());
    }
    if span > LONGEST {
        return Err(format!(
            "--time: {} is too long; at most 10 years can be asked for",
            words::span(span)
        ));
    }
    Ok(span)
}

/// The present in the zone that counts for this command.
///
/// # Errors
/// The zone of `--zone` does not exist.
pub fn present(matches: &ArgMatches) -> Result<Zoned, String> {
    let now = times::now();
    match matches.try_get_one::<String>("zone").ok().flatten() {
        None => Ok(now),
        Some(name) => now.in_tz(name).map_err(|_| {
            format!("--zone: there is no time zone '{name}'; use a name like Europe/Berlin or UTC")
        }),
    }
}

/// Reads the options of time; without any, the soonest start where `or_soonest` is set.
///
/// # Errors
/// Options that contradict each other or cannot be read; one line says what and why.
pub fn read(
    matches: &ArgMatches,
    length: Span,
    now: &Zoned,
    or_soonest: bool,
    notes: &mut Vec<String>,
) -> Result<Window, String> {
    let mut time = |name: &str, up: bool| -> Result<Option<Time>, String> {
        let Some(text) = matches.get_one::<String>(name) else {
            return Ok(None);
        };
        let at = times::parse_noting(text, now, Direction::Future, notes)
            .map_err(|e| format!("--{name}: '{text}' is {e}"))?;
        within_reach(name, at, now)?;
        Ok(Some(whole_second(at, up)))
    };
    let at = time("at", true)?;
    let earliest = time("from", true)?.or(time("not-before", true)?);
    let until = time("until", false)?;
    let finish = time("finish-by", false)?;
    let pick = match (at, finish) {
        (Some(at), _) => StartChoice::At(at),
        (None, Some(_)) => StartChoice::FinishBy,
        (None, None) => start_choice(matches, or_soonest)?,
    };
    let window = Window {
        pick,
        earliest,
        latest_end: until.or(finish),
    };
    window.check(length, now)?;
    Ok(window)
}

fn start_choice(matches: &ArgMatches, or_soonest: bool) -> Result<StartChoice, String> {
    let alpha_permille = matches.get_one::<u32>("alpha").copied();
    let window = matches.contains_id("from") || matches.contains_id("until");
    if let Some(alpha_permille) = alpha_permille {
        return Ok(StartChoice::Balance { alpha_permille });
    }
    if matches.get_flag("cheapest") {
        return Ok(StartChoice::Cheapest);
    }
    if window || or_soonest || matches.get_flag("soonest") {
        return Ok(StartChoice::Soonest);
    }
    Err("when? Use --at TIME, --from and --until, --finish-by TIME, or --soonest".to_owned())
}

fn whole_second(at: Time, up: bool) -> Time {
    let down = Time::from_secs(at.secs());
    if up && down < at {
        down + Span::from_secs(1)
    } else {
        down
    }
}

fn within_reach(name: &str, at: Time, now: &Zoned) -> Result<(), String> {
    let present = whole_second(times::time_of(now), false);
    if at < present {
        return Err(format!(
            "--{name}: {} is {} ago",
            words::clock(at, now),
            words::span(present.since(at))
        ));
    }
    if at > present + LONGEST {
        return Err(format!("--{name}: {} is more than 10 years ahead", words::clock(at, now)));
    }
    Ok(())
}

impl Window {
    /// A window that no such reservation fits in is refused.
    fn check(&self, length: Span, now: &Zoned) -> Result<(), String> {
        let Some(end) = self.latest_end else {
            return Ok(());
        };
        let present = times::time_of(now);
        let begin = self.earliest.unwrap_or(present).max(present);
        let (option, other) = match self.pick {
            StartChoice::FinishBy => ("--finish-by", "--not-before"),
            StartChoice::At(_)
            | StartChoice::Soonest
            | StartChoice::Cheapest
            | StartChoice::Balance { .. } => ("--until", "--from"),
        };
        let (from, to) = (words::clock(begin, now), words::clock(end, now));
        if self.earliest.is_some_and(|e| e >= end) {
            return Err(format!("{option} {to} is not after {other} {from}: the window is empty"));
        }
        let room = end.since(begin);
        if room < length {
            return Err(format!(
                "from {from} until {to} are {}, too short for {}: widen the window or ask for less time",
                words::span(room),
                words::span(length)
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    fn noon() -> Zoned {
        "2026-11-21T12:00:00.4+01:00[Europe/Berlin]"
            .parse()
            .unwrap()
    }

    fn get(args: &[&str]) -> Result<Window, String> {
        let command = Command::new("x").args(args_of_test());
        let matches = command
            .try_get_matches_from([&["x"], args].concat())
            .map_err(|e| crate::native::arg::error_line(&e).unwrap_or_default())?;
        read(&matches, Span::from_minutes(120), &noon(), false, &mut Vec::new())
    }

    fn args_of_test() -> Vec<Arg> {
        let mut all = args().to_vec();
        all.push(value("repeat", "R", "r"));
        all
    }

    fn at(text: &str) -> Time {
        times::parse(text, &noon(), Direction::Future).unwrap()
    }

    #[test]
    fn what_is_wanted() {
        let check = |args: &[&str], pick, from: Option<&str>, until: Option<&str>| {
            let want = Window {
                pick,
                earliest: from.map(at),
                latest_end: until.map(at),
            };
            assert_eq!(get(args), Ok(want), "{args:?}");
        };
        check(&["--at", "14:20"], StartChoice::At(at("14:20")), None, None);
        check(&["--at", "now"], StartChoice::At(at("12:00:01")), None, None);
        check(&["--at", "now+2h"], StartChoice::At(at("14:00:01")), None, None);
        check(
            &["--from", "13:00", "--until", "tomorrow"],
            StartChoice::Soonest,
            Some("13:00"),
            Some("tomorrow"),
        );
        check(&["--cheapest", "--until", "20:00"], StartChoice::Cheapest, None, Some("20:00"));
        let alpha_permille = 250;
        check(&["--alpha", "0.25"], StartChoice::Balance { alpha_permille }, None, None);
        check(&["--soonest"], StartChoice::Soonest, None, None);
        check(
            &["--finish-by", "18:00", "--not-before", "15:00"],
            StartChoice::FinishBy,
            Some("15:00"),
            Some("18:00"),
        );
    }

    #[test]
    fn what_cannot_be() {
        let check = |args: &[&str], want: &str| {
            let error = get(args).expect_err(&format!("{args:?}"));
            assert!(error.contains(want), "{args:?}: {error}");
            assert!(!error.contains('\n'), "{error}");
        };
        check(&[], "when? Use --at");
        check(&["--at", "now-1h"], "is 1 h ago");
        check(&["--at", "yesterday"], "ago");
        check(&["--at", "sometime"], "no point in time");
        check(&["--at", "2099-01-01"], "more than 10 years ahead");
        check(&["--at", "now+999999h"], "more than 10 years ahead");
        check(&["--at", "13:00", "--from", "13:00"], "cannot be used with");
        check(&["--at", "13:00", "--cheapest"], "cannot be used with");
        check(&["--from", "16:00", "--until", "15:00"], "the window is empty");
        check(&["--from", "14:00", "--until", "15:00"], "are 1 h, too short for 2 h");
        check(&["--until", "13:00"], "too short for 2 h");
        check(&["--finish-by", "13:00"], "too short for 2 h");
        check(&["--finish-by", "18:00", "--not-before", "17:00"], "too short");
        check(&["--finish-by", "18:00", "--not-before", "19:00"], "not after --not-before");
        check(&["--not-before", "18:00"], "--finish-by");
        check(&["--finish-by", "18:00", "--soonest"], "cannot be used with");
        check(&["--soonest", "--cheapest"], "cannot be used with");
        check(&["--alpha", "2"], "from 0 to 1");
    }

    #[test]
    fn alphas() {
        let check = |text: &str, want: Option<u32>| assert_eq!(alpha(text).ok(), want, "{text}");
        check("0", Some(0));
        check("1", Some(1000));
        check("0.5", Some(500));
        check("0.125", Some(125));
        check("1.000", Some(1000));
        for bad in [
            "", ".5", "5.", "0.", "1.001", "2", "-0.5", "0.1234", "x", "1e-1", "é", "0.é",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn lengths() {
        let check = |text: &str, want: &str| {
            let got = length(text.parse().ok()).err().unwrap_or_default();
            assert!(got.contains(want) && got.is_empty() == want.is_empty(), "{text}: {got}");
        };
        check("2h", "");
        check("unlimited", "cannot be reserved");
        check("99999d", "at most 10 years");
        assert!(length(None).is_err());
    }
}
