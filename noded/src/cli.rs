//! The command line.

use crate::config::{DEFAULT_FILE, DEFAULT_KEY, DEFAULT_SPOOL};
use crate::daemon::{self, Options, SetLog};
use crate::{config, join, sys};
use anyhow::Context;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::path::PathBuf;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::reload;

/// Exit code of a command or daemon that did what it should.
pub const SUCCESS: u8 = 0;
/// Exit code of a command or daemon that could not do what it should.
pub const FAILURE: u8 = 1;

/// Most that is read of a token, in bytes.
const TOKEN_BYTES: u64 = 4096;

fn path_option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name(value)
        .value_parser(value_parser!(PathBuf))
        .help(help)
}

/// The whole command line, also for manual page and completions.
pub fn command() -> Command {
    let number = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("N")
            .value_parser(value_parser!(i32).range(3..))
            .help(help)
    };
    Command::new("noded")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Cosy's node daemon: runs jobs on this host for the controller")
        .args_conflicts_with_subcommands(true)
        .arg(path_option("config", "FILE", "Configuration").default_value(DEFAULT_FILE))
        .arg(
            Arg::new("check")
                .long("check")
                .action(ArgAction::SetTrue)
                .help("Only check the configuration: tells every fault with its line"),
        )
        .arg(
            Arg::new("virtual")
                .long("virtual")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..=cosy_model::limits::NODES as i64))
                .help("Play N nodes NAME1 to NAMEN that run nothing"),
        )
        .arg(
            Arg::new("jobs-unit")
                .long("jobs-unit")
                .value_name("GROUP")
                .value_parser(jobs_unit)
                .help("Control group of the unit that jobs live in, such as /cosy.slice/cosy-jobs.service"),
        )
        .arg(
            // Taken care of before anything else, so that it is the only word.
            Arg::new("hold-jobs")
                .long("hold-jobs")
                .action(ArgAction::SetTrue)
                .exclusive(true)
                .help("Only keep the control group of jobs alive, as cosy-jobs.service does"),
        )
        .arg(
            Arg::new("shutdown-file")
                .long("shutdown-file")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("While FILE exists the machine goes down: what ends then is lost with the node"),
        )
        .arg(
            Arg::new("log")
                .long("log")
                .value_name("LEVEL")
                .help("error, warn, info, debug, trace, or MODULE=LEVEL,..."),
        )
        .arg(number(
            "lifeline-fd",
            "Reading end of a pipe: its end stops this daemon and all its jobs",
        ))
        .arg(number(
            "ready-fd",
            "Write 'ready' there when the controller has welcomed this daemon",
        ))
        .subcommand(join_command())
}

fn join_command() -> Command {
    Command::new("join")
        .about("Join a cluster with a one-time token, and write the configuration")
        .arg(
            Arg::new("controller")
                .long("controller")
                .value_name("HOST:PORT")
                .action(ArgAction::Append)
                .required(true)
                .help("Where the controller listens; once for each where there are several"),
        )
        .arg(
            Arg::new("token")
                .long("token")
                .value_name("-")
                .required_unless_present("token-file")
                .help("'-': read what 'cadm node token NAME' printed from standard input"),
        )
        .arg(
            path_option("token-file", "FILE", "Read the token from a file").conflicts_with("token"),
        )
        .arg(
            Arg::new("name")
                .long("name")
                .value_name("NAME")
                .help("Name of the node [default: the host's name]"),
        )
        .arg(path_option("config", "FILE", "Configuration to write").default_value(DEFAULT_FILE))
        .arg(path_option("key", "FILE", "Private key to make").default_value(DEFAULT_KEY))
        .arg(path_option("spool-dir", "DIR", "Where jobs are kept").default_value(DEFAULT_SPOOL))
}

/// Runs the program; gives its exit code. Wrong usage ends with 2.
pub fn main() -> u8 {
    let matches = command().get_matches();
    let result = match matches.subcommand() {
        Some(("join", matches)) => run_join(matches),
        _ => run_daemon(&matches),
    };
    match result {
        Ok(()) => SUCCESS,
        Err(e) => {
            eprintln!("noded: {e:#}");
            FAILURE
        }
    }
}

fn path(matches: &ArgMatches, name: &str) -> PathBuf {
    matches
        .get_one::<PathBuf>(name)
        .cloned()
        .unwrap_or_default()
}

fn text(matches: &ArgMatches, name: &str) -> Option<String> {
    matches.get_one::<String>(name).cloned()
}

fn run_join(matches: &ArgMatches) -> anyhow::Result<()> {
    let name = match text(matches, "name") {
        Some(name) => name,
        None => host_name()?,
    };
    let join = join::Join {
        controllers: matches
            .get_many::<String>("controller")
            .map(|all| all.cloned().collect())
            .unwrap_or_default(),
        token: read_token(matches)?,
        name,
        config: path(matches, "config"),
        key: path(matches, "key"),
        spool_dir: path(matches, "spool-dir"),
    };
    let cluster = join::run(&join)?;
    println!("joined cluster {cluster} as node {}; wrote {}", join.name, join.config.display());
    Ok(())
}

/// The token from a file or standard input. What stands on the command line could be read
/// by every user of the host (`ps`); it is still taken there, with a warning.
fn read_token(matches: &ArgMatches) -> anyhow::Result<String> {
    use std::io::Read;
    let mut token = String::new();
    let source: Box<dyn Read> = match matches.get_one::<PathBuf>("token-file") {
        Some(path) => {
            let file = std::fs::File::open(path);
            Box::new(file.with_context(|| format!("token file {}", path.display()))?)
        }
        None => Box::new(std::io::stdin()),
    };
    match text(matches, "token").filter(|token| token != "-") {
        Some(given) => {
            eprintln!(
                "noded: a token on the command line can be read by every user of this host: use '--token -' or '--token-file FILE'"
            );
            return Ok(given);
        }
        None => source.take(TOKEN_BYTES).read_to_string(&mut token),
    }
    .context("the token")?;
    Ok(token.trim().to_owned())
}

fn host_name() -> anyhow::Result<String> {
    let name = nix::unistd::gethostname().context("the host's name")?;
    let name = name.to_string_lossy().into_owned();
    Ok(name.split('.').next().unwrap_or_default().to_owned())
}

fn run_daemon(matches: &ArgMatches) -> anyhow::Result<()> {
    let file = path(matches, "config");
    let config = match config::read(&file) {
        Ok(config) => config,
        Err(faults) => {
            eprintln!("{faults}");
            anyhow::bail!("the configuration has faults");
        }
    };
    crate::private::check_configuration(&file).map_err(anyhow::Error::msg)?;
    let log = text(matches, "log");
    let filter = filter(log.as_deref().unwrap_or(&config.log))?;
    if matches.get_flag("check") {
        println!("{}: no fault", file.display());
        return Ok(());
    }
    let fd = |name: &str| {
        let number = matches.get_one::<i32>(name);
        number
            .map(|n| sys::inherited(*n).with_context(|| format!("--{name} {n}")))
            .transpose()
    };
    let options = Options {
        config: file,
        lifeline: fd("lifeline-fd")?,
        ready: fd("ready-fd")?,
        jobs_unit: text(matches, "jobs-unit"),
        shutdown_file: matches.get_one::<PathBuf>("shutdown-file").cloned(),
        virtual_nodes: matches.get_one::<u32>("virtual").copied(),
        log,
    };
    daemon::run(config, options, start_log(filter))
}

/// A control group as `/proc/PID/cgroup` tells it.
fn jobs_unit(text: &str) -> Result<String, String> {
    let parts = text.strip_prefix('/').map(|rest| rest.split('/'));
    let whole = parts.is_some_and(|mut parts| parts.all(|p| !matches!(p, "" | "." | "..")));
    if whole && !text.contains(char::is_whitespace) {
        Ok(text.to_owned())
    } else {
        Err("give the path of the group as in /proc/PID/cgroup, such as /cosy.slice/cosy-jobs.service".to_owned())
    }
}

fn filter(text: &str) -> anyhow::Result<EnvFilter> {
    EnvFilter::try_new(text).with_context(|| format!("log '{text}'"))
}

fn start_log(first: EnvFilter) -> SetLog {
    let (layer, handle) = reload::Layer::new(first);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false);
    tracing_subscriber::registry()
        .with(layer)
        .with(lines)
        .init();
    Box::new(move |text| Ok(handle.reload(filter(text)?)?))
}
