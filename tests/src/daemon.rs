//! One daemon as a child process.

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, pipe};
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Until a daemon is ready; a busy machine compiles beside it.
const READY_MS: u16 = 60_000;

/// A daemon that can be killed and started again.
#[derive(Debug)]
pub struct Daemon {
    program: PathBuf,
    config: PathBuf,
    log: PathBuf,
    /// A program and its arguments that start the daemon; nothing: it is started as it is.
    pub before: Vec<String>,
    /// Arguments after `--config FILE`.
    pub args: Vec<String>,
    /// Variables that are set beside those of the test.
    pub variables: Vec<(String, String)>,
    /// Writing beyond a limit on the size of files is an error, not the end.
    pub ignore_file_size_signal: bool,
    child: Option<Child>,
    ready: Option<OwnedFd>,
}

impl Daemon {
    /// A daemon that is not started yet.
    pub fn new(program: &Path, config: &Path, log: &Path) -> Self {
        Self {
            program: program.to_owned(),
            config: config.to_owned(),
            log: log.to_owned(),
            before: Vec::new(),
            args: Vec::new(),
            variables: Vec::new(),
            ignore_file_size_signal: false,
            child: None,
            ready: None,
        }
    }

    /// From the next start on it is this program.
    pub fn replace_program(&mut self, program: &Path) {
        program.clone_into(&mut self.program);
    }

    /// Starts it; does not wait until it is ready.
    ///
    /// # Panics
    /// When it runs already or cannot be started.
    pub fn start(&mut self, lifeline: BorrowedFd<'_>) {
        assert!(self.child.is_none(), "it runs already");
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .expect("a log can be opened");
        let (read, write) = pipe().expect("a pipe");
        keep_private(&read);
        keep_private(&write);
        let handed = [lifeline.as_raw_fd(), write.as_raw_fd()];
        let mut command = match &self.before[..] {
            [] => Command::new(&self.program),
            [first, more @ ..] => {
                let mut command = Command::new(first);
                command.args(more).arg(&self.program);
                command
            }
        };
        command
            .arg("--config")
            .arg(&self.config)
            .args(["--lifeline-fd", &handed[0].to_string()])
            .args(["--ready-fd", &handed[1].to_string()])
            .args(&self.args)
            .args(log_level())
            .envs(self.variables.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second descriptor"))
            .stderr(log);
        hand_over(&mut command, handed);
        if self.ignore_file_size_signal {
            let ignore = || {
                // SAFETY: nobody's handler is replaced, in the child before exec.
                unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
                Ok(())
            };
            // SAFETY: only `signal` is called between fork and exec, which may be.
            unsafe { command.pre_exec(ignore) };
        }
        self.child = Some(command.spawn().expect("a daemon can be started"));
        self.ready = Some(read);
    }

    /// Waits until it says that it is ready.
    ///
    /// # Panics
    /// When it ends or does not become ready in time; with its last words.
    pub fn await_ready(&mut self) {
        assert!(self.try_ready(), "not ready: {}", self.last_words(20));
    }

    /// Waits until it is ready; false when it ends or takes too long.
    pub fn try_ready(&mut self) -> bool {
        let Some(pipe) = self.ready.take() else {
            return true;
        };
        let mut polled = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
        let some = poll(&mut polled, PollTimeout::from(READY_MS)).unwrap_or(0);
        let mut text = [0; 16];
        some > 0 && fs::File::from(pipe).read(&mut text).unwrap_or(0) > 0
    }

    /// True while it has been started and not ended.
    pub fn is_running(&mut self) -> bool {
        self.child
            .as_mut()
            .is_some_and(|c| c.try_wait().ok().flatten().is_none())
    }

    /// Its process id.
    ///
    /// # Panics
    /// When it does not run.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            let _ = kill(Pid::from_raw(child.id().cast_signed()), signal);
        }
    }

    /// Kills it with -9 and collects it.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.ready = None;
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn await_end(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("it was started");
        crate::wait::until("the daemon has ended", || {
            child.try_wait().expect("a child can be waited for")
        })
    }

    /// Gives it some time to end by itself, then kills it.
    pub fn end_within(&mut self, patience: Duration) {
        let start = std::time::Instant::now();
        while self.is_running() && start.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.kill();
    }

    /// What the daemon has logged so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The end of its log.
    pub fn last_words(&self, lines: usize) -> String {
        let log = self.log();
        let all: Vec<&str> = log.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// `COSY_TEST_LOG=debug` makes daemons talkative.
fn log_level() -> Vec<String> {
    let level = std::env::var("COSY_TEST_LOG").ok();
    level.map_or_else(Vec::new, |l| vec!["--log".into(), l])
}

/// Not inherited by other children.
pub fn keep_private(fd: &OwnedFd) {
    let _ = fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
}

/// Lets the child of `command` have these descriptors; nobody else gets them.
pub fn hand_over(command: &mut Command, fds: [RawFd; 2]) {
    let share = move || {
        for fd in fds {
            // SAFETY: only a flag of an open descriptor is changed, in the child.
            if unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } < 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec only fcntl is called, which may be.
    unsafe { command.pre_exec(share) };
}
