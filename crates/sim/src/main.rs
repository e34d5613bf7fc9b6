//! The program `cosy-sim`.

mod commands;

use clap::Command;
use commands::{calibrate, experiment, generate, run, try_policy};
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = command().get_matches();
    let done = match options.subcommand() {
        Some(("run", options)) => run::run(options),
        Some(("generate", options)) => generate::run(options),
        Some(("experiment", options)) => experiment::run(options),
        Some(("calibrate", options)) => calibrate::run(options),
        Some(("try", options)) => try_policy::run(options),
        _ => unreachable!("clap asks for one of them"),
    };
    done.unwrap_or_else(|error| {
        eprintln!("cosy-sim: {error:#}");
        ExitCode::FAILURE
    })
}

fn command() -> Command {
    Command::new("cosy-sim")
        .about("Replays workloads through Cosy's planner")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            run::command(),
            generate::command(),
            experiment::command(),
            calibrate::command(),
            try_policy::command(),
        ])
}
