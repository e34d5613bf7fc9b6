//! The entry of a command of Cosy's own in the list of commands.

use crate::Context;
use clap::{ArgMatches, Command};

/// Whether a command can be called.
#[derive(Clone, Copy)]
pub enum Action {
    /// The command can be called.
    Run {
        /// Gives the command's options and arguments.
        build: fn() -> Command,
        /// Runs the command; gives the exit code.
        run: fn(&Context, &ArgMatches) -> anyhow::Result<u8>,
    },
    /// The name is reserved for a command of a later version.
    Reserved,
}

/// A command of Cosy's own.
pub struct Entry {
    /// The subcommand's name, as in `cosy NAME`.
    pub name: &'static str,
    /// The short name, where there is one.
    pub short: Option<&'static str>,
    /// Whether `cosy --help` lists the command.
    pub shown: bool,
    /// How the command is run, if this version has it.
    pub action: Action,
}
