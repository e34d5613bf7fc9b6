//! Who may preempt whom, and how jobs are made to make room.

use cosy_model::Span;
use cosy_model::policy::PreemptMode;
use std::collections::{BTreeMap, BTreeSet};

/// By what a job may preempt another one. Source: `slurm.conf(5)`, `PreemptType`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PreemptBy {
    /// The quality of service of the one lists that of the other.
    Qos,
    /// The queue of the one has a higher priority.
    Queue,
}

/// Settings of preemption.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreemptionConfig {
    /// Nobody preempts anybody when it is empty.
    pub by: BTreeSet<PreemptBy>,
    /// How jobs are made to make room where neither their quality of service nor their queue says.
    pub mode: PreemptMode,
    /// Jobs are spared until they have run for so long, where neither their queue's quality of service
    /// nor their own says.
    pub exempt: Span,
    /// Jobs whose priority is above are spared.
    pub exempt_priority: Option<i64>,
    /// Jobs of the same quality of service with a higher place preempt those with a lower one.
    pub within: bool,
    /// The signal that a job asked for before its limit is sent in place of SIGTERM.
    pub own_signal: bool,
    /// What is said of single queues, by name.
    pub queues: BTreeMap<String, QueuePreemption>,
}

/// What a queue says of the preemption of its jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueuePreemption {
    /// How its jobs are made to make room.
    pub mode: Option<PreemptMode>,
    /// Between the order to make room and its force.
    pub grace: Option<Span>,
    /// Its interactive jobs make room too.
    pub interactive: bool,
}

impl PreemptionConfig {
    /// True when anybody may preempt somebody.
    pub fn is_on(&self) -> bool {
        !self.by.is_empty()
    }

    /// What a queue says.
    pub fn of_queue(&self, name: &str) -> QueuePreemption {
        self.queues.get(name).copied().unwrap_or_default()
    }
}

impl Default for PreemptionConfig {
    fn default() -> Self {
        Self {
            by: BTreeSet::new(),
            mode: PreemptMode::Requeue,
            exempt: Span::ZERO,
            exempt_priority: None,
            within: false,
            own_signal: false,
            queues: BTreeMap::new(),
        }
    }
}
