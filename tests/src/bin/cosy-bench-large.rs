//! `cosy-bench-large [--nodes N] [--jobs N] [--rounds N]`: what a large cluster with a long queue takes
//! of memory and time.
//!
//! A cluster of its own with nodes that run nothing, all taken for hours, and a queue of mixed jobs: of
//! ten six with 1 to 128 whole nodes, the others with one core, with eleven time limits. Times are those
//! of whole commands as a user starts them; memory is what the kernel counts for the controller. A
//! command that fails, or a quote without slots, ends the benchmark: nothing is left out.

use cosy_model::Span;
use cosy_model::api::Submission;
use cosy_tests::bench::{arguments, cpu_secs, rss_mib};
use cosy_tests::{Chance, Client, Cluster, Options, command, system};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, exit};
use std::time::Instant;

const CORES: u32 = 16;
/// Running jobs, which share all nodes.
const RUNNING: u32 = 500;
const CLIENTS: usize = 4;
/// Nothing refuses: what is measured is the work.
const RULES: &str = "[reservations]\nall_of = []\nlow_use = \"off\"\nno_show = \"off\"\n\
    delay_cap = \"off\"\n[reservations.per_user]\nopen = \"off\"\nshare = \"off\"\nahead = \"off\"\n";
/// As root, quotes are asked by a user without jobs of their own.
const NOBODY: u32 = 65_534;
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
    let options = Options {
        cores: CORES,
        memory: "64G",
        virtual_nodes: nodes,
        controller: RULES.into(),
        ..Options::default()
    };
    let cluster = Cluster::start(1, options);
    cluster.open_commands();
    fill(&cluster, nodes)?;
    let bench = Bench { cluster, settings };
    bench.run()
}

/// A job that would run for days.
fn job(limit: Span, work: &Path) -> Submission {
    let mut job = command(work, &["true"]);
    job.spec.time_limit = Some(limit);
    job.spec.environment = "COSY_VIRTUAL_SECONDS=1000000".into();
    job
}

fn whole_nodes(nodes: u32, limit: Span, work: &Path) -> Submission {
    let mut job = job(limit, work);
    job.spec.request.nodes = Some(nodes);
    job.spec.request.exclusive = true;
    job
}

/// All nodes are taken; they come free part by part, from two hours on.
fn fill(cluster: &Cluster, nodes: u32) -> Result<(), String> {
    let running = RUNNING.min(nodes);
    let jobs = (0..running).map(|n| {
        let own = nodes / running + u32::from(n < nodes % running);
        let limit = Span::from_secs(7200 + i64::from(n) * 60);
        whole_nodes(own, limit, &cluster.work())
    });
    submit_all(cluster, jobs.collect())?;
    cosy_tests::wait::until_true("all nodes are taken", || {
        let infos = cluster.node_infos();
        infos.iter().all(|n| n.state != "idle")
    });
    Ok(())
}

fn enqueue(cluster: &Cluster, count: usize) -> Result<(), String> {
    let mut chance = Chance::new(1);
    let work = cluster.work();
    let jobs = (0..count).map(|_| {
        let limit = LIMITS.get(chance.below(11) as usize).copied();
        let limit = Span::from_minutes(limit.unwrap_or(60));
        match chance.below(10) < 6 {
            true => whole_nodes(1 + chance.below(128) as u32, limit, &work),
            false => job(limit, &work),
        }
    });
    submit_all(cluster, jobs.collect())
}

fn submit_all(cluster: &Cluster, jobs: Vec<Submission>) -> Result<(), String> {
    let part = jobs.len().div_ceil(CLIENTS).max(1);
    std::thread::scope(|scope| {
        let clients: Vec<_> = jobs
            .chunks(part)
            .map(|jobs| scope.spawn(|| submit_some(cluster.client(), jobs)))
            .collect();
        for client in clients {
            client.join().map_err(|_| "a client panicked")??;
        }
        Ok(())
    })
}

fn submit_some(mut client: Client, jobs: &[Submission]) -> Result<(), String> {
    for job in jobs {
        let answer = client.submit(job).map_err(|e| e.to_string())?;
        answer.map_err(|refusal| refusal.to_string())?;
    }
    Ok(())
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
        let mut command = self.cluster.command(&words);
        if system::is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let answer = Self::ended(&words, command)?;
        match answer.contains("\"feasible\":") {
            true => Ok(()),
            false => Err(format!("a quote without slots: {answer}")),
        }
    }

    fn done(&self, words: &[&str]) -> Result<(), String> {
        Self::ended(words, self.cluster.command(words)).map(|_| ())
    }

    fn ended(words: &[&str], mut command: Command) -> Result<String, String> {
        let output = command.output();
        let output = output.map_err(|e| format!("{words:?}: {e}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(format!("{words:?}: {}: {}", output.status, text(&output.stderr))),
        }
    }
}
