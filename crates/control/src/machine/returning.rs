//! Nodes that the controller waits for after its own start.
//!
//! What always holds: only nodes that were in service when it stopped are waited for, none longer
//! than [`PATIENCE`], and nothing starts meanwhile. A job that needs many nodes would otherwise find
//! those that come first taken by jobs that stood behind it.

use cosy_model::{ClockStep, NodeId, Span, Time};
use std::collections::BTreeSet;

/// Daemons come back within two heartbeats when only the controller was away.
const PATIENCE: Span = Span::from_secs(5);

/// Who is still to come.
#[derive(Debug, Default)]
pub(crate) struct Returning {
    nodes: BTreeSet<NodeId>,
    /// Nobody is waited for any longer then.
    until: Option<Time>,
}

impl Returning {
    /// The controller has started, and these were in service before.
    pub fn new(nodes: BTreeSet<NodeId>, now: Time) -> Self {
        let until = (!nodes.is_empty()).then_some(now + PATIENCE);
        Self { nodes, until }
    }

    /// The node is there, or is not in service any more.
    pub fn is_settled(&mut self, node: NodeId) {
        self.nodes.remove(&node);
        if self.nodes.is_empty() {
            self.until = None;
        }
    }

    /// Whether somebody is waited for; nobody is from `until` on.
    pub fn awaits(&mut self, now: Time) -> bool {
        self.until = self.until.filter(|until| now < *until);
        self.until.is_some()
    }

    /// When there is something to do.
    pub fn next_due(&self) -> Option<Time> {
        self.until
    }

    /// The clock on the wall was set.
    pub fn clock_set(&mut self, step: ClockStep) {
        self.until = self.until.map(|until| until.set_by(step));
    }
}
