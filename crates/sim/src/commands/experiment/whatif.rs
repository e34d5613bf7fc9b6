//! The command `cosy-sim experiment whatif`.

use super::{check, files, jobs, judged, number, option, records, seeds};
use crate::commands::output::Output;
use crate::commands::progress::Progress;
use crate::commands::source;
use anyhow::Context;
use clap::{ArgMatches, Command, value_parser};
use cosy_model::Span;
use cosy_sched::Policy;
use cosy_sim::booking::logs;
use cosy_sim::booking::whatif::placement::{SlotChoice, SlotKind};
use cosy_sim::booking::whatif::plot::cumulated;
use cosy_sim::booking::whatif::report::Report;
use cosy_sim::booking::whatif::study::Settings;
use cosy_sim::machine::Machine;
use cosy_sim::policy;
use std::process::ExitCode;
use std::sync::Mutex;

const HELP: &str = "\
Examples:
  cosy-sim experiment whatif --workload SDSC-BLUE-2000-4.2-cln.swf.gz
  cosy-sim experiment whatif --workload SDSC-BLUE-2000-4.2-cln.swf.gz --seeds 1 --jobs 300
  cosy-sim experiment whatif --workload log.swf --machine 128 --json all.json --svg figure4.svg

Of each ten jobs one becomes a reservation, asked for 0 to 24 hours ahead with a window of 0
to 30 hours for its start, and is placed by load and by what-if.";

pub fn command() -> Command {
    Command::new("whatif")
        .about("Röblitz and Rzadca 2006, section 5: placement by load and by what-if")
        .after_help(HELP)
        .arg(
            option("workload", "FILE")
                .required(true)
                .help("A log in the Standard Workload Format, packed with gzip or not; the paper's is SDSC Blue Horizon"),
        )
        .arg(
            option("machine", "NODESxCORES")
                .default_value("144x8")
                .value_parser(value_parser!(Machine))
                .help("Jobs get whole nodes of it"),
        )
        .arg(
            option("jobs", "N")
                .default_value("2000")
                .value_parser(jobs())
                .help("The first so many sound jobs"),
        )
        .args(seeds("5"))
        .arg(
            option("policy", "POLICY")
                .default_value("easy")
                .value_parser(policy::parse)
                .help("fcfs, easy, conservative or depth=N"),
        )
        .arg(
            option("candidates", "WHICH")
                .default_value("even")
                .value_parser(["even", "changes"])
                .help("Slots with equal distances, as in the paper, or also where free resources change"),
        )
        .arg(
            option("slots", "N")
                .default_value("20")
                .value_parser(value_parser!(u64).range(1..=10_000))
                .help("At most so many slots of a window"),
        )
        .arg(
            option("gap", "TIME")
                .default_value("10m")
                .value_parser(source::window)
                .help("Slots are no nearer than this"),
        )
        .arg(
            option("weight", "PERCENT")
                .default_value("50")
                .value_parser(value_parser!(u32).range(0..=100))
                .help("Weight of the makespan in the availability; the rest is that of the completion times"),
        )
        .arg(
            option("equal", "PERCENT")
                .default_value("0")
                .value_parser(value_parser!(u32).range(0..=100))
                .help("What-if takes the earliest slot with an availability this near to the best"),
        )
        .args(files())
        .arg(check())
}

/// Runs the command.
///
/// # Errors
/// The log holds no such workload.
pub fn run(options: &ArgMatches) -> anyhow::Result<ExitCode> {
    let mut output = Output::of(options, &["json", "svg"])?;
    let settings = settings(options)?;
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
    let headline = headline(options, &settings);
    output.put("json", || {
        let mut all = report.to_json();
        all["experiment"] = headline.clone().into();
        Ok(serde_json::to_string_pretty(&all)? + "\n")
    })?;
    output.put("svg", || Ok(cumulated(&study)))?;
    output.finish(&format!("{headline}\n{report}"))?;
    Ok(judged(options, report.all_hold()))
}

fn settings(options: &ArgMatches) -> anyhow::Result<Settings> {
    let path = options
        .get_one::<String>("workload")
        .context("--workload")?;
    let machine = options.get_one::<Machine>("machine").context("--machine")?;
    let parts = (machine.nodes, machine.cores);
    let count = usize::try_from(number(options, "jobs"))?;
    let kind = match options.get_one::<String>("candidates").map(String::as_str) {
        Some("changes") => SlotKind::Changes,
        _ => SlotKind::Even,
    };
    Ok(Settings {
        jobs: logs::sound(path, &records(path)?, count, parts)?,
        nodes: machine.nodes,
        policy: options.get_one("policy").copied().unwrap_or(Policy::EASY),
        seeds: number(options, "seeds"),
        first_seed: number(options, "seed"),
        slots: SlotChoice {
            kind,
            most: usize::try_from(number(options, "slots"))?,
            gap: options.get_one("gap").copied().unwrap_or(Span::ZERO),
            makespan_weight_ppm: percent(options, "weight") * 10_000,
            equal_ppm: percent(options, "equal") * 10_000,
        },
    })
}

fn percent(options: &ArgMatches, name: &str) -> u32 {
    options.get_one::<u32>(name).copied().unwrap_or(0)
}

fn headline(options: &ArgMatches, settings: &Settings) -> String {
    let named = |name: &str| options.get_one::<String>(name).map_or("", String::as_str);
    let submitted = settings.jobs.last().map_or(0, |job| job.submit.0);
    let SlotChoice { most, gap, .. } = settings.slots;
    format!(
        "{} jobs on {} nodes, submitted over {:.2} days, policy {}; of each ten one is a \
         reservation; at most {most} slots, {}, {gap} apart or more; weight of the makespan {} %{equal}",
        settings.jobs.len(),
        settings.nodes,
        submitted as f64 / 86_400_000.0,
        policy::name(settings.policy),
        named("candidates"),
        settings.slots.makespan_weight_ppm / 10_000,
        equal = match settings.slots.equal_ppm / 10_000 {
            0 => String::new(),
            equal => format!("; availabilities within {equal} % are equal"),
        },
    )
}
