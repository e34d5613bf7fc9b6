//! From what a user asked for, by name, to what the planner works with, by number; and
//! the limits of queues on the way. COSY paper, section 3.1: "Resource limitation".

pub(crate) mod procedures;

use crate::queues::Queue;
use cosy_model::job::{MemoryRequest, ResourceRequest};
use cosy_model::limits;
use cosy_model::{About, Amounts, JobSpec, MiB, Refusal, RefusalCode, Span};
use cosy_sched::{Component, Shortage};

/// What of a queue's limits does not bind a job, because its quality of service lifts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lifted {
    /// The longest time limit.
    pub time: bool,
    /// The most nodes.
    pub nodes: bool,
}

/// Number of nodes, if fixed, and number of tasks.
fn counts(request: &ResourceRequest) -> Result<(Option<u32>, u32), Refusal> {
    let zero = [
        ("nodes", request.nodes),
        ("tasks", request.tasks),
        ("tasks per node", request.tasks_per_node),
        ("cores per task", Some(request.cores_per_task)),
    ];
    if let Some((what, _)) = zero.iter().find(|(_, n)| *n == Some(0)) {
        return Err(Refusal::invalid(format!("0 {what} cannot be asked for")));
    }
    let asked = request.nodes.or(request.counted_nodes());
    let tasks = match (request.tasks, asked, request.tasks_per_node) {
        (Some(tasks), _, _) => tasks,
        (None, Some(nodes), per_node) => {
            nodes.checked_mul(per_node.unwrap_or(1)).ok_or_else(|| {
                Refusal::invalid(format!("{nodes} nodes times the tasks per node are too many"))
            })?
        }
        (None, None, per_node) => per_node.unwrap_or(1),
    };
    let nodes = request.nodes.map(|n| n.min(tasks));
    let nodes = match nodes {
        None if request.require.len() > 1 => Some((request.require.len() as u32).min(tasks)),
        other => other,
    };
    // As many nodes as there may be.
    let most = nodes.max(nodes.and(request.max_nodes));
    if let (Some(n), Some(per)) = (most, request.tasks_per_node)
        && u64::from(n) * u64::from(per) < u64::from(tasks)
    {
        return Err(Refusal::invalid(format!(
            "{tasks} tasks do not fit on {n} nodes with at most {per} tasks per node"
        )));
    }
    Ok((nodes, tasks))
}

/// What each task and each node takes.
fn amounts(request: &ResourceRequest, queue: &Queue) -> Result<(Amounts, Amounts), Refusal> {
    let cores = request.cores_per_task;
    if cores > limits::NODE_CORES {
        return Err(Refusal::invalid(format!(
            "{cores} cores per task are more than the {} that a node can have",
            limits::NODE_CORES
        )));
    }
    let mut per_task = Amounts {
        cores,
        ..Amounts::default()
    };
    let mut per_node = Amounts {
        disk: request.disk_per_node,
        gpus: request.gpus_per_node,
        other: request.other_per_node.clone(),
        ..Amounts::default()
    };
    crate::machine::devices::count(request, &mut per_node)?;
    let per_core = match request.memory {
        MemoryRequest::QueueDefault => queue.spec().default_memory_per_core,
        MemoryRequest::PerCore(m) => Some(m),
        MemoryRequest::PerNode(m) => {
            per_node.memory = m;
            None
        }
    };
    if let Some(m) = per_core {
        per_task.memory = MiB(m.0.saturating_mul(u64::from(cores)));
    }
    if let Some(max) = queue.spec().max_memory {
        let least = per_node.memory.max(per_task.memory);
        if least > max {
            return Err(over(queue, &format!("{least} of memory per node"), &max.to_string())
                .about(About::Memory));
        }
    }
    if let Some(max) = queue.spec().max_disk
        && per_node.disk > max
    {
        return Err(over(queue, &format!("{} of disk per node", per_node.disk), &max.to_string())
            .about(About::Disk));
    }
    Ok((per_task, per_node))
}

/// Most tasks on one node: what the user said, and what the queue's memory limit leaves.
fn tasks_cap(
    request: &ResourceRequest,
    queue: &Queue,
    per_task: &Amounts,
    per_node: &Amounts,
) -> Option<u32> {
    let by_memory = queue
        .spec()
        .max_memory
        .and_then(|max| (max.0 - per_node.memory.0).checked_div(per_task.memory.0))
        .map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    match (request.tasks_per_node, by_memory) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn time_limit(spec: &JobSpec, queue: &Queue, lifted: Lifted) -> Result<Span, Refusal> {
    let max = queue.spec().max_time.unwrap_or(Span::UNLIMITED);
    let Some(asked) = spec.time_limit else {
        return Ok(queue.spec().default_time.unwrap_or(max).min(max));
    };
    if asked <= Span::ZERO {
        return Err(Refusal::invalid("a time limit of 0 cannot be asked for"));
    }
    if asked > max && !lifted.time {
        return Err(over(queue, &format!("a time limit of {asked}"), &max.to_string())
            .about(About::TimeLimit));
    }
    Ok(asked)
}

/// What there is too little of.
fn about(demand: &Component, shortage: &Shortage) -> About {
    match shortage {
        Shortage::FewerTasksThanNodes { .. } => About::Tasks,
        Shortage::RequiredNodes { .. } => About::NodeCount,
        Shortage::RequiredNode { .. } => About::Node,
        Shortage::CountedNodes { .. } | Shortage::Counted => About::Node,
        Shortage::Components { .. } => About::NodeCount,
        Shortage::Switches { .. } | Shortage::Segments { .. } => About::NodeCount,
        Shortage::SideBySide => About::NodeCount,
        Shortage::Nodes { .. } => About::NodeCount,
        // As many nodes as it takes would do.
        Shortage::Tasks { .. } if demand.nodes.is_none() => About::NodeCount,
        Shortage::Tasks { .. } => About::Tasks,
        Shortage::LargeNodes { what, .. } | Shortage::OneNode { what, .. } => match what {
            what if what.ends_with("cores") => About::Cores,
            what if what.ends_with("memory") => About::Memory,
            what if what.ends_with("disk") => About::Disk,
            _ => About::Gres,
        },
    }
}

pub(crate) fn over(queue: &Queue, asked: &str, max: &str) -> Refusal {
    Refusal::new(
        RefusalCode::QueueLimit,
        format!("{asked} is more than queue {} allows ({max})", queue.spec().name),
    )
}
