//! Names in a workflow become numbers.

use crate::config::ClusterConfig;
use crate::event::Caller;
use crate::jobs::licenses::procedures::check_licenses;
use crate::machine::Machine;
use crate::planning::Planning;
use crate::queues::Queues;
use crate::queues::demand::procedures::{mask, no_set};
use crate::record::OfFlow;
use crate::reservations::ask::StandsAs;
use crate::reservations::ask::procedures::{
    PlainJob, demand_in, inquiry_for, may_reserve, payer, reservation_policy, stands_as, tariff,
};
use crate::rooms::Rooms;
use crate::workflows::Workflows;
use crate::workflows::resolve::{
    Known, REMEMBERED, ResolvedFlow, TaskPlace, estimates, mib_times, of_task,
};
use cosy_model::job::ResourceRequest;
use cosy_model::workflow::{FlowDeadline, FlowSpec, FlowTask, Transfer};
use cosy_model::{JobSpec, QueueId, Refusal, RefusalCode, Time, limits};
use cosy_sched::NodeMask;
use cosy_sched::appraise::{Inquiry, Listed};
use cosy_sched::workflow::live::{LiveEdge, LiveFlow, LiveTask, Pricing};
use std::sync::Arc;

/// Resolves a workflow that has passed the checks that need no cluster.
///
/// # Errors
/// A refusal that names the task and what is wrong.
pub(crate) fn flow_wish(
    rooms: &Rooms,
    caller: &Caller,
    spec: FlowSpec,
) -> Result<ResolvedFlow, Refusal> {
    if !caller.resolved {
        return Err(Refusal::new(
            RefusalCode::DirectoryDown,
            format!(
                "the directory service does not tell who user {} is; nothing was planned, try again",
                caller.user.uid
            ),
        ));
    }
    let account = payer(&rooms.config, &rooms.reservations, caller, spec.account.as_deref())?;
    let mut known = Known::new();
    let mut places = Vec::with_capacity(spec.tasks.len());
    for task in &spec.tasks {
        let place = task_place(
            &rooms.config,
            &rooms.machine,
            &rooms.queues,
            &rooms.planning,
            caller,
            task,
            &mut known,
        );
        let place = place.and_then(|place| {
            check_licenses(&rooms.config, &task.spec.licenses)?;
            Ok(place)
        });
        places.push(place.map_err(|refusal| of_task(&task.name, refusal))?);
    }
    let set_names = set_names(&rooms.config, &spec)?;
    Ok(ResolvedFlow {
        spec,
        places,
        set_names,
        account,
        user: caller.user.name.clone(),
    })
}

fn task_place<'a>(
    config: &ClusterConfig,
    machine: &Machine,
    queues: &Queues,
    planning: &Planning,
    caller: &Caller,
    task: &'a FlowTask,
    known: &mut Known<'a>,
) -> Result<TaskPlace, Refusal> {
    let (queue, request) = (&task.spec.queue, &task.spec.request);
    let same =
        |(q, r, _): &&(&Option<String>, &ResourceRequest, TaskPlace)| *q == queue && *r == request;
    if let Some((_, _, place)) = known.iter().find(same) {
        return Ok(place.clone());
    }
    let id = queues.find_queue(config, queue.as_deref())?;
    let place = TaskPlace {
        queue: id,
        level: may_reserve(config, queues, caller, id)?,
        demand: Arc::new(demand_in(config, machine, queues, planning, request, id)?),
    };
    if known.len() < REMEMBERED {
        known.push((queue, request, place.clone()));
    }
    Ok(place)
}

/// The sets that the workflow names, in this order, and the nameless rest.
pub(crate) fn set_names(config: &ClusterConfig, spec: &FlowSpec) -> Result<Vec<String>, Refusal> {
    let speeds = spec.speeds.iter().map(|speed| &speed.set);
    let estimates = spec.tasks.iter().flat_map(|task| &task.estimates);
    let ends = |t: &'_ Transfer| [t.from.clone(), t.to.clone()];
    let transfers = spec.transfers.iter().flat_map(ends).flatten();
    let named = speeds.chain(estimates.map(|(set, _)| set)).cloned();
    let mut names: Vec<String> = Vec::new();
    for name in named.chain(transfers) {
        if names.contains(&name) {
            continue;
        }
        if !config.sets.contains_key(&name) {
            return Err(no_set(config, &name));
        }
        if names.len() >= limits::FLOW_SETS {
            return Err(Refusal::new(
                RefusalCode::TooMany,
                format!("a workflow tells at most {} node sets apart", limits::FLOW_SETS),
            ));
        }
        names.push(name);
    }
    names.push(String::new());
    Ok(names)
}

/// What is to be planned, from `now` on.
pub(crate) fn live_flow(
    rooms: &Rooms,
    now: Time,
    wish: &ResolvedFlow,
) -> Result<LiveFlow, Refusal> {
    let spec = &wish.spec;
    let edges = spec.edges.iter().map(|edge| LiveEdge {
        from: edge.from as usize,
        to: edge.to as usize,
        data_bytes: edge.data_bytes,
    });
    let mut ids: Vec<QueueId> = wish.places.iter().map(|place| place.queue).collect();
    ids.sort_unstable();
    ids.dedup();
    let tasks = spec.tasks.iter().zip(&wish.places);
    let tasks = tasks.map(|(task, place)| LiveTask {
        demand: place.demand.clone(),
        holds: rooms.planning.pools().holds_of(&task.spec),
        estimates: estimates(spec, task, &wish.set_names),
        tariff: ids.iter().position(|id| *id == place.queue).unwrap_or(0),
        fixed: None,
    });
    Ok(LiveFlow {
        tasks: tasks.collect(),
        edges: edges.collect(),
        sets: set_nodes(&rooms.config, &rooms.machine, &wish.set_names)?,
        mib_us: mib_times(spec, &wish.set_names),
        earliest: spec.earliest.unwrap_or(now).max(now),
        deadline: spec.deadline.unwrap_or(FlowDeadline::Slack(0)),
        scheduler: spec.scheduler,
        policy: spec.slack_policy,
        threshold_permille: spec.threshold_permille,
        margin: rooms.config.policy.grace,
        replaces: Vec::new(),
        pricing: pricing(rooms, now, wish, &ids),
    })
}

/// How slots are appraised: the task that asks for the most stands for all as a plain
/// job.
fn pricing(rooms: &Rooms, now: Time, wish: &ResolvedFlow, ids: &[QueueId]) -> Option<Pricing> {
    let tasks = wish.spec.tasks.iter().zip(&wish.places);
    let work = |(task, place): &(&FlowTask, &TaskPlace)| {
        let cores = i128::from(place.demand.tasks) * i128::from(task.spec.request.cores_per_task);
        cores * i128::from(task.estimate.0)
    };
    let (task, place) = tasks.max_by_key(work)?;
    let pools = rooms.planning.pools();
    let plain = PlainJob {
        spec: task.spec.clone(),
        stands_as: &task_stands_as(rooms, wish, &task.spec, place.queue),
        queue: place.queue,
        level: place.level,
        demand: &place.demand,
        holds: &pools.holds_of(&task.spec),
        length: task.estimate,
    };
    let inquiry = Inquiry {
        listed: Listed::Everyone,
        ..inquiry_for(rooms, now, plain)
    };
    let tariff = |id: &QueueId| {
        let queue = rooms.queues.name(*id);
        tariff(&rooms.queues, pools, reservation_policy(&rooms.config, queue))
    };
    Some(Pricing {
        inquiry,
        tariffs: ids.iter().map(tariff).collect(),
    })
}

/// As whose job a task would stand in line.
pub(crate) fn task_stands_as(
    rooms: &Rooms,
    of: &ResolvedFlow,
    spec: &JobSpec,
    queue: QueueId,
) -> StandsAs {
    let account = spec.account.as_deref().or(of.account.as_deref());
    stands_as(rooms, (&of.user, false), (account, spec.qos.as_deref()), queue)
}

/// The nodes on which a task's estimate holds; `None` when those are all.
pub(crate) fn nodes_of_task(
    config: &ClusterConfig,
    machine: &Machine,
    workflows: &Workflows,
    of: OfFlow,
) -> Option<NodeMask> {
    let (flow, task) = (workflows.get(of.flow)?, workflows.task(of)?);
    let names = set_names(config, &flow.spec).ok()?;
    let place = names.iter().position(|name| *name == task.set)?;
    let mut sets = set_nodes(config, machine, &names).ok()?;
    (sets.len() > 1).then(|| sets.swap_remove(place))
}

fn set_nodes(
    config: &ClusterConfig,
    machine: &Machine,
    names: &[String],
) -> Result<Vec<NodeMask>, Refusal> {
    let mut rest = NodeMask::all(machine.node_count());
    let mut sets = Vec::with_capacity(names.len());
    for name in names {
        let own = match config.sets.get(name) {
            Some(nodes) => mask(machine, nodes)?.and(&rest),
            None => rest.clone(),
        };
        rest = rest.and_not(&own);
        sets.push(own);
    }
    Ok(sets)
}
