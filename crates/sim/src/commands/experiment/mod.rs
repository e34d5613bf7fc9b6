//! The command `cosy-sim experiment`: the papers' experiments again.

mod cosy;
mod flow_queue;
mod notice;
mod pricing;
mod whatif;
mod workflow;

use anyhow::{Context, bail};
use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cosy_sim::booking::logs::MOST_ROWS;
use cosy_sim::swf::{self, Record};
use std::fs::File;
use std::io::BufReader;
use std::process::ExitCode;

const MOST_SEEDS: u64 = 10_000;
const MOST_JOBS: u64 = 20_000;

pub fn command() -> Command {
    Command::new("experiment")
        .about("Runs a paper's experiments again")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            cosy::command(),
            whatif::command(),
            pricing::command(),
            notice::command(),
            workflow::command(),
        ])
}

/// Runs the command.
///
/// # Errors
/// Those of the experiment.
pub fn run(options: &ArgMatches) -> anyhow::Result<ExitCode> {
    match options.subcommand() {
        Some(("cosy", options)) => cosy::run(options),
        Some(("whatif", options)) => whatif::run(options),
        Some(("pricing", options)) => pricing::run(options),
        Some(("notice", options)) => notice::run(options),
        Some(("workflow", options)) => workflow::run(options),
        _ => bail!("which experiment? There are cosy, whatif, pricing, notice and workflow"),
    }
}

fn option(name: &'static str, value: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value)
}

fn check() -> Arg {
    Arg::new("check")
        .long("check")
        .action(ArgAction::SetTrue)
        .help("Ends with 1 when a claim of the paper does not hold")
}

fn seeds(default: &'static str) -> [Arg; 2] {
    [
        option("seeds", "N")
            .default_value(default)
            .value_parser(value_parser!(u64).range(1..=MOST_SEEDS))
            .help("So often, each time with other jobs as reservations"),
        option("seed", "S")
            .default_value("1")
            .value_parser(value_parser!(u64).range(..=u64::MAX / 2))
            .help("Seed of the first time"),
    ]
}

fn files() -> [Arg; 2] {
    [
        option("json", "FILE").help("Writes everything there as JSON; - for standard output"),
        option("svg", "FILE").help("Draws the figures there"),
    ]
}

/// A number of jobs, not more than are ever looked at.
fn jobs() -> ValueParser {
    value_parser!(u64).range(1..=MOST_JOBS).into()
}

fn number(options: &ArgMatches, name: &str) -> u64 {
    options.get_one::<u64>(name).copied().unwrap_or(1)
}

fn judged(options: &ArgMatches, all_hold: bool) -> ExitCode {
    match options.get_flag("check") && !all_hold {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// The first rows of a log.
fn records(path: &str) -> anyhow::Result<Vec<Record>> {
    let input = File::open(path).with_context(|| format!("{path}: cannot be read"))?;
    Ok(swf::records(path, BufReader::new(input), MOST_ROWS)?)
}
