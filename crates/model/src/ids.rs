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
    /// Counts the times that a job was given nodes, from 1. No attempt starts twice.
    Attempt(u32);
    /// A user id of the operating system.
    Uid(u32);
    /// A group id of the operating system.
    Gid(u32);
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
