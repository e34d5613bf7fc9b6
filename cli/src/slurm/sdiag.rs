//! `sdiag`: what the controller has done since midnight, from its queues and its store.
//! Sources: sdiag(1), a capture.

use super::messages::say;
use super::reports;
use crate::{Context, output, times};
use cosy_client::CallError;
use cosy_model::api::{JobFilter, Reply, Request};
use cosy_slurm::diagnosis::{Counts, NEEDS, report};
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
    let request = Request::History {
        filter: JobFilter {
            since: Some(since),
            ..JobFilter::default()
        },
        fields: NEEDS.to_vec(),
    };
    let table = reports::table(context, request)?;
    Ok(Counts::of(&queues, &table, since))
}
