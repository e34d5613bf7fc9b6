//! What a running job uses: its first node is asked.

use super::node_request::{self, NodeReply};
use super::start::connect_to_job;
use crate::Context;
use cosy_client::RetryPolicy;
use cosy_model::JobId;
use cosy_model::step::{JobSamples, JobUse, StepAnswer, StepAsk};
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
    match ask_node(context, job, &StepAsk::Samples { job })? {
        StepAnswer::Samples(samples) => Some(samples),
        _ => None,
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
