//! `cosy-bench-node [--rounds N] [--jobs N] [--seconds N] [--tasks N]`: what a node daemon takes to
//! measure its jobs, beside one that does not, in rounds made in turn; and how many tasks `cosy each`
//! runs in a second, beside `xargs`.
//!
//! Jobs are measured once a second here, thirty times as often as usual, so that the difference is
//! more than the clock's ticks.

use cosy_model::{JobId, JobState};
use cosy_tests::bench::{arguments, children_cpu, cpu_secs, quiet, spread};
use cosy_tests::{Cluster, Options, programs, script};
use std::process::{Command, Stdio, exit};
use std::time::{Duration, Instant};

/// Between two measurements unless a site says otherwise, in seconds.
const USUAL: f64 = 30.0;

fn main() {
    let (mut rounds, mut jobs, mut seconds, mut tasks) = (3, 100, 20, 20_000);
    let usage = "cosy-bench-node [--rounds N] [--jobs N] [--seconds N] [--tasks N]";
    let mut numbers = [
        ("--rounds", &mut rounds),
        ("--jobs", &mut jobs),
        ("--seconds", &mut seconds),
        ("--tasks", &mut tasks),
    ];
    arguments(usage, &mut numbers, None);
    measuring(rounds, jobs, seconds as u64);
    if let Err(e) = many_tasks(rounds, tasks) {
        eprintln!("cosy-bench-node: {e}");
        exit(1);
    }
}

/// CPU time of a node daemon with and without measurements.
fn measuring(rounds: usize, jobs: usize, seconds: u64) {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        without.push(cpu_of_daemon(|_| "sample_interval = \"off\"\n".to_owned(), jobs, seconds));
        with.push(cpu_of_daemon(|_| "sample_interval = \"1s\"\n".to_owned(), jobs, seconds));
    }
    let per_second = |all: &[f64]| spread(all).1 / seconds as f64;
    let (off, on) = (per_second(&without), per_second(&with));
    let one = (on - off).max(0.0);
    println!("{jobs} jobs on a node, {rounds} rounds of {seconds} s, medians, CPU time of noded:");
    println!("  not measured           {:.3} ms a second", off * 1e3);
    println!("  measured each second   {:.3} ms a second", on * 1e3);
    println!("  one measurement        {:.3} ms", one * 1e3);
    println!("  as usual (each 30 s)   {:.4} % of a core", one / USUAL * 100.0);
}

fn cpu_of_daemon(noded: fn(usize) -> String, jobs: usize, seconds: u64) -> f64 {
    let options = Options {
        cores: u32::try_from(jobs).unwrap_or(u32::MAX),
        memory: "64G",
        noded,
        ..Options::default()
    };
    let c = Cluster::start(1, options);
    let submission = script(&c.work(), "exec sleep 3600");
    let all: Vec<JobId> = (0..jobs).map(|_| c.submit(&submission)).collect();
    for job in all {
        c.until_state(job, JobState::Running);
    }
    let pid = c.nodes[0].pid().cast_signed();
    // What their start has left is done.
    std::thread::sleep(Duration::from_secs(3));
    let before = cpu_secs(pid);
    std::thread::sleep(Duration::from_secs(seconds));
    cpu_secs(pid) - before
}

/// Tasks that do nothing, by `cosy each` and by `xargs`, as many at once.
fn many_tasks(rounds: usize, tasks: usize) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let inputs = dir.path().join("inputs");
    let lines: String = (0..tasks).map(|n| format!("{n}\n")).collect();
    std::fs::write(&inputs, lines).map_err(|e| e.to_string())?;
    let at_once = std::thread::available_parallelism()
        .map_or(1, std::num::NonZero::get)
        .to_string();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut each = Command::new(programs::folder().join("cosy"));
        each.args([
            "each",
            "-Q",
            "--overwrite",
            "-r",
            "results.tsv",
            "-j",
            &at_once,
            "--from",
        ]);
        each.arg(&inputs)
            .args(["--", "/bin/true"])
            .current_dir(dir.path());
        ours.push(timed(&mut each)?);
        let mut xargs = Command::new("xargs");
        xargs
            .args(["-P", &at_once, "-n", "1", "-a"])
            .arg(&inputs)
            .arg("/bin/true");
        theirs.push(timed(&mut xargs)?);
    }
    println!("{tasks} times /bin/true, {at_once} at once, {rounds} rounds in turn, medians:");
    for (name, all) in [("cosy each", &ours), ("xargs", &theirs)] {
        let wall: Vec<f64> = all.iter().map(|(wall, _)| *wall).collect();
        let cpu: Vec<f64> = all.iter().map(|(_, cpu)| *cpu).collect();
        let (wall, cpu) = (spread(&wall).1, spread(&cpu).1);
        let rate = tasks as f64 / wall;
        println!("  {name:<10} {rate:8.0} a second, {wall:.2} s, {cpu:.2} s of CPU time");
    }
    Ok(())
}

/// Wall and CPU time in seconds.
fn timed(command: &mut Command) -> Result<(f64, f64), String> {
    let (begun, before) = (Instant::now(), children_cpu());
    if !quiet(command.stdin(Stdio::null())) {
        return Err(format!("{command:?} failed"));
    }
    Ok((begun.elapsed().as_secs_f64(), children_cpu() - before))
}
