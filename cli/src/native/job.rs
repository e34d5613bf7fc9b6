//! `cosy job`: what a job, or its owner, has to say about it while it runs.

use crate::native::arg::{self, json};
use crate::native::change::report;
use crate::{Context, exit, output};
use clap::{ArgMatches, Command};
use cosy_model::api::{JobChange, JobFilter, JobRef, Reply, Request};
use cosy_model::{JobId, variables};

/// The command line of `cosy job`.
pub fn command() -> Command {
    arg::command("job", "Tell the cluster something about a running job")
        .subcommand_required(true)
        .subcommand(
            arg::command("checkpointed", "What the job has done so far is safe")
                .after_help(
                    "A job that would go on from here if it had to run again loses less when it makes \
                     room for a more important one, and is asked later than others. Inside a job \
                     its own id need not be named. At most once in 10 seconds.",
                )
                .arg(ids())
                .arg(json()),
        )
        .subcommand(
            arg::command("risk", "Which more important jobs could take the job's nodes")
                .after_help("What 'cstat ID' says of it, alone.")
                .arg(ids()),
        )
}

fn ids() -> clap::Arg {
    arg::some_ids("Jobs: 12, a task 12_3; without one the job that this runs in").required(false)
}

/// The jobs that are named, or the one that this runs in.
fn named(matches: &ArgMatches) -> anyhow::Result<Vec<JobRef>> {
    let named = arg::ids_of(matches);
    if !named.is_empty() {
        return Ok(named);
    }
    let own = std::env::var(variables::JOB_ID).ok();
    let own = own.or_else(|| std::env::var("SLURM_JOB_ID").ok());
    let own = own.and_then(|id| id.parse().ok()).map(JobId);
    let own = own.ok_or_else(|| exit::usage("name a job: this does not run in one"))?;
    Ok(vec![JobRef {
        job: own,
        task: None,
    }])
}

/// Runs `cosy job`.
///
/// # Errors
/// A refusal, or no controller.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    match matches.subcommand() {
        Some(("checkpointed", matches)) => checkpointed(context, matches),
        Some(("risk", matches)) => risk(context, matches),
        _ => Err(exit::usage("a subcommand is needed: checkpointed or risk")),
    }
}

fn checkpointed(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let change = JobChange {
        checkpointed: true,
        ..JobChange::default()
    };
    let filter = JobFilter {
        ids: named(matches)?,
        ..JobFilter::default()
    };
    let change = Box::new(change);
    let reply = context.ask(Request::Change { filter, change })?;
    report(context, reply, matches.get_flag("json"))
}

fn risk(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    for job in named(matches)? {
        let Reply::Explained { lines, .. } = context.ask(Request::Explain { job })? else {
            return Err(cosy_client::CallError::Unexpected.into());
        };
        let about = [
            "make room",
            "makes room",
            "more important jobs",
            "stands still",
        ];
        let told = lines
            .iter()
            .filter(|line| about.iter().any(|words| line.contains(words)));
        let told: Vec<&str> = told.map(String::as_str).collect();
        match told.is_empty() {
            true => output::print(&format!("job {job}: no job that waits could take its nodes\n")),
            false => output::print(&format!("job {job}: {}\n", told.join("; "))),
        }
    }
    Ok(exit::OK)
}
