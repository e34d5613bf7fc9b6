//! One control group of a job, a step or a task: made by its supervisor, joined by the
//! processes, read and removed at the end.
//!
//! Knows the files of both versions, not what they are used for. What the daemon decided
//! comes with the group, in text.

use super::program;
use crate::devices::DeviceNumber;
use cosy_model::OsText;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A control group by its directory.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Group {
    /// Absolute path of its directory.
    pub directory: OsText,
    /// Of version 2: tracks and kills too.
    #[serde(default)]
    pub unified: bool,
    /// Limits and measures memory.
    #[serde(default)]
    pub memory: bool,
    /// Shared by everything with the same settings: not measured, not removed.
    #[serde(default)]
    pub shared: bool,
    /// What is written when it is made: file and text. The first must succeed when the
    /// group is for memory.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
    /// All settings must succeed; they are written again by everyone who uses it.
    #[serde(default)]
    pub strict: bool,
    /// The group around it, made with it where it is not there yet.
    #[serde(default)]
    pub within: Option<ParentGroup>,
    /// Groups inside it belong to the same step.
    #[serde(default)]
    pub tree: bool,
    /// Version 2: devices that its processes cannot open.
    #[serde(default)]
    pub denied: Vec<DeviceNumber>,
}

/// A group around others.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ParentGroup {
    /// Absolute path of its directory.
    pub directory: OsText,
    /// As in [`Group::settings`]; written by everyone who makes a group inside.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
    /// The first setting must succeed.
    #[serde(default)]
    pub must: bool,
    /// It is of the same thing as the group inside: measured as a whole, and removed with
    /// it as soon as nothing else is inside.
    #[serde(default)]
    pub own: bool,
}

/// Why a group cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("control group {path}: {source}")]
pub struct GroupError {
    /// Directory or file.
    pub path: String,
    /// The error of the kernel.
    #[source]
    pub source: io::Error,
}

impl Group {
    /// The directory as a path.
    pub fn path(&self) -> PathBuf {
        path_of(&self.directory)
    }

    /// The directory of all of this daemon's groups of its kind.
    pub fn parent(&self) -> Option<PathBuf> {
        let outermost = match &self.within {
            Some(outer) => path_of(&outer.directory),
            None => self.path(),
        };
        outermost.parent().map(Path::to_owned)
    }

    /// Makes it and sets its limits.
    ///
    /// # Errors
    /// Only where the job would run without a limit on its memory, could use devices of
    /// others, or could not be tracked.
    pub fn create(&self) -> Result<(), GroupError> {
        if let Some(outer) = &self.within {
            let path = path_of(&outer.directory);
            make(&path)?;
            set(&path, &outer.settings, usize::from(outer.must))?;
        }
        let path = self.path();
        let fresh = make(&path)?;
        if fresh || self.strict || !self.shared {
            let must = match (self.strict, self.memory) {
                (true, _) => self.settings.len(),
                (false, memory) => usize::from(memory),
            };
            set(&path, &self.settings, must)?;
        }
        if !self.denied.is_empty() {
            program::deny(&path, &self.denied).map_err(|source| failed(&path, source))?;
        }
        Ok(())
    }

    /// Puts this process into it, for good.
    ///
    /// # Errors
    /// The kernel's.
    pub fn join(&self) -> Result<(), GroupError> {
        let procs = self.path().join("cgroup.procs");
        write(&procs, "0").map_err(|source| failed(&procs, source))
    }

    /// Puts another process into it.
    ///
    /// # Errors
    /// The kernel's; the process has ended.
    pub fn take_in(&self, pid: Pid) -> Result<(), GroupError> {
        let procs = self.path().join("cgroup.procs");
        write(&procs, &pid.to_string()).map_err(|source| failed(&procs, source))
    }

    /// Puts this process beside all of this daemon's groups of its kind.
    pub fn leave(&self) {
        let beside = self.parent().and_then(|p| p.parent().map(Path::to_owned));
        if let Some(beside) = beside {
            let _ = write(&beside.join("cgroup.procs"), "0");
        }
    }

    /// Removes it and what is around it, also where that is left to the daemon otherwise, as
    /// far as nothing is inside.
    pub fn vanish(&self) {
        self.remove();
        let _ = fs::remove_dir(self.path());
        if let Some(outer) = &self.within {
            let _ = fs::remove_dir(path_of(&outer.directory));
        }
        if let Some(parent) = self.parent() {
            super::remove_parent(&parent);
        }
    }

    /// Removes it, waiting a moment for the kernel to let go.
    pub fn remove(&self) {
        if self.shared {
            return;
        }
        let path = self.path();
        if self.tree {
            inner(&path).iter().for_each(|p| remove(p));
        }
        remove(&path);
        if let Some(outer) = self.own_outer() {
            remove(&outer);
        }
    }

    /// The group around it that is of the same thing.
    fn own_outer(&self) -> Option<PathBuf> {
        let outer = self.within.as_ref().filter(|o| o.own)?;
        Some(path_of(&outer.directory))
    }

    /// Where the whole is measured.
    fn measured(&self) -> PathBuf {
        self.own_outer().unwrap_or_else(|| self.path())
    }

    /// The processes in it.
    pub fn processes(&self) -> Vec<i32> {
        let path = self.path();
        let mut all = processes(&path);
        if self.tree {
            all.extend(inner(&path).iter().flat_map(|p| processes(p)));
        }
        all
    }

    /// Kills everything in it, but not what is in groups inside that are of other things.
    /// In version 2 in one go, forks included, unless there are such.
    pub fn kill(&self) {
        if self.shared {
            return;
        }
        let path = self.path();
        let alone = self.tree || !has_inner(&path);
        if alone && write(&path.join("cgroup.kill"), "1").is_ok() {
            return;
        }
        kill_each(self.processes());
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

    /// Most memory it ever used, in bytes, with all groups inside.
    pub fn peak_memory(&self) -> Option<u64> {
        peak_memory(&self.measured(), self.unified)
    }

    /// User and system CPU time in microseconds (version 2 only), with all groups inside.
    pub fn cpu_time(&self) -> Option<(u64, u64)> {
        self.unified.then(|| cpu_time(&self.measured()))?
    }
}

pub(super) fn path_of(text: &OsText) -> PathBuf {
    PathBuf::from(OsString::from_vec(text.0.clone()))
}

/// The largest memory ever of what is in that directory, in bytes.
pub(crate) fn peak_memory(path: &Path, unified: bool) -> Option<u64> {
    let file = if unified {
        "memory.peak"
    } else {
        "memory.max_usage_in_bytes"
    };
    number(&path.join(file))
}

/// The number that is in a file.
pub(crate) fn number(path: &Path) -> Option<u64> {
    read(path)?.trim().parse().ok()
}

pub(super) fn cpu_time(path: &Path) -> Option<(u64, u64)> {
    let text = read(&path.join("cpu.stat"))?;
    Some((keyed(&text, "user_usec")?, keyed(&text, "system_usec")?))
}

fn failed(path: &Path, source: io::Error) -> GroupError {
    GroupError {
        path: path.display().to_string(),
        source,
    }
}

/// True when it was not there before.
fn make(path: &Path) -> Result<bool, GroupError> {
    match fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(failed(path, e)),
    }
}

/// Writes settings, of which the first `must` have to succeed.
fn set(path: &Path, settings: &[(String, String)], must: usize) -> Result<(), GroupError> {
    for (at, (file, text)) in settings.iter().enumerate() {
        let file = path.join(file);
        if let Err(e) = write(&file, text)
            && at < must
        {
            return Err(failed(&file, e));
        }
    }
    Ok(())
}

/// Writes a control file: in one write, or a part would take effect.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    fs::OpenOptions::new()
        .write(true)
        .open(path)?
        .write_all(text.as_bytes())
}

pub(super) fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The number behind a key, on a line of its own.
pub(crate) fn keyed(text: &str, key: &str) -> Option<u64> {
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

/// Whether there are groups in it: a directory has two links, and one more for each
/// directory inside.
fn has_inner(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|m| m.nlink() != 2) && !inner(path).is_empty()
}

/// The groups directly in it.
fn inner(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let directories = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    directories.map(|e| e.path()).collect()
}

fn kill_each(pids: Vec<i32>) {
    for pid in pids.into_iter().filter(|p| *p > 0) {
        let _ = crate::sys::kill(nix::unistd::Pid::from_raw(pid), nix::libc::SIGKILL);
    }
}

/// Removes a group in which nothing runs. What is in groups inside stays, and so does it.
pub(super) fn remove(path: &Path) {
    for pause_us in [0, 50, 200, 1000, 5000, 20_000] {
        std::thread::sleep(Duration::from_micros(pause_us));
        match fs::remove_dir(path) {
            Err(e) if e.raw_os_error() == Some(nix::libc::EBUSY) && !has_inner(path) => {}
            _ => return,
        }
    }
}

/// Kills everything in a group and all groups inside it and removes them; gives up after
/// `limit`.
pub(super) fn remove_tree(path: &Path, limit: Duration) {
    // Most often there is nothing, or nothing inside any more.
    match fs::remove_dir(path) {
        Err(e) if e.raw_os_error() == Some(nix::libc::EBUSY) => {}
        _ => return,
    }
    let until = Instant::now() + limit;
    loop {
        let all = tree(path);
        let running: Vec<i32> = all.iter().flat_map(|p| processes(p)).collect();
        if running.is_empty() || Instant::now() >= until {
            all.iter().rev().for_each(|p| remove(p));
            return;
        }
        if write(&path.join("cgroup.kill"), "1").is_err() {
            kill_each(running);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A group and all inside it, outer ones first.
fn tree(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    let mut at = 0;
    while let Some(next) = all.get(at).map(|p| inner(p)) {
        all.extend(next);
        at += 1;
    }
    all
}
