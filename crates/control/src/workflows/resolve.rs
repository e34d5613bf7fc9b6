//! A workflow with its names resolved: queues, nodes, sets, speeds, transfers.
//!
//! What always holds: every node that some task may have is in exactly one set: the first
//! that it is in, in the order in which the workflow names them; nodes in none of them are
//! the last set, which has no name.

use crate::controller::Controller;
use crate::event::Caller;
use crate::record::OfFlow;
use cosy_model::job::ResourceRequest;
use cosy_model::workflow::{FlowDeadline, FlowSpec, FlowTask, Transfer};
use cosy_model::{AccessLevel, QueueId, Refusal, RefusalCode, Span, Time, limits};
use cosy_sched::appraise::{Inquiry, Listed};
use cosy_sched::workflow::live::{LiveEdge, LiveFlow, LiveTask, Pricing};
use cosy_sched::{Demand, NodeMask};
use cosy_view::words::task_fault;
use std::sync::Arc;

/// Microseconds that a MiB takes at a byte in a second.
const MIB_AT_A_BYTE: u64 = (1 << 20) * 1_000_000;

/// A workflow that could be, resolved.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedFlow {
    pub spec: FlowSpec,
    /// Where each task is to run.
    pub places: Vec<TaskPlace>,
    /// Names of [`LiveFlow::sets`].
    pub set_names: Vec<String>,
    /// Account that pays.
    pub account: Option<String>,
}

/// Where a task is to run.
#[derive(Clone, Debug)]
pub(crate) struct TaskPlace {
    pub queue: QueueId,
    pub level: AccessLevel,
    pub demand: Arc<Demand>,
}

/// Places that were found already: tasks of a workflow are often alike.
type Known<'a> = Vec<(&'a Option<String>, &'a ResourceRequest, TaskPlace)>;
/// So many different ones are remembered.
const REMEMBERED: usize = 32;

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

/// A refusal that is about a task.
pub(crate) fn of_task(name: &str, refusal: Refusal) -> Refusal {
    Refusal {
        message: task_fault::write(name, &refusal.message),
        ..refusal
    }
}

fn estimates(spec: &FlowSpec, task: &FlowTask, sets: &[String]) -> Vec<Span> {
    let on = |set: &String| {
        if let Some((_, span)) = task.estimates.iter().find(|(name, _)| name == set) {
            return *span;
        }
        let speed = spec.speeds.iter().find(|speed| speed.set == *set);
        let permille = i128::from(speed.map_or(1000, |speed| speed.speed_permille).max(1));
        let ms = (i128::from(task.estimate.0) * 1000 + permille - 1) / permille;
        Span(i64::try_from(ms).unwrap_or(i64::MAX).max(1))
    };
    sets.iter().map(on).collect()
}

/// Microseconds of a MiB between each two sets: of the transfers that fit the first counts.
fn mib_times(spec: &FlowSpec, sets: &[String]) -> Vec<Vec<u64>> {
    let fits = |end: &Option<String>, set: &String| end.as_ref().is_none_or(|name| name == set);
    let time = |from: &String, to: &String| {
        if from == to {
            return 0;
        }
        let mut all = spec.transfers.iter();
        let found = all.find(|t| fits(&t.from, from) && fits(&t.to, to));
        found.map_or(0, |t| MIB_AT_A_BYTE.div_ceil(t.bytes_per_second.max(1)))
    };
    let row = |from: &String| sets.iter().map(|to| time(from, to)).collect();
    sets.iter().map(row).collect()
}
