//! The command line of `sacct`, and the variables that stand for options. Source: sacct(1).

use super::fields::{self, Column};
use super::form::Form;
use crate::getopt::{self, GivenOption, Order, UsageError};
use crate::json_yaml::Spelling;
use crate::squeue::options::list;
use crate::state::SlurmState;
use crate::submit::times::{self, PastTime};
use crate::table::{self, Row};
use crate::times::{TimeFormat, TimeWriter};
use cosy_model::{Span, Time};
use jiff::Zoned;
use std::ffi::OsString;

/// All options of `sacct`, as `--help` lists them.
pub const OPTIONS: &[Row] = &[
    Row::flag(b'a', "allusers", "jobs of all users"),
    Row::value(b'A', "accounts", "NAME[,...]", "jobs charged to these accounts"),
    Row::long_value("account", "NAME", "").also("accounts"),
    Row::flag(b'b', "brief", "id, state and exit code only"),
    Row::flag(b'B', "batch-script", "the script of the jobs named"),
    Row::flag(b'c', "completion", "refused: there are no records of that kind"),
    Row::value(b'C', "constraints", "FEATURE[,...]", "jobs that asked for all of these features"),
    Row::long_value("delimiter", "TEXT", "what stands between values with -p and -P"),
    Row::flag(b'D', "duplicates", "runs of requeued jobs too that another one followed"),
    Row::value(
        b'E',
        "endtime",
        "TIME",
        "jobs that were there before: 2026-11-21T10:00, 11/21/26, now-1hours",
    ),
    Row::long_flag("env-vars", "variables of the jobs named: they are not kept"),
    Row::flag(b'e', "helpformat", "print the names of columns"),
    Row::value(b'f', "file", "FILE", "refused: there are no records in files"),
    Row::value(b'F', "flags", "FLAG[,...]", "refused: flags are not kept"),
    Row::long_flag("federation", "jobs of the whole federation: here the own cluster"),
    Row::value(b'g', "gid", "GROUP[,...]", "jobs of these groups"),
    Row::long_value("group", "GROUP", "").also("gid"),
    Row::flag(b'h', "help", "print this help"),
    Row::value(b'i', "nnodes", "N[-M]", "jobs on so many nodes"),
    Row::value(b'I', "ncpus", "N[-M]", "jobs with so many cores"),
    Row::value(b'j', "jobs", "ID[.STEP][,...]", "these jobs, however old"),
    Row::long_flag("json", "print JSON"),
    Row::value(b'k', "timelimit-min", "TIME", "jobs with this time limit"),
    Row::value(b'K', "timelimit-max", "TIME", "jobs with at most this time limit, from -k on"),
    Row::flag(b'l', "long", "many columns"),
    Row::flag(b'L', "allclusters", "jobs of all clusters: here the own one"),
    Row::long_flag("local", "only jobs of this cluster"),
    Row::value(b'M', "clusters", "NAME[,...]", "jobs of these clusters: only the own one is there"),
    Row::long_value("cluster", "NAME", "").also("clusters"),
    Row::flag(b'n', "noheader", "no headings"),
    Row::long_flag("noconvert", "sizes as they are"),
    Row::value(b'N', "nodelist", "NODES", "jobs on these nodes"),
    Row::long_value("name", "NAME[,...]", "jobs with these names"),
    Row::value(b'o', "format", "FIELD[%WIDTH],...", "columns"),
    Row::value(b'q', "qos", "NAME[,...]", "jobs with these qualities of service"),
    Row::flag(b'p', "parsable", "values with '|' behind each"),
    Row::flag(b'P', "parsable2", "values with '|' between them"),
    Row::value(b'r', "partition", "NAME[,...]", "jobs in these partitions"),
    Row::value(b'R', "reason", "REASON[,...]", "jobs that waited for these reasons"),
    Row::value(b's', "state", "STATE[,...]", "jobs in these states"),
    Row::value(
        b'S',
        "starttime",
        "TIME",
        "jobs that were there since: midnight unless jobs are named",
    ),
    Row::flag(b'T', "truncate", "no times beyond -S and -E: as without"),
    Row::value(b'u', "user", "NAME[,...]", "jobs of these users"),
    Row::long_value("uid", "UID", "").also("user"),
    Row::long_flag("use-local-uid", "as without"),
    Row::long_value("units", "K|M|G|T|P", "all sizes in this unit"),
    Row::long_flag("usage", "print a short summary of options"),
    Row::flag(b'v', "verbose", "tell more"),
    Row::flag(b'V', "version", "print the version"),
    Row::value(b'W', "wckeys", "KEY[,...]", "jobs with these keys"),
    Row::long_value("whole-hetjob", "yes|no", "as without: the parts of a job are told together")
        .perhaps(),
    Row::value(b'x', "associations", "ID[,...]", "refused: there are no associations with numbers"),
    Row::flag(b'X', "allocations", "jobs without their steps"),
    Row::long_flag("yaml", "print YAML"),
];

/// Columns without `--format`.
pub const USUAL: &str = "jobid,jobname,partition,account,alloccpus,state,exitcode";
const BRIEF: &str = "jobid,state,exitcode";
const LONG: &str = "jobid,jobidraw,jobname,partition,maxvmsize,maxvmsizenode,maxvmsizetask,\
    avevmsize,maxrss,maxrssnode,maxrsstask,averss,maxpages,maxpagesnode,maxpagestask,avepages,\
    mincpu,mincpunode,mincputask,avecpu,ntasks,alloccpus,elapsed,state,exitcode,avecpufreq,\
    reqcpufreqmin,reqcpufreqmax,reqcpufreqgov,reqmem,consumedenergy,maxdiskread,\
    maxdiskreadnode,maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,\
    maxdiskwritetask,avediskwrite,reqtres,alloctres,tresusageinave,tresusageinmax,\
    tresusageinmaxnode,tresusageinmaxtask,tresusageinmin,tresusageinminnode,\
    tresusageinmintask,tresusageintot,tresusageoutmax,tresusageoutmaxnode,\
    tresusageoutmaxtask,tresusageoutave,tresusageouttot";

/// What is asked for. Lists are empty when all are meant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub struct Query {
    /// Jobs and steps as they were written.
    pub jobs: Vec<String>,
    /// Jobs of all users.
    pub all_users: bool,
    /// Owners, by login name or number.
    pub users: Vec<String>,
    /// Groups of the owners, by name or number.
    pub groups: Vec<String>,
    /// Accounts that were charged.
    pub accounts: Vec<String>,
    /// Partitions that the jobs were in.
    pub partitions: Vec<String>,
    /// Names of jobs.
    pub names: Vec<String>,
    /// Qualities of service.
    pub qos: Vec<String>,
    /// Keys that the jobs were submitted with (`--wckey`).
    pub wckeys: Vec<String>,
    /// Nodes as they were written.
    pub nodes: Option<String>,
    /// States that a job was in within the time asked about.
    pub states: Vec<SlurmState>,
    /// Features that they asked for: texts that must be in what was asked for.
    pub features: Vec<String>,
    /// Why they waited at last.
    pub reasons: Vec<String>,
    /// Least and most time limit.
    pub limit: Option<(Span, Span)>,
    /// Fewest and most nodes.
    pub node_count: Option<(i64, i64)>,
    /// Fewest and most cores.
    pub core_count: Option<(i64, i64)>,
    /// Names of clusters, of which this one is the only known.
    pub clusters: Vec<String>,
    /// Only records of jobs that were there after this time.
    pub since: Option<Time>,
    /// Only records of jobs that were there before this time.
    pub until: Option<Time>,
    /// The present, which ends records without an end.
    pub now: Time,
    /// Only jobs, without their steps (`--allocations`).
    pub whole: bool,
    /// Runs too that another one followed (`--duplicates`).
    pub duplicates: bool,
    /// Columns from left to right.
    pub columns: Vec<Column>,
    /// Without headings (`--noheader`).
    pub bare: bool,
    /// How it is printed.
    pub form: Form,
    /// Sizes as they are.
    pub raw_sizes: bool,
    /// Unit of sizes.
    pub unit: Option<char>,
    /// JSON or YAML.
    pub spelling: Option<Spelling>,
    /// Scripts instead of records.
    pub script: bool,
}

/// What a command line asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Invocation {
    /// A report about jobs.
    Report(Box<Query>),
    /// The long help (`--help`).
    Help,
    /// The short help (`--usage`).
    Usage,
    /// Name and version (`--version`).
    Version,
    /// The list of fields (`--helpformat`).
    Fields,
    /// A mistake: what the C library says.
    UsageError(UsageError),
    /// A value that is none: what to say.
    Bad(String),
    /// The same, said as `sacct: fatal: ...`.
    Fatal(String),
    /// The same, the line as it is.
    Line(String),
}

/// What is known before all values are read.
#[derive(Default)]
struct PendingValues {
    format: Option<String>,
    parsable: Option<bool>,
    delimiter: Option<String>,
    since: Option<String>,
    until: Option<String>,
    least_limit: Option<Span>,
    most_limit: Option<Span>,
}

/// Reads the command line (without the program's name); `variable` gives the environment.
pub fn read(
    args: &[OsString],
    now: &Zoned,
    variable: impl Fn(&str) -> Option<String>,
) -> Invocation {
    let parsed = getopt::parse(&table::opts(OPTIONS), Order::Permute, args);
    let mut query = Query::default();
    let mut words = PendingValues {
        format: variable("SACCT_FORMAT"),
        ..PendingValues::default()
    };
    for found in &parsed.found {
        if let Err(other) = take(&mut query, &mut words, found) {
            return other;
        }
    }
    if let Some(mistake) = parsed.mistake {
        return Invocation::UsageError(mistake);
    }
    match finish(query, words, now, variable) {
        Ok(query) => Invocation::Report(Box::new(query)),
        Err(text) => Invocation::Bad(text),
    }
}

fn finish(
    mut query: Query,
    words: PendingValues,
    now: &Zoned,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Query, String> {
    let separator = words.delimiter.unwrap_or_else(|| "|".to_owned());
    query.form = match words.parsable {
        None => Form::Columns,
        Some(false) => Form::Ended(separator),
        Some(true) => Form::Between(separator),
    };
    let format = words.format.as_deref().unwrap_or(USUAL);
    query.columns =
        fields::columns(format).map_err(|word| format!("Invalid field requested: \"{word}\""))?;
    let point = |text: Option<String>| {
        let read = |text: String| times::point(&text, now, PastTime::Keep);
        text.map(read).transpose().map_err(|e| e.to_string())
    };
    query.since = point(words.since)?;
    query.until = point(words.until)?;
    query.now = Time(now.timestamp().as_millisecond());
    query.limit = words
        .least_limit
        .map(|least| (least, words.most_limit.unwrap_or(least)));
    if query.since.is_none() && query.jobs.is_empty() {
        query.since = first_moment(&query, now);
    }
    if let Some((since, until)) = query.since.zip(query.until)
        && since > until
    {
        let form = variable("SLURM_TIME_FORMAT");
        let form = form.as_deref().map_or(TimeFormat::Standard, Into::into);
        let stamps = TimeWriter::new(now, form);
        return Err(format!(
            "Start time ({}) requested is after end time ({}).",
            stamps.text(since),
            stamps.text(until)
        ));
    }
    Ok(query)
}

/// From when on jobs are told where that is not said: since midnight, and those in a state that
/// passes are in it now.
fn first_moment(query: &Query, now: &Zoned) -> Option<Time> {
    let passes = |s: &SlurmState| PASSING.contains(s);
    match !query.states.is_empty() && query.states.iter().all(passes) {
        true => Some(query.now),
        false => midnight(now),
    }
}

/// States that jobs leave again. `-s` means that they were in one then, whatever they are in
/// now.
pub const PASSING: [SlurmState; 3] = [
    SlurmState::Pending,
    SlurmState::Running,
    SlurmState::Suspended,
];

/// The start of today.
fn midnight(now: &Zoned) -> Option<Time> {
    let start = now.start_of_day().ok()?;
    Some(Time(start.timestamp().as_millisecond()))
}

fn take(
    query: &mut Query,
    words: &mut PendingValues,
    found: &GivenOption,
) -> Result<(), Invocation> {
    let text = || found.text();
    let names = || list(&found.text());
    match found.name {
        "help" => return Err(Invocation::Help),
        "usage" => return Err(Invocation::Usage),
        "version" => return Err(Invocation::Version),
        "helpformat" => return Err(Invocation::Fields),
        "allusers" => query.all_users = true,
        "accounts" => query.accounts = names(),
        "brief" => words.format = Some(BRIEF.to_owned()),
        "completion" => return Err(Invocation::Line(NO_COMPLETIONS.to_owned())),
        "constraints" => query.features = names(),
        "file" | "associations" => return Err(not_kept(found.name)),
        "flags" => return Err(flags(&text())),
        "reason" => query.reasons = names(),
        "timelimit-min" => words.least_limit = Some(time_limit(&text())?),
        "timelimit-max" => words.most_limit = Some(time_limit(&text())?),
        "batch-script" => query.script = true,
        "delimiter" => words.delimiter = Some(text()),
        "endtime" => words.until = Some(text()),
        "gid" => query.groups = names(),
        "nnodes" => query.node_count = Some(counts(&text(), "node")?),
        "ncpus" => query.core_count = Some(counts(&text(), "cpu")?),
        "jobs" => query.jobs.extend(names_outside(&text())),
        "json" => query.spelling = Some(Spelling::Json),
        "yaml" => query.spelling = Some(Spelling::Yaml),
        "long" => words.format = Some(LONG.to_owned()),
        "clusters" => query.clusters = names(),
        "noheader" => query.bare = true,
        "noconvert" => query.raw_sizes = true,
        "nodelist" => query.nodes = Some(text()),
        "name" => query.names = names(),
        "format" => words.format = Some(text()),
        "qos" => query.qos = names(),
        "parsable" => words.parsable = Some(false),
        "parsable2" => words.parsable = Some(true),
        "partition" => query.partitions = names(),
        "state" => query.states = states(&text())?,
        "starttime" => words.since = Some(text()),
        "units" => query.unit = Some(unit(&text())?),
        "user" => query.users = names(),
        "wckeys" => query.wckeys = names(),
        "allocations" => query.whole = true,
        "duplicates" => query.duplicates = true,
        // One cluster, one kind of record.
        _ => {}
    }
    Ok(())
}

/// Words with commas that are not inside brackets.
fn names_outside(text: &str) -> Vec<String> {
    let mut depth = 0_i32;
    let split = text.split(|c| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth <= 0
    });
    let words = split.map(str::trim).filter(|w| !w.is_empty());
    words.map(str::to_owned).collect()
}

/// What Slurm says where completions are not logged.
const NO_COMPLETIONS: &str = "Slurm job completion is disabled";

fn not_kept(option: &str) -> Invocation {
    Invocation::Bad(format!("--{option} is not supported: there are no records of that kind here"))
}

/// Flags that Slurm keeps with a job.
const FLAGS: [&str; 4] = ["SchedSubmit", "SchedMain", "SchedBackfill", "StartReceived"];

fn flags(text: &str) -> Invocation {
    let known = |word: &&String| FLAGS.iter().any(|flag| flag.eq_ignore_ascii_case(word));
    match list(text).iter().find(|word| !known(word)) {
        Some(word) => Invocation::Bad(format!("str_2_job_flags: Invalid job flag {word}")),
        None => not_kept("flags"),
    }
}

fn time_limit(text: &str) -> Result<Span, Invocation> {
    let bad = || Invocation::Fatal("Invalid time limit specification".to_owned());
    let zero = || !text.is_empty() && text.bytes().all(|b| b"0:-".contains(&b));
    times::limit(text).filter(|_| !zero()).ok_or_else(bad)
}

fn counts(text: &str, of: &str) -> Result<(i64, i64), Invocation> {
    let bad = || {
        let text = format!("Invalid numeric value \"{text}\" for requested {of} range.");
        Invocation::Bad(text)
    };
    let one = |word: &str| word.parse::<i64>().ok().filter(|n| *n >= 0).ok_or_else(bad);
    match text.split_once('-') {
        Some((least, most)) => Ok((one(least)?, one(most)?)),
        None => Ok((one(text)?, one(text)?)),
    }
}

fn unit(text: &str) -> Result<char, Invocation> {
    let letter = text.chars().next().map(|c| c.to_ascii_uppercase());
    let known = letter.filter(|c| "KMGTP".contains(*c) && text.len() == 1);
    known.ok_or_else(|| {
        let what =
            format!("sacct: error: Invalid unit type '{text}'. Possible options are 'KMGTP'");
        Invocation::Line(format!("{what}\nsacct: fatal: Invalid unit type"))
    })
}

fn states(text: &str) -> Result<Vec<SlurmState>, Invocation> {
    let one = |word: &str| {
        let bad = |_| Invocation::Fatal(format!("unrecognized job state value '{word}'"));
        word.trim().parse().map_err(bad)
    };
    let words = text.split(',').filter(|w| !w.trim().is_empty());
    words.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sacct::fields::Field;

    fn now() -> Zoned {
        "2026-11-21T12:00:00+00:00[+00:00]".parse().unwrap()
    }

    fn asked(line: &str) -> Invocation {
        let args: Vec<OsString> = line.split('~').map(OsString::from).collect();
        read(&args, &now(), |_| None)
    }

    fn report(line: &str) -> Query {
        match asked(line) {
            Invocation::Report(query) => *query,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn bundles_and_glued_values() {
        let q = report("-XnP~-j~12,13_[1,2].batch~-ojobidraw,State%20");
        assert!(q.whole && q.bare);
        assert_eq!(q.form, Form::Between("|".into()));
        assert_eq!(q.jobs, ["12", "13_[1,2].batch"]);
        assert_eq!(q.columns[0].field, Field::JobIDRaw);
        assert_eq!(q.since, None);
        let q = report("-p~--delimiter=^|^~-s~CD,failed~-S~2026-11-20~-E~now");
        assert_eq!(q.form, Form::Ended("^|^".into()));
        assert_eq!(q.states, [SlurmState::Completed, SlurmState::Failed]);
        assert_eq!(q.since, Some(Time::from_secs(1_795_132_800)));
        assert_eq!(q.until, Some(Time::from_secs(1_795_262_400)));
        assert_eq!(report("-X").since, Some(Time::from_secs(1_795_219_200)));
    }

    #[test]
    fn conditions() {
        let q = report("-C~fa,fb~-R~None~-k~59:30");
        assert_eq!((q.features.len(), q.reasons.len()), (2, 1));
        let hour = Span::from_minutes(60);
        assert_eq!(q.limit, Some((hour, hour)));
        let q = report("-k~10~-K~60");
        assert_eq!(q.limit, Some((Span::from_minutes(10), hour)));
        assert_eq!(report("-K~60").limit, None, "as in Slurm");
        let now = Some(Time::from_secs(1_795_262_400));
        assert_eq!(report("-s~R,PD").since, now);
        assert_eq!(report("-s~R,CD").since, report("").since);
        assert_eq!(report("-s~R~-j~7").since, None);
    }

    #[test]
    fn other_lines() {
        assert_eq!(asked("-e"), Invocation::Fields);
        assert!(matches!(asked("--nosuch"), Invocation::UsageError(_)));
        assert!(matches!(asked("-1"), Invocation::UsageError(UsageError::Invalid('1'))));
        let bad = |line: &str, want: &str| assert_eq!(asked(line), Invocation::Bad(want.into()));
        bad("-o~nosuch", "Invalid field requested: \"nosuch\"");
        bad("-i~x", "Invalid numeric value \"x\" for requested node range.");
        bad("-F~SchedMain,foo", "str_2_job_flags: Invalid job flag foo");
        for line in ["-F~SchedMain", "-x~1", "-f~/etc/passwd"] {
            assert!(matches!(asked(line), Invocation::Bad(_)), "{line}");
        }
        bad(
            "-S~2026-11-24~-E~2026-11-23",
            "Start time (2026-11-24T00:00:00) requested is after end time (2026-11-23T00:00:00).",
        );
        bad(
            "-s~R~-E~now-1hour",
            "Start time (2026-11-21T12:00:00) requested is after end time (2026-11-21T11:00:00).",
        );
        let fatal =
            |line: &str, want: &str| assert_eq!(asked(line), Invocation::Fatal(want.into()));
        fatal("-s~CD,foo", "unrecognized job state value 'foo'");
        fatal("-k~0", "Invalid time limit specification");
        fatal("-k~foo", "Invalid time limit specification");
        assert_eq!(asked("-c"), Invocation::Line("Slurm job completion is disabled".into()));
        assert!(matches!(asked("-S~yestermorning"), Invocation::Bad(_)));
    }
}
