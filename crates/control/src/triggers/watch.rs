//! What happens, and which triggers have waited for it.
//!
//! What happens to nodes and jobs is noted where it happens, for those triggers that wait
//! then, and put into their rows at the end of the turn. Time limits and idle nodes are
//! looked at once a second.

pub(crate) mod procedures;

use super::Occasion;
use crate::machine::nodes::Node;
use cosy_model::{JobId, NodeState, Span, TriggerEvent, TriggerId};
use std::collections::BTreeSet;

/// What happens to several nodes within so long is told once.
const GATHER: Span = Span::from_secs(2);
/// Nodes of a job that are remembered to run the program on.
const NEAR: usize = 16;

/// How a node is, as far as triggers wait for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Condition {
    /// Set down, or given up after silence. It is back only when its daemon says so.
    pub down: bool,
    /// It takes no new jobs.
    draining: bool,
    /// And has none left.
    drained: bool,
    /// Its health check complains.
    failing: bool,
}

impl Condition {
    /// The same, down or not.
    pub fn lost(self, down: bool) -> Self {
        Self { down, ..self }
    }

    /// As it is now, after it was like `before`.
    pub fn of(node: &Node, before: Self) -> Self {
        let down = matches!(node.state(), NodeState::Down { .. }) || node.lost();
        let draining = matches!(node.state(), NodeState::Drained { .. });
        Self {
            down: down || before.down && node.link().is_none(),
            draining,
            drained: draining && node.jobs().is_empty(),
            failing: node.problem().is_some(),
        }
    }

    /// What has happened between the two, for triggers of nodes or of a job on them.
    fn events(self, now: Self, of_job: bool) -> BTreeSet<TriggerEvent> {
        let drained = match of_job {
            true => !self.draining && now.draining,
            false => !self.drained && now.drained,
        };
        let all = [
            (TriggerEvent::Down, !self.down && now.down),
            (TriggerEvent::Up, self.down && !now.down),
            (TriggerEvent::Drained, drained),
            (TriggerEvent::Fail, !self.failing && now.failing),
        ];
        let happened = all.into_iter().filter(|(_, happened)| *happened);
        happened.map(|(event, _)| event).collect()
    }
}

/// Something that a trigger has waited for.
#[derive(Debug)]
pub(super) enum Happened {
    /// This, for that trigger.
    To(TriggerId, Occasion, Vec<String>),
    /// The job is over; it was on these nodes.
    JobOver(JobId, Vec<String>),
}
