//! `cosy efficiency`: how much of what jobs asked for they used, of single jobs in words, of users,
//! accounts, months, queues or names in a table.
//!
//! A job counts with what it held: an hour on 64 cores more than a minute on one. What others may not
//! see of a job is not known here, and not counted.

use crate::native::arg::{self, flag, json, value, values};
use crate::native::stat;
use crate::native::table::{ColumnHead, TableStyle, rendered_cells};
use crate::native::used::Used;
use crate::{Context, exit, output, times};
use clap::{ArgMatches, Command};
use cosy_model::api::{JobField, JobFilter, Request, Table};
use cosy_model::{JobState, Span, Time};
use cosy_view::phrase::energy;
use jiff::Zoned;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// How far back without `--since`.
const BACK: Span = Span::from_minutes(30 * 24 * 60);
/// What a job is told to leave itself beyond what it used, in per cent.
const MARGIN: i64 = 25;
/// Who used more than so much of what was asked for, in per cent, is told nothing.
const ENOUGH: i64 = 50;

const FIELDS: [JobField; 20] = [
    JobField::Ref,
    JobField::Name,
    JobField::User,
    JobField::Account,
    JobField::Queue,
    JobField::State,
    JobField::Start,
    JobField::End,
    JobField::Elapsed,
    JobField::TimeLimit,
    JobField::Cores,
    JobField::NodeCount,
    JobField::MemoryPerNode,
    JobField::PeakMemory,
    JobField::UserCpu,
    JobField::SystemCpu,
    JobField::Gpus,
    JobField::GpuBusy,
    JobField::GpuMemory,
    JobField::Energy,
];

const AFTER: &str = "\
CORES% is the CPU time of all jobs in per cent of the time that they held their cores, MEM% the
most memory of each job on a node in per cent of what it asked for there, by how long it ran,
TIME% the run time in per cent of the time limits. IDLE is what was held and not used, in core
hours: those with most of it come first. GPU% is how busy GPUs were while they were held, ENERGY an
estimate: a share by cores of what nodes took; both are there where nodes have measured them.

  cosy efficiency                        your jobs of the last 30 days, by name
  cosy efficiency 12                     one job in words
  cosy efficiency -A --by account --since 2026-11-01
  cosy efficiency -u ann --by month --since 2026-01-01
";

/// What the lines of the table are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    User,
    Account,
    Month,
    Queue,
    Name,
}

impl By {
    const ALL: [(&str, Self); 5] = [
        ("user", Self::User),
        ("account", Self::Account),
        ("month", Self::Month),
        ("queue", Self::Queue),
        ("name", Self::Name),
    ];

    fn parse(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(word, _)| *word == text);
        found
            .map(|(_, by)| *by)
            .ok_or_else(|| "user, account, month, queue or name".to_owned())
    }

    const fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Account => "account",
            Self::Month => "month",
            Self::Queue => "queue",
            Self::Name => "name",
        }
    }

    /// To which line a job belongs.
    fn of(self, job: Used<'_>, now: &Zoned) -> String {
        let text = |field| job.table.text(job.row, field).to_owned();
        match self {
            Self::User => text(JobField::User),
            Self::Account => text(JobField::Account),
            Self::Queue => text(JobField::Queue),
            Self::Name => text(JobField::Name),
            Self::Month => {
                let end = job.number(JobField::End).map(Time);
                let end = end.and_then(|end| times::in_zone(end, now));
                end.map_or_else(String::new, |end| end.strftime("%Y-%m").to_string())
            }
        }
    }
}

/// The command line of `cosy efficiency`.
pub fn command() -> Command {
    arg::command("efficiency", "Show how much of what jobs asked for they used")
        .after_help(AFTER)
        .arg(arg::ids("These jobs, in words"))
        .arg(flag("all", "Jobs of all users").short('A'))
        .arg(values("user", "USER[,...]", "Jobs of these users").short('u'))
        .arg(values("account", "ACCOUNT[,...]", "Jobs that charged these accounts"))
        .arg(values("queue", "QUEUE[,...]", "Jobs in these queues").short('q'))
        .arg(values("name", "NAME[,...]", "Jobs with these names").short('n'))
        .arg(value("since", "TIME", "Ended since: 2026-11-01, yesterday (default: 30 days)"))
        .arg(value("until", "TIME", "Started before"))
        .arg(
            value("by", "WHAT", "A line for each user, account, month, queue or name")
                .value_parser(By::parse),
        )
        .arg(flag("no-header", "No line of titles"))
        .arg(json())
}

/// Runs `cosy efficiency`.
///
/// # Errors
/// A refusal, or no controller.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let now = times::now();
    let filter = filter(matches, &now)?;
    let named = !filter.ids.is_empty();
    let own_alone = filter.users.len() == 1;
    let fields = FIELDS.to_vec();
    let table = context.fetch_jobs(Request::History { filter, fields })?;
    if named {
        return Ok(in_words(context, &table, matches.get_flag("json")));
    }
    let usual = if own_alone { By::Name } else { By::User };
    let by = matches.get_one("by").copied().unwrap_or(usual);
    let lines = sums(&table, by, &now);
    output::print(&if matches.get_flag("json") {
        let all: Vec<Json> = lines.iter().map(|(who, sum)| sum.json(by, who)).collect();
        stat::json_text(&json!({ "by": by.word(), "lines": all }))
    } else {
        text(&lines, by, stat::table_style(matches))
    });
    Ok(exit::OK)
}

fn filter(matches: &ArgMatches, now: &Zoned) -> anyhow::Result<JobFilter> {
    let mut filter = JobFilter {
        ids: arg::ids_of(matches),
        users: arg::list(matches, "user"),
        accounts: arg::list(matches, "account"),
        queues: arg::list(matches, "queue"),
        names: arg::list(matches, "name"),
        states: JobState::ALL.into_iter().filter(|s| s.is_end()).collect(),
        since: arg::past(matches, "since", now)?,
        until: arg::past(matches, "until", now)?,
        ..JobFilter::default()
    };
    if filter.ids.is_empty() {
        // An account has jobs of several.
        let everyone = matches.get_flag("all") || !filter.accounts.is_empty();
        if filter.users.is_empty() && !everyone {
            filter.users = vec![rustix::process::getuid().as_raw().to_string()];
        }
        let until = filter.until.unwrap_or_else(|| times::time_of(now));
        filter.since = filter.since.or(Some(until - BACK));
    }
    Ok(filter)
}

/// A part of a whole, each summed up over jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Share {
    part: i128,
    whole: i128,
}

impl Share {
    fn add(&mut self, part: i64, whole: i64) {
        self.part += i128::from(part.max(0));
        self.whole += i128::from(whole.max(0));
    }

    /// Rounded down; nothing of nothing.
    fn percent(self) -> Option<i64> {
        i64::try_from((self.part * 100).checked_div(self.whole)?).ok()
    }
}

/// What the jobs of a line held and used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sum {
    jobs: u64,
    failed: u64,
    /// CPU time of core time, in milliseconds.
    cores: Share,
    /// Memory in MiB, times seconds.
    memory: Share,
    /// Run time of time limits, in milliseconds.
    time: Share,
    /// Time in which GPUs were busy of the time that they were held, in microseconds.
    gpus: Share,
    /// In joules, where some of it is known.
    energy: Option<u64>,
}

impl Sum {
    fn add(&mut self, job: Used<'_>) {
        let Some(ran) = job.some(JobField::Elapsed) else {
            return;
        };
        self.jobs += 1;
        let state = job.table.text(job.row, JobField::State).parse::<JobState>();
        self.failed += u64::from(state != Ok(JobState::Completed));
        if let (Some(cpu), Some(cores)) = (job.cpu_us(), job.some(JobField::Cores)) {
            self.cores.add(cpu / 1000, ran.saturating_mul(cores));
        }
        if let (Some(peak), Some(asked)) = (job.some(JobField::PeakMemory), job.memory_bytes()) {
            let weighed = |bytes: i64| (bytes >> 20).saturating_mul(ran / 1000);
            self.memory.add(weighed(peak), weighed(asked));
        }
        if let Some(limit) = job.limit() {
            self.time.add(ran, limit.ms());
        }
        if let (Some(busy), Some(gpus)) = (job.number(JobField::GpuBusy), job.some(JobField::Gpus))
        {
            let held = ran.saturating_mul(gpus);
            self.gpus
                .add(held.saturating_mul(busy), held.saturating_mul(1000));
        }
        if let Some(joules) = job.number(JobField::Energy) {
            let before = self.energy.unwrap_or(0);
            self.energy = Some(before.saturating_add(joules.unsigned_abs()));
        }
    }

    fn idle_ms(&self) -> i128 {
        (self.cores.whole - self.cores.part).max(0)
    }

    fn json(&self, by: By, who: &str) -> Json {
        let hours = |ms: i128| ms as f64 / 3_600_000.0;
        json!({
            by.word(): who, "jobs": self.jobs, "not_completed": self.failed,
            "core_hours": hours(self.cores.whole), "idle_core_hours": hours(self.idle_ms()),
            "cores_percent": self.cores.percent(), "memory_percent": self.memory.percent(),
            "time_percent": self.time.percent(), "gpus_percent": self.gpus.percent(),
            "energy_joules": self.energy,
        })
    }
}

/// A sum for each line, most idle core hours first.
fn sums(table: &Table, by: By, now: &Zoned) -> Vec<(String, Sum)> {
    let mut all: BTreeMap<String, Sum> = BTreeMap::new();
    for row in 0..table.rows {
        let job = Used { table, row };
        all.entry(by.of(job, now)).or_default().add(job);
    }
    let mut all: Vec<(String, Sum)> = all.into_iter().filter(|(_, sum)| sum.jobs > 0).collect();
    if by != By::Month {
        all.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.idle_ms()));
    }
    all
}

fn text(lines: &[(String, Sum)], by: By, style: TableStyle) -> String {
    if lines.is_empty() && style.width.is_some() {
        return "no jobs here that have run and ended: --since reaches further back, -A shows \
                everyone's\n"
            .to_owned();
    }
    let mut heads = vec![
        ColumnHead::left(&by.word().to_uppercase()).cut(8),
        ColumnHead::right("JOBS"),
        ColumnHead::right("NOT COMPLETED"),
        ColumnHead::right("CORE HOURS"),
        ColumnHead::right("IDLE"),
        ColumnHead::right("CORES%"),
        ColumnHead::right("MEM%"),
        ColumnHead::right("TIME%"),
    ];
    let gpus = lines.iter().any(|(_, sum)| sum.gpus.whole > 0);
    let power = lines.iter().any(|(_, sum)| sum.energy.is_some());
    heads.extend(gpus.then(|| ColumnHead::right("GPU%")));
    heads.extend(power.then(|| ColumnHead::right("ENERGY")));
    let hours = |ms: i128| format!("{:.1}", ms as f64 / 3_600_000.0);
    let percent = |share: Share| {
        share
            .percent()
            .map_or_else(String::new, |p| format!("{p}%"))
    };
    let row = |(who, sum): &(String, Sum)| {
        let mut cells = vec![
            who.clone(),
            sum.jobs.to_string(),
            sum.failed.to_string(),
            hours(sum.cores.whole),
            hours(sum.idle_ms()),
            percent(sum.cores),
            percent(sum.memory),
            percent(sum.time),
        ];
        cells.extend(gpus.then(|| percent(sum.gpus)));
        cells.extend(power.then(|| sum.energy.map_or_else(String::new, energy)));
        cells.into_iter().map(Into::into).collect()
    };
    let rows: Vec<_> = lines.iter().map(row).collect();
    rendered_cells(&heads, &rows, style).with_note(style)
}

/// Each job in a few lines.
fn in_words(context: &Context, table: &Table, as_json: bool) -> u8 {
    if as_json {
        let all: Vec<Json> = (0..table.rows)
            .map(|row| job_json(Used { table, row }))
            .collect();
        output::print(&stat::json_text(&json!({ "jobs": all })));
    } else {
        let all = (0..table.rows).map(|row| job_text(Used { table, row }));
        output::print(&all.collect::<Vec<_>>().join("\n"));
    }
    if table.rows == 0 {
        let text = "none of these has run and ended: 'cstat ID' shows a job that runs";
        output::complain(context.program(), text);
        return exit::FAILED;
    }
    exit::OK
}

fn job_json(job: Used<'_>) -> Json {
    json!({
        "job": job.table.text(job.row, JobField::Ref), "cores_percent": job.cores_percent(),
        "memory_percent": job.memory_percent(), "time_percent": job.time_percent(),
        "gpus_percent": job.gpu_percent(), "gpu_memory_bytes": job.number(JobField::GpuMemory),
        "energy_joules": job.number(JobField::Energy), "would_do": enough(job),
    })
}

fn job_text(job: Used<'_>) -> String {
    let text = |field| crate::native::table::shown(job.table.text(job.row, field));
    let mut all = format!(
        "job {} '{}' of {}: {}\n",
        text(JobField::Ref),
        text(JobField::Name),
        text(JobField::User),
        text(JobField::State),
    );
    let used = job.line(None);
    match used.is_empty() {
        true => all.push_str("  nothing is known of what it used\n"),
        false => all.push_str(&format!("  used      {used}\n")),
    }
    let enough = enough(job);
    if !enough.is_empty() {
        all.push_str(&format!("  would do  csub {}\n", enough.join(" ")));
    }
    all
}

/// Options with which it would have had enough, where it asked for far more: with a margin.
fn enough(job: Used<'_>) -> Vec<String> {
    let mut options = Vec::new();
    let few = |percent: Option<i64>| percent.is_some_and(|percent| percent < ENOUGH);
    let more = |n: i64| n.saturating_add(n / 100 * MARGIN + n % 100 * MARGIN / 100);
    let nodes = job.some(JobField::NodeCount);
    if let (Some(cores), true) = (job.some(JobField::Cores), few(job.cores_percent()))
        && nodes == Some(1)
        && let Some(cpu_us) = job.cpu_us()
        && let Some(ran) = job.some(JobField::Elapsed)
    {
        let busy = (cpu_us / 1000).div_euclid(ran).saturating_add(1);
        if busy < cores {
            options.push(format!("-c {busy}"));
        }
    }
    if let (Some(peak), true) = (job.some(JobField::PeakMemory), few(job.memory_percent())) {
        let mib = more(peak).div_euclid(1 << 20).saturating_add(1);
        options.push(format!("--mem {}", rounded_up(mib)));
    }
    if let (Some(ran), true) = (job.some(JobField::Elapsed), few(job.time_percent())) {
        let minutes = more(ran).div_euclid(60_000).saturating_add(1);
        options.push(format!("-t {}", Span::from_minutes(minutes)));
    }
    options
}

/// MiB as they are written: `100M`, `3G`.
fn rounded_up(mib: i64) -> String {
    match mib {
        ..1000 => format!("{}M", (mib.saturating_add(99) / 100).max(1) * 100),
        _ => format!("{}G", mib.saturating_add(1023) / 1024),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::api::{Column, NO_NUMBER};

    const MINUTE: i64 = 60_000;

    /// Name, user, minutes that it ran, cores, CPU minutes, GiB used of GiB asked for, minutes of its
    /// limit.
    type Row = (&'static str, &'static str, i64, i64, i64, i64, i64, i64);

    fn table(rows: &[Row]) -> Table {
        let texts = |of: fn(&Row) -> String| Column::Texts(rows.iter().map(of).collect());
        let numbers = |of: fn(&Row) -> i64| Column::Numbers(rows.iter().map(of).collect());
        let column = |field: &JobField| match field {
            JobField::Ref => texts(|_| "12".to_owned()),
            JobField::Name => texts(|r| r.0.to_owned()),
            JobField::User => texts(|r| r.1.to_owned()),
            JobField::State => texts(|_| "completed".to_owned()),
            JobField::Elapsed => numbers(|r| r.2 * MINUTE),
            JobField::Cores => numbers(|r| r.3),
            JobField::UserCpu => numbers(|r| r.4 * MINUTE * 1000),
            JobField::PeakMemory => numbers(|r| r.5 << 30),
            JobField::MemoryPerNode => numbers(|r| r.6 << 10),
            JobField::TimeLimit => numbers(|r| r.7 * MINUTE),
            JobField::Start => numbers(|_| 1),
            JobField::End => numbers(|r| r.2 * MINUTE),
            JobField::NodeCount => numbers(|_| 1),
            JobField::SystemCpu => numbers(|_| 0),
            _ => texts(|_| String::new()),
        };
        Table::of(FIELDS.to_vec(), FIELDS.iter().map(column).collect(), rows.len())
    }

    fn now() -> Zoned {
        "2026-11-21T12:00:00+00:00[+00:00]".parse().unwrap()
    }

    #[test]
    fn who_holds_more_counts_more() {
        let all = table(&[
            ("long", "ann", 60, 10, 60, 1, 10, 120),
            ("short", "ann", 6, 1, 6, 10, 10, 120),
            ("good", "bob", 60, 1, 60, 5, 10, 60),
        ]);
        let lines = text(&sums(&all, By::User, &now()), By::User, TableStyle::default());
        let want = "USER  JOBS  NOT COMPLETED  CORE HOURS  IDLE  CORES%  MEM%  TIME%\n\
                    ann      2              0        10.1   9.0     10%   18%    27%\n\
                    bob      1              0         1.0   0.0    100%   50%   100%\n";
        assert_eq!(lines, want);
        let months = sums(&all, By::Month, &now());
        assert_eq!((months.len(), months[0].0.as_str(), months[0].1.jobs), (1, "1970-01", 3));
        let json = sums(&all, By::Name, &now())[0].1.json(By::Name, "long");
        assert_eq!(json["idle_core_hours"], 9.0);
        assert_eq!(json["cores_percent"], 10);
    }

    #[test]
    fn gpus_and_energy_where_they_are_known() {
        let rows: [Row; 2] = [
            ("a", "ann", 60, 1, 60, 5, 10, 60),
            ("b", "bob", 60, 1, 60, 5, 10, 60),
        ];
        let mut all = table(&rows);
        let set = |all: &mut Table, field: JobField, numbers: Vec<i64>| {
            let at = FIELDS.iter().position(|f| *f == field).unwrap();
            all.columns[at] = Column::Numbers(numbers);
        };
        set(&mut all, JobField::Energy, vec![7_200, NO_NUMBER]);
        set(&mut all, JobField::Gpus, vec![2, 0]);
        set(&mut all, JobField::GpuBusy, vec![420, NO_NUMBER]);
        let lines = text(&sums(&all, By::User, &now()), By::User, TableStyle::default());
        let want = "USER  JOBS  NOT COMPLETED  CORE HOURS  IDLE  CORES%  MEM%  TIME%  GPU%  ENERGY\n\
                    ann      1              0         1.0   0.0    100%   50%   100%   42%  2.0 Wh\n\
                    bob      1              0         1.0   0.0    100%   50%   100%              \n";
        assert_eq!(lines.replace(" \n", "\n").trim_end(), want.replace(" \n", "\n").trim_end());
        let json = job_json(Used {
            table: &all,
            row: 0,
        });
        assert_eq!((&json["gpus_percent"], &json["energy_joules"]), (&42.into(), &7200.into()));
        let used = job_text(Used {
            table: &all,
            row: 0,
        });
        assert!(used.contains("2 GPUs 42% busy, an estimated 2.0 Wh, 1h of 1h"), "{used}");
    }

    #[test]
    fn what_would_have_done() {
        let check = |row: Row, want: &[&str]| {
            let all = table(&[row]);
            assert_eq!(
                enough(Used {
                    table: &all,
                    row: 0
                }),
                want,
                "{row:?}"
            );
        };
        check(("a", "ann", 60, 10, 60, 1, 10, 180), &["-c 2", "--mem 2G", "-t 01:16:00"]);
        check(("a", "ann", 60, 1, 60, 9, 10, 60), &[]);
        check(("a", "ann", 1, 1, 0, 0, 1, 1), &[]);
        assert_eq!(rounded_up(1), "100M");
        assert_eq!(rounded_up(101), "200M");
        assert_eq!(rounded_up(1025), "2G");
    }

    #[test]
    fn a_job_in_words() {
        let all = table(&[("a", "ann", 60, 10, 60, 1, 10, 180)]);
        let want = "job 12 'a' of ann: completed\n  used      1.0 of 10 cores (1h of CPU time), \
                    1.0G of 10G of memory at most, 1h of 3h\n  would do  csub -c 2 --mem 2G -t 01:16:00\n";
        assert_eq!(
            job_text(Used {
                table: &all,
                row: 0
            }),
            want
        );
    }

    #[test]
    fn whose_jobs() {
        let get = |args: &[&str]| {
            let matches = command().try_get_matches_from([&["efficiency"], args].concat());
            filter(&matches.unwrap(), &now()).unwrap()
        };
        assert_eq!(get(&[]).users.len(), 1);
        assert_eq!(get(&[]).since, Some(times::time_of(&now()) - BACK));
        assert!(get(&["-A"]).users.is_empty());
        assert!(get(&["--account", "physics"]).users.is_empty());
        assert_eq!(get(&["--account", "physics", "-u", "ann"]).users, ["ann"]);
        let named = get(&["12"]);
        assert!(named.users.is_empty() && named.since.is_none());
        let matches = command().try_get_matches_from(["efficiency", "--by", "moon"]);
        assert!(
            matches
                .unwrap_err()
                .to_string()
                .contains("user, account, month, queue or name")
        );
    }
}
