//! `cosy-bench-slurm [--rounds N] [--waiting N]`: Slurm's commands, Cosy's beside Slurm's
//! own, in rounds made in turn: how long they take to start, to submit, to show and to
//! cancel a long queue, and to submit while many clients look.
//!
//! `cosy-bench-slurm --inner cosy|slurm` is one round with the commands that come first in
//! PATH. All jobs are held: nothing runs.

use cosy_tests::bench::{System, arguments, children_cpu, cpu_secs, daemons, outer, quiet, say};
use std::process::{Command, Stdio, exit};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Jobs that wait while clients look on.
const WATCHED: usize = 1000;
/// Clients that look on, once a second each.
const WATCHERS: u32 = 100;
/// Submissions that are timed, alone and while clients look on.
const ALONE: usize = 500;
const LOOKED_ON: usize = 2000;
/// Clients that fill the queue together.
const FILLERS: usize = 8;

struct Settings {
    rounds: usize,
    waiting: usize,
    inner: Option<System>,
}

fn main() {
    let settings = settings();
    let result = match settings.inner {
        Some(system) => inner(system, &settings),
        None => outer(
            settings.rounds,
            &["--nodes", "8", "--cores", "16"],
            &["--waiting".to_owned(), settings.waiting.to_string()],
        ),
    };
    if let Err(e) = result {
        eprintln!("cosy-bench-slurm: {e}");
        exit(1);
    }
}

fn settings() -> Settings {
    let mut settings = Settings {
        rounds: 1,
        waiting: 40_000,
        inner: None,
    };
    let usage = "cosy-bench-slurm [--rounds N] [--waiting N] [--inner cosy|slurm]";
    let mut numbers = [
        ("--rounds", &mut settings.rounds),
        ("--waiting", &mut settings.waiting),
    ];
    arguments(usage, &mut numbers, Some(&mut settings.inner));
    settings
}

fn inner(system: System, settings: &Settings) -> Result<(), String> {
    let (controller, _) = daemons(system)?;
    starts()?;
    let before = children_cpu();
    submissions("one client", ALONE)?;
    let cpu = (children_cpu() - before) * 1e3 / ALONE as f64;
    say("sbatch: CPU of the command", cpu, "ms");
    fill(WATCHED.saturating_sub(ALONE))?;
    watched()?;
    fill(settings.waiting.saturating_sub(WATCHED + LOOKED_ON))?;
    long_queue(controller)
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

/// Milliseconds that a command takes.
fn timed(words: &[&str]) -> Result<f64, String> {
    let start = Instant::now();
    match quiet(&mut command(words)) {
        true => Ok(start.elapsed().as_secs_f64() * 1e3),
        false => Err(format!("'{}' failed", words.join(" "))),
    }
}

fn at(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = ((values.len() - 1) as f64 * share).round() as usize;
    values.get(place).copied().unwrap_or_default()
}

// ---- what is measured

fn starts() -> Result<(), String> {
    for words in [
        &["true"][..],
        &["sbatch", "--version"],
        &["squeue", "--version"],
        &["scontrol", "--version"],
        &["srun", "--version"],
    ] {
        let before = children_cpu();
        let times: Result<Vec<f64>, String> = (0..200).map(|_| timed(words)).collect();
        let name = words.join(" ");
        say(&format!("start: {name}: p50"), at(&mut times?, 0.5), "ms");
        let cpu = (children_cpu() - before) * 1e3 / 200.0;
        say(&format!("start: {name}: CPU"), cpu, "ms");
    }
    Ok(())
}

const SUBMIT: [&str; 8] = [
    "sbatch",
    "-H",
    "-t",
    "10",
    "-o",
    "/dev/null",
    "--wrap",
    "true",
];

fn submissions(who: &str, count: usize) -> Result<(), String> {
    let times: Result<Vec<f64>, String> = (0..count).map(|_| timed(&SUBMIT)).collect();
    let mut times = times?;
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        say(&format!("sbatch, {who}: {name}"), at(&mut times, share), "ms");
    }
    Ok(())
}

/// Submits that many held jobs, several at once.
fn fill(count: usize) -> Result<(), String> {
    let left = AtomicUsize::new(count);
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..FILLERS {
            scope.spawn(|| {
                let take = |n: usize| n.checked_sub(1);
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                    .is_ok()
                {
                    if !quiet(&mut command(&SUBMIT)) {
                        failed.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    match failed.into_inner() {
        true => Err("a submission failed".to_owned()),
        false => Ok(()),
    }
}

/// Submissions while clients look at the queue once a second each.
fn watched() -> Result<(), String> {
    let over = AtomicBool::new(false);
    let looks = AtomicUsize::new(0);
    let start = Instant::now();
    let result = std::thread::scope(|scope| {
        for n in 0..WATCHERS {
            let (over, looks) = (&over, &looks);
            scope.spawn(move || {
                let mut next = start + Duration::from_secs(1) * n / WATCHERS;
                while !over.load(Ordering::Relaxed) {
                    let now = Instant::now();
                    if now < next {
                        std::thread::sleep((next - now).min(Duration::from_millis(50)));
                        continue;
                    }
                    quiet(&mut command(&["squeue"]));
                    looks.fetch_add(1, Ordering::Relaxed);
                    next += Duration::from_secs(1);
                }
            });
        }
        let done = submissions("100 clients look on", LOOKED_ON);
        over.store(true, Ordering::Relaxed);
        done
    });
    let rate = looks.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    say("looks while submitting", rate, "1/s");
    result
}

fn long_queue(controller: i32) -> Result<(), String> {
    let count = Command::new("squeue")
        .arg("-h")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| e.to_string())?;
    let rows = count.stdout.iter().filter(|b| **b == b'\n').count();
    say("waiting jobs", rows as f64, "jobs");
    for (words, times) in [
        (&["squeue"][..], 7),
        (&["squeue", "--me", "-h", "-o", "%i %T"], 7),
        (&["squeue", "--json"], 3),
        (&["sinfo"], 7),
    ] {
        let before = cpu_secs(controller);
        let walls: Result<Vec<f64>, String> = (0..times).map(|_| timed(words)).collect();
        let name = words.join(" ");
        say(&format!("long queue: {name}"), at(&mut walls?, 0.5), "ms");
        let cpu = (cpu_secs(controller) - before) * 1e3 / f64::from(times);
        say(&format!("long queue: {name}: CPU of the controller"), cpu, "ms");
    }
    let user = std::env::var("USER").unwrap_or_else(|_| "root".to_owned());
    let wall = timed(&["scancel", "-u", &user])?;
    say("long queue: scancel of all", wall, "ms");
    Ok(())
}
