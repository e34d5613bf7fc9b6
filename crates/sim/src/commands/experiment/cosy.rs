//! The command `cosy-sim experiment cosy`.

use super::{judged, option};
use crate::commands::output::Output;
use crate::commands::source;
use anyhow::{Context, bail};
use clap::{ArgMatches, Command, value_parser};
use cosy_sched::Policy;
use cosy_sim::cosy::case::{Case, ReferenceWait};
use cosy_sim::cosy::controller_replay;
use cosy_sim::cosy::report::Report;
use cosy_sim::cosy::study::{JobTimes, Settings, nothing_waits};
use cosy_sim::policy;
use std::process::ExitCode;

/// The load at which u is the paper's 74 % without reservations; see docs/EXPERIMENTS.md.
const PAPER_LOAD: &str = "0.65";
const MOST_NODES: i64 = 100_000;
const MOST_JOBS: u64 = 1_000_000;
const MOST_SEEDS: u64 = 1_000_000;
/// Of all workloads together: they are kept.
const MOST_REQUESTS: u64 = 10_000_000;

pub fn command() -> Command {
    let number = |name: &'static str, value: &'static str, most: u64| {
        let range = value_parser!(u64).range(1..=most);
        option(name, "N").default_value(value).value_parser(range)
    };
    Command::new("cosy")
        .about("Cao and Zimmermann 2004, section 4: queue and exact-start reservations")
        .arg(number("seeds", "200", MOST_SEEDS).help("Workloads, each from a seed of its own"))
        .arg(number("seed", "1", u64::MAX / 2).help("Seed of the first workload"))
        .arg(number("jobs", "100", MOST_JOBS).help("Requests of a workload"))
        .arg(
            option("nodes", "N")
                .default_value("32")
                .value_parser(value_parser!(u32).range(1..=MOST_NODES))
                .help("Nodes of the machine"),
        )
        .arg(
            option("load", "X")
                .default_value(PAPER_LOAD)
                .value_parser(source::load)
                .help("Multiplies the model's arrival rate and requested times"),
        )
        .arg(
            option("runs", "WHICH")
                .default_value("requested")
                .value_parser(["requested", "executed", "both"])
                .help("How long jobs run: as requested; as executed, and they ask for no more; or both as in the model"),
        )
        .arg(
            option("policy", "POLICY")
                .default_value("easy")
                .value_parser(policy::parse)
                .help("fcfs, easy, conservative or depth=N"),
        )
        .arg(
            option("wait", "WHICH")
                .default_value("settled")
                .value_parser(wait)
                .help("The wait that n multiplies: settled (of that very run), before (without reservations), or of jobs started within a time like 7d"),
        )
        .arg(
            option("controller", "N")
                .default_value("3")
                .value_parser(value_parser!(u64).range(0..=MOST_SEEDS))
                .help("So many of the workloads also go through the controller, without reservations"),
        )
        .arg(option("json", "FILE").help("Writes everything there as JSON; - for standard output"))
        .arg(super::check())
}

fn wait(text: &str) -> Result<ReferenceWait, String> {
    match text {
        "settled" => Ok(ReferenceWait::Settled),
        "before" => Ok(ReferenceWait::Baseline),
        window => match source::window(window) {
            Ok(window) => Ok(ReferenceWait::Window(window)),
            Err(error) => Err(format!("neither settled nor before nor a time: {error}")),
        },
    }
}

/// Runs the command.
///
/// # Errors
/// The options contradict each other, or the controller and the planner do.
pub fn run(options: &ArgMatches) -> anyhow::Result<ExitCode> {
    let mut output = Output::of(options, &["json"])?;
    let settings = settings(options)?;
    let cases = settings.cases();
    if nothing_waits(&cases) {
        bail!("no job waits without reservations: there is nothing that they could prolong");
    }
    let controller = controller(options, &cases)?;
    let report = Report::of(&cases);
    output.put("json", || {
        let mut all = report.to_json();
        all["experiment"] = headline(&settings).into();
        Ok(serde_json::to_string_pretty(&all)? + "\n")
    })?;
    output.finish(&format!("{}\n{report}\n{controller}", headline(&settings)))?;
    Ok(judged(options, report.all_hold()))
}

/// Demands of the controller the starts that the planner alone came to.
fn controller(options: &ArgMatches, cases: &[Case]) -> anyhow::Result<String> {
    let count = options.get_one::<u64>("controller").copied().unwrap_or(0);
    let mut jobs = 0;
    for (at, case) in (0..count).zip(cases) {
        let starts = controller_replay::starts(case.machine, case.policy, &case.jobs);
        for (job, (start, outcome)) in case.jobs.iter().zip(starts.iter().zip(&case.outcomes)) {
            let planned = outcome.start();
            if *start != planned {
                bail!(
                    "workload {at}, job {}: the controller starts it at {start:?}, the planner alone at {planned:?}",
                    job.id
                );
            }
            jobs += 1;
        }
    }
    Ok(format!(
        "The controller, event by event: the same starts for all {jobs} jobs of {} workloads. \
         Without reservations: those are in the experiment notice.\n",
        count.min(cases.len() as u64)
    ))
}

fn settings(options: &ArgMatches) -> anyhow::Result<Settings> {
    let number = |name: &str| options.get_one::<u64>(name).copied().unwrap_or(1);
    let job_times = match options.get_one::<String>("runs").map(String::as_str) {
        Some("executed") => JobTimes::Executed,
        Some("both") => JobTimes::Both,
        _ => JobTimes::Requested,
    };
    let (jobs, seeds) = (number("jobs"), number("seeds"));
    if jobs.saturating_mul(seeds) > MOST_REQUESTS {
        bail!("{seeds} workloads of {jobs} requests are more than {MOST_REQUESTS} requests");
    }
    Ok(Settings {
        nodes: options.get_one("nodes").copied().unwrap_or(1),
        jobs: usize::try_from(jobs).context("--jobs")?,
        seeds,
        first_seed: number("seed"),
        load: options.get_one("load").copied().unwrap_or(1.0),
        job_times,
        policy: options.get_one("policy").copied().unwrap_or(Policy::EASY),
        wait: options
            .get_one("wait")
            .copied()
            .unwrap_or(ReferenceWait::Settled),
    })
}

fn headline(settings: &Settings) -> String {
    let job_times = match settings.job_times {
        JobTimes::Requested => "jobs run as long as requested",
        JobTimes::Executed => "jobs ask for the time that they run",
        JobTimes::Both => "jobs run for less than they ask for",
    };
    let wait = match settings.wait {
        ReferenceWait::Settled => "w is the queue's mean wait in that run".to_owned(),
        ReferenceWait::Baseline => "w is the queue's mean wait without reservations".to_owned(),
        ReferenceWait::Window(window) => {
            format!("w is the mean wait of jobs started in the last {window}")
        }
    };
    format!(
        "{} requests on {} nodes, Cirne model with ANL arrivals, load {}, {job_times}, policy {}, {wait}",
        settings.jobs,
        settings.nodes,
        settings.load,
        policy::name(settings.policy),
    )
}
