//! The unit of the system's own (`cosy-jobs.service`) below whose control group all jobs and
//! their supervisors live, so that no end of the daemon's unit concerns them.
//!
//! ```text
//! /cosy.slice/cosy-jobs.service              delegated to us; no process in it
//! /cosy.slice/cosy-jobs.service/hold         one process that keeps the group in being
//! /cosy.slice/cosy-jobs.service/supervisors  nursery, supervisors of attempts
//! /cosy.slice/cosy-jobs.service/INSTANCE     as in the module above
//! ```
//!
//! The system ends a unit of which no process is left, and with it what was enabled in its
//! group. So the unit begins with [`hold`]: it leaves a process that waits for ever, in a group
//! inside, because version 2 wants groups with controllers to be without processes. Its end
//! alone ends nothing: the unit has no process of its own to be watched.
//!
//! The daemon's own unit then has no groups inside and no controllers, so that it can always
//! be started again: systemd before version 254 puts new processes into the unit's own group,
//! which the kernel refuses (`219/CGROUP`) where that has controllers for groups inside.
//!
//! Source: <https://systemd.io/CGROUP_DELEGATION>.

use super::find::mounted;
use super::group::write;
use crate::sys::{self, Fork};
use nix::libc;
use nix::unistd::Pid;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Group of the process that keeps the unit's group in being.
const HOLD: &str = "hold";
/// Group of the nursery and of the supervisors that it starts.
const SUPERVISORS: &str = "supervisors";

/// `/proc/self/cgroup` with the unit's group instead of the own one, wherever the unit has
/// one.
pub(super) fn instead(mounts: &str, own: &str, unit: &str) -> String {
    let line = |line: &str| match hierarchy(line) {
        Some((head, names, _)) if at(mounts, names, unit).is_some() => format!("{head}{unit}\n"),
        _ => format!("{line}\n"),
    };
    own.lines().map(line).collect()
}

/// Puts a nursery, which has no children yet, into the unit's group.
///
/// # Errors
/// The unit has no group, or the kernel does not let it in.
pub fn take_in(nursery: Pid, unit: &str) -> io::Result<()> {
    enter(SUPERVISORS, unit, nursery)
}

/// What the unit begins with: leaves a process behind in its group.
///
/// # Errors
/// There is no such group, or the kernel allows nothing inside.
pub fn hold() -> io::Result<()> {
    let own = fs::read_to_string("/proc/self/cgroup")?;
    let unit = unit_in(&own)
        .ok_or_else(|| io::Error::other("this process is in no unit: systemd has to start it"))?;
    // SAFETY: this process has one thread.
    match unsafe { sys::fork_into(None) }? {
        Fork::Child => wait_for_ever(),
        Fork::Parent(child) => enter(HOLD, unit, child).inspect_err(|_| {
            let _ = sys::kill(child, libc::SIGKILL);
        }),
    }
}

/// The unit's group, out of its process's `/proc/PID/cgroup`.
fn unit_in(own: &str) -> Option<&str> {
    let path_in = |names| {
        let mut lines = own.lines().filter_map(hierarchy);
        let found = lines.find(|(_, here, path)| *here == names && path.len() > 1);
        found.map(|(_, _, path)| path)
    };
    path_in(None).or_else(|| path_in(Some(SYSTEMD)))
}

fn wait_for_ever() -> ! {
    let _ = nix::unistd::setsid();
    let _ = nix::unistd::chdir("/");
    let _ = nix::sys::prctl::set_name(c"cosy-hold");
    loop {
        nix::unistd::pause();
    }
}

/// Puts a process into a group inside the unit's, in the hierarchies that the system keeps
/// units in. Without one of version 2 that of version 1 must do.
fn enter(inside: &str, unit: &str, pid: Pid) -> io::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let tracked = [None, Some(SYSTEMD)];
    let mut found = tracked.map(|names| at(&mounts, names, unit)).into_iter();
    let first = found.find_map(|group| group).ok_or_else(|| {
        let text = format!("there is no control group {unit}: is its unit running?");
        io::Error::new(io::ErrorKind::NotFound, text)
    })?;
    put(&first.join(inside), pid)?;
    for other in found.flatten() {
        put(&other.join(inside), pid)?;
    }
    Ok(())
}

fn put(group: &Path, pid: Pid) -> io::Result<()> {
    let with_path = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", group.display()));
    match fs::create_dir(group) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(with_path(e)),
        _ => {}
    }
    write(&group.join("cgroup.procs"), &pid.to_string()).map_err(with_path)
}

/// The hierarchy of version 1 without controllers in which systemd keeps its units.
const SYSTEMD: &str = "name=systemd";

/// A line of `/proc/PID/cgroup`: what stands before the path, the controllers or the name of
/// the hierarchy (none in version 2), the path.
fn hierarchy(line: &str) -> Option<(&str, Option<&str>, &str)> {
    let (_, rest) = line.split_once(':')?;
    let (names, path) = rest.split_once(':')?;
    let head = line.strip_suffix(path)?;
    Some((head, (!names.is_empty()).then_some(names), path))
}

/// The unit's group in the hierarchy of these controllers, where it has one there.
fn at(mounts: &str, names: Option<&str>, unit: &str) -> Option<PathBuf> {
    let one = names.map(|names| names.split(',').next().unwrap_or_default());
    let (_, full) = mounted(mounts, one, unit)?;
    full.is_dir().then_some(full)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: &str = "/cosy.slice/cosy-jobs.service";

    /// A machine's mounts, with the unit's group only in those of version 2 and of `memory`.
    fn machine() -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        let mount = |name: &str, kind: &str, options: &str| {
            let point = dir.path().join(name);
            fs::create_dir(&point).unwrap();
            format!("30 25 0:27 / {} rw - {kind} {kind} rw,{options}\n", point.display())
        };
        let mounts = [
            mount("unified", "cgroup2", "nsdelegate"),
            mount("memory", "cgroup", "memory"),
            mount("pids", "cgroup", "pids"),
            mount("systemd", "cgroup", "name=systemd"),
        ];
        for name in ["unified", "memory"] {
            fs::create_dir_all(dir.path().join(name).join(&UNIT[1..])).unwrap();
        }
        (dir, mounts.concat())
    }

    #[test]
    fn groups_lie_below_the_unit_where_it_has_one() {
        let (_dir, mounts) = machine();
        let own = "5:pids:/system.slice/noded.service\n4:memory:/system.slice/noded.service\n\
                   0::/system.slice/noded.service\n";
        let want = "5:pids:/system.slice/noded.service\n4:memory:/cosy.slice/cosy-jobs.service\n\
                    0::/cosy.slice/cosy-jobs.service\n";
        assert_eq!(instead(&mounts, own, UNIT), want);
        assert_eq!(instead(&mounts, own, "/none.service"), own);
    }

    #[test]
    fn a_unit_is_found_by_what_is_in_it() {
        let check = |own: &str, want: Option<&str>| assert_eq!(unit_in(own), want, "{own}");
        check("0::/cosy.slice/cosy-jobs.service\n", Some(UNIT));
        check("1:name=systemd:/a.service\n0::/\n", Some("/a.service"));
        check("4:memory:/a.service\n", None);
        check("0::/\n", None);
        check("", None);
    }

    #[test]
    fn a_process_is_put_into_a_group_inside() {
        let (dir, mounts) = machine();
        let group = at(&mounts, None, UNIT).unwrap();
        assert_eq!(group, dir.path().join("unified").join(&UNIT[1..]));
        assert_eq!(at(&mounts, Some(SYSTEMD), UNIT), None);
        // The kernel makes this file with the group.
        fs::create_dir(group.join(HOLD)).unwrap();
        fs::write(group.join(HOLD).join("cgroup.procs"), "").unwrap();
        put(&group.join(HOLD), Pid::from_raw(77)).unwrap();
        let text = fs::read_to_string(group.join(HOLD).join("cgroup.procs")).unwrap();
        assert_eq!(text, "77");
        let error = put(&group.join("a/b"), Pid::from_raw(77)).unwrap_err();
        assert!(error.to_string().contains("a/b"), "{error}");
    }
}
