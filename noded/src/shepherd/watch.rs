//! From the fork to the end of the last process: time limit, warning, grace, orders.
//!
//! ```text
//!            limit or order            grace over
//!  Running ------------------> Ending ------------> Killing --> nothing left: outcome
//!     |  script ended, something left                 ^
//!     +-----------------------------------------------+
//! ```

use super::child::{self, Failure, Plan};
use super::signals::{Heard, Order, Signals};
use super::{end, failed_launch, wall};
use crate::cgroup::Group;
use crate::spool::{Outcome, Task};
use crate::sys::{self, Fork, Reap, Reaped, Usage};
use cosy_model::node::KillCause;
use cosy_model::{End, EndCause, Span, Time};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::unistd::Pid;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// After this long, what could not be killed is left and the node is to be drained.
const UNKILLABLE: Duration = Duration::from_secs(60);
/// First pause between two rounds of killing; doubles up to [`LAST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LAST_PAUSE: Duration = Duration::from_millis(500);

/// Why watching stopped.
#[derive(Debug)]
pub enum Ended {
    /// Nothing of the job is left.
    Outcome(Outcome),
    /// The cluster was taken down; the job was killed with it and nobody asks.
    LifelineEnded,
}

/// Where a job is on its way to its end.
#[derive(Clone, Copy, Debug)]
enum State {
    Running,
    Ending {
        kill_at: Instant,
    },
    Killing {
        since: Instant,
        again: Instant,
        pause: Duration,
    },
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
    state: State,
    cause: Option<EndCause>,
    begun: Instant,
    limit: Option<Instant>,
    warn: Option<Instant>,
    children: bool,
    abandoned: bool,
    given_up: bool,
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
    let limit = after(begun, task.launch.allocation.limit);
    let warn = task.launch.warn.and_then(|w| {
        let before = Duration::from_millis(w.before.ms().max(0) as u64);
        limit.map(|l| l.checked_sub(before).unwrap_or(begun).max(begun))
    });
    let mut watch = Watch {
        task,
        signals,
        lifeline,
        pipe,
        main,
        main_end: None,
        failure: None,
        usage: Usage::default(),
        state: State::Running,
        cause: None,
        begun,
        limit,
        warn,
        children: true,
        abandoned: false,
        given_up: false,
    };
    watch.until_nothing_is_left();
    watch.conclude(directory, start)
}

fn start_program(directory: &Path, task: &Task) -> Result<(Pid, File), String> {
    let unified = task.groups.iter().find(|g| g.unified).map(Group::path);
    let group = unified.as_ref().and_then(|path| File::open(path).ok());
    let born = unified.as_deref().filter(|_| group.is_some());
    let plan = Plan::new(task, directory, born)?;
    let (reading, writing) = child::pipe().map_err(|e| format!("cannot make a pipe: {e}"))?;
    match fork(group.as_ref()) {
        Ok(Fork::Parent(pid)) => Ok((pid, reading)),
        Ok(Fork::Child) => {
            child::forget(reading);
            plan.run(&writing)
        }
        // Kernels before 5.7 know no birth in a group: join it instead.
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

/// A moment some time after another; `None` when that is without end.
fn after(begun: Instant, span: Span) -> Option<Instant> {
    if span.is_unlimited() {
        return None;
    }
    begun.checked_add(Duration::from_millis(span.ms().max(0) as u64))
}

impl Watch<'_> {
    fn until_nothing_is_left(&mut self) {
        self.reap();
        while self.children && !self.given_up {
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
        let state = match self.state {
            State::Running => self.limit,
            State::Ending { kill_at } => Some(kill_at),
            State::Killing { again, .. } => Some(again),
        };
        let warn = match self.state {
            State::Running => self.warn,
            State::Ending { .. } | State::Killing { .. } => None,
        };
        state.into_iter().chain(warn).min()
    }

    /// What failed before the exec, which closed the pipe. Nothing of the job is left, so
    /// nobody can still write.
    fn read_failure(&mut self) {
        if !self.given_up {
            self.failure = Failure::read(&self.pipe);
        }
    }

    fn abandon(&mut self) {
        self.abandoned = true;
        self.kill_now();
    }

    fn hear(&mut self) {
        while let Some(heard) = self.signals.next() {
            match heard {
                Heard::Child => {}
                Heard::Stop => self.finish(EndCause::Cancelled),
                Heard::Order(Order::Kill(cause)) => self.ordered_end(cause),
                Heard::Order(Order::Signal {
                    signal,
                    script_only,
                }) => self.pass_on(signal, script_only),
            }
        }
    }

    fn ordered_end(&mut self, cause: KillCause) {
        match cause {
            KillCause::Cancelled | KillCause::Requeued => self.finish(EndCause::Cancelled),
            KillCause::TimeLimit => self.finish(EndCause::TimeLimit),
            KillCause::Superseded => {
                self.cause.get_or_insert(EndCause::Cancelled);
                self.kill_now();
            }
        }
    }

    fn pass_on(&self, signal: i32, script_only: bool) {
        if !script_only {
            end::signal_all(&self.task.groups, signal);
        } else if self.main_end.is_none() {
            let _ = sys::kill(self.main, signal);
        }
    }

    /// SIGTERM to everything (also to what is stopped), SIGKILL after the grace.
    fn finish(&mut self, cause: EndCause) {
        let State::Running = self.state else {
            return;
        };
        self.cause = Some(cause);
        let grace = Duration::from_millis(self.task.launch.grace.ms().clamp(0, 86_400_000) as u64);
        if grace.is_zero() {
            return self.kill_now();
        }
        end::signal_all(&self.task.groups, libc::SIGTERM);
        end::signal_all(&self.task.groups, libc::SIGCONT);
        self.state = State::Ending {
            kill_at: Instant::now() + grace,
        };
    }

    fn kill_now(&mut self) {
        if let State::Killing { .. } = self.state {
            return;
        }
        end::kill_all(&self.task.groups, false);
        let now = Instant::now();
        self.state = State::Killing {
            since: now,
            again: now + FIRST_PAUSE,
            pause: FIRST_PAUSE,
        };
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
        if let (Some(_), State::Running) = (self.main_end, self.state) {
            self.kill_now();
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
        match self.state {
            State::Running => self.keep_limits(now),
            State::Ending { kill_at } if now >= kill_at => self.kill_now(),
            State::Ending { .. } => {}
            State::Killing {
                since,
                again,
                pause,
            } if now >= again && self.children => {
                if now.duration_since(since) >= UNKILLABLE {
                    self.given_up = true;
                    return;
                }
                end::kill_all(&self.task.groups, true);
                let pause = (pause * 2).min(LAST_PAUSE);
                self.state = State::Killing {
                    since,
                    again: now + pause,
                    pause,
                };
            }
            State::Killing { .. } => {}
        }
    }

    fn keep_limits(&mut self, now: Instant) {
        if self.limit.is_some_and(|at| now >= at) {
            return self.finish(EndCause::TimeLimit);
        }
        if self.warn.is_some_and(|at| now >= at) {
            self.warn = None;
            if let Some(warn) = self.task.launch.warn {
                self.pass_on(warn.signal, warn.script_only);
            }
        }
    }

    fn conclude(self, directory: &Path, start: Time) -> Ended {
        if self.abandoned {
            return Ended::LifelineEnded;
        }
        let at = wall(start, self.begun.elapsed());
        let (exit_code, signal) = self.main_end.map_or((0, 0), |m| m.code_and_signal());
        let mut end = End {
            cause: self.end_cause(directory),
            exit_code,
            signal,
            start: Some(start),
            end: at,
            user_cpu_us: self.usage.user_us,
            system_cpu_us: self.usage.system_us,
            peak_memory_bytes: self.usage.peak_bytes,
        };
        if let EndCause::LaunchFailed(_) = end.cause {
            end = End::never_ran(end.cause, at);
        } else {
            measure(&self.task.groups, &mut end);
        }
        let drain = self.given_up.then(|| {
            format!(
                "processes of job {} cannot be killed: {}",
                self.task.launch.allocation.key.job,
                end::left_over(&self.task.groups)
            )
        });
        Ended::Outcome(Outcome { end, drain })
    }

    fn end_cause(&self, directory: &Path) -> EndCause {
        if let Some(cause) = &self.cause {
            return cause.clone();
        }
        if let Some(failure) = self.failure {
            return EndCause::LaunchFailed(failure.text(self.task, directory));
        }
        let memory = self.task.groups.iter().find(|g| g.memory);
        if memory.is_some_and(|g| g.out_of_memory_kills() > 0) {
            return EndCause::OutOfMemory;
        }
        EndCause::Exited
    }
}

/// What control groups measured is better than the sums over processes: it has those too
/// that nobody waited for.
fn measure(groups: &[Group], end: &mut End) {
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
