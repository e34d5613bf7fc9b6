//! What control groups there are on this machine, and making this daemon's parents in
//! them.

use super::group::{read, remove, write};
use super::jobs_unit;
use super::program;
use super::{Cgroups, Controllers};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

impl Cgroups {
    /// Looks what there is and makes the parents of all groups, called `instance`, below
    /// the unit of the jobs, or below this process's own group without one; those that keep
    /// processes from devices only with `devices`. Gives also what does not work, for the log.
    pub fn detect(
        instance: &str,
        jobs_unit: Option<&str>,
        cores: u32,
        limit_cores: bool,
        processors: Vec<u32>,
        devices: bool,
    ) -> (Self, Vec<String>) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = match jobs_unit {
            Some(unit) => jobs_unit::instead(&mounts, &own, unit),
            None => own,
        };
        let mut found = Self {
            real: cores as usize <= processors.len(),
            limit_cores,
            processors,
            ..Self::default()
        };
        found.take_unified(&mounts, &own, instance);
        found.take_version_1(&mounts, &own, instance);
        if devices {
            found.take_devices(&mounts, &own, instance);
        }
        let mut missing = Vec::new();
        let at = found.unified.as_deref().filter(|_| found.controllers.any());
        if let Some(unit) = at.filter(|_| jobs_unit.is_none()).and_then(service_of) {
            missing.push(format!(
                "jobs live in the control group of {unit}, this daemon's own unit: systemd before 254 cannot start that again while they run; see --jobs-unit and cosy-jobs.service"
            ));
        }
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
        if devices && !found.limits_devices() {
            missing.push(
                "cannot keep jobs from devices by control groups: they may open those of others"
                    .to_owned(),
            );
        }
        if limit_cores && !found.limits_cores() {
            missing
                .push("cannot limit cores by control groups: jobs may use other cores".to_owned());
        }
        (found, missing)
    }

    pub(super) fn limits_cores(&self) -> bool {
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
        let wanted: Vec<String> = ["memory", "cpu", "cpuset", "pids"]
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
                pids: given("pids"),
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
        let take = |controller: &str| version_1(mounts, own, instance, controller);
        if !self.controllers.memory {
            self.memory = take("memory").filter(|p| p.join("memory.limit_in_bytes").exists());
            // Kernels before 5.11 count groups inside only when told so.
            if let Some(parent) = &self.memory {
                let _ = write(&parent.join("memory.use_hierarchy"), "1");
            }
            self.swap = self
                .memory
                .as_ref()
                .is_some_and(|p| p.join("memory.memsw.limit_in_bytes").exists());
        }
        if self.real && !self.controllers.cpuset {
            self.cpuset = take("cpuset").filter(|p| inherit_cpuset(p));
        }
        if !self.controllers.pids {
            self.pids = take("pids").filter(|p| counts(p));
        }
        if !self.controllers.cpu {
            self.cpu = take("cpu").filter(|p| p.join("cpu.cfs_quota_us").exists());
            // There only programs of triggers need it.
            self.cpu
                .iter()
                .filter(|_| self.real)
                .for_each(|p| remove(p));
        }
    }

    fn take_devices(&mut self, mounts: &str, own: &str, instance: &str) {
        self.devices =
            version_1(mounts, own, instance, "devices").filter(|p| p.join("devices.deny").exists());
        if let (None, Some(parent)) = (&self.devices, &self.unified) {
            self.programs = program::works(parent);
        }
    }
}

/// The service of systemd that a group belongs to.
fn service_of(group: &Path) -> Option<&str> {
    let mut names = group.iter().filter_map(|part| part.to_str());
    names.find(|name| name.ends_with(".service"))
}

/// Makes a parent for groups of a version 1 controller.
fn version_1(mounts: &str, own: &str, instance: &str, controller: &str) -> Option<PathBuf> {
    let parent = base(mounts, own, Some(controller))?.join(instance);
    let _ = fs::create_dir(&parent);
    parent.is_dir().then_some(parent)
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

/// True when the groups below `parent` may limit processes: asks with one that is made for
/// that.
fn counts(parent: &Path) -> bool {
    let probe = parent.join("probe");
    let _ = fs::create_dir(&probe);
    let works = write(&probe.join("pids.max"), "max").is_ok();
    remove(&probe);
    works
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
    let (point, full) = mounted(mounts, controller, path)?;
    Some(if full.is_dir() { full } else { point })
}

/// Where a hierarchy is mounted (that of version 2, or of a version 1 controller or name),
/// and where the group at `path` would be in it.
pub(super) fn mounted(
    mounts: &str,
    controller: Option<&str>,
    path: &str,
) -> Option<(PathBuf, PathBuf)> {
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
        Some((PathBuf::from(point), full))
    })
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
}
