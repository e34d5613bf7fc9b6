//! Plans for workflows: a slot on a machine for every task of a directed acyclic graph, so
//! that the whole ends by a deadline.
//!
//! Two phases (Zhao and Sakellariou, *Advance Reservation Policies for Workflows*, 2006,
//! Fig. 2): a list scheduler makes a schedule out of estimates ([`schedule`]), then the
//! time between its end and the deadline is shared out among the tasks ([`share_out`]),
//! so that each may take longer than estimated.
//!
//! Knows tasks and machines by number, and times as milliseconds from the earliest start;
//! nothing of users, nodes, queues or jobs. All arithmetic is in integers.

pub mod live;

mod chains;
mod critical;
mod dag;
mod dls;
mod fcp;
mod hbmct;
mod heft;
mod lanes;
mod rank;
mod recursive;
mod resource_model;
mod schedule;

pub use cosy_model::workflow::{FlowScheduler, FlowSlackPolicy};
pub use critical::critical_path;
pub use dag::{Dag, DagError, Edge, Machines, Task};
pub use resource_model::ResourceModel;
pub use schedule::{Schedule, Slot};

/// A schedule out of estimates.
pub fn schedule(scheduler: FlowScheduler, dag: &Dag, machines: &Machines) -> Schedule {
    match scheduler {
        FlowScheduler::Heft => heft::schedule(dag, machines),
        FlowScheduler::Hbmct => hbmct::schedule(dag, machines),
        FlowScheduler::Fcp => fcp::schedule(dag, machines),
        FlowScheduler::Dls => dls::schedule(dag, machines),
    }
}

/// Shares out the time between the end of `schedule` and the deadline; the recursive
/// policies until less than `threshold_ms` of it is left. A schedule that ends later than
/// the deadline stays as it is.
pub fn share_out<G: ResourceModel>(
    policy: FlowSlackPolicy,
    dag: &Dag,
    resources: &G,
    schedule: &Schedule,
    deadline_ms: i64,
    threshold_ms: i64,
) -> Schedule {
    let rounds = recursive::Rounds {
        deadline_ms,
        threshold_ms,
        most: recursive::ROUNDS,
    };
    match policy {
        FlowSlackPolicy::REvenTime
        | FlowSlackPolicy::REvenPercent1
        | FlowSlackPolicy::RCpFirst
        | FlowSlackPolicy::REvenPercent2 => {
            recursive::share_out(policy, dag, resources, schedule, rounds)
        }
        FlowSlackPolicy::CpEvenTime | FlowSlackPolicy::CpEvenPercent => {
            critical::share_out(policy, dag, resources, schedule, deadline_ms)
        }
    }
}

#[cfg(test)]
mod example;
#[cfg(test)]
mod published;
#[cfg(test)]
mod tests;
