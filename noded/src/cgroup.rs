//! Control groups: what there is on this machine, and the groups of one attempt.
//!
//! Version 2 where it is; on machines with version 1, or with both side by side, version
//! 1 controllers limit memory and cores, and an (often empty) version 2 hierarchy still
//! serves to find and kill everything that a job started. Where neither may be used,
//! processes are tracked as descendants of the shepherd; then memory limits are not
//! enforced, which is said once.
//!
//! Each job pays for every file operation here. So there is a group only for what is
//! asked: memory only with a limit; and in version 1 the group for a set of cores is
//! shared by all jobs on these cores and stays, so that a job only joins it.
//!
//! The daemon decides ([`Cgroups::groups_for`]), the shepherd makes, the child joins.

use cosy_model::OsText;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Length of a period over which a share of the processors is granted.
const PERIOD_US: u64 = 100_000;

/// One group of one attempt.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Group {
    /// Its directory.
    pub directory: OsText,
    /// Of version 2: tracks and kills too.
    #[serde(default)]
    pub unified: bool,
    /// Limits and measures memory.
    #[serde(default)]
    pub memory: bool,
    /// Shared with other jobs: not removed.
    #[serde(default)]
    pub shared: bool,
    /// What is written when it is made: file and text. The first must succeed when the
    /// group is for memory.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
}

/// Why a group cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("control group {path}: {source}")]
pub struct GroupError {
    /// Directory or file.
    pub path: String,
    /// What the kernel said.
    #[source]
    pub source: io::Error,
}

impl Group {
    /// The directory as a path.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(std::ffi::OsString::from_vec(self.directory.0.clone()))
    }

    /// Makes it and sets its limits.
    ///
    /// # Errors
    /// Only where the job would run without a limit on its memory or could not be
    /// tracked.
    pub fn create(&self) -> Result<(), GroupError> {
        let path = self.path();
        let failed = |path: &Path, source| GroupError {
            path: path.display().to_string(),
            source,
        };
        match fs::create_dir(&path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && self.shared => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(failed(&path, e)),
        }
        for (at, (file, text)) in self.settings.iter().enumerate() {
            let file = path.join(file);
            match write(&file, text) {
                Err(e) if self.memory && at == 0 => return Err(failed(&file, e)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes it, waiting a moment for the kernel to let go.
    pub fn remove(&self) {
        if !self.shared {
            remove(&self.path());
        }
    }

    /// The processes in it.
    pub fn processes(&self) -> Vec<i32> {
        processes(&self.path())
    }

    /// Kills everything in it. In version 2 in one go, forks included.
    pub fn kill(&self) {
        if !self.shared {
            kill(&self.path());
        }
    }

    /// How many of its processes the kernel killed for want of memory.
    pub fn out_of_memory_kills(&self) -> u64 {
        let file = if self.unified {
            "memory.events"
        } else {
            "memory.oom_control"
        };
        read_keyed(&self.path().join(file), "oom_kill").unwrap_or(0)
    }

    /// Most memory it ever used, in bytes.
    pub fn peak_memory(&self) -> Option<u64> {
        let file = if self.unified {
            "memory.peak"
        } else {
            "memory.max_usage_in_bytes"
        };
        read(&self.path().join(file))?.trim().parse().ok()
    }

    /// User and system CPU time in microseconds (version 2 only).
    pub fn cpu_time(&self) -> Option<(u64, u64)> {
        if !self.unified {
            return None;
        }
        let text = read(&self.path().join("cpu.stat"))?;
        Some((keyed(&text, "user_usec")?, keyed(&text, "system_usec")?))
    }
}

/// Writes a control file: in one write, or a part would take effect.
fn write(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    fs::OpenOptions::new()
        .write(true)
        .open(path)?
        .write_all(text.as_bytes())
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == key).then(|| value.trim().parse().ok())?
    })
}

fn read_keyed(path: &Path, key: &str) -> Option<u64> {
    keyed(&read(path)?, key)
}

fn processes(path: &Path) -> Vec<i32> {
    let text = read(&path.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|l| l.parse().ok()).collect()
}

fn kill(path: &Path) {
    if write(&path.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    for pid in processes(path).into_iter().filter(|p| *p > 0) {
        let _ = crate::sys::kill(nix::unistd::Pid::from_raw(pid), nix::libc::SIGKILL);
    }
}

fn remove(path: &Path) {
    for pause_us in [0, 50, 200, 1000, 5000, 20_000] {
        std::thread::sleep(Duration::from_micros(pause_us));
        match fs::remove_dir(path) {
            Err(e) if e.raw_os_error() == Some(nix::libc::EBUSY) => {}
            _ => return,
        }
    }
}

/// What of version 2 limits something here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Controllers {
    memory: bool,
    cpu: bool,
    cpuset: bool,
}

/// What can be used on this machine, and where this daemon's groups are.
#[derive(Debug, Default)]
pub struct Cgroups {
    unified: Option<PathBuf>,
    controllers: Controllers,
    memory: Option<PathBuf>,
    swap: bool,
    cpuset: Option<PathBuf>,
    cpu: Option<PathBuf>,
    /// Processors of this machine that may be used; the place is a core's number.
    processors: Vec<u32>,
    /// The configured cores are real ones.
    real: bool,
    /// Jobs are kept to their cores.
    limit_cores: bool,
}

/// What an attempt is to be held to.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Name of its groups.
    pub name: &'a str,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Cores by number.
    pub cores: &'a [u32],
}

impl Cgroups {
    /// No control groups at all.
    pub fn none() -> Self {
        Self::default()
    }

    /// Looks what there is and makes the parents of all groups, called `instance`.
    /// Gives also what does not work, for the log.
    pub fn detect(
        instance: &str,
        cores: u32,
        limit_cores: bool,
        processors: Vec<u32>,
    ) -> (Self, Vec<String>) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut found = Self {
            real: cores as usize <= processors.len(),
            limit_cores,
            processors,
            ..Self::default()
        };
        found.take_unified(&mounts, &own, instance);
        found.take_version_1(&mounts, &own, instance);
        let mut missing = Vec::new();
        if found.unified.is_none() {
            missing.push(
                "cannot use control groups to find a job's processes: they are tracked as descendants"
                    .to_owned(),
            );
        }
        if found.memory.is_none() && !found.controllers.memory {
            missing.push(
                "cannot limit memory by control groups: memory limits are not enforced".to_owned(),
            );
        }
        if limit_cores && !found.limits_cores() {
            missing
                .push("cannot limit cores by control groups: jobs may use other cores".to_owned());
        }
        (found, missing)
    }

    fn limits_cores(&self) -> bool {
        let c = self.controllers;
        if self.real {
            c.cpuset || self.cpuset.is_some()
        } else {
            c.cpu || self.cpu.is_some()
        }
    }

    fn take_unified(&mut self, mounts: &str, own: &str, instance: &str) {
        let Some(at) = base(mounts, own, None) else {
            return;
        };
        // A daemon that was put into (or moved itself to) a leaf works beside that leaf.
        let at = match at.file_name() {
            Some(name) if name == "daemon" => at.parent().map_or(at.clone(), Path::to_owned),
            _ => at,
        };
        let offered = read(&at.join("cgroup.controllers")).unwrap_or_default();
        let has = |name: &str| offered.split_whitespace().any(|c| c == name);
        let wanted: Vec<String> = ["memory", "cpu", "cpuset"]
            .into_iter()
            .filter(|c| has(c))
            .map(|c| format!("+{c}"))
            .collect();
        let parent = at.join(instance);
        let controls = !wanted.is_empty() && delegate(&at, &wanted);
        if fs::create_dir(&parent).is_err_and(|e| e.kind() != io::ErrorKind::AlreadyExists) {
            return;
        }
        if controls {
            let _ = write(&parent.join("cgroup.subtree_control"), &wanted.join(" "));
            let given = read(&parent.join("cgroup.subtree_control")).unwrap_or_default();
            let given = |name: &str| given.split_whitespace().any(|c| c == name);
            self.controllers = Controllers {
                memory: given("memory"),
                cpu: given("cpu"),
                cpuset: given("cpuset"),
            };
        }
        // Joining needs write access to the common ancestor too; only a try tells.
        if joinable(&parent) {
            self.unified = Some(parent);
        } else {
            self.controllers = Controllers::default();
            remove(&parent);
        }
    }

    fn take_version_1(&mut self, mounts: &str, own: &str, instance: &str) {
        let take = |controller: &str| {
            let parent = base(mounts, own, Some(controller))?.join(instance);
            let _ = fs::create_dir(&parent);
            parent.is_dir().then_some(parent)
        };
        if !self.controllers.memory {
            self.memory = take("memory").filter(|p| p.join("memory.limit_in_bytes").exists());
            self.swap = self
                .memory
                .as_ref()
                .is_some_and(|p| p.join("memory.memsw.limit_in_bytes").exists());
        }
        if self.real && !self.controllers.cpuset {
            self.cpuset = take("cpuset").filter(|p| inherit_cpuset(p));
        }
        if !self.real && !self.controllers.cpu {
            self.cpu = take("cpu").filter(|p| p.join("cpu.cfs_quota_us").exists());
        }
    }

    /// The groups that an attempt needs.
    pub fn groups_for(&self, mut wanted: Wanted<'_>) -> Vec<Group> {
        if !self.limit_cores {
            wanted.cores = &[];
        }
        let mut groups = Vec::new();
        if let Some(parent) = &self.unified {
            groups.push(self.unified_group(parent, wanted));
        }
        if let (Some(parent), Some(bytes)) = (&self.memory, wanted.memory_bytes) {
            groups.push(self.memory_group(parent, wanted.name, bytes));
        }
        if let (Some(parent), Some(cpus)) = (&self.cpuset, self.cpus(wanted.cores)) {
            groups.push(Group {
                directory: text_of(&parent.join(format!("cpus-{cpus}"))),
                shared: true,
                settings: vec![("cpuset.cpus".into(), cpus)],
                ..Group::default()
            });
        }
        if let (Some(parent), false) = (&self.cpu, wanted.cores.is_empty()) {
            let quota = PERIOD_US * wanted.cores.len() as u64;
            groups.push(Group {
                directory: text_of(&parent.join(wanted.name)),
                settings: vec![("cpu.cfs_quota_us".into(), quota.to_string())],
                ..Group::default()
            });
        }
        groups
    }

    fn unified_group(&self, parent: &Path, wanted: Wanted<'_>) -> Group {
        let mut settings = Vec::new();
        let bytes = wanted.memory_bytes.filter(|_| self.controllers.memory);
        if let Some(bytes) = bytes {
            settings.push(("memory.max".into(), bytes.to_string()));
            settings.push(("memory.swap.max".into(), "0".into()));
            settings.push(("memory.oom.group".into(), "1".into()));
        }
        if let (true, Some(cpus)) = (
            self.real && self.controllers.cpuset,
            self.cpus(wanted.cores),
        ) {
            settings.push(("cpuset.cpus".into(), cpus));
        }
        if !self.real && self.controllers.cpu && !wanted.cores.is_empty() {
            let quota = PERIOD_US * wanted.cores.len() as u64;
            settings.push(("cpu.max".into(), format!("{quota} {PERIOD_US}")));
        }
        Group {
            directory: text_of(&parent.join(wanted.name)),
            unified: true,
            memory: bytes.is_some(),
            shared: false,
            settings,
        }
    }

    fn memory_group(&self, parent: &Path, name: &str, bytes: u64) -> Group {
        let mut settings = vec![("memory.limit_in_bytes".into(), bytes.to_string())];
        if self.swap {
            settings.push(("memory.memsw.limit_in_bytes".into(), bytes.to_string()));
        }
        Group {
            directory: text_of(&parent.join(name)),
            memory: true,
            settings,
            ..Group::default()
        }
    }

    /// The processors behind core numbers; `None` where that is no restriction or a
    /// number has no processor.
    fn cpus(&self, cores: &[u32]) -> Option<String> {
        let real: Vec<u32> = cores
            .iter()
            .map(|c| self.processors.get(*c as usize).copied())
            .collect::<Option<_>>()?;
        let all = real.len() == self.processors.len();
        (!real.is_empty() && !all).then(|| ranges(real))
    }

    fn parents(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.unified, &self.memory, &self.cpuset, &self.cpu]
            .into_iter()
            .flatten()
    }

    /// Kills and removes every group of this daemon but those called as `keep` says.
    pub fn clean(&self, keep: impl Fn(&str) -> bool) {
        for parent in self.parents() {
            for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
                let directory = entry.file_type().is_ok_and(|t| t.is_dir());
                let kept = entry.file_name().to_str().is_none_or(&keep);
                if !directory || kept {
                    continue;
                }
                // A shared set of cores may serve a job that runs; then it is busy and
                // stays.
                if !entry.file_name().as_bytes().starts_with(b"cpus-") {
                    kill(&entry.path());
                    empty_within(&entry.path(), Duration::from_secs(1));
                    remove(&entry.path());
                } else {
                    let _ = fs::remove_dir(entry.path());
                }
            }
        }
    }

    /// Removes the parents, as far as nothing is in them.
    pub fn remove_parents(&self) {
        for parent in self.parents() {
            remove_parent(parent);
        }
    }
}

/// Removes the parent of an attempt's groups with its shared groups, if all are empty.
pub fn remove_parent(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().as_bytes().starts_with(b"cpus-") {
            let _ = fs::remove_dir(entry.path());
        }
    }
    let _ = fs::remove_dir(parent);
}

fn empty_within(path: &Path, limit: Duration) {
    let until = Instant::now() + limit;
    while !processes(path).is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Lets groups below `at` have controllers: needs that no process is in `at` itself.
fn delegate(at: &Path, wanted: &[String]) -> bool {
    let control = at.join("cgroup.subtree_control");
    let text = wanted.join(" ");
    if write(&control, &text).is_ok() {
        return true;
    }
    let leaf = at.join("daemon");
    let _ = fs::create_dir(&leaf);
    write(&leaf.join("cgroup.procs"), "0").is_ok() && write(&control, &text).is_ok()
}

/// True when a process may be put into a group below `parent`: asks with a child that
/// only tries.
fn joinable(parent: &Path) -> bool {
    let probe = parent.join("probe");
    if fs::create_dir(&probe).is_err_and(|e| e.kind() != io::ErrorKind::AlreadyExists) {
        return false;
    }
    let joined = std::process::Command::new("/bin/sh")
        .args(["-c", "echo $$ > \"$0\""])
        .arg(probe.join("cgroup.procs"))
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status();
    remove(&probe);
    joined.is_ok_and(|s| s.success())
}

/// A version 1 set of processors starts empty and takes no process until it has some.
fn inherit_cpuset(parent: &Path) -> bool {
    let Some(above) = parent.parent() else {
        return false;
    };
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let text = read(&above.join(file)).unwrap_or_default();
        if write(&parent.join(file), text.trim()).is_err() {
            return false;
        }
    }
    write(&parent.join("cgroup.clone_children"), "1").is_ok()
}

/// The directory of this process's own group: of version 2, or of a version 1 controller.
fn base(mounts: &str, own: &str, controller: Option<&str>) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
        let here = match controller {
            None => names.is_empty(),
            Some(c) => names.split(',').any(|n| n == c),
        };
        here.then_some(path)
    })?;
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, left.next()?);
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1)?);
        let here = match controller {
            None => kind == "cgroup2",
            Some(c) => kind == "cgroup" && options.split(',').any(|o| o == c),
        };
        if !here {
            return None;
        }
        let below = path.strip_prefix(root.trim_end_matches('/')).unwrap_or("");
        let full = Path::new(point).join(below.trim_start_matches('/'));
        Some(if full.is_dir() {
            full
        } else {
            PathBuf::from(point)
        })
    })
}

fn text_of(path: &Path) -> OsText {
    OsText(path.as_os_str().as_bytes().to_vec())
}

/// `0-3,7`.
fn ranges(mut numbers: Vec<u32>) -> String {
    numbers.sort_unstable();
    numbers.dedup();
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for n in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => parts.push((n, n)),
        }
    }
    let text = |&(a, b): &(u32, u32)| {
        if a == b {
            a.to_string()
        } else {
            format!("{a}-{b}")
        }
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
30 25 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
31 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 25 0:29 /machine/x /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
";

    #[test]
    fn own_groups_are_found() {
        let own = "4:memory:/a/b\n3:cpu,cpuacct:/\n0::/machine/x/y\n";
        let check = |controller, want: Option<&str>| {
            let got = base(MOUNTS, own, controller);
            assert_eq!(got.as_deref(), want.map(Path::new), "{controller:?}");
        };
        // Directories that are not there fall back to the mount point.
        check(Some("memory"), Some("/sys/fs/cgroup/memory"));
        check(Some("cpu"), Some("/sys/fs/cgroup/cpu,cpuacct"));
        check(Some("pids"), None);
        check(None, Some("/sys/fs/cgroup/unified"));
    }

    #[test]
    fn processor_lists() {
        assert_eq!(ranges(vec![3, 0, 1, 2, 7]), "0-3,7");
        let groups = Cgroups {
            cpuset: Some("/x".into()),
            processors: vec![4, 5, 9],
            real: true,
            limit_cores: true,
            ..Cgroups::default()
        };
        assert_eq!(groups.cpus(&[0, 2]).as_deref(), Some("4,9"));
        assert_eq!(groups.cpus(&[0, 1, 2]), None);
        assert_eq!(groups.cpus(&[3]), None);
    }

    #[test]
    fn version_2_limits_are_settings_of_one_group() {
        let groups = Cgroups {
            unified: Some("/u".into()),
            controllers: Controllers {
                memory: true,
                cpu: true,
                cpuset: true,
            },
            processors: vec![0],
            real: false,
            limit_cores: true,
            ..Cgroups::default()
        };
        let got = groups.groups_for(Wanted {
            name: "7.1",
            memory_bytes: Some(1 << 20),
            cores: &[0, 1],
        });
        assert_eq!(got.len(), 1);
        assert!(got[0].memory && got[0].unified);
        let set = |name: &str| {
            let found = got[0].settings.iter().find(|(n, _)| n == name);
            found.map(|(_, v)| v.as_str())
        };
        assert_eq!(set("memory.max"), Some("1048576"));
        assert_eq!(set("cpu.max"), Some("200000 100000"));
        assert_eq!(set("cpuset.cpus"), None);
    }
}
