//! Copies a file to all nodes of a job, down the tree in which steps are started: a step of one
//! task on each node that writes its input to a file.

use super::control_thread::SIGNALS;
use super::input::{Input, InputSource};
use super::interrupt::InterruptMode;
use super::session::{self, SessionOptions, SessionResources};
use super::signal_pipe::SignalPipe;
use super::sink::Sinks;
use super::start::{connect_to_job, endpoint, start_step};
use super::step_socket;
use crate::{Context, exit, submitter};
use anyhow::{Context as _, anyhow};
use cosy_model::step::{Bind, Distribution, InputFrom, StepCommand, StepSpec};
use cosy_model::{Dialect, JobId, OsText, Span, Time, variables};
use cosy_proto::lines::Style;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A file to be copied, and how.
pub struct Broadcast {
    /// The running job whose nodes get the file.
    pub job: JobId,
    /// The file on this host.
    pub source: PathBuf,
    /// Name of the copy on each node; relative to the present directory there.
    pub destination: OsString,
    /// Mode of the copies; `None`: that of the source, 0644 for a pipe.
    pub mode: Option<u32>,
    /// Replaces files that exist on the nodes.
    pub force: bool,
    /// Keeps times of access and modification.
    pub preserve: bool,
    /// Says only what went wrong.
    pub quiet: bool,
}

/// Copies the file; gives the exit code.
///
/// # Errors
/// A file that cannot be read, no such job, nobody there.
pub fn run(context: &Context, copy: &Broadcast) -> anyhow::Result<u8> {
    let job = copy.job;
    let (file, meta) = open(&copy.source)?;
    let nodes = nodes(context, job)?;
    let spec = copy_spec(copy, &meta, nodes)?;
    let stream = connect_to_job(context, job)?;
    let quiet = copy.quiet;
    let mut signals = SignalPipe::new(&SIGNALS)?;
    let step = start_step(context.program(), &spec, job, stream, &mut signals, quiet)?;
    let size = meta.is_file().then_some(meta.size());
    let resources = SessionResources {
        sinks: Sinks::to_streams(Style::Whole),
        input: Some(Input::new(InputSource::File {
            file: file.into(),
            size,
        })),
        clients: None,
        signals,
        job_connection: None,
    };
    let options = SessionOptions {
        program: context.program().to_owned(),
        kill_on_bad_exit: false,
        observer: false,
        raw: false,
        quiet,
        verbose: false,
        supervisors: Default::default(),
        dialect: Dialect::Cosy,
        interrupts: InterruptMode::default(),
        wait: None,
    };
    let outcome = session::run(step, options, resources).context("cannot follow the copies")?;
    Ok(match outcome.code {
        exit::OK => exit::OK,
        interrupted if i32::from(interrupted) > exit::SIGNAL_BASE => interrupted,
        _ => exit::FAILED,
    })
}

fn open(source: &Path) -> anyhow::Result<(File, Metadata)> {
    let shown = source.display();
    let file = File::open(source).with_context(|| format!("cannot open '{shown}'"))?;
    let meta = file
        .metadata()
        .with_context(|| format!("cannot read '{shown}'"))?;
    if meta.is_dir() {
        return Err(anyhow!("'{shown}' is a directory; cbcast copies one file"));
    }
    if meta.file_type().is_block_device() {
        return Err(anyhow!("'{shown}' is a device; cbcast copies one file"));
    }
    Ok((file, meta))
}

/// Number of nodes of the job.
fn nodes(context: &Context, job: JobId) -> anyhow::Result<u32> {
    let here = (step_socket::current_job() == Some(job))
        .then(|| std::env::var(variables::NODE_COUNT).ok()?.parse().ok())
        .flatten();
    if let Some(count) = here {
        return Ok(count);
    }
    let names = cosy_model::expand(&endpoint(context, job)?.nodes)?;
    Ok(u32::try_from(names.len())?)
}

fn copy_spec(copy: &Broadcast, meta: &Metadata, nodes: u32) -> anyhow::Result<StepSpec> {
    let path = OsText(copy.destination.clone().into_vec());
    if path.is_empty() || path.0.ends_with(b"/") {
        return Err(exit::usage("the destination is the name of a file"));
    }
    let own = if meta.is_file() {
        meta.mode() & 0o777
    } else {
        0o644
    };
    let time = |secs: i64, ns: i64| Time(secs.saturating_mul(1000).saturating_add(ns / 1_000_000));
    let command = StepCommand::Receive {
        path,
        mode: copy.mode.unwrap_or(own),
        force: copy.force,
        times: copy.preserve.then(|| {
            (time(meta.atime(), meta.atime_nsec()), time(meta.mtime(), meta.mtime_nsec()))
        }),
    };
    step_on_each_node(command, nodes)
}

/// A step of one task on each node, which shares cores with the steps that run there.
fn step_on_each_node(command: StepCommand, nodes: u32) -> anyhow::Result<StepSpec> {
    Ok(StepSpec {
        nodes: Some(nodes),
        tasks: Some(nodes),
        tasks_per_node: Some(1),
        cores_per_task: Some(1),
        gpus_per_node: Some(0),
        distribution: Distribution::Cyclic,
        bind: Bind::None,
        overlap: true,
        grace: Span::from_secs(5),
        workdir: submitter::workdir(None).map_err(|e| anyhow!(e))?,
        umask: submitter::umask(),
        stdin: InputFrom::All,
        ..StepSpec::plain("cbcast", command)
    })
}

/// Reads the number of a job, as `$COSY_JOB_ID` has it.
///
/// # Errors
/// The text is no number of a job; one line says what is needed.
pub fn parse_job(text: &str) -> Result<JobId, String> {
    let reference: cosy_model::api::JobRef = text.parse()?;
    match reference.task {
        None => Ok(reference.job),
        Some(_) => Err("the number of a job is needed, as $COSY_JOB_ID in it".to_owned()),
    }
}
