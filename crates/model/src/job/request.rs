//! Resources and places that a job asks for.

use super::SwitchRequest;
use crate::MiB;
use serde::{Deserialize, Serialize};

/// Memory that a job asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, Hash)]
#[serde(rename_all = "snake_case")]
pub enum MemoryRequest {
    /// The queue's default per core; not limited where the queue has none.
    #[default]
    QueueDefault,
    /// The job gets this on each node.
    PerNode(MiB),
    /// A node gives this for each core that the job gets on it.
    PerCore(MiB),
}

/// In which words amounts were asked for, where the request has only what follows from them. Rules
/// at submission look at it, and nothing else does.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, Hash)]
#[serde(default)]
pub struct AskedAmounts {
    /// All memory of each node (`--mem=0`): the request has whole nodes for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all_memory: bool,
    /// Whole nodes were asked for beside all memory.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    /// GPUs of the whole job (`--gpus`), as `gres/gpu:TYPE:COUNT`, separated by commas.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub per_job: String,
    /// GPUs of each node, where others than these were asked for beside them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub per_node: String,
    /// GPUs of each socket (`--gpus-per-socket`).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub per_socket: String,
    /// GPUs of each task (`--gpus-per-task`).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub per_task: String,
}

impl AskedAmounts {
    /// Whether nothing was asked for in other words.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether GPUs were asked for in other words than those of each node.
    pub fn has_gpus(&self) -> bool {
        [&self.per_job, &self.per_socket, &self.per_task]
            .into_iter()
            .any(|text| !text.is_empty())
    }

    /// GPUs are asked for anew.
    pub fn forget_gpus(&mut self) {
        for text in [
            &mut self.per_job,
            &mut self.per_node,
            &mut self.per_socket,
            &mut self.per_task,
        ] {
            text.clear();
        }
    }
}

/// Resources and places that a job asks for, by name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub struct ResourceRequest {
    /// Number of nodes; `None`: as few as the tasks need.
    #[serde(default)]
    pub nodes: Option<u32>,
    /// Most nodes, when `nodes` is only the least (`-N 2-4`): as many are taken as nobody else
    /// can use when the job starts. Without effect where `tasks` are given.
    #[serde(default)]
    pub max_nodes: Option<u32>,
    /// Number of tasks; `None`: one per node, or `tasks_per_node` on each.
    #[serde(default)]
    pub tasks: Option<u32>,
    /// Most tasks on one node.
    #[serde(default)]
    pub tasks_per_node: Option<u32>,
    /// Cores of each task.
    pub cores_per_task: u32,
    /// Memory of each node, core or GPU.
    #[serde(default)]
    pub memory: MemoryRequest,
    /// Scratch disk on each node.
    #[serde(default)]
    pub disk_per_node: MiB,
    /// GPUs on each node.
    #[serde(default)]
    pub gpus_per_node: u32,
    /// GPUs of the whole job, where these are fewer than `gpus_per_node` on all its nodes
    /// (`--gpus=7` on two nodes): the last ones have fewer, but at least one. Without effect
    /// on whole nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_in_all: Option<u32>,
    /// Of which types they are, with numbers that make `gpus_per_node` together; of any
    /// one type when empty.
    #[serde(default, skip_serializing_if = "crate::CountedResources::is_empty")]
    pub gpu_types: crate::CountedResources,
    /// Other countable resources on each node.
    #[serde(default)]
    pub other_per_node: crate::CountedResources,
    /// Whole nodes, shared with nobody.
    #[serde(default)]
    pub exclusive: bool,
    /// Sharing its cores with others was offered; recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oversubscribe: bool,
    /// Nodes side by side, in the order of the configuration (hard).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub contiguous: bool,
    /// Each node is given cores and memory for one task, however many tasks it gets; without
    /// effect on whole nodes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overcommit: bool,
    /// Features that every node must have.
    #[serde(default)]
    pub features: Vec<String>,
    /// Beside `features`, every node must have all of one of these groups; with none, nothing
    /// more is asked.
    #[serde(default)]
    pub any_features: Vec<Vec<String>>,
    /// All nodes must have all of the same one of these groups (`[rack1|rack2]`).
    #[serde(default)]
    pub same_features: Vec<Vec<String>>,
    /// How many nodes of each kind; a node counts for one kind (`[a*2&b*1]`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counted_features: Vec<CountedFeatures>,
    /// Nodes that have all of one of these groups are taken first, after those named (soft).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefer_features: Vec<Vec<String>>,
    /// Nodes that the job must get (hard).
    #[serde(default)]
    pub require: Vec<String>,
    /// Nodes that the job must not get (hard; COSY: disallowed nodes).
    #[serde(default)]
    pub avoid: Vec<String>,
    /// Nodes to take first (soft).
    #[serde(default)]
    pub prefer: Vec<String>,
    /// Node sets to take nodes from, in this order (soft).
    #[serde(default)]
    pub sets: Vec<String>,
    /// On no more than so many switches of the network, for a while at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches: Option<SwitchRequest>,
    /// In groups of so many nodes, each group on one leaf switch; `nodes` is a multiple of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<u32>,
    /// In which words amounts were asked for.
    #[serde(default, skip_serializing_if = "AskedAmounts::is_empty")]
    pub asked: AskedAmounts,
}

impl Default for ResourceRequest {
    fn default() -> Self {
        Self {
            nodes: None,
            max_nodes: None,
            tasks: None,
            tasks_per_node: None,
            cores_per_task: 1,
            memory: MemoryRequest::QueueDefault,
            disk_per_node: MiB(0),
            gpus_per_node: 0,
            gpus_in_all: None,
            gpu_types: crate::CountedResources::default(),
            other_per_node: crate::CountedResources::default(),
            exclusive: false,
            oversubscribe: false,
            contiguous: false,
            overcommit: false,
            features: Vec::new(),
            any_features: Vec::new(),
            same_features: Vec::new(),
            counted_features: Vec::new(),
            prefer_features: Vec::new(),
            require: Vec::new(),
            avoid: Vec::new(),
            prefer: Vec::new(),
            sets: Vec::new(),
            switches: None,
            segment: None,
            asked: AskedAmounts::default(),
        }
    }
}

impl ResourceRequest {
    /// The number of switches that it is kept to, as long as it waits for so few.
    pub fn kept_to_switches(&self) -> Option<SwitchRequest> {
        self.switches.filter(|switches| !switches.waited)
    }

    /// Asks for that memory. 0 of each node is all that it has, which is there only where nobody
    /// else is; whole nodes that were taken for it alone are given up with it.
    pub fn ask_memory(&mut self, memory: MemoryRequest) {
        if self.asked.all_memory {
            self.exclusive = self.asked.exclusive;
        }
        let all = memory == MemoryRequest::PerNode(MiB(0));
        self.asked.exclusive = all && self.exclusive;
        self.asked.all_memory = all;
        self.exclusive |= all;
        self.memory = match all {
            true => MemoryRequest::QueueDefault,
            false => memory,
        };
    }

    /// Asks for whole nodes, or for no such.
    pub fn ask_whole_nodes(&mut self, exclusive: bool) {
        self.asked.exclusive = exclusive && self.asked.all_memory;
        self.exclusive = exclusive || self.asked.all_memory;
    }
}

impl ResourceRequest {
    /// Number of tasks: as asked for, else as many as the nodes that are asked for have.
    pub fn task_count(&self) -> u32 {
        let each = self.tasks_per_node.unwrap_or(1);
        let nodes = self.nodes.or(self.counted_nodes());
        let by_nodes = nodes.map(|nodes| nodes.saturating_mul(each));
        self.tasks.or(by_nodes).or(self.tasks_per_node).unwrap_or(1)
    }

    /// All nodes whose features are asked for by number.
    pub fn counted_nodes(&self) -> Option<u32> {
        let counts = self.counted_features.iter().map(|counted| counted.nodes);
        let sum = counts.fold(0, u32::saturating_add);
        (sum > 0).then_some(sum)
    }
}

/// A number of nodes that have certain features.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, Hash)]
pub struct CountedFeatures {
    /// All features of one of these groups.
    pub any: Vec<Vec<String>>,
    /// Number of nodes.
    pub nodes: u32,
}

/// A component of a job beside the first. Components differ in what they ask for (a
/// heterogeneous job). Each has nodes of its own; all start at one instant and end together. The
/// first is the job's own request, and its first node runs the script.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Hash)]
pub struct FurtherComponent {
    /// What it is called in lists; as the job without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The queue whose nodes it uses; the default queue without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Resources and places.
    pub request: ResourceRequest,
}
