//! The supervisor's end of a PMIx helper: starts it and speaks with it without ever
//! blocking.
//!
//! What the helper says is not trusted more than a task: it runs as the user.

use super::words::{FRAME, FromHelper, Setup, ToHelper};
use super::{EXCHANGE_BYTES, environment, setup};
use crate::shepherd::{UserProcess, child};
use crate::steps::StepTask;
use crate::sys;
use cosy_model::OsText;
use cosy_proto::frame::{self, Decoder};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long removing a directory may take.
const SWEEP: Duration = Duration::from_secs(2);
/// Exit code of a process that did not become a helper.
const NOT_EXECUTED: i32 = 127;

/// For each rank of a node its variables, `NAME=value`.
pub type Variables = Vec<(u32, Vec<OsText>)>;

/// What a helper wants of its supervisor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PmixAct {
    /// Tasks may start, each with these variables beside its others (`NAME=value`).
    Ready(Variables),
    /// All tasks of this node have come to the exchange: this is the node's share. It is
    /// answered by [`Helper::spread`].
    Contribute(Vec<u8>),
    /// A task wants the whole step to end.
    Abort {
        /// Rank of the task in its step, from 0.
        rank: u32,
        /// Exit code that the step is to end with.
        code: i32,
        /// Why, in one line.
        reason: String,
    },
    /// The helper is of no use any more, and why, in one line: the step ends.
    Failed(String),
}

/// A helper process.
#[derive(Debug)]
pub struct Helper {
    socket: UnixStream,
    pid: Pid,
    directory: PathBuf,
    /// What every task gets beside the variables of the library.
    also: Vec<OsText>,
    /// Tasks of this node.
    ranks: BTreeSet<u32>,
    /// Tasks that speak PMIx and have not taken leave.
    joined: BTreeSet<u32>,
    decoder: Decoder,
    out: Vec<u8>,
    over: bool,
}

impl Helper {
    /// Starts the helper of a step. `become_user` is what its process does first: joins
    /// the step's control groups and takes the user's identity. It must not allocate
    /// memory where this process has other threads.
    ///
    /// The caller reaps [`Helper::pid`] like any other child.
    ///
    /// # Errors
    /// In one line: no process or no pair of sockets can be made.
    pub fn start(
        task: &StepTask,
        become_user: impl FnMut() -> Result<(), Errno> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let variables = setup::variables(task);
        let setup = setup::of_step(task, &variables)?;
        let program = Path::new("/proc/self/exe");
        Self::start_with(program, setup, &variables, become_user)
            .map_err(|e| format!("cannot start the PMIx helper: {e}"))
    }

    /// Starts `program` as the helper for a step that is described by `setup` and has
    /// these variables (`NAME=value`, separated by NUL).
    ///
    /// # Errors
    /// No process or no pair of sockets can be made, or the program cannot be executed.
    pub fn start_with(
        program: &Path,
        setup: Setup,
        variables: &OsText,
        become_user: impl FnMut() -> Result<(), Errno> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let directory = PathBuf::from(OsStr::from_bytes(&setup.directory.0));
        let also = environment::of_tasks(variables, &setup.directory);
        let ranks = setup.layout.ranks_of(setup.node).into_iter().collect();
        let first = ToHelper::Setup(Box::new(setup));
        let out = frame::encode(&first, FRAME).map_err(io::Error::other)?;
        let (socket, other) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let environment = environment::of_helper(variables);
        let pid = spawn(program, other.into(), &environment, become_user)?;
        Ok(Self {
            socket,
            pid,
            directory,
            also,
            ranks,
            joined: BTreeSet::new(),
            decoder: Decoder::new(FRAME),
            out,
            over: false,
        })
    }

    /// To be waited for: readable always, writable when [`Helper::wants_write`].
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Something waits to be written.
    pub const fn wants_write(&self) -> bool {
        !self.over && !self.out.is_empty()
    }

    /// Process id of the helper, by which its end is known.
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// The descriptor is ready: reads and writes what can be.
    pub fn advance(&mut self) -> Vec<PmixAct> {
        let mut acts = Vec::new();
        if self.over {
            return acts;
        }
        let ended = self.flush().and_then(|()| self.fill());
        loop {
            match self.next() {
                Ok(Some(message)) => acts.extend(self.heard(message)),
                Ok(None) => break,
                Err(reason) => acts.push(self.fail(reason)),
            }
            if self.over {
                return acts;
            }
        }
        match ended {
            Ok(false) => {}
            Ok(true) => acts.push(self.fail("the PMIx helper has ended".to_owned())),
            Err(e) => acts.push(self.fail(format!("the PMIx helper: {e}"))),
        }
        acts
    }

    /// Waits until tasks may start, which takes some ten milliseconds: their variables.
    ///
    /// # Errors
    /// In one line: it cannot serve, or was not ready within `patience`.
    pub fn until_ready(&mut self, patience: Duration) -> Result<Variables, String> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(act) = self.advance().pop() {
                return match act {
                    PmixAct::Ready(variables) => Ok(variables),
                    PmixAct::Failed(reason) => Err(reason),
                    other => Err(format!("the PMIx helper begins with {other:?}")),
                };
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let left = u16::try_from(left.as_millis()).unwrap_or(u16::MAX);
            if left == 0 {
                self.finish();
                return Err(format!("the PMIx helper is not ready after {patience:?}"));
            }
            let mut flags = PollFlags::POLLIN;
            flags.set(PollFlags::POLLOUT, self.wants_write());
            let _ = nix::poll::poll(&mut [PollFd::new(self.fd(), flags)], left);
        }
    }

    /// The task of this rank speaks PMIx and has not taken leave of the others: when its
    /// process has ended, they may wait for it for ever. To be asked after
    /// [`Helper::advance`].
    pub fn is_unfinished(&self, rank: u32) -> bool {
        self.joined.contains(&rank)
    }

    /// The shares of all nodes in the oldest exchange that this node has contributed to.
    pub fn spread(&mut self, parts: &[(u32, OsText)]) -> Vec<PmixAct> {
        let message = ToHelper::Spread {
            parts: parts.to_vec(),
        };
        match frame::encode(&message, FRAME) {
            Ok(bytes) => self.out.extend_from_slice(&bytes),
            Err(e) => return vec![self.fail(format!("what the tasks exchange: {e}"))],
        }
        self.advance()
    }

    /// Nothing more is to be heard from it or said to it.
    pub const fn is_over(&self) -> bool {
        self.over
    }

    /// No task is left: the helper ends by itself and takes its directory with it.
    pub fn finish(&mut self) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        self.out = Vec::new();
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }

    /// After the helper's end: removes what one that was killed has left. Acts as the
    /// user, in a process of its own, because users may change what is in the directory.
    pub fn sweep(&self, become_user: impl Fn() -> Result<(), Errno>) {
        if std::fs::symlink_metadata(&self.directory).is_err() {
            return;
        }
        let sweeping = UserProcess::start(|| {
            if become_user().is_ok() {
                let _ = std::fs::remove_dir_all(&self.directory);
            }
        });
        // The user may stop a process of theirs, but not keep this one waiting.
        if let Ok(sweeping) = sweeping {
            sweeping.wait(SWEEP);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            match self.socket.write(&self.out) {
                Ok(n) => drop(self.out.drain(..n)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // Its last words are still there to be read.
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::BrokenPipe) => {
                    return Ok(());
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Reads what is there, at most one frame's worth; true at the end.
    fn fill(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 64 << 10];
        while self.decoder.buffered() <= FRAME {
            match self.socket.read(&mut chunk) {
                Ok(0) => return Ok(true),
                Ok(n) => self.decoder.push(&chunk[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                // Killed before it had read everything.
                Err(e) if e.kind() == ErrorKind::ConnectionReset => return Ok(true),
                Err(e) => return Err(e),
            }
        }
        Ok(false)
    }

    fn next(&mut self) -> Result<Option<FromHelper>, String> {
        let garbage = |e| format!("the PMIx helper talks nonsense: {e}");
        let body = self.decoder.next_frame().map_err(garbage)?;
        body.map(frame::decode).transpose().map_err(garbage)
    }

    fn heard(&mut self, message: FromHelper) -> Option<PmixAct> {
        Some(match message {
            FromHelper::Joined { rank } => {
                // As many as there are tasks, whatever it says.
                let known = self.ranks.contains(&rank);
                known.then(|| self.joined.insert(rank));
                return None;
            }
            FromHelper::Left { rank } => {
                self.joined.remove(&rank);
                return None;
            }
            FromHelper::Ready { mut variables } => {
                for (_, of_task) in &mut variables {
                    of_task.extend_from_slice(&self.also);
                }
                PmixAct::Ready(variables)
            }
            FromHelper::Contribute { bytes } if bytes.0.len() > EXCHANGE_BYTES => {
                self.fail(format!(
                    "the PMIx helper adds {} bytes to an exchange; {EXCHANGE_BYTES} may be",
                    bytes.0.len()
                ))
            }
            FromHelper::Contribute { bytes } => PmixAct::Contribute(bytes.0),
            FromHelper::Abort { rank, code, reason } => {
                let known = self.ranks.contains(&rank).then_some(rank);
                let rank = known.or_else(|| self.ranks.first().copied())?;
                PmixAct::Abort { rank, code, reason }
            }
            FromHelper::Failed { reason } => self.fail(reason),
        })
    }

    fn fail(&mut self, reason: String) -> PmixAct {
        self.finish();
        let line: String = reason
            .chars()
            .filter(|c| !c.is_control())
            .take(1000)
            .collect();
        PmixAct::Failed(line)
    }
}

/// Nobody waits for the exec: from the moment when the process is the user's, the user may stop
/// it. A program that cannot be executed shows by the end of the connection.
fn spawn(
    program: &Path,
    socket: OwnedFd,
    environment: &[(Vec<u8>, Vec<u8>)],
    mut become_user: impl FnMut() -> Result<(), Errno> + Send + Sync + 'static,
) -> io::Result<Pid> {
    let program = sys::c_path(program)?;
    let fd = CString::new(socket.as_raw_fd().to_string())?;
    let argv = [c"noded", c"--pmix", &fd];
    let by_name: BTreeMap<&[u8], &[u8]> = environment
        .iter()
        .map(|(name, value)| (&name[..], &value[..]))
        .collect();
    let lines = by_name
        .into_iter()
        .map(|(name, value)| CString::new([name, b"=", value].concat()));
    let lines: Vec<CString> = lines.collect::<Result<_, _>>()?;
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    let enter = |become_user: &mut dyn FnMut() -> Result<(), Errno>| -> Result<(), Errno> {
        become_user()?;
        let _ = nix::unistd::setsid();
        (0..3).try_for_each(|place| child::duplicate(nothing.as_raw_fd(), place))?;
        nix::unistd::chdir(c"/")?;
        sys::default_actions();
        sys::unblock_signals();
        sys::close_at_exec_from(3);
        sys::keep_at_exec(socket.as_raw_fd());
        Ok(())
    };
    // SAFETY: a supervisor has one thread; where the caller has more, the child makes system
    // calls only, as the caller of `start` promises of its own part.
    match unsafe { sys::fork_into(None) }? {
        sys::Fork::Parent(pid) => Ok(pid),
        sys::Fork::Child => {
            if enter(&mut become_user).is_ok() {
                let _ = nix::unistd::execve(&program, &argv, &lines);
            }
            sys::exit_now(NOT_EXECUTED)
        }
    }
}
