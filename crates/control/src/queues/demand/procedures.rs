//! A request becomes a demand on the nodes of a queue, or is refused with what could be had.

use crate::config::ClusterConfig;
use crate::jobs::job::Place;
use crate::jobs::losses::elsewhere;
use crate::machine::Machine;
use crate::planning::Planning;
use crate::queues::demand::{Lifted, about, amounts, counts, over, tasks_cap, time_limit};
use crate::queues::{Queue, Queues};
use cosy_model::job::{FurtherComponent, ResourceRequest};
use cosy_model::{About, Dialect, JobSpec, QueueId, Refusal, RefusalCode, Span, User, device};
use cosy_sched::{Component, Demand, NodeMask, Shortage};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Where a job would stand in a queue: on other nodes than those that it was lost with, if there are
/// enough.
///
/// # Errors
/// A refusal that names the limit and its figure.
pub(crate) fn place(
    config: &ClusterConfig,
    machine: &Machine,
    queues: &Queues,
    planning: &Planning,
    spec: &JobSpec,
    at: (QueueId, Lifted),
    user: &User,
) -> Result<Place, Refusal> {
    if let Some(other) = elsewhere(machine, spec)
        && let Ok(place) = place(config, machine, queues, planning, &other, at, user)
    {
        return Ok(place);
    }
    if let Some(other) = on_any_switches(spec)
        && place_as_asked(config, machine, queues, planning, spec, at, user).is_err()
    {
        return place(config, machine, queues, planning, &other, at, user);
    }
    place_as_asked(config, machine, queues, planning, spec, at, user)
}

/// The same request without its numbers of switches, where it does not insist on them: as in Slurm a
/// job that no so few switches could ever have waits for nothing.
fn on_any_switches(spec: &JobSpec) -> Option<JobSpec> {
    let mut kept = spec
        .components()
        .filter_map(|own| own.request.kept_to_switches());
    if spec.dialect == Dialect::Cosy || kept.next().is_none() {
        return None;
    }
    let mut other = spec.clone();
    other
        .requests_mut()
        .for_each(|request| request.switches = None);
    Some(other)
}

/// The same, as it was asked for.
fn place_as_asked(
    config: &ClusterConfig,
    machine: &Machine,
    queues: &Queues,
    planning: &Planning,
    spec: &JobSpec,
    at: (QueueId, Lifted),
    user: &User,
) -> Result<Place, Refusal> {
    let (queue_id, lifted) = at;
    let queue = &queues.all[queue_id.index()];
    let limit = time_limit(spec, queue, lifted)?;
    let first = demand(config, machine, planning, &spec.request, (queue, lifted))?;
    let further = (spec, lifted);
    let demand =
        Demand::new(first, further_demands(config, machine, queues, planning, further, limit)?);
    if demand.only().is_none() {
        fit_side_by_side(machine, planning, &demand, queue)?;
    }
    Ok(Place::Good {
        queue: queue_id,
        level: crate::queues::access::level(queue.spec(), user),
        demand: planning.cluster().shared_demand(queue_id, Arc::new(demand)),
        limit,
        least: least_of_all(config, machine, queues, spec, queue_id),
    })
}

/// The fewest nodes of a queue on which as many tasks could be, by their cores and by
/// how many may be together.
pub(crate) fn least_nodes(
    machine: &Machine,
    queues: &Queues,
    request: &ResourceRequest,
    queue: QueueId,
) -> u32 {
    if let Some(nodes) = request.nodes {
        return nodes;
    }
    let counted = request.counted_nodes().unwrap_or(1);
    let tasks = request.task_count();
    let needed = tasks_need(machine, request, tasks, &queues.all[queue.index()]);
    needed.max(counted)
}

/// On how many nodes of a queue, at the least, so many tasks of a request could be.
fn tasks_need(machine: &Machine, request: &ResourceRequest, tasks: u32, queue: &Queue) -> u32 {
    let nodes = queue.nodes().iter();
    let cores = nodes.map(|n| machine.node(n).amounts().cores).max();
    // Of nodes that have not registered yet nothing is known.
    let fit = cores.filter(|cores| *cores > 0);
    let fit = fit.map_or(tasks, |cores| cores / request.cores_per_task.max(1));
    let together = request.tasks_per_node.map_or(fit, |most| fit.min(most));
    tasks.div_ceil(together.max(1)).max(1)
}

/// Between how many nodes a request leaves the choice: then the planner takes as few of
/// them as the tasks need. Fewer than the least never do: either that is one, or the tasks
/// need more of the largest nodes there are.
fn leaves_choice(
    machine: &Machine,
    request: &ResourceRequest,
    tasks: u32,
    queue: &Queue,
) -> Option<u32> {
    let (least, most) = (request.nodes?, request.max_nodes?);
    request.tasks.filter(|_| !request.overcommit)?;
    let more = least == 1 || tasks_need(machine, request, tasks, queue) > least;
    (most > least && more && request.require.len() <= 1).then_some(most)
}

/// What one component asks for, of the nodes of a queue.
///
/// # Errors
/// What the queue does not allow, or its nodes can never give.
pub(crate) fn demand(
    config: &ClusterConfig,
    machine: &Machine,
    planning: &Planning,
    request: &ResourceRequest,
    (queue, lifted): (&Queue, Lifted),
) -> Result<Component, Refusal> {
    let (mut nodes, tasks) = counts(request)?;
    let mut max_nodes = queue.spec().max_nodes.filter(|_| !lifted.nodes);
    if let (Some(max), Some(asked)) = (max_nodes, nodes)
        && asked > max
    {
        return Err(
            over(queue, &format!("{asked} nodes"), &format!("{max} nodes")).about(About::NodeCount)
        );
    }
    if let Some(most) = leaves_choice(machine, request, tasks, queue) {
        nodes = None;
        max_nodes = Some(max_nodes.map_or(most, |max| max.min(most)));
    }
    let (mut per_task, mut per_node) = amounts(request, queue)?;
    let mut tasks_per_node = tasks_cap(request, queue, &per_task, &per_node);
    if request.overcommit && !request.exclusive && !queue.spec().exclusive {
        per_node.give(&std::mem::take(&mut per_task));
        tasks_per_node = request.tasks_per_node.or(nodes.map(|n| tasks.div_ceil(n)));
    }
    let allowed = allowed(machine, request, queue)?;
    // One node is on one switch, and beside itself.
    let several = nodes != Some(1) && tasks > 1;
    let topology = several.then(|| machine.topology().cloned()).flatten();
    let demand = Component {
        nodes,
        max_nodes,
        tasks,
        tasks_per_node,
        per_task,
        per_node,
        exclusive: request.exclusive || queue.spec().exclusive,
        counted: machine.counted(request, &allowed),
        tiers: tiers(config, machine, request, &allowed)?,
        required: mask(machine, &request.require)?,
        max_switches: topology
            .as_ref()
            .and(request.kept_to_switches())
            .map(|kept| kept.most),
        segment: topology.as_ref().and(request.segment),
        topology,
        contiguous: request.contiguous && several,
        allowed: queue.own_or(allowed),
    };
    fits_somewhere(machine, planning, &demand, queue)?;
    Ok(demand)
}

/// Refuses what the machine can never give, as far as it is known yet.
fn fits_somewhere(
    machine: &Machine,
    planning: &Planning,
    demand: &Component,
    queue: &Queue,
) -> Result<(), Refusal> {
    let name = &queue.spec().name;
    if let Some(node) = demand
        .required
        .iter()
        .find(|n| !demand.allowed.contains(*n))
    {
        return Err(Refusal::new(
            RefusalCode::NeverFits,
            format!(
                "node {} is required, but it is avoided, lacks a feature asked for, or is not in queue {name}",
                machine.node(node).spec().name
            ),
        )
        .about(About::Node));
    }
    if !is_known(machine, demand) {
        return Ok(());
    }
    let possible = planning.cluster().component_could_ever_run(demand);
    possible.map_err(|shortage| never_fits(machine, demand, queue, &shortage))
}

/// The same for components that fit each by itself.
fn fit_side_by_side(
    machine: &Machine,
    planning: &Planning,
    demand: &Demand,
    queue: &Queue,
) -> Result<(), Refusal> {
    if !demand.iter().all(|component| is_known(machine, component)) {
        return Ok(());
    }
    let possible = planning.cluster().could_ever_run(demand);
    possible.map_err(|shortage| never_fits(machine, demand.first(), queue, &shortage))
}

/// Whether all nodes that may be used have told what they have, as far as it is asked for.
fn is_known(machine: &Machine, demand: &Component) -> bool {
    let typed = demand.per_node.other.iter();
    let typed = typed.filter_map(|(name, _)| device::gpu_type(name)).count() > 0;
    demand.allowed.iter().all(|n| {
        let node = machine.node(n);
        node.known() && !(typed && node.amounts().gpus > 0 && !node.devices().counted)
    })
}

fn never_fits(
    machine: &Machine,
    demand: &Component,
    queue: &Queue,
    shortage: &Shortage,
) -> Refusal {
    let types = types_to_name(machine, demand, shortage);
    let name = &queue.spec().name;
    let why = format!("queue {name} can never run this job: {shortage}{types}");
    Refusal::new(RefusalCode::NeverFits, why).about(about(demand, shortage))
}

/// Help for who asked for GPUs of any type where nodes have several.
fn types_to_name(machine: &Machine, demand: &Component, shortage: &Shortage) -> String {
    let several = matches!(shortage, Shortage::OneNode { what, .. }
        if *what == device::words(device::ANY_GPU));
    if !several {
        return String::new();
    }
    let nodes = demand.allowed.iter().map(|n| machine.node(n));
    let names = nodes.flat_map(|n| n.amounts().other.iter());
    let types: BTreeSet<&str> = names.filter_map(|(n, _)| device::gpu_type(n)).collect();
    let types: Vec<&str> = types.into_iter().collect();
    format!("; nodes with several types of GPUs give them by type only: {}", types.join(", "))
}

fn allowed(
    machine: &Machine,
    request: &ResourceRequest,
    queue: &Queue,
) -> Result<NodeMask, Refusal> {
    let mut allowed = queue.nodes().clone();
    for node in mask(machine, &request.avoid)?.iter() {
        allowed.remove(node);
    }
    let allowed = machine.with_features(request, allowed)?;
    if allowed.count() == 0 {
        return Err(Refusal::new(
            RefusalCode::NeverFits,
            format!(
                "no node of queue {} has the features {} and is not avoided",
                queue.spec().name,
                if request.features.is_empty() {
                    "asked for".to_owned()
                } else {
                    request.features.join(",")
                }
            ),
        )
        .about(About::Node));
    }
    Ok(allowed)
}

/// Preferred nodes first, then those with preferred features, then each set in turn; at last the
/// lighter ones of the rest.
fn tiers(
    config: &ClusterConfig,
    machine: &Machine,
    request: &ResourceRequest,
    allowed: &NodeMask,
) -> Result<Vec<NodeMask>, Refusal> {
    let mut tiers = Vec::new();
    if !request.prefer.is_empty() {
        tiers.push(mask(machine, &request.prefer)?);
    }
    tiers.extend(machine.preferred(request, allowed));
    for set in &request.sets {
        let nodes = config.sets.get(set).ok_or_else(|| no_set(config, set))?;
        tiers.push(mask(machine, nodes)?);
    }
    tiers.extend(machine.by_weight(allowed));
    Ok(tiers)
}

pub(crate) fn mask(machine: &Machine, names: &[String]) -> Result<NodeMask, Refusal> {
    let mut mask = NodeMask::new(machine.node_count());
    for name in names {
        let id = machine.id_of(name).ok_or_else(|| {
            let why = format!("there is no node '{name}'");
            Refusal::new(RefusalCode::NotFound, why).about(About::Node)
        })?;
        mask.insert(id);
    }
    Ok(mask)
}

/// What the components behind the first ask for.
///
/// # Errors
/// What the queue of a component does not allow, or its nodes can never give.
pub(crate) fn further_demands(
    config: &ClusterConfig,
    machine: &Machine,
    queues: &Queues,
    planning: &Planning,
    (spec, lifted): (&JobSpec, Lifted),
    limit: Span,
) -> Result<Vec<Component>, Refusal> {
    let demand = |component: &FurtherComponent| {
        let queue = queues.get(queues.find_queue(config, component.queue.as_deref())?);
        let max = queue.spec().max_time.filter(|_| !lifted.time);
        if let Some(max) = max.filter(|max| limit > *max) {
            let asked = format!("a time limit of {limit}");
            return Err(over(queue, &asked, &max.to_string()).about(About::TimeLimit));
        }
        demand(config, machine, planning, &component.request, (queue, lifted))
    };
    spec.further_components.iter().map(demand).collect()
}

/// The fewest nodes of all components, of which the first stands in a queue.
pub(crate) fn least_of_all(
    config: &ClusterConfig,
    machine: &Machine,
    queues: &Queues,
    spec: &JobSpec,
    first: QueueId,
) -> u32 {
    let least = |component: &FurtherComponent| {
        let queue = queues.find_queue(config, component.queue.as_deref()).ok();
        queue.map_or(1, |queue| least_nodes(machine, queues, &component.request, queue))
    };
    let further = spec.further_components.iter().map(least);
    let first = least_nodes(machine, queues, &spec.request, first);
    further.fold(first, u32::saturating_add)
}

pub(crate) fn no_set(config: &ClusterConfig, name: &str) -> Refusal {
    let sets: Vec<&str> = config.sets.keys().map(String::as_str).collect();
    let there = match sets.is_empty() {
        true => "none is configured here ([[node_set]])".to_owned(),
        false => format!("the sets are: {}", sets.join(", ")),
    };
    let why = format!("there is no node set '{name}'; {there}");
    Refusal::new(RefusalCode::NotFound, why)
}
