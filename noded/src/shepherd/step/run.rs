//! The loop of a step's supervisor: waits for whatever comes first and does it.

use super::displays::Displays;
use super::exchange::{Act, Exchange};
use super::frame_socket::FrameSocket;
use super::input::Input;
use super::io_socket::IoSocket;
use super::label::{self, Labels};
use super::queue::Queue;
use super::start::PreparedTasks;
use super::tally::Tally;
use super::task::{Task, never_ran};
use super::watchers::Watchers;
use super::{frame_socket, start};
use crate::shepherd::clock::Clock;
use crate::shepherd::leftovers;
use crate::shepherd::signals::Signals;
use crate::shepherd::termination::Ending;
use crate::steps::{StepTask, UpKind};
use crate::sys::Usage;
use cosy_model::node::KillCause;
use cosy_model::step::{DownFrame, Stream, UpFrame};
use cosy_model::{EndCause, Time};
use cosy_proto::step::StepFrame;
use nix::poll::PollFlags;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// While more than this waits to go up, nothing is read from tasks or children, in bytes.
pub const WAITING: usize = 1 << 20;
/// How long a hop that broke may take to come again, seen from below.
pub(super) const BROKEN: Duration = Duration::from_secs(30);
/// And seen from above, where the other side may have to be prepared first.
pub(super) const SILENT: Duration = Duration::from_secs(60);
/// How long those who do not read are waited for once the step was ended by force.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long the files of tasks may take to be opened before the tasks begin.
const OPENING: Duration = cosy_model::limits::FILES_OPENING;
/// How long a helper may take to be ready.
const HELPER: Duration = cosy_model::limits::PMIX_READY;
/// How long a file may take nothing of what tasks that are over have written.
const WRITING: Duration = cosy_model::limits::FILES_WRITING;
/// How long watchers are waited for.
pub(super) const WATCHERS: Duration = Duration::from_secs(2);
/// Most that is read at once, in bytes.
const CHUNK: usize = cosy_model::limits::STEP_CHUNK;

/// A supervisor below.
#[derive(Debug)]
pub struct Child {
    /// Numbers of the nodes that it speaks for.
    pub nodes: Vec<u32>,
    /// Connection to the hop that leads there.
    pub way: FrameSocket,
    /// Nothing more comes from there.
    pub over: bool,
}

/// A descriptor of the supervisor's that can be read or written.
#[derive(Clone, Copy, Debug)]
pub enum Ready {
    Signals,
    Lifeline,
    Failures,
    Up,
    Door,
    Newcomer,
    Child(usize),
    Watcher(usize),
    Output(usize, Stream),
    Input,
    Line(u32),
    Helper,
    Writer,
    DisplaySocket(usize),
    Display(u32),
}

/// A step on this node.
#[derive(Debug)]
pub struct Supervisor<'a> {
    pub(super) task: &'a StepTask,
    /// Number of this node in the step.
    pub(super) node: u32,
    /// The whole step hangs on this node.
    pub(super) head: bool,
    pub(super) signals: &'a Signals,
    pub(super) lifeline: Option<&'a OwnedFd>,
    pub(super) start: Time,
    pub(super) begun: Instant,
    pub(super) clock: Clock,
    pub(super) ending: Ending,
    pub(super) ranks: Vec<u32>,
    pub(super) tasks: Vec<Task>,
    /// The tasks were forked, or never will be.
    pub(super) forked: bool,
    /// Tasks that are forked when their files are open.
    opening: Option<PreparedTasks>,
    pub(super) failures: Option<OwnedFd>,
    /// Signals that came before all tasks ran their programs.
    pub(super) early_signals: Vec<i32>,
    pub(super) labels: Labels,
    /// Processes of the step are left.
    pub(super) processes: bool,
    pub(super) usage: Usage,
    pub(super) input: Input,
    pub(super) up: FrameSocket,
    /// Nobody above any more: what would go up is dropped.
    pub(super) up_gone: bool,
    pub(super) kills: u32,
    pub(super) children: Vec<Child>,
    pub(super) io_socket: IoSocket,
    pub(super) watchers: Watchers,
    pub(super) exchange: Exchange,
    pub(super) displays: Displays,
    /// Of the tasks here; of everything that is known.
    pub(super) here: Tally,
    pub(super) whole: Tally,
    /// Where reading of outputs goes on.
    pub(super) turn: usize,
    pub(super) buffer: Vec<u8>,
    /// All that is here to be known is known, since then.
    pub(super) concluded: Option<Instant>,
    /// The daemon or the limit wanted the end.
    pub(super) forced: bool,
    pub(super) nothing_left_since: Option<Instant>,
    abandoned: bool,
}

impl<'a> Supervisor<'a> {
    /// Takes a step on. `trouble`: why nothing of it can run here.
    pub fn new(
        task: &'a StepTask,
        start: Time,
        signals: &'a Signals,
        lifeline: Option<&'a OwnedFd>,
        up: OwnedFd,
        trouble: Option<String>,
    ) -> Self {
        let node = task.order.tree.first().copied().unwrap_or(0);
        let ranks = task.order.layout.ranks_of(node);
        let begun = Instant::now();
        let exchange = trouble.map_or_else(|| Exchange::new(task, node, &ranks), Err);
        let (exchange, trouble) = match exchange {
            Ok(exchange) => (exchange, None),
            Err(trouble) => (Exchange::none(), Some(trouble)),
        };
        let queue = match task.up {
            UpKind::Command => Queue::plain(),
            UpKind::Hop => Queue::numbered(),
        };
        let mut new = Self {
            task,
            node,
            head: task.order.tree.len() >= task.order.layout.nodes.len(),
            signals,
            lifeline,
            start,
            begun,
            clock: Clock::new(begun, task.limit, task.warn),
            ending: Ending::new(task.groups.clone(), task.order.spec.grace),
            input: input(task, &ranks),
            ranks,
            tasks: Vec::new(),
            forked: false,
            opening: None,
            failures: None,
            early_signals: Vec::new(),
            labels: Labels::default(),
            processes: true,
            usage: Usage::default(),
            up: FrameSocket::new(queue),
            up_gone: false,
            kills: 0,
            children: children(task),
            io_socket: IoSocket::open().unwrap_or_default(),
            watchers: Watchers::new(task.order.layout.tasks),
            exchange,
            displays: Displays::default(),
            here: Tally::default(),
            whole: Tally::default(),
            turn: 0,
            buffer: vec![0; CHUNK],
            concluded: None,
            forced: false,
            nothing_left_since: None,
            abandoned: false,
        };
        if new.up.connect(up, Vec::new()).is_err() {
            new.command_gone();
        }
        match trouble {
            Some(reason) => new.nothing_runs(&reason),
            None if !new.exchange.must_wait() => new.begin_tasks(),
            None => {}
        }
        new
    }

    /// Until nothing is left to do. False: the cluster was taken down with the step.
    pub fn run(&mut self) -> bool {
        loop {
            self.move_on();
            if self.is_over() || self.abandoned {
                return !self.abandoned;
            }
            for (ready, flags) in self.wait() {
                self.act_on(ready, flags);
            }
        }
    }

    /// Prepares the tasks; forks them at once where no files have to be opened before.
    fn begin_tasks(&mut self) {
        match Displays::open(self.task, self.node) {
            Ok(displays) => self.displays = displays,
            Err(reason) => return self.nothing_runs(&reason),
        }
        let (exchange, displays) = (&mut self.exchange, &self.displays);
        let begun = start::begin(self.task, &self.ranks, |plan, task| {
            plan.environment
                .extend(displays.variables().iter().cloned());
            exchange.equip(plan, task.rank)
        });
        match begun {
            Ok((begun, labels)) => {
                self.labels = labels;
                leftovers::spare(self.labels.pid());
                self.opening = Some(begun);
                if !self.labels.is_opening() {
                    self.fork_tasks();
                }
            }
            Err(reason) => self.nothing_runs(&reason),
        }
    }

    fn fork_tasks(&mut self) {
        let Some(begun) = self.opening.take() else {
            return;
        };
        match begun.fork(self.task) {
            Ok(started) => {
                self.tasks = started.tasks;
                self.failures = Some(started.failures);
                self.tell_started();
            }
            Err(reason) => self.nothing_runs(&reason),
        }
    }

    /// The process that opens and writes files has said something.
    fn hear_writer(&mut self) {
        let events = self.labels.hear();
        self.act_on_files(events);
    }

    pub(super) fn act_on_files(&mut self, events: Vec<label::Event>) {
        for event in events {
            match event {
                label::Event::Opened => self.fork_tasks(),
                label::Event::CannotOpen(reason) => self.nothing_runs(&reason),
                label::Event::Lost(rank, why) => {
                    self.say_for(rank, &format!("cannot write the output of task {rank}: {why}\n"));
                }
            }
        }
        leftovers::spare(self.labels.pid());
    }

    /// A file system that hangs, or a process that its user has stopped, holds up nothing for
    /// ever.
    fn keep_patience(&mut self, now: Instant) {
        if self.helper_late().is_some_and(|at| now >= at) {
            let why = format!("the PMIx helper is not ready after {} s", HELPER.as_secs());
            self.nothing_runs(&why);
        }
        if self.files_late().is_none_or(|at| now < at) {
            return;
        }
        let events = match self.labels.is_opening() {
            true => {
                let why = self.labels.not_open_after(OPENING.as_secs());
                vec![label::Event::CannotOpen(why)]
            }
            false => self.labels.give_up("its file takes nothing"),
        };
        self.act_on_files(events);
    }

    /// When a helper without which no task can begin is given up.
    pub(super) fn helper_late(&self) -> Option<Instant> {
        let waits = !self.forked && self.opening.is_none() && self.exchange.must_wait();
        waits.then_some(self.begun + HELPER)
    }

    /// When files that are not open, or what is not written after the end of all tasks, are
    /// given up. While tasks run those who write wait as they would for the file itself.
    pub(super) fn files_late(&self) -> Option<Instant> {
        let moved = self.labels.moved()?;
        if self.labels.is_opening() {
            return Some(moved + OPENING);
        }
        let over = self.nothing_left_since?;
        let ended = self.forced || self.up_gone || self.kills > 0;
        Some(match ended {
            true => over + LAST_WORDS,
            false => moved.max(over) + WRITING,
        })
    }

    fn tell_started(&mut self) {
        self.forked = true;
        let pids = |t: &Task| Some((t.rank, t.pid?.as_raw()));
        let tasks = self.tasks.iter().filter_map(pids).collect();
        self.send_up(UpFrame::Started {
            node: self.node,
            tasks,
        });
        for place in 0..self.tasks.len() {
            if let Some(end) = self.tasks[place].end.clone() {
                self.task_ended(place, &end);
            }
        }
    }

    /// All tasks end before they began.
    pub(super) fn nothing_runs(&mut self, reason: &str) {
        if self.forked {
            return;
        }
        self.opening = None;
        self.labels = Labels::default();
        leftovers::spare(None);
        self.tasks = self
            .ranks
            .iter()
            .map(|rank| {
                let mut task = Task::new(*rank, Default::default(), Default::default());
                task.end = Some(never_ran(reason.to_owned()));
                task
            })
            .collect();
        self.tell_started();
        if self.processes {
            self.exchange.finish();
        }
        // Nothing else may tell that there is no process to wait for.
        self.reap();
    }

    /// Everything that can be done without waiting.
    fn move_on(&mut self) {
        self.reap();
        self.keep_time();
        self.do_exchange();
        self.feed();
        self.displays.flush();
        if !self.processes {
            self.drain();
            self.drain_displays();
        }
        self.tell_displays();
        self.conclude();
        self.up.flush();
        for at in 0..self.children.len() {
            self.children[at].way.flush();
        }
        self.watchers.flush();
        self.look_for_breaks();
    }

    /// Something can be sent up now.
    pub(super) fn has_room(&self) -> bool {
        self.up_gone || self.up.queue.waiting() < WAITING
    }

    fn act_on(&mut self, ready: Ready, flags: PollFlags) {
        match ready {
            Ready::Signals => self.hear_signals(),
            Ready::Lifeline => {
                self.abandoned = true;
                self.ending.kill_now();
                self.wait_for_the_dead();
            }
            Ready::Failures => self.read_failures(),
            Ready::Up => {
                if flags != PollFlags::POLLOUT {
                    self.hear_up();
                }
            }
            Ready::Door => self.io_socket.accept(),
            Ready::Newcomer => self.let_in(),
            Ready::Child(at) => {
                if flags != PollFlags::POLLOUT {
                    self.hear_child(at);
                }
            }
            Ready::Watcher(at) => {
                if flags != PollFlags::POLLOUT {
                    self.watchers.hear(at, &mut self.buffer);
                }
            }
            Ready::Output(place, stream) => {
                self.turn = place + 1;
                self.read_output(place, stream);
            }
            // Done in every round.
            Ready::Input => {}
            Ready::Line(rank) => self.exchange.hear_task(rank),
            Ready::Helper => self.exchange.hear_helper(),
            Ready::Writer => self.hear_writer(),
            Ready::DisplaySocket(at) => self.let_client_in(at),
            Ready::Display(connection) => self.hear_client(connection),
        }
    }

    fn keep_warning(&mut self, now: Instant) {
        if !self.clock.takes_warning(now) {
            return;
        }
        if let Some(warn) = self.task.warn {
            leftovers::signal_all(&self.task.groups, warn.signal);
        }
    }

    fn keep_time(&mut self) {
        let now = Instant::now();
        if self.ending.is_running() {
            self.keep_warning(now);
        }
        if self.ending.is_running() && self.clock.is_over(now) {
            self.announce(KillCause::TimeLimit.into());
            self.force(|ending| ending.finish(EndCause::TimeLimit));
        }
        self.ending.keep_time(now, self.processes);
        self.keep_patience(now);
        let patient = self.nothing_left_since.filter(|_| self.forced);
        if patient.is_some_and(|since| now >= since + LAST_WORDS) && !self.up_gone {
            self.drop_up();
        }
    }

    fn look_for_breaks(&mut self) {
        let now = Instant::now();
        if !self.up_gone && !self.up.is_connected() {
            let over = match self.task.up {
                UpKind::Command => true,
                UpKind::Hop => now >= self.up.broken_since + BROKEN,
            };
            if over {
                self.command_gone();
            }
        }
        for at in 0..self.children.len() {
            let child = &self.children[at];
            let silent = !child.over && !child.way.is_connected();
            if silent && now >= child.way.broken_since + SILENT {
                let reason = format!("nothing was heard for {} s", SILENT.as_secs());
                self.child_lost(at, reason);
            }
        }
    }

    fn is_over(&self) -> bool {
        let Some(since) = self.concluded else {
            return false;
        };
        let below = self.children.iter().all(|c| c.over);
        let up = self.up_gone || self.up.queue.is_empty();
        below && up && (self.watchers.is_flushed() || since.elapsed() >= WATCHERS)
    }

    fn do_exchange(&mut self) {
        for act in self.exchange.take_acts() {
            match act {
                Act::Ready if !self.forked && self.opening.is_none() => self.begin_tasks(),
                Act::Ready => {}
                Act::Abort { rank, code, reason } => {
                    if !self.forked {
                        self.nothing_runs(&reason);
                    }
                    self.send_up(UpFrame::Abort { rank, code, reason });
                }
                Act::Gathered(round, parts) if self.head => {
                    self.send_down(&DownFrame::Spread {
                        round,
                        parts: parts.clone(),
                    });
                    self.exchange.spread(&parts);
                }
                Act::Gathered(round, parts) => self.send_up(UpFrame::Gather { round, parts }),
            }
        }
    }

    /// Sends a frame up.
    pub(super) fn send_up(&mut self, up: UpFrame) {
        if let Some(bytes) = frame_socket::encode(&StepFrame::Up(up)) {
            self.pass_up(bytes);
        }
    }

    /// Sends a frame up as it is.
    pub(super) fn pass_up(&mut self, bytes: super::queue::Bytes) {
        if !self.up_gone {
            self.up.queue.push(bytes);
        }
    }

    /// Sends a frame to all children.
    pub(super) fn send_down(&mut self, down: &DownFrame) {
        if let Some(bytes) = frame_socket::encode(&StepFrame::Down(down.clone())) {
            self.pass_down(&bytes);
        }
    }

    /// Sends a frame to all children as it is.
    pub(super) fn pass_down(&mut self, bytes: &super::queue::Bytes) {
        for child in self.children.iter_mut().filter(|c| !c.over) {
            child.way.queue.push(bytes.clone());
        }
    }
}

fn input(task: &StepTask, ranks: &[u32]) -> Input {
    let below = |nodes: &Vec<u32>| {
        let mut ranks = nodes.iter().flat_map(|n| task.order.layout.ranks_of(*n));
        ranks.any(|rank| task.reads_input(rank))
    };
    Input::new(ranks.iter().map(|rank| task.reads_input(*rank)), task.children.iter().map(below))
}

fn children(task: &StepTask) -> Vec<Child> {
    let child = |nodes: &Vec<u32>| Child {
        nodes: nodes.clone(),
        way: FrameSocket::new(Queue::numbered()),
        over: false,
    };
    task.children.iter().map(child).collect()
}
