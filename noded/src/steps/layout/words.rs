//! Why a step does not fit, with figures.

use super::{Plan, sum};

impl Plan<'_> {
    pub(super) fn none_left(&self) -> String {
        format!("no node of job {} is left for the step: all are to be avoided", self.job.job)
    }

    pub(super) fn too_few_nodes(&self, wanted: u32) -> String {
        let usable = self.usable();
        let all = self.job.parts.len();
        match usable as usize == all {
            true => format!("the step asks for {wanted} nodes; job {} has {all}", self.job.job),
            false => format!(
                "the step asks for {wanted} nodes; a task fits on {usable} of the {all} of job {}",
                self.job.job
            ),
        }
    }

    /// `8 tasks of 2 cores need 16 cores; job 12 has 8 on 2 nodes (n1: 4, n2: 4)`
    pub(super) fn shortage(&self, tasks: u32) -> String {
        let (job, spec) = (self.job, self.spec);
        let nodes = many(job.parts.len() as u64, "node");
        let needed = u64::from(tasks) * u64::from(self.cores_per_task);
        let cores: u64 = job.parts.iter().map(|p| u64::from(p.cores)).sum();
        let wanted = format!(
            "{} of {} need {}",
            many(u64::from(tasks), "task"),
            many(u64::from(self.cores_per_task), "core"),
            many(needed, "core")
        );
        if needed > cores {
            let list = self.listed(|at| job.parts[at].cores.to_string());
            return format!("{wanted}; job {} has {cores} on {nodes} ({list})", job.job);
        }
        let mut also = String::new();
        if let Some(memory) = spec.memory {
            also += &format!(", {memory} on each node");
        }
        if spec.gpus_per_task > 0 {
            also += &format!(", {} for each task", many(u64::from(spec.gpus_per_task), "GPU"));
        }
        if let Some(gpus) = spec.gpus_per_node {
            also += &format!(", {} on each node", many(u64::from(gpus), "GPU"));
        }
        if let Some(most) = spec.tasks_per_node {
            also += &format!(", at most {} on a node", many(u64::from(most), "task"));
        }
        let room = sum(&self.room);
        let list = self.listed(|at| self.room[at].to_string());
        format!(
            "{wanted}{also}; job {} has room for {} on {nodes} ({list})",
            job.job,
            many(room, "such task")
        )
    }

    /// Why it waits.
    pub(super) fn held_text(&self) -> String {
        let held: u64 = self.held.iter().map(|h| u64::from(h.cores)).sum();
        let cores: u64 = self.job.parts.iter().map(|p| u64::from(p.cores)).sum();
        format!("other steps of job {} hold {held} of its {}", self.job.job, many(cores, "core"))
    }

    fn listed(&self, value: impl Fn(usize) -> String) -> String {
        const SHOWN: usize = 8;
        let mut list: Vec<String> = self
            .job
            .parts
            .iter()
            .enumerate()
            .take(SHOWN)
            .map(|(at, part)| format!("{}: {}", part.peer.node, value(at)))
            .collect();
        if self.job.parts.len() > SHOWN {
            list.push(format!("and {} more", self.job.parts.len() - SHOWN));
        }
        list.join(", ")
    }
}

/// `1 core`, `2 cores`.
pub(super) fn many(n: u64, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}
