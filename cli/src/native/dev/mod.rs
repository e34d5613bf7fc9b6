//! `cosy dev`: a private cluster for the time of one command.
//!
//! ```text
//! cosy dev (front) ──fork──> supervisor ──> cosyd, noded x N, COMMAND
//!        └── write end of the lifeline       └── read ends ──┘
//! ```
//! With `--controllers` there are several cosyd, with `--postgres` the supervisor has a database
//! server as a further child, which ends last.
//!
//! Always holds:
//! - Only the front has the write end of the lifeline. When it goes, however, the
//!   daemons and their jobs stop by themselves and the supervisor ends what is left.
//! - Supervisor and front are child subreapers: nothing that was started here gets out
//!   of reach, neither a job's stray process nor one that COMMAND left in the background.
//! - Who ends the supervisor leaves the front to clean up, and the other way round. Who
//!   ends both at once leaves a directory whose lock is free; the next `cosy dev` of the
//!   same user sweeps it.
//! - COMMAND is in the front's process group, so that the terminal treats it as it would
//!   without `cosy dev`; daemons are not.

pub mod children;
pub mod controllers;
pub mod database;
pub mod directory;
pub mod fds;
pub mod files;
pub mod plan;
pub mod supervisor;

use crate::native::arg;
use crate::{Context, exit, output};
use anyhow::Context as _;
use clap::{Arg, ArgMatches, Command};
use directory::ClusterDirectory;
use plan::{Plan, Report};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Child;

/// The command line of `cosy dev`.
pub fn command() -> Command {
    arg::command("dev", "A private cluster for one command or shell")
        .override_usage("cosy dev [OPTIONS] [-- COMMAND [ARG]...]")
        .after_help(AFTER)
        .arg(
            arg::value("nodes", "N", "Number of nodes (default: 1, or 0 with --virtual)")
                .short('N')
                .value_parser(arg::number(0, 1000)),
        )
        .arg(
            arg::value("virtual", "N", "Nodes that only pretend to run jobs, for tests of scale")
                .value_parser(arg::number(1, 100_000)),
        )
        .arg(
            arg::value("cores", "N", "Cores of each node (default: those of the machine)")
                .short('c')
                .value_parser(arg::number(1, cosy_model::limits::NODE_CORES)),
        )
        .arg(
            arg::value("memory", "SIZE", "Memory of each node (default: an equal share)")
                .value_parser(clap::value_parser!(cosy_model::MiB)),
        )
        .arg(
            arg::value("dir", "DIR", "Directory of the cluster; must be empty or not exist")
                .value_parser(clap::value_parser!(PathBuf)),
        )
        .arg(
            arg::value(
                "config",
                "FILE",
                "Parts of cosy.toml: queues, node sets, policy, features of nodes",
            )
            .value_parser(clap::value_parser!(PathBuf)),
        )
        .arg(
            arg::value("controllers", "N", "Controllers, of which one leads; needs --postgres")
                .value_parser(arg::number(1, cosy_model::limits::CONTROLLERS as u32)),
        )
        .arg(arg::flag("postgres", "Keep the state in a private PostgreSQL server in DIR/postgres"))
        .arg(
            arg::value(
                "web",
                "PORT",
                "With the web page, on this port of 127.0.0.1 (default: any)",
            )
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("0")
            .value_parser(clap::value_parser!(u16)),
        )
        .arg(arg::flag("keep", "Do not remove the directory at the end"))
        .arg(arg::flag("as-user", "Commands ask as an ordinary user, whom quotas and rules bind"))
        .arg(arg::flag("quiet", "Say nothing but errors").short('q'))
        .arg(
            Arg::new("command")
                .value_name("COMMAND")
                .help("Command to run (default: a shell)")
                .value_parser(clap::value_parser!(OsString))
                .num_args(0..)
                .trailing_var_arg(true),
        )
}

const AFTER: &str = "\
Nodes are called n1, n2 ..., virtual ones v1, v2 ...; the queue is 'main'. COMMAND finds the
commands in its PATH, and the directory of the cluster in COSY_DEV_DIR. When COMMAND ends,
or this program is killed, everything that was started is ended and removed.
You are the administrator of this cluster, for whom no quotas and no rules of reservations hold.
With --controllers the controllers are c1, c2 ...; 'cadm ping' says which one leads. To see another
one take over: 'dev-controller kill c1' (or stop, freeze, thaw), then 'dev-controller start c1'.
With --web a link is told that opens the page, logged in; 'cosy web' makes another one.
With --as-user the commands ask as an ordinary user (COSY_AS_USER=1); one that is to ask as
administrator all the same: COSY_AS_USER= cadm ...
Exit codes: that of COMMAND (128 and the signal when a signal ended it), 125 no cluster
could be started, 126 COMMAND cannot be executed, 127 there is no such COMMAND.";

/// Runs `cosy dev`.
///
/// # Errors
/// No cluster could be started; the exit code is then [`exit::DEV_FAILED`].
pub fn run(context: &Context, matches: &ArgMatches, names: &[&str]) -> anyhow::Result<u8> {
    front(context, matches, names).map_err(|e| exit::error(exit::DEV_FAILED, format!("{e:#}")))
}

fn front(context: &Context, matches: &ArgMatches, names: &[&str]) -> anyhow::Result<u8> {
    let options = plan::DevOptions::from_matches(matches)?;
    let quiet = matches.get_flag("quiet");
    let programs = plan::Programs::find(options.postgres, options.web.is_some())?;
    directory::sweep();
    let directory = ClusterDirectory::make(options.dir.as_deref(), options.keep)?;
    let postgres = programs.postgres.clone();
    let started = start(&directory, &options, programs, names);
    let (mut running, report) = match started {
        Ok(started) => started,
        Err(e) => {
            directory.remove();
            return Err(e);
        }
    };
    if !quiet {
        say_limits(context);
    }
    let outcome = follow(context, &directory, &options, quiet, report, &mut running);
    running.finish(&directory);
    if let Some(program) = postgres.filter(|_| options.keep && !quiet) {
        output::complain(context.program(), &database::kept(directory.path(), &program));
    }
    outcome
}

/// Reports once what does not work without root.
fn say_limits(context: &Context) {
    if !rustix::process::geteuid().is_root() {
        output::complain(
            context.program(),
            "not root: all jobs run as you, and memory and core limits of jobs may not be enforced",
        );
    }
}

/// What the front holds while the cluster runs.
struct Running {
    supervisor: Child,
    /// Programs whose processes are ended last.
    last: Option<PathBuf>,
    lifeline: Option<OwnedFd>,
}

impl Running {
    /// Ends the cluster and waits until nothing is left of it.
    fn finish(&mut self, directory: &ClusterDirectory) {
        self.lifeline = None;
        let ended = self.supervisor.wait();
        // Killed before it had cleaned up: its children are ours now.
        if !ended.is_ok_and(|status| status.success()) {
            let manners = children::Manners {
                last: self.last.clone(),
                ..children::Manners::default()
            };
            children::end_all(&manners, None);
        }
        directory.remove();
    }
}

fn start(
    directory: &ClusterDirectory,
    options: &plan::DevOptions,
    programs: plan::Programs,
    names: &[&str],
) -> anyhow::Result<(Running, File)> {
    let (lifeline_read, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
    let (report, report_write) = pipe_with(PipeFlags::CLOEXEC)?;
    if options.postgres {
        database::check_place(directory.path())?;
    }
    let plan = Plan::make(directory, options, programs)?;
    files::write(&plan, options, names)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let handed = plan.with_files((&lifeline_read, &report_write, directory.lock()))?;
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command
        .arg(supervisor::HIDDEN_NAME)
        .arg(serde_json::to_string(&handed)?)
        .args(&options.command)
        .process_group(0);
    let supervisor = command.spawn().context("cannot start the supervisor");
    fds::close_on_exec(directory.lock())?;
    let supervisor = supervisor?;
    pass_signals_on(&supervisor)?;
    let running = Running {
        supervisor,
        last: plan.programs.postgres,
        lifeline: Some(lifeline),
    };
    Ok((running, File::from(report)))
}

/// The terminal's interrupt is COMMAND's business, not ours; what is sent to us alone
/// goes to the supervisor, which passes it on to COMMAND.
fn pass_signals_on(supervisor: &Child) -> anyhow::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    let pid = rustix::process::Pid::from_child(supervisor);
    let pairs = [
        (SIGINT, Some(Signal::INT)),
        (SIGTERM, Some(Signal::TERM)),
        (SIGHUP, Some(Signal::HUP)),
        (SIGQUIT, None),
    ];
    for (number, signal) in pairs {
        let forward = move || {
            if let Some(signal) = signal {
                let _ = rustix::process::kill_process(pid, signal);
            }
        };
        // SAFETY: the handler does one system call and touches no memory but its own.
        unsafe { signal_hook::low_level::register(number, forward) }?;
    }
    Ok(())
}

/// Commands that somebody who has just got a shell may try, each of one word and its options.
const TRY: [&str; 4] = [
    "csub -t 1 -- hostname",
    "cstat",
    "cresv quote -N 1 -t 30m",
    "cresv book -N 1 -t 30m --soonest",
];

/// What is told before the shell begins.
fn welcome(dir: &str, as_user: bool) -> [String; 3] {
    let you = match as_user {
        true => "its commands ask as an ordinary user; as administrator: COSY_AS_USER= cadm ...",
        false => {
            "you are its administrator, for whom no quotas and no rules hold; to see them: --as-user"
        }
    };
    [
        format!("the cluster is ready in {dir}; leave the shell to stop it"),
        you.to_owned(),
        format!("try: {}; all commands: cosy --help", TRY.join("; ")),
    ]
}

/// Reads what the supervisor reports until COMMAND has ended.
fn follow(
    context: &Context,
    directory: &ClusterDirectory,
    options: &plan::DevOptions,
    quiet: bool,
    report: File,
    running: &mut Running,
) -> anyhow::Result<u8> {
    let mut outcome = None;
    for line in BufReader::new(report).lines() {
        let Some(report) = line.ok().and_then(|l| Report::parse(&l)) else {
            continue;
        };
        match report {
            Report::Ready if options.command.is_empty() && !quiet => {
                for line in welcome(&directory.path().display().to_string(), options.as_user) {
                    output::complain(context.program(), &line);
                }
            }
            Report::Ready => {}
            Report::Note(text) if quiet => drop(text),
            Report::Note(text) => output::complain(context.program(), &text),
            Report::Ended(code) => outcome = Some(Ok(code)),
            Report::NoCommand { code, text } => outcome = Some(Err(exit::error(code, text))),
            Report::Failed(text) => outcome = Some(Err(exit::error(exit::DEV_FAILED, text))),
        }
        if outcome.is_some() {
            running.lifeline = None;
        }
    }
    match outcome {
        Some(Ok(code)) => Ok(code),
        Some(Err(e)) => {
            if let Some(own) = e.downcast_ref::<exit::ExitError>()
                && own.code != exit::DEV_FAILED
            {
                output::complain(context.program(), &own.message);
                return Ok(own.code);
            }
            Err(e)
        }
        None => anyhow::bail!("the supervisor of the cluster ended early"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::{resv, stat, submit};

    #[test]
    fn what_is_to_be_tried_can_be_tried() {
        for line in TRY {
            let words = line.split(' ');
            let command = match words.clone().next() {
                Some("csub") => submit::options::command(),
                Some("cstat") => stat::command(),
                Some("cresv") => resv::command(),
                other => panic!("{other:?}"),
            };
            let parsed = command.try_get_matches_from(words);
            assert!(parsed.is_ok(), "{line}: {parsed:?}");
        }
        let told = welcome("/tmp/x", true);
        assert!(told[0].contains("ready in /tmp/x") && told[1].contains("COSY_AS_USER="));
        assert!(told[2].contains("csub -t 1 -- hostname; cstat; cresv quote"), "{told:?}");
    }
}
