//! The command `cosy-sim experiment notice`.

use super::{check, jobs, judged, number, option, records, seeds};
use crate::commands::output::Output;
use crate::commands::progress::Progress;
use crate::commands::source;
use anyhow::Context;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cosy_sched::Policy;
use cosy_sched::notice::{Curve, Share, WaitMultiple};
use cosy_sim::booking::logs;
use cosy_sim::log_input::Strictness;
use cosy_sim::notice::report::Report;
use cosy_sim::notice::rule_sets::RuleSet;
use cosy_sim::notice::run::Month;
use cosy_sim::notice::study::Settings;
use cosy_sim::policy;
use cosy_sim::replay::Machine;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;

const HELP: &str = "\
Examples:
  cosy-sim experiment notice --workload SDSC-SP2-1998-4.2-cln.swf.gz
  cosy-sim experiment notice --workload SDSC-SP2-1998-4.2-cln.swf.gz --policy fcfs --rule academic
  cosy-sim experiment notice --workload log.swf --machine 64 --rising 5,20 --constant 10 --curve 0:1,15:8

Everything goes through the controller, with its own rules. The month is that of the pricing
experiment: 2888 rows from job 11 on.";

const FIRST_ID: u64 = 11;

pub fn command() -> Command {
    Command::new("notice")
        .about("COSY's notice rule (section 4.4) kept in force over a month with more and more reservations")
        .after_help(HELP)
        .arg(option("workload", "FILE").required(true).help("A log in the Standard Workload Format"))
        .arg(
            option("machine", "NODES")
                .default_value("128")
                .value_parser(value_parser!(u32).range(1..=100_000))
                .help("Nodes, of one processor each"),
        )
        .arg(option("jobs", "N").default_value("2888").value_parser(jobs()).help("At most so many rows"))
        .arg(
            option("policy", "POLICY")
                .default_value("easy")
                .value_parser(policy::parse)
                .help("fcfs, easy, conservative or depth=N"),
        )
        .arg(
            option("rising", "PERCENT,...")
                .default_value("2,5,10,20,30")
                .value_parser(shares)
                .help("So many of the jobs ask for a reservation, week by week; the last goes on"),
        )
        .arg(
            option("constant", "PERCENT,...")
                .default_value("5,10,20,30")
                .value_parser(shares)
                .help("Shares that stay the same all month, each in runs of its own; only with the academic rule"),
        )
        .arg(
            option("rule", "RULE")
                .value_parser(rule)
                .help("Only this one: none, academic, weighed (by core-hours) or default"),
        )
        .arg(
            option("curve", "P:N,...")
                .value_parser(curve)
                .help("n over the share in per cent; none are accepted above the last share [default: 0:1,15:4]"),
        )
        .arg(
            Arg::new("exact")
                .long("exact")
                .action(ArgAction::SetTrue)
                .help("All limits are run times"),
        )
        .arg(
            option("candidates", "N")
                .default_value("100")
                .value_parser(value_parser!(u64).range(1..=500))
                .help("Most candidates for the start of a reservation"),
        )
        .args(seeds("5"))
        .arg(option("json", "FILE").help("Writes everything there as JSON; - for standard output"))
        .arg(check())
}

/// Runs the command.
///
/// # Errors
/// The log holds no such workload.
pub fn run(options: &ArgMatches) -> anyhow::Result<ExitCode> {
    let mut output = Output::of(options, &["json"])?;
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
    let headline = headline(&settings, options.get_flag("exact"));
    output.put("json", || {
        let mut all = report.to_json();
        all["experiment"] = headline.clone().into();
        Ok(serde_json::to_string_pretty(&all)? + "\n")
    })?;
    output.finish(&format!("{headline}\n{report}"))?;
    Ok(judged(options, report.all_hold()))
}

fn settings(options: &ArgMatches) -> anyhow::Result<Settings> {
    let only = options.get_one::<RuleSet>("rule").copied();
    let shares = |name: &str| options.get_one::<Vec<Share>>(name).cloned();
    Ok(Settings {
        month: month(options)?,
        rising: shares("rising").unwrap_or_default(),
        constant: shares("constant").unwrap_or_default(),
        rule_sets: only.map_or(RuleSet::ALL.to_vec(), |only| vec![only]),
        seeds: number(options, "seeds"),
        first_seed: number(options, "seed"),
    })
}

fn month(options: &ArgMatches) -> anyhow::Result<Month> {
    let path = options
        .get_one::<String>("workload")
        .context("--workload")?;
    let nodes = options.get_one::<u32>("machine").copied().unwrap_or(1);
    let rows = usize::try_from(number(options, "jobs"))?;
    let mut jobs = logs::month(path, &records(path)?, FIRST_ID, rows, nodes)?;
    let users = users(path)?;
    for job in &mut jobs {
        job.user = users.get(&job.id).copied().unwrap_or(0);
        if options.get_flag("exact") {
            job.limit = job.run;
        }
    }
    Ok(Month {
        machine: Machine { nodes, cores: 1 },
        policy: options.get_one("policy").copied().unwrap_or(Policy::EASY),
        jobs,
        curve: options.get_one("curve").cloned().unwrap_or_default(),
        candidates: usize::try_from(number(options, "candidates"))?,
    })
}

/// User of each job of the log, by job number.
fn users(path: &str) -> anyhow::Result<BTreeMap<u64, u32>> {
    let workload = source::log(path, Strictness::Lenient)?;
    let jobs = workload.jobs.iter();
    Ok(jobs.map(|job| (job.id, job.user)).collect())
}

fn percent(text: &str) -> Result<Share, String> {
    match text.trim().parse::<u32>() {
        Ok(percent) if percent <= 100 => Ok(Share::percent(percent)),
        _ => Err(format!("'{text}' is no whole number of per cent from 0 to 100")),
    }
}

fn shares(text: &str) -> Result<Vec<Share>, String> {
    text.split(',').map(percent).collect()
}

fn rule(text: &str) -> Result<RuleSet, String> {
    match text {
        "none" => Ok(RuleSet::Free),
        "academic" => Ok(RuleSet::Academic),
        "weighed" => Ok(RuleSet::Weighed),
        "default" => Ok(RuleSet::Protected),
        _ => Err("use none, academic, weighed or default".to_owned()),
    }
}

fn curve(text: &str) -> Result<Curve, String> {
    let point = |part: &str| {
        let (share, n) = part
            .split_once(':')
            .ok_or_else(|| format!("'{part}' is no share and n like 15:4"))?;
        let n = n.parse::<f64>().ok().filter(|n| (0.0..=1000.0).contains(n));
        let n = n.ok_or_else(|| format!("n in '{part}' is no number from 0 to 1000"))?;
        Ok((percent(share)?, WaitMultiple((n * 1000.0).round() as u32)))
    };
    let points: Vec<_> = text.split(',').map(point).collect::<Result<_, String>>()?;
    let last = points.last().map_or(Share::ALL, |(share, _)| *share);
    Curve::new(points, last).map_err(|error| error.to_string())
}

fn headline(settings: &Settings, exact: bool) -> String {
    let month = &settings.month;
    format!(
        "{} jobs on {} nodes over {} weeks, policy {}, {}; n over the share of reservations: {}; {} drawings",
        month.jobs.len(),
        month.machine.nodes,
        month.weeks(),
        policy::name(month.policy),
        match exact {
            true => "limits are run times",
            false => "limits as in the log",
        },
        curve_text(&month.curve),
        settings.seeds,
    )
}

fn curve_text(curve: &Curve) -> String {
    let point = |(share, n): &(Share, WaitMultiple)| format!("{n} at {share} %");
    let points: Vec<String> = curve.points().iter().map(point).collect();
    format!("{}, none above {} %", points.join(", "), curve.refuse_above())
}
