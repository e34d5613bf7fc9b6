//! What the machine is and what runs on it.

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a node daemon's helper that forks shepherds calls itself.
pub const NURSERY: &str = "cosy-nursery";

/// True when the tests run as root.
pub fn is_root() -> bool {
    Uid::effective().is_root()
}

pub use cosy_skip::{not_installed, skip};

/// True as root; otherwise says that the test is skipped.
pub fn root_or_skip() -> bool {
    if !is_root() {
        skip("needs root");
    }
    is_root()
}

/// True where servers of PostgreSQL can be started; otherwise says that the test is skipped.
pub fn postgres_or_skip() -> bool {
    let there = cosy_postgres::programs().is_some();
    if !there {
        not_installed("PostgreSQL's server is not installed");
    }
    there
}

/// A process of this host, as `/proc` shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// Process id on this host.
    pub pid: i32,
    /// What it calls itself (shepherds: `cosy:JOB.ATTEMPT`).
    pub name: String,
    /// Its command line, words separated by spaces.
    pub command: String,
}

impl Process {
    /// Kills it with that signal; one that has gone is no fault.
    pub fn kill(&self, signal: Signal) {
        let _ = kill(Pid::from_raw(self.pid), signal);
    }
}

/// All processes that have `text` in their command line or environment (as far as it may
/// be read). Ended ones that nobody has collected are not listed.
pub fn processes_with(text: &str) -> Vec<Process> {
    processes_where(|words| words.have(text))
}

/// Command line and environment of a process.
pub struct Words {
    command: Vec<u8>,
    environment: Vec<u8>,
}

impl Words {
    /// True when the text is in one of them.
    pub fn have(&self, text: &str) -> bool {
        let has = |bytes: &[u8]| bytes.windows(text.len()).any(|w| w == text.as_bytes());
        has(&self.command) || has(&self.environment)
    }
}

/// All processes, but not this one, whose words are as wanted.
pub fn processes_where(wanted: impl Fn(&Words) -> bool) -> Vec<Process> {
    let me = std::process::id().cast_signed();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != me)
        .filter_map(|pid| {
            let proc = Path::new("/proc").join(pid.to_string());
            let words = Words {
                command: fs::read(proc.join("cmdline")).ok()?,
                environment: fs::read(proc.join("environ")).unwrap_or_default(),
            };
            let name = fs::read_to_string(proc.join("comm")).unwrap_or_default();
            wanted(&words).then(|| Process {
                pid,
                name: name.trim().to_owned(),
                command: String::from_utf8_lossy(&words.command).replace('\0', " "),
            })
        })
        .collect()
}

/// The process that started it; `None` when it has gone.
pub fn parent_of(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

/// Resident memory of a process in KiB; 0 when it has gone.
pub fn resident_kib(pid: u32) -> u64 {
    status_kib(pid, "VmRSS:")
}

/// The most that its resident memory ever was, in KiB; 0 when it has gone.
pub fn peak_kib(pid: u32) -> u64 {
    status_kib(pid, "VmHWM:")
}

fn status_kib(pid: u32, what: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status
        .lines()
        .find_map(|l| l.strip_prefix(what))
        .and_then(|l| l.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// Number of open file descriptors of a process.
pub fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// True while a process is there and has not ended.
pub fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.trim().chars().next());
    state.is_some_and(|s| s != 'Z' && s != 'X')
}

/// Compiles a shared library `NAME.so` in a folder; `None` where there is no compiler, which is said.
///
/// # Panics
/// The library cannot be made.
pub fn library_or_skip(folder: &Path, name: &str, source: &str) -> Option<PathBuf> {
    let text = folder.join(name).with_extension("c");
    let library = text.with_extension("so");
    fs::write(&text, source).expect("a short file");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]);
    let Ok(made) = compiler.arg(&library).arg(&text).output() else {
        not_installed("cc");
        return None;
    };
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "the library was not made: {said}");
    Some(library)
}

/// Makes a script of a shell that everybody may run.
///
/// # Panics
/// It cannot be written.
pub fn program(file: &Path, text: &str) {
    fs::write(file, format!("#!/bin/sh\n{text}\n")).expect("a script");
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("its mode");
}
