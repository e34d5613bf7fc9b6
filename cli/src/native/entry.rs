//! One command of Cosy's own: its names, its command line, and what runs it.

use crate::Context;
use clap::{ArgMatches, Command};

/// What a command does.
#[derive(Clone, Copy)]
pub enum Action {
    /// It runs.
    Run {
        /// Its command line.
        build: fn() -> Command,
        /// Runs it; gives the exit code.
        run: fn(&Context, &ArgMatches) -> anyhow::Result<u8>,
    },
    /// Its name is taken for it; it comes with a later version.
    Reserved,
}

/// A command of Cosy's own: its names, and what it does.
pub struct Entry {
    /// The word behind `cosy`.
    pub name: &'static str,
    /// The short name, where there is one.
    pub short: Option<&'static str>,
    /// Listed by `cosy --help`.
    pub shown: bool,
    /// What it does.
    pub action: Action,
}
