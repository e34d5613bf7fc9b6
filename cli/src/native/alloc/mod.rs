//! `calloc`: an allocation, and a shell or command in it on this host. Steps are started
//! from there with `cosy run`. The allocation ends with the shell, and the shell with the
//! allocation.

pub mod mpi_variables;
pub mod wait;

use crate::allocation::finish::finish;
use crate::allocation::job_connection::{Allocated, JobConnection};
use crate::allocation::shell;
use crate::job_options::JobOptions;
use crate::launch::start::{with_display, with_variables};
use crate::launch::{display, spec, step_socket};
use crate::native::run::job;
use crate::native::run::options::{job_args, max_wait, max_wait_args, mpi_arg, x11_arg};
use crate::native::submit::options::words;
use crate::native::{arg, last_time};
use crate::{Context, exit, output};
use clap::{ArgMatches, Command};
use cosy_model::step::DisplayNodes;
use cosy_model::{Dialect, OsText, variables};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The command line of `calloc`.
pub fn command() -> Command {
    let not_here = ["output", "error", "input", "open-mode"];
    arg::command("alloc", "Get nodes, and a shell or command in the allocation")
        .override_usage("calloc [OPTIONS] [COMMAND [ARG]...]")
        .after_help(AFTER)
        .args(job_args().filter(|a| !not_here.contains(&a.get_id().as_str())))
        .arg(mpi_arg())
        .arg(x11_arg())
        .args(max_wait_args())
        .arg(arg::flag(
            "no-shell",
            "Print the job's id and leave; the job stays until ccancel or its limit",
        ))
        .arg(words("Command instead of your shell").value_name("COMMAND"))
}

const AFTER: &str = "\
The shell runs on this host; 'cosy run' in it starts tasks on the nodes. When it ends, the
job ends with its exit code; when the job ends first, the shell gets SIGHUP, then SIGTERM and
SIGKILL.
Exit code: that of the shell or command, 128 and its number for a signal; 1 refused, 2
mistake on the command line, 3 no controller, 127 the command cannot be run.";

/// The shell or command cannot be run.
const NO_COMMAND: u8 = 127;

/// Runs `calloc`.
///
/// # Errors
/// Bad input, a refusal, nobody there.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let mut options = JobOptions::default();
    options.apply(matches).map_err(exit::usage)?;
    let command: Vec<OsString> = arg::list(matches, "words");
    let no_shell = matches.get_flag("no-shell");
    if no_shell && !command.is_empty() {
        return Err(exit::usage("--no-shell runs no command"));
    }
    let x11: Option<DisplayNodes> = matches.get_one("x11").copied();
    check_display(x11, no_shell)?;
    let environment = spec::environment(&options)?;
    let mpi = matches.get_one::<String>("mpi").cloned();
    let choice = mpi.clone();
    let name = options.name.clone();
    let name = name.unwrap_or_else(|| "interactive".to_owned());
    let submission = job::allocation(&options, name.clone(), !no_shell, mpi)?;
    let asked = last_time::Asked::of(&submission.spec);
    let wait_options = wait::WaitOptions {
        max_wait: max_wait(matches),
        quiet: options.quiet,
    };
    let (mut job_connection, allocated) = wait::get(context.program(), submission, &wait_options)?;
    let job = job_connection.job();
    if no_shell {
        output::print(&format!("{job}\n"));
        return Ok(exit::OK);
    }
    if !options.quiet {
        let text = format!("job {job}: allocated {}", allocated.entry.nodes);
        output::complain(context.program(), &text);
        if options.name.is_some() {
            last_time::say(context.program(), job, &name, asked);
        }
    }
    let all = variables(&environment, &allocated, choice.as_deref());
    let local = LocalCommand {
        program: context.program(),
        workdir: options.chdir.as_ref(),
        variables: with_display(all, x11, job),
        command,
    };
    let ended = local.run(&mut job_connection);
    let (exit_code, signal) = match &ended {
        Ok(ended) => (ended.exit_code, ended.signal),
        Err(_) => (exit::FAILED.into(), 0),
    };
    finish(context, job, exit_code, signal);
    // Not before the job was given back: the end of this connection ends it as cancelled.
    drop(job_connection);
    ended.map(|e| exit::of_end(e.exit_code, e.signal, !e.job_ended))
}

/// Windows of steps can be shown here, where that is asked for. Their commands connect to the display.
///
/// # Errors
/// There is no display, or there will be no shell for such commands.
fn check_display(x11: Option<DisplayNodes>, no_shell: bool) -> anyhow::Result<()> {
    let Some(nodes) = x11 else { return Ok(()) };
    if no_shell {
        return Err(exit::usage(
            "--x11 is for steps from the shell of calloc; with --no-shell give it to 'cosy run'",
        ));
    }
    display::real::find(nodes, Dialect::Cosy).map(drop)
}

/// The variables of what runs in the allocation on this host.
fn variables(environment: &OsText, allocated: &Allocated, mpi: Option<&str>) -> OsText {
    let all = with_variables(environment, &allocated.variables);
    let mut more = Vec::new();
    if let Some(name) = mpi {
        more.push(format!("{}={name}", variables::MPI).into_bytes());
    }
    // Where the nodes cannot be reached, the commands that need them report it.
    if let Ok((_, socket)) = step_socket::connect_outside(&allocated.entry) {
        let mut variable = format!("{}=", variables::STEP_SOCKET).into_bytes();
        variable.extend(socket.into_os_string().into_vec());
        more.push(variable);
    }
    with_variables(&all, &OsText(more.join(&0)))
}

struct LocalCommand<'a> {
    program: &'a str,
    workdir: Option<&'a OsString>,
    variables: OsText,
    command: Vec<OsString>,
}

impl LocalCommand<'_> {
    fn run(mut self, job_connection: &mut JobConnection) -> anyhow::Result<shell::ShellEnd> {
        let files = mpi_variables::prepare(self.program, &mut self.variables);
        let words = self.words();
        let mut command = std::process::Command::new(&words[0]);
        command.args(&words[1..]).env_clear();
        for variable in self.variables.0.split(|b| *b == 0) {
            if let Some(at) = variable.iter().position(|b| *b == b'=') {
                let part = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
                command.env(part(&variable[..at]), part(&variable[at + 1..]));
            }
        }
        if let Some(workdir) = self.workdir {
            command.current_dir(workdir);
        }
        let ended = shell::run(shell::ShellOptions::hang_up(self.program), command, job_connection);
        drop(files);
        ended.map_err(|e| {
            let shown = words[0].to_string_lossy();
            exit::error(NO_COMMAND, format!("cannot run '{shown}': {e}"))
        })
    }

    fn words(&self) -> Vec<OsString> {
        if !self.command.is_empty() {
            return self.command.clone();
        }
        let shell = std::env::var_os("SHELL").filter(|s| !s.is_empty());
        vec![shell.unwrap_or_else(|| "/bin/sh".into())]
    }
}
