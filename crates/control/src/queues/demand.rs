//! From what a user asked for, by name, to what the planner works with, by number; and
//! the limits of queues on the way. COSY paper, section 3.1: "Resource limitation".

use crate::controller::Controller;
use crate::jobs::job::Place;
use crate::queues::Queue;
use cosy_model::job::{MemoryRequest, ResourceRequest};
use cosy_model::{About, Amounts, JobSpec, MiB, NodeId, QueueId, Refusal, RefusalCode, Span, User};
use cosy_model::{device, limits};
use cosy_sched::{Demand, NodeMask, Shortage};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Controller {
    /// Where a job would stand in a queue.
    ///
    /// # Errors
    /// A refusal that names the limit and its figure.
    pub(crate) fn place(
        &self,
        spec: &JobSpec,
        queue_id: QueueId,
        user: &User,
    ) -> Result<Place, Refusal> {
        let queue = &self.queues.all[queue_id.index()];
        let limit = time_limit(spec, queue)?;
        let mut demand = self.demand(&spec.request, queue)?;
        let mut least = self.least_nodes(&spec.request, queue_id);
        if !spec.bundles.is_empty() {
            least = least.saturating_add(self.least_further(spec));
            self.add_bundles(spec, limit, &mut demand)?;
            self.fits_somewhere(&demand, queue)?;
        }
        Ok(Place::Good {
            queue: queue_id,
            level: crate::queues::access::level(&queue.spec, user),
            demand: Arc::new(demand),
            limit,
            least,
        })
    }

    /// The fewest nodes of a queue on which as many tasks could be, by their cores and by
    /// how many may be together.
    pub(crate) fn least_nodes(&self, request: &ResourceRequest, queue: QueueId) -> u32 {
        if let Some(nodes) = request.nodes {
            return nodes;
        }
        let counted = request.counted_nodes().unwrap_or(1);
        let tasks = request.task_count();
        let needed = self.tasks_need(request, tasks, &self.queues.all[queue.index()]);
        needed.max(counted)
    }

    /// On how many nodes of a queue, at the least, so many tasks of a request could be.
    fn tasks_need(&self, request: &ResourceRequest, tasks: u32, queue: &Queue) -> u32 {
        let nodes = queue.nodes.iter();
        let cores = nodes.map(|n| self.machine.node(n).amounts.cores).max();
        // Of nodes that have not registered yet nothing is known.
        let fit = cores.filter(|cores| *cores > 0);
        let fit = fit.map_or(tasks, |cores| cores / request.cores_per_task.max(1));
        let together = request.tasks_per_node.map_or(fit, |most| fit.min(most));
        tasks.div_ceil(together.max(1)).max(1)
    }

    /// Between how many nodes a request leaves the choice: then the planner takes as few of
    /// them as the tasks need. Fewer than the least never do: either that is one, or the tasks
    /// need more of the largest nodes there are.
    fn leaves_choice(&self, request: &ResourceRequest, tasks: u32, queue: &Queue) -> Option<u32> {
        let (least, most) = (request.nodes?, request.max_nodes?);
        request.tasks.filter(|_| !request.overcommit)?;
        let more = least == 1 || self.tasks_need(request, tasks, queue) > least;
        (most > least && more && request.require.len() <= 1).then_some(most)
    }

    pub(crate) fn demand(
        &self,
        request: &ResourceRequest,
        queue: &Queue,
    ) -> Result<Demand, Refusal> {
        let (mut nodes, tasks) = counts(request)?;
        let mut max_nodes = queue.spec.max_nodes;
        if let (Some(max), Some(asked)) = (queue.spec.max_nodes, nodes)
            && asked > max
        {
            return Err(
                over(queue, &format!("{asked} nodes"), &format!("{max} nodes"))
                    .about(About::NodeCount),
            );
        }
        if let Some(most) = self.leaves_choice(request, tasks, queue) {
            nodes = None;
            max_nodes = Some(max_nodes.map_or(most, |max| max.min(most)));
        }
        let (mut per_task, mut per_node) = amounts(request, queue)?;
        let mut tasks_per_node = tasks_cap(request, queue, &per_task, &per_node);
        if request.overcommit && !request.exclusive && !queue.spec.exclusive {
            per_node.give(&std::mem::take(&mut per_task));
            tasks_per_node = request.tasks_per_node.or(nodes.map(|n| tasks.div_ceil(n)));
        }
        let allowed = self.allowed(request, queue)?;
        let demand = Demand {
            nodes,
            max_nodes,
            tasks,
            tasks_per_node,
            per_task,
            per_node,
            exclusive: request.exclusive || queue.spec.exclusive,
            counted: self.counted(request, &allowed),
            tiers: self.tiers(request, &allowed)?,
            allowed,
            required: self.mask(&request.require)?,
            more: Vec::new(),
        };
        self.fits_somewhere(&demand, queue)?;
        Ok(demand)
    }

    /// Refuses what the machine can never give, as far as it is known yet.
    fn fits_somewhere(&self, demand: &Demand, queue: &Queue) -> Result<(), Refusal> {
        let name = &queue.spec.name;
        if let Some(node) = demand
            .required
            .iter()
            .find(|n| !demand.allowed.contains(*n))
        {
            return Err(Refusal::new(
                RefusalCode::NeverFits,
                format!(
                    "node {} is required, but it is avoided, lacks a feature asked for, or is not in queue {name}",
                    self.machine.node(node).spec.name
                ),
            )
            .about(About::Node));
        }
        let typed = demand.per_node.other.iter();
        let typed = typed.filter_map(|(name, _)| device::gpu_type(name)).count() > 0;
        let unknown = |n: NodeId| {
            let node = self.machine.node(n);
            !node.known || typed && node.amounts.gpus > 0 && !node.devices.counted
        };
        let further = demand.more.iter().flat_map(|part| part.allowed.iter());
        if demand.allowed.iter().chain(further).any(unknown) {
            return Ok(());
        }
        self.planning
            .cluster()
            .could_ever_run(demand)
            .map_err(|shortage| {
                let types = self.types_to_name(demand, &shortage);
                Refusal::new(
                    RefusalCode::NeverFits,
                    format!("queue {name} can never run this job: {shortage}{types}"),
                )
                .about(about(demand, &shortage))
            })
    }

    /// Help for who asked for GPUs of any type where nodes have several.
    fn types_to_name(&self, demand: &Demand, shortage: &Shortage) -> String {
        let several = matches!(shortage, Shortage::OneNode { what, .. }
            if *what == device::words(device::ANY_GPU));
        if !several {
            return String::new();
        }
        let nodes = demand.allowed.iter().map(|n| self.machine.node(n));
        let names = nodes.flat_map(|n| n.amounts.other.iter());
        let types: BTreeSet<&str> = names.filter_map(|(n, _)| device::gpu_type(n)).collect();
        let types: Vec<&str> = types.into_iter().collect();
        format!(
            "; nodes with several types of GPUs give them by type only: {}",
            types.join(", ")
        )
    }

    fn allowed(&self, request: &ResourceRequest, queue: &Queue) -> Result<NodeMask, Refusal> {
        let mut allowed = queue.nodes.clone();
        for node in self.mask(&request.avoid)?.iter() {
            allowed.remove(node);
        }
        let allowed = self.with_features(request, allowed)?;
        if allowed.count() == 0 {
            return Err(Refusal::new(
                RefusalCode::NeverFits,
                format!(
                    "no node of queue {} has the features {} and is not avoided",
                    queue.spec.name,
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

    /// Preferred nodes first, then those with preferred features, then each set in turn.
    fn tiers(
        &self,
        request: &ResourceRequest,
        allowed: &NodeMask,
    ) -> Result<Vec<NodeMask>, Refusal> {
        let mut tiers = Vec::new();
        if !request.prefer.is_empty() {
            tiers.push(self.mask(&request.prefer)?);
        }
        tiers.extend(self.preferred(request, allowed));
        for set in &request.sets {
            let nodes = self.config.sets.get(set).ok_or_else(|| self.no_set(set))?;
            tiers.push(self.mask(nodes)?);
        }
        Ok(tiers)
    }

    pub(crate) fn mask(&self, names: &[String]) -> Result<NodeMask, Refusal> {
        let mut mask = NodeMask::new(self.machine.node_count());
        for name in names {
            let id = self.machine.id_of(name).ok_or_else(|| {
                let why = format!("there is no node '{name}'");
                Refusal::new(RefusalCode::NotFound, why).about(About::Node)
            })?;
            mask.insert(id);
        }
        Ok(mask)
    }
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
                Refusal::invalid(format!(
                    "{nodes} nodes times the tasks per node are too many"
                ))
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
        MemoryRequest::QueueDefault => queue.spec.default_memory_per_core,
        MemoryRequest::PerCore(m) => Some(m),
        MemoryRequest::PerNode(m) => {
            per_node.memory = m;
            None
        }
    };
    if let Some(m) = per_core {
        per_task.memory = MiB(m.0.saturating_mul(u64::from(cores)));
    }
    if let Some(max) = queue.spec.max_memory {
        let least = per_node.memory.max(per_task.memory);
        if least > max {
            return Err(over(
                queue,
                &format!("{least} of memory per node"),
                &max.to_string(),
            )
            .about(About::Memory));
        }
    }
    if let Some(max) = queue.spec.max_disk
        && per_node.disk > max
    {
        return Err(over(
            queue,
            &format!("{} of disk per node", per_node.disk),
            &max.to_string(),
        )
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
        .spec
        .max_memory
        .and_then(|max| (max.0 - per_node.memory.0).checked_div(per_task.memory.0))
        .map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    match (request.tasks_per_node, by_memory) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn time_limit(spec: &JobSpec, queue: &Queue) -> Result<Span, Refusal> {
    let max = queue.spec.max_time.unwrap_or(Span::UNLIMITED);
    let Some(asked) = spec.time_limit else {
        return Ok(queue.spec.default_time.unwrap_or(max).min(max));
    };
    if asked <= Span::ZERO {
        return Err(Refusal::invalid("a time limit of 0 cannot be asked for"));
    }
    if asked > max {
        return Err(
            over(queue, &format!("a time limit of {asked}"), &max.to_string())
                .about(About::TimeLimit),
        );
    }
    Ok(asked)
}

/// What there is too little of.
fn about(demand: &Demand, shortage: &Shortage) -> About {
    match shortage {
        Shortage::FewerTasksThanNodes { .. } => About::Tasks,
        Shortage::RequiredNodes { .. } => About::NodeCount,
        Shortage::RequiredNode { .. } => About::Node,
        Shortage::CountedNodes { .. } | Shortage::Counted => About::Node,
        Shortage::Parts { .. } => About::NodeCount,
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
        format!(
            "{asked} is more than queue {} allows ({max})",
            queue.spec.name
        ),
    )
}
