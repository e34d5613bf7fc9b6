//! A running step as its command sees it: reads what comes from the tasks, writes it where
//! it goes, and knows when everything has ended.
//!
//! When nobody reads the output, nothing is read from the step either: that slows the
//! tasks. Everything that must not wait for that is in [`super::keeper`].

use super::ends::Ends;
use super::inbox::Inbox;
use super::input::Input;
use super::intake::Intake;
use super::interrupt::Rule;
use super::keeper::{Keeper, Seen, Shared};
use super::progress::Progress;
use super::sink::{SinkError, Sinks};
use super::supervisors::{self, SupervisorLine, Supervisors};
use super::tty::{self, say};
use super::{srun_messages, verbose};
use crate::allocation::attend::Attendant;
use crate::allocation::finish::job_words;
use crate::exit;
use cosy_model::node::KillCause;
use cosy_model::step::{StepLayout, Stream, TaskEnd, UpFrame};
use cosy_model::{Dialect, StepKey};
use cosy_proto::frame::FrameError;
use cosy_proto::step::{self, StepFrame};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So long may nothing come before it is said who has ended badly: what ends alike ends
/// together.
const TOGETHER: Duration = Duration::from_millis(200);
/// When a step is lost with its job, the controller says so within this time.
const JOB_NEWS: Duration = Duration::from_secs(3);
/// When nobody reads the output: as for a program that SIGPIPE ended.
const NOBODY_READS: u8 = 141;

/// A step that was started or found.
pub struct Step {
    /// The connection to it.
    pub stream: UnixStream,
    /// What was read from it already.
    pub inbox: Inbox,
    /// Its name.
    pub key: StepKey,
    /// Where its tasks are.
    pub layout: StepLayout,
}

/// How it is to be treated.
pub struct SessionOptions {
    /// Name that messages of this command begin with.
    pub program: String,
    /// The first bad end ends everything.
    pub kill_on_bad_exit: bool,
    /// Only looked at: it goes on when the command ends.
    pub looks_on: bool,
    /// Task 0 has the terminal.
    pub raw: bool,
    /// Say nothing but what went wrong.
    pub quiet: bool,
    /// Say how the step goes along.
    pub verbose: bool,
    /// What is told of the tasks' processes.
    pub supervisors: supervisors::SupervisorOptions,
    /// In whose words.
    pub dialect: Dialect,
    /// What is done with an interrupt.
    pub interrupts: Rule,
    /// After the first end of a task, the others have so long.
    pub wait: Option<Duration>,
}

/// What else belongs to it.
pub struct SessionResources {
    /// Where output goes.
    pub sinks: Sinks,
    /// Input for the tasks.
    pub input: Option<Input>,
    /// Signals to this command.
    pub intake: Intake,
    /// Stays with the job that the command has asked for.
    pub attendant: Option<Attendant>,
}

/// What became of it.
pub struct Outcome {
    /// Exit code of the command.
    pub code: u8,
    /// Exit code and signal of the worst task.
    pub worst: (i32, i32),
    /// Still with the job.
    pub attendant: Option<Attendant>,
}

/// Why a session ends before the step.
#[derive(Debug, thiserror::Error)]
enum Broken {
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
    /// How long reading waits for more.
    patience: Option<Duration>,
    /// When those that are left are ended.
    waited: Option<Instant>,
}

/// Stays with a step until its end.
///
/// # Errors
/// Those of the system, before anything was done.
pub fn run(
    step: Step,
    options: SessionOptions,
    resources: SessionResources,
) -> io::Result<Outcome> {
    let shared = Shared::new(step.stream, Progress::new(&step.layout))?;
    let keeper = Keeper {
        shared: Arc::clone(&shared),
        program: options.program.clone(),
        key: step.key,
        intake: resources.intake,
        input: resources.input,
        attendant: resources.attendant,
        raw: options.raw,
        quiet: options.quiet,
        dialect: options.dialect,
        rule: options.interrupts,
        node: first_node(&step.layout),
    };
    if options.raw {
        tty::raw()?;
    }
    let keeper = std::thread::Builder::new().spawn(move || keeper.run())?;
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
        patience: None,
        waited: None,
    };
    let followed = session.follow();
    tty::restore();
    session.shared.over();
    let (mut seen, mut attendant) = keeper.join().unwrap_or_default();
    if matches!(followed, Err(Broken::Lost(_))) && seen.job.is_none() {
        seen.job = attendant.as_mut().and_then(|a| a.end_within(JOB_NEWS));
    }
    Ok(session.conclude(followed, &seen, attendant))
}

impl Session {
    fn follow(&mut self) -> Result<(), Broken> {
        loop {
            self.drain()?;
            if self.ends.all_over() {
                return Ok(self.sinks.finish()?);
            }
            self.hurry();
            match self.inbox.fill(&mut &self.shared.stream) {
                Ok(0) => return Err(Broken::Lost(String::new())),
                Ok(_) => {}
                Err(e) if timed_out(&e) => {
                    self.tell_ends();
                    self.end_those_left();
                }
                Err(e) => return Err(Broken::Lost(format!(": {e}"))),
            }
        }
    }

    /// Reading is given up after a while where something waits to be said.
    fn hurry(&mut self) {
        let left = |at: Instant| at.saturating_duration_since(Instant::now());
        let waited = self.waited.map(|at| left(at).max(Duration::from_millis(1)));
        let soon = self.ends.has_news().then_some(TOGETHER);
        let patience = [soon, waited].into_iter().flatten().min();
        if patience != self.patience {
            self.patience = patience;
            let _ = self.shared.stream.set_read_timeout(patience);
        }
    }

    /// After the first end the others had their time.
    fn end_those_left(&mut self) {
        if self.waited.is_none_or(|at| at > Instant::now()) {
            return;
        }
        self.waited = None;
        let seconds = self.options.wait.unwrap_or_default().as_secs();
        self.say(&format!("First task exited {seconds}s ago"));
        for group in self.shared.groups() {
            self.say(&format!("StepId={} {group}", self.key));
        }
        self.shared.force();
        self.kill();
        self.shared.kill(); // also what is being ended already
    }

    /// Takes all whole frames that are there. Pieces of output that are next to each other
    /// are written together.
    fn drain(&mut self) -> Result<(), Broken> {
        let mut pieces: Vec<Range<usize>> = Vec::new();
        let mut to = Stream::Output;
        while let Some((kind, place)) = self.inbox.frame()? {
            if kind != step::OUTPUT {
                self.pass(to, &mut pieces)?;
                let frame = step::frame(kind, self.inbox.bytes(place))?;
                self.heard(frame);
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

    fn pass(&self, to: Stream, pieces: &mut Vec<Range<usize>>) -> Result<(), Broken> {
        if pieces.is_empty() {
            return Ok(());
        }
        let mut slices: Vec<IoSlice<'_>> = pieces
            .drain(..)
            .map(|place| IoSlice::new(self.inbox.bytes(place)))
            .collect();
        Ok(self.sinks.write_all(to, &mut slices)?)
    }

    fn heard(&mut self, frame: StepFrame) {
        match frame {
            StepFrame::Up(up) => self.up(up),
            // Not for commands.
            StepFrame::Down(_) | StepFrame::Link(_) => {}
        }
    }

    fn up(&mut self, up: UpFrame) {
        match up {
            UpFrame::Output { .. } | UpFrame::Gather { .. } => {}
            UpFrame::Ending { cause } => {
                if self.shared.announces() && !self.killed {
                    srun_messages::ending(&self.options.program, self.key, &self.node, cause);
                }
            }
            UpFrame::Started { node, tasks } => {
                self.with_progress(Progress::started);
                self.tell_start(node, &tasks);
            }
            UpFrame::TaskEnded { rank, end } => {
                self.tell_end(rank, &end);
                self.with_progress(|p| p.ended(rank, end.exit_code == 0 && end.signal == 0));
                let wait = self.options.wait.filter(|_| self.waited.is_none());
                if let Some(wait) = wait {
                    self.waited = Instant::now().checked_add(wait);
                }
                if self.ends.task(rank, end) && self.options.kill_on_bad_exit {
                    self.kill();
                }
            }
            UpFrame::NodeEnded { node, end } => self.ends.node(node, &end),
            UpFrame::Lost { nodes, reason } => {
                self.ends.lost(&nodes, &reason);
                if self.options.dialect == Dialect::Slurm {
                    srun_messages::lost(&self.options.program, &self.ends.names(&nodes));
                    self.killed = true;
                    self.shared.kill();
                }
                self.kill();
            }
            UpFrame::StdinTaken { bytes } => self.shared.taken(bytes),
            UpFrame::Abort { rank, code, reason } => self.aborted(rank, code, &reason),
        }
    }

    fn tell_start(&mut self, node: u32, tasks: &[(u32, i32)]) {
        let at = srun_messages::now();
        let said = self
            .supervisors
            .started(self.ends.layout(), node, tasks, &at);
        said.iter().for_each(|said| self.tell(said));
        if self.options.verbose
            && let Some(line) = verbose::started(self.ends.layout(), node)
        {
            self.say(&line);
        }
    }

    fn tell(&self, said: &SupervisorLine) {
        match said {
            SupervisorLine::There(line) => srun_messages::pass_on(line),
            SupervisorLine::Here(text) => self.say(text),
        }
    }

    fn tell_end(&mut self, rank: u32, end: &TaskEnd) {
        if let Some(said) = self.supervisors.ended(rank, end) {
            self.tell(&said);
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

    /// Ends what still runs, once.
    fn kill(&mut self) {
        if self.killed || self.options.looks_on || self.ends.all_over() {
            return;
        }
        self.killed = true;
        self.ends.kill_ordered();
        if self.options.dialect == Dialect::Slurm {
            self.tell_ends();
            let text = format!("launch/slurm: _step_signal: Terminating StepId={}", self.key);
            self.say(&text);
            srun_messages::cancelled(self.key, &self.node, KillCause::Cancelled);
        }
        self.shared.kill();
    }

    fn say(&self, text: &str) {
        say(&self.options.program, text);
    }

    fn tell_ends(&mut self) {
        if self.shared.is_ending() {
            self.ends.kill_ordered();
        }
        for line in self.ends.take_lines() {
            self.say(&line);
        }
        for line in self.ends.take_said() {
            srun_messages::pass_on(&line);
        }
    }

    fn conclude(
        mut self,
        followed: Result<(), Broken>,
        seen: &Seen,
        attendant: Option<Attendant>,
    ) -> Outcome {
        if let Err(broken) = followed {
            self.broken(&broken, seen);
        }
        self.tell_ends();
        if let Some(job) = seen
            .job
            .as_ref()
            .filter(|_| self.options.dialect == Dialect::Cosy)
        {
            self.say(&job_words(job));
            self.ends.at_least(exit::FAILED);
        }
        if seen.broken_input {
            self.ends.at_least(exit::FAILED);
        }
        let signal = seen
            .signal
            .filter(|_| self.options.dialect == Dialect::Cosy);
        if let Some(signal) = signal {
            self.ends.at_least(exit::of_end(0, signal, false));
        }
        Outcome {
            code: self.ends.code(),
            worst: self.ends.worst(),
            attendant,
        }
    }

    fn broken(&mut self, broken: &Broken, seen: &Seen) {
        match broken {
            Broken::Sink(SinkError::Closed) => self.ends.at_least(NOBODY_READS),
            Broken::Lost(_) if seen.job.is_some() => self.ends.at_least(exit::FAILED),
            Broken::Lost(_) | Broken::Garbage(_) | Broken::Sink(_) => {
                self.ends.at_least(exit::FAILED);
                let text = format!("step {}: {broken}", self.key);
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
