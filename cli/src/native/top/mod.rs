//! `cosy top`: jobs, nodes, the plan and one job with its output, live on a terminal.
//!
//! A state machine ([`state`]) is handed keys, answers and moments ([`event`]), and says what is to be asked;
//! [`draw`] makes a picture of it. Both are pure. Around them [`session`] waits, [`asker`] asks the
//! controller on threads of its own, and [`screen`] takes the terminal and gives it back.

mod asker;
mod chosen;
mod draw;
mod event;
mod help;
mod input;
mod job;
mod jobs;
mod nodes;
mod once;
mod painted;
mod plan;
mod query;
mod quote;
mod refresh;
#[cfg(test)]
mod sample;
mod screen;
mod scroll;
mod session;
mod shape;
mod state;
mod tail;

use crate::launch::tty;
use crate::native::arg::{self, flag, number, value, values};
use crate::{Context, exit, output};
use clap::{Arg, ArgMatches, Command};
use cosy_model::api::JobRef;
use state::{Page, Settings};
use std::io::IsTerminal;
use std::time::Duration;

/// Columns and rows where the output is no terminal.
const USUAL_SIZE: (u16, u16) = (80, 24);

/// The command line of `cosy top`.
pub fn command() -> Command {
    arg::command("top", "Watch jobs, nodes, the plan and one job with its output, live")
        .override_usage("ctop [OPTIONS] [ID]")
        .arg(
            Arg::new("id")
                .value_name("ID")
                .help("Begin with this job: 12, or a task 12_3")
                .value_parser(|text: &str| text.parse::<JobRef>()),
        )
        .arg(flag("all", "Begin with the jobs of all users").short('A'))
        .arg(values("user", "USER[,...]", "Begin with the jobs of these users").short('u'))
        .arg(values("queue", "QUEUE[,...]", "Begin with the jobs in these queues").short('q'))
        .arg(
            value("page", "PAGE", "Begin there: jobs, nodes or plan")
                .value_parser(["jobs", "nodes", "plan"])
                .default_value("jobs")
                .hide_possible_values(true),
        )
        .arg(
            value("delay", "SECONDS", "Ask the controller so often")
                .short('d')
                .default_value("2")
                .value_parser(number(1, 3600)),
        )
        .arg(flag("once", "Print one picture as text and end; needs no terminal"))
        .after_help(
            "Keys: 1 jobs, 2 nodes, 3 plan, 4 one job; arrows move, Enter opens, Esc goes back, / looks for \
             something, u shows everyone's jobs or yours, s orders them otherwise, c cancels and h holds or \
             releases a job (both ask first), Q tells what a reservation of its shape would cost, o shows its \
             output alone, ? helps, q ends.\n\
             On the plan + and - change how much time is seen, left and right move it; your own jobs have a * \
             and stand first.\n\
             The output of a job is read on this host with your own rights, as 'cosy tail' does. While the \
             controller does not answer the last picture stays, and says how old it is. Of a long list the first \
             2000 lines are fetched, and what takes the controller long is asked for no more often than it takes \
             five times over.\n\
             A terminal of 80 columns and 24 rows shows all of it; NO_COLOR switches colours off. Elsewhere \
             than on a terminal 'cstat' and 'cosy top --once' tell the same.\n\
             Exit codes: 0, 1 refused, 2 wrong options or no terminal, 3 no controller (with --once), 128 and \
             the signal that ended it.",
        )
}

/// Runs `cosy top`.
///
/// # Errors
/// No terminal; with `--once` a refusal, or no controller.
pub fn run(_: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let settings = settings(matches);
    if matches.get_flag("once") {
        let size = match std::io::stdout().is_terminal() {
            true => (tty::window().columns, tty::window().rows.saturating_sub(1)),
            false => USUAL_SIZE,
        };
        output::print(&once::frame(settings, size)?);
        return Ok(exit::OK);
    }
    if !std::io::stdout().is_terminal() || !tty::is_there() {
        return Err(exit::usage(
            "this needs a terminal to draw on and to read keys from: 'cosy top --once' prints one \
             picture, 'cstat' tells the same as a list",
        ));
    }
    session::run(settings)
}

fn settings(matches: &ArgMatches) -> Settings {
    let users: Vec<String> = arg::list(matches, "user");
    let queues: Vec<String> = arg::list(matches, "queue");
    let conditions = [("user", &users), ("queue", &queues)];
    let conditions = conditions.iter().filter(|(_, names)| !names.is_empty());
    let line: Vec<String> = conditions
        .map(|(key, names)| format!("{key}={}", names.join(",")))
        .collect();
    let page = match matches.get_one::<String>("page").map(String::as_str) {
        Some("nodes") => Page::Nodes,
        Some("plan") => Page::Plan,
        Some(_) | None => Page::Jobs,
    };
    let seconds = matches.get_one::<u32>("delay").copied().unwrap_or(2);
    Settings {
        every: Duration::from_secs(seconds.into()),
        colour: output::colour() && !matches.get_flag("once"),
        uid: rustix::process::getuid().as_raw(),
        all: matches.get_flag("all") || !users.is_empty(),
        line: line.join(" "),
        page,
        job: matches.get_one::<JobRef>("id").copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings() {
        let check = |args: &[&str], want: (bool, &str, Page, u64)| {
            let matches = command()
                .try_get_matches_from([&["ctop"], args].concat())
                .unwrap();
            let got = settings(&matches);
            assert_eq!(
                (got.all, got.line.as_str(), got.page, got.every.as_secs()),
                want,
                "{args:?}"
            );
        };
        check(&[], (false, "", Page::Jobs, 2));
        check(&["-A", "--page", "plan", "-d", "5"], (true, "", Page::Plan, 5));
        check(&["-u", "ann,bob", "-q", "day"], (true, "user=ann,bob queue=day", Page::Jobs, 2));
        for wrong in [&["x"][..], &["-d", "0"], &["--page", "x"], &["1", "2"]] {
            assert!(
                command()
                    .try_get_matches_from([&["ctop"], wrong].concat())
                    .is_err(),
                "{wrong:?}"
            );
        }
    }
}
