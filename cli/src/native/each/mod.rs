//! `cosy each`: a queue of tasks inside the job. A command is run for each of many inputs, over all
//! nodes, so that nobody submits a hundred thousand jobs of a second.
//!
//! This program reads the inputs and hands them out ([`driver`]); on each node a [`worker`] runs
//! them. The controller knows nothing of it.

pub mod crew;
pub mod driver;
pub mod options;
pub mod places;
pub mod process;
pub mod progress;
pub mod queue;
pub mod results;
pub mod source;
pub mod task;
pub mod template;
pub mod words;
pub mod worker;

use crate::launch::signal_pipe::SignalPipe;
use crate::{Context, exit, output};
use anyhow::Context as _;
use clap::ArgMatches;
use cosy_model::text::OsText;
use cosy_model::variables;
use crew::{Event, Worker};
use driver::{Driver, Finished};
use options::{EachOptions, ResultsFile};
use places::{Node, Surroundings};
use progress::Progress;
use queue::Queue;
use results::{Earlier, Existing, Results};
use rustix::event::{PollFd, PollFlags, poll};
use source::Source;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::thread;
use words::Plan;

pub use options::command;

/// Signals that end a run in order.
const SIGNALS: [i32; 3] = [
    signal_hook::consts::SIGINT,
    signal_hook::consts::SIGTERM,
    signal_hook::consts::SIGHUP,
];
/// Names tried for a new file of results.
const NAMES: u32 = 10_000;

/// Runs `cosy each`.
///
/// # Errors
/// Bad input, a file that cannot be read or written, no node that runs tasks.
pub fn run(_: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    if matches.get_flag("worker") {
        worker::run()?;
        return Ok(exit::OK);
    }
    let options = EachOptions::from_matches(matches)?;
    let nodes = Surroundings::read()?.nodes(options.jobs, options.cores)?;
    let (results, earlier, path) = open_results(&options.results)?;
    let (sender, events) = mpsc::channel();
    forward_signals(sender.clone())?;
    let wake = {
        let sender = sender.clone();
        move || {
            let _ = sender.send(Event::Inputs);
        }
    };
    let total = options.total();
    let mut source = Source::open(options.origin.clone(), options.separator, earlier, wake)?;
    let queue = Queue::new(move || source.supply(), options.retries, options.max_failures);
    let workers = start(nodes, &options, &sender)?;
    let progress = Progress::new(options.quiet, total);
    let driver = Driver::new(queue, workers, events, results, progress);
    let begun = std::time::Instant::now();
    let finished = driver.run()?;
    if !options.quiet {
        let mut text = driver::summary(finished.counts, begun.elapsed());
        if let Some(path) = path {
            text.push_str(&format!("; results in {}", path.display()));
        }
        output::complain("cosy each", &text);
    }
    Ok(code(finished))
}

fn code(finished: Finished) -> u8 {
    match finished.signal {
        Some(signal) => exit::of_end(0, signal, false),
        None if finished.counts.failed > 0 => exit::FAILED,
        None => exit::OK,
    }
}

fn open_results(file: &ResultsFile) -> anyhow::Result<(Option<Results>, Earlier, Option<PathBuf>)> {
    let (path, existing) = match file {
        ResultsFile::None => return Ok((None, Earlier::default(), None)),
        ResultsFile::Named(path, existing) => (path.clone(), *existing),
        ResultsFile::New => (new_name()?, Existing::Refuse),
    };
    let (results, earlier) = Results::open(&path, existing)?;
    Ok((Some(results), earlier, Some(path)))
}

/// A name that no file has: `each-12.tsv`, then `each-12.2.tsv`.
fn new_name() -> anyhow::Result<PathBuf> {
    let job = std::env::var(variables::JOB_ID).map(|job| format!("-{job}"));
    let base = format!("each{}", job.unwrap_or_default());
    (1..=NAMES)
        .map(|n| match n {
            1 => PathBuf::from(format!("{base}.tsv")),
            n => PathBuf::from(format!("{base}.{n}.tsv")),
        })
        .find(|path| path.symlink_metadata().is_err())
        .with_context(|| {
            format!("there are {NAMES} files of results here: name one with --results")
        })
}

fn start(
    nodes: Vec<Node>,
    options: &EachOptions,
    events: &Sender<Event>,
) -> anyhow::Result<Vec<Worker>> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let directory = std::env::current_dir().context("cannot tell the present directory")?;
    let text = |word: &OsString| OsText(word.clone().into_vec());
    let start = |(number, node): (usize, Node)| {
        let plan = Plan {
            command: options.command.iter().map(text).collect(),
            shell: options.commands,
            separator: options.columns.clone().map(OsText::from),
            output: options.output.as_ref().map(text),
            output_bytes: options.output_bytes,
            timeout_ms: options
                .timeout
                .map(|t| u64::try_from(t.0).unwrap_or(u64::MAX)),
            directory: OsText(directory.clone().into_os_string().into_vec()),
            slots: node.slots,
            gpus: options.gpus,
        };
        Worker::start(number, node, plan, &program, events.clone())
    };
    nodes.into_iter().enumerate().map(start).collect()
}

fn forward_signals(events: Sender<Event>) -> anyhow::Result<()> {
    let mut pipe = SignalPipe::new(&SIGNALS).context("cannot take up signals")?;
    let forward = move || {
        loop {
            let fd = pipe.fd();
            let mut fds = [PollFd::new(&fd, PollFlags::IN)];
            let _ = poll(&mut fds, None);
            for signal in pipe.take() {
                if events.send(Event::Signal(signal)).is_err() {
                    return;
                }
            }
        }
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(forward)
        .context("cannot start a thread for signals")?;
    Ok(())
}
