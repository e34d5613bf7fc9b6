//! `sdiag`: what the controller has done since midnight, from its queues and its store.
//! Sources: sdiag(1), a capture.

use super::messages::say;
use super::reports;
use crate::{Context, output, times};
use cosy_client::CallError;
use cosy_model::api::{JobField, JobFilter, Reply, Request};
use cosy_model::{JobState, Time};
use cosy_slurm::diagnosis::{Counts, report};
use cosy_slurm::sentences;
use cosy_slurm::small_reports::{Invocation, SDIAG, read};
use jiff::Zoned;

/// Slurm's exit code for users who are no administrators.
const DENIED: u8 = 255;

/// Runs `sdiag`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    match read(SDIAG, context.args()) {
        Invocation::Help => reports::help(context, SDIAG),
        Invocation::Usage => reports::usage(context, SDIAG),
        Invocation::Version => reports::version(),
        Invocation::UsageError(mistake) => reports::mistake(context, &mistake),
        Invocation::Report(parsed) if parsed.found.iter().any(|f| f.name == "reset") => {
            reset(context)
        }
        Invocation::Report(_) => {
            let now = times::now();
            let since = now.start_of_day().unwrap_or_else(|_| now.clone());
            match counts(context, &since) {
                Ok(counts) => {
                    output::print(&report(&counts, &now, &since));
                    crate::exit::OK
                }
                Err(e) => reports::failed("slurm_get_statistics", &e),
            }
        }
    }
}

/// Refuses `--reset`: counts are those of the store since midnight, so that none can begin anew.
fn reset(context: &Context) -> u8 {
    let admin = match context.ask(Request::Settings) {
        Ok(Reply::Settings(settings)) => settings.you_are_admin,
        Ok(_) => return reports::failed("slurm_reset_statistics", &CallError::Unexpected),
        Err(e) => return reports::failed("slurm_reset_statistics", &e),
    };
    if !admin {
        say(&format!("slurm_reset_statistics: {}", sentences::DENIED));
        return DENIED;
    }
    say("slurm_reset_statistics: what is told is counted since midnight: it cannot begin anew");
    crate::exit::FAILED
}

fn counts(context: &Context, since: &Zoned) -> Result<Counts, CallError> {
    let since = times::time_of(since);
    let Reply::Queues(queues) = context.ask(Request::Queues)? else {
        return Err(CallError::Unexpected);
    };
    let mut counts = Counts::default();
    for queue in queues {
        counts.pending += queue.waiting as usize;
        counts.running += queue.running as usize;
    }
    let request = Request::History {
        filter: JobFilter {
            since: Some(since),
            ..JobFilter::default()
        },
        fields: vec![JobField::State, JobField::Start, JobField::Submit],
    };
    let table = reports::table(context, request)?;
    counts.submitted = counts.pending;
    for row in 0..table.rows {
        let at = |field| table.number(row, field).map(Time);
        let today = |field| at(field).is_some_and(|t| t >= since);
        counts.started += usize::from(today(JobField::Start));
        match table.text(row, JobField::State).parse::<JobState>() {
            Ok(JobState::Completed) => counts.completed += 1,
            Ok(JobState::Cancelled) => counts.cancelled += 1,
            Ok(state) if state.is_end() => counts.failed += 1,
            Ok(JobState::Waiting) | Err(_) => continue,
            Ok(_) => {}
        }
        counts.submitted += usize::from(today(JobField::Submit));
    }
    Ok(counts)
}
