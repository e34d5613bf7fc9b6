//! The command `cosy-sim generate`: jobs of a model as a log in the Standard Workload
//! Format, or a workflow as JSON.

use super::source;
use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgGroup, ArgMatches, Command, value_parser};
use cosy_sim::dag::{self, GraphKind, GraphSettings, costs, graph_file};
use cosy_sim::swf;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  cosy-sim generate --model cirne --nodes 32 --jobs 5000 --arrival anl > x.swf
  cosy-sim generate --model lublin --nodes 128 --jobs 5000 --kind batch --seed 7 | gzip > x.swf.gz
  cosy-sim generate --dag montage --tasks 57 --seed 3 > m.json";

/// Options that are of models only, and of workflows only.
const MODEL_OPTIONS: [&str; 5] = ["nodes", "jobs", "arrival", "kind", "load"];
const WORKFLOW_OPTIONS: [&str; 3] = ["tasks", "machines", "ccr"];

pub fn command() -> Command {
    let command = Command::new("generate")
        .about(
            "Draw jobs from a model (SWF) or a workflow (JSON) and write them to standard output",
        )
        .after_help(EXAMPLES)
        .arg(
            Arg::new("nodes")
                .long("nodes")
                .value_name("N")
                .help("Nodes of the machine: no job is larger")
                .value_parser(value_parser!(u32).range(1..))
                .required_unless_present("dag"),
        );
    let command = source::model_options(command);
    let command = command.args(workflow_options());
    let command = command.mut_args(|option| match option.get_id().as_str() {
        of if MODEL_OPTIONS.contains(&of) => option.conflicts_with("dag"),
        of if WORKFLOW_OPTIONS.contains(&of) => option.conflicts_with("model"),
        _ => option,
    });
    command.group(ArgGroup::new("what").args(["model", "dag"]).required(true))
}

fn workflow_options() -> [Arg; 4] {
    let option = |id: &'static str, value, help| Arg::new(id).long(id).value_name(value).help(help);
    let kinds = PossibleValuesParser::new(GraphKind::ALL.map(GraphKind::word));
    let kind = |word: String| GraphKind::ALL.into_iter().find(|kind| kind.word() == word);
    let kinds = kinds.map(move |word| kind(word).unwrap_or(GraphKind::Random));
    let tasks = dag::LEAST_TASKS as u64..=dag::MOST_TASKS as u64;
    [
        option("dag", "KIND", "Draw a workflow of this shape").value_parser(kinds),
        option("tasks", "N", "About how many tasks a workflow has [default: about 60]")
            .value_parser(value_parser!(u64).range(tasks)),
        option("machines", "N", "How many machines it is for [default: 5]")
            .value_parser(value_parser!(u64).range(1..=dag::MOST_MACHINES as u64)),
        option(
            "ccr",
            "F",
            "Communication to computation, from 0 to 100 [default: by chance, 0.1 to 1]",
        )
        .value_parser(ratio),
    ]
}

/// Reads a ratio, in thousandths.
fn ratio(text: &str) -> Result<u32, String> {
    let thousandths = text.parse().ok().map(|ratio: f64| (ratio * 1000.0).round());
    let known = |ratio: &f64| (0.0..=f64::from(*costs::ANY_RATIO.end())).contains(ratio);
    let ratio = thousandths.filter(known).map(|ratio| ratio as u32);
    ratio.ok_or_else(|| "a ratio is a number from 0 to 100".to_owned())
}

/// Runs the command.
///
/// # Errors
/// Options of another model, or standard output cannot be written. That nobody reads on is
/// no error.
pub fn run(options: &ArgMatches) -> anyhow::Result<ExitCode> {
    let written = match options.get_one::<GraphKind>("dag") {
        Some(kind) => workflow(options, *kind)?,
        None => log(options)?,
    };
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("standard output")
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn log(options: &ArgMatches) -> anyhow::Result<io::Result<()>> {
    let nodes = *options.get_one("nodes").context("--nodes is required")?;
    let settings = source::model_settings(options, nodes)?;
    let out = io::stdout().lock();
    Ok(swf::write(&settings.generate(), out, &settings.comments()))
}

fn workflow(options: &ArgMatches, kind: GraphKind) -> anyhow::Result<io::Result<()>> {
    let number = |name| options.get_one::<u64>(name).copied().map(usize::try_from);
    let seed = *options.get_one("seed").context("--seed has a default")?;
    let usual = GraphSettings::usual(kind, seed);
    let settings = GraphSettings {
        tasks: number("tasks").transpose()?.unwrap_or(usual.tasks),
        machines: number("machines").transpose()?.unwrap_or(usual.machines),
        ratio: options.get_one("ccr").copied(),
        ..usual
    };
    let text = graph_file::write(&settings.generate(), &settings.options());
    let mut out = io::stdout().lock();
    Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}
