//! The command `cosy-sim experiment pricing`.

use super::{check, files, jobs, judged, number, option, records, seeds};
use crate::commands::output::Output;
use crate::commands::progress::Progress;
use anyhow::bail;
use clap::{Arg, ArgAction, ArgMatches, Command};
use cosy_sim::booking::logs;
use cosy_sim::booking::pricing::plot::figures;
use cosy_sim::booking::pricing::report::Report;
use cosy_sim::booking::pricing::run::System;
use cosy_sim::booking::pricing::study::Settings;
use std::process::ExitCode;
use std::sync::Mutex;

const HELP: &str = "\
Examples:
  cosy-sim experiment pricing --sp2 SDSC-SP2-1998-4.2-cln.swf.gz --ctc CTC-SP2-1996-3.1-cln.swf.gz
  cosy-sim experiment pricing --sp2 SDSC-SP2-1998-4.2-cln.swf.gz --jobs 300 --seeds 1
  cosy-sim experiment pricing --ctc CTC-SP2-1996-3.1-cln.swf.gz --json all.json --svg figures.svg

One of ten jobs is a reservation, bought at the price of the delay that it means for the
queue, more or less cheap or early (alpha), at three loads.";

/// A month of a log as the paper took it.
struct Month {
    option: &'static str,
    name: &'static str,
    first_id: u64,
    rows: u64,
    nodes: u32,
}

/// The paper's, with the first row that counts found from the logs of today.
const MONTHS: [Month; 2] = [
    Month {
        option: "sp2",
        name: "SP2",
        first_id: 11,
        rows: 2888,
        nodes: 128,
    },
    Month {
        option: "ctc",
        name: "CTC",
        first_id: 4,
        rows: 7588,
        nodes: 430,
    },
];

pub fn command() -> Command {
    let log = |name, help| option(name, "FILE").help(help);
    Command::new("pricing")
        .about("Singh, Kesselman and Deelman 2007, section 4: reservations at adaptive prices")
        .after_help(HELP)
        .arg(log("sp2", "The log of SDSC-SP2; 128 nodes, 2888 rows from job 11 on"))
        .arg(log("ctc", "The log of CTC-SP2; 430 nodes, 7588 rows from job 4 on"))
        .arg(
            option("jobs", "N")
                .value_parser(jobs())
                .help("At most so many rows of each log, for shorter runs"),
        )
        .args(seeds("3"))
        .arg(
            Arg::new("exact")
                .long("exact")
                .action(ArgAction::SetTrue)
                .help(
                    "Limits of queued jobs are their run times, which the paper only talks about",
                ),
        )
        .args(files())
        .arg(check())
}

/// Runs the command.
///
/// # Errors
/// No log, or one that holds no such workload.
pub fn run(options: &ArgMatches) -> anyhow::Result<ExitCode> {
    let mut output = Output::of(options, &["json", "svg"])?;
    let settings = Settings {
        systems: systems(options)?,
        seeds: number(options, "seeds"),
        first_seed: number(options, "seed"),
        exact: options.get_flag("exact"),
    };
    let progress = Mutex::new(Progress::counting(settings.runs(), "runs"));
    let study = settings.study(&|done| {
        if let Ok(mut progress) = progress.lock() {
            progress.show(done);
        }
    });
    if let Ok(progress) = progress.into_inner() {
        progress.end();
    }
    let report = Report::of(&study);
    let headline = headline(&settings);
    output.put("json", || {
        let mut all = report.to_json();
        all["experiment"] = headline.clone().into();
        Ok(serde_json::to_string_pretty(&all)? + "\n")
    })?;
    output.put("svg", || Ok(figures(&study, &report)))?;
    output.finish(&format!("{headline}\n{report}"))?;
    Ok(judged(options, report.all_hold()))
}

fn systems(options: &ArgMatches) -> anyhow::Result<Vec<System>> {
    let mut systems = Vec::new();
    for month in MONTHS {
        let Some(path) = options.get_one::<String>(month.option) else {
            continue;
        };
        let rows = options
            .get_one::<u64>("jobs")
            .copied()
            .unwrap_or(month.rows);
        let rows = usize::try_from(rows.min(month.rows))?;
        let records = records(path)?;
        systems.push(System {
            name: month.name,
            nodes: month.nodes,
            jobs: logs::month(path, &records, month.first_id, rows, month.nodes)?,
        });
    }
    if systems.is_empty() {
        bail!("no log: say --sp2 FILE, --ctc FILE, or both");
    }
    Ok(systems)
}

fn headline(settings: &Settings) -> String {
    let system = |system: &System| {
        let (name, jobs, nodes) = (system.name, system.jobs.len(), system.nodes);
        format!("{name}: {jobs} jobs that ran, on {nodes} nodes")
    };
    let systems: Vec<String> = settings.systems.iter().map(system).collect();
    let limits = match settings.exact {
        true => "limits are run times",
        false => "limits as in the logs",
    };
    format!("{}; one of ten is a reservation; {limits}", systems.join("; "))
}
