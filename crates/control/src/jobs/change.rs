//! Changes of jobs: of waiting ones all that was asked for, of running ones the time limit
//! and what is only recorded. Source: scontrol(1), "update" of jobs.

pub(crate) mod procedures;

use crate::jobs::check::check_spec;
use cosy_model::api::JobChange;
use cosy_model::job::ResourceRequest;
use cosy_model::{JobSpec, OsText, Program, Refusal};

/// Refuses what could be left of no job: the change is judged as what it makes of a plain one.
///
/// # Errors
/// As [`check_spec`].
pub(crate) fn check(change: &JobChange) -> Result<(), Refusal> {
    let mut plain = JobSpec::plain("job", Program::Allocation, OsText::from("/"));
    apply(&mut plain, change);
    check_spec(&plain)
}

/// What a change leaves of a job that asks for `spec`.
#[must_use]
pub fn changed(mut spec: JobSpec, change: &JobChange) -> JobSpec {
    apply(&mut spec, change);
    spec
}

/// Memory, whole nodes and GPUs, in whatever words they were asked for before.
fn apply_asked(request: &mut ResourceRequest, change: &JobChange) {
    request.contiguous = change.contiguous.unwrap_or(request.contiguous);
    if let Some(switches) = change.switches {
        request.switches = Some(switches).filter(|switches| switches.most > 0);
    }
    if let Some(memory) = change.memory {
        request.ask_memory(memory);
    }
    if let Some(exclusive) = change.exclusive {
        request.ask_whole_nodes(exclusive);
    }
    if let Some(gpus) = change.gpus_per_node {
        request.gpus_per_node = gpus;
        request.gpus_in_all = None;
        request.asked.forget_gpus();
    }
}

pub(crate) fn apply(spec: &mut JobSpec, change: &JobChange) {
    fn set<T: Clone>(to: &mut T, from: &Option<T>) {
        if let Some(value) = from {
            *to = value.clone();
        }
    }
    fn set_some<T: Clone>(to: &mut Option<T>, from: &Option<T>) {
        if from.is_some() {
            *to = from.clone();
        }
    }
    set(&mut spec.name, &change.name);
    set_some(&mut spec.queue, &change.queue);
    if change.queue.is_some() {
        spec.queues.clear();
    }
    set_some(&mut spec.account, &change.account);
    set(&mut spec.comment, &change.comment);
    set(&mut spec.admin_comment, &change.admin_comment);
    set_some(&mut spec.time_limit, &change.time_limit);
    set_some(&mut spec.request.nodes, &change.nodes);
    set_some(&mut spec.request.tasks, &change.tasks);
    set(&mut spec.request.cores_per_task, &change.cores_per_task);
    set_some(&mut spec.begin, &change.begin);
    set(&mut spec.nice, &change.nice);
    set(&mut spec.site_factor, &change.site_factor);
    set(&mut spec.requeue, &change.requeue);
    set(&mut spec.request.features, &change.features);
    set(&mut spec.request.prefer, &change.prefer);
    if change.avoid.is_some()
        && let Some(losses) = &mut spec.losses
    {
        losses.nodes.clear(); // who names nodes to avoid names all of them
    }
    set(&mut spec.request.avoid, &change.avoid);
    set(&mut spec.request.sets, &change.sets);
    set(&mut spec.dependencies, &change.dependencies);
    let request = &mut spec.request;
    set(&mut request.require, &change.require);
    apply_asked(request, change);
    set_some(&mut request.max_nodes, &change.max_nodes);
    set_some(&mut request.tasks_per_node, &change.tasks_per_node);
    set(&mut request.disk_per_node, &change.disk_per_node);
    set(&mut request.other_per_node, &change.other_per_node);
    set(&mut request.any_features, &change.any_features);
    set(&mut request.same_features, &change.same_features);
    set(&mut request.counted_features, &change.counted_features);
    set(&mut spec.licenses, &change.licenses);
    set_some(&mut spec.deadline, &change.deadline);
    set_some(&mut spec.time_min, &change.time_min);
    set_some(&mut spec.reservation, &change.reservation);
    set(&mut spec.any_dependency, &change.any_dependency);
    set_some(&mut spec.stdout, &change.stdout);
    set_some(&mut spec.stderr, &change.stderr);
    set_some(&mut spec.stdin, &change.stdin);
    set(&mut spec.workdir, &change.workdir);
    set(&mut spec.mail, &change.mail);
    if let Some(priority) = change.priority.filter(|p| *p > 0) {
        spec.priority = Some(priority);
    }
    for (to, from) in [
        (&mut spec.qos, &change.qos),
        (&mut spec.wckey, &change.wckey),
    ] {
        if let Some(word) = from {
            *to = Some(word.clone()).filter(|word| !word.is_empty());
        }
    }
}
