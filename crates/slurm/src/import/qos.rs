//! Qualities of service, as `sacctmgr -P show qos format=...` lists them: a dump does not have them.
//! One that cannot be carried over whole is left out, so that nobody gets more than it gave. Source:
//! sacctmgr(1), "LIST/SHOW QOS FORMAT OPTIONS"; recordings of 22.05.8.

use super::lines::{Fault, Piece, Place, text, utf8};
use super::reader::Report;
use super::records::Enforced;
use super::tres::{Judged, judged};
use crate::sacctmgr::settings::Target;
use cosy_model::limits;
use cosy_model::policy::{NORMAL, QosFlag};
use std::collections::{BTreeMap, BTreeSet};

/// Columns that a list must have, with the words that set them.
const COLUMNS: &[(&str, &str)] = &[
    ("Name", ""),
    ("Priority", "Priority"),
    ("GraceTime", "GraceTime"),
    ("Preempt", "Preempt"),
    ("PreemptExemptTime", "PreemptExemptTime"),
    ("PreemptMode", "PreemptMode"),
    ("Flags", "Flags"),
    ("UsageThres", "UsageThreshold"),
    ("UsageFactor", "UsageFactor"),
    ("LimitFactor", "LimitFactor"),
    ("GrpTRES", "GrpTRES"),
    ("GrpTRESMins", "GrpTRESMins"),
    ("GrpTRESRunMins", "GrpTRESRunMins"),
    ("GrpJobs", "GrpJobs"),
    ("GrpJobsAccrue", "GrpJobsAccrue"),
    ("GrpSubmit", "GrpSubmitJobs"),
    ("GrpWall", "GrpWall"),
    ("MaxTRES", "MaxTRESPerJob"),
    ("MaxTRESPerNode", "MaxTRESPerNode"),
    ("MaxTRESMins", "MaxTRESMinsPerJob"),
    ("MaxWall", "MaxWall"),
    ("MaxTRESPU", "MaxTRESPerUser"),
    ("MaxJobsPU", "MaxJobsPerUser"),
    ("MaxJobsAccruePU", "MaxJobsAccruePerUser"),
    ("MaxSubmitPU", "MaxSubmitJobsPerUser"),
    ("MaxTRESRunMinsPU", "MaxTRESRunMinsPerUser"),
    ("MaxTRESPA", "MaxTRESPerAccount"),
    ("MaxTRESRunMinsPA", "MaxTRESRunMinsPerAccount"),
    ("MaxJobsPA", "MaxJobsPerAccount"),
    ("MaxJobsAccruePA", "MaxJobsAccruePerAccount"),
    ("MaxSubmitPA", "MaxSubmitJobsPerAccount"),
    ("MinPrioThres", "MinPrioThreshold"),
    ("MinTRES", "MinTRESPerJob"),
];

/// Flags that bind jobs in Slurm and bind none here.
const UNBOUND: &[QosFlag] = &[QosFlag::EnforceUsageThreshold];

/// The command whose output is read.
pub fn command() -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|(title, _)| *title).collect();
    format!("sacctmgr -P show qos format={}", names.join(","))
}

/// One row of the list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Row {
    place: Place,
    name: String,
    /// Options of its line in the file of accounts, but `Preempt`.
    options: Vec<String>,
    preempt: BTreeSet<String>,
    /// It is for jobs in reservations only.
    reserved: bool,
    /// Why it is left out.
    out: Option<String>,
}

/// Qualities of service that are carried over.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct AllQos {
    /// Names of those that are carried over.
    pub names: BTreeSet<String>,
    /// Those that are for jobs in reservations only.
    pub reserved: BTreeSet<String>,
    /// Lines for the file of accounts; those that are left out behind `#`.
    pub lines: Vec<String>,
    /// Some are left out.
    pub lacks: bool,
}

impl AllQos {
    /// Of these names and the usual one, without limits.
    pub(super) fn plain(mut names: BTreeSet<String>) -> Self {
        names.retain(|name| sound_name(name));
        names.insert(NORMAL.to_owned());
        let lines = names.iter().map(|name| format!("QOS - '{name}'"));
        Self {
            lines: lines.collect(),
            names,
            ..Self::default()
        }
    }
}

/// Reads a list.
///
/// # Errors
/// No such list, or a value that is none.
pub(super) fn read(
    piece: &Piece,
    enforced: &Enforced,
    report: &mut Report,
) -> Result<AllQos, Fault> {
    let mut columns: Option<Vec<Option<&str>>> = None;
    let mut rows: Vec<Row> = Vec::new();
    let mut width = 0;
    for (place, line) in piece.lines() {
        let line = text(&place, line)?.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        utf8(&place, line)?;
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let Some(columns) = &columns else {
            width = cells.len();
            columns = Some(titles(&place, &cells)?);
            continue;
        };
        if cells.len() != width {
            let text = format!("{} columns, and {width} titles above", cells.len());
            return Err(Fault::new(&place, text));
        }
        if rows.len() >= limits::QOS {
            let text = format!("more than {} qualities of service", limits::QOS);
            return Err(Fault::new(&place, text));
        }
        let row = row(&place, columns, &cells, enforced, report)?;
        if rows.iter().any(|known| known.name == row.name) {
            return Err(Fault::new(&place, format!("'{}' is there twice", row.name)));
        }
        rows.push(row);
    }
    if columns.is_none() {
        let text = format!("nothing in it: write it with '{}'", command());
        return Err(Fault::new(&piece.place, text));
    }
    Ok(finished(rows, report))
}

/// What each column sets; `None` for one that sets nothing.
fn titles(place: &Place, cells: &[&str]) -> Result<Vec<Option<&'static str>>, Fault> {
    let has = |title: &str| cells.iter().any(|cell| cell.eq_ignore_ascii_case(title));
    let lacking = COLUMNS.iter().find(|(title, _)| !has(title));
    if let Some((title, _)) = lacking {
        let text = format!(
            "no column {title}, and without it what it limits would be lost: write this file with '{}'",
            command()
        );
        return Err(Fault::new(place, text));
    }
    let of = |cell: &&str| {
        let known = COLUMNS
            .iter()
            .find(|(title, _)| title.eq_ignore_ascii_case(cell));
        known.map(|(_, word)| *word)
    };
    Ok(cells.iter().map(of).collect())
}

fn row(
    place: &Place,
    columns: &[Option<&str>],
    cells: &[&str],
    enforced: &Enforced,
    report: &mut Report,
) -> Result<Row, Fault> {
    let mut row = Row {
        place: place.clone(),
        ..Row::default()
    };
    for (column, cell) in columns.iter().zip(cells) {
        let value = cell.to_ascii_lowercase();
        match *column {
            Some("") => row.name = value,
            None => {}
            Some(_) if cell.is_empty() => {}
            Some("Preempt") => {
                let names = value.split(',').map(str::trim).filter(|n| !n.is_empty());
                row.preempt.extend(names.map(str::to_owned));
            }
            Some("Flags") => flags(&mut row, cell, enforced, report),
            Some("UsageThreshold") => {
                let text = format!("UsageThreshold={cell} is not carried over");
                report.at(place, text);
            }
            Some("LimitFactor") => limit_factor(&mut row, cell, enforced, report),
            Some("PreemptMode") => match judged(Target::Qos, &format!("PreemptMode={cell}")) {
                Ok(Judged::Taken(_)) => row.options.push(format!("PreemptMode='{cell}'")),
                _ => report.at(place, format!("PreemptMode={cell} is not carried over")),
            },
            Some(word) => match judged(Target::Qos, &format!("{word}={cell}"))
                .map_err(|why| Fault::new(place, why))?
            {
                // Times have colons, which end an option.
                Judged::Taken(_) => row.options.push(format!("{word}='{cell}'")),
                Judged::Lost(lost) => row.lose(&lost, enforced.limits, report),
            },
        }
    }
    if !sound_name(&row.name) {
        row.out
            .get_or_insert("no quality of service can have that name here".into());
        row.name.retain(|c| !c.is_control());
    }
    Ok(row)
}

impl Row {
    /// Something of it is not carried over; where that binds jobs it is left out as a whole.
    fn lose(&mut self, what: &str, binds: bool, report: &mut Report) {
        match binds {
            true => drop(
                self.out
                    .get_or_insert(format!("{what} is not carried over")),
            ),
            false => report.at(
                &self.place,
                format!(
                    "quality of service {}: {what} is not carried over; it bound nobody",
                    self.name
                ),
            ),
        }
    }
}

fn flags(row: &mut Row, cell: &str, enforced: &Enforced, report: &mut Report) {
    let mut kept = Vec::new();
    for word in cell.split(',').map(str::trim).filter(|w| !w.is_empty()) {
        match QosFlag::of_word(word) {
            Some(flag) if !UNBOUND.contains(&flag) => {
                row.reserved |= flag == QosFlag::RequiresReservation;
                kept.push(flag.word());
            }
            _ => row.lose(&format!("Flags={word}"), enforced.associations, report),
        }
    }
    if !kept.is_empty() {
        row.options.push(format!("Flags='{}'", kept.join(",")));
    }
}

/// It multiplies limits of accounts and users: below one it makes them tighter.
fn limit_factor(row: &mut Row, cell: &str, enforced: &Enforced, report: &mut Report) {
    let factor = crate::sacctmgr::values::millionths(cell);
    match factor {
        Some(1_000_000) => {}
        Some(1_000_001..) => report.at(
            &row.place,
            format!(
                "quality of service {}: LimitFactor={cell} is not carried over: limits hold as they are",
                row.name
            ),
        ),
        _ => row.lose(&format!("LimitFactor={cell}"), enforced.limits, report),
    }
}

pub(super) fn sound_name(name: &str) -> bool {
    let odd = |c: char| matches!(c, ':' | ',' | '@' | '\'' | '"') || c.is_whitespace();
    !name.is_empty() && name.len() <= limits::NAME_BYTES && !name.contains(odd)
}

fn finished(rows: Vec<Row>, report: &mut Report) -> AllQos {
    let mut all = AllQos::default();
    let kept = rows.iter().filter(|row| row.out.is_none());
    all.names = kept.map(|row| row.name.clone()).collect();
    let reserved = rows.iter().filter(|row| row.reserved);
    all.reserved = reserved.map(|row| row.name.clone()).collect();
    let mut over: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in &rows {
        let mut line = format!("QOS - '{}'", row.name);
        for option in &row.options {
            line.push_str(&format!(":{option}"));
        }
        let preempt = preempted(row, &all.names, &mut over, report);
        if !preempt.is_empty() {
            line.push_str(&format!(":Preempt='{}'", preempt.join(",")));
        }
        match &row.out {
            None => all.lines.push(line),
            Some(why) => {
                all.lacks = true;
                let text = format!(
                    "quality of service {}: {why}: it is left out, and nobody may use it until its line is added",
                    row.name
                );
                all.lines.push(format!("# {why}:"));
                all.lines.push(format!("#{line}"));
                report.at(&row.place, text);
            }
        }
    }
    if !all.names.contains(NORMAL) {
        all.lacks = true;
    }
    all
}

/// Whose jobs give way to its jobs: others that are carried over, and in no circle.
fn preempted(
    row: &Row,
    names: &BTreeSet<String>,
    over: &mut BTreeMap<String, BTreeSet<String>>,
    report: &mut Report,
) -> Vec<String> {
    let mut kept = Vec::new();
    for name in &row.preempt {
        let circle = *name == row.name || reaches(over, name, &row.name);
        if names.contains(name) && !circle {
            over.entry(row.name.clone())
                .or_default()
                .insert(name.clone());
            kept.push(name.clone());
        } else {
            let why = match circle {
                true => "they would end each other's jobs in turn",
                false => "that one is not there",
            };
            report.at(
                &row.place,
                format!("quality of service {} does not preempt {name} here: {why}", row.name),
            );
        }
    }
    kept
}

fn reaches(over: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &str) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(name) = open.pop() {
        if name == to {
            return true;
        }
        let next = over.get(name).into_iter().flatten();
        open.extend(next.map(String::as_str).filter(|n| seen.insert(*n)));
    }
    false
}
