//! Makes the request for a step out of the options of `cosy run` or `srun`.

use super::display::{self, real::RealDisplay};
use super::files::{self, StreamTarget, error, output};
use super::input::{Input, InputSource};
use super::multiprog;
use super::options::RunOptions;
use super::{mpi, step_socket, tty};
use crate::job_options::JobOptions;
use crate::{exit, submitter};
use anyhow::{Context as _, anyhow};
use cosy_model::job::MemoryRequest;
use cosy_model::limits::{ARGUMENTS, NAME_BYTES};
use cosy_model::step::{DisplayRequest, InputFrom, StepCommand, StepProgram, StepSpec};
use cosy_model::{Container, Dialect, OsText, Span, variables};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Time between SIGTERM and SIGKILL when a step is ended.
const GRACE: Span = Span::from_secs(5);

/// A request for a step, and what the command does with the step's streams.
pub struct StepRequest {
    /// What the node daemon is asked for.
    pub spec: StepSpec,
    /// Target of the tasks' standard output.
    pub output: StreamTarget,
    /// Target of the tasks' standard error.
    pub error: StreamTarget,
    /// Input that the command reads for the tasks; files of it are open already.
    pub input: Option<Input>,
    /// Display that windows of the step are shown on.
    pub display: Option<RealDisplay>,
}

/// The request for the step that the options describe.
///
/// # Errors
/// Files that cannot be read, options that make no sense.
pub fn step(options: &RunOptions) -> anyhow::Result<StepRequest> {
    let (mut programs, tasks) = programs(options)?;
    let name = name(&options.job, &programs);
    let out = output(options.job.output.as_ref(), &name);
    let err = error(options.job.error.as_ref(), &out, &name);
    let from = files::input(options.job.input.as_ref(), &name);
    let workdir = submitter::workdir(options.job.chdir.as_deref()).map_err(|e| anyhow!(e))?;
    let alone = tasks == Some(1);
    let wireup = mpi::wireup(options.mpi.as_deref(), alone, &programs, &workdir)?;
    if let Some(copy) = &options.copy {
        run_copy(&mut programs, copy);
    }
    let job = &options.job;
    let (request, display) = display(options)?.unzip();
    let spec = StepSpec {
        name,
        programs,
        nodes: job.nodes,
        tasks,
        tasks_per_node: job.tasks_per_node,
        cores_per_task: job.cores_per_task,
        gpus_per_task: options.gpus_per_task.as_ref().map_or(0, |g| g.count),
        gpu_bind: options.gpu_bind.clone(),
        gpus_per_node: job.gpus.as_ref().map(|g| g.count),
        memory: memory(job)?,
        require: job.require.clone(),
        avoid: job.avoid.clone(),
        distribution: options.distribution,
        places: options.places.clone(),
        bind: options.bind,
        overlap: options.overlap || options.overcommit,
        overcommit: options.overcommit,
        patience: options.max_wait,
        time_limit: job.time,
        grace: GRACE,
        workdir,
        environment: environment(job)?,
        umask: submitter::umask(),
        rlimits: submitter::rlimits(),
        stdin: from.remote.clone(),
        stdout: out.remote.clone(),
        stderr: err.remote.clone(),
        open_mode: job.open_mode.unwrap_or_default(),
        pty: options.pty.then(tty::window),
        wireup,
        dialect: Dialect::Cosy,
        warn: None,
        keep_counts: false,
        label: options.label,
        stopped: options.stopped,
        tell_bind: options.tell_bind,
        container: container(job)?,
        display: request,
    };
    let input = open_input(&from, &spec.workdir)?;
    Ok(StepRequest {
        spec,
        output: out,
        error: err,
        input,
        display,
    })
}

/// The display that windows are shown on, where that was asked for with the step or with the
/// allocation around it.
fn display(options: &RunOptions) -> anyhow::Result<Option<(DisplayRequest, RealDisplay)>> {
    let job = options.inside.or_else(step_socket::current_job);
    let nodes = display::nodes(options.x11, job);
    let found = nodes.map(|nodes| display::real::find(nodes, options.dialect));
    found.transpose()
}

/// Opens the input that the command reads for the tasks; `None` where supervisors open files.
fn open_input(from: &files::StreamSource, workdir: &OsText) -> anyhow::Result<Option<Input>> {
    match from.remote {
        InputFrom::File(_) | InputFrom::Null => return Ok(None),
        InputFrom::All | InputFrom::Rank(_) => {}
    }
    let Some(name) = &from.file else {
        return Ok(Some(Input::new(InputSource::Own)));
    };
    let path = Path::new(OsStr::from_bytes(&workdir.0)).join(OsStr::from_bytes(&name.0));
    let file = std::fs::File::open(&path)
        .with_context(|| format!("cannot open '{}' for the input", path.display()))?
        .into();
    Ok(Some(Input::new(InputSource::File { file, size: None })))
}

/// The variables of this process that a step or a shell gets (`--env`), separated by NUL.
///
/// # Errors
/// Larger than the limit.
pub fn environment(job: &JobOptions) -> anyhow::Result<OsText> {
    submitter::environment(&job.env_items(), std::env::vars_os()).map_err(|e| anyhow!(e))
}

/// The container that these options describe.
///
/// # Errors
/// What is wrong with one of them.
pub fn container(job: &JobOptions) -> anyhow::Result<Option<Box<Container>>> {
    let container = job.container.container().map_err(exit::usage)?;
    Ok(container.map(Box::new))
}

fn memory(job: &JobOptions) -> anyhow::Result<Option<cosy_model::MiB>> {
    match job.memory {
        None | Some(MemoryRequest::QueueDefault) => Ok(None),
        Some(MemoryRequest::PerNode(size)) => Ok(Some(size)),
        Some(MemoryRequest::PerCore(_)) => Err(exit::usage(
            "--mem-per-core is for jobs; a step inside a job takes --mem, memory on each node",
        )),
    }
}

fn programs(options: &RunOptions) -> anyhow::Result<(Vec<StepProgram>, Option<u32>)> {
    if let Some(file) = &options.multi_prog {
        let shown = file.display().to_string();
        let text = read(file).map_err(|e| match options.dialect {
            Dialect::Cosy => e,
            Dialect::Slurm => {
                SrunErrorLines(vec![format!("Could not open multi_prog config file {shown}")])
                    .into()
            }
        })?;
        let parsed = multiprog::parse(&text, ranks(options));
        return parsed.map_err(|error| match options.dialect {
            Dialect::Cosy => exit::usage(multiprog::in_file(&shown, &error)),
            Dialect::Slurm => SrunErrorLines(error.as_slurm(&shown)).into(),
        });
    }
    let n = options.command.len();
    if n > ARGUMENTS {
        return Err(anyhow!("{n} arguments are too many; at most {ARGUMENTS} are allowed"));
    }
    let words = options.command.iter().cloned();
    let argv = words.map(|w| OsText(OsString::into_vec(w))).collect();
    let command = StepCommand::Run {
        argv,
        expand: false,
    };
    let ranks = Vec::new();
    Ok((vec![StepProgram { ranks, command }], options.job.tasks))
}

/// Puts the copy of the program in its place. Name and wire-up were told by the program itself.
fn run_copy(programs: &mut [StepProgram], copy: &OsStr) {
    for program in programs {
        if let StepCommand::Run { argv, .. } = &mut program.command
            && let Some(first) = argv.first_mut()
        {
            *first = OsText(copy.as_bytes().to_vec());
        }
    }
}

/// What is wrong with a file of `--multi-prog`, in the lines of `srun`.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct SrunErrorLines(pub Vec<String>);

/// Number of tasks, as far as it is known before the node daemon decides.
fn ranks(options: &RunOptions) -> Option<u32> {
    let job = &options.job;
    if job.tasks.is_some() || job.nodes.is_some() || job.tasks_per_node.is_some() {
        return job.tasks;
    }
    let inside = options.inside.is_none() && step_socket::current_job().is_some();
    let of_the_job = || std::env::var(variables::TASKS).ok()?.parse().ok();
    inside.then(of_the_job).flatten()
}

fn read(file: &Path) -> anyhow::Result<String> {
    use std::io::Read;
    let shown = file.display();
    let mut text = String::new();
    let opened = std::fs::File::open(file).with_context(|| format!("cannot open '{shown}'"))?;
    let most = multiprog::FILE_BYTES as u64;
    opened
        .take(most + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read '{shown}'"))?;
    if text.len() as u64 > most {
        return Err(anyhow!("'{shown}' has more than {most} bytes"));
    }
    Ok(text)
}

/// The name of the step: as given, else that of the first program.
fn name(job: &JobOptions, programs: &[StepProgram]) -> String {
    if let Some(name) = &job.name {
        return name.clone();
    }
    match programs.first().map(|p| &p.command) {
        Some(StepCommand::Run { argv, .. }) => base_name(argv.first()),
        Some(StepCommand::Receive { .. }) | None => "step".to_owned(),
    }
}

fn base_name(path: Option<&OsText>) -> String {
    let path = path.map(OsText::lossy).unwrap_or_default();
    let base = path.rsplit('/').find(|p| !p.is_empty()).unwrap_or("step");
    let mut name: String = base
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    while name.len() > NAME_BYTES {
        name.pop();
    }
    name
}
