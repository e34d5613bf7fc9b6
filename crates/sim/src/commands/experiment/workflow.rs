//! The command `cosy-sim experiment workflow`.

use super::{check, judged, number, option};
use crate::commands::output::Output;
use crate::commands::progress::Progress;
use anyhow::Context;
use clap::{ArgMatches, Command, value_parser};
use cosy_model::Span;
use cosy_sim::dag::graph_file;
use cosy_sim::workflow::report::{Report, of_one};
use cosy_sim::workflow::spare::planned;
use cosy_sim::workflow::study::Settings;
use std::fs::File;
use std::io::Read;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

const HELP: &str = "\
Examples:
  cosy-sim experiment workflow
  cosy-sim experiment workflow --runs 10 --json all.json
  cosy-sim generate --dag montage > m.json && cosy-sim experiment workflow --dag-file m.json
  cosy-sim experiment workflow --queue KTH-SP2-1996-2.1-cln.swf.gz --load 10 --slack 50

Graphs of five kinds on five machines, four first schedules, six ways to share out the time
until the deadline. A unit of the paper's time is a second. With --dag-file only that graph
is planned, in all these ways. With --queue workflows arrive on a machine that serves the jobs
of a log, with slots or as plain jobs, and are planned again or not.";

const MOST_RUNS: u64 = 10_000;

pub fn command() -> Command {
    Command::new("workflow")
        .about("Zhao and Sakellariou 2006, section 4: slots for the tasks of workflows")
        .after_help(HELP)
        .args([
            option("runs", "N")
                .default_value("100")
                .value_parser(value_parser!(u64).range(1..=MOST_RUNS))
                .help("So many graphs of each kind"),
            option("seed", "S")
                .default_value("1")
                .value_parser(value_parser!(u64).range(..=u64::MAX / 2))
                .help("Seed of the first graph"),
            option("deadline", "TIME")
                .default_value("1500s")
                .value_parser(crate::commands::source::window)
                .help("The deadline of Table 1"),
            option("dag-file", "FILE").help(
                "Plans this graph, as 'cosy-sim generate --dag' writes them; - for standard input",
            ),
            option("json", "FILE").help("Writes everything there as JSON; - for standard output"),
            check(),
        ])
        .args(super::flow_queue::options())
}

/// Runs the command.
///
/// # Errors
/// A file that cannot be read or written, or holds no graph.
pub fn run(options: &ArgMatches) -> anyhow::Result<ExitCode> {
    if let Some(path) = options.get_one::<String>("queue") {
        return super::flow_queue::run(path, options);
    }
    let deadline_ms = options.get_one("deadline").map_or(0, |span: &Span| span.0);
    if let Some(path) = options.get_one::<String>("dag-file") {
        return one(path, deadline_ms);
    }
    let mut output = Output::of(options, &["json"])?;
    let settings = Settings {
        runs: number(options, "runs"),
        first_seed: number(options, "seed"),
        deadline_ms,
    };
    let progress = Mutex::new(Progress::counting(settings.steps(), "steps"));
    let study = settings.study(&cpu_time, &|done| {
        if let Ok(mut progress) = progress.lock() {
            progress.show(done);
        }
    });
    if let Ok(progress) = progress.into_inner() {
        progress.end();
    }
    let report = Report::of(study);
    output.put("json", || Ok(serde_json::to_string_pretty(&report.to_json())? + "\n"))?;
    let headline = format!("{} graphs of each kind, 5 machines", settings.runs);
    output.finish(&format!("{headline}\n{report}"))?;
    Ok(judged(options, report.all_hold()))
}

/// Plans one graph in all ways.
fn one(path: &str, deadline_ms: i64) -> anyhow::Result<ExitCode> {
    let name = crate::commands::source::called(path);
    let graph = graph_file::read(&text(path)?).with_context(|| name.to_owned())?;
    let (dag, machines) = graph.planned().with_context(|| name.to_owned())?;
    let all = cosy_sim::workflow::SCHEDULERS.map(|scheduler| {
        let first = cosy_sched::workflow::schedule(scheduler, &dag, &machines);
        planned(&dag, &machines, &first, deadline_ms)
    });
    crate::commands::output::print(&of_one(&all))?;
    Ok(ExitCode::SUCCESS)
}

fn text(path: &str) -> anyhow::Result<String> {
    let mut input: Box<dyn Read> = match path {
        "-" => Box::new(std::io::stdin().lock()),
        path => Box::new(File::open(path).with_context(|| format!("{path}: cannot be read"))?),
    };
    let mut text = String::new();
    let most = graph_file::MOST_BYTES as u64;
    let read = input.by_ref().take(most + 1).read_to_string(&mut text);
    let name = crate::commands::source::called(path);
    read.with_context(|| format!("{name}: cannot be read"))?;
    anyhow::ensure!(
        text.len() as u64 <= most,
        "{name} has more than {} MiB, the most that is read",
        most >> 20
    );
    Ok(text)
}

/// Processor time of this thread; zero where the kernel does not tell.
fn cpu_time() -> Duration {
    std::thread::yield_now(); // the kernel brings its account up to date
    let account = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = account.split_whitespace().next();
    Duration::from_nanos(first.and_then(|ns| ns.parse().ok()).unwrap_or(0))
}
