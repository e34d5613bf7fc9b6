//! `cosy wait`: until jobs have ended.

use crate::{Context, arg, exit, output, signals};
use clap::{ArgMatches, Command};
use cosy_model::api::{EndedJob, Reply, Request};
use serde_json::{Value as Json, json};

/// The command line of `cosy wait`.
pub fn command() -> Command {
    arg::command(
        "wait",
        "Wait until jobs have ended; gives their worst exit code",
    )
    .arg(arg::some_ids(
        "Jobs: 12, a whole array or a task 12_3, some tasks 12_[3-7]",
    ))
    .arg(arg::flag("quiet", "Say nothing").short('Q'))
    .arg(arg::json())
}

/// Runs `cosy wait`.
///
/// # Errors
/// A refusal, or no controller.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let jobs = arg::ids_of(matches);
    let Reply::Ended(ended) = context.ask(Request::Wait { jobs })? else {
        return Err(crate::call::CallError::Unexpected.into());
    };
    if matches.get_flag("json") {
        output::print(&crate::stat::lines(&json!({ "jobs": json(&ended) })));
    } else if !matches.get_flag("quiet") {
        output::print(&ended.iter().map(line).collect::<String>());
    }
    Ok(exit::of_jobs(&ended))
}

fn line(job: &EndedJob) -> String {
    let how = match (job.signal, job.exit_code) {
        (0, 0) => String::new(),
        (0, code) => format!(" (exit code {code})"),
        (signal, _) => format!(" (signal {})", signals::name(signal.into())),
    };
    let why = match job.note.is_empty() {
        true => String::new(),
        false => format!(": {}", job.note),
    };
    format!("Job {} {}{how}{why}\n", job.job, job.state)
}

/// Ended jobs as JSON objects.
pub fn json(ended: &[EndedJob]) -> Vec<Json> {
    ended
        .iter()
        .map(|j| {
            json!({
                "ref": j.job.to_string(), "state": j.state.word(),
                "exit_code": j.exit_code, "signal": j.signal, "note": j.note,
            })
        })
        .collect()
}
