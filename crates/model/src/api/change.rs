//! What is submitted, and what is to be changed of jobs and nodes.

use crate::job::MemoryRequest;
use crate::{ArraySpec, JobSpec, OsText, ReservationId, Span, Time};
use serde::{Deserialize, Serialize};

/// A new job or job array.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Submission {
    /// The job as its user asks for it.
    pub spec: JobSpec,
    /// The script's text; empty for a command.
    pub script: OsText,
    /// Makes it an array.
    #[serde(default)]
    pub array: Option<ArraySpec>,
}

/// Changes of a job; what is `None` stays. Of a job that runs only the time limit (its
/// owner: only shorter), name, comment, account, quality of service, key, and whether it
/// runs again.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobChange {
    /// Name for lists and mail.
    pub name: Option<String>,
    /// Queue to go to.
    pub queue: Option<String>,
    /// Account to charge.
    pub account: Option<String>,
    /// Words of the owner, for the record.
    pub comment: Option<String>,
    /// An administrator's comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_comment: Option<String>,
    /// Another time limit.
    pub time_limit: Option<Span>,
    /// Number of nodes.
    pub nodes: Option<u32>,
    /// Number of tasks.
    pub tasks: Option<u32>,
    /// Cores of each task.
    pub cores_per_task: Option<u32>,
    /// Memory on each node or for each core, in place of what was asked for.
    pub memory: Option<MemoryRequest>,
    /// The job does not start before this time.
    pub begin: Option<Time>,
    /// Nice value; below 0 only for administrators.
    pub nice: Option<i64>,
    /// Points that the site adds to the priority; only for administrators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site_factor: Option<i64>,
    /// Whether it runs again after a node was lost.
    pub requeue: Option<bool>,
    /// Features that each node must have, all of them anew.
    pub features: Option<Vec<String>>,
    /// Nodes to take first.
    pub prefer: Option<Vec<String>>,
    /// Nodes not to take.
    pub avoid: Option<Vec<String>>,
    /// Node sets in order.
    pub sets: Option<Vec<String>>,
    /// Most switches, and for how long; 0 is any number.
    pub switches: Option<crate::job::SwitchRequest>,
    /// Nodes side by side.
    pub contiguous: Option<bool>,
    /// Dependencies, all of them anew.
    pub dependencies: Option<Vec<crate::Dependency>>,
    /// Most array tasks at once; 0 is no limit.
    pub at_once: Option<u32>,
    /// Quality of service; empty is none.
    pub qos: Option<String>,
    /// Key; empty is none.
    pub wckey: Option<String>,
    /// Licences, all of them anew.
    pub licenses: Option<crate::CountedResources>,
    /// Latest end, which has to leave room for the time limit.
    pub deadline: Option<Time>,
    /// Priority: 0 holds, another number is for administrators.
    pub priority: Option<u32>,
    /// Shortest useful time limit.
    pub time_min: Option<Span>,
    /// Nodes that it must get.
    pub require: Option<Vec<String>>,
    /// True for whole nodes, false for parts of them.
    pub exclusive: Option<bool>,
    /// Most nodes that it may get.
    pub max_nodes: Option<u32>,
    /// Most tasks on one node.
    pub tasks_per_node: Option<u32>,
    /// Scratch disk on each node.
    pub disk_per_node: Option<crate::MiB>,
    /// GPUs on each node.
    pub gpus_per_node: Option<u32>,
    /// Other countable resources on each node, all of them anew.
    pub other_per_node: Option<crate::CountedResources>,
    /// Groups of features of which one must be there.
    pub any_features: Option<Vec<Vec<String>>>,
    /// Groups of features of which all nodes have the same.
    pub same_features: Option<Vec<Vec<String>>>,
    /// Numbers of nodes that have certain features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_features: Option<Vec<crate::job::CountedFeatures>>,
    /// Whether one dependency is enough.
    pub any_dependency: Option<bool>,
    /// Reservation that it runs in.
    pub reservation: Option<ReservationId>,
    /// Pattern of the output file.
    pub stdout: Option<OsText>,
    /// Pattern of the error file.
    pub stderr: Option<OsText>,
    /// Pattern of the input file.
    pub stdin: Option<OsText>,
    /// Working directory: an absolute path on the nodes.
    pub workdir: Option<OsText>,
    /// Mail, all of it anew.
    pub mail: Option<crate::job::MailRequest>,
    /// The nodes that a running job keeps; it gives the others back. `nodes` of a running job
    /// says how many, the first ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_nodes: Option<Vec<String>>,
    /// What a running job has done so far is safe: if it had to run again, it would go on from here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checkpointed: bool,
}

/// What to do with nodes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeAction {
    /// Start nothing new there.
    Drain {
        /// The reason in words, as it is shown.
        reason: String,
    },
    /// Take it into service again.
    Resume,
    /// Give it and its jobs up.
    Down {
        /// The reason in words, as it is shown.
        reason: String,
    },
    /// Its key is never accepted again: its link is closed, it and its jobs are given up, and
    /// it must join anew with another key.
    Revoke {
        /// The reason in words, as it is shown.
        reason: String,
    },
    /// The node gets these features, until the configuration is read anew.
    Features {
        /// All of them.
        names: Vec<String>,
    },
    /// It is switched on, if it is off.
    PowerUp,
    /// It takes nothing new and is switched off when its jobs have ended.
    PowerDown {
        /// Its jobs are given up at once.
        #[serde(default)]
        force: bool,
    },
}
