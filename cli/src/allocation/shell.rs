//! The shell or command of an allocation: in the terminal's foreground, stopped and
//! continued with the command that started it, ended when the job has ended.

use super::attend::{Attendant, News};
use crate::allocation::finish::job_words;
use crate::launch::intake::Intake;
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

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Exit code; 0 for a signal.
    pub exit_code: i32,
    /// Signal, 0 without.
    pub signal: i32,
    /// The job ended first.
    pub job_ended: bool,
}

/// Says how the job ended; `None`: nobody told.
pub type SayEnd = Box<dyn Fn(Option<&EndedJob>)>;

/// What becomes of the shell when the job ends first.
pub struct ShellOptions<'a> {
    /// Name that messages of this command begin with.
    pub program: &'a str,
    /// It gets this signal, and stronger ones when that does not help; without one it is
    /// left alone.
    pub kill: Option<i32>,
    /// Says that the job has ended; without an end when the controller did not tell it.
    pub says: SayEnd,
}

impl<'a> ShellOptions<'a> {
    /// It hears SIGHUP first.
    pub fn hang_up(program: &'a str) -> Self {
        let name = program.to_owned();
        let says = move |ended: Option<&EndedJob>| {
            if let Some(job) = ended {
                output::complain(&name, &job_words(job));
            }
        };
        Self {
            program,
            kill: Some(SIGHUP),
            says: Box::new(says),
        }
    }
}

/// The shell hears SIGHUP when this process is killed, however: its allocation is gone
/// then, as if the terminal were.
fn hang_up_with_us(command: &mut Command) {
    let parent = getpid();
    let tie = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::HUP))?;
        // It may have been killed before this was asked for.
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
/// It cannot be executed.
pub fn run(
    manner: ShellOptions<'_>,
    mut command: Command,
    attendant: &mut Attendant,
) -> io::Result<Ended> {
    // Whoever takes the terminal back is in its background just then.
    let mut background = SigSet::empty();
    background.add(Blocked::SIGTTOU);
    background.thread_block()?;
    let intake = Intake::new(&[
        SIGCHLD, SIGHUP, SIGTERM, SIGINT, SIGQUIT, SIGCONT, SIGUSR1, SIGUSR2,
    ])?;
    let terminal = Terminal::own();
    hang_up_with_us(&mut command);
    let child = command.process_group(0).spawn()?;
    let mut shell = Shell {
        manner,
        group: Pid::from_child(&child),
        terminal,
        intake,
        attendant,
        forces: Vec::new(),
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
    fn own() -> Option<Self> {
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

    /// A shell that was killed may have left it in any state.
    fn take_back(&self, as_before: bool) {
        self.give(self.group);
        if let Some(former) = self.former.as_ref().filter(|_| as_before) {
            let _ = termios::tcsetattr(&self.fd, OptionalActions::Drain, former);
        }
    }
}

struct Shell<'a> {
    manner: ShellOptions<'a>,
    group: Pid,
    terminal: Option<Terminal>,
    intake: Intake,
    attendant: &'a mut Attendant,
    /// Signals that are still to be sent, the next one last.
    forces: Vec<(Instant, Signal)>,
    job_ended: bool,
}

impl Shell<'_> {
    /// It may have looked for the terminal before it had it.
    fn to_foreground(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.give(self.group);
            self.send(Signal::CONT);
        }
    }

    fn send(&self, signal: Signal) {
        let _ = kill_process_group(self.group, signal);
    }

    fn wait(&mut self) -> Ended {
        loop {
            let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
            match waitpid(Some(self.group), options) {
                Ok(Some((_, status))) => {
                    if let Some(ended) = self.status(status) {
                        return ended;
                    }
                }
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                // Somebody else has taken its end: then nothing is known of it.
                Err(_) => return self.ended(1, 0),
            }
            self.pause();
            for signal in self.intake.take() {
                self.signal(signal);
            }
            self.force();
            self.attend();
        }
    }

    fn status(&mut self, status: WaitStatus) -> Option<Ended> {
        if status.stopped() {
            self.stop();
            return None;
        }
        let code = status.exit_status();
        Some(self.ended(code.unwrap_or(0), status.terminating_signal().unwrap_or(0)))
    }

    fn ended(&self, exit_code: i32, signal: i32) -> Ended {
        Ended {
            exit_code,
            signal,
            job_ended: self.job_ended,
        }
    }

    /// Stops with what it has started, and goes on with it.
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
            SIGHUP => self.end(Signal::HUP),
            SIGTERM => self.end(Signal::TERM),
            SIGINT => self.send(Signal::INT),
            SIGQUIT => self.send(Signal::QUIT),
            SIGUSR1 => self.send(Signal::USR1),
            SIGUSR2 => self.send(Signal::USR2),
            // A child has changed, or this command was continued.
            _ => {}
        }
    }

    /// Sends a signal, and stronger ones when it does not help.
    fn end(&mut self, first: Signal) {
        self.send(first);
        self.send(Signal::CONT);
        let now = Instant::now();
        self.forces = vec![(now + 2 * GRACE, Signal::KILL), (now + GRACE, Signal::TERM)];
    }

    fn force(&mut self) {
        let due = self.forces.last().filter(|f| f.0 <= Instant::now());
        if let Some((_, signal)) = due.copied() {
            self.forces.pop();
            self.send(signal);
            self.send(Signal::CONT);
        }
    }

    fn attend(&mut self) {
        match self.attendant.turn() {
            None | Some(News::Allocated(_)) => {}
            Some(News::Ended(job)) => {
                (self.manner.says)(Some(&job));
                self.over();
            }
            Some(News::Refused(refusal)) => {
                output::complain(self.manner.program, &refusal.message);
                (self.manner.says)(None);
                self.over();
            }
        }
    }

    fn over(&mut self) {
        self.job_ended = true;
        if let Some(signal) = self.manner.kill.and_then(Signal::from_named_raw) {
            self.end(signal);
        }
    }

    fn pause(&self) {
        let forces = self.forces.last().map(|f| f.0);
        self.attendant.pause(Some(&self.intake), &[forces]);
    }
}
