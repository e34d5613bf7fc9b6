//! The steps of a job that run or wait, and the end of one of them.

use crate::launch::options::StepRef;
use crate::launch::start::way_to;
use crate::launch::talk::{self, Answered};
use crate::native::table::{Head, TableStyle, render};
use crate::{Context, exit, output, times};
use anyhow::anyhow;
use cosy_model::JobId;
use cosy_model::step::{StepAnswer, StepAsk, StepInfo};
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
    let object = |s: &StepInfo| {
        json!({
            "id": s.key.to_string(),
            "name": s.name,
            "tasks": s.tasks,
            "start": s.start.and_then(times::rfc3339),
            "nodes": s.nodes,
        })
    };
    let steps: Vec<_> = steps.iter().map(object).collect();
    crate::native::stat::lines(&json!({ "steps": steps }))
}

fn table(steps: &[StepInfo]) -> String {
    let heads = [
        Head::right("STEP"),
        Head::left("NAME").cut(8),
        Head::right("TASKS"),
        Head::left("START"),
        Head::left("NODES").cut(9),
    ];
    let now = times::now();
    let look = TableStyle {
        width: output::width(),
        ..TableStyle::default()
    };
    let rows: Vec<_> = steps
        .iter()
        .map(|s| {
            let start = s.start.map(|t| times::short(t, &now));
            vec![
                s.key.to_string().into(),
                s.name.clone().into(),
                s.tasks.to_string().into(),
                start.unwrap_or_else(|| "(waits)".to_owned()).into(),
                s.nodes.clone().into(),
            ]
        })
        .collect();
    render(&heads, &rows, look)
}
