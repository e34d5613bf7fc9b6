//! `cbcast`: copies a file to all nodes of a job, down the tree in which steps are
//! started: a step of one task on each node that writes its input to a file.

use crate::arg::{flag, value};
use crate::run::input::{Input, Source};
use crate::run::intake::Intake;
use crate::run::interrupt::Rule;
use crate::run::keeper::SIGNALS;
use crate::run::session::{self, Manner, Means};
use crate::run::sink::Sinks;
use crate::run::{entry, place, start, way_to};
use crate::submit::surroundings;
use crate::{Context, exit};
use anyhow::{Context as _, anyhow};
use clap::{Arg, ArgMatches, Command};
use cosy_model::step::{Bind, Distribution, InputFrom, StepCommand, StepSpec};
use cosy_model::{Dialect, JobId, OsText, Span, Time};
use cosy_proto::lines::Style;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

/// The command line of `cbcast`.
pub fn command() -> Command {
    crate::arg::command("cast", "Copy a file to all nodes of a job")
        .override_usage("cbcast [OPTIONS] SOURCE DESTINATION")
        .after_help(AFTER)
        .arg(flag("force", "Replace a file that is there").short('f'))
        .arg(flag("preserve", "Keep times of access and modification").short('p'))
        .arg(
            value(
                "mode",
                "MODE",
                "Mode of the file, octal; the source's without",
            )
            .value_parser(mode),
        )
        .arg(
            value(
                "job",
                "ID",
                "A running job of yours; the one around without",
            )
            .value_parser(job),
        )
        .arg(flag("quiet", "Say only what went wrong").short('Q'))
        .arg(
            Arg::new("source")
                .value_name("SOURCE")
                .help("A file here")
                .required(true)
                .value_parser(clap::value_parser!(PathBuf)),
        )
        .arg(
            Arg::new("destination")
                .value_name("DESTINATION")
                .help("A file on each node; relative to the present directory there")
                .required(true)
                .value_parser(clap::value_parser!(OsString)),
        )
}

const AFTER: &str = "\
The file is written beside its place and put there when it is whole. Exit code: 0 when it is
on all nodes, else 1, with what went wrong on which nodes.";

/// Runs `cbcast`.
///
/// # Errors
/// No job, a file that cannot be read, nobody there.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let job = matches.get_one::<JobId>("job").copied();
    let Some(job) = job.or_else(place::job) else {
        return Err(exit::usage("to the nodes of which job? Name it with --job"));
    };
    let (file, meta) = open(matches)?;
    let nodes = nodes(context, job)?;
    let wanted = wanted(matches, &meta, nodes)?;
    let stream = way_to(context, job)?;
    let quiet = matches.get_flag("quiet");
    let mut intake = Intake::new(&SIGNALS)?;
    let step = start(context.program(), &wanted, job, stream, &mut intake, quiet)?;
    let size = meta.is_file().then_some(meta.size());
    let means = Means {
        sinks: Sinks::own(Style::Whole),
        input: Some(Input::new(Source::File {
            file: file.into(),
            size,
        })),
        intake,
        attendant: None,
    };
    let manner = Manner {
        program: context.program().to_owned(),
        kill_on_bad_exit: false,
        looks_on: false,
        raw: false,
        quiet,
        verbose: false,
        supervisors: Default::default(),
        dialect: Dialect::Cosy,
        interrupts: Rule::default(),
        wait: None,
    };
    let outcome = session::run(step, manner, means).context("cannot follow the copies")?;
    Ok(match outcome.code {
        exit::OK => exit::OK,
        interrupted if i32::from(interrupted) > exit::SIGNAL_BASE => interrupted,
        _ => exit::FAILED,
    })
}

fn open(matches: &ArgMatches) -> anyhow::Result<(File, Metadata)> {
    let source = matches.get_one::<PathBuf>("source");
    let source = source.cloned().unwrap_or_default();
    let shown = source.display();
    let file = File::open(&source).with_context(|| format!("cannot open '{shown}'"))?;
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

/// How many nodes the job has.
fn nodes(context: &Context, job: JobId) -> anyhow::Result<u32> {
    let here = (place::job() == Some(job))
        .then(|| std::env::var("COSY_NODE_COUNT").ok()?.parse().ok())
        .flatten();
    if let Some(count) = here {
        return Ok(count);
    }
    let names = cosy_model::expand(&entry(context, job)?.nodes)?;
    Ok(u32::try_from(names.len())?)
}

fn wanted(matches: &ArgMatches, meta: &Metadata, nodes: u32) -> anyhow::Result<StepSpec> {
    let destination = matches.get_one::<OsString>("destination");
    let path = OsText(destination.cloned().unwrap_or_default().into_vec());
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
        mode: matches.get_one("mode").copied().unwrap_or(own),
        force: matches.get_flag("force"),
        times: matches.get_flag("preserve").then(|| {
            (
                time(meta.atime(), meta.atime_nsec()),
                time(meta.mtime(), meta.mtime_nsec()),
            )
        }),
    };
    spec(command, nodes)
}

/// One task on each node, beside whatever runs there.
fn spec(command: StepCommand, nodes: u32) -> anyhow::Result<StepSpec> {
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
        workdir: surroundings::workdir(None).map_err(|e| anyhow!(e))?,
        umask: surroundings::mask(),
        stdin: InputFrom::All,
        ..StepSpec::plain("cbcast", command)
    })
}

fn mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|m| *m <= 0o7777)
        .ok_or_else(|| "an octal mode is needed, like 755".to_owned())
}

fn job(text: &str) -> Result<JobId, String> {
    let reference: cosy_model::api::JobRef = text.parse()?;
    match reference.task {
        None => Ok(reference.job),
        Some(_) => Err("the number of a job is needed, as $COSY_JOB_ID in it".to_owned()),
    }
}
