//! The original's sentences for a job that the controller refused.
//!
//! The controller gives the reason in its own words; which of Slurm's sentences fits depends on the
//! cluster, so that its nodes and queues are looked at, only on this path.

use crate::Context;
use crate::slurm::{names, words};
use cosy_client::CallError;
use cosy_model::api::{NodeInfo, QueueInfo, Reply, Request};
use cosy_model::job::{MemoryRequest, ResourceRequest};
use cosy_model::limits::NODE_CORES;
use cosy_model::{About, ArraySpec, JobSpec, Refusal, RefusalCode, ReservationId};
use cosy_slurm::submit::{Fault, Line, array, depend, gres};
use cosy_slurm::{limit_reason, sentences};

/// The reservation of that name.
///
/// # Errors
/// No reservation has that name.
pub fn reservation(context: &Context, name: &str) -> Result<ReservationId, Fault> {
    names::reservation(context, name).ok_or_else(|| Fault::refusal(sentences::NO_RESERVATION))
}

/// Why the job was not accepted.
pub fn explain(
    context: &Context,
    spec: &JobSpec,
    array: Option<&ArraySpec>,
    error: &CallError,
) -> Fault {
    let CallError::Refused(refusal) = error else {
        return Fault::refusal(words::of_call(error));
    };
    if let Some(About::Account | About::Qos) = refusal.about
        && let Some(sentence) = refusal.about.and_then(sentence)
    {
        return refusal_after(&refusal.message, sentence); // whose account, which there are
    }
    if let Some(limit) = &refusal.limit {
        // In the original the reason alone; in front of it which limit, with its figures.
        let mut fault =
            refusal_after(limit_reason::reason(limit), sentences::about_job(refusal.code));
        fault.lines.insert(0, Line::Error(refusal.message.clone()));
        return fault;
    }
    if let Some(sentence) = refusal.about.and_then(sentence) {
        return Fault::refusal(sentence);
    }
    match refusal.code {
        RefusalCode::NotFound => missing(context, spec),
        RefusalCode::NeverFits => Cluster::of(context, spec).never_fits(&spec.request),
        RefusalCode::Invalid if cores(&spec.request) > NODE_CORES.into() => {
            Cluster::of(context, spec).never_fits(&spec.request)
        }
        RefusalCode::TooMany if array.is_some() => Fault::refusal(array::INVALID),
        RefusalCode::Forbidden if spec.nice < 0 => Fault::refusal("Invalid --nice value"),
        RefusalCode::AccessDenied => {
            Fault::refusal("User's group not permitted to use this partition")
        }
        RefusalCode::Invalid | RefusalCode::Admission | RefusalCode::Price => in_full(refusal),
        RefusalCode::Forbidden
        | RefusalCode::QueueLimit
        | RefusalCode::QueueClosed
        | RefusalCode::WrongState
        | RefusalCode::Unavailable
        | RefusalCode::Standby
        | RefusalCode::DirectoryDown
        | RefusalCode::Version
        | RefusalCode::TooMany
        | RefusalCode::NotFree => Fault::refusal(sentences::about_job(refusal.code)),
    }
}

/// The sentence that the subject of a refusal alone decides.
const fn sentence(about: About) -> Option<&'static str> {
    match about {
        About::License => Some(gres::INVALID_LICENSE),
        About::Account => Some(sentences::NO_ACCOUNT),
        About::Qos => Some(sentences::NO_QOS),
        About::Feature => Some(sentences::NO_FEATURE),
        About::Preference => Some(sentences::NO_PREFERENCE),
        About::Dependency => Some(depend::INVALID),
        About::Reservation => Some(sentences::NO_RESERVATION),
        About::Array => Some(array::INVALID),
        About::Deadline => Some("Incorrect job deadline specification"),
        About::Node
        | About::NodeCount
        | About::Tasks
        | About::Cores
        | About::Memory
        | About::Disk
        | About::Gres
        | About::Queue
        | About::TimeLimit
        | About::Priority
        | About::Trigger
        | About::Waiting
        | About::Running
        | About::Held
        | About::Requeue
        | About::Ended
        | About::Suspended => None,
    }
}

/// A refusal without a sentence in Slurm: the controller's own words come first. A script of the
/// site may have named the sentence.
fn in_full(refusal: &Refusal) -> Fault {
    let sentence = sentences::about_refused(refusal);
    let mut fault = Fault::refusal(sentence);
    let lines = refusal.message.lines().filter(|line| *line != sentence);
    let lines = lines.map(|line| Line::Error(line.to_owned()));
    fault.lines.splice(0..0, lines);
    fault
}

fn refusal_after(line: &str, sentence: &str) -> Fault {
    let mut fault = Fault::refusal(sentence);
    fault.lines.insert(0, Line::Error(line.to_owned()));
    fault
}

/// The sentence for an object that does not exist.
fn missing(context: &Context, spec: &JobSpec) -> Fault {
    if let Some(queue) = &spec.queue
        && let Ok(Reply::Queues(all)) = context.ask(Request::Queues)
        && !all.iter().any(|q| q.spec.name == *queue)
    {
        return refusal_after(
            &format!("invalid partition specified: {queue}"),
            sentences::NO_PARTITION,
        );
    }
    let nodes = nodes(context);
    let known = |name: &String| nodes.iter().any(|n| n.name == *name);
    let mut named = spec.request.require.iter().chain(&spec.request.avoid);
    if !named.all(known) {
        return Fault::refusal(sentences::NO_NODE);
    }
    if !spec.licenses.is_empty() {
        return Fault::refusal(gres::INVALID_LICENSE);
    }
    if !spec.dependencies.is_empty() {
        return Fault::refusal(depend::INVALID);
    }
    Fault::refusal(sentences::UNSPECIFIED)
}

/// All nodes of the cluster; empty where they cannot be had.
pub fn nodes(context: &Context) -> Vec<NodeInfo> {
    match context.ask(Request::Nodes) {
        Ok(Reply::Nodes(nodes)) => nodes,
        Ok(_) | Err(_) => Vec::new(),
    }
}

/// The nodes of the cluster, to find which request of a job they cannot meet.
struct Cluster {
    /// All nodes of the cluster.
    all: Vec<NodeInfo>,
    /// Name of the job's queue.
    queue: String,
}

impl Cluster {
    fn of(context: &Context, spec: &JobSpec) -> Self {
        let default = || {
            let queues: Vec<QueueInfo> = match context.ask(Request::Queues) {
                Ok(Reply::Queues(queues)) => queues,
                Ok(_) | Err(_) => Vec::new(),
            };
            let default = queues.into_iter().find(|q| q.default);
            default.map_or_else(String::new, |q| q.spec.name)
        };
        Self {
            all: nodes(context),
            queue: spec.queue.clone().unwrap_or_else(default),
        }
    }

    fn most(&self, of: impl Fn(&NodeInfo) -> u64) -> u64 {
        let here = self.all.iter().filter(|n| n.queues.contains(&self.queue));
        here.map(of).max().unwrap_or(0)
    }

    fn never_fits(&self, request: &ResourceRequest) -> Fault {
        if self.lacks_features(request) {
            return Fault::refusal(sentences::NO_FEATURE);
        }
        if self.lacks_devices(request) {
            return Fault::error(gres::INVALID);
        }
        if memory(request) > self.most(|n| n.amounts.memory.0) {
            return refusal_after(
                "Memory specification can not be satisfied",
                sentences::NODE_CONFIG,
            );
        }
        if request.disk_per_node.0 > self.most(|n| n.amounts.disk.0) {
            return refusal_after(
                "Temporary disk specification can not be satisfied",
                sentences::NODE_CONFIG,
            );
        }
        if cores(request) > self.most(|n| n.amounts.cores.into()) {
            return refusal_after(
                "CPU count per node can not be satisfied",
                sentences::NODE_CONFIG,
            );
        }
        Fault::refusal(sentences::NODE_CONFIG)
    }

    fn lacks_features(&self, request: &ResourceRequest) -> bool {
        let groups = request.any_features.iter().chain(&request.same_features);
        let counted = request.counted_features.iter().flat_map(|c| &c.any);
        let mut all = request
            .features
            .iter()
            .chain(groups.chain(counted).flatten());
        all.any(|feature| !self.all.iter().any(|n| n.features.contains(feature)))
    }

    fn lacks_devices(&self, request: &ResourceRequest) -> bool {
        let none = |of: &dyn Fn(&NodeInfo) -> u32| self.all.iter().all(|n| of(n) == 0);
        let gpus = request.gpus_per_node > 0 && none(&|n| n.amounts.gpus);
        let mut other = request.other_per_node.iter();
        gpus || other.any(|(name, _)| none(&|n| n.amounts.other.get(name)))
    }
}

/// Cores of the tasks that must be together on a node.
fn cores(request: &ResourceRequest) -> u64 {
    u64::from(request.cores_per_task) * u64::from(request.tasks_per_node.unwrap_or(1))
}

fn memory(request: &ResourceRequest) -> u64 {
    match request.memory {
        MemoryRequest::QueueDefault => 0,
        MemoryRequest::PerNode(size) => size.0,
        MemoryRequest::PerCore(size) => size.0.saturating_mul(request.cores_per_task.into()),
    }
}
