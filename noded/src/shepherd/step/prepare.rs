//! Makes the tasks of a step ready to be forked: for each the process's plan, and the
//! supervisor's ends of its pipes.

use super::binding_report::Bound;
use super::failure::Names;
use super::label::LabelledFile;
use super::pattern;
use super::plan::{Sink, Source, TaskAction, TaskPlan};
use super::receive::Receive;
use super::task::{Descriptors, Task};
use super::{environment, terminal};
use crate::bind::{self, Numa, TaskBind};
use crate::shepherd::child::{self, Variables};
use crate::shepherd::container;
use crate::shepherd::slurm::Words;
use crate::steps::StepTask;
use cosy_model::job::OpenMode;
use cosy_model::step::{InputFrom, OutputTo, StepCommand, Stream};
use cosy_model::{Dialect, OsText};
use nix::fcntl::{FcntlArg, OFlag};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;

/// Room in a pipe for output, in bytes, where tasks are few.
const PIPE: i32 = 1 << 20;
/// Up to so many tasks.
const FEW: usize = 64;

/// All tasks of a step here.
#[derive(Debug)]
pub struct Prepared {
    /// What to fork, and the supervisor's side of it.
    pub tasks: Vec<(TaskPlan, Task)>,
    /// Files that several tasks share and that are cut before the first is forked.
    pub cut: Vec<CString>,
    /// Files that the supervisor writes.
    pub labelled: Vec<LabelledFile>,
    /// Flags that these files are opened with.
    pub flags: OFlag,
}

struct Preparing<'a> {
    task: &'a StepTask,
    variables: &'a Variables,
    step: String,
    job: String,
    node: u32,
    ranks: &'a [u32],
}

/// Prepares all tasks of this node.
///
/// # Errors
/// In one line, what is wrong with the step or missing on the node.
pub fn prepare(task: &StepTask, ranks: &[u32], variables: &Variables) -> Result<Prepared, String> {
    if task.order.spec.container.is_some() {
        let files = container::files_of_step();
        container::make_files(&files, &task.allocation)
            .map_err(|e| format!("cannot make {}: {e}", files.display()))?;
    }
    let preparing = Preparing {
        task,
        variables,
        step: task.order.key.step.to_string(),
        job: task.order.key.attempt.job.to_string(),
        node: task.order.tree.first().copied().unwrap_or(0),
        ranks,
    };
    let mut binds = preparing.binds().into_iter();
    let mut tasks = ranks
        .iter()
        .enumerate()
        .map(|(place, rank)| preparing.one(place as u32, *rank, binds.next()))
        .collect::<Result<Vec<_>, _>>()?;
    let cut = match task.order.spec.open_mode {
        OpenMode::Append => Vec::new(),
        OpenMode::Truncate => share(&mut tasks),
    };
    let labelled = ranks.iter().map(|rank| preparing.labelled(*rank));
    let labelled: Result<Vec<_>, _> = labelled.collect();
    Ok(Prepared {
        tasks,
        cut,
        labelled: labelled?.concat(),
        flags: preparing.file_flags() | OFlag::O_APPEND,
    })
}

/// Files that more than one task writes are appended to, and cut once before: gives them.
fn share(tasks: &mut [(TaskPlan, Task)]) -> Vec<CString> {
    let mut users: BTreeMap<CString, u32> = BTreeMap::new();
    let sinks = |plan: &TaskPlan| {
        let name = |sink: &Sink| match sink {
            Sink::File(path, _) if path.as_c_str() != c"/dev/null" => Some(path.clone()),
            Sink::File(..) | Sink::Pipe(_) | Sink::AsBefore => None,
        };
        [name(&plan.stdout), name(&plan.stderr)]
    };
    for (plan, _) in tasks.iter() {
        for path in sinks(plan).into_iter().flatten() {
            *users.entry(path).or_default() += 1;
        }
    }
    users.retain(|_, count| *count > 1);
    for (plan, _) in tasks.iter_mut() {
        for sink in [&mut plan.stdout, &mut plan.stderr] {
            if let Sink::File(path, flags) = sink
                && users.contains_key(path)
            {
                flags.remove(OFlag::O_TRUNC);
                flags.insert(OFlag::O_APPEND);
            }
        }
    }
    users.into_keys().collect()
}

fn no_pipe(error: io::Error) -> String {
    format!("cannot make a pipe: {error}")
}

/// A pipe for what a task writes: the supervisor's end does not wait.
fn output_pipe(roomy: bool) -> io::Result<(OwnedFd, OwnedFd)> {
    let (reading, writing) = child::pipe()?;
    let (reading, writing) = (OwnedFd::from(reading), OwnedFd::from(writing));
    nix::fcntl::fcntl(&reading, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    if roomy {
        let _ = nix::fcntl::fcntl(&reading, FcntlArg::F_SETPIPE_SZ(PIPE));
    }
    Ok((reading, writing))
}

/// A pipe for what a task reads: gives the task's end, the supervisor's.
fn input_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reading, writing) = child::pipe()?;
    let writing = OwnedFd::from(writing);
    nix::fcntl::fcntl(&writing, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((OwnedFd::from(reading), writing))
}

impl Preparing<'_> {
    fn binds(&self) -> Vec<TaskBind> {
        let (share, spec) = (&self.task.share, &self.task.order.spec);
        if share.processors.is_empty() {
            return Vec::new();
        }
        let cores = self.task.order.layout.cores_per_task;
        let tasks = self.ranks.len() as u32;
        bind::plan(&share.processors, cores, tasks, spec.bind, &Numa::here())
    }

    fn one(
        &self,
        place: u32,
        rank: u32,
        bind: Option<TaskBind>,
    ) -> Result<(TaskPlan, Task), String> {
        let dialect = self.task.order.spec.dialect;
        let mut own = environment::own(dialect, self.variables, rank, place)?;
        let of_task = self.task.own.get(place as usize);
        let (groups, more) = of_task.map_or((&[][..], &[][..]), |o| (&o.groups, &o.variables));
        for variable in more {
            own.push(child::c(&variable.0)?);
        }
        let mut ends = Descriptors::default();
        let mut names = Names {
            workdir: self.task.order.spec.workdir.lossy(),
            ..Names::default()
        };
        let (stdin, stdout, stderr) = self.streams(rank, &mut ends, &mut names)?;
        let what = self.what(rank, &mut ends, &mut names)?;
        let by_mask = bind.as_ref().is_some_and(|b| !b.processors().is_empty());
        let bound = self.task.order.spec.tell_bind.then(|| Bound {
            node: self.task.allocation.node.clone(),
            by_mask,
        });
        let plan = TaskPlan {
            place,
            bound: bound.map(|bound| (rank, bound)),
            joins: child::joins(groups, None)?,
            bind,
            stdin,
            stdout,
            stderr,
            what,
            environment: own,
            inherits: None,
            slurm: (dialect == Dialect::Slurm).then(|| Words::of_task(&names.workdir, &names.what)),
        };
        Ok((plan, Task::new(rank, ends, names).in_dialect(dialect)))
    }

    fn streams(
        &self,
        rank: u32,
        ends: &mut Descriptors,
        names: &mut Names,
    ) -> Result<(Source, Sink, Sink), String> {
        let spec = &self.task.order.spec;
        if let Some(window) = spec.pty.filter(|_| rank == 0) {
            let opened = terminal::open(window, self.task.allocation.uid);
            let (own, its) = opened.map_err(|e| format!("cannot make a terminal: {e}"))?;
            ends.take_terminal(own).map_err(no_pipe)?;
            return Ok((Source::Terminal(its), Sink::AsBefore, Sink::AsBefore));
        }
        let stdin = self.stdin(rank, ends, names)?;
        let (stdout, own) = self.sink(&spec.stdout, rank, &mut names.files[1])?;
        ends.output = own;
        if self.errors_go_with_output(rank) {
            return Ok((stdin, stdout, Sink::AsBefore));
        }
        let (stderr, own) = self.sink(&spec.stderr, rank, &mut names.files[2])?;
        ends.error = own;
        Ok((stdin, stdout, stderr))
    }

    /// Both are one open file. With labels each has lines of its own.
    fn errors_go_with_output(&self, rank: u32) -> bool {
        let spec = &self.task.order.spec;
        if spec.label && matches!(spec.stdout, OutputTo::File(_)) {
            return false;
        }
        match (&spec.stdout, &spec.stderr) {
            (_, OutputTo::Output) => true,
            (OutputTo::File(a), OutputTo::File(b)) => self.file(a, rank) == self.file(b, rank),
            _ => false,
        }
    }

    /// The streams of a task that the supervisor writes to files, with labels.
    fn labelled(&self, rank: u32) -> Result<Vec<LabelledFile>, String> {
        let spec = &self.task.order.spec;
        let to = |stream, to: &OutputTo| match to {
            OutputTo::File(pattern) if spec.label && spec.pty.is_none() => {
                Some(child::c(&self.file(pattern, rank)).map(|path| LabelledFile {
                    rank,
                    stream,
                    path,
                }))
            }
            _ => None,
        };
        let of_errors = match &spec.stderr {
            OutputTo::Output => &spec.stdout,
            other => other,
        };
        let both = [
            to(Stream::Output, &spec.stdout),
            to(Stream::Error, of_errors),
        ];
        both.into_iter().flatten().collect()
    }

    fn file_flags(&self) -> OFlag {
        let how = match self.task.order.spec.open_mode {
            OpenMode::Append => OFlag::O_APPEND,
            OpenMode::Truncate => OFlag::O_TRUNC,
        };
        OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_NOCTTY | how
    }

    fn stdin(
        &self,
        rank: u32,
        ends: &mut Descriptors,
        names: &mut Names,
    ) -> Result<Source, String> {
        if self.task.reads_input(rank) {
            let (its, own) = input_pipe().map_err(no_pipe)?;
            ends.input = Some(own);
            return Ok(Source::Pipe(its));
        }
        let path = match &self.task.order.spec.stdin {
            InputFrom::File(pattern) if self.task.order.spec.pty.is_none() => {
                self.file(pattern, rank)
            }
            InputFrom::File(_) | InputFrom::All | InputFrom::Rank(_) | InputFrom::Null => {
                b"/dev/null".to_vec()
            }
        };
        names.files[0] = OsText(path.clone()).lossy();
        Ok(Source::File(child::c(&path)?))
    }

    fn file(&self, pattern: &OsText, rank: u32) -> Vec<u8> {
        let names = pattern::Names {
            rank,
            node_number: self.node,
            node: &self.task.allocation.node,
            job: &self.job,
            step: &self.step,
            user: &self.task.allocation.user,
        };
        pattern::file_name(&pattern.0, &names)
    }

    fn sink(
        &self,
        to: &OutputTo,
        rank: u32,
        name: &mut String,
    ) -> Result<(Sink, Option<OwnedFd>), String> {
        let wanted = match to {
            OutputTo::Command | OutputTo::Output => true,
            OutputTo::Rank(only) => *only == rank,
            OutputTo::File(_) => self.task.order.spec.label,
            OutputTo::Null => false,
        };
        if wanted {
            let (own, its) = output_pipe(self.ranks.len() <= FEW).map_err(no_pipe)?;
            return Ok((Sink::Pipe(its), Some(own)));
        }
        let path = match to {
            OutputTo::File(pattern) => self.file(pattern, rank),
            OutputTo::Command | OutputTo::Output | OutputTo::Rank(_) | OutputTo::Null => {
                b"/dev/null".to_vec()
            }
        };
        *name = OsText(path.clone()).lossy();
        Ok((Sink::File(child::c(&path)?, self.file_flags()), None))
    }

    fn what(
        &self,
        rank: u32,
        ends: &mut Descriptors,
        names: &mut Names,
    ) -> Result<TaskAction, String> {
        match self.task.program_of(rank) {
            Some((StepCommand::Run { argv, expand }, offset)) => {
                self.run(argv, expand.then_some((rank, offset)), names)
            }
            Some((
                StepCommand::Receive {
                    path,
                    mode,
                    force,
                    times,
                },
                _,
            )) => {
                names.what = path.lossy();
                let (its, own) = input_pipe().map_err(no_pipe)?;
                ends.whole = Some(own);
                Receive::new(path, *mode, *force, *times, its).map(TaskAction::Receive)
            }
            None => Err(format!("no program of the step is for task {rank}")),
        }
    }

    fn run(
        &self,
        argv: &[OsText],
        expand: Option<(u32, u32)>,
        names: &mut Names,
    ) -> Result<TaskAction, String> {
        let words = argv.iter().map(|word| match expand {
            Some((rank, offset)) => pattern::argument(&word.0, rank, offset),
            None => word.0.clone(),
        });
        let mut words: Vec<Vec<u8>> = words.collect();
        let Some(name) = words.first().filter(|name| !name.is_empty()) else {
            return Err("the step names no program".to_owned());
        };
        names.what = String::from_utf8_lossy(name).into_owned();
        let path = self.variables.get(&b"PATH"[..]);
        let none = match self.task.order.spec.dialect {
            Dialect::Cosy => child::DEFAULT_PATH,
            Dialect::Slurm => {
                if name.starts_with(b".") {
                    names.what = format!("{}/{}", names.workdir, names.what);
                }
                b"/nonexistent"
            }
        };
        let path = path.map_or(none, Vec::as_slice);
        if self.task.order.spec.container.is_some() {
            words.splice(..0, container::before()?);
        }
        let name = words.first().map_or(&[][..], Vec::as_slice);
        Ok(TaskAction::Run {
            candidates: child::candidates(name, path)?,
            argv: words
                .iter()
                .map(|w| child::c(w))
                .collect::<Result<_, _>>()?,
        })
    }
}

impl StepTask {
    /// The task of this rank gets what the command reads.
    pub(super) fn reads_input(&self, rank: u32) -> bool {
        let spec = &self.order.spec;
        if spec.pty.is_some() {
            return rank == 0;
        }
        match &spec.stdin {
            InputFrom::All => true,
            InputFrom::Rank(only) => *only == rank,
            InputFrom::File(_) | InputFrom::Null => false,
        }
    }

    /// What the task of this rank does, and its place among those that do the same.
    pub(super) fn program_of(&self, rank: u32) -> Option<(&StepCommand, u32)> {
        self.order.spec.programs.iter().find_map(|program| {
            if program.ranks.is_empty() {
                return Some((&program.command, rank));
            }
            let mut before = 0u32;
            for &(first, last) in &program.ranks {
                if (first..=last).contains(&rank) {
                    return Some((&program.command, before.saturating_add(rank - first)));
                }
                let count = last.saturating_sub(first).saturating_add(1);
                before = before.saturating_add(count);
            }
            None
        })
    }
}
