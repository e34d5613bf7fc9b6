//! A limit on the memory of a process, as a control group holds it: the kernel ends what
//! passes it.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A control group with one process and a limit. Dropped after the process has ended.
#[derive(Debug)]
pub struct MemoryGroup {
    path: PathBuf,
}

impl MemoryGroup {
    /// Puts a process under a limit of so many MiB; versions 1 and 2 of control groups.
    ///
    /// # Errors
    /// There are none here, or the group cannot be made (who is not root may not).
    pub fn limit(pid: u32, mib: usize) -> io::Result<Self> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let root = Path::new("/sys/fs/cgroup");
        // Version 2, or version 1 with a folder for each kind of limit.
        let (root, file) = match root.join("cgroup.controllers").exists() {
            true => (root.to_owned(), "memory.max"),
            false => (root.join("memory"), "memory.limit_in_bytes"),
        };
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = root.join(format!("cosy-memory-{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        let group = Self { path };
        group.write(file, &(mib << 20).to_string())?;
        group.write("cgroup.procs", &pid.to_string())?;
        Ok(group)
    }

    /// Another process, of which the first has ended.
    ///
    /// # Errors
    /// It has gone, or the group has.
    pub fn add(&self, pid: u32) -> io::Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let mut open = fs::OpenOptions::new();
        let mut file = open.write(true).open(self.path.join(file))?;
        file.write_all(text.as_bytes())
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
    }
}
