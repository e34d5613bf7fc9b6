//! `sbcast`: copies a file to all nodes of a job, as `cbcast` does. Source: sbcast(1),
//! capture acct-sbcast.

use super::command_line::read;
use super::messages::{error, say};
use super::steps;
use crate::launch::broadcast::{self, Broadcast, parse_job};
use crate::{Context, exit};
use cosy_model::JobId;
use cosy_model::api::{JobField, JobFilter, Request};
use cosy_slurm::getopt::Parsed;
use cosy_slurm::sentences;
use cosy_slurm::table::Row;
use cosy_slurm::targets::{self, Step};

/// Slurm's exit code where there is no such job.
const NO_JOB: u8 = 255;

const USAGE: &str = "sbcast [OPTIONS] SOURCE DEST";
pub(crate) const OPTIONS: &[Row] = &[
    Row::flag(b'C', "compress", "accepted: nothing is compressed"),
    Row::value(b'F', "fanout", "N", "accepted: the tree of nodes is chosen"),
    Row::flag(b'f', "force", "replace a file that is there"),
    Row::value(b'j', "jobid", "ID", "the job; the one around without"),
    Row::flag(b'p', "preserve", "keep times and mode"),
    Row::value(b's', "size", "N", "accepted: the size of pieces is chosen"),
    Row::value(b't', "timeout", "SECONDS", "accepted: silence of nodes is noticed"),
    Row::flag(b'v', "verbose", "say more"),
    Row::flag(b'V', "version", "say the version, and exit"),
    Row::long_value("exclude", "PATHS", "accepted: libraries are not copied"),
    Row::long_flag("send-libs", "accepted: libraries are not copied"),
    Row::long_flag("help", "say what options there are, and exit"),
    Row::long_flag("usage", "say how it is called, and exit"),
];

/// Runs `sbcast`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    let parsed = match read(context, USAGE, OPTIONS) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    if parsed.words.len() != 2 {
        error(context, &format!("Need two file names, have {} names", parsed.words.len()));
        return exit::FAILED;
    }
    copy(context, &parsed)
}

fn copy(context: &Context, parsed: &Parsed) -> u8 {
    let given = parsed.found.iter().rev().find(|f| f.name == "jobid");
    let around = || std::env::var("SLURM_JOB_ID").ok();
    let Some(job) = given.map(|f| f.text()).or_else(around) else {
        let text = "Need a job id to run this command.  Run from within a Slurm job or use the \
                    --jobid option.";
        error(context, text);
        return exit::FAILED;
    };
    let nodes = match nodes_of(context, &job) {
        Ok(nodes) => nodes,
        Err(named) => {
            let why = sentences::NO_JOB;
            error(context, &format!("Slurm job {named} lookup error: {why}"));
            return NO_JOB;
        }
    };
    if parsed.found.iter().any(|f| f.name == "verbose") {
        report_copy(parsed, &job, &nodes);
    }
    let whole = job.split('.').next().unwrap_or_default();
    let Some(copy) = broadcast(parsed, whole) else {
        error(context, &format!("Invalid job id: {job}"));
        return exit::FAILED;
    };
    match broadcast::run(context, &copy) {
        Ok(code) => code,
        Err(e) => {
            error(context, &format!("{e:#}"));
            exit::FAILED
        }
    }
}

/// The nodes of a job, or of one of its steps that runs.
///
/// # Errors
/// The name of the job or step, for the message, when there is none that runs.
fn nodes_of(context: &Context, text: &str) -> Result<String, String> {
    let target = targets::parse(text).ok_or("0")?;
    let named = || target.text.clone();
    let job = *target.jobs.first().ok_or_else(named)?;
    let request = Request::Jobs {
        filter: JobFilter {
            ids: vec![job],
            ..JobFilter::default()
        },
        fields: vec![JobField::Id, JobField::Nodes],
        fold_arrays: false,
    };
    let table = context.fetch_jobs(request).map_err(|_| named())?;
    let nodes = table.text(0, JobField::Nodes);
    let id = table.number(0, JobField::Id).filter(|_| !nodes.is_empty());
    let id = id.and_then(|id| u64::try_from(id).ok()).ok_or_else(named)?;
    let Some(Step::Number(step)) = target.step else {
        return Ok(nodes.to_owned());
    };
    let running = steps::running(context, JobId(id)).into_iter();
    let mut running = running.filter(|s| s.key.step.0 == step);
    running.next().map(|s| s.nodes).ok_or_else(named)
}

/// Prints what is copied to which nodes (`--verbose`).
fn report_copy(parsed: &Parsed, job: &str, nodes: &str) {
    let has = |name: &str| parsed.found.iter().any(|f| f.name == name);
    let verbose = parsed.found.iter().filter(|f| f.name == "verbose").count();
    let word = |at: usize| parsed.words.get(at).map(|w| w.to_string_lossy());
    let line = |name: &str, value: &str| say(&format!("sbcast: {name:<10} = {value}"));
    let rule = || say("sbcast: -----------------------------");
    rule();
    line("force", &has("force").to_string());
    line("preserve", &has("preserve").to_string());
    line("verbose", &verbose.to_string());
    line("source", &word(0).unwrap_or_default());
    line("dest", &word(1).unwrap_or_default());
    rule();
    line("jobid", job);
    line("node_list", nodes);
}

/// The request of `cbcast` for the same; `None` without the number of a job. Errors in the names of
/// files are reported when the files are opened.
fn broadcast(parsed: &Parsed, job: &str) -> Option<Broadcast> {
    let has = |name: &str| parsed.found.iter().any(|f| f.name == name);
    let word = |at: usize| parsed.words.get(at).cloned().unwrap_or_default();
    Some(Broadcast {
        job: parse_job(job).ok()?,
        source: word(0).into(),
        destination: word(1),
        mode: None,
        force: has("force"),
        preserve: has("preserve"),
        quiet: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_slurm::getopt::{self, Order};
    use cosy_slurm::table;
    use std::ffi::OsString;

    #[test]
    fn asks_for_the_same() {
        let args = ["-fp", "-j", "12", "a", "b"].map(OsString::from);
        let parsed = getopt::parse(&table::opts(OPTIONS), Order::Permute, &args);
        let copy = broadcast(&parsed, "12").unwrap();
        assert!(copy.force && copy.preserve && copy.quiet);
        assert_eq!(copy.job, JobId(12));
        assert_eq!((&*copy.source, &*copy.destination), ("a".as_ref(), "b".as_ref()));
        assert!(broadcast(&parsed, "12_1").is_none() && broadcast(&parsed, "x").is_none());
    }
}
