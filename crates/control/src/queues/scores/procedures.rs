//! Jobs that begin and end to hold nodes are charged to their users, and keys made anew.

use crate::config::ClusterConfig;
use crate::jobs::Jobs;
use crate::jobs::held_amounts::{billed, held_amounts};
use crate::jobs::job::Job;
use crate::jobs::run::Run as JobRun;
use crate::machine::Machine;
use crate::queues::Queues;
use crate::queues::scores::factors::amount_of;
use crate::queues::scores::member;
use crate::queues::scores::resources::UseOf;
use crate::queues::scores::shares::Holding;
use crate::record::Record;
use crate::turn::Turn;
use cosy_model::policy::Tres;
use cosy_model::{JobId, Time};
use cosy_policy::billing::{BillingWeights, Held, PER_UNIT};

/// A job holds nodes, or others than before.
pub(crate) fn charge(
    config: &ClusterConfig,
    machine: &Machine,
    queues: &mut Queues,
    jobs: &Jobs,
    id: JobId,
) {
    let scores = queues.scores_mut();
    let Some(job) = jobs.get(&id).filter(|_| scores.is_on()) else {
        return;
    };
    let Some(run) = job.run() else {
        return;
    };
    scores.left(id);
    scores.has_changed();
    let holding = holding(config, machine, job, run);
    scores.shares_mut().holds(id, holding);
}

/// A job has given its nodes back.
pub(crate) fn charge_end(
    config: &ClusterConfig,
    machine: &Machine,
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
    let last = holding(config, machine, job, run);
    scores.shares_mut().held(id, last, now);
}

/// All that run are charged anew: what counts of their qualities of service may be something else.
pub(crate) fn charge_anew(
    config: &ClusterConfig,
    machine: &Machine,
    queues: &mut Queues,
    jobs: &Jobs,
) {
    let running: Vec<JobId> = queues.scores().shares().jobs().collect();
    for id in running {
        charge(config, machine, queues, jobs, id);
    }
}

/// How a job holds what it holds.
fn holding(config: &ClusterConfig, machine: &Machine, job: &Job, run: &JobRun) -> Holding {
    let submitted = job.submitted();
    let who = member(job);
    Holding {
        account: who.account.to_owned(),
        user: who.user.to_owned(),
        queue: who.queue.to_owned(),
        qos: submitted.spec.qos.iter().cloned().collect(),
        amounts: amounts(config, machine, job, run),
        start: run.resized().unwrap_or(run.allocated()) + run.suspended_for(),
        resized: run.resized(),
        limit: run.end_if_it_goes_on(),
        suspended: run.suspended(),
    }
}

/// What a run holds, in thousandths: of each resource, of what it costs, and of time.
fn amounts(
    config: &ClusterConfig,
    machine: &Machine,
    job: &Job,
    run: &JobRun,
) -> Vec<(UseOf, u64)> {
    let submitted = job.submitted();
    let held = held_amounts(machine, &submitted.spec, run);
    let billing = rate_of(config, &submitted.queue, &billed(&held));
    let mut all = vec![
        (UseOf::Tres(Tres::Billing), billing),
        (UseOf::Wall, PER_UNIT),
    ];
    let whole = |(tres, amount): (Tres, u64)| (UseOf::Tres(tres), amount.saturating_mul(PER_UNIT));
    all.extend(held.into_iter().map(whole));
    all
}

/// What it costs to hold this in a queue, in thousandths of billing units.
pub(crate) fn rate_of(config: &ClusterConfig, queue: &str, held: &Held) -> u64 {
    let priority = &config.priority;
    let free = BillingWeights::default();
    let own = priority.queues.get(queue).map(|own| &own.billing);
    own.unwrap_or(&free).rate(priority.combine, held)
}

/// The cluster has so many cores and nodes.
pub(crate) fn measure_machine(config: &ClusterConfig, machine: &Machine, queues: &mut Queues) {
    if queues.scores().is_on() {
        let nodes = machine.ids().map(|id| machine.node(id).amounts().cores);
        let (mut cores, mut count) = (0u32, 0u32);
        nodes.for_each(|n| (cores, count) = (cores.saturating_add(n), count + 1));
        queues.scores_mut().machine_has(cores, count);
        let weighted: Vec<Tres> = queues.scores().weighted_resources().cloned().collect();
        if !weighted.is_empty() {
            let all = queues.all().iter();
            let of_queues = all.map(|queue| {
                let has = weighted.iter().map(|tres| {
                    let nodes = queue.nodes().iter();
                    let amounts = nodes.map(|id| amount_of(machine.node(id).amounts(), tres));
                    let licenses = match tres {
                        Tres::License(name) => u64::from(config.licenses.get(name)),
                        _ => 0,
                    };
                    (tres.clone(), amounts.fold(licenses, u64::saturating_add))
                });
                (queue.spec().name.clone(), has.collect())
            });
            let of_queues = of_queues.collect();
            queues.scores_mut().queues_have(of_queues);
        }
    }
}

/// What was charged in this turn is written with it.
pub(crate) fn save_usage(queues: &mut Queues, turn: &mut Turn) {
    for row in queues.scores_mut().shares_mut().take_unsaved(turn.now()) {
        turn.record(Record::Usage(Box::new(row)));
    }
}
