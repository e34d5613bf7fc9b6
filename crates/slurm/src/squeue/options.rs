//! The command line of `squeue`, and the variables that stand for options. Source:
//! squeue(1).

use crate::getopt::{self, GivenOption, Order, UsageError};
use crate::json_yaml::Spelling;
use crate::state::SlurmState;
use crate::table::{self, Row};
use crate::verbose;
use std::ffi::OsString;

/// All options of `squeue`, as `--help` lists them.
pub const OPTIONS: &[Row] = &[
    Row::value(b'A', "account", "NAME[,...]", "jobs charged to these accounts"),
    Row::flag(b'a', "all", "jobs in hidden partitions too"),
    Row::long_flag("array-unique", "each waiting array task in a line of its own"),
    Row::value(b'M', "clusters", "NAME[,...]", "ask these clusters: only the own one is there"),
    Row::long_flag("federation", "jobs of the whole federation: here the own cluster"),
    Row::flag(b'h', "noheader", "no headings"),
    Row::long_flag("hide", "no jobs in hidden partitions"),
    Row::value(b'i', "iterate", "SECONDS", "again and again after so many seconds"),
    Row::value(b'j', "job", "ID[,...]", "these jobs: 12, 12_3, 12_[1-3]"),
    Row::long_value("jobs", "ID[,...]", "").also("job"),
    Row::long_flag("json", "print JSON"),
    Row::long_flag("local", "only jobs of this cluster"),
    Row::flag(b'l', "long", "more columns"),
    Row::value(b'L', "licenses", "NAME[,...]", "jobs that ask for these licenses"),
    Row::long_flag("me", "own jobs"),
    Row::value(b'n', "name", "NAME[,...]", "jobs with these names"),
    Row::long_flag("noconvert", "sizes in MiB as they are"),
    Row::value(b'w', "nodelist", "NODES", "jobs on these nodes"),
    Row::long_value("node", "NODES", "").also("nodelist"),
    Row::value(b'o', "format", "FORMAT", "columns by letter, like \"%.18i %.9P %t\""),
    Row::value(b'O', "Format", "NAME[:[.]WIDTH],...", "columns by name"),
    Row::value(b'p', "partition", "NAME[,...]", "jobs in these partitions"),
    Row::long_value("partitions", "NAME[,...]", "").also("partition"),
    Row::flag(b'P', "priority", "a line for each partition that a waiting job may run in"),
    Row::value(b'q', "qos", "NAME[,...]", "jobs with these qualities of service"),
    Row::value(b'R', "reservation", "NAME", "jobs in this reservation"),
    Row::flag(b'r', "array", "each array task in a line of its own"),
    Row::long_flag("sibling", "jobs of sibling clusters: there are none here"),
    Row::value(
        b'S',
        "sort",
        "KEYS",
        "order: letters of -o with commas, '-' before one turns it round",
    ),
    Row::long_flag("start", "expected starts of waiting jobs"),
    Row::value(b't', "states", "STATE[,...]", "jobs in these states, or 'all'"),
    Row::long_value("state", "STATE[,...]", "").also("states"),
    Row::value(b's', "steps", "ID.STEP[,...]", "steps instead of jobs").perhaps(),
    Row::value(b'u', "user", "NAME[,...]", "jobs of these users"),
    Row::long_value("users", "NAME[,...]", "").also("user"),
    Row::flag(b'v', "verbose", "tell more"),
    Row::flag(b'V', "version", "print the version"),
    Row::long_flag("yaml", "print YAML"),
    Row::long_flag("help", "print this help"),
    Row::long_flag("usage", "print a short summary of options"),
];

/// How columns were asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Format {
    /// Text with letters, `%.8i %j` (`-o`).
    Letters(String),
    /// Names of fields, `jobid:8,name` (`-O`).
    Names(String),
}

/// What is asked for. Lists are empty when all are meant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub struct Query {
    /// Accounts that the jobs charge.
    pub accounts: Vec<String>,
    /// Jobs as they were written.
    pub jobs: Vec<String>,
    /// Licenses of which the jobs asked for at least one.
    pub licenses: Vec<String>,
    /// Names of jobs.
    pub names: Vec<String>,
    /// Nodes as they were written.
    pub nodes: Option<String>,
    /// Partitions that the jobs may go to.
    pub partitions: Vec<String>,
    /// Qualities of service.
    pub qos: Vec<String>,
    /// Name of the reservation that the jobs are in.
    pub reservation: Option<String>,
    /// States as they were written; `None` are those that have not ended.
    pub states: Option<String>,
    /// Users; a number or a name.
    pub users: Vec<String>,
    /// Only jobs of the calling user (`--me`).
    pub me: bool,
    /// Names of clusters, of which this one is the only known.
    pub clusters: Vec<String>,
    /// Columns; the usual ones without.
    pub format: Option<Format>,
    /// Order as it was written.
    pub sort: Option<String>,
    /// Waiting jobs in each partition that they may go to.
    pub priority: bool,
    /// Array tasks in lines of their own.
    pub array: bool,
    /// More columns (`--long`).
    pub long: bool,
    /// When waiting jobs are expected to start, instead (`--start`).
    pub start: bool,
    /// Steps, and which of them (all when empty).
    pub steps: Option<Vec<String>>,
    /// Without headings (`--noheader`).
    pub bare: bool,
    /// Sizes as they are.
    pub raw_sizes: bool,
    /// Seconds between two reports.
    pub iterate: Option<u64>,
    /// JSON or YAML.
    pub spelling: Option<Spelling>,
    /// How often more was asked for.
    pub verbose: u32,
}

impl Query {
    /// What `-v` tells of the query.
    pub fn told(&self) -> String {
        const NULL: &str = "(null)";
        let words = |list: &[String]| verbose::words(list, NULL);
        let format = self.format.as_ref().map(|format| match format {
            Format::Letters(text) | Format::Names(text) => text.as_str(),
        });
        let all = self.states.as_deref();
        verbose::lines(&[
            (
                "all",
                all.is_some_and(|s| s.eq_ignore_ascii_case("all"))
                    .to_string(),
            ),
            ("array", self.array.to_string()),
            ("format", verbose::text(format, NULL)),
            ("iterate", self.iterate.unwrap_or(0).to_string()),
            ("job_flag", u8::from(!self.jobs.is_empty()).to_string()),
            ("jobs", words(&self.jobs)),
            ("licenses", words(&self.licenses)),
            ("names", words(&self.names)),
            ("nodes", verbose::text(self.nodes.as_deref(), "")),
            ("partitions", words(&self.partitions)),
            ("priority", self.priority.to_string()),
            ("reservation", verbose::text(self.reservation.as_deref(), NULL)),
            ("sort", verbose::text(self.sort.as_deref(), NULL)),
            ("start_flag", u8::from(self.start).to_string()),
            ("states", verbose::text(all, NULL)),
            ("step_flag", u8::from(self.steps.is_some()).to_string()),
            ("steps", words(self.steps.as_deref().unwrap_or_default())),
            ("users", words(&self.users)),
            ("verbose", self.verbose.to_string()),
        ])
    }
}

/// What a command line asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Invocation {
    /// A report about jobs or steps.
    Report(Box<Query>),
    /// The long help (`--help`).
    Help,
    /// The short help (`--usage`).
    Usage,
    /// Name and version (`--version`).
    Version,
    /// A mistake: what the C library says.
    UsageError(UsageError),
    /// A word that is no option.
    Extra(String),
    /// A value that is none: what to say.
    Bad(String),
}

/// Reads the command line (without the program's name); `variable` gives the environment.
pub fn read(args: &[OsString], variable: impl Fn(&str) -> Option<String>) -> Invocation {
    let parsed = getopt::parse(&table::opts(OPTIONS), Order::Permute, args);
    let mut query = of_variables(variable);
    let mut own_format = None;
    for found in &parsed.found {
        match take(&mut query, &mut own_format, found) {
            Ok(()) => {}
            Err(other) => return other,
        }
    }
    if let Some(mistake) = parsed.mistake {
        return Invocation::UsageError(mistake);
    }
    let mut words = parsed
        .words
        .iter()
        .map(|w| w.to_string_lossy().into_owned());
    // `-s 1.0`: the option's value may stand by itself.
    let which = query.steps.as_mut().filter(|steps| steps.is_empty());
    if let (Some(steps), Some(word)) = (which, parsed.words.first()) {
        *steps = list(&word.to_string_lossy());
        words.next();
    }
    if let Some(word) = words.next() {
        return Invocation::Extra(word);
    }
    if own_format.is_some() {
        query.format = own_format;
    }
    if query.start && query.states.is_none() {
        query.states = Some("PENDING".to_owned());
    }
    Invocation::Report(Box::new(query))
}

fn of_variables(variable: impl Fn(&str) -> Option<String>) -> Query {
    let words = |name: &str| variable(name).map_or_else(Vec::new, |text| list(&text));
    let format = variable("SQUEUE_FORMAT").map(Format::Letters);
    Query {
        accounts: words("SQUEUE_ACCOUNT"),
        licenses: words("SQUEUE_LICENSES"),
        names: words("SQUEUE_NAMES"),
        partitions: words("SQUEUE_PARTITION"),
        qos: words("SQUEUE_QOS"),
        states: variable("SQUEUE_STATES"),
        users: words("SQUEUE_USERS"),
        clusters: words("SQUEUE_CLUSTERS"),
        format: format.or_else(|| variable("SQUEUE_FORMAT2").map(Format::Names)),
        sort: variable("SQUEUE_SORT"),
        array: variable("SQUEUE_ARRAY").is_some(),
        ..Query::default()
    }
}

fn take(
    query: &mut Query,
    format: &mut Option<Format>,
    found: &GivenOption,
) -> Result<(), Invocation> {
    let text = || found.text();
    let words = || list(&found.text());
    match found.name {
        "help" => return Err(Invocation::Help),
        "usage" => return Err(Invocation::Usage),
        "version" => return Err(Invocation::Version),
        "account" => query.accounts = words(),
        "array" | "array-unique" => query.array = true,
        "clusters" => query.clusters = words(),
        "noheader" => query.bare = true,
        "iterate" => query.iterate = Some(seconds(&text())?),
        "job" => query.jobs = vec![text()].into_iter().filter(|t| !t.is_empty()).collect(),
        "json" => query.spelling = Some(Spelling::Json),
        "yaml" => query.spelling = Some(Spelling::Yaml),
        "long" => query.long = true,
        "licenses" => query.licenses = words(),
        "me" => query.me = true,
        "name" => query.names = words(),
        "noconvert" => query.raw_sizes = true,
        "nodelist" => query.nodes = Some(text()).filter(|t| !t.is_empty()),
        "format" => *format = Some(Format::Letters(text())),
        "Format" => *format = Some(Format::Names(text())),
        "partition" => query.partitions = words(),
        "priority" => query.priority = true,
        "qos" => query.qos = words(),
        "reservation" => query.reservation = Some(text()),
        "sort" => query.sort = Some(text()),
        "start" => query.start = true,
        "states" => query.states = Some(text()),
        "steps" => query.steps = Some(words()),
        "user" => query.users = words(),
        "verbose" => query.verbose += 1,
        // Nothing is hidden, and there is one cluster.
        _ => {}
    }
    Ok(())
}

fn seconds(text: &str) -> Result<u64, Invocation> {
    let bad = || Invocation::Bad(format!("--iterate={text}"));
    text.parse().ok().filter(|n| *n > 0).ok_or_else(bad)
}

/// Words with commas.
pub(crate) fn list(text: &str) -> Vec<String> {
    let words = text.split(',').filter(|w| !w.is_empty());
    words.map(str::to_owned).collect()
}

/// Which states are shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum States {
    /// Those that have not ended.
    Live,
    /// Ended ones too, as long as the controller remembers them.
    All,
    /// Jobs in one of the listed states.
    These(Vec<SlurmState>),
}

impl States {
    /// Reads names and codes with commas, or `all`.
    ///
    /// # Errors
    /// The word that is none.
    pub fn read(text: Option<&str>) -> Result<Self, String> {
        let Some(text) = text else {
            return Ok(Self::Live);
        };
        if text.eq_ignore_ascii_case("all") {
            return Ok(Self::All);
        }
        let one = |word: &str| word.parse().map_err(|_| word.to_owned());
        let words = text.split(',').filter(|w| !w.is_empty());
        words.map(one).collect::<Result<_, _>>().map(Self::These)
    }

    /// Whether jobs in `state` are shown.
    pub fn contain(&self, state: SlurmState) -> bool {
        match self {
            Self::Live => state.job_states().all(|s| !s.is_end()),
            Self::All => true,
            Self::These(states) => {
                let waits = state == SlurmState::SpecialExit;
                states.contains(&state) || waits && states.contains(&SlurmState::Pending)
            }
        }
    }

    /// The lines about a word that is no state.
    pub fn complaint(word: &str) -> [String; 2] {
        let names: Vec<&str> = SlurmState::ALL.iter().map(|s| s.name()).collect();
        [
            format!("Invalid job state specified: {word}"),
            format!("Valid job states include: {}\n", names.join(",")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(line: &str, variables: &[(&str, &str)]) -> Invocation {
        let args: Vec<OsString> = line.split('~').map(OsString::from).collect();
        let args = if line.is_empty() { Vec::new() } else { args };
        read(&args, |name| {
            let found = variables.iter().find(|v| v.0 == name);
            found.map(|v| v.1.to_owned())
        })
    }

    fn report(line: &str, variables: &[(&str, &str)]) -> Query {
        match query(line, variables) {
            Invocation::Report(query) => *query,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn bundles_and_glued_values() {
        let q = report("-ho~ %A|%a~-nfiller,arr~-u~root~-r", &[]);
        assert!(q.bare && q.array);
        assert_eq!(q.format, Some(Format::Letters(" %A|%a".to_owned())));
        assert_eq!(q.names, ["filler", "arr"]);
        assert_eq!(q.users, ["root"]);
        assert!(report("-P", &[]).priority && !q.priority);
        let q = report("-s~-nfiller", &[]);
        assert_eq!(q.steps, Some(Vec::new()));
        assert_eq!(report("--step=1.0,2.batch", &[]).steps.unwrap().len(), 2);
        assert_eq!(report("-s~1.0~-h", &[]).steps.unwrap(), ["1.0"]);
        assert_eq!(query("-s~1.0~foo", &[]), Invocation::Extra("foo".to_owned()));
        let q = report("-j~~-w~", &[]);
        assert!(q.jobs.is_empty() && q.nodes.is_none());
        assert_eq!(report("--start", &[]).states.as_deref(), Some("PENDING"));
    }

    #[test]
    fn verbose() {
        let q = report("-vv~-i~5~-t~PD,R~-p~main,short", &[]);
        let told = q.told();
        for line in [
            "iterate     = 5",
            "states      = PD,R",
            "verbose     = 2",
            "users       = (null)",
        ] {
            assert!(told.contains(&format!("\n{line}\n")), "{line} in {told}");
        }
        assert_eq!(report("", &[]).verbose, 0);
    }

    #[test]
    fn variables_give_way_to_options() {
        let variables = [
            ("SQUEUE_FORMAT", "%j"),
            ("SQUEUE_STATES", "PD"),
            ("SQUEUE_FORMAT2", "name"),
        ];
        let q = report("", &variables);
        assert_eq!(q.format, Some(Format::Letters("%j".to_owned())));
        assert_eq!(q.states.as_deref(), Some("PD"));
        let q = report("-O~state~-t~all", &variables);
        assert_eq!(q.format, Some(Format::Names("state".to_owned())));
        assert_eq!(q.states.as_deref(), Some("all"));
    }

    #[test]
    fn other_lines() {
        assert_eq!(query("--help~--nosuch", &[]), Invocation::Help);
        assert!(matches!(query("--nosuch", &[]), Invocation::UsageError(_)));
        assert_eq!(query("foo", &[]), Invocation::Extra("foo".to_owned()));
        assert!(matches!(query("-i~0", &[]), Invocation::Bad(_)));
    }

    #[test]
    fn states() {
        let check = |text, state, want| {
            let states = States::read(text).unwrap();
            assert_eq!(states.contain(state), want, "{text:?} {state}");
        };
        check(None, SlurmState::Completing, true);
        check(None, SlurmState::Failed, false);
        check(Some("all"), SlurmState::Failed, true);
        check(Some("PENDING,running"), SlurmState::Running, true);
        check(Some("PD"), SlurmState::SpecialExit, true);
        check(Some("SE"), SlurmState::Pending, false);
        check(Some("pd"), SlurmState::Running, false);
        assert_eq!(States::read(Some("PD,BAD")), Err("BAD".to_owned()));
        assert!(States::complaint("BAD")[1].ends_with(",STOPPED\n"));
    }
}
