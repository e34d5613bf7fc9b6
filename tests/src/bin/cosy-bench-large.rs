//! `cosy-bench-large [--nodes N] [--jobs N] [--rounds N]`: what a large cluster with a long queue takes
//! of memory and time.
//!
//! A cluster of its own with nodes that run nothing, all taken for hours, and a queue of mixed jobs: of
//! ten six with 1 to 128 whole nodes, the others with one core, with eleven time limits. Times are those
//! of whole commands as a user starts them; memory is what the kernel counts for the controller. A
//! command that fails, or a quote without slots, ends the benchmark: nothing is left out.

use cosy_model::Span;
use cosy_tests::bench::{arguments, cpu_secs, rss_mib};
use cosy_tests::full_cluster::{self, long_job, says, says_to_nobody, submit_all, whole_nodes};
use cosy_tests::{Chance, Cluster};
use std::process::exit;
use std::time::Instant;

/// Running jobs, which share all nodes.
const RUNNING: u32 = 500;
/// Eleven time limits, in minutes.
const LIMITS: [i64; 11] = [5, 10, 20, 30, 60, 90, 120, 240, 360, 480, 600];

#[derive(Clone, Copy)]
struct Settings {
    nodes: usize,
    jobs: usize,
    rounds: usize,
}

fn main() {
    let mut settings = Settings {
        nodes: 1000,
        jobs: 20_000,
        rounds: 3,
    };
    let usage = "cosy-bench-large [--nodes N] [--jobs N] [--rounds N]";
    let mut numbers = [
        ("--nodes", &mut settings.nodes),
        ("--jobs", &mut settings.jobs),
        ("--rounds", &mut settings.rounds),
    ];
    arguments(usage, &mut numbers, None);
    if let Err(e) = measure(settings) {
        eprintln!("cosy-bench-large: {e}");
        exit(1);
    }
}

fn measure(settings: Settings) -> Result<(), String> {
    let nodes = u32::try_from(settings.nodes).map_err(|e| e.to_string())?;
    let cluster = full_cluster::start(nodes);
    let running = RUNNING.min(nodes);
    let sizes = (0..running).map(|n| nodes / running + u32::from(n < nodes % running));
    full_cluster::fill(&cluster, sizes)?;
    let bench = Bench { cluster, settings };
    bench.run()
}

fn enqueue(cluster: &Cluster, count: usize) -> Result<(), String> {
    let mut chance = Chance::new(1);
    let work = cluster.work();
    let jobs = (0..count).map(|_| {
        let limit = LIMITS.get(chance.below(11) as usize).copied();
        let limit = Span::from_minutes(limit.unwrap_or(60));
        match chance.below(10) < 6 {
            true => whole_nodes(1 + chance.below(128) as u32, limit, &work),
            false => long_job(limit, &work),
        }
    });
    submit_all(cluster, &jobs.collect::<Vec<_>>())
}

struct Bench {
    cluster: Cluster,
    settings: Settings,
}

impl Bench {
    fn run(&self) -> Result<(), String> {
        let Settings { jobs, nodes, .. } = self.settings;
        println!("| {nodes} nodes, {jobs} waiting jobs | |\n|---|---|");
        let empty = self.memory();
        self.say("memory without waiting jobs", &format!("{empty:.0} MiB"));
        let begun = Instant::now();
        enqueue(&self.cluster, jobs)?;
        let rate = jobs as f64 / begun.elapsed().as_secs_f64();
        self.say("submissions over four connections", &format!("{rate:.0}/s"));
        let full = self.memory();
        let each = (full - empty) * 1_048_576.0 / jobs as f64;
        self.say("memory with them", &format!("{full:.0} MiB, {each:.0} bytes a job"));
        for at in ["first", "second"] {
            let name = format!("{at} quote of 20 days, 35 slots");
            self.time(&name, 1, || self.quote())?;
        }
        let quoted = self.memory();
        self.say("memory after two quotes", &format!("{quoted:.0} MiB"));
        let rounds = self.settings.rounds;
        let mut hour = 200;
        self.time("booking 200 hours ahead", rounds, || {
            hour += 1;
            let at = format!("now+{hour}h");
            let words = [
                "cresv",
                "book",
                "-N",
                "1",
                "--exclusive",
                "-t",
                "1h",
                "--at",
                &at,
            ];
            self.done(&words)
        })?;
        self.time("cstat", rounds, || self.done(&["cstat"]))?;
        self.time("squeue", rounds, || self.done(&["squeue"]))?;
        self.time("cstat of a job", rounds, || self.done(&["cstat", "501"]))?;
        self.time("a held submission", rounds, || self.done(&["csub", "-H", "-Q", "--", "true"]))?;
        self.time("scancel of all that wait", 1, || {
            self.done(&["scancel", "--state=PENDING", "--user=root"])
        })
    }

    fn say(&self, name: &str, figure: &str) {
        println!("| {name} | {figure} |");
    }

    /// Runs that so many times and tells the median, with the controller's CPU time.
    fn time(
        &self,
        name: &str,
        times: usize,
        mut act: impl FnMut() -> Result<(), String>,
    ) -> Result<(), String> {
        let mut all = Vec::new();
        let before = cpu_secs(self.cosyd());
        for _ in 0..times {
            let begun = Instant::now();
            act()?;
            all.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        let cpu = (cpu_secs(self.cosyd()) - before) * 1e3 / times as f64;
        all.sort_by(f64::total_cmp);
        let median = all.get(times / 2).copied().unwrap_or(f64::NAN);
        self.say(name, &format!("{median:.1} ms, cosyd {cpu:.0} ms of CPU"));
        Ok(())
    }

    fn cosyd(&self) -> i32 {
        self.cluster.cosyd.pid().cast_signed()
    }

    fn memory(&self) -> f64 {
        rss_mib(self.cosyd())
    }

    fn quote(&self) -> Result<(), String> {
        let words = [
            "cresv",
            "quote",
            "-N",
            "64",
            "--exclusive",
            "-t",
            "2h",
            "--from",
            "now+1h",
            "--until",
            "now+20d",
            "--most",
            "35",
            "--json",
        ];
        let answer = says_to_nobody(&self.cluster, &words)?;
        match answer.contains("\"feasible\":") {
            true => Ok(()),
            false => Err(format!("a quote without slots: {answer}")),
        }
    }

    fn done(&self, words: &[&str]) -> Result<(), String> {
        says(&self.cluster, words).map(|_| ())
    }
}
