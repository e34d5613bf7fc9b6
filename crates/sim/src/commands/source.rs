//! Where a workload comes from: the options that several commands share, and their reading.

use anyhow::{Context, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cosy_model::Span;
use cosy_sim::log_input::{self, Strictness};
use cosy_sim::models::cirne::{self, Arrival};
use cosy_sim::models::lublin::{self, JobKind};
use cosy_sim::workload::Workload;
use cosy_sim::{sacct, swf};
use std::fs::File;
use std::io::{self, BufRead, BufReader};

const DEFAULT_JOBS: &str = "1000";
const DEFAULT_SEED: &str = "1";
/// Options that say nothing about a log.
const MODEL_OPTIONS: [&str; 5] = ["jobs", "seed", "arrival", "kind", "load"];

/// A model that workloads are drawn from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Model {
    Cirne,
    Lublin,
}

/// The model that a workload is drawn from, with its settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ModelSettings {
    /// From the model of Cirne and Berman.
    Cirne(cirne::Settings),
    /// From the model of Lublin and Feitelson.
    Lublin(lublin::Settings),
}

/// Adds the options that name a log or a model.
pub fn options(command: Command) -> Command {
    let command = command
        .arg(
            Arg::new("workload")
                .long("workload")
                .value_name("FILE")
                .help("A log in the Standard Workload Format or the text of 'sacct -a -P -o ALL', packed with gzip or not; '-' is standard input")
                .conflicts_with("model"),
        )
        .arg(
            Arg::new("lenient")
                .long("lenient")
                .action(ArgAction::SetTrue)
                .help("Leave out and count rows that are no usable jobs, instead of refusing the log"),
        );
    MODEL_OPTIONS
        .iter()
        .fold(model_options(command), |command, id| {
            command.mut_arg(id, |option| option.conflicts_with("workload"))
        })
}

/// Adds the options that say what to draw from which model.
pub fn model_options(command: Command) -> Command {
    let option = |id: &'static str, value, help| Arg::new(id).long(id).value_name(value).help(help);
    command
        .arg(option("model", "MODEL", "Draw jobs from a model").value_parser(model_parser()))
        .arg(
            option("jobs", "N", "How many jobs a model draws")
                .value_parser(value_parser!(u64).range(1..=log_input::MAX_JOBS as u64))
                .default_value(DEFAULT_JOBS),
        )
        .arg(
            option("seed", "S", "What is drawn by chance repeats with the same seed")
                .value_parser(value_parser!(u64))
                .default_value(DEFAULT_SEED),
        )
        .arg(
            option("arrival", "SITE", "Daily cycle of submissions, for cirne [default: anl]")
                .value_parser(arrival_parser()),
        )
        .arg(
            option("kind", "KIND", "Which jobs, for lublin [default: both]")
                .value_parser(kind_parser()),
        )
        .arg(
            option(
                "load",
                "F",
                "Multiplies submissions per second, with cirne requested times too [default: 1]",
            )
            .value_parser(load),
        )
}

fn model_parser() -> impl TypedValueParser<Value = Model> {
    PossibleValuesParser::new(["cirne", "lublin"]).map(|name| match name.as_str() {
        "cirne" => Model::Cirne,
        _ => Model::Lublin,
    })
}

fn arrival_parser() -> impl TypedValueParser<Value = Arrival> {
    PossibleValuesParser::new(Arrival::ALL.map(Arrival::name)).try_map(|name| name.parse())
}

fn kind_parser() -> impl TypedValueParser<Value = JobKind> {
    PossibleValuesParser::new(JobKind::ALL.map(JobKind::name)).try_map(|name| name.parse())
}

/// Reads a length of time that has some length.
pub fn window(text: &str) -> Result<Span, String> {
    match text.parse() {
        Ok(Span::ZERO) => Err("it must be longer than 0: say 7d, 12h, ...".to_owned()),
        Ok(span) => Ok(span),
        Err(error) => Err(format!("{error}")),
    }
}

/// Reads a load that models are used with.
pub fn load(text: &str) -> Result<f64, String> {
    let known = cirne::LOADS;
    let load = text.parse().ok().filter(|load| known.contains(load));
    let (least, most) = (known.start(), known.end());
    load.ok_or_else(|| format!("a load is a number from {least} to {most}"))
}

/// The workload that the options name; `nodes` is the size of the machine for models.
///
/// # Errors
/// Options that contradict each other, or a log that cannot be read.
pub fn read(matches: &ArgMatches, nodes: u32) -> anyhow::Result<Workload> {
    let strictness = match matches.get_flag("lenient") {
        true => Strictness::Lenient,
        false => Strictness::Strict,
    };
    match matches.get_one::<String>("workload") {
        Some(file) => log(file, strictness),
        None => Ok(model_settings(matches, nodes)?.generate()),
    }
}

/// The name of `file` in messages.
pub fn called(file: &str) -> &str {
    match file {
        "-" => "standard input",
        path => path,
    }
}

/// The log called `file`, of whatever format; `-` is standard input.
///
/// # Errors
/// It cannot be read or holds no usable workload.
pub fn log(file: &str, strictness: Strictness) -> anyhow::Result<Workload> {
    match file {
        "-" => known_by_content(called(file), io::stdin().lock(), strictness),
        path => {
            let input = File::open(path).with_context(|| format!("{path}: cannot be read"))?;
            known_by_content(path, BufReader::new(input), strictness)
        }
    }
}

fn known_by_content(
    name: &str,
    input: impl BufRead,
    strictness: Strictness,
) -> anyhow::Result<Workload> {
    let (head, input) = log_input::peek(log_input::unpack(input), log_input::MAX_LINE_BYTES);
    Ok(match sacct::is_likely(&head) {
        true => sacct::read(name, input, strictness)?,
        false => swf::read(name, input, strictness)?,
    })
}

/// What the options of a model say.
///
/// # Errors
/// No model, or options of the other one.
pub fn model_settings(matches: &ArgMatches, nodes: u32) -> anyhow::Result<ModelSettings> {
    let Some(model) = matches.get_one::<Model>("model") else {
        bail!("no workload: say --workload FILE, or --model cirne or --model lublin");
    };
    let arrival = matches.get_one("arrival").copied();
    let kind = matches.get_one("kind").copied();
    let jobs = *matches
        .get_one::<u64>("jobs")
        .context("--jobs has a default")?;
    let jobs = usize::try_from(jobs)?;
    let seed = *matches.get_one("seed").context("--seed has a default")?;
    let load = matches.get_one("load").copied().unwrap_or(1.0);
    match (model, arrival, kind) {
        (Model::Cirne, _, Some(_)) => {
            bail!("--kind is of the model lublin only: leave it out, or say --model lublin")
        }
        (Model::Lublin, Some(_), _) => {
            bail!("--arrival is of the model cirne only: leave it out, or say --model cirne")
        }
        (Model::Cirne, arrival, None) => Ok(ModelSettings::Cirne(cirne::Settings {
            nodes,
            jobs,
            seed,
            arrival: arrival.unwrap_or(Arrival::Anl),
            load,
            ..cirne::Settings::default()
        })),
        (Model::Lublin, None, kind) => Ok(ModelSettings::Lublin(lublin::Settings {
            nodes,
            jobs,
            seed,
            kind: kind.unwrap_or(JobKind::Both),
            load,
        })),
    }
}

impl ModelSettings {
    /// Draws the workload from the model.
    pub fn generate(&self) -> Workload {
        match self {
            Self::Cirne(settings) => cirne::generate(settings),
            Self::Lublin(settings) => lublin::generate(settings),
        }
    }

    /// Comments on top of a log of it: the model, everything that repeats it, and whom to
    /// acknowledge.
    pub fn comments(&self) -> Vec<String> {
        match self {
            Self::Cirne(settings) => vec![
                "Computer: model of Cirne and Berman (2001), rigid jobs".to_owned(),
                format!(
                    "Note: --model cirne --nodes {} --jobs {} --seed {} --arrival {} --load {}",
                    settings.nodes, settings.jobs, settings.seed, settings.arrival, settings.load
                ),
                "Note: 'Cancel: JOB SECONDS' is when a job leaves if it still waits".to_owned(),
                "Acknowledge: W. Cirne, F. Berman, A comprehensive model of the supercomputer \
                 workload, 4th IEEE Workshop on Workload Characterization, 2001"
                    .to_owned(),
            ],
            Self::Lublin(settings) => vec![
                "Computer: model of Lublin and Feitelson (2003), rigid jobs".to_owned(),
                format!(
                    "Note: --model lublin --nodes {} --jobs {} --seed {} --kind {} --load {}",
                    settings.nodes, settings.jobs, settings.seed, settings.kind, settings.load
                ),
                "Note: requested times are even between the run time and six times it".to_owned(),
                "Acknowledge: U. Lublin, D. G. Feitelson, The workload on parallel \
                 supercomputers: modeling the characteristics of rigid jobs, JPDC 63(11), 2003"
                    .to_owned(),
                "Acknowledge: A. W. Mu'alem, D. G. Feitelson, IEEE TPDS 12(6), 2001 (requested \
                 times)"
                    .to_owned(),
            ],
        }
    }
}
