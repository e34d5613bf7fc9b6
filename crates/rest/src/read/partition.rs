//! A queue as `slurm/.../partitions` tells it: in the words of `scontrol show partition`.

use crate::json::INFINITE;
use crate::tree::{Tree, minutes, number};
use cosy_model::api::{NodeInfo, QueueInfo};
use cosy_model::{QueueAdmits, QueueSpec, Span};
use cosy_slurm::json_yaml::Data;
use cosy_slurm::partition::{allowed_groups, priority_tier};
use cosy_slurm::show::{mebibytes, partition};

/// The record of a queue, with the nodes of the cluster.
pub fn of_queue(queue: &QueueInfo, nodes: &[NodeInfo], cluster: &str) -> Data {
    let QueueSpec {
        name,
        max_time,
        default_time,
        max_nodes,
        state,
        default_memory_per_core,
        max_memory,
        exclusive,
        admits,
        // `allowed_groups` and `priority_tier` tell these.
        groups: _,
        others: _,
        priority: _,
        // The nodes themselves say which queues they are in.
        nodes: _,
        // Slurm has no words for these of a partition.
        max_disk: _,
        max_jobs: _,
        max_jobs_per_user: _,
        mpi: _,
        users: _,
        order: _,
    } = &queue.spec;
    let own: Vec<&NodeInfo> = nodes
        .iter()
        .filter(|node| node.queues.contains(name))
        .collect();
    let names: Vec<&str> = own.iter().map(|node| node.name.as_str()).collect();
    let mut tree = Tree::default();
    tree.at("nodes.configured", cosy_model::fold(&names))
        .at("nodes.total", number(queue.nodes))
        .set("cluster", cluster)
        .set("name", name.as_str())
        .at("cpus.total", number(queue.cores))
        .at("tres.configured", tres(&own))
        .set("grace_time", queue.grace.secs())
        .at("defaults.time", minutes(*default_time))
        .at("maximums.time", minutes(Some(max_time.unwrap_or(Span::UNLIMITED))))
        .at("maximums.nodes", max_nodes.map_or(INFINITE, number))
        .at("maximums.cpus_per_node", INFINITE)
        .at("maximums.cpus_per_socket", INFINITE)
        .at("maximums.shares", 1)
        .at("maximums.oversubscribe.jobs", 1)
        .at("maximums.partition_memory_per_node", max_memory.map_or(INFINITE, |m| number(m.0)))
        .at("priority.job_factor", 1)
        .at("priority.tier", i64::from(priority_tier(&queue.spec)))
        .at("partition.state", partition::state(*state))
        .set("suspend_time", INFINITE);
    if let Some(memory) = default_memory_per_core {
        tree.at("defaults.partition_memory_per_cpu", number(memory.0))
            .at("defaults.memory_per_cpu", number(memory.0));
    }
    if *exclusive {
        tree.at("maximums.shares", 0)
            .at("maximums.oversubscribe.jobs", 0);
    }
    access(&mut tree, &queue.spec, admits);
    tree.done()
}

fn access(tree: &mut Tree, spec: &QueueSpec, admits: &QueueAdmits) {
    let QueueAdmits {
        allow_accounts,
        deny_accounts,
        allow_qos,
        deny_qos,
        qos,
        // Slurm has no words for the rest of a partition here.
        ..
    } = admits;
    let list = |names: &[String]| names.join(",");
    let allowed = |names: &Option<Vec<String>>| names.as_deref().map(list).unwrap_or_default();
    let groups = allowed_groups(spec).map(|groups| groups.join(","));
    tree.at("groups.allowed", groups.unwrap_or_default())
        .at("accounts.allowed", allowed(allow_accounts))
        .at("accounts.deny", list(deny_accounts))
        .at("qos.allowed", allowed(allow_qos))
        .at("qos.deny", list(deny_qos))
        .at("qos.assigned", qos.as_deref().unwrap_or_default());
}

/// As in `TRES=cpu=64,mem=6400M,node=4,billing=64`.
fn tres(own: &[&NodeInfo]) -> String {
    let sum = |of: fn(&NodeInfo) -> u64| {
        own.iter()
            .fold(0u64, |all, node| all.saturating_add(of(node)))
    };
    let cores = sum(|node| node.amounts.cores.into());
    let memory = mebibytes(sum(|node| node.amounts.memory.0));
    let gpus = match sum(|node| node.amounts.gpus.into()) {
        0 => String::new(),
        n => format!(",gres/gpu={n}"),
    };
    format!("cpu={cores},mem={memory},node={},billing={cores}{gpus}", own.len())
}
