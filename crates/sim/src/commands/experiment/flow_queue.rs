//! The command `cosy-sim experiment workflow --queue LOG`.

use super::{number, option};
use crate::commands::output::Output;
use crate::commands::progress::Progress;
use crate::commands::source;
use clap::{Arg, ArgMatches, value_parser};
use cosy_model::Span;
use cosy_model::workflow::FlowSlackPolicy;
use cosy_sched::Policy;
use cosy_sim::log_input::Strictness;
use cosy_sim::policy;
use cosy_sim::replay::Machine;
use cosy_sim::workflow::queue::arrivals::MOST;
use cosy_sim::workflow::queue::report::Report;
use cosy_sim::workflow::queue::study::Settings;
use cosy_sim::workload::Job;
use std::process::ExitCode;
use std::sync::Mutex;

/// Most per cent of a list.
const MOST_PERCENT: u32 = 1000;

/// Options that mean something only beside a queue.
const OWN: [&str; 10] = [
    "machine",
    "span",
    "policy",
    "load",
    "slack",
    "slack-policy",
    "qoi",
    "task-nodes",
    "unit",
    "seeds",
];

/// The options of `cosy-sim experiment workflow` that belong to `--queue`.
pub fn options() -> Vec<Arg> {
    let mut all = vec![
        option("queue", "LOG")
            .conflicts_with_all(["dag-file", "runs", "deadline", "check"])
            .help("Workflows beside the jobs of this log, backfilled around their slots"),
        option("machine", "NODES")
            .default_value("100")
            .value_parser(value_parser!(u32).range(1..=100_000))
            .help("Beside a queue: nodes, of one processor each"),
        option("span", "TIME")
            .default_value("28d")
            .value_parser(source::window)
            .help("Beside a queue: so much of the log, from its first job on"),
        option("policy", "POLICY")
            .default_value("easy")
            .value_parser(policy::parse)
            .help("Beside a queue: fcfs, easy, conservative or depth=N"),
        option("load", "PERCENT,...")
            .default_value("5,15")
            .value_parser(percents)
            .help("Beside a queue: workflows arrive until they are so much of the machine"),
        option("slack", "PERCENT,...")
            .default_value("20,50,100")
            .value_parser(percents)
            .help("Beside a queue: time until the deadline, beyond what the first schedule takes"),
        option("slack-policy", "POLICY,...")
            .default_value("cp_even_percent,r_even_percent1,r_even_time")
            .value_parser(policies)
            .help("Beside a queue: how it is shared out; only the first with all slacks"),
        option("qoi", "PERCENT")
            .default_value("50")
            .value_parser(value_parser!(u32).range(..=u32::from(u8::MAX) as i64))
            .help("Beside a queue: run times differ from estimates by up to so much"),
        option("task-nodes", "N")
            .default_value("4")
            .value_parser(value_parser!(u32).range(1..=100_000))
            .help("Beside a queue: nodes of a task"),
        option("unit", "SECONDS")
            .default_value("30")
            .value_parser(value_parser!(u32).range(1..=3600))
            .help("Beside a queue: a unit of the paper's time, of which tasks take 10 to 100"),
        option("seeds", "N")
            .default_value("3")
            .value_parser(value_parser!(u64).range(1..=10_000))
            .help("Beside a queue: so often, each time with other workflows"),
    ];
    for arg in &mut all {
        if OWN.contains(&arg.get_id().as_str()) {
            *arg = arg.clone().requires("queue");
        }
    }
    all
}

/// Runs the command.
///
/// # Errors
/// The log cannot be read, or has no job that fits.
pub fn run(path: &str, options: &ArgMatches) -> anyhow::Result<ExitCode> {
    let mut output = Output::of(options, &["json"])?;
    let settings = settings(path, options)?;
    check_size(&settings)?;
    let progress = Mutex::new(Progress::counting(settings.runs(), "runs"));
    let study = settings.study(&|done| {
        if let Ok(mut progress) = progress.lock() {
            progress.show(done);
        }
    });
    if let Ok(progress) = progress.into_inner() {
        progress.end();
    }
    output.put("json", || Ok(serde_json::to_string_pretty(&study)? + "\n"))?;
    output.finish(&format!("{}\n{}", headline(&settings), Report(&study)))?;
    Ok(ExitCode::SUCCESS)
}

fn settings(path: &str, options: &ArgMatches) -> anyhow::Result<Settings> {
    let one = |name: &str| options.get_one::<u32>(name).copied().unwrap_or(1);
    let list = |name: &str| options.get_one::<Vec<u32>>(name).cloned();
    let machine = Machine {
        nodes: one("machine"),
        cores: 1,
    };
    let task_nodes = one("task-nodes");
    anyhow::ensure!(
        task_nodes <= machine.nodes,
        "tasks of {task_nodes} nodes do not fit a machine of {machine}"
    );
    let span = options.get_one::<Span>("span").copied();
    Ok(Settings {
        machine,
        policy: options.get_one("policy").copied().unwrap_or(Policy::EASY),
        jobs: jobs(path, machine, span.unwrap_or(Span::ZERO))?,
        loads: list("load").unwrap_or_default(),
        slacks: list("slack").unwrap_or_default(),
        policies: options
            .get_one::<Vec<FlowSlackPolicy>>("slack-policy")
            .cloned()
            .unwrap_or_default(),
        qoi: one("qoi"),
        task_nodes,
        unit_s: one("unit"),
        seeds: number(options, "seeds"),
        first_seed: number(options, "seed"),
    })
}

/// # Errors
/// More workflows than are drawn.
fn check_size(settings: &Settings) -> anyhow::Result<()> {
    // Some room: it is not known exactly before they are drawn.
    let most = MOST as u64 / 10 * 9;
    for load in &settings.loads {
        let about = settings.load(*load, settings.first_seed).about();
        anyhow::ensure!(
            about <= most,
            "a load of {load} % would be about {about} workflows, {most} are the most: use a smaller --load or --span, or a larger --unit or --task-nodes"
        );
    }
    Ok(())
}

fn jobs(path: &str, machine: Machine, span: Span) -> anyhow::Result<Vec<Job>> {
    let mut workload = source::log(path, Strictness::Lenient)?;
    machine.fit(&mut workload, true)?;
    let first = workload.jobs.first().map(|job| job.submit);
    let inside = |job: &Job| first.is_some_and(|first| job.submit.since(first) <= span);
    workload.jobs.retain(inside);
    anyhow::ensure!(
        workload.jobs.len() > 1,
        "{}: needs at least two jobs that fit {machine}",
        source::called(path)
    );
    Ok(workload.jobs)
}

fn percents(text: &str) -> Result<Vec<u32>, String> {
    let one = |part: &str| {
        let number = part.trim().parse::<u32>().ok();
        let number = number.filter(|percent| *percent <= MOST_PERCENT);
        number.ok_or_else(|| {
            format!("'{part}' is no whole number of per cent from 0 to {MOST_PERCENT}")
        })
    };
    text.split(',').map(one).collect()
}

fn policies(text: &str) -> Result<Vec<FlowSlackPolicy>, String> {
    text.split(',').map(|part| part.trim().parse()).collect()
}

fn headline(settings: &Settings) -> String {
    format!(
        "{} jobs on {}, policy {}; workflows of tasks on {} nodes, {} s for a unit of the paper's time, run times up to {} % off; {} drawings",
        settings.jobs.len(),
        settings.machine,
        policy::name(settings.policy),
        settings.task_nodes,
        settings.unit_s,
        settings.qoi,
        settings.seeds,
    )
}
