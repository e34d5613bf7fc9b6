//! `sstat`: what running steps use. Its command line and its columns. Sources: sstat(1), a
//! capture.

use super::fields::{self, Column, Field};
use super::form::Form;
use super::options::Invocation as Other;
use crate::getopt::{self, Order};
use crate::squeue::options::list;
use crate::table::{self, Row};
use std::ffi::OsString;

/// All options of `sstat`, as `--help` lists them.
pub const OPTIONS: &[Row] = &[
    Row::flag(b'a', "allsteps", "all steps of the jobs"),
    Row::long_value("delimiter", "TEXT", "what stands between values with -p and -P"),
    Row::flag(b'e', "helpformat", "print the names of columns"),
    Row::flag(b'h', "help", "print this help"),
    Row::flag(b'i', "pidformat", "processes of steps"),
    Row::value(b'j', "jobs", "ID[.STEP][,...]", "these jobs or steps"),
    Row::flag(b'n', "noheader", "no headings"),
    Row::long_flag("noconvert", "sizes as they are"),
    Row::value(b'o', "format", "FIELD[%WIDTH],...", "columns"),
    Row::flag(b'p', "parsable", "values with '|' behind each"),
    Row::flag(b'P', "parsable2", "values with '|' between them"),
    Row::long_flag("usage", "print a short summary of options"),
    Row::flag(b'v', "verbose", "tell more"),
    Row::flag(b'V', "version", "print the version"),
];

/// Columns, as captured.
pub const FIELDS: &[Field] = &[
    Field::JobID,
    Field::MaxVMSize,
    Field::MaxVMSizeNode,
    Field::MaxVMSizeTask,
    Field::AveVMSize,
    Field::MaxRSS,
    Field::MaxRSSNode,
    Field::MaxRSSTask,
    Field::AveRSS,
    Field::MaxPages,
    Field::MaxPagesNode,
    Field::MaxPagesTask,
    Field::AvePages,
    Field::MinCPU,
    Field::MinCPUNode,
    Field::MinCPUTask,
    Field::AveCPU,
    Field::NTasks,
    Field::AveCPUFreq,
    Field::ReqCPUFreqMin,
    Field::ReqCPUFreqMax,
    Field::ReqCPUFreqGov,
    Field::ConsumedEnergy,
    Field::MaxDiskRead,
    Field::MaxDiskReadNode,
    Field::MaxDiskReadTask,
    Field::AveDiskRead,
    Field::MaxDiskWrite,
    Field::MaxDiskWriteNode,
    Field::MaxDiskWriteTask,
    Field::AveDiskWrite,
    Field::TRESUsageInAve,
    Field::TRESUsageInMax,
    Field::TRESUsageInMaxNode,
    Field::TRESUsageInMaxTask,
    Field::TRESUsageInMin,
    Field::TRESUsageInMinNode,
    Field::TRESUsageInMinTask,
    Field::TRESUsageInTot,
    Field::TRESUsageOutAve,
    Field::TRESUsageOutMax,
    Field::TRESUsageOutMaxNode,
    Field::TRESUsageOutMaxTask,
    Field::TRESUsageOutMin,
    Field::TRESUsageOutMinNode,
    Field::TRESUsageOutMinTask,
    Field::TRESUsageOutTot,
];

/// Columns that are there as well, but only when they are named.
const MORE: [Field; 3] = [Field::ConsumedEnergyRaw, Field::NodeList, Field::ReqCPUFreq];

/// The text of `--helpformat`: all names in order.
pub fn names() -> String {
    let name = |field: &Field| match field {
        Field::NodeList => "Nodelist",
        other => other.name(),
    };
    let mut all: Vec<&str> = FIELDS.iter().chain(&MORE).map(name).collect();
    all.sort_unstable();
    fields::lines(&all)
}

/// The text of `--help`.
pub fn help() -> String {
    let mut text =
        "sstat [<OPTION>] -j <job(.stepid)>\n    Valid <OPTION> values are:\n".to_owned();
    for row in OPTIONS {
        let short = row
            .opt
            .short
            .map_or(String::new(), |s| format!("-{}, ", char::from(s)));
        let spelled = format!("{short}--{}:", row.opt.long);
        text.push_str(&format!("      {spelled:<20} {}\n", row.about));
    }
    text
}

/// The text of `--usage`.
pub const USAGE: &str = "Usage: sstat [options] -j <job(.stepid)>\n\tUse --help for help\n";

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Query {
    /// Jobs and steps as they were written.
    pub jobs: Vec<String>,
    /// All steps of a job.
    pub all: bool,
    /// Columns from left to right.
    pub columns: Vec<Column>,
    /// Without headings (`--noheader`).
    pub bare: bool,
    /// How it is printed.
    pub form: Form,
}

/// Reads the command line (without the program's name).
///
/// # Errors
/// Whatever else is asked for.
pub fn read(args: &[OsString]) -> Result<Query, Other> {
    let parsed = getopt::parse(&table::opts(OPTIONS), Order::Permute, args);
    let mut query = Query {
        columns: super::form::usual(FIELDS),
        ..Query::default()
    };
    let (mut parsable, mut separator) = (None, "|".to_owned());
    for found in &parsed.found {
        match found.name {
            "help" => return Err(Other::Help),
            "usage" => return Err(Other::Usage),
            "version" => return Err(Other::Version),
            "helpformat" => return Err(Other::Fields),
            "allsteps" => query.all = true,
            "delimiter" => separator = found.text(),
            "jobs" => query.jobs.extend(list(&found.text())),
            "noheader" => query.bare = true,
            "format" => query.columns = columns(&found.text())?,
            "parsable" => parsable = Some(false),
            "parsable2" => parsable = Some(true),
            // Nothing to tell.
            _ => {}
        }
    }
    if let Some(mistake) = parsed.mistake {
        return Err(Other::UsageError(mistake));
    }
    let words = parsed.words.iter().map(|w| w.to_string_lossy());
    query.jobs.extend(words.flat_map(|w| list(&w)));
    query.form = match parsable {
        None => Form::Columns,
        Some(false) => Form::Ended(separator),
        Some(true) => Form::Between(separator),
    };
    Ok(query)
}

fn columns(text: &str) -> Result<Vec<Column>, Other> {
    let bad = |word: &str| Other::Bad(format!("Invalid field requested: \"{word}\""));
    let known = |field: &Field| FIELDS.contains(field) || MORE.contains(field);
    let mut all = Vec::new();
    for word in text.split(',') {
        // There is no `ALL` here.
        let columns = fields::read(word, &[]).map_err(|word| bad(&word))?;
        if !columns.iter().all(|c| known(&c.field)) {
            return Err(bad(word.split('%').next().unwrap_or_default().trim()));
        }
        all.extend(columns);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sacct::form::heading;

    #[test]
    fn headings_as_captured() {
        let query = read(&["-j".into(), "1".into()]).unwrap();
        let text = heading(&query.columns, &query.form);
        let names = text.lines().next().unwrap();
        assert!(names.starts_with(
            "JobID         MaxVMSize  MaxVMSizeNode  MaxVMSizeTask  AveVMSize     MaxRSS MaxRSSNode MaxRSSTask     AveRSS MaxPages MaxPagesNode   MaxPagesTask   AvePages     MinCPU MinCPUNode MinCPUTask     AveCPU   NTasks AveCPUFreq ReqCPUFreqMin ReqCPUFreqMax ReqCPUFreqGov ConsumedEnergy  MaxDiskRead MaxDiskReadNode MaxDiskReadTask  AveDiskRead MaxDiskWrite MaxDiskWriteNode MaxDiskWriteTask AveDiskWrite TRESUsageInAve TRESUsageInMax TRESUsageInMaxNode TRESUsageInMaxTask"
        ), "{names}");
        assert!(names.ends_with(" TRESUsageOutTot "));
        assert_eq!(query.jobs, ["1"]);
    }

    #[test]
    fn texts_about_itself() {
        let names = names();
        assert!(names.starts_with("AveCPU              AveCPUFreq "), "{names}");
        assert_eq!(names.split_whitespace().count(), 50);
        assert!(names.contains("Nodelist"));
        assert!(help().contains("      -j, --jobs:          these jobs or steps\n"));
    }

    #[test]
    fn only_its_own_fields() {
        assert!(read(&["-o".into(), "jobid,maxrss".into()]).is_ok());
        assert!(matches!(read(&["-o".into(), "state".into()]), Err(Other::Bad(_))));
        let all = Other::Bad("Invalid field requested: \"ALL\"".into());
        assert_eq!(read(&["-o".into(), "ALL".into()]), Err(all));
        assert!(matches!(read(&["--nosuch".into()]), Err(Other::UsageError(_))));
    }
}
