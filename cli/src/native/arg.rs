//! Short ways to write clap's arguments, and how its errors become one line.
//!
//! Options are built and not derived: derived ones name each other as text all the same, and would
//! not lay a command line over `#COSY` lines or lend `cresv` the options of `csub`. A test of
//! `crate::commands` compares all keys with the options that there are.

use crate::{exit, times};
use clap::error::ErrorKind;
use clap::parser::MatchesError;
use clap::{Arg, ArgAction, Command};
use cosy_model::api::JobRef;
use cosy_model::limits::NAME_BYTES;
use cosy_model::{JobState, ReservationId, Span};

/// `--long VALUE`; given twice, the last one counts.
pub fn value(long: &'static str, name: &'static str, help: &'static str) -> Arg {
    Arg::new(long)
        .long(long)
        .value_name(name)
        .help(help)
        .allow_hyphen_values(true)
        .overrides_with(long)
}

/// `--long VALUE`, given several times or with commas.
pub fn values(long: &'static str, name: &'static str, help: &'static str) -> Arg {
    Arg::new(long)
        .long(long)
        .value_name(name)
        .help(help)
        .value_delimiter(',')
        .action(ArgAction::Append)
        .value_parser(parse_name)
}

/// An option without a value, called `--long`; given again it changes nothing.
pub fn flag(long: &'static str, help: &'static str) -> Arg {
    Arg::new(long)
        .long(long)
        .help(help)
        .action(ArgAction::SetTrue)
        .overrides_with(long)
}

/// `--json`, everywhere the same.
pub fn json() -> Arg {
    flag("json", "As JSON: times in RFC 3339 (UTC), lengths in seconds")
}

/// A whole number from `least` to `most`.
pub fn number(least: u32, most: u32) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let fine = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        fine.then(|| text.parse().ok())
            .flatten()
            .filter(|n| (least..=most).contains(n))
            .ok_or_else(|| format!("a whole number from {least} to {most} is needed"))
    }
}

/// A name of a job, queue, account, user.
///
/// # Errors
/// Empty, too long, or with control characters.
pub fn parse_name(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("a name is needed".to_owned());
    }
    if text.len() > NAME_BYTES {
        return Err(format!("the name has {} bytes; at most {NAME_BYTES} are allowed", text.len()));
    }
    if text.chars().any(char::is_control) {
        return Err("a name has no control characters".to_owned());
    }
    Ok(text.to_owned())
}

/// A time limit: more than nothing.
///
/// # Errors
/// Not a length of time, or 0.
pub fn parse_limit(text: &str) -> Result<Span, String> {
    let span = text.parse::<Span>().map_err(|e| e.to_string())?;
    if span == Span::ZERO {
        return Err("a time limit must be more than 0".to_owned());
    }
    Ok(span)
}

/// A reservation: `12`, or `r12` as charts call it.
///
/// # Errors
/// Not a number from 1 on.
pub fn parse_reservation(text: &str) -> Result<ReservationId, String> {
    let digits = text.strip_prefix('r').unwrap_or(text);
    let fine = (1..=18).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let id = fine.then(|| digits.parse().ok()).flatten();
    id.filter(|n| *n > 0)
        .map(ReservationId)
        .ok_or_else(|| "the id of a reservation is needed, like 12 or r12".to_owned())
}

/// Reads a job state by its word, like `running`.
///
/// # Errors
/// Says which there are.
pub fn parse_state(text: &str) -> Result<JobState, String> {
    text.parse()
}

/// Jobs: a list, because `12_[3-7]` stands for several.
///
/// # Errors
/// See [`crate::refs::jobs`].
pub fn parse_jobs(text: &str) -> Result<Vec<JobRef>, String> {
    crate::refs::jobs(text)
}

/// The positional argument `ID...`.
pub fn ids(help: &'static str) -> Arg {
    Arg::new("id")
        .value_name("ID")
        .help(help)
        .num_args(0..)
        .value_parser(parse_jobs)
}

/// The same where at least one is needed.
pub fn some_ids(help: &'static str) -> Arg {
    ids(help).num_args(1..).required(true)
}

/// All ids of [`ids`].
pub fn ids_of(matches: &clap::ArgMatches) -> Vec<JobRef> {
    matches
        .get_many::<Vec<JobRef>>("id")
        .into_iter()
        .flatten()
        .flatten()
        .copied()
        .collect()
}

/// All values of an option made by [`values`].
pub fn list<T: Clone + Send + Sync + 'static>(matches: &clap::ArgMatches, name: &str) -> Vec<T> {
    matches
        .get_many::<T>(name)
        .into_iter()
        .flatten()
        .cloned()
        .collect()
}

/// A point in time that an option looks back from.
///
/// # Errors
/// It is none: a usage error that names the option.
pub fn past(
    matches: &clap::ArgMatches,
    name: &str,
    now: &jiff::Zoned,
) -> anyhow::Result<Option<cosy_model::Time>> {
    let text = matches.get_one::<String>(name);
    text.map(|text| {
        times::parse(text, now, times::Direction::Past)
            .map_err(|e| exit::usage(format!("--{name}: '{text}' is {e}")))
    })
    .transpose()
}

/// The value of an option that the command may not have.
pub fn optional<'a, T: Clone + Send + Sync + 'static>(
    matches: &'a clap::ArgMatches,
    name: &str,
) -> Option<&'a T> {
    match matches.try_get_one::<T>(name) {
        Ok(value) => value,
        Err(e) => {
            let absent = matches!(e, MatchesError::UnknownArgument { .. });
            debug_assert!(absent, "--{name}: {e}");
            None
        }
    }
}

/// The base of every command: its name, its one-line description, and the version.
pub fn command(name: &'static str, about: &'static str) -> Command {
    Command::new(name)
        .about(about)
        .version(env!("CARGO_PKG_VERSION"))
}

/// The command with texts below its options, and below those of its commands, that a terminal of any
/// width breaks: lines that were broken in the middle of a sentence are joined.
pub fn with_whole_lines(command: Command) -> Command {
    let after = command.get_after_help().map(ToString::to_string);
    let command = command.mut_subcommands(with_whole_lines);
    match after {
        Some(text) => command.after_help(whole_lines(&text)),
        None => command,
    }
}

/// Lines that start with blanks stay: they are examples and lists.
fn whole_lines(text: &str) -> String {
    /// Shorter lines end where they do on purpose.
    const BROKEN_FROM: usize = 60;
    let mut all = String::with_capacity(text.len());
    let mut open = false;
    for line in text.lines() {
        let flush = line.starts_with(|c: char| !c.is_whitespace());
        if !all.is_empty() {
            all.push(if open && flush { ' ' } else { '\n' });
        }
        all.push_str(line);
        open = flush && line.len() >= BROKEN_FROM && !line.ends_with(['.', ':']);
    }
    all
}

/// An error of clap in one line; `None` when it is the help or the version that was requested.
pub fn error_line(error: &clap::Error) -> Option<String> {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return None;
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    // The first paragraph is the error, a `tip:` may follow, then comes the usage.
    let mut parts = text.split("\n\n").map(|p| {
        let words: Vec<&str> = p.split_whitespace().collect();
        words.join(" ")
    });
    let first = parts.next().unwrap_or_default();
    let tip = parts.find(|p| p.starts_with("tip:"));
    Some(match tip {
        Some(tip) => format!("{first} ({})", tip.trim_start_matches("tip: ")),
        None => first,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations() {
        let check = |text: &str, want: Option<u64>| {
            assert_eq!(parse_reservation(text).ok().map(|r| r.0), want, "{text}");
        };
        check("12", Some(12));
        check("r12", Some(12));
        check("0", None);
        check("r", None);
        check("-1", None);
        check("rr1", None);
        check("9999999999999999999", None);
    }

    #[test]
    fn lines_are_joined_within_a_sentence() {
        let begin = "Exit codes: 0 done, 1 refused by a rule, 2 mistake on the command";
        let check = |text: &str, want: &str| assert_eq!(whole_lines(text), want);
        check(&format!("{begin}\nline.\nMore."), &format!("{begin} line.\nMore."));
        check(&format!("{begin}\n  an example"), &format!("{begin}\n  an example"));
        check(&format!("  {begin}\nline"), &format!("  {begin}\nline"));
        check("short\nlines\n\nstay", "short\nlines\n\nstay");
        let whole = with_whole_lines(
            command("x", "y").subcommand(Command::new("z").after_help(format!("{begin}\nline."))),
        );
        let after = whole.get_subcommands().next().unwrap().get_after_help();
        assert_eq!(after.unwrap().to_string(), format!("{begin} line."));
    }

    #[test]
    fn errors_are_one_line() {
        let check = |args: &[&str], want: &str| {
            let command = command("x", "y")
                .arg(value("nodes", "N", "n").value_parser(number(1, 9)))
                .arg(Arg::new("id").required(true));
            let error = command
                .try_get_matches_from([&["x"], args].concat())
                .unwrap_err();
            let line = error_line(&error).unwrap_or_default();
            assert!(line.starts_with(want), "{line}");
            assert!(!line.contains('\n'));
        };
        check(
            &["--nodes", "x"],
            "invalid value 'x' for '--nodes <N>': a whole number from 1 to 9 is needed",
        );
        check(&["--nodes=-1"], "invalid value '-1' for '--nodes <N>'");
        check(&["--nodes"], "a value is required for '--nodes <N>' but none was supplied");
        check(&["--node", "1"], "unexpected argument '--node' found (a similar");
        check(&[], "the following required arguments were not provided: <id>");
        check(&["--help"], "");
    }
}
