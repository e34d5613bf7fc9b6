//! Command lines of commands that have a table of options: help, usage, version and mistakes
//! are answered here.

use super::messages::{called_name, say};
use crate::{Context, exit, output};
use cosy_slurm::getopt::{self, Order, Parsed, UsageError};
use cosy_slurm::table::{self, Row};

/// The version line: the release whose behaviour these commands have.
pub const VERSION: &str = "slurm 22.05.11";

/// The version line on standard output.
pub fn version() -> u8 {
    output::print(&format!("{VERSION}\n"));
    exit::OK
}

/// Reports an error on the command line, with a hint to `--help`; gives the exit code.
pub fn mistake(context: &Context, mistake: &UsageError) -> u8 {
    say(&mistake.text(&called_name()));
    say(&getopt::hint(context.program()));
    exit::FAILED
}

/// Parses the command line.
///
/// # Errors
/// The exit code, where it asked for help, usage or version, which is printed here, or has an error,
/// which is reported here.
pub fn read(context: &Context, usage: &str, rows: &[Row]) -> Result<Parsed, u8> {
    let parsed = getopt::parse(&table::opts(rows), Order::Permute, context.args());
    for found in &parsed.found {
        match found.name {
            "help" => output::print(&table::help(usage, rows)),
            "usage" => output::print(&table::usage(usage, rows)),
            "version" => return Err(version()),
            _ => continue,
        }
        return Err(exit::OK);
    }
    match &parsed.mistake {
        Some(found) => Err(mistake(context, found)),
        None => Ok(parsed),
    }
}
