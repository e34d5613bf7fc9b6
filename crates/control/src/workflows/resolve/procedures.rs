//! Names in a workflow become numbers.

use crate::controller::Controller;
use crate::event::Caller;
use crate::record::OfFlow;
use crate::workflows::resolve::{
    Known, REMEMBERED, ResolvedFlow, TaskPlace, estimates, mib_times, of_task,
};
use cosy_model::job::ResourceRequest;
use cosy_model::workflow::{FlowDeadline, FlowSpec, FlowTask, Transfer};
use cosy_model::{QueueId, Refusal, RefusalCode, Time, limits};
use cosy_sched::NodeMask;
use cosy_sched::appraise::{Inquiry, Listed};
use cosy_sched::workflow::live::{LiveEdge, LiveFlow, LiveTask, Pricing};
use std::sync::Arc;

impl Controller {
    /// Resolves a workflow that has passed the checks that need no cluster.
    ///
    /// # Errors
    /// A refusal that names the task and what is wrong.
    pub(crate) fn flow_wish(
        &self,
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
        let account = self.payer(caller, spec.account.as_deref())?;
        let mut known = Known::new();
        let mut places = Vec::with_capacity(spec.tasks.len());
        for task in &spec.tasks {
            let place = self.task_place(caller, task, &mut known);
            places.push(place.map_err(|refusal| of_task(&task.name, refusal))?);
        }
        let set_names = self.set_names(&spec)?;
        Ok(ResolvedFlow {
            spec,
            places,
            set_names,
            account,
        })
    }

    fn task_place<'a>(
        &self,
        caller: &Caller,
        task: &'a FlowTask,
        known: &mut Known<'a>,
    ) -> Result<TaskPlace, Refusal> {
        let (queue, request) = (&task.spec.queue, &task.spec.request);
        let same = |(q, r, _): &&(&Option<String>, &ResourceRequest, TaskPlace)| {
            *q == queue && *r == request
        };
        if let Some((_, _, place)) = known.iter().find(same) {
            return Ok(place.clone());
        }
        let id = self.find_queue(queue.as_deref())?;
        let place = TaskPlace {
            queue: id,
            level: self.may_reserve(caller, id)?,
            demand: Arc::new(self.demand_in(request, id)?),
        };
        if known.len() < REMEMBERED {
            known.push((queue, request, place.clone()));
        }
        Ok(place)
    }

    /// The sets that the workflow names, in this order, and the nameless rest.
    pub(crate) fn set_names(&self, spec: &FlowSpec) -> Result<Vec<String>, Refusal> {
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
            if !self.config.sets.contains_key(&name) {
                return Err(self.no_set(&name));
            }
            if names.len() >= limits::FLOW_SETS {
                return Err(Refusal::new(
                    RefusalCode::TooMany,
                    format!(
                        "a workflow tells at most {} node sets apart",
                        limits::FLOW_SETS
                    ),
                ));
            }
            names.push(name);
        }
        names.push(String::new());
        Ok(names)
    }

    pub(crate) fn no_set(&self, name: &str) -> Refusal {
        let sets: Vec<&str> = self.config.sets.keys().map(String::as_str).collect();
        let there = match sets.is_empty() {
            true => "none is configured here ([[node_set]])".to_owned(),
            false => format!("the sets are: {}", sets.join(", ")),
        };
        let why = format!("there is no node set '{name}'; {there}");
        Refusal::new(RefusalCode::NotFound, why)
    }

    /// What is to be planned, from `now` on.
    pub(crate) fn live_flow(&self, now: Time, wish: &ResolvedFlow) -> Result<LiveFlow, Refusal> {
        let spec = &wish.spec;
        let edges = spec.edges.iter().map(|edge| LiveEdge {
            from: edge.from as usize,
            to: edge.to as usize,
            data_bytes: edge.data_bytes,
        });
        let mut queues: Vec<QueueId> = wish.places.iter().map(|place| place.queue).collect();
        queues.sort_unstable();
        queues.dedup();
        let tasks = spec.tasks.iter().zip(&wish.places);
        let tasks = tasks.map(|(task, place)| LiveTask {
            demand: place.demand.clone(),
            estimates: estimates(spec, task, &wish.set_names),
            tariff: queues.iter().position(|id| *id == place.queue).unwrap_or(0),
            fixed: None,
        });
        Ok(LiveFlow {
            tasks: tasks.collect(),
            edges: edges.collect(),
            sets: self.set_nodes(&wish.set_names)?,
            mib_us: mib_times(spec, &wish.set_names),
            earliest: spec.earliest.unwrap_or(now).max(now),
            deadline: spec.deadline.unwrap_or(FlowDeadline::Slack(0)),
            scheduler: spec.scheduler,
            policy: spec.slack_policy,
            threshold_permille: spec.threshold_permille,
            margin: self.config.policy.grace,
            replaces: Vec::new(),
            pricing: self.pricing(now, wish, &queues),
        })
    }

    /// How slots are appraised: the task that asks for the most stands for all as a plain
    /// job.
    fn pricing(&self, now: Time, wish: &ResolvedFlow, queues: &[QueueId]) -> Option<Pricing> {
        let tasks = wish.spec.tasks.iter().zip(&wish.places);
        let work = |(task, place): &(&FlowTask, &TaskPlace)| {
            let cores =
                i128::from(place.demand.tasks) * i128::from(task.spec.request.cores_per_task);
            cores * i128::from(task.estimate.0)
        };
        let (task, place) = tasks.max_by_key(work)?;
        let inquiry = Inquiry {
            listed: Listed::Everyone,
            ..self.inquiry_for(
                now,
                (place.queue, place.level),
                &place.demand,
                task.estimate,
            )
        };
        let tariff = |id: &QueueId| {
            let queue = self.queues.name(*id);
            self.tariff(self.reservation_policy(queue))
        };
        Some(Pricing {
            inquiry,
            tariffs: queues.iter().map(tariff).collect(),
        })
    }

    /// The nodes on which a task's estimate holds; `None` when those are all.
    pub(crate) fn nodes_of_task(&self, of: OfFlow) -> Option<NodeMask> {
        let (flow, task) = (self.workflows.get(of.flow)?, self.workflows.task(of)?);
        let names = self.set_names(&flow.spec).ok()?;
        let place = names.iter().position(|name| *name == task.set)?;
        let mut sets = self.set_nodes(&names).ok()?;
        (sets.len() > 1).then(|| sets.swap_remove(place))
    }

    fn set_nodes(&self, names: &[String]) -> Result<Vec<NodeMask>, Refusal> {
        let mut rest = NodeMask::all(self.machine.node_count());
        let mut sets = Vec::with_capacity(names.len());
        for name in names {
            let own = match self.config.sets.get(name) {
                Some(nodes) => self.mask(nodes)?.and(&rest),
                None => rest.clone(),
            };
            rest = rest.and_not(&own);
            sets.push(own);
        }
        Ok(sets)
    }
}
