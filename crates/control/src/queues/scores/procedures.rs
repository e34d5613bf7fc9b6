//! Jobs that begin and end to hold nodes are charged to their users, and keys made anew.

use crate::config::ClusterConfig;
use crate::jobs::Jobs;
use crate::jobs::job::Job;
use crate::jobs::run::Run as JobRun;
use crate::machine::Machine;
use crate::queues::Queues;
use crate::queues::scores::shares::Holding;
use crate::record::Record;
use crate::turn::Turn;
use cosy_model::{JobId, Time};
use cosy_policy::billing::{BillingWeights, Held};
use cosy_policy::usage::Run;

/// A job holds nodes, or others than before.
pub(crate) fn charge(config: &ClusterConfig, queues: &mut Queues, jobs: &Jobs, id: JobId) {
    let scores = queues.scores_mut();
    let Some(job) = jobs.get(&id).filter(|_| scores.is_on()) else {
        return;
    };
    let Some(run) = job.run() else {
        return;
    };
    scores.left(job);
    scores.has_changed();
    scores.shares_mut().holds(id, holding(config, job, run));
}

/// A job has given its nodes back.
pub(crate) fn charge_end(
    config: &ClusterConfig,
    queues: &mut Queues,
    jobs: &Jobs,
    id: JobId,
    now: Time,
) {
    let scores = queues.scores_mut();
    let Some(job) = jobs.get(&id).filter(|_| scores.is_on()) else {
        return;
    };
    let Some(run) = job.run() else {
        return;
    };
    scores.has_changed();
    let last = holding(config, job, run);
    scores.shares_mut().held(id, last, now);
}

/// How a job holds what it holds.
fn holding(config: &ClusterConfig, job: &Job, run: &JobRun) -> Holding {
    let submitted = job.submitted();
    let start = run.resized().unwrap_or(run.allocated()) + run.suspended_for();
    Holding {
        account: submitted.spec.account.clone().unwrap_or_default(),
        user: submitted.user.clone(),
        run: Run {
            rate: rate(config, &submitted.queue, run),
            start,
            limit: run.end_if_it_goes_on(),
        },
        suspended: run.suspended(),
    }
}

/// What a run costs, in thousandths of billing units.
fn rate(config: &ClusterConfig, queue: &str, run: &JobRun) -> u64 {
    let mut held = Held::default();
    for part in run.parts() {
        let amounts = part.amounts();
        held.nodes += 1;
        held.cores += u64::from(amounts.cores);
        held.memory_mib += amounts.memory.0;
        let gpus = Some(("gpu", amounts.gpus)).filter(|(_, number)| *number > 0);
        for (name, number) in gpus.into_iter().chain(amounts.other.iter()) {
            *held.devices.entry(name.to_owned()).or_default() += u64::from(number);
        }
    }
    let priority = &config.priority;
    let free = BillingWeights::default();
    let own = priority.queues.get(queue).map(|own| &own.billing);
    own.unwrap_or(&free).rate(priority.combine, &held)
}

/// The cluster has so many cores and nodes.
pub(crate) fn measure_machine(machine: &Machine, queues: &mut Queues) {
    if queues.scores().is_on() {
        let nodes = machine.ids().map(|id| machine.node(id).amounts().cores);
        let (mut cores, mut count) = (0u32, 0u32);
        nodes.for_each(|n| (cores, count) = (cores.saturating_add(n), count + 1));
        queues.scores_mut().machine_has(cores, count);
    }
}

/// What was charged in this turn is written with it.
pub(crate) fn save_usage(queues: &mut Queues, turn: &mut Turn) {
    for row in queues.scores_mut().shares_mut().take_unsaved(turn.now()) {
        turn.record(Record::Usage(Box::new(row)));
    }
}
