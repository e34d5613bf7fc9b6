//! The command line of `sinfo`, and the variables that stand for options. Source: sinfo(1).

use super::states::Filter;
use crate::getopt::{self, GivenOption, Order, UsageError};
use crate::json_yaml::Spelling;
use crate::squeue::options::{Format, list};
use crate::table::{self, Row};
use crate::verbose;
use std::ffi::OsString;

/// All options of `sinfo`, as `--help` lists them.
pub const OPTIONS: &[Row] = &[
    Row::flag(b'a', "all", "partitions that are hidden too: here none is"),
    Row::flag(b'd', "dead", "only nodes that do not answer"),
    Row::flag(b'e', "exact", "group only nodes that are alike in everything"),
    Row::long_flag("federation", "the whole federation: here the own cluster"),
    Row::flag(b'h', "noheader", "no headings"),
    Row::long_flag("hide", "no hidden partitions"),
    Row::value(b'i', "iterate", "SECONDS", "again and again after so many seconds"),
    Row::long_flag("json", "print JSON"),
    Row::long_flag("local", "only this cluster"),
    Row::flag(b'l', "long", "more columns"),
    Row::value(b'M', "clusters", "NAME[,...]", "ask these clusters: only the own one is there"),
    Row::value(b'n', "nodes", "NODES", "these nodes"),
    Row::long_flag("noconvert", "sizes in MiB as they are"),
    Row::flag(b'N', "Node", "a line for each node and partition"),
    Row::value(b'o', "format", "FORMAT", "columns by letter, like \"%9P %.5a %N\""),
    Row::value(b'O', "Format", "NAME[:[.]WIDTH],...", "columns by name"),
    Row::value(b'p', "partition", "NAME[,...]", "these partitions"),
    Row::flag(b'r', "responding", "only nodes that answer"),
    Row::flag(b'R', "list-reasons", "why nodes are down or drained"),
    Row::flag(b's', "summarize", "a line for each partition"),
    Row::value(
        b'S',
        "sort",
        "KEYS",
        "order: letters of -o with commas, '-' before one turns it round",
    ),
    Row::value(b't', "states", "STATE[,...]", "nodes in these states"),
    Row::long_value("state", "STATE[,...]", "").also("states"),
    Row::flag(b'T', "reservation", "reservations"),
    Row::flag(b'v', "verbose", "tell more"),
    Row::flag(b'V', "version", "print the version"),
    Row::long_flag("yaml", "print YAML"),
    Row::long_flag("help", "print this help"),
    Row::long_flag("usage", "print a short summary of options"),
];

/// What `--usage` prints: the options in the short form that clients know.
pub const SYNOPSIS: &str = "\
Usage: sinfo [-abdelNRrsTv] [-i seconds] [-t states] [-p partition] [-n nodes]
             [-S fields] [-o format] [-O Format] [--federation] [--local]
";

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub struct Query {
    /// Only nodes that do not answer.
    pub dead: bool,
    /// Only nodes that answer.
    pub responding: bool,
    /// Only nodes alike in everything go together.
    pub exact: bool,
    /// Without headings (`--noheader`).
    pub bare: bool,
    /// Seconds between two reports.
    pub iterate: Option<u64>,
    /// JSON or YAML.
    pub spelling: Option<Spelling>,
    /// More columns (`--long`).
    pub long: bool,
    /// Names of clusters, of which this one is the only known.
    pub clusters: Vec<String>,
    /// Nodes as they were written.
    pub nodes: Option<String>,
    /// Sizes as they are.
    pub raw_sizes: bool,
    /// A line for each node and partition.
    pub by_node: bool,
    /// Columns; the usual ones without.
    pub format: Option<Format>,
    /// Partitions; all when empty.
    pub partitions: Vec<String>,
    /// List reasons why nodes are out (`-R`).
    pub reasons: bool,
    /// A line for each partition.
    pub summary: bool,
    /// Order as it was written.
    pub sort: Option<String>,
    /// States; all when empty.
    pub states: Vec<Filter>,
    /// List reservations instead of nodes (`-T`).
    pub reservations: bool,
    /// How often more was asked for.
    pub verbose: u32,
}

impl Query {
    /// What `-v` tells of the query.
    pub fn told(&self) -> String {
        const NOTHING: &str = "n/a";
        let format = self.format.as_ref().map(|format| match format {
            Format::Letters(text) | Format::Names(text) => text.as_str(),
        });
        let filtering = self.dead || self.responding || self.nodes.is_some();
        let filtering = filtering || !self.partitions.is_empty() || !self.states.is_empty();
        verbose::lines(&[
            ("dead", self.dead.to_string()),
            ("exact", u8::from(self.exact).to_string()),
            ("filtering", filtering.to_string()),
            ("format", verbose::text(format, "(null)")),
            ("iterate", self.iterate.unwrap_or(0).to_string()),
            ("long", self.long.to_string()),
            ("no_header", self.bare.to_string()),
            ("node_field", self.by_node.to_string()),
            ("nodes", verbose::text(self.nodes.as_deref(), NOTHING)),
            ("partition", verbose::words(&self.partitions, NOTHING)),
            ("responding", self.responding.to_string()),
            ("sort", verbose::text(self.sort.as_deref(), "(null)")),
            ("summarize", self.summary.to_string()),
            ("verbose", self.verbose.to_string()),
        ])
    }
}

/// What a command line asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Invocation {
    /// A report about nodes.
    Report(Box<Query>),
    /// The long help (`--help`).
    Help,
    /// The short help (`--usage`).
    Usage,
    /// Name and version (`--version`).
    Version,
    /// A mistake: what the C library says.
    UsageError(UsageError),
    /// A word that is no state.
    BadState(String),
    /// A value that is none: what to say.
    Bad(String),
}

/// Reads the command line (without the program's name); `variable` gives the environment.
pub fn read(args: &[OsString], variable: impl Fn(&str) -> Option<String>) -> Invocation {
    let parsed = getopt::parse(&table::opts(OPTIONS), Order::Permute, args);
    let mut query = Query {
        partitions: variable("SINFO_PARTITION").map_or_else(Vec::new, |text| list(&text)),
        sort: variable("SINFO_SORT"),
        format: variable("SINFO_FORMAT").map(Format::Letters),
        ..Query::default()
    };
    for found in &parsed.found {
        if let Err(other) = take(&mut query, found) {
            return other;
        }
    }
    let all = parsed.found.iter().any(|found| found.name == "all");
    let all_by_variable = variable("SINFO_ALL").is_some();
    let named = parsed.found.iter().any(|found| found.name == "partition");
    match parsed.mistake {
        None if all && named => Invocation::Bad(conflict("-a", "-p")),
        None if all_by_variable && !named && !query.partitions.is_empty() => {
            Invocation::Bad(conflict("SINFO_ALL", "SINFO_PARTITION"))
        }
        None if all => {
            query.partitions.clear();
            Invocation::Report(Box::new(query))
        }
        Some(mistake) => Invocation::UsageError(mistake),
        None => Invocation::Report(Box::new(query)),
    }
}

fn conflict(one: &str, other: &str) -> String {
    format!("Conflicting options, {one} and {other}, specified. Please choose one or the other.")
}

fn take(query: &mut Query, found: &GivenOption) -> Result<(), Invocation> {
    let text = || found.text();
    match found.name {
        "help" => return Err(Invocation::Help),
        "usage" => return Err(Invocation::Usage),
        "version" => return Err(Invocation::Version),
        "dead" => query.dead = true,
        "responding" => query.responding = true,
        "exact" => query.exact = true,
        "noheader" => query.bare = true,
        "iterate" => {
            let seconds = text().parse().ok().filter(|n| *n > 0);
            let bad = || Invocation::Bad(format!("--iterate={}", text()));
            query.iterate = Some(seconds.ok_or_else(bad)?);
        }
        "json" => query.spelling = Some(Spelling::Json),
        "yaml" => query.spelling = Some(Spelling::Yaml),
        "long" => query.long = true,
        "clusters" => query.clusters = list(&text()),
        "nodes" => query.nodes = Some(text()),
        "noconvert" => query.raw_sizes = true,
        "Node" => query.by_node = true,
        "format" => query.format = Some(Format::Letters(text())),
        "Format" => query.format = Some(Format::Names(text())),
        "partition" => query.partitions = list(&text()),
        "list-reasons" => query.reasons = true,
        "summarize" => query.summary = true,
        "sort" => query.sort = Some(text()),
        "states" => query.states = states(&text())?,
        "reservation" => query.reservations = true,
        "verbose" => query.verbose += 1,
        // Nothing is hidden, and there is one cluster.
        _ => {}
    }
    Ok(())
}

fn states(text: &str) -> Result<Vec<Filter>, Invocation> {
    let one = |word: &str| Filter::read(word).ok_or_else(|| Invocation::BadState(word.to_owned()));
    let words = text.split([',', '&']).filter(|w| !w.is_empty());
    words.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(line: &str) -> Invocation {
        let args: Vec<OsString> = line.split('~').map(OsString::from).collect();
        read(&args, |_| None)
    }

    #[test]
    fn bundles() {
        let Invocation::Report(q) = query("-ahNO~CPUs,Memory") else {
            panic!("no report")
        };
        assert!(q.bare && q.by_node);
        assert_eq!(q.format, Some(Format::Names("CPUs,Memory".to_owned())));
        let Invocation::Report(q) = query("-t~idle,alloc~-hp~main") else {
            panic!("no report")
        };
        assert_eq!((q.states.len(), q.partitions.as_slice()), (2, &["main".to_owned()][..]));
        assert_eq!(query("-t~foo"), Invocation::BadState("foo".to_owned()));
        assert!(matches!(query("--nosuch"), Invocation::UsageError(_)));
        assert_eq!(query("-V"), Invocation::Version);
    }

    #[test]
    fn the_synopsis_names_options_that_there_are() {
        let words = SYNOPSIS.split(['[', ']', ' ', '\n']);
        let (long, short): (Vec<&str>, Vec<&str>) = words
            .filter(|w| w.starts_with('-'))
            .partition(|w| w.starts_with("--"));
        // `-b` is no option of the original any more either.
        for letter in short
            .iter()
            .flat_map(|w| w[1..].bytes())
            .filter(|l| *l != b'b')
        {
            let known = OPTIONS.iter().any(|row| row.opt.short == Some(letter));
            assert!(known, "{}", char::from(letter));
        }
        for name in long {
            assert!(OPTIONS.iter().any(|row| row.opt.long == &name[2..]), "{name}");
        }
    }

    #[test]
    fn verbose() {
        let Invocation::Report(q) = query("-v~-p~main,short~-i~3") else {
            panic!("no report")
        };
        for line in [
            "iterate     = 3",
            "partition   = main,short",
            "filtering   = true",
            "verbose     = 1",
        ] {
            assert!(q.told().contains(&format!("\n{line}\n")), "{line}");
        }
    }

    #[test]
    fn all_partitions_or_some() {
        let ask = |line: &str, all: bool| {
            let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            let asked = read(&args, |name| match name {
                "SINFO_PARTITION" => Some("a,b".to_owned()),
                "SINFO_ALL" if all => Some("1".to_owned()),
                _ => None,
            });
            match asked {
                Invocation::Report(query) => query.partitions.join(","),
                Invocation::Bad(text) => text.split(", sp").next().unwrap_or_default().to_owned(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(ask("-h", false), "a,b");
        assert_eq!(ask("-p c", true), "c");
        assert_eq!(ask("-a", false), "");
        assert_eq!(ask("-p c -a", false), "Conflicting options, -a and -p");
        let both = "Conflicting options, SINFO_ALL and SINFO_PARTITION";
        assert_eq!(ask("-h", true), both);
    }

    #[test]
    fn variables() {
        let args = ["-h".into()];
        let asked = read(&args, |name| (name == "SINFO_FORMAT").then(|| "%N".to_owned()));
        let Invocation::Report(q) = asked else {
            panic!("no report")
        };
        assert_eq!(q.format, Some(Format::Letters("%N".to_owned())));
    }
}
