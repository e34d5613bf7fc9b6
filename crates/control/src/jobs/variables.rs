//! Variables that a job finds in its environment, `COSY_*`.

use crate::config::ClusterConfig;
use crate::jobs::Jobs;
use crate::jobs::job::Job;
use crate::jobs::run::Run;
use crate::machine::Machine;
use crate::machine::names::serving_list;
use crate::queues::Queues;
use crate::rooms::Rooms;
use crate::workflows::Workflows;
use cosy_model::job::MemoryRequest;
use cosy_model::{Dialect, Gid, MiB, OsText, limits, variables as names};

/// `NAME=value` separated by NUL, in a fixed order, for a program with the primary
/// group `gid`.
pub(crate) fn variables(rooms: &Rooms, job: &Job, run: &Run, gid: Gid) -> OsText {
    let mut block = Block(Vec::new());
    let spec = job.spec();
    let nodes = serving_list(&rooms.machine, run);
    block.set(names::CLUSTER, &rooms.config.name);
    if spec.dialect != Dialect::Cosy {
        block.set(names::DIALECT, spec.dialect.word());
    }
    block.set(names::JOB_ID, job.id);
    block.set(names::JOB_NAME, &spec.name);
    block.set(names::JOB_ATTEMPT, job.attempt);
    block.set(names::JOB_USER, &job.submitted.user);
    block.set(names::JOB_UID, job.submitted.uid);
    block.set(names::JOB_GID, gid);
    block.set(names::QUEUE, &job.submitted.queue);
    block.set(names::NODES, nodes);
    block.set(names::NODE_COUNT, run.serving().len());
    if run.spares() > 0 {
        block.set(names::SPARES, run.spares());
    }
    switch_variables(&rooms.machine, run, &mut block);
    let tasks: u32 = run.serving().iter().map(|p| p.tasks()).sum();
    block.set(names::TASKS, tasks);
    let per_node = run.serving().iter().map(|p| p.tasks());
    block.set(names::TASKS_BY_NODE, names::write_counts(per_node));
    block.set(names::CORES_PER_TASK, spec.request.cores_per_task);
    let cores = run.serving().iter().map(|p| p.amounts().cores);
    block.set(names::CORES_BY_NODE, names::write_counts(cores));
    if let Some(each) = memory_per_core(&rooms.queues, job) {
        block.set(names::MEMORY_PER_CORE, each.0);
    }
    if let Some(first) = run.parts().first() {
        block.set(names::CORES, first.amounts().cores);
        if !matches!(spec.request.memory, MemoryRequest::QueueDefault)
            || first.amounts().memory.0 > 0
        {
            block.set(names::MEMORY, first.amounts().memory.0);
        }
    }
    block.set(names::WORKDIR, spec.workdir.lossy());
    let limit = run.limit();
    if !limit.is_unlimited() {
        block.set(names::TIME_LIMIT, limit.secs());
    }
    if let Some(account) = &spec.account {
        block.set(names::ACCOUNT, account);
    }
    if let Some(qos) = &spec.qos {
        block.set(names::QOS, qos);
    }
    if let Some(reservation) = spec.reservation {
        block.set(names::RESERVATION, reservation);
    }
    if let Some(mpi) = mpi_of(&rooms.queues, job) {
        block.set(names::MPI, mpi);
    }
    component_variables(&rooms.config, &rooms.machine, &rooms.queues, job, run, &mut block);
    flow_variables(&rooms.workflows, job, &mut block);
    rooms.jobs.array_variables(job, &mut block);
    OsText(block.0)
}

/// The switches that its nodes hang on, unless the list is too long: a program with a longer
/// variable could not be executed.
fn switch_variables(machine: &Machine, run: &Run, block: &mut Block) {
    let paths = run.serving().iter();
    let list = names::write_runs(paths.map(|part| machine.switch_path(part.node())));
    if machine.topology().is_some() && list.len() <= limits::SWITCH_LIST_BYTES {
        block.set(names::SWITCHES_BY_NODE, list);
    }
}

/// Memory for each core, where that is what the job asked for, or its queue's default.
fn memory_per_core(queues: &Queues, job: &Job) -> Option<MiB> {
    memory_per_core_of(queues, job.spec().request.memory, &job.submitted.queue)
}

fn memory_per_core_of(queues: &Queues, request: MemoryRequest, queue: &str) -> Option<MiB> {
    match request {
        MemoryRequest::PerCore(each) => Some(each),
        MemoryRequest::PerNode(_) => None,
        MemoryRequest::QueueDefault => {
            let id = queues.queue_id(queue)?;
            queues.get(id).spec().default_memory_per_core
        }
    }
}

/// The MPI plugin: the job's own, else its queue's.
fn mpi_of<'a>(queues: &'a Queues, job: &'a Job) -> Option<&'a str> {
    let queue = queues.queue_id(&job.submitted.queue);
    let queue = queue.and_then(|id| queues.get(id).spec().mpi.as_deref());
    job.spec().mpi.as_deref().or(queue)
}

/// Of a job of several components: the component of each node, and what each asked for.
fn component_variables(
    config: &ClusterConfig,
    machine: &Machine,
    queues: &Queues,
    job: &Job,
    run: &Run,
    block: &mut Block,
) {
    let spec = job.spec();
    if !spec.has_several_components() {
        return;
    }
    let by_node = run.parts().iter().map(|part| u32::from(part.component()));
    block.set(names::COMPONENTS, spec.component_count());
    block.set(names::COMPONENT_BY_NODE, names::write_counts(by_node));
    for number in 0..spec.component_count() {
        let own = run.parts().iter();
        let own = own.filter(|part| usize::from(part.component()) == number);
        let names = own.map(|p| machine.node(p.node()).spec().name.as_str());
        let nodes = cosy_model::fold(&names.collect::<Vec<_>>());
        block.set(&names::of_component(number, "NODES"), nodes);
    }
    for (number, component) in spec.components().enumerate().skip(1) {
        let set = |block: &mut Block, what: &str, value: &dyn std::fmt::Display| {
            block.set(&names::of_component(number, what), value);
        };
        set(block, "NAME", &component.name);
        let default = config.default_queue.as_deref();
        let queue = component.queue.or(default).unwrap_or_default();
        set(block, "QUEUE", &queue);
        set(block, "CORES_PER_TASK", &component.request.cores_per_task);
        let mut parts = run.parts().iter();
        let first = parts.find(|part| usize::from(part.component()) == number);
        match memory_per_core_of(queues, component.request.memory, queue) {
            Some(each) => set(block, "MEMORY_PER_CORE_MIB", &each.0),
            None => {
                let memory = first.map_or(0, |part| part.amounts().memory.0);
                set(block, "MEMORY_MIB", &memory);
            }
        }
    }
}

fn flow_variables(workflows: &Workflows, job: &Job, block: &mut Block) {
    let Some(of) = job.submitted.flow else { return };
    block.set(names::FLOW, of.flow);
    if let Some(flow) = workflows.get(of.flow) {
        block.set(names::FLOW_NAME, &flow.spec().name);
        block.set(names::FLOW_TASK, flow.name_of(of.task));
    }
}

impl Jobs {
    fn array_variables(&self, job: &Job, block: &mut Block) {
        let base = job.submitted.base;
        let group = self.group(&base);
        let (Some(member), Some(indices)) = (job.member, group.and_then(|g| g.indices.as_ref()))
        else {
            return;
        };
        block.set(names::ARRAY_ID, base);
        block.set(names::ARRAY_TASK, member.index);
        block.set(names::ARRAY_COUNT, indices.len());
        if let (Some(first), Some(last)) = (indices.first(), indices.last()) {
            block.set(names::ARRAY_MIN, first);
            block.set(names::ARRAY_MAX, last);
            // Equal steps have one; of others the last two indices stand for all.
            let before = indices.len().checked_sub(2).and_then(|at| indices.get(at));
            let step = before.map_or(1, |before| last - before);
            block.set(names::ARRAY_STEP, step);
        }
    }
}
struct Block(Vec<u8>);

impl Block {
    fn set(&mut self, name: &str, value: impl std::fmt::Display) {
        let text = format!("{name}={value}");
        if !text.contains('\0') {
            self.0.extend_from_slice(text.as_bytes());
            self.0.push(0);
        }
    }
}
