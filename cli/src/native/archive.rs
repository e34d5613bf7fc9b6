//! `cadm archive`: jobs that ended long ago go into archives.

use crate::native::arg::{flag, json, past, value};
use crate::native::{job_table, stat};
use crate::{Context, exit, output, times};
use clap::{ArgMatches, Command};
use cosy_client::CallError;
use cosy_model::api::{Archived, Reply, Request};
use serde_json::json;

/// So many jobs are counted at most.
const COUNTED: u64 = 1_000_000;

/// The command line of `cadm archive`.
pub fn command() -> Command {
    Command::new("archive")
        .about("Move jobs that ended long ago into archives, one for each month")
        .arg(value(
            "before",
            "TIME",
            "Jobs that ended before: 2026-01-01, now-400d (default: older than keep_history)",
        ))
        .arg(flag("dry-run", "Only say how many there are"))
        .arg(json())
}

/// Runs `cadm archive`: one request after another until nothing is left that may leave.
///
/// # Errors
/// A refusal, or no controller.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let now = times::now();
    let mut before = past(matches, "before", &now)?;
    let dry_run = matches.get_flag("dry-run");
    let mut jobs = 0;
    let all = loop {
        let Reply::Archived(part) = context.ask(Request::Archive { before, dry_run })? else {
            return Err(CallError::Unexpected.into());
        };
        before = Some(part.before);
        jobs += part.jobs;
        if part.done {
            break Archived { jobs, ..part };
        }
    };
    output::print(&if matches.get_flag("json") {
        stat::json_text(&json!({
            "before": job_table::json_time(Some(all.before)),
            "jobs": all.jobs,
            "left": all.left,
            "failed": all.failed,
        }))
    } else {
        text(&all, dry_run, &times::long(all.before, &now))
    });
    for why in &all.failed {
        output::complain(context.program(), why);
    }
    Ok(match all.failed.is_empty() {
        true => exit::OK,
        false => exit::FAILED,
    })
}

fn text(all: &Archived, dry_run: bool, before: &str) -> String {
    let jobs = |n: u64| match n {
        1 => "1 job".to_owned(),
        n => format!("{n} jobs"),
    };
    let left = match all.left {
        COUNTED.. => format!("{COUNTED} jobs or more"),
        n => jobs(n),
    };
    if dry_run {
        return format!(
            "{left} that ended before {before} would go into archives; those of arrays and workflows that are not over would stay\n"
        );
    }
    let moved = format!("{} that ended before {before} went into archives\n", jobs(all.jobs));
    match (all.left, all.failed.is_empty()) {
        (0, _) => moved,
        (_, true) => format!("{moved}{left} stay: of arrays and workflows that are not over\n"),
        (_, false) => format!("{moved}{left} stay\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let check = |jobs, left, failed: &[&str], dry_run, want: &str| {
            let all = Archived {
                jobs,
                left,
                failed: failed.iter().map(|f| (*f).to_owned()).collect(),
                ..Archived::default()
            };
            assert_eq!(text(&all, dry_run, "May"), want);
        };
        check(1, 0, &[], false, "1 job that ended before May went into archives\n");
        check(
            0,
            7,
            &[],
            false,
            "0 jobs that ended before May went into archives\n7 jobs stay: of arrays and workflows that are not over\n",
        );
        check(
            2,
            1_000_000,
            &["why"],
            false,
            "2 jobs that ended before May went into archives\n1000000 jobs or more stay\n",
        );
        check(
            0,
            3,
            &[],
            true,
            "3 jobs that ended before May would go into archives; those of arrays and workflows that are not over would stay\n",
        );
    }
}
