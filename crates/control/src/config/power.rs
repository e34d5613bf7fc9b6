//! Which nodes are switched off when nobody needs them, and by what.

use cosy_model::Span;
use std::collections::{BTreeMap, BTreeSet};

/// Settings of power saving. Source of the terms: slurm.conf(5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PowerConfig {
    /// Program and arguments that switch nodes off; a host list is added. Empty: nothing is switched.
    pub suspend: Vec<String>,
    /// The same for switching nodes on.
    pub resume: Vec<String>,
    /// Called with nodes that did not come up; may be empty.
    pub resume_failed: Vec<String>,
    /// A node is off so long after it was told to go off, at the latest.
    pub suspend_time: Span,
    /// A node that was told to come up has failed after so long.
    pub resume_time: Span,
    /// Nodes that are switched off in one minute, at most; 0 is no limit.
    pub suspend_rate: u32,
    /// The same for switching on.
    pub resume_rate: u32,
    /// Nodes that are switched off after they were idle for so long; others never.
    pub idle: BTreeMap<String, Span>,
    /// Nodes that are off until they are needed for the first time.
    pub cloud: BTreeSet<String>,
    /// Nodes that stay on.
    pub keep: Vec<KeptNodes>,
}

/// Of these nodes some stay on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptNodes {
    /// Their names.
    pub nodes: BTreeSet<String>,
    /// So many idle ones; `None` are all.
    pub count: Option<u32>,
}

impl PowerConfig {
    /// Whether nodes can be switched off and on.
    pub fn is_on(&self) -> bool {
        !self.suspend.is_empty() && !self.resume.is_empty()
    }
}

impl Default for PowerConfig {
    fn default() -> Self {
        Self {
            suspend: Vec::new(),
            resume: Vec::new(),
            resume_failed: Vec::new(),
            suspend_time: Span::from_secs(30),
            resume_time: Span::from_minutes(5),
            suspend_rate: 60,
            resume_rate: 300,
            idle: BTreeMap::new(),
            cloud: BTreeSet::new(),
            keep: Vec::new(),
        }
    }
}
