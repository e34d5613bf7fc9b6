//! The command line of `cosy each`.

use super::results::Existing;
use super::source::{self, Origin};
use super::template::{Template, Word};
use super::words::OUTPUT_BYTES;
use crate::exit;
use crate::native::arg::{command as base, flag, list, number, parse_limit, value};
use crate::native::submit::options::array;
use clap::{Arg, ArgMatches, Command};
use cosy_model::job::ArraySpec;
use cosy_model::limits::NODE_CORES;
use cosy_model::{MiB, Span};
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::PathBuf;

/// Places for tasks on all nodes together.
const JOBS: u32 = 1_000_000;
/// Times that a task is tried again.
const RETRIES: u32 = 1000;
/// KiB of output kept of each task without `--max-output`.
const OUTPUT_KIB: u64 = 1024;

const AFTER: &str = "\
Each line of standard input, or of --from, is a task. The command's words are given to the
program as they are, without a shell; in them stand

  {}    the input          {.}   without extension     {/}  without directories
  {//}  its directory      {/.}  name, no extension    {1}  first column
  {#}   number of the task {%}   its place on the node

and where none does, the input comes last. --columns says what stands between columns.
Inside a job tasks run on all its nodes, outside of one on this machine. Their output is
shown when they end, each one's together.

  cosy each -j 64 -- ./simulate --seed {} < seeds.txt
  cosy each --numbers 1-100000 --results run.tsv --resume -- ./cell {}
  cosy each -- gzip -9 {} ::: *.log
  cosy each --commands --from todo.txt

--results has a line for each attempt: how it ended, where, when, CPU time, memory, input.
Exit code: 0 all tasks are done, 1 some failed, 2 mistake on the command line, 128 and the
signal when it was interrupted.";

/// The command line of `cosy each`.
pub fn command() -> Command {
    base("each", "Run a command for each of many inputs, over the nodes of the job")
        .override_usage(
            "cosy each [OPTIONS] -- COMMAND [ARG]... [::: INPUT...]\n       \
             cosy each [OPTIONS] --commands",
        )
        .after_help(AFTER)
        .args(input_args())
        .args(run_args())
        .args(result_args())
        .arg(
            Arg::new("words")
                .value_name("COMMAND")
                .help("Command and its arguments, with {} for the input")
                .value_parser(clap::value_parser!(OsString))
                .num_args(0..)
                .trailing_var_arg(true)
                .allow_hyphen_values(true),
        )
        .arg(flag("worker", "For this command alone").hide(true))
}

fn input_args() -> [Arg; 5] {
    [
        value("from", "FILE", "Inputs: the lines of this file")
            .short('a')
            .value_parser(clap::value_parser!(PathBuf)),
        value("numbers", "INDICES", "Inputs: these numbers, like 1-1000, 0-31:4, 1,5,7")
            .value_parser(numbers)
            .conflicts_with("from"),
        flag("commands", "Each input is a command for /bin/sh").conflicts_with("numbers"),
        flag("null", "Inputs end with a NUL in place of a line end, as of find -print0").short('0'),
        value("columns", "SEPARATOR", "Inputs have columns, {1}, {2}; \\t is a tab").short('C'),
    ]
}

fn run_args() -> [Arg; 7] {
    [
        value("jobs", "N", "Tasks at once on all nodes together (default: as cores allow)")
            .short('j')
            .value_parser(number(1, JOBS)),
        value("cores-per-task", "N", "Cores that a task uses: so many fewer run at once")
            .short('c')
            .value_parser(number(1, NODE_CORES)),
        value("gpus-per-task", "N", "GPUs that a task has for itself")
            .value_parser(number(1, NODE_CORES)),
        value("timeout", "TIME", "End an attempt that takes longer: 90s, 5 (minutes), 2h")
            .value_parser(parse_limit),
        value("retries", "N", "Try a task that fails again, so often (default: 0)")
            .value_parser(number(0, RETRIES)),
        value("max-failures", "N", "Begin no more after so many tasks failed")
            .value_parser(number(1, u32::MAX)),
        flag("quiet", "Say only what went wrong").short('Q'),
    ]
}

fn result_args() -> [Arg; 6] {
    [
        value("results", "FILE", "File of results (default: a new one, each-JOB.tsv)")
            .short('r')
            .value_parser(clap::value_parser!(PathBuf)),
        flag("no-results", "Write no file of results").conflicts_with("results"),
        flag("resume", "Go on: leave out what --results has as done")
            .requires("results")
            .conflicts_with("overwrite"),
        flag("overwrite", "Begin --results anew").requires("results"),
        value("output", "PATTERN", "A file for each task's output, like out/{#}.txt")
            .short('o')
            .value_parser(clap::value_parser!(OsString)),
        value("max-output", "SIZE", "Output that is shown of each task, at most (default: 1M)")
            .value_parser(|text: &str| text.parse::<MiB>().map_err(|e| e.to_string())),
    ]
}

fn numbers(text: &str) -> Result<ArraySpec, String> {
    let spec = array(text)?;
    match spec.at_once {
        None => Ok(spec),
        Some(_) => Err("how many run at once is said by --jobs".to_owned()),
    }
}

/// Where results go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ResultsFile {
    /// They are not kept.
    None,
    /// Into a file with a name that is free.
    New,
    /// Into this one.
    Named(PathBuf, Existing),
}

/// What `cosy each` is to do.
#[derive(Clone, Debug)]
pub struct EachOptions {
    /// Words of the command; none where inputs are commands.
    pub command: Vec<OsString>,
    /// Inputs are commands for a shell.
    pub commands: bool,
    /// Where the inputs are.
    pub origin: Origin,
    /// What ends each input.
    pub separator: u8,
    /// What stands between columns of an input.
    pub columns: Option<String>,
    /// Tasks at once.
    pub jobs: Option<u32>,
    /// Cores of each.
    pub cores: u32,
    /// GPUs of each.
    pub gpus: u32,
    /// Longest time of an attempt.
    pub timeout: Option<Span>,
    /// Times that a task is tried again.
    pub retries: u32,
    /// Failures after which nothing new is begun.
    pub max_failures: Option<u64>,
    /// Say only what went wrong.
    pub quiet: bool,
    /// Where results go.
    pub results: ResultsFile,
    /// Files for output.
    pub output: Option<OsString>,
    /// Bytes of output that are shown of each task.
    pub output_bytes: u64,
}

impl EachOptions {
    /// Reads a command line.
    ///
    /// # Errors
    /// It makes no sense: a usage error.
    pub fn from_matches(matches: &ArgMatches) -> anyhow::Result<Self> {
        let (command, inputs) = split(list(matches, "words"));
        let commands = matches.get_flag("commands");
        let origin = origin(matches, inputs)?;
        let separator = if matches.get_flag("null") { 0 } else { b'\n' };
        let options = Self {
            command,
            commands,
            origin,
            separator,
            columns: matches
                .get_one::<String>("columns")
                .map(|text| text.replace("\\t", "\t")),
            jobs: matches.get_one("jobs").copied(),
            cores: matches.get_one("cores-per-task").copied().unwrap_or(1),
            gpus: matches.get_one("gpus-per-task").copied().unwrap_or(0),
            timeout: matches.get_one("timeout").copied(),
            retries: matches.get_one("retries").copied().unwrap_or(0),
            max_failures: matches
                .get_one::<u32>("max-failures")
                .map(|n| u64::from(*n)),
            quiet: matches.get_flag("quiet"),
            results: results(matches),
            output: matches.get_one("output").cloned(),
            output_bytes: output_bytes(matches)?,
        };
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> anyhow::Result<()> {
        match (self.commands, self.command.is_empty()) {
            (true, false) => {
                return Err(exit::usage(
                    "with --commands the inputs are the commands: give no other",
                ));
            }
            (false, true) => {
                return Err(exit::usage(
                    "a command is needed, like: cosy each -- gzip {} ::: *.log",
                ));
            }
            _ => {}
        }
        if self.columns.as_ref().is_some_and(String::is_empty) {
            return Err(exit::usage("--columns: a separator is needed, like , or \\t"));
        }
        let columns = Template::parse(&self.command).has_column();
        if columns && self.columns.is_none() && !self.commands {
            return Err(exit::usage("{1} is a column: --columns says what stands between columns"));
        }
        if let Some(pattern) = &self.output
            && !Word::parse(pattern).tells_tasks_apart()
        {
            return Err(exit::usage(
                "--output: all tasks would write to one file; {#} is the number of the task",
            ));
        }
        if self.origin == Origin::Stdin && std::io::stdin().is_terminal() {
            return Err(exit::usage(
                "where are the inputs? On standard input, in a file (--from), --numbers 1-100, or \
                 after ::: on the command line",
            ));
        }
        Ok(())
    }

    /// How many inputs there are, where that is known.
    pub fn total(&self) -> Option<u64> {
        source::count(&self.origin, self.separator)
    }
}

/// The command, and the inputs after `:::`.
fn split(words: Vec<OsString>) -> (Vec<OsString>, Option<Vec<OsString>>) {
    let at = words.iter().position(|word| word == OsStr::new(":::"));
    match at {
        None => (words, None),
        Some(at) => {
            let mut command = words;
            let inputs = command.split_off(at);
            (command, Some(inputs.into_iter().skip(1).collect()))
        }
    }
}

fn origin(matches: &ArgMatches, inputs: Option<Vec<OsString>>) -> anyhow::Result<Origin> {
    let file = matches.get_one::<PathBuf>("from");
    let numbers = matches.get_one::<ArraySpec>("numbers");
    match (inputs, file, numbers) {
        (Some(_), Some(_), _) => Err(exit::usage("inputs come from --from or stand after :::")),
        (Some(_), _, Some(_)) => Err(exit::usage("inputs are --numbers or stand after :::")),
        (Some(words), None, None) => Ok(Origin::Words(words)),
        (None, Some(file), _) if file.as_os_str() == "-" => Ok(Origin::Stdin),
        (None, Some(file), _) => Ok(Origin::File(file.clone())),
        (None, None, Some(numbers)) => Ok(Origin::Numbers(numbers.indices())),
        (None, None, None) => Ok(Origin::Stdin),
    }
}

fn results(matches: &ArgMatches) -> ResultsFile {
    let existing = match (matches.get_flag("resume"), matches.get_flag("overwrite")) {
        (true, _) => Existing::Resume,
        (_, true) => Existing::Overwrite,
        _ => Existing::Refuse,
    };
    match matches.get_one::<PathBuf>("results") {
        Some(path) => ResultsFile::Named(path.clone(), existing),
        None if matches.get_flag("no-results") => ResultsFile::None,
        None => ResultsFile::New,
    }
}

fn output_bytes(matches: &ArgMatches) -> anyhow::Result<u64> {
    let Some(size) = matches.get_one::<MiB>("max-output") else {
        return Ok(OUTPUT_KIB << 10);
    };
    let bytes = size.0.saturating_mul(1 << 20);
    if bytes > OUTPUT_BYTES {
        return Err(exit::usage(format!(
            "--max-output: at most {}M can be shown of a task; --output writes files without a limit",
            OUTPUT_BYTES >> 20
        )));
    }
    Ok(bytes)
}
