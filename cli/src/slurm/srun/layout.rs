//! The numbers of a step inside a job: nodes, tasks, cores of each task.

use super::request::SrunOptions;
use crate::slurm::messages::say;
use crate::slurm::submit::hosts;
use cosy_slurm::environment::AllocationFacts;
use cosy_slurm::geometry::{self, Layout};
use cosy_slurm::submit::Fault;

/// Nodes, tasks and cores of a step, from its options and what the job has.
///
/// # Errors
/// A shape that the job cannot have.
pub(super) fn layout(
    srun_options: &SrunOptions,
    facts: Option<&AllocationFacts>,
) -> Result<Layout, Fault> {
    let (line, all) = (&srun_options.line, &srun_options.job_options);
    let named = line
        .nodelist
        .as_deref()
        .and_then(|l| cosy_model::expand(l).ok());
    let named = named.and_then(|n| u32::try_from(n.len()).ok());
    let each = facts.and_then(|f| f.cores_per_task);
    let each = each.unwrap_or_else(usual_cores_per_task);
    let empty = Vec::new();
    let job = geometry::Job {
        cores: facts.map_or(&empty, |f| &f.cores),
        cores_per_task: each,
    };
    // Named nodes are among those of the step, however many these are.
    let usual = all.nodes.map(|n| n.least.max(named.unwrap_or(0)));
    let shape = geometry::StepShape {
        nodes: line.nodes.map(|n| n.least),
        tasks: line.tasks,
        tasks_per_node: line.tasks_per_node,
        cores_per_task: all.cores_per_task,
        usual_nodes: usual.or(named),
        usual_tasks: all.tasks,
        usual_tasks_per_node: all.tasks_per_node,
    };
    let layout = geometry::layout(job, shape).map_err(|e| Fault::error(e.to_string()))?;
    if !all.quiet {
        layout
            .warnings
            .iter()
            .for_each(|w| say(&format!("srun: {w}")));
    }
    Ok(layout)
}

/// The layout of tasks that are put on hosts one by one.
pub(super) fn arbitrary_layout(
    srun_options: &SrunOptions,
    facts: Option<&AllocationFacts>,
    hosts: &[String],
) -> Layout {
    let counts = hosts::counts(hosts);
    let names = facts.and_then(|f| cosy_model::expand(&f.nodes).ok());
    let cores = facts.map_or(&[][..], |f| &f.cores);
    let has = |name: &String| {
        let at = names.as_ref()?.iter().position(|n| n == name)?;
        cores.get(at).copied()
    };
    let room = counts
        .iter()
        .filter_map(|(name, tasks)| Some((has(name)?, *tasks)));
    let usual = usual_cores_per_task();
    let fitting = || geometry::cores_of_arranged(room, usual);
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Layout {
        nodes: number(counts.len()),
        tasks: number(hosts.len()),
        tasks_per_node: None,
        cores_per_task: srun_options
            .job_options
            .cores_per_task
            .unwrap_or_else(fitting),
        warnings: Vec::new(),
    }
}

/// Cores of each task that the job has asked for, by its variables; else 1.
fn usual_cores_per_task() -> u32 {
    let own = std::env::var(cosy_model::variables::CORES_PER_TASK).ok();
    own.and_then(|c| c.parse().ok()).unwrap_or(1)
}
