//! What came out of a run: of the machine, of the queue, of the workflows.

use super::{FlowEnd, Outcome, Simulation};
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
    /// The part of the machine that workflows used.
    pub by_flows: f64,
    /// By workflows that failed, of what workflows used.
    pub lost: f64,
    /// Mean wait of the queue's jobs, in hours.
    pub wait_h: f64,
    /// Mean bounded slowdown of the queue's jobs.
    pub slowdown: f64,
    /// Number of workflows submitted.
    pub flows: u64,
    /// Share refused, because no plan could be made.
    pub refused: f64,
    /// Share of which a task was ended before it was done.
    pub failed: f64,
    /// Share done after the deadline.
    pub late: f64,
    /// Share done by the deadline.
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
    /// How often the rest of a workflow was planned again, on average.
    pub replans: f64,
}

/// The time that figures are about: from the first submission to the last.
pub fn window(simulation: &Simulation<'_>) -> (Time, Time) {
    let submit = |job: Option<&crate::workload::Job>| job.map_or(Time::EPOCH, |job| job.submit);
    (submit(simulation.jobs.first()), submit(simulation.jobs.last()))
}

impl Figures {
    /// The figures of `outcome`, which came of `simulation`.
    pub fn of(simulation: &Simulation<'_>, outcome: Outcome) -> Self {
        let used = ProcessorTime::of(simulation, &outcome);
        let (flows, ends) = (outcome.ends.len(), outcome.ends);
        let share = |is: &dyn Fn(&(Time, FlowEnd)) -> bool| {
            part(ends.iter().filter(|end| is(end)).count() as f64, flows as f64)
        };
        let done = simulation.flows.iter().zip(&ends);
        let done = done.filter_map(|(flow, (deadline, end))| match end {
            FlowEnd::Done(end) => Some((end.since(flow.at).0, deadline.since(flow.at).0)),
            FlowEnd::Refused | FlowEnd::Failed => None,
        });
        let done: Vec<(i64, i64)> = done.collect();
        let pace: f64 = done.iter().map(|d| part(d.0 as f64, d.1 as f64)).sum();
        let length: f64 = done.iter().map(|d| d.0 as f64 / 3_600_000.0).sum();
        let workload = Workload {
            jobs: simulation.jobs.to_vec(),
            ..Workload::default()
        };
        let replay = Replay {
            job_runs: outcome.job_runs,
            shares: Vec::new(),
            too_large: outcome.too_large,
        };
        let spare = outcome.least_spare;
        let (booked, sum) = (spare.len() as f64, spare.iter().sum::<i64>() as f64);
        let bare = spare.iter().filter(|spare| **spare < 10).count() as f64;
        let queue = Metrics::of(simulation.machine, &workload, &replay);
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

/// Who used the machine, in processor milliseconds.
#[derive(Default)]
struct ProcessorTime {
    all: f64,
    queue: f64,
    flows: f64,
    /// By workflows, inside the window or not.
    whole_flows: f64,
    lost: f64,
}

impl ProcessorTime {
    fn of(simulation: &Simulation<'_>, outcome: &Outcome) -> Self {
        let (from, until) = window(simulation);
        let inside = |start: Time, end: Time| end.min(until).since(start.max(from)).0.max(0) as f64;
        let mut used = Self {
            all: until.since(from).0 as f64 * simulation.machine.size() as f64,
            ..Self::default()
        };
        for (job, ran) in simulation.jobs.iter().zip(&outcome.job_runs) {
            if let Some(ran) = ran {
                used.queue +=
                    inside(ran.start, ran.end) * simulation.machine.processors(job) as f64;
            }
        }
        let size = f64::from(simulation.task_nodes) * f64::from(simulation.machine.cores);
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
