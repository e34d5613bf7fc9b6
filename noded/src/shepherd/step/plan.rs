//! What the process of a task does between fork and exec. Everything that needs thought
//! is prepared before; files of the user are opened after taking the user's identity.

use super::binding_report::Bound;
use super::failure::{Failure, Stage};
use super::receive::Receive;
use crate::bind::TaskBind;
use crate::shepherd::child::{self, Identity, Variables};
use crate::shepherd::slurm::{self, Words};
use crate::steps::StepTask;
use crate::sys;
use cosy_model::Dialect;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;

/// What all tasks here have in common.
#[derive(Debug)]
pub struct Common {
    joins: Vec<(CString, bool)>,
    reset_oom_score: bool,
    identity: Option<Identity>,
    umask: Mode,
    limits: Vec<(u32, u64, u64)>,
    workdir: CString,
    /// Another directory will do where that one cannot be entered.
    any_workdir: bool,
    environment: Vec<CString>,
    /// Tasks stop before their programs begin.
    stopped: bool,
}

/// Where a task's input comes from.
#[derive(Debug)]
pub enum Source {
    /// A file of the user.
    File(CString),
    /// A pipe of the supervisor.
    Pipe(OwnedFd),
    /// The terminal that the task runs in.
    Terminal(OwnedFd),
}

/// Where a task's output goes.
#[derive(Debug)]
pub enum Sink {
    /// A file of the user.
    File(CString, OFlag),
    /// A pipe of the supervisor.
    Pipe(OwnedFd),
    /// Where standard output goes; or both to the terminal.
    AsBefore,
}

/// What the process of a task does.
#[derive(Debug)]
pub enum TaskAction {
    /// Executes a program.
    Run {
        /// Places where it may be.
        candidates: Vec<CString>,
        /// Arguments, the program's name first.
        argv: Vec<CString>,
    },
    /// Writes a file.
    Receive(Receive),
}

/// One task, ready to be forked.
#[derive(Debug)]
pub struct TaskPlan {
    /// Place among the tasks here.
    pub place: u32,
    /// Control groups of its own.
    pub joins: Vec<(CString, bool)>,
    /// What it is bound to.
    pub bind: Option<TaskBind>,
    /// Where standard input comes from.
    pub stdin: Source,
    /// Where standard output goes.
    pub stdout: Sink,
    /// Where standard error goes.
    pub stderr: Sink,
    /// What the process of the task does.
    pub what: TaskAction,
    /// Variables of its own, `NAME=value`.
    pub environment: Vec<CString>,
    /// A descriptor that its program inherits.
    pub inherits: Option<OwnedFd>,
    /// What it says itself, in Slurm's dialect, before its program runs.
    pub slurm: Option<Words>,
    /// What the task reports of its binding before its program runs.
    pub bound: Option<(u32, Bound)>,
}

impl Common {
    /// Prepares it; `initial_group` is the control group that the tasks are started in.
    ///
    /// # Errors
    /// In one line, what is wrong with the step.
    pub fn new(
        task: &StepTask,
        variables: &Variables,
        initial_group: Option<&Path>,
        descriptors: Option<(u64, u64)>,
    ) -> Result<Self, String> {
        let spec = &task.order.spec;
        let descriptors = descriptors.map(|(soft, hard)| ("NOFILE".to_owned(), soft, hard));
        let mut limits: Vec<_> = child::limits(descriptors.as_slice());
        limits.extend(child::limits(&spec.rlimits));
        Ok(Self {
            joins: child::joins(&task.groups, initial_group)?,
            reset_oom_score: task.reset_oom_score,
            identity: Identity::of(&task.allocation),
            umask: Mode::from_bits_truncate(spec.umask & 0o777),
            limits,
            workdir: child::c(&spec.workdir.0)?,
            any_workdir: spec.dialect == Dialect::Slurm,
            environment: child::block(variables)?,
            stopped: spec.stopped,
        })
    }

    /// The tasks are not started in the control group after all.
    ///
    /// # Errors
    /// A NUL in a path.
    pub fn joins_all(&mut self, task: &StepTask) -> Result<(), String> {
        self.joins = child::joins(&task.groups, None)?;
        Ok(())
    }

    /// Gives why another directory was entered than the one asked for.
    fn become_user(&self) -> Result<Option<Errno>, Failure> {
        self.become_user_with(|_| true)
    }

    fn become_user_with(&self, limited: impl Fn(u32) -> bool) -> Result<Option<Errno>, Failure> {
        if let Some(identity) = &self.identity {
            identity.take().map_err(Stage::Identity.failed())?;
        }
        nix::sys::stat::umask(self.umask);
        for &(resource, soft, hard) in &self.limits {
            if limited(resource) {
                sys::limit_resource(resource, soft, hard);
            }
        }
        match nix::unistd::chdir(self.workdir.as_c_str()) {
            Ok(()) => Ok(None),
            Err(errno) if self.any_workdir => {
                let other = nix::unistd::chdir(slurm::OTHER_WORKDIR);
                other.map_err(Stage::Workdir.failed())?;
                Ok(Some(errno))
            }
            Err(errno) => Err(Stage::Workdir.failed()(errno)),
        }
    }

    /// Takes the user's identity and limits in a process that only opens and writes files;
    /// it may have as many of them open as this one.
    ///
    /// # Errors
    /// The user's identity cannot be taken, or no directory be entered.
    pub fn become_writer(&self) -> Result<(), Failure> {
        let _ = child::join(&[], self.reset_oom_score);
        self.become_user_with(|resource| resource != nix::libc::RLIMIT_NOFILE)
            .map(drop)
    }
}

pub(super) fn file_mode() -> Mode {
    Mode::from_bits_truncate(0o666)
}

impl TaskPlan {
    /// What the child does. Never returns: it becomes the program or tells why not.
    pub fn run(&self, common: &Common, failures: &File) -> ! {
        match self.start(common, failures) {
            Ok(code) => sys::exit_now(code),
            Err(failure) => {
                failure.write(self.place, failures);
                sys::exit_now(super::tally::NEVER_RAN)
            }
        }
    }

    fn start(&self, common: &Common, failures: &File) -> Result<i32, Failure> {
        let _ = nix::unistd::setsid();
        child::join(&common.joins, common.reset_oom_score).map_err(Stage::Group.failed())?;
        child::join(&self.joins, false).map_err(Stage::Group.failed())?;
        if let Some(bind) = &self.bind {
            bind.apply().map_err(Stage::Bind.failed())?;
        }
        let lost = common.become_user()?;
        self.open_all()?;
        if let (Some(errno), Some(words)) = (lost, &self.slurm) {
            words.no_workdir(errno, self.place == 0);
        }
        if let Some((rank, bound)) = &self.bound {
            bound.say(*rank, self.place);
        }
        match &self.what {
            TaskAction::Run { candidates, argv } => {
                let Err(failure) = self.exec(common, candidates, argv);
                Err(failure)
            }
            TaskAction::Receive(receive) => {
                keep_only(&[failures.as_raw_fd(), receive.whole_fd()]);
                sys::unblock_signals();
                receive.run().map(|()| 0)
            }
        }
    }

    fn open_all(&self) -> Result<(), Failure> {
        let input = OFlag::O_RDONLY | OFlag::O_NOCTTY;
        match &self.stdin {
            Source::File(path) => child::open_as(path, input, 0),
            Source::Pipe(fd) => child::duplicate(fd.as_raw_fd(), 0),
            Source::Terminal(fd) => {
                sys::take_terminal(fd.as_raw_fd()).map_err(Stage::Terminal.failed())?;
                child::duplicate(fd.as_raw_fd(), 0)
            }
        }
        .map_err(Stage::Stdin.failed())?;
        let terminal = matches!(self.stdin, Source::Terminal(_));
        let before = if terminal { 0 } else { 1 };
        open(&self.stdout, before, 1).map_err(Stage::Stdout.failed())?;
        open(&self.stderr, before, 2).map_err(Stage::Stderr.failed())
    }

    fn exec(
        &self,
        common: &Common,
        candidates: &[CString],
        argv: &[CString],
    ) -> Result<Infallible, Failure> {
        let stopped = common.stopped;
        let name = |v: &&CString| v.as_bytes().iter().position(|b| *b == b'=');
        let is_own = |variable: &&CString| {
            let same = |own: &CString| {
                let length = name(&own).map_or(own.as_bytes().len(), |at| at + 1);
                variable.as_bytes().get(..length) == own.as_bytes().get(..length)
            };
            self.environment.iter().any(same)
        };
        let common = common.environment.iter().filter(|v| !is_own(v));
        let environment: Vec<&CStr> = common
            .chain(&self.environment)
            .map(CString::as_c_str)
            .collect();
        let pid = self.slurm.as_ref().and_then(|_| slurm::own_pid());
        let environment: Vec<&CStr> = environment.into_iter().chain(pid.as_deref()).collect();
        sys::unblock_signals();
        if stopped {
            let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP);
        }
        sys::close_at_exec_from(3);
        if let Some(fd) = &self.inherits {
            sys::keep_at_exec(fd.as_raw_fd());
        }
        let mut errno = child::exec(candidates, argv, &environment);
        if self.slurm.is_some() && slurm::none_exists(candidates) {
            errno = Errno::ENOENT;
        }
        Err(Stage::Exec.failed()(errno))
    }
}

fn open(sink: &Sink, before: RawFd, place: RawFd) -> Result<(), Errno> {
    match sink {
        Sink::File(path, flags) => child::open_as(path, *flags, place),
        Sink::Pipe(fd) => child::duplicate(fd.as_raw_fd(), place),
        Sink::AsBefore => child::duplicate(before, place),
    }
}

/// Closes everything above 2 but these: a process that executes nothing would keep the
/// pipes of its siblings open.
fn keep_only(keep: &[RawFd]) {
    let mut keep = keep.to_vec();
    keep.sort_unstable();
    sys::close_all_but(&keep);
}
