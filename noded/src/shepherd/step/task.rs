//! One task, as its supervisor sees it.

use super::failure::{Failure, Names};
use super::tally::NEVER_RAN;
use cosy_model::Dialect;
use cosy_model::step::{Stream, TaskEnd};
use nix::errno::Errno;
use nix::unistd::Pid;
use std::io;
use std::os::fd::OwnedFd;

/// The supervisor's ends of what connects it with a task.
#[derive(Debug, Default)]
pub struct Descriptors {
    /// Standard output, or what the terminal shows.
    pub output: Option<OwnedFd>,
    /// Standard error, where it has a pipe of its own.
    pub error: Option<OwnedFd>,
    /// What becomes the task's standard input.
    pub input: Option<OwnedFd>,
    /// Says that the input was whole.
    pub whole: Option<OwnedFd>,
    /// The supervisor's side of the task's terminal.
    pub terminal: Option<OwnedFd>,
}

impl Descriptors {
    /// The terminal is read, written, and told its size.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn take_terminal(&mut self, own: OwnedFd) -> io::Result<()> {
        use nix::fcntl::{FcntlArg, OFlag};
        nix::fcntl::fcntl(&own, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        self.output = Some(own.try_clone()?);
        self.input = Some(own.try_clone()?);
        self.terminal = Some(own);
        Ok(())
    }

    /// The end at which one of the outputs is read.
    pub fn of(&self, stream: Stream) -> Option<&OwnedFd> {
        match stream {
            Stream::Output => self.output.as_ref(),
            Stream::Error => self.error.as_ref(),
        }
    }

    /// Nothing more is read there.
    pub fn close(&mut self, stream: Stream) {
        match stream {
            Stream::Output => self.output = None,
            Stream::Error => self.error = None,
        }
    }
}

/// What reading an output gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadOutcome {
    /// As many bytes were read.
    Some(usize),
    /// There is nothing to read at this moment.
    NotYet,
    /// The other end is closed.
    End,
}

/// Reads what is there, without waiting.
pub fn read(fd: &OwnedFd, buffer: &mut [u8]) -> ReadOutcome {
    loop {
        return match nix::unistd::read(fd, buffer) {
            Ok(0) => ReadOutcome::End,
            Ok(n) => ReadOutcome::Some(n),
            Err(Errno::EINTR) => continue,
            Err(Errno::EAGAIN) => ReadOutcome::NotYet,
            // A terminal that nobody has open any more says EIO.
            Err(_) => ReadOutcome::End,
        };
    }
}

/// A task of the step on this node.
#[derive(Debug)]
pub struct Task {
    /// Number within the step, from 0.
    pub rank: u32,
    /// Its process, once it was forked.
    pub pid: Option<Pid>,
    /// Ends of its pipes.
    pub ends: Descriptors,
    /// How the task ended; `None` while it runs.
    pub end: Option<TaskEnd>,
    failure: Option<Failure>,
    names: Names,
    dialect: Dialect,
}

impl Task {
    /// One that is not forked yet.
    pub fn new(rank: u32, ends: Descriptors, names: Names) -> Self {
        Self {
            dialect: Dialect::Cosy,
            rank,
            pid: None,
            ends,
            end: None,
            failure: None,
            names,
        }
    }

    /// The same task, with messages in that dialect.
    pub fn in_dialect(self, dialect: Dialect) -> Self {
        Self { dialect, ..self }
    }

    /// Notes that the task did not get as far as its program.
    pub fn failed(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Notes that the task's process has ended, with an exit code or by a signal.
    pub fn ended(&mut self, exit_code: i32, signal: i32, node: &str, user: &str) -> TaskEnd {
        let slurm = self.failure.filter(|_| self.dialect == Dialect::Slurm);
        if let Some((exit_code, text)) = slurm.and_then(|f| f.as_slurm(&self.names)) {
            self.ends.input = None;
            let end = TaskEnd {
                exit_code,
                signal: 0,
                failure: Some(text),
            };
            self.end = Some(end.clone());
            return end;
        }
        let failure = self.failure.map(|f| f.text(&self.names, node, user));
        let end = match failure {
            Some(failure) => never_ran(failure),
            None => TaskEnd {
                exit_code,
                signal,
                failure: None,
            },
        };
        self.ends.input = None;
        self.end = Some(end.clone());
        end
    }
}

/// The end of a task that never ran.
pub fn never_ran(failure: String) -> TaskEnd {
    TaskEnd {
        exit_code: NEVER_RAN,
        signal: 0,
        failure: Some(failure),
    }
}
