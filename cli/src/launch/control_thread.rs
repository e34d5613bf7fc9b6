//! The half of a step's session that never waits for readers of the output: it handles signals,
//! sends input, and notices the end of the job. It has a thread of its own, so that an interrupt
//! works while the other half ([`super::session`]) waits to write output.

use super::display::clients::{ClientFrames, Clients};
use super::input::{Input, InputRead};
use super::interrupt::{InterruptAction, InterruptMode, Interrupts};
use super::outbox::Outbox;
use super::progress::Progress;
use super::signal_pipe::SignalPipe;
use super::srun_messages;
use super::tty::{self, say};
use crate::allocation::job_connection::{JobConnection, JobEvent};
use crate::exit::SIGNAL_BASE;
use cosy_model::api::EndedJob;
use cosy_model::node::KillCause;
use cosy_model::step::{DisplayFrame, DownFrame};
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

/// Signals that a command with a step handles; all but SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT and
/// SIGWINCH go to the tasks.
pub const SIGNALS: [i32; 10] = [
    SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTSTP, SIGCONT, SIGWINCH,
];
/// The end of the step is waited for so long after the end of its job; then the connection is cut.
const STEP_END_AFTER_JOB: Duration = Duration::from_secs(5);
/// Pause between two checks whether this command is in the terminal's foreground and may read it.
const TERMINAL_POLL: Duration = Duration::from_secs(1);

/// State that a session's main thread and its control thread share.
pub struct Shared {
    /// The connection to the step.
    pub stream: UnixStream,
    /// An eventfd that wakes the control thread.
    wake: OwnedFd,
    /// Bytes of input that the tasks have read, in all.
    taken: AtomicU64,
    /// The session asks for the end of the step.
    kill: AtomicBool,
    /// ... with SIGKILL at once.
    force: AtomicBool,
    /// The step has ended, and so does the control thread.
    step_ended: AtomicBool,
    /// The user has asked for the end of the step.
    ending: AtomicBool,
    /// It was reported that the step is being ended.
    announced: AtomicBool,
    /// Which tasks run and which have ended.
    pub progress: Mutex<Progress>,
    /// What nodes have told of X clients.
    client_frames: Mutex<ClientFrames>,
}

impl Shared {
    /// For a step on that connection.
    ///
    /// # Errors
    /// The eventfd cannot be made.
    pub fn new(stream: UnixStream, progress: Progress) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            stream,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            taken: AtomicU64::new(0),
            kill: AtomicBool::new(false),
            force: AtomicBool::new(false),
            step_ended: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            announced: AtomicBool::new(false),
            progress: Mutex::new(progress),
            client_frames: Mutex::default(),
        }))
    }

    /// The tasks have read so many bytes of input in all.
    pub fn taken(&self, bytes: u64) {
        self.taken.fetch_max(bytes, Ordering::AcqRel);
        self.wake();
    }

    /// A node has told something of an X client.
    pub fn client_told(&self, frame: DisplayFrame) {
        if let Ok(mut frames) = self.client_frames.lock() {
            frames.push(frame);
        }
        self.wake();
    }

    /// Nothing more comes from these nodes.
    pub fn nodes_are_over(&self, nodes: &[u32]) {
        if let Ok(mut frames) = self.client_frames.lock() {
            nodes.iter().for_each(|node| frames.node_is_over(*node));
        }
        self.wake();
    }

    /// Asks for the end of the step: SIGTERM, grace, SIGKILL; a second time: SIGKILL at once.
    pub fn kill(&self) {
        self.kill.store(true, Ordering::Release);
        self.wake();
    }

    /// Makes the next [`Self::kill`] end the step with SIGKILL at once.
    pub fn force(&self) {
        self.force.store(true, Ordering::Release);
    }

    /// The tasks by what has become of them: see [`Progress::groups`].
    pub fn groups(&self) -> Vec<String> {
        let progress = self.progress.lock();
        progress.map(|p| p.groups()).unwrap_or_default()
    }

    /// True for the first caller, who is to report that the step is being ended.
    pub fn is_first_announcement(&self) -> bool {
        !self.announced.swap(true, Ordering::AcqRel)
    }

    /// Ends the control thread: the step has ended.
    pub fn set_step_ended(&self) {
        self.step_ended.store(true, Ordering::Release);
        self.wake();
    }

    /// True when the user has asked for the end of the step.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// What the control thread has seen by its end.
#[derive(Debug, Default)]
pub struct ControlOutcome {
    /// The signal that asked for the step's end.
    pub signal: Option<i32>,
    /// How the job ended, when it ended before the step.
    pub job: Option<EndedJob>,
    /// The input could not be read, or was changed while it was read.
    pub broken_input: bool,
}

/// What the control thread works with.
pub struct ControlThread {
    /// State shared with the thread of [`super::session`].
    pub shared: Arc<Shared>,
    /// Name that messages of this command begin with.
    pub program: String,
    /// Job, attempt and number of the step.
    pub key: StepKey,
    /// Signals to this command.
    pub signals: SignalPipe,
    /// Input for the tasks; `None` when there is none, or no more.
    pub input: Option<Input>,
    /// X clients whose windows are shown here; `None`: no windows are.
    pub clients: Option<Clients>,
    /// The connection to the controller for the job that this command has submitted.
    pub job_connection: Option<JobConnection>,
    /// Whether the terminal is in raw mode.
    pub raw: bool,
    /// Whether messages about what the user has asked for are left out.
    pub quiet: bool,
    /// Wording of the messages.
    pub dialect: Dialect,
    /// What the first interrupt does.
    pub interrupt_mode: InterruptMode,
    /// First node of the step.
    pub node: String,
}

/// The control thread while it runs.
struct State {
    control: ControlThread,
    outbox: Outbox,
    interrupts: Interrupts,
    outcome: ControlOutcome,
    /// When the connection to the step is cut.
    disconnect_at: Option<Instant>,
}

/// Which of the descriptors are ready.
#[derive(Default)]
struct Ready {
    signals: bool,
    input: bool,
    job_connection: bool,
}

impl ControlThread {
    /// Serves signals, input and the job's connection until [`Shared::set_step_ended`].
    pub fn run(self) -> (ControlOutcome, Option<JobConnection>) {
        let mut state = State {
            control: self,
            outbox: Outbox::new(),
            interrupts: Interrupts::default(),
            outcome: ControlOutcome::default(),
            disconnect_at: None,
        };
        while state.handle_event() {}
        (state.outcome, state.control.job_connection)
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            say(&self.program, text);
        }
    }
}

impl State {
    /// Waits for an event and handles it; false when the step has ended.
    fn handle_event(&mut self) -> bool {
        let ready = self.wait();
        let shared = &self.control.shared;
        let mut count = [0; 8];
        let _ = rustix::io::read(&shared.wake, &mut count);
        if shared.step_ended.load(Ordering::Acquire) {
            if let (Some(clients), Ok(mut came)) =
                (&mut self.control.clients, shared.client_frames.lock())
            {
                clients.finish(&mut came);
            }
            return false;
        }
        if shared.kill.swap(false, Ordering::AcqRel) {
            if shared.force.swap(false, Ordering::AcqRel) {
                // SIGKILL first, so that no task gets SIGTERM.
                self.outbox.push(DownFrame::Signal { signal: SIGKILL });
                self.outbox.push(DownFrame::Kill);
            }
            self.outbox.push(DownFrame::Kill);
        }
        if let Some(input) = &mut self.control.input {
            input.taken(shared.taken.load(Ordering::Acquire));
        }
        if ready.signals {
            for signal in self.control.signals.take() {
                self.signal(signal);
            }
        }
        if ready.input {
            self.read_input();
        }
        if ready.job_connection {
            self.attend();
        }
        if self.disconnect_at.is_some_and(|at| at <= Instant::now()) {
            self.disconnect_at = None;
            let _ = self.control.shared.stream.shutdown(Shutdown::Both);
        }
        self.serve_clients();
        self.outbox.send(&self.control.shared.stream);
        true
    }

    fn serve_clients(&mut self) {
        let control = &mut self.control;
        if let (Some(clients), Ok(mut came)) =
            (&mut control.clients, control.shared.client_frames.lock())
        {
            clients.advance(&mut came, &mut self.outbox);
        }
    }

    fn wait(&self) -> Ready {
        let control = &self.control;
        let input = control.input.as_ref().filter(|i| i.may_send());
        let readable = input.is_some_and(Input::may_read);
        let attended = control.job_connection.as_ref();
        let until = [
            attended.and_then(JobConnection::deadline),
            self.disconnect_at,
            control.clients.as_ref().and_then(Clients::deadline),
        ];
        let now = Instant::now();
        let mut timeout = until
            .into_iter()
            .flatten()
            .min()
            .map(|at| at.saturating_duration_since(now));
        if input.is_some() && !readable {
            timeout = Some(timeout.unwrap_or(TERMINAL_POLL).min(TERMINAL_POLL));
        }
        let mut fds = vec![
            PollFd::from_borrowed_fd(control.shared.wake.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(control.signals.fd(), PollFlags::IN),
        ];
        let mut add = |fd, flags| {
            fds.push(PollFd::from_borrowed_fd(fd, flags));
            fds.len() - 1
        };
        if !self.outbox.is_empty() {
            add(control.shared.stream.as_fd(), PollFlags::OUT);
        }
        let input_at = input
            .filter(|_| readable)
            .map(|i| add(i.fd(), PollFlags::IN));
        let attendant_at = attended
            .and_then(JobConnection::fd)
            .map(|fd| add(fd, PollFlags::IN));
        fds.extend(control.clients.iter().flat_map(|c| c.fds(&self.outbox)));
        let timeout = timeout.and_then(|t| Timespec::try_from(t).ok());
        // After an interrupted or failed wait no descriptor is ready.
        let _ = poll(&mut fds, timeout.as_ref());
        let ready = |at: Option<usize>| at.is_some_and(|at| !fds[at].revents().is_empty());
        let due = attended
            .and_then(JobConnection::deadline)
            .is_some_and(|at| at <= Instant::now());
        Ready {
            signals: ready(Some(1)),
            input: ready(input_at),
            job_connection: ready(attendant_at) || due,
        }
    }

    fn read_input(&mut self) {
        let Some(input) = &mut self.control.input else {
            return;
        };
        match input.read() {
            InputRead::Bytes(bytes) => self.outbox.push(DownFrame::Stdin { bytes }),
            InputRead::Nothing => {}
            InputRead::End => {
                self.control.input = None;
                self.outbox.push(DownFrame::StdinEnd);
            }
            InputRead::Broken(why) => {
                self.control.input = None;
                self.outcome.broken_input = true;
                self.outbox.push(DownFrame::Kill);
                say(&self.control.program, &why);
            }
        }
    }

    fn signal(&mut self, signal: i32) {
        match signal {
            SIGINT if self.control.interrupt_mode == InterruptMode::PassOn => self.pass_on(signal),
            SIGINT if self.control.interrupt_mode == InterruptMode::End => {
                let act = self.interrupts.on_termination(Instant::now());
                self.act(act, signal);
            }
            SIGINT => {
                let act = self.interrupts.on_interrupt(Instant::now());
                self.act(act, signal);
            }
            SIGTERM | SIGHUP => {
                let act = self.interrupts.on_termination(Instant::now());
                self.act(act, signal);
            }
            SIGWINCH if self.control.raw => self.outbox.push(DownFrame::Window(tty::window())),
            SIGWINCH => {}
            SIGTSTP => self.stop(),
            SIGCONT => self.go_on(),
            other => self.outbox.push(DownFrame::Signal { signal: other }),
        }
    }

    /// Passes an interrupt to the tasks; a second one within a second ends the step.
    fn pass_on(&mut self, signal: i32) {
        let act = self.interrupts.on_interrupt(Instant::now());
        if act != InterruptAction::Report {
            return self.act(act, signal);
        }
        let text = format!("sending Ctrl-C to StepId={}", self.control.key);
        say(&self.control.program, &text);
        self.outbox.push(DownFrame::Signal { signal });
    }

    /// The same in Slurm's dialect, where tasks get SIGINT before they are killed.
    fn act_as_srun(&mut self, act: InterruptAction, signal: i32) {
        let control = &self.control;
        let (program, key) = (&control.program, control.key);
        match act {
            InterruptAction::Report => {
                say(program, "interrupt (one more within 1 sec to abort)");
                for group in control.shared.groups() {
                    say(program, &format!("StepId={key} {group}"));
                }
            }
            InterruptAction::End | InterruptAction::Force => {
                if signal == SIGINT {
                    say(program, &format!("sending Ctrl-C to StepId={key}"));
                    self.outbox.push(DownFrame::Signal { signal });
                }
                say(program, "forcing job termination");
                if control.shared.is_first_announcement() {
                    srun_messages::ending(program, key, &control.node, KillCause::Cancelled.into());
                }
                self.outcome.signal.get_or_insert(signal);
                control.shared.ending.store(true, Ordering::Release);
                // SIGKILL first, so that no task gets SIGTERM. A task that SIGINT ends is ended by
                // SIGINT, which comes before.
                self.outbox.push(DownFrame::Signal { signal: SIGKILL });
                self.outbox.push(DownFrame::Kill);
                self.outbox.push(DownFrame::Kill);
            }
            InterruptAction::Leave => {
                tty::restore();
                std::process::exit(SIGNAL_BASE + signal);
            }
        }
    }

    fn act(&mut self, act: InterruptAction, signal: i32) {
        if self.control.dialect == Dialect::Slurm {
            return self.act_as_srun(act, signal);
        }
        let key = self.control.key;
        match act {
            InterruptAction::Report => {
                let progress = self.control.shared.progress.lock();
                let words = progress.map(|p| p.words()).unwrap_or_default();
                let text = format!("interrupt (once more within 1 s ends step {key}): {words}");
                say(&self.control.program, &text);
            }
            InterruptAction::End => {
                self.outcome.signal.get_or_insert(signal);
                self.control.shared.ending.store(true, Ordering::Release);
                self.control.say(&format!("ending step {key}"));
                self.outbox.push(DownFrame::Kill);
            }
            InterruptAction::Force => {
                self.control.say(&format!("ending step {key} by force"));
                self.outbox.push(DownFrame::Kill);
            }
            InterruptAction::Leave => {
                tty::restore();
                std::process::exit(SIGNAL_BASE + signal);
            }
        }
    }

    /// Stops the tasks and this command. The tasks are in sessions of their own, where the kernel
    /// drops SIGTSTP: they get SIGSTOP.
    fn stop(&mut self) {
        self.outbox.push(DownFrame::Signal { signal: SIGSTOP });
        self.outbox.send(&self.control.shared.stream);
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
    }

    fn go_on(&mut self) {
        if self.control.dialect == Dialect::Slurm {
            self.control.say("got SIGCONT");
        }
        self.outbox.push(DownFrame::Signal { signal: SIGCONT });
        if self.control.raw {
            let _ = tty::raw();
            self.outbox.push(DownFrame::Window(tty::window()));
        }
    }

    fn attend(&mut self) {
        let news = self
            .control
            .job_connection
            .as_mut()
            .and_then(JobConnection::poll);
        match news {
            None | Some(JobEvent::Allocated(_)) => {}
            Some(JobEvent::Ended(job)) => {
                self.outcome.job = Some(job);
                self.disconnect_at = Some(Instant::now() + STEP_END_AFTER_JOB);
            }
            Some(JobEvent::Refused(refusal)) => {
                say(&self.control.program, &refusal.message);
                self.disconnect_at = Some(Instant::now() + STEP_END_AFTER_JOB);
            }
        }
    }
}
