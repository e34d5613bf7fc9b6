//! What the tasks of a step find, beside what `srun` gave them.

use super::facts::{set_owner, working_cluster};
use super::{Variables, counts};

/// A step as one of its nodes knows it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// Login name, user and group number of its owner.
    pub owner: (String, String, String),
    /// Name of the cluster, where it is known.
    pub cluster: Option<String>,
    /// Where its nodes reach the controller, `host:port`.
    pub controller: Option<String>,
    /// Number of the step.
    pub step: u32,
    /// Nodes with tasks, as a host list.
    pub nodes: String,
    /// Tasks of each of them.
    pub tasks: Vec<u32>,
    /// Name of the node that these variables are for.
    pub node: String,
    /// Switches that it hangs on, from the top down with dots between.
    pub switches: String,
    /// Its number in the step.
    pub node_rank: u32,
    /// Cores that the job has on it.
    pub cores: usize,
    /// Ranks of the tasks on it.
    pub ranks: Vec<u32>,
    /// GPUs that the job has on it, by number.
    pub gpus: Vec<u32>,
    /// Shards of GPUs that the job has on it.
    pub shards: usize,
}

impl Step {
    /// What all tasks on this node find.
    pub fn variables(&self) -> Variables {
        let mut all = Variables::default();
        set_owner(&self.owner, &mut all);
        let both = self.cluster.as_deref().zip(self.controller.as_deref());
        let cluster = both.map(|(name, at)| working_cluster(name, at));
        all.set_some("SLURM_WORKING_CLUSTER", cluster);
        let tasks: u32 = self.tasks.iter().fold(0, |sum, n| sum.saturating_add(*n));
        let by_node = counts(&self.tasks);
        all.set("SLURM_CONF", super::CONF);
        all.set_all(&["SLURM_STEP_ID", "SLURM_STEPID"], self.step);
        all.set("SLURM_STEP_NODELIST", &self.nodes);
        all.set_all(&["SLURM_STEP_NUM_NODES", "SLURM_NNODES"], self.tasks.len());
        let names = ["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"];
        all.set_all(&names, tasks);
        all.set_all(&["SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"], by_node);
        all.set("SLURMD_NODENAME", &self.node);
        super::set_address(&self.switches, &self.node, &mut all);
        all.set("SLURM_NODEID", self.node_rank);
        all.set("SLURM_CPUS_ON_NODE", self.cores);
        let ranks: Vec<String> = self.ranks.iter().map(u32::to_string).collect();
        all.set("SLURM_GTIDS", ranks.join(","));
        all.set("SRUN_DEBUG", 3);
        gpus(&self.gpus, self.shards, &mut all);
        all
    }

    /// What one task finds, the `local`-th on its node. Its process number is added by the
    /// process itself.
    pub fn of_task(rank: u32, local: u32) -> Variables {
        let mut all = Variables::default();
        all.set("SLURM_PROCID", rank);
        all.set("SLURM_LOCALID", local);
        all
    }
}

/// The GPUs of a job on a node, and how many shards of others it has there.
pub fn gpus(numbers: &[u32], shards: usize, all: &mut Variables) {
    if !numbers.is_empty() {
        let list: Vec<String> = numbers.iter().map(u32::to_string).collect();
        all.set_all(&["SLURM_JOB_GPUS", "SLURM_STEP_GPUS"], list.join(","));
        all.set("SLURM_GPUS_ON_NODE", numbers.len());
    }
    if shards > 0 {
        all.set("SLURM_SHARDS_ON_NODE", shards);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The capture srun-env-N2n4, task 3, without what `srun` itself sets.
    #[test]
    fn task_of_the_second_node() {
        let step = Step {
            owner: ("www-data".into(), "33".into(), "33".into()),
            cluster: Some("base".into()),
            controller: Some("127.0.0.1:17001".into()),
            step: 0,
            nodes: "n[1-2]".into(),
            tasks: vec![3, 1],
            node: "n2".into(),
            switches: "top.leaf".into(),
            node_rank: 1,
            cores: 2,
            ranks: vec![3],
            gpus: Vec::new(),
            shards: 0,
        };
        let mut got: Vec<String> = step.variables().texts().collect();
        got.extend(Step::of_task(3, 0).texts());
        got.sort();
        let want = [
            "SLURMD_NODENAME=n2",
            "SLURM_CONF=/etc/slurm/slurm.conf",
            "SLURM_CPUS_ON_NODE=2",
            "SLURM_GTIDS=3",
            "SLURM_JOB_GID=33",
            "SLURM_JOB_UID=33",
            "SLURM_JOB_USER=www-data",
            "SLURM_LOCALID=0",
            "SLURM_NNODES=2",
            "SLURM_NODEID=1",
            "SLURM_NPROCS=4",
            "SLURM_NTASKS=4",
            "SLURM_PROCID=3",
            "SLURM_STEPID=0",
            "SLURM_STEP_ID=0",
            "SLURM_STEP_NODELIST=n[1-2]",
            "SLURM_STEP_NUM_NODES=2",
            "SLURM_STEP_NUM_TASKS=4",
            "SLURM_STEP_TASKS_PER_NODE=3,1",
            "SLURM_TASKS_PER_NODE=3,1",
            "SLURM_TOPOLOGY_ADDR=top.leaf.n2",
            "SLURM_TOPOLOGY_ADDR_PATTERN=switch.switch.node",
            "SLURM_WORKING_CLUSTER=base:127.0.0.1:17001:9728:109",
            "SRUN_DEBUG=3",
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn gpus_are_named_and_counted() {
        let mut all = Variables::default();
        gpus(&[], 0, &mut all);
        assert_eq!(all, Variables::default());
        gpus(&[1, 3], 4, &mut all);
        let want = [
            "SLURM_JOB_GPUS=1,3",
            "SLURM_STEP_GPUS=1,3",
            "SLURM_GPUS_ON_NODE=2",
            "SLURM_SHARDS_ON_NODE=4",
        ];
        assert_eq!(all.texts().collect::<Vec<_>>(), want);
    }
}
