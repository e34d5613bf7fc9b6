//! `cosy mpi`: a command with the variables that the MPI plugins give for the allocation
//! that it runs in. A batch script has them from its start; this is for what is started
//! otherwise: a shell of `calloc`, a task of a step.

use crate::native::arg::{command as base, list};
use crate::native::submit::options::words;
use crate::{Context, exit, output};
use anyhow::Context as _;
use clap::{ArgMatches, Command};
use cosy_model::variables::PLUGIN_PATH;
use cosy_plugin::{Environment, Plugins, needs_plugins, prepare, remove_files};
use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The exit code of a command that does not exist, as shells have it.
const NOT_FOUND: u8 = 127;
/// The exit code of a command that cannot be executed, as shells have it.
const NOT_EXECUTABLE: u8 = 126;
/// Signals that a terminal sends to the whole process group: the command handles them, and this
/// program goes on waiting for it.
const LEFT_TO_THE_COMMAND: [i32; 4] = [
    signal_hook::consts::SIGINT,
    signal_hook::consts::SIGQUIT,
    signal_hook::consts::SIGTERM,
    signal_hook::consts::SIGHUP,
];

/// The command line of `cosy mpi`.
pub fn command() -> Command {
    base("mpi", "Run a command with the variables of the MPI plugins")
        .override_usage("cosy mpi COMMAND [ARG]...")
        .after_help(
            "Inside an allocation, so that 'mpirun' in it starts on its nodes. A batch script \
         and a shell of calloc have these variables from their start.\n\n\
         Ends with the command's exit code.",
        )
        .arg(
            words("Command and its arguments")
                .value_name("COMMAND")
                .required(true),
        )
}

/// Runs `cosy mpi`.
///
/// # Errors
/// The command cannot be executed.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let argv: Vec<OsString> = list(matches, "words");
    let [program, args @ ..] = &argv[..] else {
        return Err(exit::usage("a command is needed"));
    };
    let environment: Environment = std::env::vars_os().collect();
    let mut command = std::process::Command::new(program);
    command.args(args);
    let Some(prepared) = prepare_plugins(&environment, context.program()) else {
        return Err(cannot(program, &command.exec()));
    };
    command.envs(&prepared.variables);
    for signal in LEFT_TO_THE_COMMAND {
        // Not ignored: the command would inherit that.
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let mut child = command.spawn().map_err(|e| cannot(program, &e))?;
    let status = child.wait().context("cannot wait for the command")?;
    Ok(code(status))
}

fn code(status: ExitStatus) -> u8 {
    exit::of_end(status.code().unwrap_or(0), status.signal().unwrap_or(0), true)
}

fn cannot(program: &OsStr, error: &io::Error) -> anyhow::Error {
    let code = match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    };
    let program = program.to_string_lossy();
    exit::error(code, format!("cannot execute {program}: {error}"))
}

/// The variables that the plugins set for an allocation, and the directory of their files, which is
/// removed with this value.
#[derive(Debug)]
pub struct PreparedPlugins {
    /// Variables to add to the environment.
    pub variables: Environment,
    files: PathBuf,
}

impl Drop for PreparedPlugins {
    fn drop(&mut self) {
        let _ = remove_files(&self.files);
    }
}

/// Runs the plugins for the allocation that these variables describe; `None` where that is not
/// needed. Errors are reported in the name of `program`.
pub fn prepare_plugins(environment: &Environment, program: &str) -> Option<PreparedPlugins> {
    if !needs_plugins(environment) {
        return None;
    }
    let files = match private_directory(environment) {
        Ok(files) => files,
        Err(e) => {
            output::complain(program, &format!("no directory for MPI plugins: {e}"));
            return None;
        }
    };
    let path = environment.get(OsStr::new(PLUGIN_PATH));
    let own = std::env::current_exe().ok();
    let plugins = Plugins::search(path.map(OsString::as_os_str), own.as_deref());
    let prepared = prepare(&plugins, environment, &files, own.as_deref());
    for complaint in &prepared.complaints {
        output::complain(program, complaint);
    }
    Some(PreparedPlugins {
        variables: prepared.variables,
        files,
    })
}

/// A new directory that only this user can look into.
fn private_directory(environment: &Environment) -> io::Result<PathBuf> {
    let set = |name: &str| {
        let place = environment.get(OsStr::new(name)).map(Path::new);
        place.filter(|p| p.is_absolute() && p.is_dir())
    };
    let places = [
        set("XDG_RUNTIME_DIR"),
        set("TMPDIR"),
        Some(Path::new("/tmp")),
    ];
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for place in places.into_iter().flatten() {
        let directory = place.join(format!("cosy-mpi.{}", random_name()?));
        match DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => return Ok(directory),
            Err(e) => failure = e,
        }
    }
    Err(failure)
}

fn random_name() -> io::Result<String> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(more: &[(&str, &str)]) -> Environment {
        let usual = [
            ("PATH", "/usr/bin:/bin"),
            ("COSY_NODES", "n[1-2]"),
            ("COSY_TASKS", "3"),
            ("COSY_TASKS_BY_NODE", "2,1"),
        ];
        let all = usual.iter().chain(more);
        all.map(|(n, v)| (n.into(), v.into())).collect()
    }

    #[test]
    fn files_go_with_their_owner() {
        let work = tempfile::tempdir().unwrap();
        let place = work.path().to_str().unwrap();
        let plugins = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins");
        let environment = environment(&[("TMPDIR", place), (PLUGIN_PATH, plugins)]);
        let got = prepare_plugins(&environment, "test").unwrap();
        let hosts = &got.variables[OsStr::new("HYDRA_HOST_FILE")];
        assert!(Path::new(hosts).starts_with(place), "{hosts:?}");
        assert_eq!(std::fs::read_to_string(hosts).unwrap(), "n1:2\nn2:1\n");
        drop(got);
        assert_eq!(std::fs::read_dir(place).unwrap().count(), 0);
    }

    #[test]
    fn nothing_to_say() {
        assert!(prepare_plugins(&environment(&[("COSY_TASKS", "1")]), "test").is_none());
        assert!(prepare_plugins(&environment(&[("COSY_MPI", "none")]), "test").is_none());
    }
}
