//! Steps of running jobs: lists, limits and signals. The job's first node, which knows them, is
//! asked; the controller only tells how to reach it.

use crate::Context;
use crate::launch::node_request::{self, NodeReply};
use crate::launch::start::{self, connect_to_job};
use crate::launch::usage::{self, ask_node};
use cosy_client::CallError;
use cosy_model::api::{JobFilter, JobRef, Reply, Request};
use cosy_model::step::{JobUse, StepAnswer, StepAsk, StepInfo};
use cosy_model::{JobId, Span, StepId};
use cosy_slurm::sentences;

/// Sends a signal to a step's tasks; a step that is killed gets no time to end by itself.
///
/// # Errors
/// Slurm's sentence.
pub fn signal(context: &Context, job: JobRef, step: u32, signal: i32) -> Result<(), &'static str> {
    let job = id_of(context, job).ok_or(sentences::NO_JOB)?;
    let step = StepId(step);
    let ask = StepAsk::Signal { job, step, signal };
    match ask_node(context, job, &ask) {
        Some(StepAnswer::Done) => Ok(()),
        Some(_) | None => Err(sentences::NO_JOB),
    }
}

/// Gives one running step, or all of a job, another time limit.
///
/// # Errors
/// [`node_request::StepRefused`], [`cosy_client::CallError`], or no way to the node.
pub fn limit(
    context: &Context,
    job: JobId,
    step: Option<StepId>,
    limit: Span,
) -> anyhow::Result<()> {
    let ask = StepAsk::Limit { job, step, limit };
    let stream = connect_to_job(context, job)?;
    match node_request::send(stream, &ask, None, &mut |_| ())? {
        NodeReply::Other(StepAnswer::Done) => Ok(()),
        NodeReply::Other(_) | NodeReply::Step(_) => Err(CallError::Unexpected.into()),
    }
}

/// Sends a signal to a job's script.
///
/// # Errors
/// Slurm's sentence.
pub fn signal_script(context: &Context, job: JobRef, signal: i32) -> Result<(), &'static str> {
    let request = Request::Cancel {
        filter: JobFilter {
            ids: vec![job],
            ..JobFilter::default()
        },
        signal: Some(signal),
        script_only: true,
        steps_only: false,
    };
    match context.ask(request) {
        Ok(Reply::Done { refused, .. }) => match refused.first() {
            Some((_, refusal)) => Err(sentences::about_job(refusal.code)),
            None => Ok(()),
        },
        Ok(_) | Err(_) => Err(sentences::NO_JOB),
    }
}

/// The steps of a job that run or wait; empty when the node cannot be reached.
pub fn running(context: &Context, job: JobId) -> Vec<StepInfo> {
    match ask_node(context, job, &StepAsk::List { job }) {
        Some(StepAnswer::Steps(steps)) => steps,
        Some(_) | None => Vec::new(),
    }
}

/// CPU time and memory that the script and steps of a job have used so far on its first node.
pub fn usage(context: &Context, job: JobId) -> JobUse {
    usage::of(context, job).unwrap_or_default()
}

/// The id of a job or of one task of an array.
pub fn id_of(context: &Context, job: JobRef) -> Option<JobId> {
    let ids = start::ids_of(context, job).ok()?;
    ids.first().copied()
}
