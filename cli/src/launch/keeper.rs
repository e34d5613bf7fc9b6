//! The other half of a running step's command: signals, input and the job's end, while
//! the first half ([`super::session`]) reads and writes output and may wait for whoever
//! reads it. A thread of its own, so that an interrupt is heard then, too.

use super::input::{Input, Taken};
use super::intake::Intake;
use super::interrupt::{Act, Interrupts, Rule};
use super::outbox::Outbox;
use super::progress::Progress;
use super::srun_messages;
use super::tty::{self, say};
use crate::allocation::attend::{Attendant, News};
use crate::exit::SIGNAL_BASE;
use cosy_model::api::EndedJob;
use cosy_model::node::KillCause;
use cosy_model::step::DownFrame;
use cosy_model::{Dialect, StepKey};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP, SIGUSR1,
    SIGUSR2, SIGWINCH,
};
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Signals that a command with a step takes.
pub const SIGNALS: [i32; 10] = [
    SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTSTP, SIGCONT, SIGWINCH,
];
/// After the end of the job, the end of the step comes within this time, or never.
const AFTER_JOB: Duration = Duration::from_secs(5);
/// Between two looks whether the terminal may be read again.
const BACKGROUND: Duration = Duration::from_secs(1);

/// What both halves share.
pub struct Shared {
    /// The connection to the step.
    pub stream: UnixStream,
    wake: OwnedFd,
    taken: AtomicU64,
    kill: AtomicBool,
    force: AtomicBool,
    over: AtomicBool,
    ending: AtomicBool,
    announced: AtomicBool,
    /// Which tasks run and which have ended.
    pub progress: Mutex<Progress>,
}

impl Shared {
    /// For that connection.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(stream: UnixStream, progress: Progress) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            stream,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            taken: AtomicU64::new(0),
            kill: AtomicBool::new(false),
            force: AtomicBool::new(false),
            over: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            announced: AtomicBool::new(false),
            progress: Mutex::new(progress),
        }))
    }

    /// The tasks have taken so much input.
    pub fn taken(&self, bytes: u64) {
        self.taken.fetch_max(bytes, Ordering::AcqRel);
        self.wake();
    }

    /// The step is to be ended.
    pub fn kill(&self) {
        self.kill.store(true, Ordering::Release);
        self.wake();
    }

    /// When the step is ended, it is ended at once.
    pub fn force(&self) {
        self.force.store(true, Ordering::Release);
    }

    /// How each task stands: see [`Progress::groups`].
    pub fn groups(&self) -> Vec<String> {
        let progress = self.progress.lock();
        progress.map(|p| p.groups()).unwrap_or_default()
    }

    /// True for the first who says that the step is being ended.
    pub fn announces(&self) -> bool {
        !self.announced.swap(true, Ordering::AcqRel)
    }

    /// The step has ended.
    pub fn over(&self) {
        self.over.store(true, Ordering::Release);
        self.wake();
    }

    /// True when the user has asked for the step's end.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// What the keeper has seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// The signal that asked for the step's end.
    pub signal: Option<i32>,
    /// How the job ended, when it ended first.
    pub job: Option<EndedJob>,
    /// The input was not what it was to be.
    pub broken_input: bool,
}

/// What it keeps.
pub struct Keeper {
    /// Shared with the other half.
    pub shared: Arc<Shared>,
    /// Name that messages of this command begin with.
    pub program: String,
    /// The step.
    pub key: StepKey,
    /// Signals to this command.
    pub intake: Intake,
    /// Input for the tasks.
    pub input: Option<Input>,
    /// Stays with the job that this command has asked for.
    pub attendant: Option<Attendant>,
    /// The terminal is raw.
    pub raw: bool,
    /// Messages are not wanted.
    pub quiet: bool,
    /// In whose words.
    pub dialect: Dialect,
    /// What an interrupt means.
    pub rule: Rule,
    /// First node of the step.
    pub node: String,
}

struct State {
    keeper: Keeper,
    outbox: Outbox,
    interrupts: Interrupts,
    seen: Seen,
    cut: Option<Instant>,
}

/// Which of the descriptors are ready.
#[derive(Default)]
struct Ready {
    signals: bool,
    input: bool,
    attendant: bool,
}

impl Keeper {
    /// Keeps until the other half says that it is over.
    pub fn run(self) -> (Seen, Option<Attendant>) {
        let mut state = State {
            keeper: self,
            outbox: Outbox::new(),
            interrupts: Interrupts::default(),
            seen: Seen::default(),
            cut: None,
        };
        while state.turn() {}
        (state.seen, state.keeper.attendant)
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            say(&self.program, text);
        }
    }
}

impl State {
    /// One round; false when it is over.
    fn turn(&mut self) -> bool {
        let ready = self.wait();
        let shared = &self.keeper.shared;
        let mut count = [0; 8];
        let _ = rustix::io::read(&shared.wake, &mut count);
        if shared.over.load(Ordering::Acquire) {
            return false;
        }
        if shared.kill.swap(false, Ordering::AcqRel) {
            if shared.force.swap(false, Ordering::AcqRel) {
                // At once: no task hears SIGTERM first.
                self.outbox.push(DownFrame::Signal { signal: SIGKILL });
                self.outbox.push(DownFrame::Kill);
            }
            self.outbox.push(DownFrame::Kill);
        }
        if let Some(input) = &mut self.keeper.input {
            input.taken(shared.taken.load(Ordering::Acquire));
        }
        if ready.signals {
            for signal in self.keeper.intake.take() {
                self.signal(signal);
            }
        }
        if ready.input {
            self.read_input();
        }
        if ready.attendant {
            self.attend();
        }
        if self.cut.is_some_and(|at| at <= Instant::now()) {
            self.cut = None;
            let _ = self.keeper.shared.stream.shutdown(Shutdown::Both);
        }
        self.outbox.send(&self.keeper.shared.stream);
        true
    }

    fn wait(&self) -> Ready {
        let keeper = &self.keeper;
        let input = keeper.input.as_ref().filter(|i| i.wants());
        let readable = input.is_some_and(Input::may_read);
        let attended = keeper.attendant.as_ref();
        let until = [attended.and_then(Attendant::deadline), self.cut];
        let now = Instant::now();
        let mut timeout = until
            .into_iter()
            .flatten()
            .min()
            .map(|at| at.saturating_duration_since(now));
        if input.is_some() && !readable {
            timeout = Some(timeout.unwrap_or(BACKGROUND).min(BACKGROUND));
        }
        let mut fds = vec![
            PollFd::from_borrowed_fd(keeper.shared.wake.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(keeper.intake.fd(), PollFlags::IN),
        ];
        let mut add = |fd, flags| {
            fds.push(PollFd::from_borrowed_fd(fd, flags));
            fds.len() - 1
        };
        if !self.outbox.is_empty() {
            add(keeper.shared.stream.as_fd(), PollFlags::OUT);
        }
        let input_at = input
            .filter(|_| readable)
            .map(|i| add(i.fd(), PollFlags::IN));
        let attendant_at = attended
            .and_then(Attendant::fd)
            .map(|fd| add(fd, PollFlags::IN));
        let timeout = timeout.and_then(|t| Timespec::try_from(t).ok());
        // An interrupted or failed wait is a round with nothing to do.
        let _ = poll(&mut fds, timeout.as_ref());
        let ready = |at: Option<usize>| at.is_some_and(|at| !fds[at].revents().is_empty());
        let due = attended
            .and_then(Attendant::deadline)
            .is_some_and(|at| at <= Instant::now());
        Ready {
            signals: ready(Some(1)),
            input: ready(input_at),
            attendant: ready(attendant_at) || due,
        }
    }

    fn read_input(&mut self) {
        let Some(input) = &mut self.keeper.input else {
            return;
        };
        match input.read() {
            Taken::Bytes(bytes) => self.outbox.push(DownFrame::Stdin { bytes }),
            Taken::Nothing => {}
            Taken::End => {
                self.keeper.input = None;
                self.outbox.push(DownFrame::StdinEnd);
            }
            Taken::Broken(why) => {
                self.keeper.input = None;
                self.seen.broken_input = true;
                self.outbox.push(DownFrame::Kill);
                say(&self.keeper.program, &why);
            }
        }
    }

    fn signal(&mut self, signal: i32) {
        match signal {
            SIGINT if self.keeper.rule == Rule::PassOn => self.pass_on(signal),
            SIGINT if self.keeper.rule == Rule::End => {
                let act = self.interrupts.asked(Instant::now());
                self.act(act, signal);
            }
            SIGINT => {
                let act = self.interrupts.pressed(Instant::now());
                self.act(act, signal);
            }
            SIGTERM | SIGHUP => {
                let act = self.interrupts.asked(Instant::now());
                self.act(act, signal);
            }
            SIGWINCH if self.keeper.raw => self.outbox.push(DownFrame::Window(tty::window())),
            SIGWINCH => {}
            SIGTSTP => self.stop(),
            SIGCONT => self.go_on(),
            other => self.outbox.push(DownFrame::Signal { signal: other }),
        }
    }

    /// Each goes to the tasks; a second one within a second ends the step.
    fn pass_on(&mut self, signal: i32) {
        let act = self.interrupts.pressed(Instant::now());
        if act != Act::Tell {
            return self.act(act, signal);
        }
        let text = format!("sending Ctrl-C to StepId={}", self.keeper.key);
        say(&self.keeper.program, &text);
        self.outbox.push(DownFrame::Signal { signal });
    }

    /// In Slurm's words: an interrupt reaches the tasks before they are killed.
    fn act_as_srun(&mut self, act: Act, signal: i32) {
        let keeper = &self.keeper;
        let (program, key) = (&keeper.program, keeper.key);
        match act {
            Act::Tell => {
                say(program, "interrupt (one more within 1 sec to abort)");
                for group in keeper.shared.groups() {
                    say(program, &format!("StepId={key} {group}"));
                }
            }
            Act::End | Act::Force => {
                if signal == SIGINT {
                    say(program, &format!("sending Ctrl-C to StepId={key}"));
                    self.outbox.push(DownFrame::Signal { signal });
                }
                say(program, "forcing job termination");
                if keeper.shared.announces() {
                    srun_messages::ending(program, key, &keeper.node, KillCause::Cancelled);
                }
                self.seen.signal.get_or_insert(signal);
                keeper.shared.ending.store(true, Ordering::Release);
                // At once: no task hears SIGTERM first. One that an interrupt ends is ended by
                // that, as it comes before.
                self.outbox.push(DownFrame::Signal { signal: SIGKILL });
                self.outbox.push(DownFrame::Kill);
                self.outbox.push(DownFrame::Kill);
            }
            Act::Leave => {
                tty::restore();
                std::process::exit(SIGNAL_BASE + signal);
            }
        }
    }

    fn act(&mut self, act: Act, signal: i32) {
        if self.keeper.dialect == Dialect::Slurm {
            return self.act_as_srun(act, signal);
        }
        let key = self.keeper.key;
        match act {
            Act::Tell => {
                let progress = self.keeper.shared.progress.lock();
                let words = progress.map(|p| p.words()).unwrap_or_default();
                let text = format!("interrupt (once more within 1 s ends step {key}): {words}");
                say(&self.keeper.program, &text);
            }
            Act::End => {
                self.seen.signal.get_or_insert(signal);
                self.keeper.shared.ending.store(true, Ordering::Release);
                self.keeper.say(&format!("ending step {key}"));
                self.outbox.push(DownFrame::Kill);
            }
            Act::Force => {
                self.keeper.say(&format!("ending step {key} by force"));
                self.outbox.push(DownFrame::Kill);
            }
            Act::Leave => {
                tty::restore();
                std::process::exit(SIGNAL_BASE + signal);
            }
        }
    }

    /// The tasks are in sessions of their own, where the terminal's stop means nothing:
    /// they get the stop that cannot be overheard.
    fn stop(&mut self) {
        self.outbox.push(DownFrame::Signal { signal: SIGSTOP });
        self.outbox.send(&self.keeper.shared.stream);
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
    }

    fn go_on(&mut self) {
        if self.keeper.dialect == Dialect::Slurm {
            self.keeper.say("got SIGCONT");
        }
        self.outbox.push(DownFrame::Signal { signal: SIGCONT });
        if self.keeper.raw {
            let _ = tty::raw();
            self.outbox.push(DownFrame::Window(tty::window()));
        }
    }

    fn attend(&mut self) {
        let news = self.keeper.attendant.as_mut().and_then(Attendant::turn);
        match news {
            None | Some(News::Allocated(_)) => {}
            Some(News::Ended(job)) => {
                self.seen.job = Some(job);
                self.cut = Some(Instant::now() + AFTER_JOB);
            }
            Some(News::Refused(refusal)) => {
                say(&self.keeper.program, &refusal.message);
                self.cut = Some(Instant::now() + AFTER_JOB);
            }
        }
    }
}
