//! The program `cosy-sim`.

mod commands;

use clap::Command;
use commands::{calibrate, experiment, generate, pages, run, try_policy};
use std::process::ExitCode;

const HELP: &str = "\
Examples:
  cosy-sim run --workload log.swf.gz --policy easy
  cosy-sim try --sacct history.txt --machine 64x32 --policy new.toml --lenient
  cosy-sim generate --model lublin --nodes 128 --jobs 5000 --seed 7 > log.swf
  cosy-sim experiment cosy
  cosy-sim calibrate --workload log.swf.gz

'cosy-sim COMMAND --help' tells more of each. Lengths of time: 90s 5m 2h30m 30d 1-12 01:30:00";

fn main() -> ExitCode {
    let options = command().get_matches();
    let done = match options.subcommand() {
        Some(("run", options)) => run::run(options),
        Some(("generate", options)) => generate::run(options),
        Some(("experiment", options)) => experiment::run(options),
        Some(("calibrate", options)) => calibrate::run(options),
        Some(("try", options)) => try_policy::run(options),
        Some(("pages", options)) => pages::run(options, command()),
        _ => unreachable!("clap asks for one of them"),
    };
    done.unwrap_or_else(|error| {
        eprintln!("cosy-sim: {error:#}");
        ExitCode::FAILURE
    })
}

fn command() -> Command {
    Command::new("cosy-sim")
        .about("Replay workloads through Cosy's planner: logs, models, your own history")
        .version(env!("CARGO_PKG_VERSION"))
        .after_help(HELP)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            run::command(),
            try_policy::command(),
            generate::command(),
            experiment::command(),
            calibrate::command(),
            pages::command(),
        ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_sound() {
        command().debug_assert();
    }
}
