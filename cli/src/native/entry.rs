//! The entry of a command of Cosy's own in the list of commands.

use crate::Context;
use clap::{ArgMatches, Command};

/// A command of Cosy's own.
pub struct Entry {
    /// The subcommand's name, as in `cosy NAME`.
    pub name: &'static str,
    /// The short name, where there is one.
    pub short: Option<&'static str>,
    /// Whether `cosy --help` lists the command.
    pub shown: bool,
    /// Gives the command's options and arguments.
    pub build: fn() -> Command,
    /// Runs the command; gives the exit code.
    pub run: fn(&Context, &ArgMatches) -> anyhow::Result<u8>,
}
