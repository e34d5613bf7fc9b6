//! `--clusters` and `--all` of `cresv quote`, `hold` and `book`: asks the broker and prints
//! what it found.

use super::outcome::{ClusterOutcome, ClusterResult, Outcome};
use super::{Broker, Preference, clusters, quote, rank_for, show};
use crate::native::arg::{flag, optional, value};
use crate::native::stat;
use crate::native::table::TableStyle;
use crate::{exit, output};
use clap::{Arg, ArgMatches};
use cosy_model::api::Submission;
use cosy_model::reservation::ReservationSpec;
use jiff::Zoned;

/// Slots in a table, at most.
const MOST_ROWS: usize = 12;

/// Which clusters are asked, and how the outcome is printed, by the command line.
#[derive(Clone, Copy, Debug)]
pub struct ClusterSelection<'a> {
    /// Names of clusters with commas, or `all` (`--clusters`).
    pub list: &'a str,
    /// Books on each of the clusters, at one time, or on none (`--all`).
    pub all: bool,
    /// Prints JSON instead of tables (`--json`).
    pub json: bool,
}

impl<'a> ClusterSelection<'a> {
    /// The selection on the command line; `None` without `--clusters`.
    pub fn of(matches: &'a ArgMatches) -> Option<Self> {
        let given = |name| optional::<bool>(matches, name).copied().unwrap_or(false);
        Some(Self {
            list: matches.get_one::<String>("clusters")?,
            all: given("all"),
            json: given("json"),
        })
    }
}

/// The option `--clusters NAME[,...]`, of `quote`, `hold` and `book`.
pub fn clusters_arg() -> Arg {
    value("clusters", "NAME[,...]", "Ask these clusters and take the best (see clusters.toml)")
}

/// The option `--all`, of `hold` and `book`.
pub fn all_arg() -> Arg {
    flag("all", "The same time on each of the clusters, or on none").requires("clusters")
}

/// `cresv quote --clusters`: at most `most` slots of each.
///
/// # Errors
/// No such clusters.
pub fn run_quote(
    several: ClusterSelection<'_>,
    spec: &ReservationSpec,
    most: Option<u32>,
    now: &Zoned,
) -> anyhow::Result<u8> {
    let clusters = clusters_of_list(several.list)?;
    let quotes = quote(&clusters, spec, most);
    let ranked = rank_for(&quotes, spec, Preference::of(spec.pick));
    output::print(&if several.json {
        stat::json_text(&show::quotes_json(&quotes, &ranked))
    } else {
        let style = TableStyle {
            width: output::width(),
            colour: output::colour(),
            ..TableStyle::default()
        };
        show::quotes(&quotes, &ranked, now, style, MOST_ROWS)
    });
    let gone = |f: &super::ClusterError| matches!(f, super::ClusterError::Unreachable(_));
    Ok(if !ranked.is_empty() {
        exit::OK
    } else if quotes.iter().all(|(_, q)| q.as_ref().is_err_and(gone)) {
        exit::UNREACHABLE
    } else {
        exit::FAILED
    })
}

/// `cresv hold --clusters` and `cresv book --clusters`.
///
/// # Errors
/// No such clusters.
pub fn run_book(
    several: ClusterSelection<'_>,
    spec: &ReservationSpec,
    hold: bool,
    job: Option<&Submission>,
    program: &str,
    now: &Zoned,
) -> anyhow::Result<u8> {
    let clusters = clusters_of_list(several.list)?;
    let preference = Preference::of(spec.pick);
    let broker = Broker::new();
    let outcome = match (several.all, hold) {
        (false, _) => broker.book_best(&clusters, spec, preference, hold, job),
        (true, false) => broker.book_all(&clusters, spec, preference, job),
        (true, true) => held_outcome(broker.hold_all(&clusters, spec, preference, job)),
    };
    let code = outcome.exit_code();
    if several.json {
        output::print(&stat::json_text(&show::outcome_json(&outcome)));
        return Ok(code);
    }
    let text = show::outcome(&outcome, now);
    if code == exit::OK {
        output::print(&text);
    } else {
        text.lines()
            .for_each(|line| output::complain(program, line));
    }
    Ok(code)
}

fn clusters_of_list(list: &str) -> anyhow::Result<Vec<super::Cluster>> {
    clusters::names(list).map_err(|e| exit::usage(e.to_string()))
}

/// The first phase alone: the user confirms on each cluster.
fn held_outcome(result: Result<Vec<super::ClusterHold>, Outcome>) -> Outcome {
    match result {
        Err(outcome) => outcome,
        Ok(held) => {
            let result = |held: super::ClusterHold| ClusterResult {
                cluster: held.cluster,
                outcome: ClusterOutcome::Held(held.reservations),
            };
            Outcome::of(held.into_iter().map(result).collect(), Vec::new(), Vec::new())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    #[test]
    fn options() {
        let check = |args: &[&str], want: Option<(&str, bool)>| {
            let command = Command::new("x").arg(clusters_arg()).arg(all_arg());
            let matches = command.try_get_matches_from([&["x"], args].concat());
            let got = matches.ok();
            let got = got
                .as_ref()
                .and_then(ClusterSelection::of)
                .map(|s| (s.list, s.all));
            assert_eq!(got, want, "{args:?}");
        };
        check(&["--clusters", "a,b"], Some(("a,b", false)));
        check(&["--clusters=a,b", "--all"], Some(("a,b", true)));
        check(&["--all"], None); // refused
        check(&[], None);
    }
}
