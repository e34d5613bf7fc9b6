//! The steps of a job that run or wait, and the end of one of them.

use crate::launch::options::StepRef;
use crate::launch::start::way_to;
use crate::launch::talk::{self, Answered};
use crate::native::record::{self, Clock};
use crate::native::table::TableStyle;
use crate::{Context, exit, output, times};
use anyhow::anyhow;
use cosy_model::JobId;
use cosy_model::step::{StepAnswer, StepAsk, StepInfo};
use cosy_view::step;
use serde_json::json;

/// Shows the steps of `job`.
///
/// # Errors
/// No job, or no way there.
pub fn list(context: &Context, job: Option<JobId>, as_json: bool) -> anyhow::Result<u8> {
    let Some(job) = job else {
        return Err(exit::usage("of which job? Name it with --job"));
    };
    let stream = way_to(context, job)?;
    match talk::ask(stream, &StepAsk::List { job }, None, &mut |_| ())? {
        Answered::Other(StepAnswer::Steps(steps)) => {
            output::print(&match as_json {
                true => json(&steps),
                false => table(&steps),
            });
            Ok(exit::OK)
        }
        Answered::Other(_) | Answered::Step(_) => Err(misfit()),
    }
}

/// Ends a step.
///
/// # Errors
/// No such step, or no way there.
pub fn cancel(context: &Context, step: StepRef) -> anyhow::Result<u8> {
    let stream = way_to(context, step.job)?;
    let ask = StepAsk::Signal {
        job: step.job,
        step: step.step,
        signal: 0,
    };
    match talk::ask(stream, &ask, None, &mut |_| ())? {
        Answered::Other(StepAnswer::Done) => Ok(exit::OK),
        Answered::Other(_) | Answered::Step(_) => Err(misfit()),
    }
}

fn misfit() -> anyhow::Error {
    anyhow!("the node daemon's answer does not fit the request")
}

fn json(steps: &[StepInfo]) -> String {
    let each = steps.iter().map(step::running_fields);
    let steps: Vec<_> = each.map(|fields| record::json(&fields)).collect();
    crate::native::stat::lines(&json!({ "steps": steps }))
}

fn table(steps: &[StepInfo]) -> String {
    let look = TableStyle {
        width: output::width(),
        ..TableStyle::default()
    };
    record::list(step::RUNNING, steps, Clock::in_lists(&times::now()), look)
}
