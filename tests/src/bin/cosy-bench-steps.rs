//! `cosy-bench-steps [--rounds N] [--steps N] [--wide N]`: how long steps take, Cosy's
//! (`cosy run`) and Slurm's (`srun`), in rounds made in turn: outside an allocation and
//! inside one, on one node and on several, many in a row, and a gigabyte of output.
//!
//! `cosy-bench-steps --inner cosy|slurm` is one round against the cluster at hand;
//! `--inside` the part of it that runs within an allocation. `--wide N` measures one step
//! over N nodes of Cosy (real node daemons on this machine) and nothing else.

use cosy_tests::bench::{System, arguments, children_cpu, cpu_secs, daemons, outer, say, spread};
use std::io::Read;
use std::process::{Command, Stdio, exit};
use std::time::Instant;

/// Times that each latency is measured in a round.
const TIMES: usize = 41;
/// Bytes of the long output.
const GIGABYTE: u64 = 1_000_000_000;

struct Settings {
    rounds: usize,
    steps: usize,
    wide: usize,
    inner: Option<System>,
    /// 1 within an allocation.
    inside: usize,
}

fn main() {
    let settings = settings();
    let result = match (settings.inner, settings.inside) {
        (Some(system), 1..) => Bench::new(system).and_then(|b| b.inside(&settings)),
        (Some(System::Cosy), 0) if settings.wide > 0 => wide(settings.wide),
        (Some(system), 0) => Bench::new(system).and_then(|b| b.outside(&settings)),
        (None, _) => all_rounds(&settings),
    };
    if let Err(e) = result {
        eprintln!("cosy-bench-steps: {e}");
        exit(1);
    }
}

fn settings() -> Settings {
    let mut settings = Settings {
        rounds: 3,
        steps: 1000,
        wide: 0,
        inner: None,
        inside: 0,
    };
    let usage = "cosy-bench-steps [--rounds N] [--steps N] [--wide N]";
    let mut numbers = [
        ("--rounds", &mut settings.rounds),
        ("--steps", &mut settings.steps),
        ("--wide", &mut settings.wide),
        ("--inside", &mut settings.inside),
    ];
    arguments(usage, &mut numbers, Some(&mut settings.inner));
    settings
}

fn all_rounds(settings: &Settings) -> Result<(), String> {
    let (nodes, cores) = match settings.wide {
        0 => (8, "16"),
        n => (n, "1"),
    };
    let nodes = nodes.to_string();
    let cluster = ["--nodes", &nodes, "--cores", cores];
    let words = match settings.wide {
        0 => vec!["--steps".to_owned(), settings.steps.to_string()],
        n => vec!["--wide".to_owned(), n.to_string()],
    };
    outer(settings.rounds, &cluster, &words)
}

struct Bench {
    system: System,
    controller: i32,
    nodes: Vec<i32>,
}

impl Bench {
    fn new(system: System) -> Result<Self, String> {
        let (controller, nodes) = daemons(system)?;
        Ok(Self {
            system,
            controller,
            nodes,
        })
    }

    /// A command that runs a step.
    fn step(&self, words: &[&str]) -> Command {
        let mut c = match self.system {
            System::Cosy => {
                let mut c = Command::new("cosy");
                c.arg("run");
                c
            }
            System::Slurm => Command::new("srun"),
        };
        c.args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit());
        c
    }

    fn latency(&self, name: &str, words: &[&str]) -> Result<(), String> {
        let mut times = Vec::with_capacity(TIMES);
        for _ in 0..TIMES {
            let start = Instant::now();
            succeed(&mut self.step(words))?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let (_, median, most) = spread(&times);
        say(&format!("{name}: p50"), median, "ms");
        say(&format!("{name}: max of {TIMES}"), most, "ms");
        Ok(())
    }

    fn outside(&self, settings: &Settings) -> Result<(), String> {
        self.floor()?;
        self.latency("outside, 1 task", &["true"])?;
        self.latency("outside, 4 nodes", &["-N4", "true"])?;
        self.latency("outside, 16 tasks on 8 nodes", &["-N8", "-n16", "true"])?;
        let me = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut c = match self.system {
            System::Cosy => Command::new("calloc"),
            System::Slurm => Command::new("salloc"),
        };
        let word = match self.system {
            System::Cosy => "cosy",
            System::Slurm => "slurm",
        };
        c.args(["-N8", "-n128"]).arg(me);
        c.args(["--inner", word, "--inside", "1"]);
        c.args(["--steps", &settings.steps.to_string()]);
        succeed(&mut c)
    }

    fn inside(&self, settings: &Settings) -> Result<(), String> {
        self.latency("inside, 1 task", &["-N1", "-n1", "true"])?;
        self.latency("inside, 4 nodes", &["-N4", "-n4", "true"])?;
        self.latency("inside, 16 tasks on 8 nodes", &["-N8", "-n16", "true"])?;
        self.in_a_row(settings.steps)?;
        self.gigabyte()
    }

    fn in_a_row(&self, steps: usize) -> Result<(), String> {
        let cpu = |pids: &[i32]| pids.iter().map(|p| cpu_secs(*p)).sum::<f64>();
        let before = (children_cpu(), cpu(&[self.controller]), cpu(&self.nodes));
        let start = Instant::now();
        for _ in 0..steps {
            succeed(&mut self.step(&["-N1", "-n1", "true"]))?;
        }
        let wall = start.elapsed().as_secs_f64();
        let each = |now: f64, then: f64| (now - then) / steps as f64 * 1e3;
        say("steps in a row", steps as f64 / wall, "1/s");
        let client = each(children_cpu(), before.0);
        say("steps in a row: CPU of the command", client, "ms each");
        let controller = each(cpu(&[self.controller]), before.1);
        say("steps in a row: CPU of the controller", controller, "ms each");
        let nodes = each(cpu(&self.nodes), before.2);
        say("steps in a row: CPU of node daemons", nodes, "ms each");
        Ok(())
    }

    /// Output of one task through the command to a reader.
    fn gigabyte(&self) -> Result<(), String> {
        let bytes = GIGABYTE.to_string();
        let words = ["-N1", "-n1", "head", "-c", &bytes, "/dev/zero"];
        let through = megabytes_per_second(&mut self.step(&words))?;
        say("output of 1 GB through a step", through, "MB/s");
        let mut direct = Command::new("head");
        direct
            .args(["-c", &bytes, "/dev/zero"])
            .stdin(Stdio::null());
        let floor = megabytes_per_second(&mut direct)?;
        say("floor: the same output through one pipe", floor, "MB/s");
        Ok(())
    }

    fn floor(&self) -> Result<(), String> {
        let mut times = Vec::with_capacity(TIMES);
        for _ in 0..TIMES {
            let start = Instant::now();
            succeed(&mut Command::new("/bin/true"))?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        say("floor: starting a program (true): p50", spread(&times).1, "ms");
        Ok(())
    }
}

fn succeed(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?} ended with {status}")),
        Err(e) => Err(format!("{command:?}: {e}")),
    }
}

fn megabytes_per_second(command: &mut Command) -> Result<f64, String> {
    let start = Instant::now();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    let mut pipe = child.stdout.take().ok_or("no pipe")?;
    let mut chunk = vec![0; 1 << 20];
    let mut total = 0_u64;
    loop {
        match pipe.read(&mut chunk).map_err(|e| e.to_string())? {
            0 => break,
            n => total += n as u64,
        }
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    if !status.success() || total != GIGABYTE {
        return Err(format!("{command:?}: {total} bytes, {status}"));
    }
    Ok(total as f64 / 1e6 / start.elapsed().as_secs_f64())
}

/// One step over many nodes: the first pays for the connections.
fn wide(nodes: usize) -> Result<(), String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    if std::env::var_os("COSY_JOB_ID").is_none() {
        let mut c = Command::new("calloc");
        c.arg(format!("-N{nodes}")).arg(me);
        c.args(["--wide", &nodes.to_string(), "--inner", "cosy"]);
        return succeed(&mut c);
    }
    let count = format!("-N{nodes}");
    let tasks = format!("-n{nodes}");
    let mut times = Vec::new();
    for _ in 0..6 {
        let start = Instant::now();
        let mut c = Command::new("cosy");
        c.args(["run", &count, &tasks, "true"]).stdin(Stdio::null());
        succeed(&mut c)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    say(&format!("inside, {nodes} nodes: first"), times[0], "ms");
    say(&format!("inside, {nodes} nodes: p50 of 5 more"), spread(&times[1..]).1, "ms");
    Ok(())
}
