//! `cosy flow`: workflows with a deadline. A file describes tasks and who waits for whom;
//! the controller plans a slot for each so that the whole ends in time, shows the plan,
//! books all slots or none, and runs them.
//!
//! Nothing is planned here. What is worked out here is the file: read with the code of
//! `csub` where it says what a task asks for, and checked whole before anything is sent.
//!
//! Source: Zhao and Sakellariou, *Advance Reservation Policies for Workflows* (2006).

pub mod amounts;
pub mod file;
pub mod graph;
pub mod header;
pub mod import;
pub mod json;
pub mod list;
pub mod origin;
pub mod picture;
pub mod plan;
pub mod request;
pub mod rows;
pub mod source_lines;
pub mod steer;
pub mod task;
pub mod tree;
pub mod watch;

use crate::native::arg::{self, flag, json as json_flag, value, values};
use crate::native::resv;
use crate::{Context, exit};
use clap::{Arg, ArgMatches, Command};
use cosy_model::FlowId;
use cosy_model::workflow::FlowState;
use std::ffi::OsString;

/// The command line of `cosy flow`.
pub fn command() -> Command {
    arg::command("flow", "Workflows with a deadline: plan, book and run their tasks")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .after_help(AFTER)
        .subcommand(plan_command())
        .subcommand(submit_command())
        .subcommand(confirm_command())
        .subcommand(cancel_command())
        .subcommand(list_command())
        .subcommand(show_command())
        .subcommand(watch_command())
        .subcommand(import::command())
}

const AFTER: &str = "\
Examples:
  what would be booked, at what price; with half as much time again, a picture:
    cosy flow plan flow.toml --finish-by 'tomorrow 8:00'
    cosy flow plan flow.toml --slack 50% --svg plan.svg
  book all slots or none, then run; without a deadline jobs wait for each other:
    cosy flow submit flow.toml --finish-by 'tomorrow 8:00'
    cosy flow submit flow.toml
  follow it to its end:
    cosy flow watch 3
  from WfCommons or Pegasus:
    cosy flow import montage.json -o flow.toml
Exit codes: 0 done, 1 refused or (watch) not completed, 2 mistake on the command line or in
the file, 3 no controller.";

const FILE_AFTER: &str = "\
A workflow file (TOML, or the same as JSON):
  [workflow]
  name = \"night\"
  deadline = \"tomorrow 8:00\"      # or slack = \"50%\"; without: plain jobs
  [defaults]                      # for all tasks; the keys are csub's options
  queue = \"main\"
  [tasks.prepare]
  command = [\"./prepare\", \"in\"]
  estimate = \"10m\"
  [tasks.solve]
  script = \"solve.sh\"
  nodes = 2
  estimate = \"1h\"
  estimates = { fast = \"20m\" }    # on the nodes of this set
  after = [{ task = \"prepare\", data = \"2G\" }]
  retries = 1
  [speeds]                        # of node sets
  fast = 2.5
  [[transfer]]
  to = \"fast\"
  rate = \"100M\"                   # bytes in a second";

const LIST_AFTER: &str = "\
With --json: workflows, each with id, name, user, state, made, deadline, end, hold_until,
task_count, done_count, price, account, note and, with show, tasks (name, state, parents,
slot_start, slot_end, estimate, spare, reservation, job, start, end, failures, nodes, note).
Lengths are in seconds, sums in SU, points in time in RFC 3339 and, with _ms behind their
name, in milliseconds.";

fn zone() -> Arg {
    value("zone", "NAME", "Read and show times in this zone, like Europe/Berlin (default: yours)")
}

fn file_arg() -> Arg {
    Arg::new("file")
        .value_name("FILE")
        .help("The workflow file; - is standard input")
        .required(true)
        .value_parser(clap::value_parser!(OsString))
}

fn plan_command() -> Command {
    Command::new("plan")
        .about("Show when each task would run and what it costs; nothing is kept")
        .after_help(FILE_AFTER)
        .arg(file_arg())
        .args(request::args())
        .arg(
            value("svg", "FILE", "Draw the plan; - is standard output")
                .value_parser(clap::value_parser!(OsString)),
        )
        .arg(flag("chart", "Also draw the plan with letters"))
        .arg(
            flag(
                "verbose",
                "Also name the methods of the plan, as --scheduler and --slack-policy do",
            )
            .short('v'),
        )
        .arg(flag("no-header", "No line of titles"))
        .arg(zone())
        .arg(json_flag())
}

fn submit_command() -> Command {
    Command::new("submit")
        .about("Book all slots of a workflow, or none, and run it")
        .after_help(FILE_AFTER)
        .arg(file_arg())
        .args(request::args())
        .arg(flag("hold", "Only hold the slots for some minutes, to be confirmed"))
        .arg(
            flag("wait", "Follow it to its end and take its exit code")
                .short('w')
                .conflicts_with("hold"),
        )
        .arg(zone())
        .arg(flag("parsable", "Print the id only").conflicts_with("json"))
        .arg(json_flag())
}

fn confirm_command() -> Command {
    Command::new("confirm")
        .about("Make held workflows final")
        .arg(some_ids("Held workflows"))
        .arg(zone())
        .arg(flag("parsable", "Print the id only").conflicts_with("json"))
        .arg(json_flag())
}

fn cancel_command() -> Command {
    Command::new("cancel")
        .about("Give workflows up: what runs is ended, what has not begun is given back")
        .arg(some_ids("Workflows"))
        .arg(json_flag())
}

fn list_command() -> Command {
    Command::new("list")
        .about("List workflows: yours, or others' too")
        .after_help(LIST_AFTER)
        .arg(flag("mine", "Yours (the default)").conflicts_with_all(["all", "user"]))
        .arg(
            flag("all", "Of all users")
                .short('A')
                .conflicts_with("user"),
        )
        .arg(values("user", "USER[,...]", "Of these users").short('u'))
        .arg(flag("ended", "Also those that are over").short('E'))
        .arg(
            values(
                "state",
                "STATE[,...]",
                "In these states: held, running, completed, failed, cancelled, expired",
            )
            .short('s')
            .value_parser(parse_state),
        )
        .arg(flag("no-header", "No line of titles"))
        .arg(zone())
        .arg(json_flag())
}

fn show_command() -> Command {
    Command::new("show")
        .about("Show workflows in full, with their tasks")
        .after_help(LIST_AFTER)
        .arg(some_ids("Workflows"))
        .arg(flag("no-header", "No line of titles"))
        .arg(zone())
        .arg(json_flag())
}

fn watch_command() -> Command {
    Command::new("watch")
        .about("Follow a workflow to its end: exit code 0 when it completed, else 1")
        .arg(one_id())
        .arg(flag("quiet", "Say nothing before its end").short('Q'))
        .arg(zone())
        .arg(json_flag())
}

fn parse_state(text: &str) -> Result<FlowState, String> {
    text.parse()
}

fn one_id() -> Arg {
    Arg::new("id")
        .value_name("ID")
        .help("The workflow")
        .required(true)
        .value_parser(parse_flow)
}

fn some_ids(help: &'static str) -> Arg {
    one_id().help(help).num_args(1..)
}

fn parse_flow(text: &str) -> Result<FlowId, String> {
    let fine = (1..=18).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let id = fine.then(|| text.parse().ok()).flatten();
    id.filter(|n| *n > 0)
        .map(FlowId)
        .ok_or_else(|| "the id of a workflow is needed, like 12".to_owned())
}

fn ids(matches: &ArgMatches) -> Vec<FlowId> {
    arg::list(matches, "id")
}

/// Runs `cosy flow`.
///
/// # Errors
/// Bad input, a refusal, or no controller.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let Some((_, sub)) = matches.subcommand() else {
        return Err(exit::usage("which command? See cosy flow --help"));
    };
    dispatch(context, matches).map_err(|e| resv::in_local_times(e, sub))
}

fn dispatch(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    match matches.subcommand() {
        Some(("plan", m)) => plan::run(context, m),
        Some(("submit", m)) => steer::submit(context, m),
        Some(("confirm", m)) => steer::confirm(context, m),
        Some(("cancel", m)) => steer::cancel(context, m),
        Some(("list", m)) => list::run(context, m),
        Some(("show", m)) => list::show(context, m),
        Some(("watch", m)) => watch::run(context, m),
        Some(("import", m)) => import::run(context, m),
        _ => Err(exit::usage("which command? See cosy flow --help")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        let check = |line: &str, want: &str| {
            let got = command().try_get_matches_from(format!("flow {line}").split(' '));
            let error = got.err().map(|e| arg::error_line(&e).unwrap_or_default());
            let error = error.unwrap_or_default();
            assert!(error.contains(want), "{line}: {error}");
            assert_eq!(error.is_empty(), want.is_empty(), "{line}: {error}");
        };
        check("plan f.toml", "");
        check("plan - --slack 50%", "");
        check("plan f --slack 50", "no share");
        check("plan f --slack 50% --finish-by 12:00", "cannot be used with");
        check("plan f --scheduler fast", "use heft, hbmct, fcp, dls");
        check("plan f --slack-policy x", "cp_even_percent");
        check("plan f --on-overrun x", "use kill, extend, replan");
        check("plan f --max-price -1", "no sum of service units");
        check("plan", "required");
        check("submit f --hold", "");
        check("submit f --hold --wait", "cannot be used with");
        check("confirm 1 2", "");
        check("confirm 0", "the id of a workflow");
        check("cancel x", "the id of a workflow");
        check("show 99999999999999999999", "the id of a workflow");
        check("list --state held,failed", "");
        check("list --state x", "no state of a workflow");
        check("watch 1", "");
        check("watch 1 2", "unexpected");
        check("import f -o g", "");
        check("nonsense", "unrecognized subcommand");
    }
}
