//! The command `cosy-sim run`: one workload, one machine, one policy.

use super::output::Output;
use super::progress::Progress;
use super::report::{self, Report};
use super::source;
use anyhow::{Context, anyhow, bail};
use clap::{Arg, ArgMatches, Command, value_parser};
use cosy_model::Span;
use cosy_sched::Policy;
use cosy_sim::machine::Machine;
use cosy_sim::metrics::Metrics;
use cosy_sim::picture::{self, PictureError};
use cosy_sim::policy;
use cosy_sim::replay::{Replay, ReplayOptions, replay};
use cosy_sim::workload::{Job, Workload};
use std::process::ExitCode;
use std::time::Instant;

/// Nodes of a model's machine when nothing is said.
const MODEL_NODES: u32 = 128;

const PICTURES: [&str; 3] = ["gantt", "utilisation", "backlog"];

const EXAMPLES: &str = "\
Examples:
  cosy-sim run --workload log.swf.gz
  cosy-sim run --workload log.swf.gz --lenient --policy conservative --machine 32x16
  cosy-sim run --model lublin --jobs 200 --machine 64 --gantt gantt.svg --backlog backlog.svg
  cosy-sim run --workload log.swf.gz --until 30d --json - | jq .mean_wait
  cosy-sim generate --model cirne --nodes 64 --jobs 500 | cosy-sim run --workload - --machine 64

Files written are '-' for standard output; the table is then left out.";

pub fn command() -> Command {
    let command = Command::new("run")
        .about("Replay a workload on a machine and print waits, utilisation and more")
        .after_help(EXAMPLES);
    source::options(command)
        .arg(machine_option())
        .arg(
            Arg::new("policy")
                .long("policy")
                .value_name("POLICY")
                .help("fcfs, easy, conservative, or depth=N: so many waiting jobs have a guarantee")
                .default_value("easy")
                .value_parser(policy::parse),
        )
        .arg(
            Arg::new("until")
                .long("until")
                .value_name("TIME")
                .help("Leave out jobs submitted later than that after the first: 30d, 12h, ...")
                .value_parser(value_parser!(Span)),
        )
        .arg(file("json", "OUT", "Write the figures as JSON"))
        .arg(file("gantt", "OUT.svg", "Draw which job held which nodes when"))
        .arg(file("utilisation", "OUT.svg", "Draw how much of the machine was held over time"))
        .arg(file("backlog", "OUT.svg", "Draw how many jobs waited over time"))
}

/// `--machine`, which `try` has too.
pub fn machine_option() -> Arg {
    Arg::new("machine")
        .long("machine")
        .value_name("NODES[xCORES]")
        .help(
            "The machine: as many nodes, and processors on each [default: what the workload says]",
        )
        .value_parser(value_parser!(Machine))
}

/// `--NAME OUT`: a file to write.
pub fn file(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// Runs the command.
///
/// # Errors
/// Workload, machine or files are not as they should be.
pub fn run(options: &ArgMatches) -> anyhow::Result<ExitCode> {
    let mut output = Output::of(options, &["json", "gantt", "utilisation", "backlog"])?;
    let (machine, mut workload) = read(options)?;
    let lenient = options.get_flag("lenient");
    let too_large = fit(machine, &mut workload, &source_name(options), lenient)?;
    let policy = *options.get_one("policy").unwrap_or(&Policy::EASY);
    let keep_shares = options.contains_id("gantt");
    let jobs = workload.jobs.len();
    if keep_shares && jobs > picture::MAX_BARS {
        // What so many jobs hold is not even kept.
        return Err(PictureError::TooMany { jobs }).context("--gantt");
    }
    let (replay, took) = timed(machine, policy, &workload, keep_shares);
    let mut metrics = Metrics::of(machine, &workload, &replay);
    metrics.too_large += too_large;
    draw(&mut output, machine, &workload, &replay)?;
    let report = Report {
        workload: source_name(options),
        machine,
        policy: policy::name(policy),
        dropped: report::dropped(&workload),
        submitted: replay.job_runs.len() as u64,
        took,
        metrics,
    };
    output.put("json", || report.json())?;
    output.finish(&report.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// The machine that was asked for or that the workload names, and the workload until
/// `--until`.
pub fn read(options: &ArgMatches) -> anyhow::Result<(Machine, Workload)> {
    let asked: Option<Machine> = options.get_one("machine").copied();
    let size = asked.map_or(MODEL_NODES.into(), |machine| machine.size());
    let mut workload = source::read(options, u32::try_from(size).unwrap_or(u32::MAX))?;
    cut(&mut workload.jobs, options);
    if workload.jobs.is_empty() {
        bail!("the workload has no job that could run{}", report::dropped_line(&workload));
    }
    machine_of(options, &workload).map(|machine| (machine, workload))
}

/// The machine that was asked for, else the one that the workload names.
pub fn machine_of(options: &ArgMatches, workload: &Workload) -> anyhow::Result<Machine> {
    match (options.get_one("machine"), workload.machine) {
        (Some(machine), _) => Ok(*machine),
        (None, Some(processors)) => {
            let named = processors.to_string();
            named.parse().context("the machine that the workload names")
        }
        (None, None) => bail!(
            "the workload does not say what machine it ran on: say it with --machine NODES[xCORES]"
        ),
    }
}

/// Refuses jobs of the workload called `name` that are larger than the machine, or if that
/// is `lenient` drops them; says how many.
pub fn fit(
    machine: Machine,
    workload: &mut Workload,
    name: &str,
    lenient: bool,
) -> anyhow::Result<u64> {
    let name = source::called(name);
    let gone = machine.fit(workload, lenient).map_err(|error| {
        let line = error.line;
        anyhow!("{name}:{line}: {error}; --lenient leaves such jobs out and counts them")
    })?;
    if gone > 0 {
        workload
            .dropped
            .push(("larger than the machine".to_owned(), gone));
    }
    if workload.jobs.is_empty() {
        bail!("no job of the workload fits the machine ({machine})");
    }
    Ok(gone)
}

/// Leaves out what `--until` says, which counts from the first submission.
fn cut(jobs: &mut Vec<Job>, options: &ArgMatches) {
    let first = jobs.first().map(|job| job.submit);
    if let Some((first, length)) = first.zip(options.get_one::<Span>("until")) {
        jobs.retain(|job| job.submit <= first + *length);
    }
}

/// Replays, with a line of progress where someone sees it, and says how many seconds that
/// took.
fn timed(
    machine: Machine,
    policy: Policy,
    workload: &Workload,
    keep_shares: bool,
) -> (Replay, f64) {
    let mut progress = Progress::of(workload.jobs.len() as u64);
    let mut show = |started| progress.show(started);
    let options = ReplayOptions {
        keep_shares,
        progress: Some(&mut show),
        ..ReplayOptions::default()
    };
    let begun = Instant::now();
    let replay = replay(machine, policy, workload, options);
    let took = begun.elapsed().as_secs_f64();
    progress.end();
    (replay, took)
}

fn draw(
    output: &mut Output,
    machine: Machine,
    workload: &Workload,
    replay: &Replay,
) -> anyhow::Result<()> {
    for name in PICTURES {
        output.put(name, || {
            Ok(match name {
                "gantt" => picture::gantt(machine, workload, replay)?,
                "utilisation" => picture::utilisation(machine, workload, replay),
                _ => picture::backlog(machine, workload, replay),
            })
        })?;
    }
    Ok(())
}

/// The file, or the model.
pub fn source_name(options: &ArgMatches) -> String {
    let given = |id| options.get_raw(id)?.next();
    let name = given("workload").or_else(|| given("model"));
    name.unwrap_or_default().to_string_lossy().into_owned()
}
