//! `cosy wait`: until jobs have ended.

use crate::native::{arg, record};
use crate::{Context, exit, output};
use clap::{ArgMatches, Command};
use cosy_model::JobState;
use cosy_model::api::{EndedJob, Reply, Request};
use cosy_model::{hostlist, signal};
use cosy_view::job::ended_fields;
use serde_json::{Value as Json, json};

/// The command line of `cosy wait`.
pub fn command() -> Command {
    arg::command("wait", "Wait until jobs have ended; gives their worst exit code")
        .arg(arg::some_ids("Jobs: 12, a whole array or a task 12_3, some tasks 12_[3-7]"))
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
        return Err(cosy_client::CallError::Unexpected.into());
    };
    if matches.get_flag("json") {
        output::print(&crate::native::stat::json_text(&json!({ "jobs": json(&ended) })));
    } else if !matches.get_flag("quiet") {
        let lines = lines(&ended);
        output::print(&lines.iter().map(|l| format!("{l}\n")).collect::<String>());
    }
    Ok(exit::of_jobs(&ended))
}

/// Most lines about jobs that went wrong under `csub --wait`.
const COMPLAINTS: usize = 10;

/// Prints on standard error how jobs ended, where an exit code alone does not tell it.
pub fn complain_of(context: &Context, ended: &[EndedJob]) {
    let speaks = |job: &&EndedJob| match job.state {
        JobState::Completed => false,
        JobState::Failed => job.exit_code == 0 && job.signal == 0,
        _ => true,
    };
    let wrong: Vec<EndedJob> = ended.iter().filter(speaks).cloned().collect();
    let lines = lines(&wrong);
    for line in lines.iter().take(COMPLAINTS) {
        output::complain(context.program(), line);
    }
    if let Some(more) = lines.len().checked_sub(COMPLAINTS).filter(|n| *n > 0) {
        output::complain(context.program(), &format!("and {more} others"));
    }
}

/// One line for each job; tasks of an array that follow each other and ended alike share one.
fn lines(ended: &[EndedJob]) -> Vec<String> {
    let alike = |a: &EndedJob, b: &EndedJob| {
        let one_array = a.job.job == b.job.job && a.job.task.is_some() && b.job.task.is_some();
        one_array
            && (a.state, a.exit_code, a.signal, &a.note)
                == (b.state, b.exit_code, b.signal, &b.note)
    };
    ended.chunk_by(alike).map(line).collect()
}

/// Jobs that ended alike, at least one.
fn line(alike: &[EndedJob]) -> String {
    let Some(job) = alike.first() else {
        return String::new();
    };
    let how = match (job.signal, job.exit_code) {
        (0, 0) => String::new(),
        (0, code) => format!(" (exit code {code})"),
        (signal, _) => format!(" (signal {})", signal::name(signal.into())),
    };
    let why = match job.note.is_empty() {
        true => String::new(),
        false => format!(": {}", job.note),
    };
    let (id, jobs) = match alike.len() {
        1 => (job.job.to_string(), "Job"),
        _ => {
            let tasks = alike.iter().filter_map(|j| j.job.task.map(u64::from));
            let tasks: Vec<u64> = tasks.collect();
            (format!("{}_[{}]", job.job.job, hostlist::ranges(&tasks, 1)), "Jobs")
        }
    };
    format!("{jobs} {id} {}{how}{why}", job.state)
}

/// Ended jobs as JSON objects.
pub fn json(ended: &[EndedJob]) -> Vec<Json> {
    let each = ended.iter().map(ended_fields);
    each.map(|fields| record::json(&fields)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::JobId;
    use cosy_model::api::JobRef;

    #[test]
    fn tasks_that_end_alike_share_a_line() {
        let ended = |job, task, state, exit_code, note: &str| EndedJob {
            job: JobRef {
                job: JobId(job),
                task,
            },
            state,
            exit_code,
            signal: 0,
            note: note.to_owned(),
        };
        let (fine, failed) = (JobState::Completed, JobState::Failed);
        let all = [
            ended(7, Some(1), fine, 0, ""),
            ended(7, Some(2), fine, 0, ""),
            ended(7, Some(5), fine, 0, ""),
            ended(7, Some(6), failed, 3, ""),
            ended(8, None, JobState::LaunchFailed, 0, "no such file"),
            ended(9, None, fine, 0, ""),
            ended(10, None, fine, 0, ""),
        ];
        assert_eq!(
            lines(&all),
            [
                "Jobs 7_[1-2,5] completed",
                "Job 7_6 failed (exit code 3)",
                "Job 8 launch_failed: no such file",
                "Job 9 completed",
                "Job 10 completed",
            ]
        );
    }
}
