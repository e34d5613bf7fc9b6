//! The machine as configured: nodes, node sets, queues and who may use them.
//! Source of the queue rules: COSY paper, section 3.1.

use crate::{Amounts, MiB, Span, Time, User};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A node as configured.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Its name, unique in the cluster.
    pub name: String,
    /// What it has; `None` until the node has told what it found.
    pub amounts: Option<Amounts>,
    /// Feature words that a job can ask for.
    #[serde(default)]
    pub features: Vec<String>,
    /// Nodes with a lower weight are taken first.
    #[serde(default)]
    pub weight: u32,
    /// True when users log in there: it may pass on requests of any user.
    #[serde(default)]
    pub login: bool,
    /// Whose requests its daemon may pass on.
    #[serde(default)]
    pub relay: RelayPolicy,
    /// Its public key, in hexadecimal, when it is pinned in the configuration.
    #[serde(default)]
    pub key: Option<String>,
}

/// Whose requests a node's daemon may pass on: a limit on what the node's key is worth.
/// Whatever it says, a node that is no login host passes on only what users with a job
/// there ask, never anything of root, and never with an administrator's rights.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RelayPolicy {
    /// Everybody's; on a login host administrators have their rights.
    #[default]
    All,
    /// Everybody's but root's, and nobody has an administrator's rights.
    Users,
    /// Only requests of the named users and `@groups`.
    Only(Vec<String>),
    /// No requests at all.
    Nobody,
}

impl RelayPolicy {
    /// Whether requests of that user may be passed on. Root is a user like others for
    /// [`RelayPolicy::Only`]: named or not.
    pub fn admits(&self, user: &User) -> bool {
        match self {
            Self::All => true,
            Self::Users => user.uid.0 != 0,
            Self::Only(names) => names.iter().any(|name| match name.strip_prefix('@') {
                Some(group) => user.in_group(group),
                None => *name == user.name,
            }),
            Self::Nobody => false,
        }
    }
}

/// What an administrator or the controller has said about a node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// Takes jobs whenever it is connected.
    #[default]
    Open,
    /// Finishes what it runs and takes nothing new.
    Drained {
        /// The reason in words, as it is shown.
        reason: String,
        /// User who said so, or the controller.
        #[serde(default)]
        by: String,
        /// When it began; unknown in what earlier releases wrote.
        #[serde(default)]
        since: Option<Time>,
    },
    /// Out of service: its jobs were given up.
    Down {
        /// The reason in words, as it is shown.
        reason: String,
        /// User who said so, or the controller.
        #[serde(default)]
        by: String,
        /// When it began; unknown in what earlier releases wrote.
        #[serde(default)]
        since: Option<Time>,
    },
}

/// What a queue does with jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueState {
    /// Takes jobs and starts them.
    #[default]
    Open,
    /// Takes no jobs; starts those that wait.
    Drained,
    /// Takes jobs; starts none.
    Stopped,
    /// Takes no jobs and starts none.
    Closed,
}

/// A user's level within a queue (COSY, 3.1 "User priority"): the first comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessLevel {
    /// Before everyone else in the queue.
    Prefer,
    /// The ordinary level.
    #[default]
    Allow,
    /// After everyone else in the queue.
    Defer,
    /// Refused at submission.
    Deny,
}

/// What decides, within a queue and a level, who comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueOrder {
    /// Who was submitted first (COSY).
    #[default]
    Fcfs,
    /// Whose user has used least of what is the user's (Fair Tree), then who was submitted first.
    FairShare,
    /// The highest sum of weighted factors, then who was submitted first.
    Weights,
}

impl QueueOrder {
    /// The word for it in configuration and lists.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Fcfs => "fcfs",
            Self::FairShare => "fair-share",
            Self::Weights => "weights",
        }
    }
}

/// A queue as configured (Slurm: partition).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct QueueSpec {
    /// Its name, unique in the cluster.
    pub name: String,
    /// The higher is served first.
    pub priority: i32,
    /// Names of its nodes, expanded; `None` is all nodes.
    pub nodes: Option<Vec<String>>,
    /// Longest time limit.
    pub max_time: Option<Span>,
    /// Time limit of jobs that name none.
    pub default_time: Option<Span>,
    /// Most nodes of one job.
    pub max_nodes: Option<u32>,
    /// Most memory per node of one job.
    pub max_memory: Option<MiB>,
    /// Most disk per node of one job.
    pub max_disk: Option<MiB>,
    /// Most jobs in the queue at once, waiting and running.
    pub max_jobs: Option<u32>,
    /// Most jobs of one user in the queue at once, waiting and running.
    pub max_jobs_per_user: Option<u32>,
    /// Memory per core of jobs that name none; without it such jobs are not limited.
    pub default_memory_per_core: Option<MiB>,
    /// Jobs get whole nodes.
    #[serde(default)]
    pub exclusive: bool,
    /// MPI plugin of jobs that name none.
    #[serde(default)]
    pub mpi: Option<String>,
    /// Levels by user name.
    #[serde(default)]
    pub users: BTreeMap<String, AccessLevel>,
    /// Levels by group name; the best of a user's groups counts, but a deny counts more.
    #[serde(default)]
    pub groups: BTreeMap<String, AccessLevel>,
    /// Level of everyone else.
    #[serde(default)]
    pub others: AccessLevel,
    /// What it does with jobs at start; later changes are kept in the store.
    #[serde(default)]
    pub state: QueueState,
    /// Who comes first in it.
    #[serde(default)]
    pub order: QueueOrder,
    /// Which accounts and qualities of service its jobs may have, and its own.
    #[serde(default)]
    pub admits: QueueAdmits,
}

/// Accounts and qualities of service of a queue. Source: slurm.conf(5), `AllowAccounts`,
/// `DenyAccounts`, `AllowQos`, `DenyQos`, `QOS`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueAdmits {
    /// Only jobs of these accounts; `None`: of all that are not denied.
    pub allow_accounts: Option<Vec<String>>,
    /// No jobs of these accounts.
    pub deny_accounts: Vec<String>,
    /// Only jobs of these qualities of service; `None`: of all that are not denied.
    pub allow_qos: Option<Vec<String>>,
    /// No jobs of these qualities of service.
    pub deny_qos: Vec<String>,
    /// Its own quality of service: its limits hold for all jobs in the queue.
    pub qos: Option<String>,
}

impl QueueAdmits {
    /// Whether jobs of that account may be in it; a job without an account only where all may.
    pub fn account(&self, name: Option<&str>) -> bool {
        admits(self.allow_accounts.as_deref(), &self.deny_accounts, name)
    }

    /// Whether jobs of that quality of service may be in it; a job without one only where all may.
    pub fn quality(&self, name: Option<&str>) -> bool {
        admits(self.allow_qos.as_deref(), &self.deny_qos, name)
    }
}

fn admits(allow: Option<&[String]>, deny: &[String], name: Option<&str>) -> bool {
    let named = |list: &[String]| name.is_some_and(|name| list.iter().any(|one| one == name));
    allow.is_none_or(named) && !named(deny)
}

impl QueueState {
    /// Whether jobs can be submitted.
    pub const fn takes_jobs(self) -> bool {
        matches!(self, Self::Open | Self::Stopped)
    }

    /// Whether waiting jobs are started.
    pub const fn starts_jobs(self) -> bool {
        matches!(self, Self::Open | Self::Drained)
    }

    /// The word for it in configuration and lists, in lower case.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Drained => "drained",
            Self::Stopped => "stopped",
            Self::Closed => "closed",
        }
    }
}
