//! Jobs beside the limits of accounts and qualities of service: with whom they are counted, what they
//! want and what they hold. Which jobs wait for a limit that no planner knows is in [`parked`].

pub(crate) mod ageing;
pub(crate) mod guarantee;
pub(crate) mod in_plans;
pub(crate) mod parked;
pub(crate) mod procedures;
pub(crate) mod wholes;

use crate::config::ClusterConfig;
use crate::jobs::held_amounts::{
    add, add_amounts, billed, gpu_type, held_amounts, licenses, raise,
};
use crate::jobs::job::{Job, Place, Submitted};
use crate::jobs::run::{Part, Run};
use crate::machine::Machine;
use crate::policy::limits::judge::Wanted;
use crate::policy::limits::party::Party;
use crate::policy::limits::tally::{Amounts, Held, LONGEST, Rest};
use crate::queues::Queues;
use crate::queues::scores::procedures::rate_of;
use cosy_model::policy::Tres;
use cosy_model::{JobSpec, NodeShare, Span, device};
use cosy_policy::billing;
use cosy_sched::Component;
use std::collections::BTreeSet;

/// Which resources some limit is about: of the others nothing has to be known.
pub(crate) type Limited<'a> = &'a dyn Fn(&Tres) -> bool;

/// With whom a job is counted.
pub(crate) fn party_of(queues: &Queues, submitted: &Submitted) -> Party {
    let spec = &submitted.spec;
    let id = queues.id_of(&submitted.queue);
    Party {
        uid: submitted.uid,
        user: submitted.user.clone(),
        account: spec.account.clone(),
        qos: spec.qos.clone(),
        queue_qos: id.and_then(|id| queues.get(id).spec().admits.qos.clone()),
        queue: submitted.queue.clone(),
    }
}

/// Adds what that costs in a queue, in billing units.
fn bill(config: &ClusterConfig, queue: &str, amounts: &mut Amounts) {
    let cost = rate_of(config, queue, &billed(amounts));
    add(amounts, Tres::Billing, cost / billing::PER_UNIT);
}

/// What a job wants at least, as long as its nodes are not chosen.
pub(crate) fn wanted(
    config: &ClusterConfig,
    machine: &Machine,
    limited: Limited<'_>,
    queue: &str,
    (spec, place): (&JobSpec, &Place),
) -> Wanted {
    let mut wanted = Wanted {
        amounts: Amounts::new(),
        on_node: Amounts::new(),
        nodes: None,
        limit: place.limit(),
        jobs: 1,
    };
    add(&mut wanted.amounts, Tres::Node, place.least().unwrap_or(1).into());
    licenses(&mut wanted.amounts, spec);
    if let Place::Good { demand, .. } = place {
        for component in demand.iter() {
            least_of(machine, limited, component, &mut wanted);
        }
    }
    bill(config, queue, &mut wanted.amounts);
    wanted.amounts.retain(|tres, _| limited(tres));
    wanted
}

/// What a component holds at least, in all and on one of its nodes.
fn least_of(machine: &Machine, limited: Limited<'_>, component: &Component, wanted: &mut Wanted) {
    let nodes = component.nodes.unwrap_or(1).max(1);
    let mut one = component.per_node.clone();
    let on_one = component
        .nodes
        .map_or(1, |nodes| component.tasks.div_ceil(nodes.max(1)));
    (0..on_one.min(LOOPS)).for_each(|_| one.give(&component.per_task));
    let mut sum = Amounts::new();
    add_amounts(&mut sum, &component.per_task, component.tasks.into());
    add_amounts(&mut sum, &component.per_node, nodes.into());
    let mut on_node = Amounts::new();
    add_amounts(&mut on_node, &one, 1);
    if component.exclusive {
        // A whole node: at least the cores of the smallest that it can get.
        let known = component.allowed.iter().map(|id| machine.node(id));
        let known = known.filter(|node| node.known());
        let each = known.map(|node| node.amounts().cores).min().unwrap_or(0);
        raise(&mut sum, &Tres::Cpu, u64::from(each).saturating_mul(nodes.into()));
        raise(&mut on_node, &Tres::Cpu, each.into());
    }
    if let Some(kind) = only_type(machine, limited, component) {
        let gpus = sum.get(&Tres::gpus()).copied().unwrap_or(0);
        raise(&mut sum, &kind, gpus);
    }
    for (tres, amount) in sum {
        add(&mut wanted.amounts, tres, amount);
    }
    for (tres, amount) in on_node {
        raise(&mut wanted.on_node, &tres, amount);
    }
}

/// More tasks than that on one node are not counted one by one.
const LOOPS: u32 = 1 << 16;

/// The type of the GPUs that a component gets whichever nodes it gets, though it names none.
fn only_type(machine: &Machine, limited: Limited<'_>, component: &Component) -> Option<Tres> {
    let mut types: BTreeSet<&str> = BTreeSet::new();
    if component.per_node.gpus == 0 && component.per_task.gpus == 0 {
        return None;
    }
    for node in component.allowed.iter().map(|id| machine.node(id)) {
        let amounts = node.amounts();
        let own = amounts
            .other
            .iter()
            .filter_map(|(name, _)| device::gpu_type(name));
        let before = types.len();
        types.extend(own);
        let without_type = amounts.gpus > 0 && types.len() == before && types.is_empty();
        if types.len() > 1 || without_type {
            return None;
        }
    }
    let tres = types.first().map(|kind| gpu_type(kind))?;
    limited(&tres).then_some(tres)
}

/// What a job holds that runs.
pub(crate) fn held(
    config: &ClusterConfig,
    machine: &Machine,
    limited: Limited<'_>,
    (job, run): (&Job, &Run),
    planned_ppm: u32,
) -> Held {
    let submitted = job.submitted();
    let mut amounts = held_amounts(machine, &submitted.spec, run);
    let nodes: BTreeSet<_> = run.parts().iter().map(Part::node).collect();
    bill(config, &submitted.queue, &mut amounts);
    amounts.retain(|tres, _| limited(tres));
    let limit = run.limit().min(LONGEST);
    let rest = match run.suspended() {
        Some(since) => Rest::Of(Span(limit.0.saturating_sub(run.elapsed(since).0).max(0))),
        None if run.limit().is_unlimited() => Rest::Until(run.allocated() + limit),
        None => Rest::Until(run.end_if_it_goes_on()),
    };
    Held {
        nodes: match limited(&Tres::Node) {
            true => nodes.into_iter().collect(),
            false => Box::default(),
        },
        amounts,
        rest,
        planned_ppm,
    }
}

/// What a job would hold on these shares, in all, on one node, and on which nodes.
pub(crate) fn wanted_on(
    config: &ClusterConfig,
    machine: &Machine,
    limited: Limited<'_>,
    job: &Job,
    shares: &[NodeShare],
    limit: Span,
) -> Wanted {
    let submitted = job.submitted();
    let (mut amounts, mut on_node) = (Amounts::new(), Amounts::new());
    let mut nodes = BTreeSet::new();
    for share in shares {
        let mut one = Amounts::new();
        add_amounts(&mut one, &share.amounts, 1);
        let types = machine.node(share.node).amounts().other.iter();
        let mut types = types.filter_map(|(name, _)| device::gpu_type(name));
        // Whoever names no type gets it only where all GPUs of the node are alike.
        if let (Some(kind), None) = (types.next(), types.next()) {
            raise(&mut one, &gpu_type(kind), share.amounts.gpus.into());
        }
        for (tres, amount) in one {
            raise(&mut on_node, &tres, amount);
            add(&mut amounts, tres, amount);
        }
        nodes.insert(share.node);
    }
    licenses(&mut amounts, &submitted.spec);
    add(&mut amounts, Tres::Node, nodes.len() as u64);
    bill(config, &submitted.queue, &mut amounts);
    amounts.retain(|tres, _| limited(tres));
    Wanted {
        amounts,
        on_node,
        nodes: Some(nodes.into_iter().collect()),
        limit,
        jobs: 1,
    }
}
