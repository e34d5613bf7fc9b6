//! `cosy-bench`: measures a batch system through its commands, Cosy's or Slurm's, and
//! prints medians over rounds made in turn, with ratios and floors.
//!
//! `cosy-bench [--rounds N] [--jobs N] [--array N]`: Cosy on a cluster of its own
//! (`cosy dev` with 8 nodes of 16 cores), and Slurm too when `squeue` answers.
//! `cosy-bench --inner cosy|slurm`: one round against the cluster at hand.
//!
//! Every figure comes from whole commands as a user starts them. CPU of daemons is read
//! from `/proc/PID/stat`, CPU of commands from the kernel's account of ended children.

use cosy_tests::bench::{
    System, arguments, children_cpu, cpu_secs, daemons, outer, pss_mib, quiet, rss_mib, say,
};
use nix::sys::stat::Mode;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, exit};
use std::time::{Duration, Instant};

/// Jobs of a round must be over after so long.
const PATIENCE: Duration = Duration::from_secs(600);

struct Settings {
    rounds: usize,
    jobs: usize,
    array: usize,
    inner: Option<System>,
}

fn main() {
    let settings = settings();
    let result = match settings.inner {
        Some(system) => inner(system, &settings),
        None => all_rounds(&settings),
    };
    if let Err(e) = result {
        eprintln!("cosy-bench: {e}");
        exit(1);
    }
}

fn settings() -> Settings {
    let mut settings = Settings {
        rounds: 3,
        jobs: 1000,
        array: 2000,
        inner: None,
    };
    let usage = "cosy-bench [--rounds N] [--jobs N] [--array N] [--inner cosy|slurm]";
    let mut numbers = [
        ("--rounds", &mut settings.rounds),
        ("--jobs", &mut settings.jobs),
        ("--array", &mut settings.array),
    ];
    arguments(usage, &mut numbers, Some(&mut settings.inner));
    settings
}

fn all_rounds(settings: &Settings) -> Result<(), String> {
    let words = [
        "--jobs",
        &settings.jobs.to_string(),
        "--array",
        &settings.array.to_string(),
    ];
    let cluster = ["--nodes", "8", "--cores", "16"];
    outer(settings.rounds, &cluster, &words.map(str::to_owned))
}

// --- one round

struct Bench {
    system: System,
    dir: PathBuf,
    controller: i32,
    nodes: Vec<i32>,
}

/// What was used while something was measured.
struct Used {
    wall: f64,
    client_cpu: f64,
    controller_cpu: f64,
    node_cpu: f64,
}

fn inner(system: System, settings: &Settings) -> Result<(), String> {
    let dir = std::env::temp_dir().join(format!("cosy-bench-{}", std::process::id()));
    fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    let (controller, nodes) = daemons(system)?;
    let bench = Bench {
        system,
        dir: dir.clone(),
        controller,
        nodes,
    };
    let result = bench.run(settings);
    let _ = fs::remove_dir_all(&dir);
    result
}

impl Bench {
    fn run(&self, settings: &Settings) -> Result<(), String> {
        let script = self.dir.join("noop.sh");
        fs::write(&script, "#!/bin/sh\ntrue\n").map_err(|e| e.to_string())?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
            .map_err(|e| e.to_string())?;
        self.floors(&script)?;
        say("memory: controller idle", rss_mib(self.controller), "MiB RSS");
        if let Some(node) = self.nodes.first() {
            say("memory: node daemon idle", rss_mib(*node), "MiB RSS");
        }
        self.sequential(settings.jobs)?;
        self.four_clients(settings.jobs)?;
        self.array(settings.array)?;
        self.singles(settings.jobs)?;
        self.first_line()?;
        if self.system == System::Cosy {
            self.shepherds()?;
        }
        Ok(())
    }

    /// What the machine itself allows.
    fn floors(&self, script: &Path) -> Result<(), String> {
        let n = 500;
        let spawn = |program: &Path| {
            let start = Instant::now();
            for _ in 0..n {
                let _ = Command::new(program).stdout(Stdio::null()).status();
            }
            n as f64 / start.elapsed().as_secs_f64()
        };
        say(
            "floor: starting a program (true), one at a time",
            spawn(Path::new("/bin/true")),
            "1/s",
        );
        say("floor: starting the no-op shell script, one at a time", spawn(script), "1/s");
        Ok(())
    }

    fn submit_command(&self, held: bool, extra: &[&str]) -> Command {
        let mut c = match self.system {
            System::Cosy => Command::new("csub"),
            System::Slurm => Command::new("sbatch"),
        };
        if held {
            c.arg("-H");
        }
        c.args(extra).arg("noop.sh").current_dir(&self.dir);
        c.stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit());
        c
    }

    fn measured(&self, work: impl FnOnce() -> Result<(), String>) -> Result<Used, String> {
        let cpu = |pids: &[i32]| pids.iter().map(|p| cpu_secs(*p)).sum::<f64>();
        let before = (children_cpu(), cpu(&[self.controller]), cpu(&self.nodes));
        let start = Instant::now();
        work()?;
        Ok(Used {
            wall: start.elapsed().as_secs_f64(),
            client_cpu: children_cpu() - before.0,
            controller_cpu: cpu(&[self.controller]) - before.1,
            node_cpu: cpu(&self.nodes) - before.2,
        })
    }

    fn submit_many(&self, n: usize, held: bool) -> Result<Vec<f64>, String> {
        let mut times = Vec::with_capacity(n);
        for _ in 0..n {
            let start = Instant::now();
            let status = self
                .submit_command(held, &[])
                .status()
                .map_err(|e| e.to_string())?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            if !status.success() {
                return Err(format!("a submission ended with {status}"));
            }
        }
        Ok(times)
    }

    fn sequential(&self, n: usize) -> Result<(), String> {
        let mut times = Vec::new();
        let used = self.measured(|| {
            times = self.submit_many(n, true)?;
            Ok(())
        })?;
        times.sort_by(f64::total_cmp);
        say("submit, one client", n as f64 / used.wall, "1/s");
        say("submit, one client: p50", times[n / 2], "ms");
        say("submit, one client: p99", times[n * 99 / 100], "ms");
        say("submit: CPU of client", used.client_cpu / n as f64 * 1e3, "ms");
        say("submit: CPU of controller", used.controller_cpu / n as f64 * 1e3, "ms");
        say(
            "submit: CPU of client and controller",
            (used.client_cpu + used.controller_cpu) / n as f64 * 1e3,
            "ms",
        );
        self.cancel_all()
    }

    fn four_clients(&self, n: usize) -> Result<(), String> {
        let used = self.measured(|| {
            std::thread::scope(|scope| {
                let clients: Vec<_> = (0..4)
                    .map(|_| scope.spawn(|| self.submit_many(n / 4, true)))
                    .collect();
                for client in clients {
                    client
                        .join()
                        .map_err(|_| "a client panicked".to_owned())??;
                }
                Ok(())
            })
        })?;
        say("submit, four clients", (n / 4 * 4) as f64 / used.wall, "1/s");
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..n / 4 {
                        let _ = Command::new("/bin/true").status();
                    }
                });
            }
        });
        say(
            "floor: starting a program (true), four at a time",
            (n / 4 * 4) as f64 / start.elapsed().as_secs_f64(),
            "1/s",
        );
        self.cancel_all()
    }

    fn array(&self, n: usize) -> Result<(), String> {
        let range = format!("1-{n}");
        let option = match self.system {
            System::Cosy => ["-a".to_owned(), range],
            System::Slurm => ["-a".to_owned(), range],
        };
        let used = self.measured(|| {
            let status = self
                .submit_command(false, &[&option[0], &option[1]])
                .status()
                .map_err(|e| e.to_string())?;
            if !status.success() {
                return Err(format!("the array ended with {status}"));
            }
            self.wait_empty()
        })?;
        self.check_outputs(n)?;
        say("array of no-op jobs", n as f64 / used.wall, "jobs/s");
        say("array: CPU of controller", used.controller_cpu / n as f64 * 1e3, "ms per job");
        say("array: CPU of node daemons (all)", used.node_cpu / n as f64 * 1e3, "ms per job");
        Ok(())
    }

    fn singles(&self, n: usize) -> Result<(), String> {
        let used = self.measured(|| {
            self.submit_many(n, false)?;
            self.wait_empty()
        })?;
        self.check_outputs(n)?;
        say("single no-op jobs, submitted one by one", n as f64 / used.wall, "jobs/s");
        Ok(())
    }

    /// From before the command is started to the first line of the script.
    fn first_line(&self) -> Result<(), String> {
        let fifo = self.dir.join("first");
        nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).map_err(|e| e.to_string())?;
        fs::write(self.dir.join("noop.sh"), "#!/bin/sh\necho x > first\n")
            .map_err(|e| e.to_string())?;
        let mut times = Vec::new();
        for _ in 0..30 {
            let start = Instant::now();
            let mut child = self
                .submit_command(false, &["-o", "/dev/null"])
                .spawn()
                .map_err(|e| e.to_string())?;
            let mut text = String::new();
            fs::File::open(&fifo)
                .and_then(|mut f| f.read_to_string(&mut text))
                .map_err(|e| e.to_string())?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            let _ = child.wait();
            self.wait_empty()?;
        }
        times.sort_by(f64::total_cmp);
        say("submit to first line of the script: p50", times[15], "ms");
        say("submit to first line of the script: max", times[29], "ms");
        fs::write(self.dir.join("noop.sh"), "#!/bin/sh\ntrue\n").map_err(|e| e.to_string())
    }

    /// Memory of shepherds with jobs that sleep.
    fn shepherds(&self) -> Result<(), String> {
        fs::write(self.dir.join("noop.sh"), "#!/bin/sh\nsleep 60\n").map_err(|e| e.to_string())?;
        let status = self
            .submit_command(false, &["-a", "1-20"])
            .status()
            .map_err(|e| e.to_string())?;
        if !status.success() {
            return Err("sleeping jobs were refused".into());
        }
        let start = Instant::now();
        let mut found = Vec::new();
        while found.len() < 20 && start.elapsed() < Duration::from_secs(20) {
            found = shepherds_of(&self.nodes);
            std::thread::sleep(Duration::from_millis(50));
        }
        if found.is_empty() {
            return Err("no shepherds run".into());
        }
        let total: f64 = found.iter().map(|p| pss_mib(*p)).sum();
        say("memory: a shepherd", total / found.len() as f64, "MiB PSS");
        self.cancel_all()
    }

    fn cancel_all(&self) -> Result<(), String> {
        let who = std::env::var("USER").unwrap_or_else(|_| "root".into());
        let mut c = match self.system {
            System::Cosy => Command::new("ccancel"),
            System::Slurm => Command::new("scancel"),
        };
        quiet(c.args(["-u", &who]));
        self.wait_empty()
    }

    fn wait_empty(&self) -> Result<(), String> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let mut c = match self.system {
                System::Cosy => Command::new("cstat"),
                System::Slurm => Command::new("squeue"),
            };
            let list = match self.system {
                System::Cosy => c.args(["--no-header"]),
                System::Slurm => c.args(["-h"]),
            };
            let output = list.output().map_err(|e| e.to_string())?;
            if output.status.success() && output.stdout.is_empty() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err("the queue did not become empty".into())
    }

    /// Every job that ran has left its output file.
    fn check_outputs(&self, n: usize) -> Result<(), String> {
        let mut found = 0;
        for entry in fs::read_dir(&self.dir)
            .map_err(|e| e.to_string())?
            .flatten()
        {
            if entry.file_name().to_string_lossy().ends_with(".out") {
                found += 1;
                let _ = fs::remove_file(entry.path());
            }
        }
        if found == n {
            Ok(())
        } else {
            Err(format!("{found} of {n} jobs left their output"))
        }
    }
}

/// Processes of the node daemon's program that have a job's process as a child.
fn shepherds_of(nodes: &[i32]) -> Vec<i32> {
    let exe = |pid: i32| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let Some(noded) = nodes.first().and_then(|n| exe(*n)) else {
        return Vec::new();
    };
    let children = |pid: i32| -> Vec<i32> {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let text = text.unwrap_or_default();
        text.split_whitespace()
            .filter_map(|p| p.parse().ok())
            .collect()
    };
    let mut found = Vec::new();
    let mut open: Vec<i32> = nodes.to_vec();
    while let Some(pid) = open.pop() {
        for child in children(pid) {
            if exe(child) == Some(noded.clone()) {
                open.push(child);
            } else {
                found.push(pid);
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}
