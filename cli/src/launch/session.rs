//! A running step as its command sees it: reads the frames of the step, writes the output of the
//! tasks to its targets, and ends when all nodes have ended.
//!
//! When nobody reads the command's output, nothing is read from the step either: that slows the
//! tasks. Signals and input must not wait for that: they are in [`super::control_thread`].

use super::control_thread::{ControlOutcome, ControlThread, Shared};
use super::display::clients::Clients;
use super::ends::Ends;
use super::inbox::Inbox;
use super::input::Input;
use super::interrupt::InterruptMode;
use super::progress::Progress;
use super::signal_pipe::SignalPipe;
use super::sink::{SinkError, Sinks};
use super::supervisors::{self, SupervisorLine, Supervisors};
use super::tty::{self, say};
use super::{srun_messages, verbose};
use crate::allocation::finish::describe_end;
use crate::allocation::job_connection::JobConnection;
use crate::exit;
use cosy_model::node::{KillCause, KillOrder};
use cosy_model::step::{StepLayout, Stream, TaskEnd, UpFrame};
use cosy_model::{Dialect, StepKey};
use cosy_proto::frame::FrameError;
use cosy_proto::step::{self, StepFrame};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Quiet period after which failed tasks are reported: tasks that fail for one reason fail within
/// it, and make one line.
const REPORT_DELAY: Duration = Duration::from_millis(200);
/// After the loss of a step, the end of its job is waited for so long, to report that instead.
const JOB_END_WAIT: Duration = Duration::from_secs(3);
/// Exit code when nobody reads the output: that of a program that SIGPIPE ended.
const NOBODY_READS: u8 = 141;

/// A connection to a step, new or attached to.
pub struct Step {
    /// Frames of the step come and go on it.
    pub stream: UnixStream,
    /// Bytes that were read behind the answer of the node daemon.
    pub inbox: Inbox,
    /// Job, attempt and number of the step.
    pub key: StepKey,
    /// Which tasks are on which nodes.
    pub layout: StepLayout,
}

/// What the command does with the step's output, failures and interrupts.
pub struct SessionOptions {
    /// Name that messages of this command begin with.
    pub program: String,
    /// The first task that fails ends the step.
    pub kill_on_bad_exit: bool,
    /// The command only shows the output (`--attach`, `sattach`) and never ends the step.
    pub observer: bool,
    /// Task 0 has the terminal.
    pub raw: bool,
    /// Reports only what went wrong.
    pub quiet: bool,
    /// Reports where tasks start and how they end.
    pub verbose: bool,
    /// What `srun` reports of the processes of the tasks.
    pub supervisors: supervisors::SupervisorOptions,
    /// Wording of the messages.
    pub dialect: Dialect,
    /// What the first interrupt does.
    pub interrupts: InterruptMode,
    /// How long the other tasks may run after the first end of a task; `None`: to their ends.
    pub wait: Option<Duration>,
}

/// What a session owns besides the connection to the step.
pub struct SessionResources {
    /// Targets of the tasks' output.
    pub sinks: Sinks,
    /// Input for the tasks; `None`: the nodes open files, or there is no input.
    pub input: Option<Input>,
    /// X clients whose windows are shown here; `None`: no windows are.
    pub clients: Option<Clients>,
    /// Signals to this command.
    pub signals: SignalPipe,
    /// The connection to the controller for the job that this command has submitted.
    pub job_connection: Option<JobConnection>,
}

/// How the step ended.
pub struct Outcome {
    /// Exit code of the command.
    pub code: u8,
    /// Exit code and signal of the worst task.
    pub worst: (i32, i32),
    /// Still open, to give the job back on.
    pub job_connection: Option<JobConnection>,
}

impl Outcome {
    /// With what exit code and signal the job of a step is given back: those of the worst task,
    /// or a failure where there was no step.
    pub fn of_job<E>(step: &Result<Self, E>) -> (i32, i32) {
        match step {
            Ok(outcome) => outcome.worst,
            Err(_) => (exit::FAILED.into(), 0),
        }
    }
}

/// Why a session ends before the step.
#[derive(Debug, thiserror::Error)]
enum SessionError {
    #[error(transparent)]
    Sink(#[from] SinkError),
    #[error("the supervisor of the step gave no understandable message: {0}")]
    Garbage(#[from] FrameError),
    #[error("lost the connection to the step{0}")]
    Lost(String),
}

struct Session {
    shared: Arc<Shared>,
    inbox: Inbox,
    sinks: Sinks,
    ends: Ends,
    options: SessionOptions,
    supervisors: Supervisors,
    key: StepKey,
    /// The first node of the step.
    node: String,
    killed: bool,
    /// Windows of the step are shown here.
    shows: bool,
    /// Time limit of reads that is set on the connection.
    read_timeout: Option<Duration>,
    /// When the tasks that still run are ended ([`SessionOptions::wait`]).
    end_others_at: Option<Instant>,
}

/// Follows a step to its end, or until its connection breaks.
///
/// # Errors
/// A system call fails before anything was read from the step.
pub fn run(
    step: Step,
    options: SessionOptions,
    resources: SessionResources,
) -> io::Result<Outcome> {
    let shows = resources.clients.is_some();
    let shared = Shared::new(step.stream, Progress::new(&step.layout))?;
    let control = ControlThread {
        shared: Arc::clone(&shared),
        program: options.program.clone(),
        key: step.key,
        signals: resources.signals,
        input: resources.input,
        clients: resources.clients,
        job_connection: resources.job_connection,
        raw: options.raw,
        quiet: options.quiet,
        dialect: options.dialect,
        interrupt_mode: options.interrupts,
        node: first_node(&step.layout),
    };
    if options.raw {
        tty::raw()?;
    }
    let control_thread = std::thread::Builder::new().spawn(move || control.run())?;
    let mut session = Session {
        shared,
        inbox: step.inbox,
        sinks: resources.sinks,
        node: first_node(&step.layout),
        ends: Ends::new(step.layout)
            .in_dialect(options.dialect)
            .of_step(step.key),
        supervisors: Supervisors::new(options.supervisors.clone()),
        options,
        key: step.key,
        killed: false,
        shows,
        read_timeout: None,
        end_others_at: None,
    };
    let followed = session.follow();
    tty::restore();
    session.shared.set_step_ended();
    let (mut control_outcome, mut job_connection) = control_thread.join().unwrap_or_default();
    if matches!(followed, Err(SessionError::Lost(_))) && control_outcome.job.is_none() {
        control_outcome.job = job_connection
            .as_mut()
            .and_then(|a| a.wait_for_end(JOB_END_WAIT));
    }
    Ok(session.conclude(followed, &control_outcome, job_connection))
}

impl Session {
    fn follow(&mut self) -> Result<(), SessionError> {
        loop {
            self.drain()?;
            if self.ends.all_over() {
                return Ok(self.sinks.finish()?);
            }
            self.set_read_timeout();
            match self.inbox.fill(&mut &self.shared.stream) {
                Ok(0) => return Err(SessionError::Lost(String::new())),
                Ok(_) => {}
                Err(e) if timed_out(&e) => {
                    self.report_ends();
                    self.end_other_tasks();
                }
                Err(e) => return Err(SessionError::Lost(format!(": {e}"))),
            }
        }
    }

    /// Limits the next read where failures wait to be reported, or other tasks to be ended.
    fn set_read_timeout(&mut self) {
        let left = |at: Instant| at.saturating_duration_since(Instant::now());
        let end_others_at = self
            .end_others_at
            .map(|at| left(at).max(Duration::from_millis(1)));
        let soon = self.ends.has_lines().then_some(REPORT_DELAY);
        let read_timeout = [soon, end_others_at].into_iter().flatten().min();
        if read_timeout != self.read_timeout {
            self.read_timeout = read_timeout;
            let _ = self.shared.stream.set_read_timeout(read_timeout);
        }
    }

    /// Ends the tasks that run when their time after the first end of a task is over.
    fn end_other_tasks(&mut self) {
        if self.end_others_at.is_none_or(|at| at > Instant::now()) {
            return;
        }
        self.end_others_at = None;
        let seconds = self.options.wait.unwrap_or_default().as_secs();
        self.say(&format!("First task exited {seconds}s ago"));
        for group in self.shared.groups() {
            self.say(&format!("StepId={} {group}", self.key));
        }
        self.shared.force();
        self.kill();
        self.shared.kill(); // also tasks that are being ended already
    }

    /// Handles all whole frames in the inbox. Consecutive pieces of output of one stream are written
    /// with one system call.
    fn drain(&mut self) -> Result<(), SessionError> {
        let mut pieces: Vec<Range<usize>> = Vec::new();
        let mut to = Stream::Output;
        while let Some((kind, place)) = self.inbox.frame()? {
            if kind != step::OUTPUT {
                self.pass(to, &mut pieces)?;
                let frame = step::frame(kind, self.inbox.bytes(place))?;
                self.handle_frame(frame);
                continue;
            }
            let (rank, stream, body) = step::output(self.inbox.bytes(place.clone()))?;
            if !self.sinks.passes() {
                self.sinks.write(rank, stream, body)?;
                continue;
            }
            if stream != to {
                self.pass(to, &mut pieces)?;
                to = stream;
            }
            pieces.push(place.end - body.len()..place.end);
        }
        self.pass(to, &mut pieces)
    }

    fn pass(&self, to: Stream, pieces: &mut Vec<Range<usize>>) -> Result<(), SessionError> {
        if pieces.is_empty() {
            return Ok(());
        }
        let mut slices: Vec<IoSlice<'_>> = pieces
            .drain(..)
            .map(|place| IoSlice::new(self.inbox.bytes(place)))
            .collect();
        Ok(self.sinks.write_all(to, &mut slices)?)
    }

    fn handle_frame(&mut self, frame: StepFrame) {
        match frame {
            StepFrame::Up(up) => self.handle_up(up),
            // Frames that only supervisors receive.
            StepFrame::Down(_) | StepFrame::Link(_) => {}
        }
    }

    fn handle_up(&mut self, up: UpFrame) {
        match up {
            UpFrame::Output { .. } | UpFrame::Gather { .. } => {}
            UpFrame::Ending { cause, preempted } => {
                if self.shared.is_first_announcement() && !self.killed {
                    let kill = KillOrder { cause, preempted };
                    srun_messages::ending(&self.options.program, self.key, &self.node, kill);
                }
            }
            UpFrame::Started { node, tasks } => {
                self.with_progress(Progress::started);
                self.report_start(node, &tasks);
            }
            UpFrame::TaskEnded { rank, end } => {
                self.report_end(rank, &end);
                self.with_progress(|p| p.ended(rank, end.exit_code == 0 && end.signal == 0));
                let wait = self.options.wait.filter(|_| self.end_others_at.is_none());
                if let Some(wait) = wait {
                    self.end_others_at = Instant::now().checked_add(wait);
                }
                if self.ends.task_ended(rank, end) && self.options.kill_on_bad_exit {
                    self.kill();
                }
            }
            UpFrame::NodeEnded { node, end } => {
                self.clients_gone(&[node]);
                self.ends.node_ended(node, &end);
            }
            UpFrame::Lost { nodes, reason } => {
                self.clients_gone(&nodes);
                self.ends.lost(&nodes, &reason);
                if self.options.dialect == Dialect::Slurm {
                    srun_messages::nodes_lost(&self.options.program, &self.ends.names(&nodes));
                    self.killed = true;
                    self.shared.kill();
                }
                self.kill();
            }
            UpFrame::Display(frame) => {
                if self.shows {
                    self.shared.client_told(frame);
                }
            }
            UpFrame::StdinTaken { bytes } => self.shared.taken(bytes),
            UpFrame::Abort { rank, code, reason } => self.aborted(rank, code, &reason),
        }
    }

    fn clients_gone(&self, nodes: &[u32]) {
        if self.shows {
            self.shared.nodes_are_over(nodes);
        }
    }

    fn report_start(&mut self, node: u32, tasks: &[(u32, i32)]) {
        let at = srun_messages::now();
        let lines = self
            .supervisors
            .started(self.ends.layout(), node, tasks, &at);
        lines.iter().for_each(|line| self.print_line(line));
        if self.options.verbose
            && let Some(line) = verbose::started(self.ends.layout(), node)
        {
            self.say(&line);
        }
    }

    fn print_line(&self, line: &SupervisorLine) {
        match line {
            SupervisorLine::Node(line) => srun_messages::pass_on(line),
            SupervisorLine::Command(text) => self.say(text),
        }
    }

    fn report_end(&mut self, rank: u32, end: &TaskEnd) {
        if let Some(line) = self.supervisors.ended(rank, end) {
            self.print_line(&line);
        }
        if self.options.verbose {
            let node = self.ends.node_of(rank);
            let lines = verbose::finished(self.key, &node, rank, end);
            lines.iter().for_each(|line| self.say(line));
        }
    }

    fn with_progress(&self, change: impl FnOnce(&mut Progress)) {
        if let Ok(mut progress) = self.shared.progress.lock() {
            change(&mut progress);
        }
    }

    fn aborted(&mut self, rank: u32, code: i32, reason: &str) {
        self.ends.aborted(code);
        let node = self.ends.node_of(rank);
        let reason = if reason.is_empty() {
            String::new()
        } else {
            format!(": {reason}")
        };
        self.say(&format!("{node}: task {rank} aborted with code {code}{reason}"));
        self.kill();
    }

    /// Ends the tasks that still run; a second call does nothing.
    fn kill(&mut self) {
        if self.killed || self.options.observer || self.ends.all_over() {
            return;
        }
        self.killed = true;
        self.ends.kill_ordered();
        if self.options.dialect == Dialect::Slurm {
            self.report_ends();
            let text = format!("launch/slurm: _step_signal: Terminating StepId={}", self.key);
            self.say(&text);
            srun_messages::cancelled(self.key, &self.node, KillCause::Cancelled.into());
        }
        self.shared.kill();
    }

    fn say(&self, text: &str) {
        say(&self.options.program, text);
    }

    fn report_ends(&mut self) {
        if self.shared.is_ending() {
            self.ends.kill_ordered();
        }
        for line in self.ends.take_lines() {
            self.say(&line);
        }
        for line in self.ends.take_supervisor_lines() {
            srun_messages::pass_on(&line);
        }
    }

    fn conclude(
        mut self,
        followed: Result<(), SessionError>,
        control_outcome: &ControlOutcome,
        job_connection: Option<JobConnection>,
    ) -> Outcome {
        if let Err(error) = followed {
            self.report_error(&error, control_outcome);
        }
        self.report_ends();
        if let Some(job) = control_outcome
            .job
            .as_ref()
            .filter(|_| self.options.dialect == Dialect::Cosy)
        {
            self.say(&describe_end(job));
            self.ends.at_least(exit::FAILED);
        }
        if control_outcome.broken_input {
            self.ends.at_least(exit::FAILED);
        }
        let signal = control_outcome
            .signal
            .filter(|_| self.options.dialect == Dialect::Cosy);
        if let Some(signal) = signal {
            self.ends.at_least(exit::of_end(0, signal, false));
        }
        Outcome {
            code: self.ends.code(),
            worst: self.ends.worst(),
            job_connection,
        }
    }

    fn report_error(&mut self, error: &SessionError, control_outcome: &ControlOutcome) {
        match error {
            SessionError::Sink(SinkError::Closed) => self.ends.at_least(NOBODY_READS),
            SessionError::Lost(_) if control_outcome.job.is_some() => {
                self.ends.at_least(exit::FAILED)
            }
            SessionError::Lost(_) | SessionError::Garbage(_) | SessionError::Sink(_) => {
                self.ends.at_least(exit::FAILED);
                let text = format!("step {}: {error}", self.key);
                say(&self.options.program, &text);
                let _ = self.sinks.finish();
            }
        }
    }
}

fn first_node(layout: &StepLayout) -> String {
    layout.nodes.first().cloned().unwrap_or_default()
}

fn timed_out(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
