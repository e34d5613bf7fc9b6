//! The command `cosy-sim calibrate`: the notice curve of a site's own workload.

use super::output::print;
use super::run;
use super::source;
use anyhow::{Context, bail};
use clap::{Arg, ArgMatches, Command, value_parser};
use cosy_model::Span;
use cosy_sched::Policy;
use cosy_sim::cosy::calibration::{Row, calibrate, curve};
use cosy_sim::cosy::case::{Case, ReferenceWait, Weighting};
use cosy_sim::cosy::needed_multiple::NeededMultiple;
use cosy_sim::cosy::study::nothing_waits;
use cosy_sim::machine::Machine;
use cosy_sim::parallel;
use cosy_sim::policy;
use cosy_sim::workload::Job;
use std::process::ExitCode;

const MOST_CHOICES: u64 = 10_000;

const ABOUT: &str = "\
Finds how long before its start a reservation must be asked for so that the queue waits no
longer than it would without reservations, for 5, 10, 15 and 20 % of the jobs as reservations
with an exact start, and prints the lines for cosyd's configuration.

The notice time is n times w, the mean wait of the queued jobs that started within the window.

With backfill, reservations may shorten the waits of many small jobs and prolong those of few
large ones: see what --mean work finds.

Examples:
  cosy-sim calibrate --workload log.swf.gz --machine 128 --until 60d
  cosy-sim calibrate --model cirne --jobs 500 --machine 32";

pub fn command() -> Command {
    let command = Command::new("calibrate")
        .about("Find the notice time of reservations for a site's own workload")
        .after_help(ABOUT);
    source::options(command)
        .arg(run::machine_option())
        .arg(
            option("policy", "POLICY", "fcfs, easy, conservative or depth=N")
                .default_value("easy")
                .value_parser(policy::parse),
        )
        .arg(
            option("until", "TIME", "Leave out jobs submitted later than that after the first")
                .value_parser(value_parser!(Span)),
        )
        .arg(
            option("window", "TIME", "Waits of jobs that started within that time count")
                .default_value("7d")
                .value_parser(source::window),
        )
        .arg(
            option(
                "mean",
                "OF",
                "Whose wait must not grow: every job counts the same, or as much as it asks for",
            )
            .default_value("jobs")
            .value_parser(["jobs", "work"]),
        )
        .arg(
            option("choices", "N", "So many choices of the jobs that become reservations")
                .default_value("5")
                .value_parser(value_parser!(u64).range(1..=MOST_CHOICES)),
        )
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// Runs the command.
///
/// # Errors
/// Workload or machine are not as they should be.
pub fn run(options: &ArgMatches) -> anyhow::Result<ExitCode> {
    let (machine, mut workload) = run::read(options)?;
    let (name, lenient) = (run::source_name(options), options.get_flag("lenient"));
    run::fit(machine, &mut workload, &name, lenient)?;
    let cases = cases(machine, &workload.jobs, options)?;
    if nothing_waits(&cases) {
        bail!("no job of the workload waits: there is nothing to calibrate by");
    }
    let weighting = match options.get_one::<String>("mean").map(String::as_str) {
        Some("work") => Weighting::ByWork,
        _ => Weighting::PerJob,
    };
    print(&head(&cases, options))?;
    let rows = calibrate(&cases, weighting, |row| print(&(line(row, weighting) + "\n")))?;
    let curve = curve(&rows).context("the points that were found")?;
    print(&format!("\n{}", curve.to_toml()))?;
    Ok(ExitCode::SUCCESS)
}

fn cases(machine: Machine, jobs: &[Job], options: &ArgMatches) -> anyhow::Result<Vec<Case>> {
    let window = *options
        .get_one("window")
        .context("--window has a default")?;
    let choices = *options
        .get_one("choices")
        .context("--choices has a default")?;
    let policy = *options.get_one("policy").unwrap_or(&Policy::EASY);
    let choices: Vec<u64> = (1..=choices).collect();
    let case = |seed: &u64| {
        Case::new(machine, policy, jobs.to_vec(), ReferenceWait::Window(window), *seed)
    };
    Ok(parallel::map(&choices, case))
}

fn head(cases: &[Case], options: &ArgMatches) -> String {
    let Some(case) = cases.first() else {
        return String::new();
    };
    let window = options.get_one("window").copied().unwrap_or(Span::ZERO);
    format!(
        "{} jobs on {}, policy {}, w over {window}; without reservations: mean wait {:.2} hours, \
         utilisation {:.1} %\n\
         q: wait of queued jobs, relative to that; r: rejected of all requests; in [] 95 % \
         confidence over {} choices\n \
         p %      n  q                     u %                r %\n",
        case.jobs.len(),
        case.machine,
        policy::name(case.policy),
        case.baseline.queue_wait.ms() as f64 / 3_600_000.0,
        case.baseline.utilisation * 100.0,
        cases.len(),
    )
}

fn line(row: &Row, weighting: Weighting) -> String {
    let n = match row.found {
        NeededMultiple::Lowest(n) | NeededMultiple::At(n) => n.to_string(),
        NeededMultiple::Above(n) => format!("> {n}"),
    };
    let point = &row.point;
    let wait = match weighting {
        Weighting::PerJob => point.relative_wait,
        Weighting::ByWork => point.relative_wait_by_work,
    };
    format!(
        "{:>4}  {n:>5}  {:<20}  {:<17}  {}",
        point.share,
        wait.interval(1.0, 3),
        point.utilisation.interval(100.0, 1),
        point.rejected.interval(100.0, 2),
    )
}
