//! Makes the request for a step out of the options of `srun`.

use super::request::SrunOptions;
use super::step_options::StepOptions;
use crate::exit;
use crate::job_options::JobOptions;
use crate::launch::files::StreamTarget;
use crate::launch::interrupt::InterruptMode;
use crate::launch::options::RunOptions;
use crate::launch::spec::{self, SrunErrorLines, StepRequest};
use crate::launch::supervisors;
use cosy_model::device::GpuRequest;
use cosy_model::job::MemoryRequest;
use cosy_model::step::{Bind, Distribution, GpuBind, StepCommand};
use cosy_model::{Dialect, OsText, Span, expand};
use cosy_slurm::geometry::Layout;
use cosy_slurm::submit::binding::{self, BindTarget, CpuBind};
use cosy_slurm::submit::distribution::{self, Nodes};
use cosy_slurm::submit::options::{Memory, SubmitOptions};
use cosy_slurm::submit::{Fault, Line};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

/// The shape of a step; `None`: that of the whole job.
pub type StepShape = Option<Layout>;

/// The same request in options of `cosy run`; `inside`: in a job that runs already.
///
/// # Errors
/// Values that cannot be read.
pub fn options(
    srun_options: &SrunOptions,
    shape: &StepShape,
    inside: bool,
) -> Result<RunOptions, Fault> {
    let (step_options, job_options) = (&srun_options.step_options, &srun_options.job_options);
    // In a running job only the resources on the command line are about the step.
    let resource_options = if inside {
        &srun_options.line
    } else {
        &SubmitOptions::default()
    };
    let layout = shape.as_ref();
    // A list of programs must know how many tasks there will be.
    let listed = job_options.tasks.filter(|_| step_options.multi_prog);
    let job = JobOptions {
        nodes: layout.map(|l| l.nodes),
        tasks: layout.map(|l| l.tasks).or(listed),
        tasks_per_node: layout.and_then(|l| l.tasks_per_node),
        cores_per_task: layout.map(|l| l.cores_per_task),
        memory: memory(resource_options),
        gpus: gpus_of_nodes(resource_options, layout.map_or(1, |l| l.nodes))?,
        require: hosts(resource_options.nodelist.as_deref())?,
        avoid: hosts(resource_options.exclude.as_deref())?,
        time: resource_options.time,
        name: job_options.name.clone(),
        output: text(&job_options.output),
        error: text(&job_options.error),
        input: text(&job_options.input),
        open_mode: job_options.open_mode,
        chdir: job_options.chdir.clone(),
        container: job_options.container.clone(),
        quiet: job_options.quiet,
        ..JobOptions::default()
    };
    Ok(RunOptions {
        job,
        inside: step_options.job,
        gpus_per_task: gpus(job_options.gpus_per_task.as_ref())?,
        gpu_bind: gpu_bind(job_options, step_options)?,
        distribution: distribution(job_options.distribution.as_ref()),
        bind: bind(step_options.cpu_bind.as_ref()),
        overlap: step_options.overlap,
        overcommit: job_options.overcommit,
        max_wait: step_options.immediate.filter(|_| inside).map(span),
        label: step_options.label,
        unbuffered: step_options.unbuffered,
        kill_on_bad_exit: step_options.kill_on_bad_exit,
        multi_prog: program_file(srun_options),
        pty: step_options.pty,
        x11: step_options.x11,
        mpi: mpi(step_options),
        command: if step_options.multi_prog {
            Vec::new()
        } else {
            srun_options.command.clone()
        },
        verbose: job_options.verbose > 0,
        tell_bind: step_options.cpu_bind.as_ref().is_some_and(|b| b.verbose),
        dialect: Dialect::Slurm,
        supervisors: step_options.supervisors.min(supervisors::HIGHEST_LEVEL),
        stopped: step_options.stopped,
        interrupts: interrupt_mode(step_options),
        wait: step_options.wait,
        ..RunOptions::default()
    })
}

/// The file that says which task runs which program.
fn program_file(srun_options: &SrunOptions) -> Option<PathBuf> {
    let file = srun_options.command.first().map(PathBuf::from);
    file.filter(|_| srun_options.step_options.multi_prog)
}

fn span(length: Duration) -> Span {
    Span::from_secs(i64::try_from(length.as_secs()).unwrap_or(i64::MAX))
}

fn interrupt_mode(step_options: &super::step_options::StepOptions) -> InterruptMode {
    match (step_options.quit_on_interrupt, step_options.disable_status) {
        (true, _) => InterruptMode::End,
        (false, true) => InterruptMode::PassOn,
        (false, false) => InterruptMode::Report,
    }
}

/// The request for the step, with these variables.
///
/// # Errors
/// Files that cannot be read, a program that is none.
pub fn request(
    srun_options: &SrunOptions,
    options: &RunOptions,
    environment: OsText,
) -> Result<StepRequest, Fault> {
    let request = spec::step(options).map_err(|e| match e.downcast::<SrunErrorLines>() {
        Ok(SrunErrorLines(lines)) => Fault {
            lines: lines.into_iter().map(Line::Error).collect(),
            code: exit::FAILED,
        },
        Err(e) => Fault::error(format!("{e:#}")),
    })?;
    let mut request = with_names(request);
    let spec = &mut request.spec;
    spec.dialect = Dialect::Slurm;
    spec.environment = environment;
    spec.warn = srun_options.line.signal;
    spec.keep_counts = srun_options.step_options.preserve;
    let propagate = &srun_options.job_options.propagate;
    spec.rlimits = spec
        .rlimits
        .iter()
        .filter(|(name, ..)| propagate.takes(name))
        .cloned()
        .collect();
    let own = &srun_options.step_options;
    if own.task_prolog.is_some() || own.task_epilog.is_some() {
        wrap(srun_options, spec.programs.iter_mut().map(|p| &mut p.command));
    }
    Ok(request)
}

/// The shell script around each task: it runs the user's programs before and after the task,
/// carries out the output of the first (`export NAME=value`, `unset NAME`, `print TEXT`), and ends
/// with the exit code of the task. The second has a few seconds. Texts: capture of `srun
/// --task-prolog`.
const AROUND_TASKS: &str = include_str!("around_tasks.sh");

/// Puts this script around each task.
fn wrap<'a>(srun_options: &SrunOptions, commands: impl Iterator<Item = &'a mut StepCommand>) {
    let text = |program: &Option<String>| OsText::from(program.clone().unwrap_or_default());
    for command in commands {
        if let StepCommand::Run { argv, .. } = command {
            let before = ["/bin/sh", "-c", AROUND_TASKS, "srun"].map(OsText::from);
            let around = [
                text(&srun_options.step_options.task_prolog),
                text(&srun_options.step_options.task_epilog),
            ];
            let rest = std::mem::take(argv);
            *argv = before.into_iter().chain(around).chain(rest).collect();
        }
    }
}

/// Names of files may hold what only the job's variables tell: `%A`, `%a`.
fn with_names(mut request: StepRequest) -> StepRequest {
    use crate::launch::files::LocalTarget;
    use cosy_model::step::OutputTo;
    let replace = |target: &mut StreamTarget| {
        if let LocalTarget::File(pattern) = &mut target.local {
            *pattern = array_names(pattern);
        }
        if let OutputTo::File(pattern) = &mut target.remote {
            *pattern = array_names(pattern);
        }
    };
    replace(&mut request.output);
    replace(&mut request.error);
    request.spec.stdout = request.output.remote.clone();
    request.spec.stderr = request.error.remote.clone();
    request
}

fn array_names(pattern: &OsText) -> OsText {
    let variable = |name: &str| std::env::var_os(name).map(OsString::into_vec);
    let mut out = Vec::with_capacity(pattern.0.len());
    let mut rest = &pattern.0[..];
    while let Some(at) = rest.iter().position(|b| *b == b'%') {
        out.extend_from_slice(&rest[..at]);
        let name = match rest.get(at + 1) {
            Some(b'A') => variable("SLURM_ARRAY_JOB_ID"),
            Some(b'a') => variable("SLURM_ARRAY_TASK_ID"),
            _ => None,
        };
        let end = (at + 2).min(rest.len());
        match name {
            Some(value) => out.extend(value),
            None => out.extend_from_slice(&rest[at..end]),
        }
        rest = &rest[end..];
    }
    out.extend_from_slice(rest);
    OsText(out)
}

fn text(value: &Option<OsString>) -> Option<OsText> {
    let value = value.as_ref().filter(|v| !v.is_empty())?;
    Some(OsText(value.as_bytes().to_vec()))
}

fn memory(job_options: &SubmitOptions) -> Option<MemoryRequest> {
    match job_options.memory {
        Memory::PerNode(size) if size.0 > 0 => Some(MemoryRequest::PerNode(size)),
        Memory::PerNode(_) | Memory::Default | Memory::PerCore(_) | Memory::PerGpu(_) => None,
    }
}

/// GPUs of the step on each of so many nodes; 0 on each leaves it to `--gpus`.
fn gpus_of_nodes(
    resource_options: &SubmitOptions,
    nodes: u32,
) -> Result<Option<GpuRequest>, Fault> {
    let each = gpus(resource_options.gpus_per_node.as_ref())?.filter(|g| g.count > 0);
    let of_all = gpus(resource_options.gpus.as_ref())?;
    Ok(each.or(of_all.map(|all| GpuRequest {
        count: all.count.div_ceil(nodes.max(1)),
        ..all
    })))
}

fn gpus(text: Option<&String>) -> Result<Option<GpuRequest>, Fault> {
    let Some(text) = text else { return Ok(None) };
    // A step inside takes a number; types were chosen with the job.
    let count = text.rsplit(':').next().unwrap_or(text);
    let read = count.parse().map(Some);
    read.map_err(|_| Fault::error("Invalid generic resource (gres) specification"))
}

fn hosts(list: Option<&str>) -> Result<Vec<String>, Fault> {
    let Some(list) = list else {
        return Ok(Vec::new());
    };
    expand(list).map_err(|_| Fault::error("Invalid node name specified"))
}

fn distribution(option: Option<&distribution::Distribution>) -> Distribution {
    match option.map(|d| d.nodes).unwrap_or_default() {
        Nodes::Block | Nodes::Arbitrary => Distribution::Block,
        Nodes::Cyclic => Distribution::Cyclic,
        Nodes::Plane(size) => Distribution::Plane(size),
    }
}

fn gpu_bind(job_options: &SubmitOptions, step_options: &StepOptions) -> Result<GpuBind, Fault> {
    match &job_options.gpu_bind {
        Some(text) => binding::gpus(text),
        None => Ok(step_options.accelerators.clone()),
    }
}

fn mpi(step_options: &StepOptions) -> Option<String> {
    let words = step_options.mpi.as_deref();
    let kind = words.and_then(super::request::wireup).flatten();
    kind.map(str::to_owned)
}

/// What tasks are bound to; without the option to all cores of the step, as in Slurm without a
/// plugin for affinity.
fn bind(option: Option<&CpuBind>) -> Bind {
    match option.map(|b| b.target).unwrap_or_default() {
        BindTarget::Cores => Bind::Cores,
        BindTarget::Sockets => Bind::Numa,
        BindTarget::Nothing => Bind::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_slurm::submit::binding;

    #[test]
    fn words_of_options() {
        let check = |text: &str, want| {
            let option = distribution::read(text).unwrap();
            assert_eq!(distribution(Some(&option)), want, "{text}");
        };
        check("cyclic:block", Distribution::Cyclic);
        check("block,Pack", Distribution::Block);
        check("plane=3", Distribution::Plane(3));
        assert_eq!(distribution(None), Distribution::Block);
        let check = |text: &str, want| {
            let option = binding::read(text).unwrap();
            assert_eq!(bind(Some(&option)), want, "{text}");
        };
        assert_eq!(bind(None), Bind::None);
        check("q", Bind::None);
        check("v,cores", Bind::Cores);
        check("ldoms", Bind::Numa);
    }

    #[test]
    fn gpus_of_a_step() {
        let check = |each: Option<&str>, all: Option<&str>, want: Option<u32>| {
            let resource_options = SubmitOptions {
                gpus_per_node: each.map(str::to_owned),
                gpus: all.map(str::to_owned),
                ..SubmitOptions::default()
            };
            let got = gpus_of_nodes(&resource_options, 2)
                .unwrap()
                .map(|g| g.count);
            assert_eq!(got, want, "{each:?} {all:?}");
        };
        check(None, None, None);
        check(Some("2"), None, Some(2));
        check(Some("a100:2"), Some("4"), Some(2));
        check(Some("0"), Some("3"), Some(2));
        check(Some("0"), None, None);
    }

    #[test]
    fn patterns_without_an_array_stay() {
        let check = |pattern: &str| {
            let got = array_names(&pattern.into());
            assert_eq!(got.lossy(), pattern);
        };
        check("o-%j-%t");
        check("o-%");
        check("%%A");
    }
}
