//! From the fork to the end of the last process: time limit, warning, orders. How it is
//! brought to its end is in [`super::termination`].

use super::child::{self, Failure, Plan};
use super::clock::Clock;
use super::signals::{self, Order, SignalMeaning, Signals};
use super::termination::Ending;
use super::{failed_launch, leftovers, shutdown, slurm, wall};
use crate::cgroup::Group;
use crate::spool::{self, Outcome, Task};
use crate::sys::{self, Fork, Reap, Reaped, Usage};
use cosy_model::job::WarnSignal;
use cosy_model::node::{KillCause, KillOrder};
use cosy_model::{DeviceUse, End, EndCause, Time};
use cosy_slurm::end_messages::EndReason;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::unistd::Pid;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// EndReason watching stopped.
#[derive(Debug)]
pub enum Ended {
    /// Nothing of the job is left.
    Outcome(Outcome),
    /// The cluster was taken down; the job was killed with it and nobody asks.
    LifelineEnded,
}

/// A signal right after the submission is meant for the program that the job becomes, not for
/// what is to become it, nor for a shell that has not come to its first `trap`. It is kept back
/// until the program handles that signal, at most for this long after the job's start: so long
/// Slurm's `scancel` waits before it sends a signal again to a job that had not begun.
const EARLY: Duration = Duration::from_secs(5);
/// How often a program is looked at that is to get an early signal.
const LOOK: Duration = Duration::from_millis(20);
/// The same when it has not been executed for longer than [`EARLY`].
const LOOK_LATER: Duration = Duration::from_secs(1);
/// No program can handle these.
const PLAIN: [i32; 3] = [libc::SIGKILL, libc::SIGSTOP, libc::SIGCONT];

#[derive(Clone, Copy, PartialEq, Eq)]
struct EarlySignal {
    signal: i32,
    script_only: bool,
}

struct Watch<'a> {
    task: &'a Task,
    signals: &'a Signals,
    lifeline: Option<&'a OwnedFd>,
    /// Says what failed before the program was executed; read when all is over.
    pipe: File,
    main: Pid,
    main_end: Option<Reaped>,
    failure: Option<Failure>,
    usage: Usage,
    ending: Ending,
    begun: Instant,
    clock: Clock,
    children: bool,
    abandoned: bool,
    /// What the job's output is to say when all is over.
    unsaid: Option<EndReason>,
    /// Signals that came before the program was ready for them.
    early: Vec<EarlySignal>,
    /// Where the job is kept, and how much was read of what it is to be told.
    directory: &'a Path,
    notes_read: usize,
}

/// Starts the program of `task` and sees it through.
pub fn watch(
    directory: &Path,
    task: &Task,
    start: Time,
    signals: &Signals,
    lifeline: Option<&OwnedFd>,
) -> Ended {
    let begun = Instant::now();
    let (main, pipe) = match start_program(directory, task) {
        Ok(started) => started,
        Err(reason) => return Ended::Outcome(failed_launch(reason)),
    };
    let clock = Clock::new(begun, task.launch.allocation.limit, task.launch.warn);
    let mut watch = Watch {
        task,
        signals,
        lifeline,
        pipe,
        main,
        main_end: None,
        failure: None,
        usage: Usage::default(),
        ending: Ending::new(task.groups.clone(), task.launch.grace),
        begun,
        clock,
        children: true,
        abandoned: false,
        unsaid: None,
        early: Vec::new(),
        directory,
        notes_read: 0,
    };
    watch.until_nothing_is_left();
    watch.conclude(directory, start)
}

fn start_program(directory: &Path, task: &Task) -> Result<(Pid, File), String> {
    let unified = task.groups.iter().find(|g| g.unified).map(Group::path);
    let group = unified.as_ref().and_then(|path| File::open(path).ok());
    let initial_group = unified.as_deref().filter(|_| group.is_some());
    let plan = Plan::new(task, directory, initial_group)?;
    let (reading, writing) = child::pipe().map_err(|e| format!("cannot make a pipe: {e}"))?;
    match fork(group.as_ref()) {
        Ok(Fork::Parent(pid)) => Ok((pid, reading)),
        Ok(Fork::Child) => {
            child::forget(reading);
            plan.run(&writing)
        }
        // Kernels before 5.7 start no process in a group: join it instead.
        Err(_) if group.is_some() => {
            let plan = Plan::new(task, directory, None)?;
            match fork(None).map_err(|e| format!("cannot make a process: {e}"))? {
                Fork::Parent(pid) => Ok((pid, reading)),
                Fork::Child => plan.run(&writing),
            }
        }
        Err(e) => Err(format!("cannot make a process: {e}")),
    }
}

fn fork(group: Option<&File>) -> std::io::Result<Fork> {
    // SAFETY: a shepherd has one thread.
    unsafe { sys::fork_into(group.map(AsRawFd::as_raw_fd)) }
}

impl Watch<'_> {
    fn until_nothing_is_left(&mut self) {
        self.reap();
        while self.children && !self.ending.given_up() {
            self.wait();
            self.hear();
            self.reap();
            self.keep_time();
        }
        self.read_failure();
    }

    fn wait(&mut self) {
        let timeout = self.next_timer().map_or(PollTimeout::NONE, |at| {
            let left = at.saturating_duration_since(Instant::now());
            // Rounded up: a timer is never early. Far ones are cut and looked at again.
            let ms = (left.as_micros().div_ceil(1000)).min(60_000);
            PollTimeout::from(ms as u16)
        });
        let mut wanted = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        if let Some(lifeline) = self.lifeline.filter(|_| !self.abandoned) {
            wanted.push(PollFd::new(lifeline.as_fd(), PollFlags::POLLIN));
        }
        let _ = nix::poll::poll(&mut wanted, timeout);
        let lifeline = wanted.get(1).and_then(PollFd::revents);
        if lifeline.is_some_and(|r| !r.is_empty()) {
            self.abandon();
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        let running = self.ending.is_running();
        let own = self.clock.next().filter(|_| running);
        let pause = match self.begun.elapsed() < EARLY {
            true => LOOK,
            false => LOOK_LATER,
        };
        let look = (!self.early.is_empty()).then(|| Instant::now() + pause);
        let own = own.into_iter().chain(look);
        self.ending.next_timer().into_iter().chain(own).min()
    }

    /// What failed before the exec, which closed the pipe. Nothing of the job is left, so
    /// nobody can still write.
    fn read_failure(&mut self) {
        if !self.ending.given_up() {
            self.failure = Failure::read(&self.pipe);
        }
    }

    fn abandon(&mut self) {
        self.abandoned = true;
        self.ending.kill_now();
    }

    fn hear(&mut self) {
        while let Some(heard) = self.signals.next() {
            match heard {
                SignalMeaning::Child => {}
                SignalMeaning::Stop => {
                    self.announce(KillCause::Superseded.into());
                    self.ending.taken_down();
                }
                SignalMeaning::Order(Order::Kill(kill)) => {
                    self.announce(kill);
                    self.ending.ordered(kill.cause);
                }
                SignalMeaning::Order(Order::Signal {
                    signal,
                    script_only,
                }) => self.pass_on(signal, script_only),
                SignalMeaning::Order(Order::Note) => self.pass_notes_on(),
                SignalMeaning::Order(Order::OutOfMemory) => self.ending.out_of_memory(),
                SignalMeaning::Order(Order::Suspend) => self.suspend(),
                SignalMeaning::Order(Order::Resume) => self.resume(),
                SignalMeaning::Order(Order::Limit(secs)) => {
                    self.clock.limit_to(signals::span(secs))
                }
                SignalMeaning::Order(Order::Left(secs)) => {
                    self.clock.leave(Instant::now(), signals::span(secs));
                }
            }
        }
    }

    /// Writes what has been said since the last time into the job's output.
    fn pass_notes_on(&mut self) {
        if self.runs_program() {
            let notes = spool::notes(self.directory, self.notes_read);
            self.notes_read += notes.len();
            slurm::tell_notes(self.task, &String::from_utf8_lossy(&notes));
        }
    }

    fn suspend(&mut self) {
        if self.ending.is_running() && self.clock.stop(Instant::now()) {
            leftovers::signal_all(&self.task.groups, libc::SIGSTOP);
        }
    }

    fn resume(&mut self) {
        if self.clock.go_on(Instant::now()) {
            leftovers::signal_all(&self.task.groups, libc::SIGCONT);
        }
    }

    /// Says in the job's output why it is going to be ended, where that is usual. A job that
    /// is still on its way to its program may have no output yet, or is about to empty it:
    /// then it is said when all is over.
    fn announce(&mut self, kill: KillOrder) {
        if !slurm::is(self.task) || !self.ending.is_running() {
            return;
        }
        let why = EndReason::of(kill);
        match self.runs_program() {
            true => slurm::tell(self.task, why, sys::now()),
            false => self.unsaid = Some(why),
        }
    }

    /// The exec has closed the pipe.
    fn runs_program(&self) -> bool {
        let mut pipe = [PollFd::new(self.pipe.as_fd(), PollFlags::POLLIN)];
        let _ = nix::poll::poll(&mut pipe, PollTimeout::ZERO);
        pipe[0].revents() == Some(PollFlags::POLLHUP)
    }

    fn pass_on(&mut self, signal: i32, script_only: bool) {
        let early = EarlySignal {
            signal,
            script_only,
        };
        if self.is_ready_for(signal) {
            self.send(early);
        } else if !self.early.contains(&early) {
            self.early.push(early);
        }
    }

    /// Whether the program is there, and either handles that signal or has run for so long that
    /// it never will.
    fn is_ready_for(&self, signal: i32) -> bool {
        let never_handled = || PLAIN.contains(&signal) || self.begun.elapsed() >= EARLY;
        signal == libc::SIGKILL
            || self.main_end.is_some()
            || (self.runs_program() && (never_handled() || sys::handles(self.main, signal)))
    }

    fn send(&self, early: EarlySignal) {
        if !early.script_only {
            leftovers::signal_all(&self.task.groups, early.signal);
        } else if self.main_end.is_none() {
            let _ = sys::kill(self.main, early.signal);
        }
    }

    fn send_early_signals(&mut self) {
        for early in std::mem::take(&mut self.early) {
            self.pass_on(early.signal, early.script_only);
        }
    }

    fn reap(&mut self) {
        loop {
            match sys::reap() {
                Reap::One(child) => self.add(child),
                Reap::NoneEnded => break,
                Reap::NoChildren => {
                    self.children = false;
                    return;
                }
            }
        }
        // The script is over and something of it is left: it goes too, unless it is
        // within its grace.
        if self.main_end.is_some() && self.ending.is_running() {
            self.ending.kill_now();
        }
    }

    fn add(&mut self, child: Reaped) {
        self.usage.user_us += child.usage.user_us;
        self.usage.system_us += child.usage.system_us;
        self.usage.peak_bytes = self.usage.peak_bytes.max(child.usage.peak_bytes);
        if child.pid == self.main {
            self.main_end = Some(child);
        }
    }

    fn keep_time(&mut self) {
        let now = Instant::now();
        if self.ending.is_running() {
            self.keep_limits(now);
        }
        self.send_early_signals();
        self.ending.keep_time(now, self.children);
    }

    fn keep_limits(&mut self, now: Instant) {
        if self.clock.is_over(now) {
            self.announce(KillCause::TimeLimit.into());
            return self.ending.finish(EndCause::TimeLimit);
        }
        if self.clock.takes_warning(now) {
            // In Slurm's dialect it is meant for the steps, which see to it themselves.
            let own = |w: &WarnSignal| w.script_only || !slurm::is(self.task);
            if let Some(warn) = self.task.launch.warn.filter(own) {
                self.pass_on(warn.signal, warn.script_only);
            }
        }
    }

    fn conclude(self, directory: &Path, start: Time) -> Ended {
        if self.abandoned {
            return Ended::LifelineEnded;
        }
        if let Some(why) = self.unsaid {
            slurm::tell_late(self.task, why, sys::now());
        }
        let at = wall(start, self.begun.elapsed());
        let (exit_code, signal) = self.main_end.map_or((0, 0), |m| m.code_and_signal());
        let mut end = End {
            cause: shutdown::cause_with(self.end_cause(directory)),
            exit_code,
            signal,
            start: Some(start),
            end: at,
            user_cpu_us: self.usage.user_us,
            system_cpu_us: self.usage.system_us,
            peak_memory_bytes: self.usage.peak_bytes,
            devices: DeviceUse::default(),
        };
        if let EndCause::LaunchFailed(_) = end.cause {
            end = End::never_ran(end.cause, at);
            if slurm::is(self.task) {
                end.signal = slurm::NOT_STARTED;
            }
        } else {
            measure(&self.task.groups, &mut end);
        }
        let drain = self.ending.given_up().then(|| {
            format!(
                "processes of job {} cannot be killed: {}",
                self.task.launch.allocation.key,
                leftovers::left_over(&self.task.groups)
            )
        });
        Ended::Outcome(Outcome { end, drain })
    }

    fn end_cause(&self, directory: &Path) -> EndCause {
        if let Some(cause) = self.ending.cause() {
            return cause.clone();
        }
        if let Some(failure) = self.failure {
            return EndCause::LaunchFailed(failure.text(self.task, directory));
        }
        let memory = self.task.groups.iter().find(|g| g.memory);
        let kills = memory.map_or(0, Group::out_of_memory_kills);
        if kills > 0 {
            if slurm::is(self.task) {
                slurm::tell_starved(self.task, kills);
            }
            return EndCause::OutOfMemory;
        }
        EndCause::Exited
    }
}

/// What control groups measured is better than the sums over processes: it has those too
/// that nobody waited for.
pub(super) fn measure(groups: &[Group], end: &mut End) {
    for group in groups {
        if let Some((user, system)) = group.cpu_time() {
            end.user_cpu_us = user.max(end.user_cpu_us);
            end.system_cpu_us = system.max(end.system_cpu_us);
        }
        if group.memory
            && let Some(peak) = group.peak_memory()
        {
            end.peak_memory_bytes = peak;
        }
    }
}
