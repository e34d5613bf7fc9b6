//! Command lines of the small reports (`sprio`, `sshare`, `sdiag`): options whose values do
//! not change what is told. Sources: sprio(1), sshare(1), sdiag(1).

use crate::getopt::{self, Order, Parsed, UsageError};
use crate::table::{self, Row};
use std::ffi::OsString;

/// Options of `sprio`.
pub const SPRIO: &[Row] = &[
    Row::flag(b'h', "noheader", "no headings"),
    Row::value(b'j', "jobs", "ID[,...]", "these jobs"),
    Row::flag(b'l', "long", "more columns"),
    Row::value(b'M', "cluster", "NAME", "ask this cluster: only the own one is there"),
    Row::flag(b'n', "norm", "factors from 0 to 1, not points"),
    Row::value(b'o', "format", "FORMAT", "columns by letter"),
    Row::value(b'p', "partition", "NAME[,...]", "jobs in these partitions"),
    Row::value(b'S', "sort", "KEYS", "order"),
    Row::long_flag("federation", "the whole federation"),
    Row::long_flag("local", "only this cluster"),
    Row::long_flag("sibling", "jobs of sibling clusters"),
    Row::value(b'u', "user", "NAME[,...]", "jobs of these users"),
    Row::flag(b'v', "verbose", "tell more"),
    Row::flag(b'V', "version", "print the version"),
    Row::flag(b'w', "weights", "weights of the factors"),
    Row::long_flag("help", "print this help"),
    Row::long_flag("usage", "print a short summary of options"),
];

/// Options of `sshare`.
pub const SSHARE: &[Row] = &[
    Row::value(b'A', "accounts", "NAME[,...]", "these accounts"),
    Row::flag(b'a', "all", "all users"),
    Row::flag(b'e', "helpformat", "print the names of columns"),
    Row::flag(b'l', "long", "more columns"),
    Row::flag(b'm', "partition", "associations by partition"),
    Row::value(b'M', "clusters", "NAME", "ask this cluster: only the own one is there"),
    Row::flag(b'n', "noheader", "no headings"),
    Row::value(b'o', "format", "FIELD[%WIDTH],...", "columns"),
    Row::flag(b'p', "parsable", "values with '|' behind each"),
    Row::flag(b'P', "parsable2", "values with '|' between them"),
    Row::value(b'u', "users", "NAME[,...]", "these users"),
    Row::flag(b'U', "Users", "only users"),
    Row::flag(b'v', "verbose", "tell more"),
    Row::flag(b'V', "version", "print the version"),
    Row::flag(b'h', "help", "print this help"),
    Row::long_flag("usage", "print a short summary of options"),
];

/// Options of `sdiag`.
pub const SDIAG: &[Row] = &[
    Row::flag(b'a', "all", "all statistics"),
    Row::value(b'M', "cluster", "NAME", "ask this cluster: only the own one is there"),
    Row::flag(b'r', "reset", "refused: counts begin at midnight"),
    Row::flag(b'i', "sort-by-id", "messages by number"),
    Row::flag(b't', "sort-by-time", "messages by time"),
    Row::flag(b'T', "sort-by-time2", "messages by mean time"),
    Row::long_value("statistics", "NAME", "these statistics"),
    Row::flag(b'h', "help", "print this help"),
    Row::long_flag("usage", "print a short summary of options"),
    Row::flag(b'V', "version", "print the version"),
];

/// What a command line asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Invocation {
    /// The report, with its options.
    Report(Parsed),
    /// The long help (`--help`).
    Help,
    /// The short help (`--usage`).
    Usage,
    /// Name and version (`--version`).
    Version,
    /// What cannot be understood.
    UsageError(UsageError),
}

/// Reads a command line (without the program's name).
pub fn read(table: &[Row], args: &[OsString]) -> Invocation {
    let parsed = getopt::parse(&table::opts(table), Order::Permute, args);
    for found in &parsed.found {
        match found.name {
            "help" => return Invocation::Help,
            "usage" => return Invocation::Usage,
            "version" => return Invocation::Version,
            _ => {}
        }
    }
    match parsed.mistake {
        Some(mistake) => Invocation::UsageError(mistake),
        None => Invocation::Report(parsed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        assert!(matches!(read(SPRIO, &["-l".into()]), Invocation::Report(_)));
        assert!(matches!(read(SSHARE, &["-U".into()]), Invocation::Report(_)));
        assert!(matches!(read(SDIAG, &["-Y".into()]), Invocation::UsageError(_)));
        assert_eq!(read(SDIAG, &["-V".into()]), Invocation::Version);
    }
}
