//! What came out of a run: of the machine, of the queue, of the workflows.

use super::{Bench, FlowEnd, Outcome};
use crate::metrics::Metrics;
use crate::replay::Replay;
use crate::workload::Workload;
use cosy_model::Time;
use serde::Serialize;

/// Shares are from 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Figures {
    /// Used part of the machine between the first and the last submission.
    pub utilisation: f64,
    /// By workflows.
    pub by_flows: f64,
    /// By workflows that failed, of what workflows used.
    pub lost: f64,
    /// Mean wait of the queue's jobs, in hours.
    pub wait_h: f64,
    /// Their mean bounded slowdown.
    pub slowdown: f64,
    /// Number of workflows submitted.
    pub flows: u64,
    /// Without a plan.
    pub refused: f64,
    /// A task was ended before it was done.
    pub failed: f64,
    /// Done after the deadline.
    pub late: f64,
    /// Done by the deadline.
    pub kept: f64,
    /// Of those that were done: from arrival to end, relative to that to the deadline.
    pub pace: f64,
    /// Of those that were done: from arrival to end, in hours.
    pub length_h: f64,
    /// Used part of the slots that began.
    pub use_of_slots: f64,
    /// By how much the slot of a workflow's least lucky task is longer than its estimate, on
    /// average, relative to that.
    pub least_spare: f64,
    /// Workflows of which the least lucky task has less than a hundredth more.
    pub without_spare: f64,
    /// Plans anew for each workflow.
    pub replans: f64,
}

/// Between which times the machine is looked at.
pub fn window(bench: &Bench<'_>) -> (Time, Time) {
    let submit = |job: Option<&crate::workload::Job>| job.map_or(Time::EPOCH, |job| job.submit);
    (submit(bench.jobs.first()), submit(bench.jobs.last()))
}

impl Figures {
    /// Those of a run.
    pub fn of(bench: &Bench<'_>, outcome: Outcome) -> Self {
        let used = Used::of(bench, &outcome);
        let (flows, ends) = (outcome.ends.len(), outcome.ends);
        let share = |is: &dyn Fn(&(Time, FlowEnd)) -> bool| {
            part(ends.iter().filter(|end| is(end)).count() as f64, flows as f64)
        };
        let done = bench.flows.iter().zip(&ends);
        let done = done.filter_map(|(flow, (deadline, end))| match end {
            FlowEnd::Done(end) => Some((end.since(flow.at).0, deadline.since(flow.at).0)),
            FlowEnd::Refused | FlowEnd::Failed => None,
        });
        let done: Vec<(i64, i64)> = done.collect();
        let pace: f64 = done.iter().map(|d| part(d.0 as f64, d.1 as f64)).sum();
        let length: f64 = done.iter().map(|d| d.0 as f64 / 3_600_000.0).sum();
        let workload = Workload {
            jobs: bench.jobs.to_vec(),
            ..Workload::default()
        };
        let replay = Replay {
            ran: outcome.ran,
            shares: Vec::new(),
            too_large: outcome.too_large,
        };
        let spare = outcome.least_spare;
        let (booked, sum) = (spare.len() as f64, spare.iter().sum::<i64>() as f64);
        let bare = spare.iter().filter(|spare| **spare < 10).count() as f64;
        let queue = Metrics::of(bench.machine, &workload, &replay);
        let count = done.len() as f64;
        Self {
            utilisation: part(used.queue + used.flows, used.all),
            by_flows: part(used.flows, used.all),
            lost: part(used.lost, used.whole_flows),
            wait_h: queue.mean_wait().unwrap_or(0.0) / 3600.0,
            slowdown: queue.mean_bounded_slowdown().unwrap_or(0.0),
            flows: flows as u64,
            refused: share(&|(_, end)| *end == FlowEnd::Refused),
            failed: share(&|(_, end)| *end == FlowEnd::Failed),
            late: share(&|(deadline, end)| matches!(end, FlowEnd::Done(at) if at > deadline)),
            kept: share(&|(deadline, end)| matches!(end, FlowEnd::Done(at) if at <= deadline)),
            pace: part(pace, count),
            length_h: part(length, count),
            use_of_slots: part(outcome.slots.0.0 as f64, outcome.slots.1.0 as f64),
            least_spare: part(sum / 1000.0, booked),
            without_spare: part(bare, booked),
            replans: part(outcome.replans as f64, flows as f64),
        }
    }
}

/// Processor milliseconds.
#[derive(Default)]
struct Used {
    all: f64,
    queue: f64,
    flows: f64,
    /// By workflows, inside the window or not.
    whole_flows: f64,
    lost: f64,
}

impl Used {
    fn of(bench: &Bench<'_>, outcome: &Outcome) -> Self {
        let (from, until) = window(bench);
        let inside = |start: Time, end: Time| end.min(until).since(start.max(from)).0.max(0) as f64;
        let mut used = Self {
            all: until.since(from).0 as f64 * bench.machine.size() as f64,
            ..Self::default()
        };
        for (job, ran) in bench.jobs.iter().zip(&outcome.ran) {
            if let Some(ran) = ran {
                used.queue += inside(ran.start, ran.end) * bench.machine.processors(job) as f64;
            }
        }
        let size = f64::from(bench.task_nodes) * f64::from(bench.machine.cores);
        for (flow, start, end) in &outcome.tasks {
            let whole = end.since(*start).0 as f64 * size;
            used.flows += inside(*start, *end) * size;
            used.whole_flows += whole;
            if outcome.ends[*flow].1 == FlowEnd::Failed {
                used.lost += whole;
            }
        }
        used
    }
}

fn part(of: f64, all: f64) -> f64 {
    if all > 0.0 { of / all } else { 0.0 }
}
