//! `cosy tail`, `cosy cat`, `csub --follow`: what a job writes, read where it is.
//!
//! The files are opened by the user's own command, with the user's own rights, in the file system of
//! this host: one that the nodes do not share has nothing of them, and that is told.

pub mod files;

use crate::native::{arg, wait};
use crate::{Context, exit, output};
use anyhow::anyhow;
use clap::{Arg, ArgMatches, Command};
use cosy_model::api::{EndedJob, JobField, JobFilter, JobRef, Reply, Request, Table};
use cosy_model::{JobId, JobState};
use files::{From, Growing, Progress};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Between two looks at a file.
pub const LOOK: Duration = Duration::from_millis(200);
/// Between two questions about a job whose file is not there yet.
const ASK: Duration = Duration::from_secs(2);
/// How long a file may take to be seen here after its job has ended: some file systems show late what
/// another host has written.
const SHOWS_WITHIN: Duration = Duration::from_secs(3);
/// Lines that `cosy tail` begins with.
const LINES: &str = "10";

const FIELDS: [JobField; 6] = [
    JobField::Ref,
    JobField::State,
    JobField::Nodes,
    JobField::Workdir,
    JobField::Stdout,
    JobField::Stderr,
];

/// The command line of `cosy tail`.
pub fn tail_command() -> Command {
    arg::command("tail", "Follow what a job writes, until it ends")
        .arg(job())
        .arg(error())
        .arg(
            arg::value("lines", "N", "Begin with the last N lines ('all': with the first)")
                .short('n')
                .default_value(LINES)
                .value_parser(lines),
        )
        .after_help(
            "Waits for a job that has not started. Ctrl-C ends the command, never the job. The file is \
             read on this host: where the nodes' file system is another one, look there.\n\
             Exit codes: 0 the job has ended and all was shown, 1 refused or not readable.",
        )
}

/// The command line of `cosy cat`.
pub fn cat_command() -> Command {
    arg::command("cat", "Show what a job has written")
        .arg(job())
        .arg(error())
        .after_help("The file is read on this host, as 'cat' does; 'cosy tail' follows it.")
}

fn job() -> Arg {
    arg::some_ids("The job: 12, a task 12_3").num_args(1)
}

fn error() -> Arg {
    arg::flag("error", "The error file instead, where the job has one of its own").short('e')
}

fn lines(text: &str) -> Result<From, String> {
    match text {
        "all" => Ok(From::Beginning),
        number => number
            .parse()
            .map(From::LastLines)
            .map_err(|_| "neither a number of lines nor 'all'".to_owned()),
    }
}

/// Runs `cosy tail`.
///
/// # Errors
/// A refusal, no controller, or a file that cannot be read.
pub fn tail(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let target = named(matches)?;
    let row = Row::of(context, target)?;
    let from = matches.get_one("lines").copied().unwrap_or(From::Beginning);
    let mut shown = Shown::new(&row, Stream::named(matches), from)?;
    match row.state.is_end() {
        true => shown.show_whole(context, &row)?,
        false => drop(follow(context, row, &mut [shown])?),
    }
    Ok(exit::OK)
}

/// Runs `cosy cat`.
///
/// # Errors
/// A refusal, no controller, or a file that cannot be read.
pub fn cat(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let row = Row::of(context, named(matches)?)?;
    let mut shown = Shown::new(&row, Stream::named(matches), From::Beginning)?;
    shown.show_whole(context, &row)?;
    Ok(exit::OK)
}

/// Shows what a job that was just submitted writes, both files where it has two, until it has ended;
/// the job's exit code.
///
/// # Errors
/// A refusal, no controller, or a file that cannot be read.
pub fn after_submission(context: &Context, job: JobId) -> anyhow::Result<u8> {
    let row = Row::of(context, JobRef { job, task: None })?;
    let mut shown = vec![Shown::new(&row, Stream::Output, From::Beginning)?];
    if !row.stderr.is_empty() && row.stderr != row.stdout {
        shown.push(Shown::new(&row, Stream::Error, From::Beginning)?);
    }
    let ended = follow(context, row, &mut shown)?;
    wait::complain_of(context, &ended);
    Ok(exit::of_jobs(&ended))
}

fn named(matches: &ArgMatches) -> anyhow::Result<JobRef> {
    match arg::ids_of(matches)[..] {
        [one] => Ok(one),
        _ => Err(exit::usage("name one job, or one task like 12_3")),
    }
}

/// Which of a job's files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// What it writes to standard output.
    Output,
    /// What it writes to standard error, where that is a file of its own.
    Error,
}

impl Stream {
    /// The one that the command line names.
    fn named(matches: &ArgMatches) -> Self {
        match matches.get_flag("error") {
            true => Self::Error,
            false => Self::Output,
        }
    }
}

/// A job as the controller tells it.
#[derive(Clone, Debug)]
pub struct Row {
    target: JobRef,
    name: String,
    state: JobState,
    nodes: String,
    workdir: PathBuf,
    stdout: String,
    stderr: String,
}

impl Row {
    /// Asks for it: among those that live or ended moments ago, then in history.
    fn of(context: &Context, target: JobRef) -> anyhow::Result<Self> {
        let filter = JobFilter {
            ids: vec![target],
            ..JobFilter::default()
        };
        let fields = FIELDS.to_vec();
        let live = context.fetch_jobs(Request::Jobs {
            filter: filter.clone(),
            fields: fields.clone(),
            fold_arrays: false,
        })?;
        let table = match live.rows {
            0 => context.fetch_jobs(Request::History { filter, fields })?,
            _ => live,
        };
        match table.rows {
            0 => Err(anyhow!("there is no job {target}")),
            1 => Ok(Self::read(target, &table)),
            _ => {
                let first = table.text(0, JobField::Ref);
                Err(anyhow!("job {target} has {} tasks: name one, like {first}", table.rows))
            }
        }
    }

    /// From the first row of a table.
    pub fn read(target: JobRef, table: &Table) -> Self {
        let text = |field| table.text(0, field).to_owned();
        Self {
            target,
            name: text(JobField::Ref),
            state: text(JobField::State).parse().unwrap_or(JobState::Waiting),
            nodes: text(JobField::Nodes),
            workdir: text(JobField::Workdir).into(),
            stdout: text(JobField::Stdout),
            stderr: text(JobField::Stderr),
        }
    }

    /// Where it writes.
    ///
    /// # Errors
    /// It writes no file.
    pub fn path(&self, stream: Stream) -> anyhow::Result<PathBuf> {
        let file = match stream {
            Stream::Error if !self.stderr.is_empty() => &self.stderr,
            Stream::Error | Stream::Output => &self.stdout,
        };
        if file.is_empty() {
            return Err(anyhow!("job {} writes no file: its output goes elsewhere", self.name));
        }
        Ok(self.workdir.join(file))
    }

    /// That it waits, and why in words.
    fn waits(&self, context: &Context) -> String {
        let job = self.target;
        let why = match context.ask(Request::Explain { job }) {
            Ok(Reply::Explained { lines, .. }) => lines.into_iter().next(),
            Ok(_) | Err(_) => None,
        };
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        format!("job {} waits, its output begins when it starts{why}", self.name)
    }

    /// That a file of it is not there, and why.
    pub fn is_absent(&self, path: &Path) -> anyhow::Error {
        let path = path.display();
        match (self.state.is_end(), self.nodes.as_str()) {
            (false, "") => anyhow!("job {} has not started: {path} is not there yet", self.name),
            (_, "") => anyhow!("job {} never ran: there is no {path}", self.name),
            (_, nodes) => anyhow!(
                "{path} is not on this host: job {} writes it on {nodes}, whose files are not seen here",
                self.name
            ),
        }
    }
}

/// A file on its way to this command's output.
struct Shown {
    stream: Stream,
    file: Growing,
}

impl Shown {
    fn new(row: &Row, stream: Stream, from: From) -> anyhow::Result<Self> {
        let file = Growing::new(row.path(stream)?, from);
        Ok(Self { stream, file })
    }

    /// Shows what is new.
    fn show(&mut self, context: &Context) -> anyhow::Result<Progress> {
        let again = self.file.look_again().map_err(|e| self.unreadable(&e))?;
        if again {
            let text = format!("{} was begun anew", self.file.path().display());
            output::complain(context.program(), &text);
        }
        let copied = match self.stream {
            Stream::Output => self.file.copy(&mut Out(io::stdout().lock())),
            Stream::Error => self.file.copy(&mut Out(io::stderr().lock())),
        };
        copied.map_err(|e| self.unreadable(&e))
    }

    fn unreadable(&self, e: &io::Error) -> anyhow::Error {
        anyhow!("cannot read {}: {e}", self.file.path().display())
    }

    fn show_whole(&mut self, context: &Context, row: &Row) -> anyhow::Result<()> {
        match self.show(context)? {
            Progress::Absent => Err(row.is_absent(self.file.path())),
            Progress::Read(_) => Ok(()),
        }
    }
}

/// An output whose reader may go away early: then the program ends quietly.
struct Out<W>(W);

impl<W: Write> Write for Out<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).inspect_err(end_if_nobody_reads)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().inspect_err(end_if_nobody_reads)
    }
}

fn end_if_nobody_reads(e: &io::Error) {
    if e.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(output::NOBODY_READS);
    }
}

/// A job that is followed.
struct Followed<'a> {
    context: &'a Context,
    row: Row,
    /// When the job is asked for again, where a file of it is not there.
    ask_at: Instant,
    /// It was told that the job waits.
    told_that_it_waits: bool,
    /// Since when it runs, as far as this command knows.
    runs_since: Option<Instant>,
    /// It was told that a file of it is not seen here.
    told_that_it_is_absent: bool,
}

/// Shows files as they grow until the job has ended; how it did.
fn follow(context: &Context, row: Row, shown: &mut [Shown]) -> anyhow::Result<Vec<EndedJob>> {
    let ended = ends(context, row.target);
    let mut followed = Followed {
        context,
        row,
        ask_at: Instant::now(),
        told_that_it_waits: false,
        runs_since: None,
        told_that_it_is_absent: false,
    };
    loop {
        let absent = show_all(context, shown)?;
        if absent && followed.ask_at <= Instant::now() {
            followed.ask_again(shown)?;
        }
        match ended.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(ended) => {
                show_rest(&followed, shown)?;
                return ended;
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(anyhow!("nobody waits for the end of the job any more"));
            }
        }
    }
}

/// How the job ends, once it has: waited for over a connection of its own.
fn ends(context: &Context, target: JobRef) -> Receiver<anyhow::Result<Vec<EndedJob>>> {
    let (tell, told) = channel();
    let (program, retry) = (context.program().to_owned(), context.retry());
    std::thread::spawn(move || {
        let own = Context::new(&program, Vec::new()).with_retry(retry);
        let jobs = vec![target];
        let ended = match own.ask(Request::Wait { jobs }) {
            Ok(Reply::Ended(ended)) => Ok(ended),
            Ok(_) => Err(cosy_client::CallError::Unexpected.into()),
            Err(e) => Err(e.into()),
        };
        // Nobody listens where the command has failed meanwhile.
        let _ = tell.send(ended);
    });
    told
}

/// Shows what is new of each; whether one is not there.
fn show_all(context: &Context, shown: &mut [Shown]) -> anyhow::Result<bool> {
    let mut absent = false;
    for one in shown {
        absent |= one.show(context)? == Progress::Absent;
    }
    Ok(absent)
}

/// What is left once the job has ended.
fn show_rest(followed: &Followed<'_>, shown: &mut [Shown]) -> anyhow::Result<()> {
    let context = followed.context;
    let row = Row::of(context, followed.row.target)?;
    let until = Instant::now() + SHOWS_WITHIN;
    loop {
        shown.iter_mut().for_each(|one| one.file.open_anew());
        let absent = show_all(context, shown)?;
        if !absent {
            return Ok(());
        }
        if row.nodes.is_empty() || until <= Instant::now() {
            break;
        }
        std::thread::sleep(LOOK);
    }
    for one in shown.iter().filter(|one| !one.file.is_open()) {
        let why = row.is_absent(one.file.path()).to_string();
        output::complain(context.program(), &why);
    }
    Ok(())
}

impl Followed<'_> {
    /// A file is not there: where it will be, and why it is not.
    fn ask_again(&mut self, shown: &mut [Shown]) -> anyhow::Result<()> {
        self.ask_at = Instant::now() + ASK;
        self.row = Row::of(self.context, self.row.target)?;
        for one in shown.iter_mut().filter(|one| !one.file.is_open()) {
            // Its name may have the node in it.
            *one = Shown::new(&self.row, one.stream, one.file.from())?;
        }
        let Some(one) = shown.iter().find(|one| !one.file.is_open()) else {
            return Ok(());
        };
        let why = match self.row.state {
            JobState::Waiting if !std::mem::replace(&mut self.told_that_it_waits, true) => {
                self.row.waits(self.context)
            }
            JobState::Running => {
                let since = *self.runs_since.get_or_insert_with(Instant::now);
                // One that has just started has no file for a moment.
                let late = since.elapsed() >= SHOWS_WITHIN;
                if !late || std::mem::replace(&mut self.told_that_it_is_absent, true) {
                    return Ok(());
                }
                self.row.is_absent(one.file.path()).to_string()
            }
            _ => return Ok(()),
        };
        output::complain(self.context.program(), &why);
        Ok(())
    }
}
