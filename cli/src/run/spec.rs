//! From options to what is asked for: a step, and the job that it gets when there is none.

use super::files::{self, Way, error, output};
use super::input::{Input, Source};
use super::multiprog;
use super::options::RunOptions;
use super::{mpi, place, tty};
use crate::exit;
use crate::submit::options::Options;
use crate::submit::{self, surroundings};
use anyhow::{Context as _, anyhow};
use cosy_model::api::Submission;
use cosy_model::device::GpuRequest;
use cosy_model::job::MemoryRequest;
use cosy_model::limits::{ARGUMENTS, NAME_BYTES};
use cosy_model::step::{InputFrom, StepCommand, StepProgram, StepSpec};
use cosy_model::{Dialect, JobSpec, OsText, Program, Span};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Between SIGTERM and SIGKILL.
const GRACE: Span = Span::from_secs(5);

/// A step as it is asked for, and what the command does with its streams.
pub struct Wanted {
    /// The step as it is asked for.
    pub spec: StepSpec,
    /// Output.
    pub output: Way,
    /// Errors.
    pub error: Way,
    /// Input, opened.
    pub input: Option<Input>,
}

/// The step that the options describe.
///
/// # Errors
/// Files that cannot be read, options that make no sense.
pub fn step(options: &RunOptions) -> anyhow::Result<Wanted> {
    let (programs, tasks) = programs(options)?;
    let name = name(&options.job, &programs);
    let out = output(options.job.output.as_ref(), &name);
    let err = error(options.job.error.as_ref(), &out, &name);
    let from = files::input(options.job.input.as_ref(), &name);
    let workdir = surroundings::workdir(options.job.chdir.as_deref()).map_err(|e| anyhow!(e))?;
    let alone = tasks == Some(1);
    let wireup = mpi::wireup(options.mpi.as_deref(), alone, &programs, &workdir)?;
    let job = &options.job;
    let spec = StepSpec {
        name,
        programs,
        nodes: job.nodes,
        tasks,
        tasks_per_node: job.tasks_per_node,
        cores_per_task: job.cores_per_task,
        gpus_per_task: options.gpus_per_task.as_ref().map_or(0, |g| g.count),
        gpus_per_node: job.gpus.as_ref().map(|g| g.count),
        memory: memory(job)?,
        require: job.require.clone(),
        avoid: job.avoid.clone(),
        distribution: options.distribution,
        places: options.places.clone(),
        bind: options.bind,
        overlap: options.overlap || options.overcommit,
        overcommit: options.overcommit,
        patience: options.patience,
        time_limit: job.time,
        grace: GRACE,
        workdir,
        environment: environment(job)?,
        umask: surroundings::mask(),
        rlimits: surroundings::limits(),
        stdin: from.there.clone(),
        stdout: out.there.clone(),
        stderr: err.there.clone(),
        open_mode: job.open_mode.unwrap_or_default(),
        pty: options.pty.then(tty::window),
        wireup,
        dialect: Dialect::Cosy,
        warn: None,
        keep_counts: false,
        label: options.label,
        stopped: options.stopped,
        tell_bind: options.tell_bind,
    };
    let input = open_input(&from, &spec.workdir)?;
    Ok(Wanted {
        spec,
        output: out,
        error: err,
        input,
    })
}

/// What the command reads for the tasks.
fn open_input(from: &files::Input, workdir: &OsText) -> anyhow::Result<Option<Input>> {
    match from.there {
        InputFrom::File(_) | InputFrom::Null => return Ok(None),
        InputFrom::All | InputFrom::Rank(_) => {}
    }
    let Some(name) = &from.file else {
        return Ok(Some(Input::new(Source::Own)));
    };
    let path = Path::new(OsStr::from_bytes(&workdir.0)).join(OsStr::from_bytes(&name.0));
    let file = std::fs::File::open(&path)
        .with_context(|| format!("cannot open '{}' for the input", path.display()))?
        .into();
    Ok(Some(Input::new(Source::File { file, size: None })))
}

/// The variables that a step or a shell gets of those that are here.
///
/// # Errors
/// Too large.
pub fn environment(job: &Options) -> anyhow::Result<OsText> {
    surroundings::environment(&job.env_items(), std::env::vars_os()).map_err(|e| anyhow!(e))
}

fn memory(job: &Options) -> anyhow::Result<Option<cosy_model::MiB>> {
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
            Dialect::Slurm => SlurmFile(vec![format!(
                "Could not open multi_prog config file {shown}"
            )])
            .into(),
        })?;
        let parsed = multiprog::parse(&text, ranks(options));
        return parsed.map_err(|mistake| match options.dialect {
            Dialect::Cosy => exit::usage(multiprog::in_file(&shown, &mistake)),
            Dialect::Slurm => SlurmFile(mistake.as_slurm(&shown)).into(),
        });
    }
    let n = options.command.len();
    if n > ARGUMENTS {
        return Err(anyhow!(
            "{n} arguments are too many; at most {ARGUMENTS} are allowed"
        ));
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

/// What is wrong with a list of programs, in the words of `srun`.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct SlurmFile(pub Vec<String>);

/// How many tasks there will be, as far as it is known before the node daemon decides.
fn ranks(options: &RunOptions) -> Option<u32> {
    let job = &options.job;
    if job.tasks.is_some() || job.nodes.is_some() || job.tasks_per_node.is_some() {
        return job.tasks;
    }
    let inside = options.inside.is_none() && place::job().is_some();
    let of_the_job = || std::env::var("COSY_TASKS").ok()?.parse().ok();
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

/// The name given, else the first program's.
fn name(job: &Options, programs: &[StepProgram]) -> String {
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

/// The allocation that the options describe, for steps of `tasks` tasks.
///
/// # Errors
/// Options that make no sense.
pub fn allocation(
    job: &Options,
    name: String,
    attended: bool,
    mpi: Option<String>,
) -> anyhow::Result<Submission> {
    let workdir = surroundings::workdir(job.chdir.as_deref()).map_err(|e| anyhow!(e))?;
    let spec = JobSpec {
        queue: job.queue.clone(),
        account: job.account.clone(),
        reservation: job.reservation,
        comment: job.comment.clone().unwrap_or_default(),
        request: submit::request(job),
        time_limit: job.time,
        begin: submit::begin(job)?,
        nice: job.nice.unwrap_or(0),
        dependencies: job.depend.clone(),
        open_mode: job.open_mode.unwrap_or_default(),
        umask: surroundings::mask(),
        rlimits: surroundings::limits(),
        attended,
        mpi,
        mail: job.mail(),
        submit_host: surroundings::host(),
        submit_session: surroundings::session(),
        submit_line: surroundings::line(),
        ..JobSpec::plain(name, Program::Allocation, workdir)
    };
    Ok(Submission {
        spec,
        script: OsText::default(),
        array: None,
    })
}

/// What the options of a step ask of the job around it.
///
/// # Errors
/// GPUs for each task, when it is not known how many tasks a node has.
pub fn around(options: &RunOptions, tasks: Option<u32>) -> anyhow::Result<Options> {
    let mut job = options.job.clone();
    job.tasks = tasks;
    (job.output, job.error, job.input) = (None, None, None);
    let Some(each) = &options.gpus_per_task else {
        return Ok(job);
    };
    let on_a_node = match (job.tasks_per_node, job.nodes, tasks) {
        (Some(n), _, _) => n,
        (None, Some(nodes), Some(tasks)) => tasks.div_ceil(nodes),
        (None, _, None | Some(1)) => 1,
        (None, None, Some(_)) => {
            return Err(exit::usage(
                "--gpus-per-task needs --nodes or --tasks-per-node, so that it is known how many \
                 GPUs a node must have",
            ));
        }
    };
    let needed = each.times(on_a_node);
    let enough = |g: &GpuRequest| {
        g.count >= needed.count && (g.types == needed.types || needed.types.is_empty())
    };
    if !job.gpus.as_ref().is_some_and(enough) {
        job.gpus = Some(needed);
    }
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> RunOptions {
        let matches = super::super::options::command()
            .try_get_matches_from([&["run"], args].concat())
            .unwrap();
        RunOptions::from_matches(&matches).unwrap()
    }

    #[test]
    fn steps() {
        let wanted = step(&parse(&[
            "-n",
            "4",
            "-N",
            "2",
            "--mem",
            "1G",
            "-t",
            "5",
            "-o",
            "f",
            "--mpi",
            "none",
            "/bin/true",
            "x",
        ]))
        .unwrap();
        let spec = &wanted.spec;
        assert_eq!(
            (&*spec.name, spec.tasks, spec.nodes),
            ("true", Some(4), Some(2))
        );
        assert_eq!(spec.memory, Some(cosy_model::MiB(1024)));
        assert_eq!(spec.time_limit, Some(Span::from_minutes(5)));
        let StepCommand::Run { argv, expand } = &spec.programs[0].command else {
            panic!("{spec:?}")
        };
        assert_eq!((argv.len(), *expand), (2, false));
        assert_eq!(wanted.error.here, super::super::files::Local::Same);
        assert!(spec.pty.is_none());
        let error = step(&parse(&["--mem-per-core", "1G", "x"])).err().unwrap();
        assert!(error.to_string().contains("--mem"));
    }

    #[test]
    fn gpus_of_the_job() {
        let check = |args: &[&str], want: Option<Option<&str>>| {
            let options = parse(&[args, &["x"]].concat());
            let got = around(&options, options.job.tasks).ok().map(|j| j.gpus);
            let want = want.map(|w| w.map(|w| w.parse().unwrap()));
            assert_eq!(got, want, "{args:?}");
        };
        check(&["-n", "4"], Some(None));
        check(&["-n", "4", "--gpus", "2"], Some(Some("2")));
        check(&["--gpus-per-task", "2"], Some(Some("2")));
        check(
            &["-n", "2", "-N", "1", "--gpus-per-task", "t4,a"],
            Some(Some("a:2,t4:2")),
        );
        check(
            &["--gpus", "a:3", "--gpus-per-task", "1"],
            Some(Some("a:3")),
        );
        check(&["--gpus", "3", "--gpus-per-task", "a"], Some(Some("a")));
        check(
            &["-n", "4", "-N", "2", "--gpus-per-task", "2"],
            Some(Some("4")),
        );
        check(
            &["-n", "4", "--tasks-per-node", "1", "--gpus-per-task", "1"],
            Some(Some("1")),
        );
        check(&["-n", "4", "--gpus-per-task", "1"], None);
    }

    #[test]
    fn allocations() {
        let options = parse(&["-n", "4", "-q", "day", "-o", "f", "-t", "5", "x"]);
        let job = around(&options, Some(4)).unwrap();
        let s = allocation(&job, "x".into(), true, None).unwrap();
        assert_eq!(s.spec.program, Program::Allocation);
        assert!(s.spec.attended && !s.spec.requeue && s.spec.stdout.is_none());
        assert_eq!(s.spec.request.tasks, Some(4));
        assert_eq!(s.spec.queue.as_deref(), Some("day"));
    }
}
