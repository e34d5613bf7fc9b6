//! `sacct`: jobs and steps that were, are and wait. Sources: sacct(1), CLIENTS of it.
//!
//! Needs no daemon beside the controller: its store is the accounting.

use super::messages::{error, say};
use super::records::{self, Records};
use super::{accounts, names, reports};
use crate::{Context, exit, output, refs, times, users};
use cosy_model::api::{JobFilter, JobRef, Reply, Request};
use cosy_model::hostlist;
use cosy_slurm::json_yaml;
use cosy_slurm::sacct::cells::{ValueStyle, cell};
use cosy_slurm::sacct::fields::{self, Field};
use cosy_slurm::sacct::form::{heading, line};
use cosy_slurm::sacct::options::{self, Invocation, OPTIONS, Query};
use cosy_slurm::sacct::rows::Row;
use cosy_slurm::sacct::{tree, window};
use jiff::Zoned;

/// Runs `sacct`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    let now = times::now();
    match options::read(context.args(), &now, reports::variable) {
        Invocation::Help => reports::help(context, OPTIONS),
        Invocation::Usage => reports::usage(context, OPTIONS),
        Invocation::Version => reports::version(),
        Invocation::Fields => {
            output::print(&fields::help(Field::ALL));
            exit::OK
        }
        Invocation::UsageError(mistake) => {
            say(&mistake.text(&super::messages::called_name()));
            exit::FAILED
        }
        Invocation::Bad(text) => {
            error(context, &text);
            exit::FAILED
        }
        Invocation::Fatal(text) => fatal(context, &text),
        Invocation::Line(text) => {
            say(&text);
            exit::FAILED
        }
        Invocation::Report(query) => report(context, &query, &now).unwrap_or_else(|code| code),
    }
}

fn fatal(context: &Context, text: &str) -> u8 {
    say(&format!("{}: fatal: {text}", context.program()));
    exit::FAILED
}

/// Exit code of a report that failed; the reason has been printed.
type FailureCode = u8;

fn report(context: &Context, query: &Query, now: &Zoned) -> Result<u8, FailureCode> {
    for cluster in &query.clusters {
        if !names::is_this_cluster(context, cluster) {
            return Err(exit::FAILED);
        }
    }
    let selections = select(context, &query.jobs)?;
    let filter = filter(context, query, &selections)?;
    if query.script {
        return scripts(context, &filter.ids);
    }
    let at = times::time_of(now);
    let records = records::fetch(context, &filter, query.whole, at);
    let records = records.map_err(|e| reports::failed("slurmdb_jobs_get", &e))?;
    let jobs = selected_rows(&records, query, &selections);
    match query.spelling {
        Some(spelling) => {
            let list = jobs.iter().map(|rows| tree::of_job(rows));
            json_yaml::answer(spelling, reports::release(), "jobs", list, output::print);
        }
        None => print(query, &jobs, now),
    }
    Ok(exit::OK)
}

fn print(query: &Query, jobs: &[Vec<Row<'_>>], now: &Zoned) {
    let look = ValueStyle {
        stamps: reports::stamps(now),
        raw_sizes: query.raw_sizes,
        unit: query.unit,
    };
    let mut text = String::new();
    if !query.bare {
        text.push_str(&heading(&query.columns, &query.form));
    }
    for row in jobs.iter().flatten() {
        let cells = query.columns.iter().map(|c| cell(c.field, row, &look));
        text.push_str(&line(&query.columns, &query.form, cells));
    }
    output::print(&text);
}

/// A job, or one of its steps, that the command line names.
struct Selection {
    jobs: Vec<JobRef>,
    step: Option<String>,
}

fn select(context: &Context, words: &[String]) -> Result<Vec<Selection>, FailureCode> {
    let one = |word: &String| {
        let (job, step) = match word.split_once('.') {
            Some((job, step)) => (job, Some(step.to_owned())),
            None => (word.as_str(), None),
        };
        let bad = |_| fatal(context, &format!("Bad job/step specified: {word}"));
        let jobs = refs::jobs(job).map_err(bad)?;
        Ok(Selection { jobs, step })
    };
    words.iter().map(one).collect()
}

fn filter(
    context: &Context,
    query: &Query,
    selections: &[Selection],
) -> Result<JobFilter, FailureCode> {
    let mut users = query.users.clone();
    if let Some(user) = users.iter().find(|u| !users::exists(u)) {
        error(context, &format!("Invalid user id: {user}"));
        return Err(exit::FAILED);
    }
    let own = rustix::process::getuid().as_raw();
    let everyones = query.all_users || own == 0 || !selections.is_empty();
    if users.is_empty() && !everyones {
        users = vec![own.to_string()];
    }
    let unknown = |group: &&String| !users::group_exists(group);
    if let Some(group) = query.groups.iter().find(unknown) {
        error(context, &format!("Invalid group id: {group}"));
        return Err(exit::FAILED);
    }
    let nodes = match &query.nodes {
        Some(text) => hostlist::expand(text).map_err(|e| {
            error(context, &e.to_string());
            exit::FAILED
        })?,
        None => Vec::new(),
    };
    Ok(JobFilter {
        ids: selections.iter().flat_map(|w| w.jobs.clone()).collect(),
        users,
        queues: query.partitions.clone(),
        names: query.names.clone(),
        accounts: accounts::spellings(&query.accounts),
        nodes,
        since: query.since,
        until: query.until,
        earlier_runs: query.duplicates,
        ..JobFilter::default()
    })
}

/// The records that are shown, by job.
fn selected_rows<'r>(
    records: &'r Records,
    query: &Query,
    selections: &[Selection],
) -> Vec<Vec<Row<'r>>> {
    let mut all = records.rows();
    all.retain(|rows| {
        rows.first()
            .is_some_and(|whole| window::is_meant(whole, query))
    });
    for rows in &mut all {
        rows.retain(|row| {
            let named = selections.is_empty() || selections.iter().any(|w| names(w, row));
            named && (row.is_whole() || !query.whole)
        });
    }
    all.retain(|rows| !rows.is_empty());
    all
}

fn names(selections: &Selection, row: &Row<'_>) -> bool {
    let Some(step) = &selections.step else {
        let base = row.job.base_id();
        let is = |id: &JobRef| match id.task {
            Some(task) => row.job.task() == Some(i64::from(task)) && is_job(id, base),
            None => is_job(id, base) || is_job(id, row.job.raw_id()),
        };
        return selections.jobs.iter().any(is);
    };
    row.step().as_ref() == Some(step)
        && selections.jobs.iter().any(|id| match id.task {
            Some(task) => row.job.task() == Some(i64::from(task)) && is_job(id, row.job.base_id()),
            None => is_job(id, row.job.raw_id()) || is_job(id, row.job.base_id()),
        })
}

fn is_job(id: &JobRef, number: i64) -> bool {
    u64::try_from(number) == Ok(id.job.0)
}

fn scripts(context: &Context, jobs: &[JobRef]) -> Result<u8, FailureCode> {
    if jobs.is_empty() {
        error(context, "-B/--batch-script requires a jobid");
        return Err(exit::FAILED);
    }
    for job in jobs {
        output::print(&format!("Batch Script for {job}\n{}\n", "-".repeat(80)));
        match context.ask(Request::Script { job: *job }) {
            Ok(Reply::Script(text)) if !text.is_empty() => output::print(&text.lossy()),
            Ok(_) | Err(_) => output::print("NONE\n"),
        }
    }
    Ok(exit::OK)
}
