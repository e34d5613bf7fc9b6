//! `cbcast`: copies a file to all nodes of a job.

use crate::launch::broadcast::{self, Broadcast, parse_job};
use crate::launch::step_socket;
use crate::native::arg::{flag, value};
use crate::{Context, exit};
use clap::{Arg, ArgMatches, Command};
use cosy_model::JobId;
use std::ffi::OsString;
use std::path::PathBuf;

/// The command line of `cbcast`.
pub fn command() -> Command {
    crate::native::arg::command("cast", "Copy a file to all nodes of a job")
        .override_usage("cbcast [OPTIONS] SOURCE DESTINATION")
        .after_help(AFTER)
        .arg(flag("force", "Replace a file that is there").short('f'))
        .arg(flag("preserve", "Keep times of access and modification").short('p'))
        .arg(
            value("mode", "MODE", "Mode of the copies, octal (default: that of the source)")
                .value_parser(mode),
        )
        .arg(
            value("job", "ID", "A running job of yours (default: the one around)")
                .value_parser(parse_job),
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
    let Some(job) = job.or_else(step_socket::current_job) else {
        return Err(exit::usage("to the nodes of which job? Name it with --job"));
    };
    let source = matches.get_one::<PathBuf>("source");
    let destination = matches.get_one::<OsString>("destination");
    let copy = Broadcast {
        job,
        source: source.cloned().unwrap_or_default(),
        destination: destination.cloned().unwrap_or_default(),
        mode: matches.get_one("mode").copied(),
        force: matches.get_flag("force"),
        preserve: matches.get_flag("preserve"),
        quiet: matches.get_flag("quiet"),
    };
    broadcast::run(context, &copy)
}

fn mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|m| *m <= 0o7777)
        .ok_or_else(|| "an octal mode is needed, like 755".to_owned())
}
