//! A workflow with its names resolved: queues, nodes, sets, speeds, transfers.
//!
//! What always holds: every node that some task may have is in exactly one set: the first
//! that it is in, in the order in which the workflow names them; nodes in none of them are
//! the last set, which has no name.

pub(crate) mod procedures;

use cosy_model::job::ResourceRequest;
use cosy_model::workflow::{FlowSpec, FlowTask};
use cosy_model::{AccessLevel, QueueId, Refusal, Span};
use cosy_sched::Component;
use cosy_view::words::task_fault;
use std::sync::Arc;

/// Microseconds that a MiB takes at a byte in a second.
const MIB_AT_A_BYTE: u64 = (1 << 20) * 1_000_000;

/// A workflow that could be, resolved.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedFlow {
    pub spec: FlowSpec,
    /// Where each task is to run.
    pub places: Vec<TaskPlace>,
    /// Names of [`LiveFlow::sets`].
    pub set_names: Vec<String>,
    /// Account that pays.
    pub account: Option<String>,
    /// Login name of its owner.
    pub user: String,
}

/// Where a task is to run.
#[derive(Clone, Debug)]
pub(crate) struct TaskPlace {
    pub queue: QueueId,
    pub level: AccessLevel,
    pub demand: Arc<Component>,
}

/// Places that were found already: tasks of a workflow are often alike.
type Known<'a> = Vec<(&'a Option<String>, &'a ResourceRequest, TaskPlace)>;
/// So many different ones are remembered.
const REMEMBERED: usize = 32;

/// A refusal that is about a task.
pub(crate) fn of_task(name: &str, refusal: Refusal) -> Refusal {
    Refusal {
        message: task_fault::write(name, &refusal.message),
        ..refusal
    }
}

fn estimates(spec: &FlowSpec, task: &FlowTask, sets: &[String]) -> Vec<Span> {
    let on = |set: &String| {
        if let Some((_, span)) = task.estimates.iter().find(|(name, _)| name == set) {
            return *span;
        }
        let speed = spec.speeds.iter().find(|speed| speed.set == *set);
        let permille = i128::from(speed.map_or(1000, |speed| speed.speed_permille).max(1));
        let ms = (i128::from(task.estimate.0) * 1000 + permille - 1) / permille;
        Span(i64::try_from(ms).unwrap_or(i64::MAX).max(1))
    };
    sets.iter().map(on).collect()
}

/// Microseconds of a MiB between each two sets: of the transfers that fit the first counts.
fn mib_times(spec: &FlowSpec, sets: &[String]) -> Vec<Vec<u64>> {
    let fits = |end: &Option<String>, set: &String| end.as_ref().is_none_or(|name| name == set);
    let time = |from: &String, to: &String| {
        if from == to {
            return 0;
        }
        let mut all = spec.transfers.iter();
        let found = all.find(|t| fits(&t.from, from) && fits(&t.to, to));
        found.map_or(0, |t| MIB_AT_A_BYTE.div_ceil(t.bytes_per_second.max(1)))
    };
    let row = |from: &String| sets.iter().map(|to| time(from, to)).collect();
    sets.iter().map(row).collect()
}
