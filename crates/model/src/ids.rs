//! Newtypes for ids: a job is never mistaken for a node.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident($inner:ty);)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self(value)
            }
        }
    )+};
}

ids! {
    /// A job. Every array task is a job with an id of its own; ids are never reused.
    JobId(u64);
    /// A node by its place in the controller's node table. Not durable: names are.
    NodeId(u32);
    /// A queue by its place in the controller's queue table. Not durable: names are.
    QueueId(u16);
    /// An advance reservation.
    ReservationId(u64);
    /// A workflow.
    FlowId(u64);
    /// A trigger; ids are never reused.
    TriggerId(u64);
    /// Counts the times that a job was given nodes, from 1. No attempt starts twice.
    Attempt(u32);
    /// A user id of the operating system.
    Uid(u32);
    /// A group id of the operating system.
    Gid(u32);
}

/// Nodes know the programs of triggers by numbers from here on, which no job reaches.
const FIRST_OF_TRIGGERS: u64 = 1 << 48;

impl JobId {
    /// Under which number nodes know the program of a trigger: it is launched as the
    /// script of a job is, and is none.
    pub fn of_trigger(trigger: TriggerId) -> Self {
        Self(FIRST_OF_TRIGGERS.saturating_add(trigger.0))
    }

    /// The trigger whose program this is; `None` for a job.
    pub fn trigger(self) -> Option<TriggerId> {
        self.0.checked_sub(FIRST_OF_TRIGGERS).map(TriggerId)
    }
}

impl NodeId {
    /// The place in the node table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl QueueId {
    /// The place in the queue table.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_triggers_are_no_jobs() {
        assert_eq!(
            JobId::of_trigger(TriggerId(7)).trigger(),
            Some(TriggerId(7))
        );
        assert_eq!(JobId(crate::limits::FIRST_JOB * 1000).trigger(), None);
    }
}
