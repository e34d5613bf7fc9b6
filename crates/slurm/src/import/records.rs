//! What is carried over: nodes, queues, the cluster, as they are written into a `cosy.toml`.

use cosy_model::Span;
use cosy_model::policy::PreemptMode;
use std::collections::BTreeMap;

/// A node line with its defaults.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Node {
    pub names: String,
    pub cores: Option<u64>,
    /// `RealMemory`, in MiB.
    pub memory: Option<u64>,
    /// `TmpDisk`, in MiB.
    pub disk: u64,
    pub gpus: u64,
    pub other: BTreeMap<String, u64>,
    pub features: Vec<String>,
    /// `Weight`, where it is another one than that of all nodes that say nothing.
    pub weight: Option<u32>,
    /// `State=CLOUD`: off until it is needed.
    pub cloud: bool,
    /// `SuspendTime`; the inner `None` is never.
    pub after: Option<Option<Span>>,
}

/// Which nodes a partition or a set has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Members {
    All,
    /// As a host list, and names of sets; neither for none.
    These(Option<String>, Vec<String>),
}

/// Who may use a queue, beside accounts and qualities of service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Access {
    Everybody,
    /// Groups by name.
    Groups(Vec<String>),
    /// Only root and the administrators, because of these words of the partition.
    Nobody(Vec<String>),
}

/// A partition line with its defaults.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Queue {
    pub name: String,
    pub default: bool,
    pub priority: u32,
    pub members: Members,
    pub max_time: Option<Span>,
    pub default_time: Option<Span>,
    pub max_nodes: Option<u64>,
    /// `MaxMemPerNode`, in MiB.
    pub max_memory: Option<u64>,
    /// `DefMemPerCPU`, in MiB.
    pub memory_per_core: Option<u64>,
    pub exclusive: bool,
    pub state: &'static str,
    pub access: Access,
    pub admits: Admits,
    /// `SuspendTime` and `PowerDownOnIdle` of the partition; the inner `None` is never.
    pub after: Option<Option<Span>>,
    /// `PreemptMode` of the partition.
    pub preempt_mode: Option<PreemptMode>,
    /// `GraceTime` of the partition.
    pub preempt_grace: Option<Span>,
    /// `PriorityJobFactor` of the partition.
    pub factor: u16,
    pub billing: Billing,
}

/// Accounts and qualities of service of a queue's jobs, and its own. Empty lists say nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Admits {
    pub allow_accounts: Vec<String>,
    pub deny_accounts: Vec<String>,
    pub allow_qos: Vec<String>,
    pub deny_qos: Vec<String>,
    pub qos: Option<String>,
}

/// What is billed for what a job holds: decimal numbers as they are written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Billing {
    pub core: Option<String>,
    pub memory_gib: Option<String>,
    pub node: Option<String>,
    pub devices: BTreeMap<String, String>,
}

/// What of the accounts binds jobs: `AccountingStorageEnforce`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Enforced {
    /// As it is written there.
    pub words: String,
    pub associations: bool,
    pub limits: bool,
    pub qos: bool,
    pub safe: bool,
    /// Jobs need a key that their user has.
    pub wckeys: bool,
}

/// What decides the order of jobs: `Priority...`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Priority {
    /// `PriorityType` is `priority/multifactor`.
    pub multifactor: bool,
    /// Weights by their names in `[priority.weights]`.
    pub weights: BTreeMap<&'static str, u64>,
    /// Weights of resources, by their names.
    pub tres: BTreeMap<String, u32>,
    /// `Span::ZERO`: use never fades.
    pub half_life: Option<Span>,
    pub reset: Option<&'static str>,
    pub max_age: Option<Span>,
    pub period: Option<Span>,
    pub favour_small: bool,
    pub relative_to_time: bool,
    /// `PriorityFlags` has `NO_FAIR_TREE`.
    pub classic: bool,
    pub damping: Option<u16>,
    pub billing: Option<&'static str>,
}

impl Priority {
    /// Whether queues are served by weighted factors.
    pub(super) fn orders(&self) -> bool {
        let weighs = self.weights.values().any(|weight| *weight > 0);
        self.multifactor && (weighs || self.tres.values().any(|weight| *weight > 0))
    }
}

/// Who makes room for whom: `Preempt...`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Preemption {
    /// `PreemptType`: by quality of service, or by queue.
    pub by: Option<&'static str>,
    pub mode: Option<PreemptMode>,
    pub exempt: Option<Span>,
    pub exempt_priority: Option<u32>,
    pub within: bool,
    /// Jobs get the signal that they asked for in place of SIGTERM.
    pub own_signal: bool,
}

/// Which nodes are switched off, and by what.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Power {
    pub suspend: Option<String>,
    pub resume: Option<String>,
    pub failed: Option<String>,
    /// `SuspendTime`; the inner `None` is never.
    pub after: Option<Option<Span>>,
    pub suspend_time: Option<Span>,
    pub resume_time: Option<Span>,
    pub suspend_rate: Option<u32>,
    pub resume_rate: Option<u32>,
    /// Host lists, perhaps with a number: `n[1-20]:4`.
    pub keep: Vec<String>,
    pub keep_queues: Vec<String>,
}

/// A rule at submission.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Rule {
    pub name: String,
    /// Why it is there.
    pub comment: String,
    /// Where it applies; everywhere where it is empty.
    pub when: String,
    /// What must hold; without it the rule always refuses.
    pub require: String,
    pub refuse: String,
}

/// The numbers and texts of the cluster as a whole.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Cluster {
    pub name: String,
    pub grace: Option<Span>,
    pub node_timeout: Option<Span>,
    pub max_requeues: Option<u32>,
    /// `max_switch_wait` of `SchedulerParameters`.
    pub switch_wait: Option<Span>,
    pub keep_ended: Option<Span>,
    pub max_array_tasks: Option<u64>,
    pub first_job: Option<u64>,
    pub batch_delay: Option<Span>,
    pub no_backfill: bool,
    pub private: bool,
    /// `SelectType=select/linear`: jobs get whole nodes.
    pub whole_nodes: bool,
    /// `DefMemPerCPU` of the cluster, in MiB.
    pub memory_per_core: Option<u64>,
    /// `MaxMemPerNode` of the cluster, in MiB.
    pub max_memory: Option<u64>,
    pub licenses: BTreeMap<String, u32>,
    /// Path of the program that sends mail as mail(1) does.
    pub mail: Option<String>,
    pub enforced: Enforced,
    pub priority: Priority,
    pub preemption: Preemption,
    pub power: Power,
    pub rules: Vec<Rule>,
    /// The script that judges submissions.
    pub lua: Option<String>,
}
