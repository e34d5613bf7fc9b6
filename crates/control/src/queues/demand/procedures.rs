//! A request becomes a demand on the nodes of a queue, or is refused with what could be had.

use crate::controller::Controller;
use crate::jobs::job::Place;
use crate::queues::Queue;
use crate::queues::demand::{about, amounts, counts, over, tasks_cap, time_limit};
use cosy_model::device;
use cosy_model::job::ResourceRequest;
use cosy_model::{About, JobSpec, NodeId, QueueId, Refusal, RefusalCode, User};
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
