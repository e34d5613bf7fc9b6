//! Forks the tasks of a step: everything is prepared first, then all are forked, so that
//! many start nearly at once.

use super::environment;
use super::label::Labels;
use super::plan::{Common, TaskPlan};
use super::prepare::{self, Prepared};
use super::task::Task;
use crate::cgroup::Group;
use crate::shepherd::child;
use crate::steps::StepTask;
use crate::sys::{self, Fork};
use cosy_proto::lines;
use nix::fcntl::{FcntlArg, OFlag};
use nix::unistd::Pid;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

/// Descriptors that a supervisor needs for each task, and beside.
const DESCRIPTORS: (u64, u64) = (8, 512);

/// The tasks, forked.
#[derive(Debug)]
pub struct Started {
    /// All of this node, by place.
    pub tasks: Vec<Task>,
    /// Where they tell what failed before their program ran.
    pub failures: OwnedFd,
    /// Files that the supervisor writes for them.
    pub labels: Labels,
}

/// Prepares and forks the tasks of `ranks`. `more` adds to the plan of one task what
/// only the caller knows.
///
/// # Errors
/// In one line, why none was forked.
pub fn start(
    task: &StepTask,
    ranks: &[u32],
    mut more: impl FnMut(&mut TaskPlan, &Task) -> Result<(), String>,
) -> Result<Started, String> {
    let descriptors = enough_descriptors(ranks.len());
    let variables = environment::common(task);
    let unified = task.groups.iter().find(|g| g.unified).map(Group::path);
    let group = unified.as_ref().and_then(|path| File::open(path).ok());
    let born = unified.as_deref().filter(|_| group.is_some());
    let mut common = Common::new(task, &variables, born, descriptors)?;
    let Prepared {
        mut tasks,
        cut,
        labelled,
        flags,
    } = prepare::prepare(task, ranks, &variables)?;
    for (plan, task) in &mut tasks {
        more(plan, task)?;
    }
    if !cut.is_empty() {
        cut_files(&common, &cut);
    }
    let width = lines::width(task.order.layout.tasks);
    let labels = match labelled.is_empty() {
        true => Labels::default(),
        false => Labels::open(labelled, flags, width, &common)?,
    };
    let (reading, writing) = child::pipe().map_err(|e| format!("cannot make a pipe: {e}"))?;
    let _ = nix::fcntl::fcntl(&reading, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
    let mut group = group;
    let mut forked = Vec::with_capacity(tasks.len());
    for (plan, mut its) in tasks {
        match fork(&plan, &mut group, &mut common, task, &writing) {
            Ok(pid) => its.pid = Some(pid),
            Err(reason) => its.end = Some(super::task::never_ran(reason)),
        }
        forked.push(its);
    }
    Ok(Started {
        tasks: forked,
        failures: reading.into(),
        labels,
    })
}

/// Many tasks need many descriptors: gives the limits that tasks are to have again.
fn enough_descriptors(tasks: usize) -> Option<(u64, u64)> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let wanted = (tasks as u64).saturating_mul(DESCRIPTORS.0) + DESCRIPTORS.1;
    if soft >= wanted {
        return None;
    }
    setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard).ok()?;
    Some((soft, hard))
}

fn fork(
    plan: &TaskPlan,
    group: &mut Option<File>,
    common: &mut Common,
    task: &StepTask,
    failures: &File,
) -> Result<Pid, String> {
    loop {
        // SAFETY: a supervisor has one thread.
        match unsafe { sys::fork_into(group.as_ref().map(AsRawFd::as_raw_fd)) } {
            Ok(Fork::Parent(pid)) => return Ok(pid),
            Ok(Fork::Child) => plan.run(common, failures),
            // Kernels before 5.7 know no birth in a group: join it instead.
            Err(_) if group.is_some() => {
                *group = None;
                common.joins_all(task)?;
            }
            Err(e) => {
                let node = &task.allocation.node;
                return Err(format!("cannot make a process on {node}: {e}"));
            }
        }
    }
}

/// As the user, in a process of its own that is waited for.
fn cut_files(common: &Common, files: &[CString]) {
    // SAFETY: a supervisor has one thread.
    match unsafe { sys::fork_into(None) } {
        Ok(Fork::Child) => common.cut(files),
        Ok(Fork::Parent(pid)) => drop(nix::sys::wait::waitpid(pid, None)),
        Err(_) => {}
    }
}
