//! What a running job uses: its first node is asked.

use super::node_request::{self, NodeReply};
use super::start::connect_to_job;
use crate::Context;
use anyhow::anyhow;
use cosy_client::{CallError, RetryPolicy};
use cosy_model::JobId;
use cosy_model::step::{JobSamples, JobUse, SampledNodes, StepAnswer, StepAsk};
use std::sync::mpsc;
use std::time::Duration;

/// CPU time and memory that the script and steps of a job have used so far on its first node;
/// `None` when the node cannot be reached.
pub fn of(context: &Context, job: JobId) -> Option<JobUse> {
    match ask_node(context, job, &StepAsk::Usage { job })? {
        StepAnswer::Usage(used) => Some(used),
        _ => None,
    }
}

/// What it used over time; `None` when its first node cannot be reached, or does not measure.
fn samples(context: &Context, job: JobId) -> Option<JobSamples> {
    let of = SampledNodes::Others;
    match ask_node(context, job, &StepAsk::Samples { job, of })? {
        StepAnswer::Samples(samples) => Some(samples),
        _ => None,
    }
}

/// What it used over time on one of its nodes.
///
/// # Errors
/// [`node_request::StepRefused`], [`cosy_client::CallError`], or no way to the job's first node.
pub fn samples_on(context: &Context, job: JobId, node: &str) -> anyhow::Result<JobSamples> {
    let of = SampledNodes::One(node.to_owned());
    let stream = connect_to_job(context, job)?;
    match node_request::send(stream, &StepAsk::Samples { job, of }, None, &mut |_| ())? {
        NodeReply::Other(StepAnswer::Samples(told)) if told.node == node => Ok(told),
        NodeReply::Other(StepAnswer::Samples(told)) => Err(anyhow!(
            "the daemon of the first node ({}) is of an earlier release and tells of itself alone",
            told.node
        )),
        NodeReply::Other(_) | NodeReply::Step(_) => Err(CallError::Unexpected.into()),
    }
}

/// Both, for who does not wait for it longer than that.
pub fn within(limit: Duration, job: JobId) -> Option<(JobUse, Option<JobSamples>)> {
    let (tell, told) = mpsc::channel();
    // It is left alone when its time is over: the command goes on without.
    std::thread::spawn(move || {
        let retry = RetryPolicy {
            answer_timeout: limit,
            reconnect_for: Duration::ZERO,
            ..RetryPolicy::default()
        };
        let context = Context::new("cosy", Vec::new()).with_retry(retry);
        let used = of(&context, job);
        // Nobody listens any more when it took too long.
        let _ = tell.send(used.map(|used| (used, samples(&context, job))));
    });
    told.recv_timeout(limit).ok()?
}

/// The answer of a job's first node; `None` when it cannot be reached.
pub fn ask_node(context: &Context, job: JobId, ask: &StepAsk) -> Option<StepAnswer> {
    let stream = connect_to_job(context, job).ok()?;
    match node_request::send(stream, ask, None, &mut |_| ()).ok()? {
        NodeReply::Other(answer) => Some(answer),
        NodeReply::Step(_) => None,
    }
}
