//! The variables of a step's tasks.
//!
//! In this order, the later ones winning: as the command gave them, those that only the
//! node knows, those of the step, those of the task.

use crate::shepherd::child::{self, Variables};
use crate::shepherd::container;
use crate::steps::StepTask;
use cosy_model::step::StepLayout;
use cosy_model::{Dialect, hostlist, variables};
use cosy_slurm::environment::{self, Step, cluster_of};
use std::ffi::CString;

/// What all tasks here have.
pub fn common(task: &StepTask) -> Variables {
    let mut all = Variables::new();
    child::add(&mut all, task.order.spec.environment.0.split(|b| *b == 0));
    child::add(&mut all, task.variables.iter().map(|v| &v.0[..]));
    let layout = &task.order.layout;
    let node = task.order.tree.first().copied().unwrap_or(0);
    let values = [
        (variables::STEP_ID, task.order.key.step.to_string()),
        (variables::STEP_NAME, task.order.spec.name.clone()),
        (variables::STEP_NODES, hostlist::fold(layout.nodes_with_tasks())),
        (variables::STEP_NODE_COUNT, layout.nodes_with_tasks().len().to_string()),
        (variables::STEP_TASKS, layout.tasks.to_string()),
        (variables::STEP_TASKS_BY_NODE, tasks_by_node(layout)),
        (variables::NODE_RANK, node.to_string()),
    ];
    for (name, value) in values {
        all.insert(name.into(), value.into_bytes());
    }
    for name in OWN {
        all.remove(name.as_bytes());
    }
    match task.order.spec.dialect {
        Dialect::Cosy => {}
        Dialect::Slurm => slurm(task, node, &mut all),
    }
    let container = task.order.spec.container.as_deref();
    container::add_variables(container, &container::files_of_step(), &mut all);
    all
}

/// The variables that Slurm's tasks find.
fn slurm(task: &StepTask, node: u32, all: &mut Variables) {
    let (allocation, layout) = (&task.allocation, &task.order.layout);
    let with_tasks = layout.nodes_with_tasks();
    let counts = (0u32..).take(with_tasks.len());
    let step = Step {
        owner: (allocation.user.clone(), allocation.uid.to_string(), allocation.gid.to_string()),
        cluster: cluster_of(&task.order.spec.environment.0),
        controller: all
            .get(variables::CONTROLLER.as_bytes())
            .map(|at| String::from_utf8_lossy(at).into_owned()),
        step: task.order.key.step.0,
        nodes: hostlist::fold(with_tasks),
        tasks: counts.map(|n| layout.count_of(n)).collect(),
        node: allocation.node.clone(),
        switches: allocation.switches.clone(),
        node_rank: node,
        cores: allocation.cores.len(),
        ranks: layout.ranks_of(node),
        gpus: allocation.gpus.clone(),
        shards: allocation.shards(),
    };
    let keeps = task.order.spec.keep_counts;
    for (name, value) in step.variables().0 {
        if keeps && COUNTS.contains(&&*name) && all.contains_key(name.as_bytes()) {
            continue;
        }
        all.insert(name.into_owned().into_bytes(), value.into_bytes());
    }
}

/// The job's numbers where a step keeps them; its own are in `SLURM_STEP_*` all the same.
const COUNTS: [&str; 4] = [
    "SLURM_NNODES",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_TASKS_PER_NODE",
];

const OWN: [&str; 2] = [variables::TASK_RANK, variables::TASK_LOCAL_RANK];

/// What only the task of this rank has, the `local`-th here: `NAME=value`.
///
/// # Errors
/// Never in fact: numbers have no NUL.
pub fn own(
    dialect: Dialect,
    common: &Variables,
    rank: u32,
    local: u32,
) -> Result<Vec<CString>, String> {
    let numbers = [rank, local].into_iter().zip(OWN);
    let mut all: Vec<String> = numbers.map(|(v, name)| format!("{name}={v}")).collect();
    if dialect == Dialect::Slurm {
        all.extend(Step::of_task(rank, local).texts());
        // Only the first task of a node finds this one.
        if local == 0 && !common.contains_key(&b"TMPDIR"[..]) {
            all.push("TMPDIR=/tmp".to_owned());
        }
    }
    all.iter().map(|v| child::c(v.as_bytes())).collect()
}

/// `2(x3),1`: tasks of each node, in the order of the nodes.
fn tasks_by_node(layout: &StepLayout) -> String {
    let nodes = (0u32..).take(layout.nodes_with_tasks().len());
    let counts: Vec<u32> = nodes.map(|node| layout.count_of(node)).collect();
    environment::counts(&counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::step::RankRun;

    #[test]
    fn tasks_of_nodes() {
        let check = |counts: &[u32], expected: &str| {
            let layout = StepLayout {
                nodes: counts.iter().map(|_| String::new()).collect(),
                ranks: counts
                    .iter()
                    .map(|count| {
                        vec![RankRun {
                            first: 0,
                            count: *count,
                            stride: 1,
                        }]
                    })
                    .collect(),
                tasks: counts.iter().sum(),
                cores_per_task: 1,
            };
            assert_eq!(tasks_by_node(&layout), expected);
        };
        check(&[1], "1");
        check(&[2, 2, 2, 1], "2(x3),1");
        check(&[], "");
    }
}
