//! The command `cosy-sim generate`: jobs of a model as a log in the Standard Workload
//! Format.

use super::source;
use anyhow::Context;
use clap::{Arg, ArgMatches, Command, value_parser};
use cosy_sim::swf;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  cosy-sim generate --model cirne --nodes 32 --jobs 5000 --arrival anl > x.swf
  cosy-sim generate --model lublin --nodes 128 --jobs 5000 --kind batch --seed 7 | gzip > x.swf.gz";

/// Its options.
pub fn command() -> Command {
    let command = Command::new("generate")
        .about("Draw jobs from a model and write them to standard output as a log (SWF)")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("nodes")
                .long("nodes")
                .value_name("N")
                .help("Nodes of the machine: no job is larger")
                .value_parser(value_parser!(u32).range(1..))
                .required(true),
        );
    source::model_options(command).mut_arg("model", |option| option.required(true))
}

/// Runs it.
///
/// # Errors
/// Options of another model, or standard output cannot be written. That nobody reads on is
/// no error.
pub fn run(options: &ArgMatches) -> anyhow::Result<ExitCode> {
    let nodes = *options.get_one("nodes").context("--nodes is required")?;
    let drawing = source::drawing(options, nodes)?;
    let out = io::stdout().lock();
    match swf::write(&drawing.draw(), out, &drawing.comments()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("standard output")
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
