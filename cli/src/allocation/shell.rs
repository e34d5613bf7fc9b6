//! The shell or command of an allocation: in the terminal's foreground, stopped and
//! continued with the command that started it, ended when the job has ended.

use super::job_connection::{JobConnection, JobEvent};
use crate::allocation::finish::describe_end;
use crate::launch::signal_pipe::SignalPipe;
use crate::output;
use cosy_model::api::EndedJob;
use nix::sys::signal::{SigSet, Signal as Blocked};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, waitpid,
};
use rustix::termios::{self, OptionalActions, Termios};
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// Between SIGHUP and SIGTERM, and between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(3);

/// How the shell or command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShellEnd {
    /// Exit code of the shell; 0 where a signal ended it.
    pub exit_code: i32,
    /// The signal that ended the shell; 0 where it exited.
    pub signal: i32,
    /// Whether the job ended before the shell.
    pub job_ended: bool,
}

/// Reports on standard error that the job has ended; `None`: it is not known how.
pub type ReportEnd = Box<dyn Fn(Option<&EndedJob>)>;

/// What happens to the shell when the job ends before it.
pub struct ShellOptions<'a> {
    /// Name that messages of this command begin with.
    pub program: &'a str,
    /// The first signal that the shell gets; SIGTERM and SIGKILL follow when it does not end. `None`:
    /// it is left alone.
    pub kill: Option<i32>,
    /// Reports that the job has ended.
    pub report_end: ReportEnd,
}

impl<'a> ShellOptions<'a> {
    /// The shell gets SIGHUP first, and how the job ended is reported in one line.
    pub fn hang_up(program: &'a str) -> Self {
        let name = program.to_owned();
        let report_end = move |ended: Option<&EndedJob>| {
            if let Some(job) = ended {
                output::complain(&name, &describe_end(job));
            }
        };
        Self {
            program,
            kill: Some(SIGHUP),
            report_end: Box::new(report_end),
        }
    }
}

/// Makes the kernel send SIGHUP to the shell when this process ends, however it ends: the
/// allocation is gone then, as if the terminal were lost.
fn hang_up_with_us(command: &mut Command) {
    let parent = getpid();
    let tie = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::HUP))?;
        // This process may have been killed before the kernel was asked.
        match rustix::process::getppid() {
            Some(pid) if pid == parent => Ok(()),
            _ => Err(io::Error::other("the command that starts it was killed")),
        }
    };
    // SAFETY: between fork and exec it only makes two system calls; an error, which alone
    // would take memory, ends the child.
    unsafe { command.pre_exec(tie) };
}

/// Runs `command` until it ends.
///
/// # Errors
/// The command cannot be executed.
pub fn run(
    options: ShellOptions<'_>,
    mut command: Command,
    job_connection: &mut JobConnection,
) -> io::Result<ShellEnd> {
    // Taking the terminal back happens in its background, where SIGTTOU would stop this process.
    let mut background = SigSet::empty();
    background.add(Blocked::SIGTTOU);
    background.thread_block()?;
    let signals = SignalPipe::new(&[
        SIGCHLD, SIGHUP, SIGTERM, SIGINT, SIGQUIT, SIGCONT, SIGUSR1, SIGUSR2,
    ])?;
    let terminal = Terminal::of_foreground();
    hang_up_with_us(&mut command);
    let child = command.process_group(0).spawn()?;
    let mut shell = Shell {
        options,
        group: Pid::from_child(&child),
        terminal,
        signals,
        job_connection,
        pending_signals: Vec::new(),
        job_ended: false,
    };
    shell.to_foreground();
    let ended = shell.wait();
    if let Some(terminal) = &shell.terminal {
        terminal.take_back(ended.signal != 0);
    }
    Ok(ended)
}

/// The terminal that this command has the foreground of.
struct Terminal {
    fd: OwnedFd,
    /// The process group of this command.
    group: Pid,
    former: Option<Termios>,
}

impl Terminal {
    fn of_foreground() -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
        let fd = rustix::fs::open("/dev/tty", flags, Mode::empty()).ok()?;
        let group = Pid::from_raw(nix::unistd::getpgrp().as_raw())?;
        let ours = termios::tcgetpgrp(&fd).ok()? == group;
        let former = termios::tcgetattr(&fd).ok();
        ours.then_some(Self { fd, group, former })
    }

    fn give(&self, group: Pid) {
        let _ = termios::tcsetpgrp(&self.fd, group);
    }

    /// Takes the foreground back; `as_before` also restores the settings, which a shell that was
    /// killed may have changed.
    fn take_back(&self, as_before: bool) {
        self.give(self.group);
        if let Some(former) = self.former.as_ref().filter(|_| as_before) {
            let _ = termios::tcsetattr(&self.fd, OptionalActions::Drain, former);
        }
    }
}

struct Shell<'a> {
    options: ShellOptions<'a>,
    group: Pid,
    terminal: Option<Terminal>,
    signals: SignalPipe,
    job_connection: &'a mut JobConnection,
    /// Signals that are sent unless the shell ends before, with their times; the next one last.
    pending_signals: Vec<(Instant, Signal)>,
    job_ended: bool,
}

impl Shell<'_> {
    /// Gives the shell the foreground, and continues it: it may have stopped because it was in the
    /// background when it first used the terminal.
    fn to_foreground(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.give(self.group);
            self.send(Signal::CONT);
        }
    }

    fn send(&self, signal: Signal) {
        let _ = kill_process_group(self.group, signal);
    }

    fn wait(&mut self) -> ShellEnd {
        loop {
            let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
            match waitpid(Some(self.group), options) {
                Ok(Some((_, status))) => {
                    if let Some(ended) = self.status(status) {
                        return ended;
                    }
                }
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                // Its end was collected by other code of this process: nothing is known of it.
                Err(_) => return self.end(1, 0),
            }
            self.pause();
            for signal in self.signals.take() {
                self.signal(signal);
            }
            self.send_due_signal();
            self.attend();
        }
    }

    fn status(&mut self, status: WaitStatus) -> Option<ShellEnd> {
        if status.stopped() {
            self.stop();
            return None;
        }
        let code = status.exit_status();
        Some(self.end(code.unwrap_or(0), status.terminating_signal().unwrap_or(0)))
    }

    fn end(&self, exit_code: i32, signal: i32) -> ShellEnd {
        ShellEnd {
            exit_code,
            signal,
            job_ended: self.job_ended,
        }
    }

    /// Stops this command when the shell has stopped, and continues the shell afterwards.
    fn stop(&self) {
        let Some(terminal) = &self.terminal else {
            return;
        };
        terminal.take_back(false);
        let _ = kill_process(getpid(), Signal::STOP);
        self.to_foreground();
    }

    fn signal(&mut self, signal: i32) {
        match signal {
            SIGHUP => self.terminate(Signal::HUP),
            SIGTERM => self.terminate(Signal::TERM),
            SIGINT => self.send(Signal::INT),
            SIGQUIT => self.send(Signal::QUIT),
            SIGUSR1 => self.send(Signal::USR1),
            SIGUSR2 => self.send(Signal::USR2),
            // SIGCHLD and SIGCONT only end the wait.
            _ => {}
        }
    }

    /// Sends a signal, and plans SIGTERM and SIGKILL for when the shell does not end.
    fn terminate(&mut self, first: Signal) {
        self.send(first);
        self.send(Signal::CONT);
        let now = Instant::now();
        self.pending_signals = vec![(now + 2 * GRACE, Signal::KILL), (now + GRACE, Signal::TERM)];
    }

    fn send_due_signal(&mut self) {
        let due = self
            .pending_signals
            .last()
            .filter(|f| f.0 <= Instant::now());
        if let Some((_, signal)) = due.copied() {
            self.pending_signals.pop();
            self.send(signal);
            self.send(Signal::CONT);
        }
    }

    fn attend(&mut self) {
        match self.job_connection.poll() {
            None | Some(JobEvent::Allocated(_)) => {}
            Some(JobEvent::Ended(job)) => {
                (self.options.report_end)(Some(&job));
                self.job_over();
            }
            Some(JobEvent::Refused(refusal)) => {
                output::complain(self.options.program, &refusal.message);
                (self.options.report_end)(None);
                self.job_over();
            }
        }
    }

    fn job_over(&mut self) {
        self.job_ended = true;
        if let Some(signal) = self.options.kill.and_then(Signal::from_named_raw) {
            self.terminate(signal);
        }
    }

    fn pause(&self) {
        let pending_signals = self.pending_signals.last().map(|f| f.0);
        self.job_connection
            .wait(Some(&self.signals), &[pending_signals]);
    }
}
