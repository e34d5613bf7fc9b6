//! What a job got, as Cosy's own variables tell it, and the variables that follow from it.

use super::{CONF, Variables, counts};
use std::collections::BTreeMap;

/// Memory of a job in MiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// On each node.
    PerNode(u64),
    /// For each core.
    PerCore(u64),
}

impl Memory {
    pub(super) fn set(self, all: &mut Variables) {
        match self {
            Self::PerNode(mib) => all.set("SLURM_MEM_PER_NODE", mib),
            Self::PerCore(mib) => all.set("SLURM_MEM_PER_CPU", mib),
        }
    }
}

/// A task of an array, and the array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayFacts {
    /// First job of the array.
    pub id: String,
    /// Index of the task.
    pub task: String,
    /// Number of tasks.
    pub count: String,
    /// Lowest index.
    pub min: String,
    /// Highest index.
    pub max: String,
    /// From one index to the next.
    pub step: String,
}

/// A job that has its nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// Name of the cluster.
    pub cluster: String,
    /// Where its nodes reach the controller, `host:port`.
    pub controller: Option<String>,
    /// Job.
    pub job: String,
    /// Its name.
    pub name: String,
    /// Login name, user and group number of its owner.
    pub owner: (String, String, String),
    /// Queue.
    pub queue: String,
    /// Account.
    pub account: Option<String>,
    /// Quality of service.
    pub qos: Option<String>,
    /// Reservation.
    pub reservation: Option<String>,
    /// Nodes as a host list.
    pub nodes: String,
    /// Tasks of each node.
    pub tasks: Vec<u32>,
    /// Cores of each node.
    pub cores: Vec<u32>,
    /// Memory.
    pub memory: Option<Memory>,
    /// How often it was started before.
    pub restarts: u32,
    /// Of an array.
    pub array: Option<ArrayFacts>,
}

/// Longest list of counts that is read.
const NODES: usize = 1 << 20;

impl Facts {
    /// From a block of variables `NAME=value`, separated by NUL: Cosy's own tell all of it.
    /// `None` where they are not there.
    pub fn read(block: &[u8]) -> Option<Self> {
        let all = Block::read(block);
        let job = all.text("COSY_JOB_ID")?;
        let nodes = all.text("COSY_NODES")?;
        let per_core = all.number("COSY_MEMORY_PER_CORE_MIB").map(Memory::PerCore);
        let per_node = || all.number("COSY_MEMORY_MIB").map(Memory::PerNode);
        let attempt: u64 = all.number("COSY_JOB_ATTEMPT").unwrap_or(1);
        let or_empty = |name| all.text(name).unwrap_or_default();
        Some(Self {
            cluster: or_empty("COSY_CLUSTER"),
            controller: None,
            name: or_empty("COSY_JOB_NAME"),
            owner: (
                or_empty("COSY_JOB_USER"),
                or_empty("COSY_JOB_UID"),
                or_empty("COSY_JOB_GID"),
            ),
            queue: or_empty("COSY_QUEUE"),
            account: all.text("COSY_ACCOUNT"),
            qos: all.text("COSY_QOS"),
            reservation: all.text("COSY_RESERVATION"),
            tasks: list(&or_empty("COSY_TASKS_BY_NODE")),
            cores: list(&or_empty("COSY_CORES_BY_NODE")),
            memory: per_core.or_else(per_node),
            restarts: u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX),
            array: ArrayFacts::read(&all),
            job,
            nodes,
        })
    }

    /// What every part of the job has: an allocation's command, a script, a task.
    pub fn shared(&self) -> Variables {
        let mut all = Variables::default();
        all.set("SLURM_CLUSTER_NAME", &self.cluster);
        all.set_all(&["SLURM_JOB_ID", "SLURM_JOBID"], &self.job);
        all.set("SLURM_JOB_NAME", &self.name);
        all.set("SLURM_JOB_PARTITION", &self.queue);
        all.set_all(&["SLURM_JOB_NODELIST", "SLURM_NODELIST"], &self.nodes);
        all.set_all(
            &["SLURM_JOB_NUM_NODES", "SLURM_NNODES"],
            self.tasks.len().max(1),
        );
        all.set("SLURM_JOB_CPUS_PER_NODE", counts(&self.cores));
        all.set("SLURM_TASKS_PER_NODE", counts(&self.tasks));
        all.set_some("SLURM_JOB_ACCOUNT", self.account.as_ref());
        all.set_some("SLURM_JOB_QOS", self.qos.as_ref());
        all.set_some("SLURM_JOB_RESERVATION", self.reservation.as_ref());
        all
    }

    /// What the command of an allocation (`salloc`) finds beside that.
    pub fn allocation(&self) -> Variables {
        let mut all = self.shared();
        all.set("SLURM_NODE_ALIASES", "(null)");
        all.set("SLURM_CONF", CONF);
        all
    }

    /// What a batch script finds, on `node`, its first. `pid` is known only later.
    pub fn batch(&self, node: &str) -> Variables {
        let mut all = self.allocation();
        set_owner(&self.owner, &mut all);
        if let Some(memory) = self.memory.filter(|m| *m != Memory::PerNode(0)) {
            memory.set(&mut all);
        }
        if self.restarts > 0 {
            all.set("SLURM_RESTART_COUNT", self.restarts);
        }
        if let Some(array) = &self.array {
            array.set(&mut all);
        }
        all.set("ENVIRONMENT", "BATCH");
        all.set_all(&["HOSTNAME", "SLURMD_NODENAME"], node);
        all.set_some("SLURM_CPUS_ON_NODE", self.cores.first());
        all.set_all(
            &[
                "SLURM_GTIDS",
                "SLURM_LOCALID",
                "SLURM_NODEID",
                "SLURM_PROCID",
            ],
            0,
        );
        all.set("SLURM_TOPOLOGY_ADDR", node);
        all.set("SLURM_TOPOLOGY_ADDR_PATTERN", "node");
        let controller = self.controller.as_deref();
        let cluster = controller.map(|at| working_cluster(&self.cluster, at));
        all.set_some("SLURM_WORKING_CLUSTER", cluster);
        all
    }
}

/// Whose it is: on nodes only.
pub(super) fn set_owner((user, uid, gid): &(String, String, String), all: &mut Variables) {
    all.set("SLURM_JOB_USER", user);
    all.set("SLURM_JOB_UID", uid);
    all.set("SLURM_JOB_GID", gid);
}

/// The cluster's name in a block of variables, Cosy's own before Slurm's.
pub fn cluster_of(block: &[u8]) -> Option<String> {
    let own = |v: &[u8]| v.strip_prefix(b"COSY_CLUSTER=").map(<[u8]>::to_vec);
    let slurm = |v: &[u8]| v.strip_prefix(b"SLURM_CLUSTER_NAME=").map(<[u8]>::to_vec);
    let parts = || block.split(|b| *b == 0);
    let found = parts().find_map(own).or_else(|| parts().find_map(slurm))?;
    Some(String::from_utf8_lossy(&found).into_owned())
}

/// Name, address, port and version of the cluster's controller, as its nodes reach it.
/// Commands find it without.
pub(super) fn working_cluster(name: &str, controller: &str) -> String {
    format!("{name}:{controller}:9728:109")
}

impl ArrayFacts {
    fn read(all: &Block<'_>) -> Option<Self> {
        let text = |name| all.text(name).unwrap_or_default();
        Some(Self {
            id: all.text("COSY_ARRAY_ID")?,
            task: all.text("COSY_ARRAY_TASK")?,
            count: text("COSY_ARRAY_COUNT"),
            min: text("COSY_ARRAY_MIN"),
            max: text("COSY_ARRAY_MAX"),
            step: all.text("COSY_ARRAY_STEP").unwrap_or_else(|| "1".into()),
        })
    }

    fn set(&self, all: &mut Variables) {
        all.set("SLURM_ARRAY_JOB_ID", &self.id);
        all.set("SLURM_ARRAY_TASK_ID", &self.task);
        all.set("SLURM_ARRAY_TASK_COUNT", &self.count);
        all.set("SLURM_ARRAY_TASK_MIN", &self.min);
        all.set("SLURM_ARRAY_TASK_MAX", &self.max);
        all.set("SLURM_ARRAY_TASK_STEP", &self.step);
    }
}

/// A block of variables, by name; the last of a name wins.
struct Block<'a>(BTreeMap<&'a [u8], &'a [u8]>);

impl<'a> Block<'a> {
    fn read(block: &'a [u8]) -> Self {
        let parts = block.split(|b| *b == 0);
        let pair = |v: &'a [u8]| {
            let at = v.iter().position(|b| *b == b'=')?;
            v.starts_with(b"COSY_").then(|| (&v[..at], &v[at + 1..]))
        };
        Self(parts.filter_map(pair).collect())
    }

    fn text(&self, name: &str) -> Option<String> {
        let value = self.0.get(name.as_bytes())?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }
}

/// `6,2`; what is no number counts as nothing.
fn list(text: &str) -> Vec<u32> {
    let words = text.split(',').filter(|w| !w.is_empty());
    words.take(NODES).map(|w| w.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const JOB: &str = "COSY_CLUSTER=base\0COSY_JOB_ID=94\0COSY_JOB_NAME=myname\0COSY_JOB_ATTEMPT=1\0\
        COSY_JOB_USER=www-data\0COSY_JOB_UID=33\0COSY_JOB_GID=33\0COSY_QUEUE=main\0COSY_NODES=n[1-2]\0\
        COSY_TASKS_BY_NODE=3,1\0COSY_CORES_BY_NODE=6,2\0COSY_MEMORY_MIB=50\0COSY_ACCOUNT=acct\0";

    fn batch(more: &str) -> Vec<String> {
        let mut facts = Facts::read(format!("{JOB}{more}").as_bytes()).unwrap();
        facts.controller = Some("127.0.0.1:17001".to_owned());
        let mut all: Vec<String> = facts.batch("n1").texts().collect();
        all.sort();
        all
    }

    /// The capture sbatch-env-N2n4c2 without what `sbatch` itself sets.
    #[test]
    fn two_nodes_unlike() {
        let want = [
            "ENVIRONMENT=BATCH",
            "HOSTNAME=n1",
            "SLURMD_NODENAME=n1",
            "SLURM_CLUSTER_NAME=base",
            "SLURM_CONF=/etc/slurm/slurm.conf",
            "SLURM_CPUS_ON_NODE=6",
            "SLURM_GTIDS=0",
            "SLURM_JOBID=94",
            "SLURM_JOB_ACCOUNT=acct",
            "SLURM_JOB_CPUS_PER_NODE=6,2",
            "SLURM_JOB_GID=33",
            "SLURM_JOB_ID=94",
            "SLURM_JOB_NAME=myname",
            "SLURM_JOB_NODELIST=n[1-2]",
            "SLURM_JOB_NUM_NODES=2",
            "SLURM_JOB_PARTITION=main",
            "SLURM_JOB_UID=33",
            "SLURM_JOB_USER=www-data",
            "SLURM_LOCALID=0",
            "SLURM_MEM_PER_NODE=50",
            "SLURM_NNODES=2",
            "SLURM_NODEID=0",
            "SLURM_NODELIST=n[1-2]",
            "SLURM_NODE_ALIASES=(null)",
            "SLURM_PROCID=0",
            "SLURM_TASKS_PER_NODE=3,1",
            "SLURM_TOPOLOGY_ADDR=n1",
            "SLURM_TOPOLOGY_ADDR_PATTERN=node",
            "SLURM_WORKING_CLUSTER=base:127.0.0.1:17001:9728:109",
        ];
        assert_eq!(batch(""), want);
    }

    #[test]
    fn what_some_jobs_have() {
        let check = |more: &str, name: &str, want: Option<&str>| {
            let start = format!("{name}=");
            let all = batch(more);
            let got = all.iter().find_map(|v| v.strip_prefix(&start));
            assert_eq!(got, want, "{name} with {more}");
        };
        check("", "SLURM_RESTART_COUNT", None);
        check("COSY_JOB_ATTEMPT=3", "SLURM_RESTART_COUNT", Some("2"));
        check("", "SLURM_ARRAY_JOB_ID", None);
        let array = "COSY_ARRAY_ID=96\0COSY_ARRAY_TASK=5\0COSY_ARRAY_COUNT=4\0COSY_ARRAY_MIN=2\0\
            COSY_ARRAY_MAX=9\0COSY_ARRAY_STEP=2";
        check(array, "SLURM_ARRAY_TASK_ID", Some("5"));
        check(array, "SLURM_ARRAY_TASK_STEP", Some("2"));
        check(
            "COSY_MEMORY_PER_CORE_MIB=20",
            "SLURM_MEM_PER_CPU",
            Some("20"),
        );
        check("COSY_MEMORY_PER_CORE_MIB=20", "SLURM_MEM_PER_NODE", None);
        check("COSY_MEMORY_MIB=0", "SLURM_MEM_PER_NODE", None);
        check("COSY_QOS=high", "SLURM_JOB_QOS", Some("high"));
    }

    #[test]
    fn nothing_without_a_job() {
        assert_eq!(Facts::read(b"A=1\0SLURM_JOB_ID=3"), None);
        assert_eq!(Facts::read(b""), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn hostile_blocks(block in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Facts::read(&block);
            let with_job = [b"COSY_JOB_ID=1\0COSY_NODES=a\0COSY_TASKS_BY_NODE=", &block[..]].concat();
            let facts = Facts::read(&with_job).expect("a job and its nodes are named");
            prop_assert!(facts.batch("n1").texts().all(|v| !v.contains('\0')));
        }
    }
}
