//! The steps of a job that run or wait, and the end of one of them.

use crate::launch::node_request::{self, NodeReply};
use crate::launch::options::StepRef;
use crate::launch::start::connect_to_job;
use crate::native::record::{self, TimeStyle};
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
    let stream = connect_to_job(context, job)?;
    match node_request::send(stream, &StepAsk::List { job }, None, &mut |_| ())? {
        NodeReply::Other(StepAnswer::Steps(steps)) => {
            output::print(&match as_json {
                true => json(&steps),
                false => table(&steps),
            });
            Ok(exit::OK)
        }
        NodeReply::Other(_) | NodeReply::Step(_) => Err(unexpected_reply()),
    }
}

/// Ends a running step (`--cancel`).
///
/// # Errors
/// No such step, or no way there.
pub fn cancel(context: &Context, step: StepRef) -> anyhow::Result<u8> {
    let stream = connect_to_job(context, step.job)?;
    let ask = StepAsk::Signal {
        job: step.job,
        step: step.step,
        signal: 0,
    };
    match node_request::send(stream, &ask, None, &mut |_| ())? {
        NodeReply::Other(StepAnswer::Done) => Ok(exit::OK),
        NodeReply::Other(_) | NodeReply::Step(_) => Err(unexpected_reply()),
    }
}

fn unexpected_reply() -> anyhow::Error {
    anyhow!("the node daemon's answer does not fit the request")
}

fn json(steps: &[StepInfo]) -> String {
    let each = steps.iter().map(step::running_fields);
    let steps: Vec<_> = each.map(|fields| record::json(&fields)).collect();
    crate::native::stat::json_text(&json!({ "steps": steps }))
}

fn table(steps: &[StepInfo]) -> String {
    let look = TableStyle {
        width: output::width(),
        ..TableStyle::default()
    };
    record::list(step::RUNNING, steps, TimeStyle::in_lists(&times::now()), look)
}
