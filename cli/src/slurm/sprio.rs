//! `sprio`: what the priorities of waiting jobs are made of, in partitions that order by fair share or
//! weights. Where none does, Slurm's own sentence of `priority/basic` is said. Source: sprio(1); recordings.

use super::messages::{error, say};
use super::{names, reports};
use crate::{Context, exit, output, users};
use cosy_model::PrioritySettings;
use cosy_model::api::{JobFilter, JobRef, Reply, Request};
use cosy_model::{JobState, Settings};
use cosy_slurm::getopt::Parsed;
use cosy_slurm::small_reports::{Invocation, SPRIO, read};
use cosy_slurm::sprio::{NEEDS, NO_FACTORS, NO_JOBS, Options, Report};

/// Runs `sprio`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    match read(SPRIO, context.args()) {
        Invocation::Help => reports::help(context, SPRIO),
        Invocation::Usage => reports::usage(context, SPRIO),
        Invocation::Version => reports::version(),
        Invocation::UsageError(mistake) => reports::mistake(context, &mistake),
        Invocation::Report(parsed) => report(context, &parsed).unwrap_or_else(|code| code),
    }
}

/// What the command line asks for.
#[derive(Default)]
struct Wanted {
    options: Options,
    filter: JobFilter,
    weights: bool,
    jobs: bool,
}

fn wanted(context: &Context, parsed: &Parsed) -> Result<Wanted, u8> {
    let mut wanted = Wanted::default();
    let list = |text: &str| -> Vec<String> {
        let names = text.split(',').filter(|n| !n.is_empty());
        names.map(str::to_owned).collect()
    };
    for found in &parsed.found {
        let text = found.text();
        match found.name {
            "jobs" => {
                wanted.jobs = true;
                for word in list(&text) {
                    let id: JobRef = word.parse().map_err(|_| {
                        error(context, &format!("Invalid job id: {word}"));
                        exit::FAILED
                    })?;
                    wanted.filter.ids.push(id);
                }
            }
            "user" => {
                wanted.options.users = true;
                wanted.filter.users.extend(list(&text));
            }
            "partition" => wanted.filter.queues.extend(list(&text)),
            "cluster" if !names::is_this_cluster(context, &text) => return Err(exit::FAILED),
            "long" => wanted.options.long = true,
            "norm" => wanted.options.normalized = true,
            "noheader" => wanted.options.bare = true,
            "weights" => wanted.weights = true,
            "format" => wanted.options.format = Some(text.to_string()),
            "sort" => wanted.options.sort = Some(text.to_string()),
            _ => {}
        }
    }
    Ok(wanted)
}

fn report(context: &Context, parsed: &Parsed) -> Result<u8, u8> {
    let mut wanted = wanted(context, parsed)?;
    let failed = |e| reports::failed("Couldn't get priority factors from controller", &e);
    let settings = match context.ask(Request::Settings).map_err(failed)? {
        Reply::Settings(settings) => settings,
        _ => Box::<Settings>::default(),
    };
    let Some(priority) = settings.priority.as_ref() else {
        NO_FACTORS.into_iter().for_each(say);
        return Ok(exit::FAILED);
    };
    let (known, unknown): (Vec<String>, Vec<String>) = wanted
        .filter
        .users
        .iter()
        .cloned()
        .partition(|user| users::exists(user));
    for user in &unknown {
        error(context, &format!("Invalid user: {user}\n"));
    }
    let nobody = wanted.options.users && known.is_empty();
    wanted.filter.users = known;
    told(context, &settings.cluster, priority, &wanted, nobody)
}

fn told(
    context: &Context,
    cluster: &str,
    priority: &PrioritySettings,
    wanted: &Wanted,
    nobody: bool,
) -> Result<u8, u8> {
    let report = Report::new(priority, cluster, &wanted.options);
    for letter in report.unknown() {
        error(context, &format!("Invalid job format specification: {letter}"));
    }
    if wanted.weights {
        output::print(&format!("{}{}", report.heading(), report.weights()));
        return Ok(exit::OK);
    }
    let lines = match nobody {
        true => String::new(),
        false => {
            let filter = JobFilter {
                states: vec![JobState::Waiting],
                ..wanted.filter.clone()
            };
            let fields = NEEDS.to_vec();
            let table = reports::table(
                context,
                Request::Jobs {
                    filter,
                    fields,
                    fold_arrays: true,
                },
            );
            let table = table.map_err(|e| {
                reports::failed("Couldn't get priority factors from controller", &e)
            })?;
            report.lines(&table)
        }
    };
    match wanted.jobs && lines.is_empty() {
        true => output::print(&format!("{NO_JOBS}\n")),
        false => output::print(&format!("{}{lines}", report.heading())),
    }
    Ok(exit::OK)
}
