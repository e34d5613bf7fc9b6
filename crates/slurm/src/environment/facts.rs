//! What a job got, as Cosy's own variables tell it, and the variables that follow from it.

use super::{CONF, Variables, counts};
use cosy_model::variables;
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
    /// Lowest index of the array's tasks.
    pub min: String,
    /// Highest index of the array's tasks.
    pub max: String,
    /// From one index to the next.
    pub step: String,
}

/// A job that has its nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AllocationFacts {
    /// Name of the cluster.
    pub cluster: String,
    /// Where its nodes reach the controller, `host:port`.
    pub controller: Option<String>,
    /// Id as users write it: `12`, `12_3`.
    pub job: String,
    /// Name of the job.
    pub name: String,
    /// Login name, user and group number of its owner.
    pub owner: (String, String, String),
    /// Name of the queue that it runs in, a partition to Slurm.
    pub queue: String,
    /// Account that it charges.
    pub account: Option<String>,
    /// Name of its quality of service.
    pub qos: Option<String>,
    /// Name of the reservation that it runs in.
    pub reservation: Option<String>,
    /// Nodes as a host list.
    pub nodes: String,
    /// Switches that the first of them hangs on, from the top down with dots between.
    pub switches: String,
    /// Tasks of each node.
    pub tasks: Vec<u32>,
    /// Cores of each node.
    pub cores: Vec<u32>,
    /// Memory limit, as it was asked for.
    pub memory: Option<Memory>,
    /// How often it was started before.
    pub restarts: u32,
    /// Of an array.
    pub array: Option<ArrayFacts>,
    /// Cores of each task, as asked for.
    pub cores_per_task: Option<u32>,
    /// The components of a heterogeneous job, each as a job of its own; none of another one.
    pub components: Vec<AllocationFacts>,
}

/// Most components of a heterogeneous job that are read.
const COMPONENTS: u32 = cosy_model::limits::FURTHER_COMPONENTS as u32 + 1;

impl AllocationFacts {
    /// From a block of variables `NAME=value`, separated by NUL: Cosy's own tell all of it.
    /// `None` where they are not there.
    pub fn read(block: &[u8]) -> Option<Self> {
        let all = VariableBlock::read(block);
        let job = all.text(variables::JOB_ID)?;
        let nodes = all.text(variables::NODES)?;
        let per_core = all.number(variables::MEMORY_PER_CORE).map(Memory::PerCore);
        let per_node = || all.number(variables::MEMORY).map(Memory::PerNode);
        let attempt: u64 = all.number(variables::JOB_ATTEMPT).unwrap_or(1);
        let or_empty = |name| all.text(name).unwrap_or_default();
        let whole = Self {
            cluster: or_empty(variables::CLUSTER),
            controller: None,
            name: or_empty(variables::JOB_NAME),
            owner: (
                or_empty(variables::JOB_USER),
                or_empty(variables::JOB_UID),
                or_empty(variables::JOB_GID),
            ),
            queue: or_empty(variables::QUEUE),
            account: all.text(variables::ACCOUNT),
            qos: all.text(variables::QOS),
            reservation: all.text(variables::RESERVATION),
            switches: first_switches(&all),
            tasks: list(&or_empty(variables::TASKS_BY_NODE)),
            cores: list(&or_empty(variables::CORES_BY_NODE)),
            memory: per_core.or_else(per_node),
            restarts: u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX),
            array: ArrayFacts::read(&all),
            cores_per_task: all.count(variables::CORES_PER_TASK),
            components: Vec::new(),
            job,
            nodes,
        };
        Some(whole.with_components(&all))
    }

    fn with_components(mut self, all: &VariableBlock<'_>) -> Self {
        let components = all.count(variables::COMPONENTS).unwrap_or(0);
        let by_node = list(&all.text(variables::COMPONENT_BY_NODE).unwrap_or_default());
        let components =
            (0..components.min(COMPONENTS)).map(|at| self.component(at, &by_node, all));
        self.components = components.collect();
        self
    }

    /// One component of a heterogeneous job; `by_node` tells the component of each node.
    fn component(&self, at: u32, by_node: &[u32], all: &VariableBlock<'_>) -> Self {
        let own = |counts: &[u32]| -> Vec<u32> {
            let each = by_node.iter().zip(counts);
            each.filter(|(component, _)| **component == at)
                .map(|(_, n)| *n)
                .collect()
        };
        let name = |what: &str| variables::of_component(at as usize, what);
        let text = |what: &str| all.text(&name(what));
        let first: u64 = self.job.parse().unwrap_or(0);
        let component = Self {
            nodes: text("NODES").unwrap_or_default(),
            tasks: own(&self.tasks),
            cores: own(&self.cores),
            components: Vec::new(),
            ..self.clone()
        };
        if at == 0 {
            return component;
        }
        let per_core = all.number(&name("MEMORY_PER_CORE_MIB"));
        let per_node = || all.number(&name("MEMORY_MIB")).map(Memory::PerNode);
        Self {
            job: (first + u64::from(at)).to_string(),
            name: text("NAME").unwrap_or_default(),
            queue: text("QUEUE").unwrap_or_default(),
            memory: per_core.map(Memory::PerCore).or_else(per_node),
            cores_per_task: all.count(&name("CORES_PER_TASK")),
            ..component
        }
    }

    /// What is told of the components of a heterogeneous job, `SLURM_..._HET_GROUP_n`: to the
    /// command of an allocation (`salloc`), or with memory to a script.
    fn het_groups(&self, script: bool) -> Variables {
        let mut all = Variables::default();
        if self.components.is_empty() {
            return all;
        }
        all.set_all(&["SLURM_HET_SIZE", "SLURM_PACK_SIZE"], self.components.len());
        for (at, component) in self.components.iter().enumerate() {
            let names = |name: &str| {
                [
                    format!("SLURM_{name}_HET_GROUP_{at}"),
                    format!("SLURM_{name}_PACK_GROUP_{at}"),
                ]
            };
            let mut set = |name: &str, value: &dyn std::fmt::Display| {
                for name in names(name) {
                    all.set(name, value);
                }
            };
            let tasks: u32 = component
                .tasks
                .iter()
                .fold(0, |sum, n| sum.saturating_add(*n));
            set("JOB_ID", &component.job);
            set("JOB_NAME", &component.name);
            set("JOB_NODELIST", &component.nodes);
            set("JOB_NUM_NODES", &component.tasks.len());
            set("JOB_PARTITION", &component.queue);
            set("JOB_CPUS_PER_NODE", &counts(&component.cores));
            set("TASKS_PER_NODE", &counts(&component.tasks));
            set("NTASKS", &tasks);
            set("NPROCS", &tasks);
            if let Some(each) = component.cores_per_task.filter(|each| *each > 1) {
                set("CPUS_PER_TASK", &each);
            }
            match component.memory.filter(|_| script) {
                Some(Memory::PerNode(mib)) if mib > 0 => set("MEM_PER_NODE", &mib),
                Some(Memory::PerCore(mib)) => set("MEM_PER_CPU", &mib),
                Some(Memory::PerNode(_)) | None => {}
            }
            if !script {
                set("JOBID", &component.job);
                set("NNODES", &component.tasks.len());
                set("NODELIST", &component.nodes);
                set("NODE_ALIASES", &"(null)");
            }
        }
        all
    }

    /// What every component of the job has: an allocation's command, a script, a task.
    pub fn shared(&self) -> Variables {
        let mut all = Variables::default();
        all.set("SLURM_CLUSTER_NAME", &self.cluster);
        all.set_all(&["SLURM_JOB_ID", "SLURM_JOBID"], &self.job);
        all.set("SLURM_JOB_NAME", &self.name);
        all.set("SLURM_JOB_PARTITION", &self.queue);
        all.set_all(&["SLURM_JOB_NODELIST", "SLURM_NODELIST"], &self.nodes);
        all.set_all(&["SLURM_JOB_NUM_NODES", "SLURM_NNODES"], self.tasks.len().max(1));
        all.set("SLURM_JOB_CPUS_PER_NODE", counts(&self.cores));
        all.set("SLURM_TASKS_PER_NODE", counts(&self.tasks));
        all.set_some("SLURM_JOB_ACCOUNT", self.account.as_ref());
        all.set_some("SLURM_JOB_QOS", self.qos.as_ref());
        all.set_some("SLURM_JOB_RESERVATION", self.reservation.as_ref());
        all
    }

    /// What the command of an allocation of several components finds: the own of each, and little of
    /// the whole.
    fn whole(&self) -> Variables {
        let mut all = self.het_groups(false);
        let tasks: u32 = self.tasks.iter().fold(0, |sum, n| sum.saturating_add(*n));
        all.set("SLURM_CLUSTER_NAME", &self.cluster);
        all.set("SLURM_JOB_ID", &self.job);
        all.set_all(&["SLURM_NTASKS", "SLURM_NPROCS"], tasks);
        all
    }

    /// What the command of an allocation (`salloc`) finds beside that.
    pub fn allocation(&self) -> Variables {
        let mut all = match self.components.is_empty() {
            true => self.shared(),
            false => self.whole(),
        };
        if self.components.is_empty() {
            all.set("SLURM_NODE_ALIASES", "(null)");
        }
        all.set("SLURM_CONF", CONF);
        all
    }

    /// What a batch script finds, on `node`, its first. `pid` is known only later.
    pub fn batch(&self, node: &str) -> Variables {
        if let Some(first) = self.components.first() {
            let first = Self {
                controller: self.controller.clone(),
                ..first.clone()
            };
            let mut all = first.batch(node);
            all.0.extend(self.het_groups(true).0);
            return all;
        }
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
        super::set_address(&self.switches, node, &mut all);
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

/// The switches that the first node hangs on.
fn first_switches(all: &VariableBlock<'_>) -> String {
    let each = all.text(variables::SWITCHES_BY_NODE).unwrap_or_default();
    let first = each.split(',').next().unwrap_or_default();
    first.split("(x").next().unwrap_or_default().to_owned()
}

/// The cluster's name in a block of variables, Cosy's own before Slurm's.
pub fn cluster_of(block: &[u8]) -> Option<String> {
    let named = |name| variables::find(block, name);
    let found = named(variables::CLUSTER).or_else(|| named("SLURM_CLUSTER_NAME"))?;
    Some(String::from_utf8_lossy(found).into_owned())
}

/// Name, address, port and version of the cluster's controller, as its nodes reach it.
/// Commands find it without.
pub(super) fn working_cluster(name: &str, controller: &str) -> String {
    format!("{name}:{controller}:9728:109")
}

impl ArrayFacts {
    fn read(all: &VariableBlock<'_>) -> Option<Self> {
        let text = |name| all.text(name).unwrap_or_default();
        Some(Self {
            id: all.text(variables::ARRAY_ID)?,
            task: all.text(variables::ARRAY_TASK)?,
            count: text(variables::ARRAY_COUNT),
            min: text(variables::ARRAY_MIN),
            max: text(variables::ARRAY_MAX),
            step: all
                .text(variables::ARRAY_STEP)
                .unwrap_or_else(|| "1".into()),
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
struct VariableBlock<'a>(BTreeMap<&'a [u8], &'a [u8]>);

impl<'a> VariableBlock<'a> {
    fn read(block: &'a [u8]) -> Self {
        let parts = block.split(|b| *b == 0);
        let pair = |v: &'a [u8]| {
            let at = v.iter().position(|b| *b == b'=')?;
            v.starts_with(variables::PREFIX.as_bytes())
                .then(|| (&v[..at], &v[at + 1..]))
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

    fn count(&self, name: &str) -> Option<u32> {
        self.text(name)?.parse().ok()
    }
}

/// A number for each node; none where the text is no list of numbers.
fn list(text: &str) -> Vec<u32> {
    variables::read_counts(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const JOB: &str = "COSY_CLUSTER=base\0COSY_JOB_ID=94\0COSY_JOB_NAME=myname\0COSY_JOB_ATTEMPT=1\0\
        COSY_JOB_USER=www-data\0COSY_JOB_UID=33\0COSY_JOB_GID=33\0COSY_QUEUE=main\0COSY_NODES=n[1-2]\0\
        COSY_TASKS_BY_NODE=3,1\0COSY_CORES_BY_NODE=6,2\0COSY_MEMORY_MIB=50\0COSY_ACCOUNT=acct\0";

    fn batch(more: &str) -> Vec<String> {
        let mut facts = AllocationFacts::read(format!("{JOB}{more}").as_bytes()).unwrap();
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
        check("COSY_MEMORY_PER_CORE_MIB=20", "SLURM_MEM_PER_CPU", Some("20"));
        check("COSY_MEMORY_PER_CORE_MIB=20", "SLURM_MEM_PER_NODE", None);
        check("COSY_MEMORY_MIB=0", "SLURM_MEM_PER_NODE", None);
        check("COSY_QOS=high", "SLURM_JOB_QOS", Some("high"));
    }

    /// The recording of `sbatch -n1 -c2 : -n4 -N2`.
    #[test]
    fn components_of_a_job() {
        let components = "COSY_JOB_ID=5\0COSY_JOB_NAME=h.sh\0COSY_NODES=n[1-3]\0COSY_TASKS_BY_NODE=1,3,1\0\
            COSY_CORES_BY_NODE=2,3,1\0COSY_CORES_PER_TASK=2\0COSY_BUNDLES=2\0\
            COSY_BUNDLE_BY_NODE=0,1,1\0COSY_BUNDLE_0_NODES=n1\0COSY_BUNDLE_1_NODES=n[2-3]\0\
            COSY_BUNDLE_1_NAME=third\0COSY_BUNDLE_1_QUEUE=big\0COSY_BUNDLE_1_CORES_PER_TASK=1\0\
            COSY_BUNDLE_1_MEMORY_MIB=100";
        let all = batch(components);
        let check = |name: &str, want: Option<&str>| {
            let start = format!("{name}=");
            let got = all.iter().find_map(|v| v.strip_prefix(&start));
            assert_eq!(got, want, "{name}");
        };
        check("SLURM_HET_SIZE", Some("2"));
        check("SLURM_JOB_ID", Some("5"));
        check("SLURM_JOB_NODELIST", Some("n1"));
        check("SLURM_JOB_NUM_NODES", Some("1"));
        check("SLURM_CPUS_ON_NODE", Some("2"));
        check("SLURM_JOB_ID_HET_GROUP_1", Some("6"));
        check("SLURM_JOB_NODELIST_HET_GROUP_0", Some("n1"));
        check("SLURM_JOB_NODELIST_HET_GROUP_1", Some("n[2-3]"));
        check("SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_1", Some("3,1"));
        check("SLURM_TASKS_PER_NODE_HET_GROUP_1", Some("3,1"));
        check("SLURM_NTASKS_HET_GROUP_1", Some("4"));
        check("SLURM_JOB_PARTITION_HET_GROUP_1", Some("big"));
        check("SLURM_JOB_NAME_HET_GROUP_1", Some("third"));
        check("SLURM_CPUS_PER_TASK_HET_GROUP_0", Some("2"));
        check("SLURM_CPUS_PER_TASK_HET_GROUP_1", None);
        check("SLURM_MEM_PER_NODE_HET_GROUP_1", Some("100"));
        check("SLURM_JOBID_HET_GROUP_1", None);
        let facts = AllocationFacts::read(format!("{JOB}{components}").as_bytes()).unwrap();
        let salloc: Vec<String> = facts.allocation().texts().collect();
        let has = |text: &str| salloc.iter().any(|v| v == text);
        assert!(has("SLURM_NTASKS=5") && has("SLURM_NODELIST_HET_GROUP_1=n[2-3]"));
        assert!(!salloc.iter().any(|v| v.starts_with("SLURM_JOB_NODELIST=")));
    }

    #[test]
    fn nothing_without_a_job() {
        assert_eq!(AllocationFacts::read(b"A=1\0SLURM_JOB_ID=3"), None);
        assert_eq!(AllocationFacts::read(b""), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn hostile_blocks(block in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = AllocationFacts::read(&block);
            let with_job = [b"COSY_JOB_ID=1\0COSY_NODES=a\0COSY_TASKS_BY_NODE=", &block[..]].concat();
            let facts = AllocationFacts::read(&with_job).expect("a job and its nodes are named");
            prop_assert!(facts.batch("n1").texts().all(|v| !v.contains('\0')));
        }
    }
}
