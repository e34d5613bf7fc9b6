//! `--partition=a,b`: the one of several partitions that the job goes to.
//!
//! A job waits in one queue at a time. Of the queues that it fits into, it goes to the one where it
//! would start first, by a quote; among equals to the one with the higher priority, then to the one
//! named first. While it waits the controller moves it to another of these queues as soon as it
//! could start there.

use super::test_only;
use crate::Context;
use cosy_model::api::{QueueInfo, Reply, Request};
use cosy_model::{JobSpec, Time};
use cosy_slurm::sentences;
use cosy_slurm::submit::{Fault, Line};
use std::cmp::Reverse;

/// Puts the job into one of the partitions of `list`.
///
/// # Errors
/// A partition of the list does not exist.
pub fn choose(context: &Context, spec: &mut JobSpec, list: &str) -> Result<(), Fault> {
    let names: Vec<&str> = list.split(',').filter(|n| !n.is_empty()).collect();
    if names.len() < 2 {
        return Ok(());
    }
    let Ok(Reply::Queues(all)) = context.ask(Request::Queues) else {
        return Ok(());
    };
    let all_names = names.iter().map(|name| (*name).to_owned()).collect();
    let mut fitting = Vec::new();
    for name in names {
        let queue = all.iter().find(|q| q.spec.name == name);
        let queue = queue.ok_or_else(|| unknown(name))?;
        if fits(queue, spec) {
            fitting.push(queue);
        }
    }
    let best = match fitting.len() {
        0 | 1 => fitting.first().copied(),
        _ => fitting
            .into_iter()
            .min_by_key(|queue| (start(context, spec, queue), Reverse(queue.spec.priority))),
    };
    if let Some(queue) = best {
        spec.queue = Some(queue.spec.name.clone());
    }
    if spec.reservation.is_none() {
        spec.queues = all_names;
    }
    Ok(())
}

fn unknown(name: &str) -> Fault {
    let mut fault = Fault::refusal(sentences::NO_PARTITION);
    let line = format!("invalid partition specified: {name}");
    fault.lines.insert(0, Line::Error(line));
    fault
}

/// Whether the job keeps the queue's limits.
fn fits(queue: &QueueInfo, spec: &JobSpec) -> bool {
    let long = spec.time_limit.zip(queue.spec.max_time);
    let most = queue.spec.max_nodes.unwrap_or(u32::MAX).min(queue.nodes);
    queue.spec.state.takes_jobs()
        && long.is_none_or(|(limit, most)| limit <= most)
        && spec.request.nodes.is_none_or(|nodes| nodes <= most)
}

/// When the job would start there, as a key for sorting: unknown starts come last.
fn start(context: &Context, spec: &JobSpec, queue: &QueueInfo) -> (bool, Option<Time>) {
    let spec = JobSpec {
        queue: Some(queue.spec.name.clone()),
        ..spec.clone()
    };
    let start = test_only::start(context, &spec);
    (start.is_none(), start)
}
