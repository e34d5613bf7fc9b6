//! The command line of `sreport`.

use crate::sacctmgr::words::{Sign, Word, lookup, names};
use crate::show::clean;
use crate::submit::times::{PastTime, point};
use crate::table::Row;
use cosy_model::Time;
use jiff::{ToSpan, Zoned};

/// Options before the report's name.
pub const OPTIONS: &[Row] = &[
    Row::flag(b'a', "all_clusters", "all clusters: there is one"),
    Row::flag(b'h', "help", "say what options there are, and exit"),
    Row::value(b'M', "cluster", "NAME", "this cluster: only the own one is there"),
    Row::flag(b'n', "noheader", "without headings"),
    Row::flag(b'p', "parsable", "columns end with '|'"),
    Row::flag(b'P', "parsable2", "'|' between columns"),
    Row::flag(b'Q', "quiet", "accepted"),
    Row::value(b't', "time", "UNIT", "Seconds, Minutes, Hours, Percent, SecPer, MinPer, HourPer"),
    Row::value(b'T', "tres", "LIST", "what is counted: cpu"),
    Row::flag(b'v', "verbose", "accepted"),
    Row::flag(b'V', "version", "say the version, and exit"),
    Row::long_flag("federation", "accepted"),
    Row::long_flag("local", "accepted"),
    Row::long_flag("usage", "say how it is called, and exit"),
];

/// What is reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// `cluster Utilization`: what of the cluster was in use.
    Utilization,
    /// `cluster AccountUtilizationByUser`: accounts, each with its users.
    AccountsByUser,
    /// `cluster UserUtilizationByAccount`: users, each with accounts.
    UsersByAccount,
    /// `user TopUsage`: those who used most.
    TopUsers,
    /// `job SizesByAccount`: use by size of jobs.
    Sizes,
}

/// In what use is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unit {
    /// Seconds of one unit; `None` where only parts of the whole are told.
    pub seconds: Option<u64>,
    /// With the part of the whole.
    pub percent: bool,
    /// Its name in the heading.
    pub name: &'static str,
}

const UNITS: &[(&str, Unit)] = &[
    ("Seconds", unit(Some(1), false, "Seconds")),
    ("SecPer", unit(Some(1), true, "Seconds/Percentage of Total")),
    ("Minutes", unit(Some(60), false, "Minutes")),
    ("MinPer", unit(Some(60), true, "Minutes/Percentage of Total")),
    ("Hours", unit(Some(3600), false, "Hours")),
    ("HourPer", unit(Some(3600), true, "Hours/Percentage of Total")),
    ("Percent", unit(None, true, "Percentage of Total")),
];

const fn unit(seconds: Option<u64>, percent: bool, name: &'static str) -> Unit {
    Unit {
        seconds,
        percent,
        name,
    }
}

/// The unit that a word means.
///
/// # Errors
/// Slurm's line about a word that is none.
pub fn unit_of(word: &str) -> Result<Unit, String> {
    let found = lookup(UNITS, word).map(|(_, unit)| unit);
    found.ok_or_else(|| format!("unknown time format {}", clean(word)))
}

/// Everything that a report depends on beside the jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query {
    /// Which report.
    pub report: Report,
    /// From when on.
    pub start: Time,
    /// Until when, this second not included.
    pub end: Time,
    /// Only these users; all when empty.
    pub users: Vec<String>,
    /// Only these accounts; all when empty.
    pub accounts: Vec<String>,
    /// Only these clusters; all when empty.
    pub clusters: Vec<String>,
    /// Columns that are named.
    pub format: Option<String>,
    /// So many users at most.
    pub top: usize,
    /// Sizes of jobs at which a group begins, after the one from 0.
    pub grouping: Vec<u64>,
    /// `tree`: accounts are indented below those above them.
    pub tree: bool,
    /// `group`: one row for a user, with all accounts.
    pub group: bool,
    /// `flatview`: each account alone, without those below it.
    pub flat: bool,
    /// `printjobcount`: jobs are counted, not what they used.
    pub count: bool,
}

/// Most users that a list of the first may have.
const MOST_TOP: usize = 1_000_000;
/// Most groups of sizes.
const MOST_GROUPS: usize = 50;

/// Reads the words behind the options.
///
/// # Errors
/// Slurm's lines about what is wrong.
pub fn read(words: &[String], now: &Zoned) -> Result<Query, Vec<String>> {
    let (report, rest) = report(words)?;
    let (start, end) = yesterday(now).ok_or_else(|| vec!["the clock is wrong".to_owned()])?;
    let mut query = Query {
        report,
        start,
        end,
        users: Vec::new(),
        accounts: Vec::new(),
        clusters: Vec::new(),
        format: None,
        top: 10,
        grouping: vec![50, 250, 500, 1000],
        tree: false,
        group: false,
        flat: false,
        count: false,
    };
    for text in rest {
        query.condition(text, now)?;
    }
    query.settle(now);
    Ok(query)
}

fn report(words: &[String]) -> Result<(Report, &[String]), Vec<String>> {
    let (kind, rest) = words
        .split_first()
        .ok_or_else(|| vec!["sreport: there is no interactive mode here: see --help".to_owned()])?;
    let cluster = [
        ("AccountUtilizationByUser", Report::AccountsByUser),
        ("UserUtilizationByAccount", Report::UsersByAccount),
        ("Utilization", Report::Utilization),
    ];
    let kinds: [(&str, &[(&str, Report)]); 3] = [
        ("cluster", &cluster),
        ("user", &[("TopUsage", Report::TopUsers)]),
        ("job", &[("SizesByAccount", Report::Sizes)]),
    ];
    let small = kind.to_ascii_lowercase();
    let found = kinds
        .iter()
        .find(|(name, _)| !small.is_empty() && name.starts_with(&small));
    let (kind, reports) = found.ok_or_else(|| vec![format!("invalid keyword: {}", clean(kind))])?;
    let names: Vec<String> = reports
        .iter()
        .map(|(name, _)| format!("\"{name}\""))
        .collect();
    let valid = format!("Valid {kind} reports are, {}", names.join(", "));
    let too_few = || vec![format!("too few arguments for keyword:{kind}")];
    let (name, rest) = rest.split_first().ok_or_else(too_few)?;
    let report = lookup(reports, name).map(|(_, report)| report);
    let report = report.ok_or_else(|| vec![format!("Not valid report {}", clean(name)), valid])?;
    Ok((report, rest))
}

/// The whole day before.
fn yesterday(now: &Zoned) -> Option<(Time, Time)> {
    let today = now.start_of_day().ok()?;
    let start = today.checked_sub(1.day()).ok()?;
    Some((time(&start), time(&today)))
}

fn time(at: &Zoned) -> Time {
    Time(at.timestamp().as_millisecond())
}

const HOUR_MS: i64 = 3_600_000;

impl Query {
    fn condition(&mut self, text: &str, now: &Zoned) -> Result<(), Vec<String>> {
        let word = Word::of(text);
        let unknown = || {
            vec![
                format!(" Unknown condition: {}", clean(text)),
                "Use keyword set to modify value".to_owned(),
            ]
        };
        let Some((Sign::Is, value)) = word.value else {
            let flag = word.name.to_ascii_lowercase();
            if flag == "topcount" {
                return Err(unknown());
            }
            if !self.flag(&flag) {
                self.clusters.extend(names(text));
            }
            return Ok(());
        };
        let at = |value: &str| point(value, now, PastTime::Keep).map_err(|e| vec![e.to_string()]);
        let name = word.name.to_ascii_lowercase();
        let is = |full: &str| name.len() >= 2 && full.starts_with(&name);
        match () {
            () if is("start") => self.start = at(value)?,
            () if is("end") => self.end = at(value)?,
            () if is("users") => self.users.extend(names(value)),
            () if is("accounts") || is("accts") => self.accounts.extend(names(value)),
            () if is("clusters") || is("names") => self.clusters.extend(names(value)),
            () if is("format") => self.format = Some(value.to_owned()),
            () if is("topcount") => {
                let top = value
                    .parse::<usize>()
                    .ok()
                    .filter(|n| (1..=MOST_TOP).contains(n));
                let bad =
                    || format!("sreport: error: Invalid value for TopCount ({})", clean(value));
                self.top = top.ok_or_else(|| vec![bad()])?;
            }
            () if is("grouping") => {
                let sizes: Option<Vec<u64>> = names(value).iter().map(|n| n.parse().ok()).collect();
                let rises =
                    |sizes: &[u64]| sizes.iter().zip(sizes.iter().skip(1)).all(|(a, b)| a < b);
                let good = |sizes: &Vec<u64>| {
                    !sizes.is_empty()
                        && sizes.len() <= MOST_GROUPS
                        && !sizes.contains(&0)
                        && rises(sizes)
                };
                let bad = || {
                    vec![format!(
                        " Bad grouping: {}: sizes rise, as in 2,4,8",
                        clean(text)
                    )]
                };
                self.grouping = sizes.filter(good).ok_or_else(bad)?;
            }
            () => return Err(unknown()),
        }
        Ok(())
    }

    /// Sets what a word alone says; false for one that is no such word.
    fn flag(&mut self, word: &str) -> bool {
        match word {
            "where" | "set" | "all_clusters" => {}
            "tree" => self.tree = true,
            "group" => self.group = true,
            "flatview" => self.flat = true,
            "printjobcount" => self.count = true,
            _ => return false,
        }
        true
    }

    /// Whole hours, the nearest ones, none of them still to come, and one at least.
    fn settle(&mut self, now: &Zoned) {
        let hour = |at: i64| Time(at.div_euclid(HOUR_MS) * HOUR_MS);
        let nearest = |at: Time| hour(at.0.saturating_add(HOUR_MS / 2));
        self.start = nearest(self.start);
        self.end = nearest(self.end).min(hour(time(now).0));
        if self.end <= self.start {
            self.end = Time(self.start.0.saturating_add(HOUR_MS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_line(line: &str) -> Result<Query, Vec<String>> {
        let now: Zoned = jiff::civil::date(2026, 11, 25)
            .at(14, 25, 0, 0)
            .to_zoned(jiff::tz::TimeZone::UTC)
            .unwrap();
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        read(&words, &now)
    }

    #[test]
    fn words_as_recorded() {
        let whole = |q: Query| (q.start.0 / 1000, q.end.0 / 1000);
        let midnight = 1_795_564_800;
        let day = read_line("user top").unwrap();
        assert_eq!((day.report, day.top), (Report::TopUsers, 10));
        assert_eq!(whole(day), (midnight - 86_400, midnight));
        let today = read_line("cl util start=2026-11-25 end=2026-11-26").unwrap();
        assert_eq!(whole(today), (midnight, midnight + 14 * 3600), "no hour that is not over");
        let turned = read_line("user topusage start=2026-11-26 end=2026-11-25").unwrap();
        assert_eq!(whole(turned), (midnight + 86_400, midnight + 86_400 + 3600));
        let sizes = read_line("job sizesbyaccount grouping=2,4").unwrap();
        assert_eq!((sizes.report, sizes.grouping), (Report::Sizes, vec![2, 4]));
    }

    #[test]
    fn what_is_wrong() {
        let check = |line: &str, first: &str| {
            let lines = read_line(line).unwrap_err();
            assert_eq!(lines.first().map(String::as_str), Some(first), "{line}");
        };
        check("nosuch", "invalid keyword: nosuch");
        check("cluster nosuch", "Not valid report nosuch");
        check("user top nosuch=3", " Unknown condition: nosuch=3");
        check("user top start=foo", "Invalid time specification (pos=0): foo");
        check("user top topcount=0", "sreport: error: Invalid value for TopCount (0)");
        check("job sizes grouping=4,2", " Bad grouping: grouping=4,2: sizes rise, as in 2,4,8");
        assert!(read_line("").is_err() && read_line("cluster").is_err());
        assert!(unit_of("foo").is_err());
        assert_eq!(unit_of("hours").unwrap().seconds, Some(3600));
    }
}
