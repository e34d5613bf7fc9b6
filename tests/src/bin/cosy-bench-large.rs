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
use std::process::{Command, exit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Running jobs, which share all nodes.
const RUNNING: u32 = 500;
/// Loops of lists beside which submissions are measured.
const LOOPS: usize = 10;
/// Between two submissions there.
const PAUSE: Duration = Duration::from_millis(5);
/// Submissions of one round there.
const BESIDE: usize = 100;
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
        self.beside_lists(0)?;
        self.beside_lists(LOOPS)?;
        self.time("scancel of all that wait", 1, || {
            self.done(&["scancel", "--state=PENDING", "--user=root"])
        })
    }

    /// Submits held jobs on one connection while others make lists in as many loops, and tells how
    /// long their answers take. The commands of the loops give way: users have processors of their own.
    fn beside_lists(&self, loops: usize) -> Result<(), String> {
        let over = AtomicBool::new(false);
        let times = std::thread::scope(|scope| {
            let lists = |words: &str| {
                while !over.load(Ordering::Relaxed) {
                    self.list_giving_way(words)?;
                }
                Ok::<(), String>(())
            };
            let each = (0..loops).map(|at| if at % 2 == 0 { "squeue" } else { "cstat" });
            let lists: Vec<_> = each
                .map(|words| scope.spawn(move || lists(words)))
                .collect();
            let times = self.submissions();
            over.store(true, Ordering::Relaxed);
            for list in lists {
                list.join().map_err(|_| "a loop of lists panicked")??;
            }
            times
        })?;
        let at = |share: usize| times.get(times.len() * share / 100).copied();
        let (median, late) = (at(50).unwrap_or(f64::NAN), at(99).unwrap_or(f64::NAN));
        let name = format!("a submission beside {loops} loops of lists");
        self.say(&name, &format!("{median:.1} ms, p99 {late:.1} ms"));
        Ok(())
    }

    /// A list by a command that gives way to all other work of this machine.
    fn list_giving_way(&self, words: &str) -> Result<(), String> {
        let list = self.cluster.command(&[words]);
        let mut nice = Command::new("nice");
        nice.args(["-n", "19"]).arg(list.get_program());
        nice.args(list.get_args());
        for (name, value) in list.get_envs() {
            match value {
                Some(value) => nice.env(name, value),
                None => nice.env_remove(name),
            };
        }
        let output = nice.output().map_err(|e| format!("{words}: {e}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("{words}: {}", output.status)),
        }
    }

    /// How long the answers to submissions take, in milliseconds, the shortest first.
    fn submissions(&self) -> Result<Vec<f64>, String> {
        let mut client = self.cluster.client();
        let mut job = long_job(Span::from_minutes(60), &self.cluster.work());
        job.spec.hold = true;
        let mut times = Vec::new();
        for _ in 0..BESIDE * self.settings.rounds {
            std::thread::sleep(PAUSE);
            let begun = Instant::now();
            let answer = client.submit(&job).map_err(|e| e.to_string())?;
            answer.map_err(|refusal| refusal.to_string())?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        Ok(times)
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
