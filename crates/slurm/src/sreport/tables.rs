//! The columns of reports, and rows as text.

use super::options::{Query, Report, Unit};
use crate::show::clean;

/// How it is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// In what use is told.
    pub unit: Unit,
    /// Without headings.
    pub bare: bool,
    /// With `|` between columns, and with `true` behind the last too.
    pub separated: Option<bool>,
}

/// A column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Heading over it, cut to its width; `format=` knows it by the beginning of that.
    pub title: String,
    /// Characters that it has.
    pub width: usize,
    /// Shown at its left edge.
    left: bool,
    /// Which cell of a row it shows, from 0.
    at: usize,
}

/// A cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cell {
    /// Any text.
    Text(String),
    /// Core seconds.
    Use(u128),
    /// Core seconds, and those that per cents of them are of.
    UseOf(u128, u128),
    /// A number of jobs.
    Count(u64),
    /// A part of a whole, as per cent.
    Part(u128, u128),
}

/// Widest column that may be asked for, in characters.
const WIDEST: usize = 4096;

/// The columns of a report, or those of them that are named.
///
/// # Errors
/// ` Unknown field 'x'`.
pub fn columns(query: &Query, unit: Unit) -> Result<Vec<Column>, String> {
    let all = usual(query, unit);
    let Some(format) = &query.format else {
        return Ok(all);
    };
    let one = |item: &str| {
        let (name, width) = match item.split_once('%') {
            Some((name, width)) => (name, width.parse::<usize>().ok()),
            None => (item, None),
        };
        let begins = |c: &&Column| {
            let start = c.title.get(..name.len());
            !name.is_empty() && start.is_some_and(|s| s.eq_ignore_ascii_case(name))
        };
        let found = all.iter().find(begins).cloned();
        let mut found = found.ok_or_else(|| format!(" Unknown field '{}'", clean(name)))?;
        found.width = width.unwrap_or(found.width).min(WIDEST);
        Ok(found)
    };
    let items = format.split(',').filter(|item| !item.is_empty());
    items.take(100).map(one).collect()
}

fn usual(query: &Query, unit: Unit) -> Vec<Column> {
    let amount = if unit.seconds.is_some() && unit.percent {
        17
    } else {
        8
    };
    let mut all: Vec<(String, usize)> = vec![("Cluster".to_owned(), 9)];
    let mut more = |columns: &[(&str, usize)]| {
        all.extend(
            columns
                .iter()
                .map(|(title, width)| ((*title).to_owned(), *width)),
        );
    };
    match query.report {
        Report::Utilization => {
            for title in [
                "Allocated",
                "Down",
                "PLND Down",
                "Idle",
                "Planned",
                "Reported",
            ] {
                more(&[(title, amount)]);
            }
        }
        Report::AccountsByUser => more(&[
            ("Account", if query.tree { 20 } else { 15 }),
            ("Login", 9),
            ("Proper Name", 15),
            ("Used", amount),
            ("Energy", amount),
        ]),
        Report::UsersByAccount | Report::TopUsers => more(&[
            ("Login", 9),
            ("Proper Name", 15),
            ("Account", 15),
            ("Used", amount),
            ("Energy", amount),
        ]),
        Report::Sizes => {
            more(&[("Account", 9)]);
            let mut from = 0;
            for size in &query.grouping {
                more(&[(&format!("{from}-{} CPUs", size.saturating_sub(1)), 13)]);
                from = *size;
            }
            more(&[(&format!(">= {from} CPUs"), 13), ("% of cluster", 12)]);
        }
    }
    let tree = query.tree && query.report == Report::AccountsByUser;
    let column = |(at, (title, width)): (usize, (String, usize))| Column {
        left: tree && title == "Account",
        title,
        width,
        at,
    };
    all.into_iter().enumerate().map(column).collect()
}

/// Headings and rows; `whole` are the core seconds that per cents are of.
pub fn table(columns: &[Column], rows: &[Vec<Cell>], style: Style, whole: u128) -> String {
    let mut text = String::new();
    if !style.bare {
        let titles: Vec<String> = columns.iter().map(|c| c.title.clone()).collect();
        line(&mut text, columns, &titles, style, "");
        if style.separated.is_none() {
            for column in columns {
                text.push_str(&"-".repeat(column.width));
                text.push(' ');
            }
            text.push('\n');
        }
    }
    for row in rows {
        let shown = |c: &Column| {
            row.get(c.at)
                .map_or_else(String::new, |c| cell(c, style, whole))
        };
        let cells: Vec<String> = columns.iter().map(shown).collect();
        line(&mut text, columns, &cells, style, "+");
    }
    text
}

fn line(text: &mut String, columns: &[Column], cells: &[String], style: Style, cut: &str) {
    if let Some(trailing) = style.separated {
        text.push_str(&cells.join("|"));
        text.push_str(if trailing { "|\n" } else { "\n" });
        return;
    }
    for (column, cell) in columns.iter().zip(cells) {
        let width = column.width;
        let mut shown: String = clean(cell).chars().take(width).collect();
        if cell.chars().count() > width && !cut.is_empty() {
            shown.pop();
            shown.push_str(cut);
        }
        match column.left {
            true => text.push_str(&format!("{shown:<width$} ")),
            false => text.push_str(&format!("{shown:>width$} ")),
        }
    }
    text.push('\n');
}

fn cell(cell: &Cell, style: Style, whole: u128) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Part(part, of) => percent(*part, *of),
        Cell::Count(jobs) => jobs.to_string(),
        Cell::Use(used) => amount(*used, whole, style.unit),
        Cell::UseOf(used, of) => amount(*used, *of, style.unit),
    }
}

fn amount(used: u128, whole: u128, unit: Unit) -> String {
    match (unit.seconds, unit.percent) {
        (Some(seconds), false) => rounded(used, u128::from(seconds)).to_string(),
        (Some(seconds), true) => {
            format!("{}({})", rounded(used, u128::from(seconds)), percent(used, whole))
        }
        (None, _) => percent(used, whole),
    }
}

/// Rounded to the nearest.
const fn rounded(amount: u128, unit: u128) -> u128 {
    amount.saturating_add(unit / 2) / unit
}

/// `12.34%`; of nothing nothing.
fn percent(part: u128, whole: u128) -> String {
    let hundredths = match whole {
        0 => 0,
        whole => rounded(part.saturating_mul(10_000), whole),
    };
    format!("{}.{:02}%", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::super::options::{read, unit_of};
    use super::super::report::{Facts, JobUse, text};
    use super::*;
    use crate::times::{TimeFormat, TimeWriter};
    use cosy_model::Time;
    use jiff::Zoned;
    use std::collections::BTreeMap;

    const RECORDED: &str = include_str!("../../recordings/sreport.txt");

    fn now() -> Zoned {
        jiff::civil::date(2026, 11, 25)
            .at(14, 25, 0, 0)
            .to_zoned(jiff::tz::TimeZone::UTC)
            .unwrap()
    }

    /// The cluster of the recordings, in which nobody has a proper name.
    fn facts() -> Facts {
        Facts {
            cluster: "base".to_owned(),
            cores: 32,
            parents: BTreeMap::from([
                ("atoms".to_owned(), "physics".to_owned()),
                ("physics".to_owned(), "root".to_owned()),
            ]),
            proper_names: BTreeMap::new(),
        }
    }

    fn report(
        line: &str,
        unit: &str,
        style: (bool, Option<bool>),
        jobs: &[JobUse],
    ) -> Result<String, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let query = read(&words, &now()).unwrap();
        let style = Style {
            unit: unit_of(unit).unwrap(),
            bare: style.0,
            separated: style.1,
        };
        let facts = Facts {
            proper_names: BTreeMap::from([("ann".to_owned(), "Ann A.".to_owned())]),
            ..facts()
        };
        let writer = TimeWriter::new(&now(), TimeFormat::Standard);
        text(&query, style, &facts, jobs, &writer)
    }

    fn recorded(command: &str) -> String {
        let (_, rest) = RECORDED.split_once(&format!("$ {command}\n")).unwrap();
        let lines = rest.lines().take_while(|l| l.starts_with("1 "));
        lines.map(|l| format!("{}\n", &l[2..])).collect()
    }

    /// Nothing had been summed up yet when these were recorded: headings only.
    #[test]
    fn headings_as_recorded() {
        let day = "start=2026-11-25 end=2026-11-26";
        let check = |line: &str, command: &str, style| {
            let told = report(line, "minutes", style, &[]).unwrap();
            assert_eq!(told, recorded(command), "{command}");
        };
        for name in [
            "cluster AccountUtilizationByUser",
            "cluster UserUtilizationByAccount",
            "user top",
            "job sizesbyaccount",
        ] {
            let line = format!("{name} {day}");
            check(&line, &format!("sreport {line}"), (false, None));
        }
        let line = format!("cluster AccountUtilizationByUser {day}");
        check(&line, &format!("sreport -P {line}"), (false, Some(false)));
        let line = format!("user topusage {day} TopCount=2");
        check(&line, &format!("sreport {line}"), (false, None));
        let line = format!("user top {day} format=login,used");
        check(&line, &format!("sreport -p {line}"), (false, Some(true)));
        // Of the cluster there is always a row: without it the same.
        for (unit, option) in [("hours", "-t hours "), ("minper", "-t minper ")] {
            let line = "cluster utilization start=2026-11-25T00:00:00 end=2026-11-26T00:00:00";
            let told = report(line, unit, (false, None), &[]).unwrap();
            let want = recorded(&format!("sreport {option}{line}"));
            assert!(told.starts_with(&want), "{told}{want}");
            assert_eq!(told.lines().count(), want.lines().count() + 1);
        }
        let wrong = report("user top format=nosuch", "minutes", (false, None), &[]);
        assert_eq!(wrong, Err(" Unknown field 'nosuch'".to_owned()));
    }

    fn job(user: &str, account: &str, cores: u64, hours: std::ops::Range<i64>) -> JobUse {
        let at = |hour: i64| Time(1000 * (1_795_564_800 + hour * 3600));
        JobUse {
            user: user.to_owned(),
            account: account.to_owned(),
            cores,
            start: at(hours.start),
            end: Some(at(hours.end)),
        }
    }

    #[test]
    fn sums() {
        let running = JobUse {
            end: None,
            ..job("cyd", "physics", 60, 13..13)
        };
        // The first began before the time asked for, the last still runs.
        let jobs = [
            job("ann", "atoms", 2, -5..1),
            job("ann", "", 1, 3..4),
            job("bob", "atoms", 4, 2..4),
            running,
        ];
        let of = |line: &str, unit: &str| {
            let line = format!("{line} start=2026-11-25 end=2026-11-26");
            report(&line, unit, (true, Some(false)), &jobs).unwrap()
        };
        assert_eq!(
            of("cluster accountutil", "hours"),
            "base|root|||71|0\nbase|root|ann|Ann A.|1|0\nbase|physics|||70|0\n\
             base|physics|cyd||60|0\nbase|atoms|||10|0\nbase|atoms|ann|Ann A.|2|0\n\
             base|atoms|bob||8|0\n"
        );
        assert_eq!(
            of("user top topcount=2", "minutes"),
            "base|cyd||physics|3600|0\nbase|bob||atoms|480|0\n"
        );
        assert_eq!(
            of("cluster util", "hourper"),
            "base|71(15.85%)|0(0.00%)|0(0.00%)|377(84.15%)|0(0.00%)|448(100.00%)\n"
        );
        assert_eq!(
            of("job sizes flatview", "hours"),
            "base|atoms|10|0|0|0|0|14.08%\nbase|physics|0|60|0|0|0|84.51%\n\
             base|root|1|0|0|0|0|1.41%\n"
        );
        assert_eq!(of("user top users=bob", "percent"), "base|bob||atoms|1.79%|0.00%\n");
    }

    const USAGE: &str = include_str!("../../recordings/sreport-usage.txt");

    /// Commands that say something else here, and why.
    const OTHERWISE: &[(&str, &str)] = &[
        ("-T ", "only cores are counted"),
        ("-t nosuch", "a unit that is none ends the command"),
        ("-M nosuch", "another cluster ends the command: cli/src/slurm/sreport.rs"),
        ("cluster=nosuch", "the same"),
        (
            "users=bob\n1 ---",
            "Slurm looks for the user among those of the machine, and then counts all",
        ),
        ("idle%20", "the manual's widths count; Slurm passes over this one"),
        ("--nosuch", "options are read by the command"),
        ("sreport -t\n", "the same"),
        ("sreport\n", "there is no interactive mode"),
        ("reservation utilization", "there is no such report"),
        ("nosuch\n2 Not valid", "reports by WCKeys are not there"),
        ("utilization nosuch=3", "a mistake ends the command before anything is printed"),
        ("start=foo", "the same"),
        ("format=nosuch", "the same"),
        ("topcount=0", "the same"),
        ("top start=2026-11-26 end=2026-11-27 nosuch", "a cluster that is not there"),
        ("grouping=x", "a mistake ends the command"),
    ];

    fn usage_jobs() -> Vec<JobUse> {
        let at = |text: &str| {
            let at: jiff::civil::DateTime = text.parse().unwrap();
            let at = at.to_zoned(jiff::tz::TimeZone::UTC).unwrap();
            Time(at.timestamp().as_millisecond())
        };
        let job = |user: &str, account: &str, cores: u64, from: &str, to: &str| JobUse {
            user: user.to_owned(),
            account: account.to_owned(),
            cores,
            start: at(from),
            end: Some(at(to)),
        };
        vec![
            job("ann", "atoms", 2, "2026-11-25T19:00:00", "2026-11-26T01:00:00"),
            job("ann", "root", 1, "2026-11-26T03:00:00", "2026-11-26T04:00:00"),
            job("bob", "atoms", 4, "2026-11-26T02:00:00", "2026-11-26T04:00:00"),
            job("bob", "atoms", 3, "2026-11-26T05:10:00", "2026-11-26T05:20:20"),
            job("cyd", "physics", 16, "2026-11-26T13:00:00", "2026-11-26T16:45:00"),
        ]
    }

    /// What a command of the recording says here: its output, or the lines of its mistake.
    fn says(command: &str) -> String {
        let mut style = Style {
            unit: unit_of("minutes").unwrap(),
            bare: false,
            separated: None,
        };
        let mut words = command.split_whitespace().skip(1).peekable();
        while let Some(option) = words.next_if(|w| w.starts_with('-')) {
            style.bare |= option.contains('n');
            if option.contains('P') {
                style.separated = Some(false);
            }
            if option == "-t" {
                style.unit = unit_of(words.next().unwrap()).unwrap();
            }
        }
        let words: Vec<String> = words.map(str::to_owned).collect();
        let now = jiff::civil::date(2026, 11, 27).at(15, 27, 0, 0);
        let now = now.to_zoned(jiff::tz::TimeZone::UTC).unwrap();
        let marked = |mark: &str, text: &str| -> String {
            text.lines()
                .map(|line| format!("{mark} {line}\n"))
                .collect()
        };
        let query = match read(&words, &now) {
            Ok(query) => query,
            Err(lines) => return marked("2", &lines.join("\n")),
        };
        let writer = TimeWriter::new(&now, TimeFormat::Standard);
        match text(&query, style, &facts(), &usage_jobs(), &writer) {
            Ok(text) => marked("1", &text),
            Err(line) => marked("2", &line),
        }
    }

    /// Every report with its figures, and what is said of mistakes, as Slurm tells them of these jobs.
    #[test]
    fn figures_as_recorded() {
        let mut compared = 0;
        let mut needed = std::collections::BTreeSet::new();
        for block in USAGE.split("\n$ ").skip(1) {
            let (block, _) = block.split_once("\n= ").unwrap();
            let (command, wanted) = block.split_once('\n').unwrap_or((block, ""));
            let wanted = format!("{wanted}\n");
            if let Some((mark, _)) = OTHERWISE.iter().find(|(mark, _)| block.contains(mark)) {
                needed.insert(*mark);
                continue;
            }
            // Slurm prints a report that a mistake does not touch beside the mistake.
            let only = match wanted.lines().any(|line| line.starts_with("2 ")) {
                true => "2 ",
                false => "1 ",
            };
            let lines = |text: &str| -> Vec<String> {
                let such = text.lines().filter(|line| line.starts_with(only));
                such.map(str::to_owned).collect()
            };
            assert_eq!(lines(&says(command)), lines(&wanted), "{command}");
            compared += 1;
        }
        assert!(compared >= 45, "{compared}");
        let unneeded = OTHERWISE.iter().find(|(mark, _)| !needed.contains(mark));
        assert_eq!(unneeded, None);
    }
}
