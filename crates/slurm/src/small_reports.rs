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
    Row::flag(b'n', "norm", "parts of the whole"),
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

/// A column of `sshare`: name and width, below 0 aligned to the left.
pub type ShareColumn = (&'static str, i32);

/// Columns of `sshare`.
pub const SHARES: [ShareColumn; 7] = [
    ("Account", -20),
    ("User", 10),
    ("RawShares", 10),
    ("NormShares", 11),
    ("RawUsage", 11),
    ("EffectvUsage", 13),
    ("FairShare", 10),
];
/// Columns of `sshare` that only `--format` shows.
pub const MORE_SHARES: [ShareColumn; 7] = [
    ("Cluster", 10),
    ("GrpTRESMins", 30),
    ("GrpTRESRaw", 30),
    ("ID", 6),
    ("LevelFS", 10),
    ("Partition", 10),
    ("TRESRunMins", 30),
];

/// Reads `account,fairshare%20`.
///
/// # Errors
/// The word that is no column.
pub fn shares(text: &str) -> Result<Vec<ShareColumn>, String> {
    let one = |word: &str| {
        let (name, width) = match word.split_once('%') {
            Some((name, width)) => (name, width.parse::<i32>().ok()),
            None => (word, None),
        };
        let all = SHARES.iter().chain(&MORE_SHARES);
        let begins = |s: &&ShareColumn| {
            let start = s.0.get(..name.len());
            !name.is_empty() && start.is_some_and(|s| s.eq_ignore_ascii_case(name))
        };
        let found = all.clone().find(begins).ok_or_else(|| name.to_owned())?;
        let width = width.filter(|w| *w != 0).unwrap_or(found.1);
        Ok((found.0, width.clamp(-1000, 1000)))
    };
    text.split(',').filter(|w| !w.is_empty()).map(one).collect()
}

/// The headings of `sshare`: in columns with dashes below, or with `|`: behind each
/// (`Some(true)`) or between them.
pub fn share_heading(columns: &[ShareColumn], separated: Option<bool>) -> String {
    let names: Vec<&str> = columns.iter().map(|c| c.0).collect();
    match separated {
        Some(true) => format!("{}|\n", names.join("|")),
        Some(false) => format!("{}\n", names.join("|")),
        None => {
            let (mut heads, mut dashes) = (String::new(), String::new());
            for (name, width) in columns {
                let size = usize::try_from(width.unsigned_abs()).unwrap_or(0);
                let shown: String = name.chars().take(size).collect();
                if *width < 0 {
                    heads.push_str(&format!("{shown:<size$} "));
                } else {
                    heads.push_str(&format!("{shown:>size$} "));
                }
                dashes.push_str(&"-".repeat(size));
                dashes.push(' ');
            }
            format!("{heads}\n{dashes}\n")
        }
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

    #[test]
    fn headings_as_captured() {
        let want = "Account                    User  RawShares  NormShares    RawUsage  EffectvUsage  FairShare \n\
            -------------------- ---------- ---------- ----------- ----------- ------------- ---------- \n";
        assert_eq!(share_heading(&SHARES, None), want);
        let columns = shares("account,fairshare").unwrap();
        assert_eq!(share_heading(&columns, Some(false)), "Account|FairShare\n");
        assert_eq!(shares("nosuch"), Err("nosuch".to_owned()));
    }
}
