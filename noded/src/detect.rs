//! What this machine has: processors, memory, disk, and since when it runs.

use crate::config::Config;
use crate::spool::last_boot_in;
use cosy_model::node::{Figures, Machine};
use cosy_model::{Amounts, MiB, Time};
use std::path::Path;
use std::sync::OnceLock;

/// The processors that this process may use, by number.
pub fn processors() -> Vec<u32> {
    let set = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0));
    let allowed: Vec<u32> = match set {
        Ok(set) => (0..nix::sched::CpuSet::count())
            .filter(|n| set.is_set(*n).unwrap_or(false))
            .map(|n| n as u32)
            .collect(),
        // More processors than the structure holds: the kernel refuses.
        Err(_) => {
            let n = std::thread::available_parallelism().map_or(1, usize::from);
            (0..n as u32).collect()
        }
    };
    if allowed.is_empty() { vec![0] } else { allowed }
}

/// All memory of the machine.
pub fn memory() -> MiB {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    MiB(memory_in(&text, "MemTotal:").unwrap_or(0) / 1024)
}

/// The kB that stand beside `name` in `/proc/meminfo`.
fn memory_in(meminfo: &str, name: &str) -> Option<u64> {
    meminfo.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        rest.split_whitespace().next()?.parse().ok()
    })
}

/// How busy the machine is at this moment.
pub fn figures() -> Figures {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    Figures {
        number: 0,
        load_hundredths: load_in(&load),
        free_memory: memory_in(&memory, "MemFree:").map(|kb| MiB(kb / 1024)),
        clock: Some(crate::sys::now()),
    }
}

/// The first number of `/proc/loadavg`, in hundredths.
fn load_in(loadavg: &str) -> Option<u32> {
    let (whole, part) = loadavg.split_whitespace().next()?.split_once('.')?;
    let hundredths: u32 = part.get(..2)?.parse().ok()?;
    whole
        .parse::<u32>()
        .ok()?
        .checked_mul(100)?
        .checked_add(hundredths)
}

/// Size of the file system that `path` is on.
pub fn disk(path: &Path) -> MiB {
    let found = nix::sys::statvfs::statvfs(path);
    MiB(found.map_or(0, |s| s.blocks() * s.fragment_size() / (1 << 20)))
}

/// Changes whenever the machine is started.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|t| t.trim().to_owned())
        .unwrap_or_else(|_| "unknown".to_owned())
}

/// The processors that jobs may use, by number.
pub fn processors_for_jobs(config: &Config) -> Vec<u32> {
    config.reserved.left_of(processors())
}

fn memory_for_jobs(config: &Config) -> MiB {
    MiB(memory().0.saturating_sub(config.reserved.memory.0))
}

/// Checks that what is reserved leaves something to jobs.
///
/// # Errors
/// In one line, with what there is.
pub fn check_reserved(config: &Config) -> Result<(), String> {
    if processors_for_jobs(config).is_empty() {
        let all = processors().len();
        return Err(format!("'reserved' leaves no processor to jobs: this machine has {all}"));
    }
    if memory_for_jobs(config).0 == 0 {
        let all = memory();
        return Err(format!("'reserved' leaves no memory to jobs: this machine has {all}"));
    }
    Ok(())
}

/// Whether the machine was not restarted since a daemon last ran with the directory of a node.
pub fn is_same_boot(own_dir: &Path) -> bool {
    last_boot_in(own_dir).is_some_and(|last| last == boot_id())
}

/// What a node has: as configured, else as found.
pub fn amounts(config: &Config) -> Amounts {
    let mut other = config.other.clone();
    config.devices.count_others(&mut other);
    Amounts {
        cores: config
            .cores
            .unwrap_or_else(|| processors_for_jobs(config).len() as u32),
        memory: config.memory.unwrap_or_else(|| memory_for_jobs(config)),
        disk: config.disk.unwrap_or_else(|| disk(&config.spool_dir)),
        gpus: config.devices.gpu_count(),
        other,
    }
}

/// True when this process is protected from the out-of-memory killer, which its jobs
/// must not inherit.
pub fn protected_from_oom() -> bool {
    std::fs::read_to_string("/proc/self/oom_score_adj")
        .is_ok_and(|t| t.trim().parse::<i32>().is_ok_and(|n| n < 0))
}

/// The machine as the system tells it, without what changes all the time: see [`figures`].
pub fn machine() -> Machine {
    static STARTED: OnceLock<Time> = OnceLock::new();
    let text = |t: &std::ffi::OsStr| t.to_string_lossy().into_owned();
    let names = nix::sys::utsname::uname().ok();
    let names = names.as_ref();
    let os = names.map(|n| [n.sysname(), n.release(), n.version()].map(text).join(" "));
    Machine {
        host: names.map(|n| text(n.nodename())).unwrap_or_default(),
        arch: names.map(|n| text(n.machine())).unwrap_or_default(),
        os: os.unwrap_or_default(),
        boot: boot(&std::fs::read_to_string("/proc/stat").unwrap_or_default()),
        daemon_start: Some(*STARTED.get_or_init(crate::sys::now)),
        ..Machine::default()
    }
}

/// When the machine was started, out of `/proc/stat`.
fn boot(stat: &str) -> Option<Time> {
    let line = stat.lines().find_map(|l| l.strip_prefix("btime "))?;
    line.trim().parse().ok().map(Time::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine() {
        assert!(!processors().is_empty());
        assert!(memory().0 > 0);
        assert!(disk(Path::new("/")).0 > 0);
        assert_eq!(boot_id(), boot_id());
        let (first, again) = (machine(), machine());
        assert_eq!(first, again, "its start does not change");
        assert!(!first.arch.is_empty() && first.boot.is_some());
    }

    #[test]
    fn what_is_reserved_leaves_something() {
        let key = "a".repeat(64);
        let config = |reserved: &str| {
            let text = format!(
                "name = 'n'\ncontroller = 'h:1'\ncontroller_key = '{key}'\nreserved = {reserved}"
            );
            Config::parse(Path::new("/x"), &text).unwrap()
        };
        let all = processors();
        let some = config("{ memory = '1M' }");
        assert_eq!(check_reserved(&some), Ok(()));
        assert_eq!(
            (amounts(&some).memory.0, amounts(&some).cores as usize),
            (memory().0 - 1, all.len())
        );
        let none = check_reserved(&config("{ processors = '0-1023' }")).unwrap_err();
        assert_eq!(
            none,
            format!("'reserved' leaves no processor to jobs: this machine has {}", all.len())
        );
        let none = check_reserved(&config("{ memory = '900000G' }")).unwrap_err();
        assert!(none.starts_with("'reserved' leaves no memory"), "{none}");
    }

    #[test]
    fn boots() {
        assert_eq!(boot("cpu 1 2\nbtime 1795223369\n"), Some(Time(1_795_223_369_000)));
        assert_eq!(boot("cpu 1 2\n"), None);
    }

    #[test]
    fn meminfo() {
        let text = "MemTotal:       24684596 kB\nMemFree: 1 kB\n";
        assert_eq!(memory_in(text, "MemTotal:"), Some(24_684_596));
        assert_eq!(memory_in(text, "MemFree:"), Some(1));
        assert_eq!(memory_in("nothing", "MemTotal:"), None);
    }

    #[test]
    fn loads() {
        assert_eq!(load_in("0.27 0.56 1.58 1/93 4321\n"), Some(27));
        assert_eq!(load_in("12.05 1 2"), Some(1205));
        for bad in ["", "1", "1.", "x.yz", "99999999999.00"] {
            assert_eq!(load_in(bad), None, "{bad}");
        }
        let now = figures();
        assert!(now.load_hundredths.is_some() && now.free_memory.is_some());
    }
}
