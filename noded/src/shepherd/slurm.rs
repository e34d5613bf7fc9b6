//! What a job of Slurm's dialect finds and is told: `SLURM_*` variables, files and working
//! directory as Slurm opens them, and sentences in its error output.
//!
//! What happens between fork and exec is prepared here before the fork. What the shepherd
//! itself says into the job's file is written by a process of its own that has become the
//! user, because root may not be able to reach that file.

use super::child::{self, Identity, Variables, c};
use super::user_process::UserProcess;
use crate::spool::Task;
use crate::sys;
use cosy_model::variables::{CONTROLLER, value_of};
use cosy_model::{Dialect, OsText, Program, Time};
use cosy_slurm::end_messages::{self, EndReason};
use cosy_slurm::environment::{self, AllocationFacts};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use std::ffi::CString;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Where a job goes whose working directory cannot be entered.
pub(super) const OTHER_WORKDIR: &std::ffi::CStr = c"/tmp";
/// What Slurm shows in the place of a signal for a job that could not be started.
pub(super) const NOT_STARTED: i32 = 53;
/// How long a sentence may take to be written before what it announces is done anyway.
const PATIENCE: Duration = Duration::from_millis(200);

/// True for a job that is spoken to in Slurm's words.
pub fn is(task: &Task) -> bool {
    task.launch.dialect == Dialect::Slurm
}

/// Adds what a batch script finds. Nothing that its user has set is lost but what bears
/// the same name.
pub(super) fn add_variables(task: &Task, all: &mut Variables) {
    let launch = &task.launch;
    let Some(mut facts) = AllocationFacts::read(&launch.environment.0) else {
        return;
    };
    facts.controller = controller(&task.variables);
    let mut ours = facts.batch(&launch.allocation.node);
    let shards = launch.allocation.shards();
    environment::gpus(&launch.allocation.gpus, shards, &mut ours);
    for (name, value) in ours.0 {
        all.insert(name.into_owned().into_bytes(), value.into_bytes());
    }
    all.entry(b"TMPDIR".into())
        .or_insert_with(|| b"/tmp".into());
}

/// Where the controller is, as the node's own variables tell it.
fn controller(variables: &[OsText]) -> Option<String> {
    let mut values = variables.iter().filter_map(|v| value_of(&v.0, CONTROLLER));
    Some(String::from_utf8_lossy(values.next()?).into_owned())
}

/// A name relative to the working directory as one from the root: Slurm's jobs may begin in
/// another directory than the one that their files are named from.
pub(super) fn absolute(task: &Task, name: &OsText) -> OsText {
    if name.is_empty() || name.0.starts_with(b"/") {
        return name.clone();
    }
    OsText([&task.launch.workdir.0[..], b"/", &name.0].concat())
}

/// Sentences that a job's process may have to say before its program runs.
#[derive(Clone, Debug)]
pub(super) struct Words {
    workdir: String,
    interpreter: Option<String>,
    program: String,
}

impl Words {
    /// For a job in `directory` of the spool.
    pub(super) fn new(task: &Task, directory: &Path) -> Self {
        let launch = &task.launch;
        let (interpreter, program) = match &launch.program {
            Program::Script { name, .. } => {
                let script = crate::spool::script(directory, launch.dialect);
                (super::child::interpreter(&script), name.lossy())
            }
            Program::Command { argv } => {
                let first = argv.first().map(OsText::lossy);
                (None, first.unwrap_or_default())
            }
            Program::Allocation => (None, String::new()),
        };
        Self {
            workdir: launch.workdir.lossy(),
            interpreter,
            program,
        }
    }

    /// For a task of a step.
    pub(super) fn of_task(workdir: &str, program: &str) -> Self {
        Self {
            workdir: workdir.to_owned(),
            interpreter: None,
            program: program.to_owned(),
        }
    }

    /// The working directory could not be entered: in Slurm the supervisor says so and then
    /// every task; the first here speaks for both.
    pub(super) fn no_workdir(&self, errno: Errno, first: bool) {
        let text = end_messages::no_workdir(&self.workdir, sys::errno_text(errno as i32));
        say(&text.repeat(1 + usize::from(first)));
    }

    /// The program could not be executed.
    pub(super) fn no_program(&self, errno: Errno) {
        let cause = sys::errno_text(errno as i32);
        say(&match &self.interpreter {
            Some(path) => end_messages::no_interpreter(path, cause),
            None => end_messages::no_program(&self.program, cause),
        });
    }
}

/// What is not there cannot be forbidden, even where a folder on the way is.
pub(super) fn none_exists(candidates: &[CString]) -> bool {
    use nix::unistd::{AccessFlags, access};
    candidates.len() > 1
        && candidates
            .iter()
            .all(|path| access(path.as_c_str(), AccessFlags::F_OK).is_err())
}

fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// `SLURM_TASK_PID` of this process.
pub(super) fn own_pid() -> Option<CString> {
    CString::new(format!("SLURM_TASK_PID={}", nix::unistd::getpid())).ok()
}

/// Tells the job in its error output why it is being ended.
pub(super) fn tell(task: &Task, why: EndReason, now: Time) {
    write(task, &cancelled(task, why, now), OFlag::empty());
}

/// The same when the job is over and may never have opened its output.
pub(super) fn tell_late(task: &Task, why: EndReason, now: Time) {
    write(task, &cancelled(task, why, now), OFlag::O_CREAT);
}

fn cancelled(task: &Task, why: EndReason, now: Time) -> String {
    let allocation = &task.launch.allocation;
    let (job, node) = (allocation.key.number(), &allocation.node);
    end_messages::job_cancelled(job, node, &sys::local_time(now), why)
}

/// Tells the job in its error output that processes of it were killed for want of memory.
pub(super) fn tell_starved(task: &Task, kills: u64) {
    let step = format!("{}.batch", task.launch.allocation.key.number());
    write(task, &end_messages::out_of_memory(&step, kills), OFlag::empty());
}

/// Tells the job in its error output what people say, each in a line.
pub(super) fn tell_notes(task: &Task, notes: &str) {
    let line = |text| match task.launch.dialect {
        Dialect::Slurm => end_messages::error(text),
        Dialect::Cosy => format!("cosy: {text}\n"),
    };
    let text: String = notes.lines().map(line).collect();
    if !text.is_empty() {
        write(task, &text, OFlag::empty());
    }
}

/// Adds to the job's error output, not longer than a moment: a file system that hangs or a
/// process that its user has stopped must not keep the job alive.
fn write(task: &Task, text: &str, how: OFlag) {
    let launch = &task.launch;
    let allocation = &launch.allocation;
    let name = match launch.stderr.is_empty() {
        true => &launch.stdout,
        false => &launch.stderr,
    };
    let Ok(path) = c(&absolute(task, name).0) else {
        return;
    };
    let identity = Identity::of(allocation);
    let limits = child::limits(&launch.rlimits);
    let writing = UserProcess::start(|| {
        sys::block_all_signals();
        if identity.is_none_or(|i| i.take().is_ok()) {
            for (resource, soft, hard) in limits {
                sys::limit_resource(resource, soft, hard);
            }
            nix::sys::stat::umask(Mode::from_bits_truncate(launch.umask & 0o777));
            append(&path, text.as_bytes(), how);
        }
    });
    if let Ok(writing) = writing {
        writing.wait(PATIENCE);
    }
}

fn append(path: &CString, text: &[u8], how: OFlag) {
    let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_NOCTTY | OFlag::O_NONBLOCK;
    let flags = flags | OFlag::O_CLOEXEC | how;
    let mode = Mode::from_bits_truncate(0o666);
    if let Ok(file) = nix::fcntl::open(path.as_c_str(), flags, mode) {
        let _ = nix::unistd::write(&file, text);
    }
}
