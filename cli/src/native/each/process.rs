//! The process of an attempt: started without a shell, in a process group of its own, with what it
//! writes read as it comes.

use super::task::{Input, Outcome};
use super::template::{Template, Word};
use nix::libc;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, pidfd_open};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

/// What all tasks of a node share.
#[derive(Debug)]
pub struct Recipe {
    /// The command; `None` where each input is one for `/bin/sh`.
    pub template: Option<Template>,
    /// What stands between columns of an input.
    pub separator: Option<Vec<u8>>,
    /// Name of a file for each task's output.
    pub output: Option<Word>,
    /// Bytes of output that are kept where there is no such file.
    pub output_bytes: u64,
}

/// An attempt under way.
#[derive(Debug)]
pub struct Process {
    group: Pid,
    pidfd: OwnedFd,
    output: Option<Pipe<ChildStdout>>,
    errors: Option<Pipe<ChildStderr>>,
}

/// How it ended, and what it took.
#[derive(Debug)]
pub struct Reaped {
    /// How its program ended.
    pub outcome: Outcome,
    /// CPU time of it and of what it waited for, in microseconds.
    pub cpu_us: u64,
    /// Its largest resident memory in KiB.
    pub memory_kib: u64,
}

impl Process {
    /// Starts the command of a task with these variables beside those of this process.
    ///
    /// # Errors
    /// That of the operating system: no such program, too many processes, no such directory.
    pub fn start(
        recipe: &Recipe,
        input: &Input<'_>,
        variables: &[(&str, OsString)],
    ) -> io::Result<Self> {
        let mut command = recipe.command(input);
        command.stdin(Stdio::null()).process_group(0).envs(
            variables
                .iter()
                .map(|(name, value)| (*name, value.as_os_str())),
        );
        match &recipe.output {
            Some(word) => {
                let file = create(Path::new(&word.fill(input)))?;
                command.stderr(file.try_clone()?).stdout(file);
            }
            None => {
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
            }
        }
        let mut child = command
            .spawn()
            .map_err(|e| with_program(e, command.get_program()))?;
        Self::of(&mut child, recipe.output_bytes).inspect_err(|_| {
            let _ = child.kill();
            let _ = child.wait();
        })
    }

    fn of(child: &mut Child, most: u64) -> io::Result<Self> {
        let number = i32::try_from(child.id()).map_err(io::Error::other)?;
        let pid = rustix::process::Pid::from_raw(number)
            .ok_or_else(|| io::Error::other("a process without a number"))?;
        Ok(Self {
            group: Pid::from_raw(number),
            pidfd: pidfd_open(pid, PidfdFlags::empty())?,
            output: child
                .stdout
                .take()
                .map(|pipe| Pipe::new(pipe, most))
                .transpose()?,
            errors: child
                .stderr
                .take()
                .map(|pipe| Pipe::new(pipe, most))
                .transpose()?,
        })
    }

    /// Readable when the program has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Readable when the program has written something.
    pub fn output_fd(&self) -> Option<BorrowedFd<'_>> {
        self.output.as_ref().and_then(Pipe::fd)
    }

    /// The same for its errors.
    pub fn errors_fd(&self) -> Option<BorrowedFd<'_>> {
        self.errors.as_ref().and_then(Pipe::fd)
    }

    /// Reads what it has written by now.
    pub fn read_output(&mut self) {
        if let Some(pipe) = &mut self.output {
            pipe.read();
        }
    }

    /// The same for its errors.
    pub fn read_errors(&mut self) {
        if let Some(pipe) = &mut self.errors {
            pipe.read();
        }
    }

    /// Signals it and what it started.
    pub fn signal(&self, signal: i32) {
        if let Ok(signal) = Signal::try_from(signal) {
            let _ = killpg(self.group, signal);
        }
    }

    /// How it ended; `None` while it runs.
    pub fn reap(&self) -> Option<Reaped> {
        let mut status = 0;
        // SAFETY: all zeros are a `rusage`.
        let mut used: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both point to what the call fills in, and live longer than it.
        let got =
            unsafe { libc::wait4(self.group.as_raw(), &mut status, libc::WNOHANG, &mut used) };
        if got == 0 {
            return None;
        }
        let us = |time: libc::timeval| {
            let us = time
                .tv_sec
                .saturating_mul(1_000_000)
                .saturating_add(time.tv_usec);
            u64::try_from(us).unwrap_or(0)
        };
        let status = ExitStatus::from_raw(status);
        Some(Reaped {
            outcome: match status.signal() {
                Some(signal) => Outcome::Killed(signal),
                None => Outcome::Exited(status.code().unwrap_or(0)),
            },
            cpu_us: us(used.ru_utime).saturating_add(us(used.ru_stime)),
            memory_kib: u64::try_from(used.ru_maxrss).unwrap_or(0),
        })
    }

    /// All that it wrote, and how many bytes of it were left out. What it has left running may go on,
    /// unheard.
    pub fn into_output(mut self) -> (Vec<u8>, Vec<u8>, u64) {
        self.read_output();
        self.read_errors();
        let (output, left_out) = self.output.map(Pipe::into_kept).unwrap_or_default();
        let (errors, more) = self.errors.map(Pipe::into_kept).unwrap_or_default();
        (output, errors, left_out.saturating_add(more))
    }
}

impl Recipe {
    fn command(&self, input: &Input<'_>) -> Command {
        let words = self.template.as_ref().map(|template| template.fill(input));
        match words.as_deref() {
            Some([program, args @ ..]) => {
                let mut command = Command::new(program);
                command.args(args);
                command
            }
            _ => {
                use std::os::unix::ffi::OsStrExt;
                let mut command = Command::new("/bin/sh");
                command.arg("-c").arg(OsStr::from_bytes(input.text));
                command
            }
        }
    }
}

/// Says which program it was; an error that may pass stays as it is.
fn with_program(e: io::Error, program: &OsStr) -> io::Error {
    if e.kind() != io::ErrorKind::NotFound {
        return e;
    }
    let name = program.to_string_lossy();
    let hint = match name.contains(char::is_whitespace) {
        true => " (a line for a shell? Give its words apart, or with sh -c)",
        false => "",
    };
    io::Error::new(e.kind(), format!("there is no program '{name}'{hint}"))
}

fn create(path: &Path) -> io::Result<File> {
    let open = || {
        OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .open(path)
    };
    let why = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    match (open(), path.parent()) {
        (Err(e), Some(folder)) if e.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(folder).map_err(why)?;
            open().map_err(why)
        }
        (opened, _) => opened.map_err(why),
    }
}

/// The reading end of what a program writes.
#[derive(Debug)]
struct Pipe<R> {
    reader: Option<R>,
    kept: Vec<u8>,
    most: u64,
    left_out: u64,
}

impl<R: Read + AsFd> Pipe<R> {
    fn new(reader: R, most: u64) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&reader, true)?;
        Ok(Self {
            reader: Some(reader),
            kept: Vec::new(),
            most,
            left_out: 0,
        })
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.reader.as_ref().map(AsFd::as_fd)
    }

    /// Reads until there is nothing now, at most some times; closes at the end.
    fn read(&mut self) {
        const READS: usize = 16;
        let mut chunk = [0; 16 << 10];
        for _ in 0..READS {
            let Some(reader) = &mut self.reader else {
                return;
            };
            match reader.read(&mut chunk) {
                Ok(0) => self.reader = None,
                Ok(n) => self.keep(chunk.get(..n).unwrap_or_default()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.reader = None,
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = self.most.saturating_sub(self.kept.len() as u64);
        let n = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        let (kept, rest) = bytes.split_at(n);
        self.kept.extend_from_slice(kept);
        self.left_out = self.left_out.saturating_add(rest.len() as u64);
    }

    fn into_kept(self) -> (Vec<u8>, u64) {
        (self.kept, self.left_out)
    }
}
