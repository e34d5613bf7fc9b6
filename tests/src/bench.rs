//! What the benchmarks share: rounds in turn, the table, CPU and memory of daemons.
//!
//! Every figure comes from whole commands as a user starts them. CPU of daemons is read
//! from `/proc/PID/stat`, CPU of commands from the kernel's account of ended children.

use nix::sys::resource::{UsageWho, getrusage};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The system whose commands are measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// The commands with Cosy's names.
    Cosy,
    /// The commands with Slurm's names.
    Slurm,
}

/// Reads the command line: `--NAME N` with N from 1 on for each of `numbers`, and
/// `--inner cosy|slurm` where there is a place for it. Ends the program with `usage` and
/// code 2 at anything else.
pub fn arguments(
    usage: &str,
    numbers: &mut [(&str, &mut usize)],
    mut inner: Option<&mut Option<System>>,
) {
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let value = args.next().unwrap_or_default();
        let number = value.parse().ok().filter(|n| *n > 0);
        let place = numbers.iter_mut().find(|(name, _)| *name == arg);
        match (place, number, &mut inner, value.as_str()) {
            (Some((_, place)), Some(n), _, _) => **place = n,
            (None, _, Some(inner), "cosy") if arg == "--inner" => **inner = Some(System::Cosy),
            (None, _, Some(inner), "slurm") if arg == "--inner" => **inner = Some(System::Slurm),
            _ => {
                eprintln!("usage: {usage}");
                std::process::exit(2);
            }
        }
    }
}

/// Value and unit by name.
pub type Figures = BTreeMap<String, (f64, String)>;

/// Measures `rounds` times in turn, each system on its own, by running this program again
/// with `--inner cosy|slurm` and `words`: Cosy on a cluster that `cosy dev` makes with the
/// words `cluster`, Slurm on the one at hand when there is one. Prints a table.
///
/// # Errors
/// In one line, what did not work.
pub fn outer(rounds: usize, cluster: &[&str], words: &[String]) -> Result<(), String> {
    let slurm = quiet(Command::new("squeue").arg("-h"));
    if !slurm {
        println!("# Slurm does not answer here: only Cosy is measured");
    }
    let mut all: BTreeMap<(String, bool), Vec<f64>> = BTreeMap::new();
    let mut units = BTreeMap::new();
    for round in 0..rounds {
        for is_slurm in [false, true] {
            if is_slurm && !slurm {
                continue;
            }
            eprintln!(
                "round {} of {}: {}",
                round + 1,
                rounds,
                if is_slurm { "Slurm" } else { "Cosy" }
            );
            for (name, (value, unit)) in one_round(is_slurm, cluster, words)? {
                all.entry((name.clone(), is_slurm)).or_default().push(value);
                units.insert(name, unit);
            }
        }
    }
    println!("| figure | unit | Cosy (min to max) | Slurm (min to max) | Slurm / Cosy |");
    println!("|---|---|---|---|---|");
    for (name, unit) in &units {
        let cosy = all.get(&(name.clone(), false)).map(|v| spread(v));
        let other = all.get(&(name.clone(), true)).map(|v| spread(v));
        let show = |s: &Option<(f64, f64, f64)>| match s {
            Some((min, median, max)) => {
                format!("{} ({} to {})", round(*median), round(*min), round(*max))
            }
            None => "-".to_owned(),
        };
        let ratio = match (&cosy, &other) {
            (Some((_, a, _)), Some((_, b, _))) if *a > 0.0 => format!("{:.2}", b / a),
            _ => "-".to_owned(),
        };
        println!("| {name} | {unit} | {} | {} | {ratio} |", show(&cosy), show(&other));
    }
    Ok(())
}

fn one_round(slurm: bool, cluster: &[&str], words: &[String]) -> Result<Figures, String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = if slurm {
        let mut c = Command::new(&me);
        c.args(["--inner", "slurm"]);
        c
    } else {
        let mut c = Command::new(me.with_file_name("cosy"));
        c.arg("dev").args(cluster).arg("--").arg(&me);
        c.args(["--inner", "cosy"]);
        c
    };
    command.args(words);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("{command:?}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} ended with {}", output.status));
    }
    let mut figures = Figures::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let mut words = line.splitn(3, '\t');
        if let (Some(name), Some(value), Some(unit)) = (words.next(), words.next(), words.next())
            && let Ok(value) = value.parse()
        {
            figures.insert(name.to_owned(), (value, unit.to_owned()));
        }
    }
    Ok(figures)
}

/// Least, median and largest.
///
/// # Panics
/// Without any value.
pub fn spread(values: &[f64]) -> (f64, f64, f64) {
    let mut v = values.to_vec();
    v.sort_by(f64::total_cmp);
    (v[0], v[v.len() / 2], v[v.len() - 1])
}

/// A figure with three digits or so.
pub fn round(x: f64) -> String {
    if x >= 100.0 {
        format!("{x:.0}")
    } else if x >= 1.0 {
        format!("{x:.2}")
    } else {
        format!("{x:.3}")
    }
}

/// Process numbers of the controller and of the node daemons at hand.
///
/// # Errors
/// They are not found.
pub fn daemons(system: System) -> Result<(i32, Vec<i32>), String> {
    match system {
        System::Slurm => {
            let base = std::env::var("SLURM_BASE").unwrap_or_else(|_| "/tmp/slurm-baseline".into());
            let run = Path::new(&base).join("run");
            let pid = |p: &Path| -> Option<i32> { fs::read_to_string(p).ok()?.trim().parse().ok() };
            let controller =
                pid(&run.join("ctld.pid")).ok_or("no pid of slurmctld: set SLURM_BASE")?;
            let entries = fs::read_dir(&run).map_err(|e| e.to_string())?;
            let nodes = entries
                .flatten()
                .filter(|e| e.file_name().to_string_lossy().starts_with("d."))
                .filter_map(|e| pid(&e.path()))
                .collect();
            Ok((controller, nodes))
        }
        System::Cosy => {
            let dir = std::env::var("COSY_DEV_DIR").map_err(|_| "run this inside 'cosy dev'")?;
            let mut found = (0, Vec::new());
            for entry in fs::read_dir("/proc").map_err(|e| e.to_string())?.flatten() {
                let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else {
                    continue;
                };
                let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let words: Vec<String> = line
                    .split(|b| *b == 0)
                    .map(|w| String::from_utf8_lossy(w).into_owned())
                    .collect();
                if !words.iter().any(|w| w.starts_with(&dir)) || words.len() < 3 {
                    continue;
                }
                if words[0].ends_with("cosyd") {
                    found.0 = pid;
                } else if words[0].ends_with("noded") && words[1] == "--config" {
                    found.1.push(pid);
                }
            }
            if found.0 == 0 {
                Err("no cosyd runs here".into())
            } else {
                Ok(found)
            }
        }
    }
}

/// Tells the outer program a figure.
pub fn say(name: &str, value: f64, unit: &str) {
    println!("{name}\t{value}\t{unit}");
}

/// Runs a command without input and output; true when it succeeds.
pub fn quiet(c: &mut Command) -> bool {
    c.stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// CPU time of ended children of this process, in seconds.
pub fn children_cpu() -> f64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else {
        return 0.0;
    };
    let secs = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    secs(usage.user_time()) + secs(usage.system_time())
}

/// User and system time of a process without its children, in seconds.
pub fn cpu_secs(pid: i32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let ticks = |n: usize| {
        fields
            .get(n)
            .and_then(|f| f.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    (ticks(11) + ticks(12)) / 100.0
}

fn kib_line(path: &str, name: &str) -> f64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with(name));
    line.and_then(|l| l.split_whitespace().nth(1)?.parse::<f64>().ok())
        .unwrap_or(0.0)
        / 1024.0
}

/// Resident memory of a process in MiB.
pub fn rss_mib(pid: i32) -> f64 {
    kib_line(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// The most that it had.
pub fn peak_mib(pid: i32) -> f64 {
    kib_line(&format!("/proc/{pid}/status"), "VmHWM:")
}

/// Its proportional share of memory in MiB.
pub fn pss_mib(pid: i32) -> f64 {
    kib_line(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}
