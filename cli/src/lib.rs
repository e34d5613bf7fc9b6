//! The commands of Cosy. One program, called `cosy SUBCOMMAND` or by a short name
//! (`csub`, `cstat` ...): each command turns its command line into requests of
//! `cosy_model::api` and shows the replies.
//!
//! A command holds no secret and decides nothing: who asks is what the kernel tells the
//! controller, and whatever can be refused there is refused there. Starting up must be
//! next to nothing: only the called command's options are built, no file is read and no
//! name looked up that the command does not need.

pub mod allocation;
pub mod commands;
pub mod completion;
pub mod context;
pub mod controllers;
pub mod exit;
pub mod job_options;
pub mod launch;
pub mod native;
pub mod output;
pub mod page;
pub mod quick;
pub mod refs;
pub mod shell_words;
pub mod signals;
pub mod slurm;
pub mod submitter;
pub mod times;
pub mod units;
pub mod users;
pub mod zone;

pub use context::Context;

use cosy_client::CallError;
use cosy_model::RefusalCode;
use launch::node_request::StepRefused;
use native::entry::Entry;
use native::{arg, dev};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The whole program; gives its exit code.
pub fn main() -> u8 {
    let mut args = std::env::args_os();
    let called = args.next().unwrap_or_default();
    let called = Path::new(&called).file_name().unwrap_or(OsStr::new("cosy"));
    let called = called.to_string_lossy();
    let rest: Vec<OsString> = args.collect();
    if let Some(command) = slurm::by_name(&called) {
        return slurm::start(command, rest);
    }
    match commands::by_short_name(&called) {
        Some(command) => start(command, &called, rest),
        None => cosy(rest),
    }
}

/// `cosy SUBCOMMAND ...`.
fn cosy(mut args: Vec<OsString>) -> u8 {
    let first = if args.is_empty() {
        OsString::new()
    } else {
        args.remove(0)
    };
    match first.to_string_lossy().as_ref() {
        "" | "-h" | "--help" | "help" => match args.first().map(|a| a.to_string_lossy()) {
            Some(name) => match commands::by_name(&name) {
                Some(command) => start(command, &format!("cosy {name}"), vec!["--help".into()]),
                None => unknown(&name),
            },
            None => {
                output::print(&commands::overview(output::width()));
                if first.is_empty() {
                    exit::USAGE
                } else {
                    exit::OK
                }
            }
        },
        "-V" | "--version" => {
            output::print(concat!("cosy ", env!("CARGO_PKG_VERSION"), "\n"));
            exit::OK
        }
        completion::HIDDEN_NAME => completion::main(&args),
        dev::supervisor::HIDDEN_NAME => dev::supervisor::main(&args),
        name => match commands::by_name(name) {
            Some(command) => start(command, &format!("cosy {name}"), args),
            None => match slurm::by_name(name) {
                Some(command) => slurm::start(command, args),
                None => unknown(name),
            },
        },
    }
}

fn unknown(name: &str) -> u8 {
    output::complain("cosy", &format!("there is no command '{name}': see cosy --help"));
    exit::USAGE
}

fn start(command: &Entry, program: &str, args: Vec<OsString>) -> u8 {
    let Entry { build, run, .. } = command;
    let words = std::iter::once(OsStr::new(program)).chain(args.iter().map(OsString::as_os_str));
    let built = arg::with_whole_lines(build()).bin_name(program.to_owned());
    let matches = match built.try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(e) => return usage_error(program, &e),
    };
    match run(&Context::new(program, args), &matches) {
        Ok(code) => code,
        Err(e) => {
            output::complain(program, &format!("{e:#}"));
            code_of(&e)
        }
    }
}

fn usage_error(program: &str, error: &clap::Error) -> u8 {
    match arg::error_line(error) {
        Some(line) => {
            output::complain(program, &line);
            exit::USAGE
        }
        None => {
            output::print(&error.render().to_string());
            exit::OK
        }
    }
}

fn code_of(error: &anyhow::Error) -> u8 {
    if let Some(refused) = error.downcast_ref::<StepRefused>() {
        return match refused.0.code {
            RefusalCode::Unavailable | RefusalCode::Standby => exit::UNREACHABLE,
            _ => exit::FAILED,
        };
    }
    if let Some(own) = error.downcast_ref::<exit::ExitError>() {
        return own.code;
    }
    error
        .downcast_ref::<CallError>()
        .map_or(exit::FAILED, exit::of_call)
}
