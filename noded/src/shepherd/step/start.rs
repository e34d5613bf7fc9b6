//! Forks the tasks of a step: everything is prepared first, then all are forked, so that
//! many start nearly at once.

use super::environment;
use super::label::{self, Labels};
use super::plan::{Common, TaskPlan};
use super::prepare::{self, Prepared};
use super::task::Task;
use super::writer::Writer;
use crate::cgroup::Group;
use crate::shepherd::child;
use crate::steps::StepTask;
use crate::sys::{self, Fork};
use cosy_proto::lines;
use nix::fcntl::{FcntlArg, OFlag};
use nix::unistd::Pid;
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
}

/// Tasks that are ready to be forked as soon as their files are open.
#[derive(Debug)]
pub struct PreparedTasks {
    tasks: Vec<(TaskPlan, Task)>,
    common: Common,
    group: Option<File>,
}

/// Prepares the tasks of `ranks`. `more` adds to the plan of one task what only the caller
/// knows. Gives also the streams that are written with labels; while those are opening the
/// tasks must not be forked.
///
/// # Errors
/// In one line, why none can be forked.
pub fn begin(
    task: &StepTask,
    ranks: &[u32],
    mut more: impl FnMut(&mut TaskPlan, &Task) -> Result<(), String>,
) -> Result<(PreparedTasks, Labels), String> {
    let descriptors = enough_descriptors(ranks.len());
    let variables = environment::common(task);
    let unified = task.groups.iter().find(|g| g.unified).map(Group::path);
    let group = unified.as_ref().and_then(|path| File::open(path).ok());
    let initial_group = unified.as_deref().filter(|_| group.is_some());
    let common = Common::new(task, &variables, initial_group, descriptors)?;
    let Prepared {
        mut tasks,
        cut,
        labelled,
        flags,
    } = prepare::prepare(task, ranks, &variables)?;
    for (plan, task) in &mut tasks {
        more(plan, task)?;
    }
    let orders = label::orders(&labelled, flags, cut);
    let labels = match orders.is_empty() {
        true => Labels::default(),
        false => {
            let width = lines::width(task.order.layout.tasks);
            Labels::new(&labelled, width, Writer::start(&common, orders)?)
        }
    };
    let begun = PreparedTasks {
        tasks,
        common,
        group,
    };
    Ok((begun, labels))
}

impl PreparedTasks {
    /// Forks them.
    ///
    /// # Errors
    /// In one line, why none was forked.
    pub fn fork(mut self, task: &StepTask) -> Result<Started, String> {
        let (reading, writing) = child::pipe().map_err(|e| format!("cannot make a pipe: {e}"))?;
        let _ = nix::fcntl::fcntl(&reading, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
        let mut forked = Vec::with_capacity(self.tasks.len());
        for (plan, mut its) in self.tasks {
            match fork(&plan, &mut self.group, &mut self.common, task, &writing) {
                Ok(pid) => its.pid = Some(pid),
                Err(reason) => its.end = Some(super::task::never_ran(reason)),
            }
            forked.push(its);
        }
        Ok(Started {
            tasks: forked,
            failures: reading.into(),
        })
    }
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
            // Kernels before 5.7 start no process in a group: join it instead.
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
