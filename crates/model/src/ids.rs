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
    /// A workflow; ids are never reused.
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

/// One attempt of one job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct AttemptKey {
    /// The job that is tried.
    pub job: JobId,
    /// How often it has been given nodes, this time included.
    pub attempt: Attempt,
}

/// One run of a trigger's program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ProgramKey {
    /// The trigger whose program runs.
    pub trigger: TriggerId,
    /// How often it has been ordered, this time included.
    pub attempt: Attempt,
}

/// What a node knows an allocation by: what runs in it. The program of a trigger is launched as
/// the script of a job is, and belongs to none.
///
/// In messages, spools and marks of processes both are a number and an attempt; numbers of triggers
/// begin where no job's comes to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(from = "NumberedKey", into = "NumberedKey")]
pub enum AllocationKey {
    /// An attempt of a job.
    Job(AttemptKey),
    /// The program of a trigger.
    Trigger(ProgramKey),
}

/// The number of the first trigger among allocations.
const FIRST_OF_TRIGGERS: u64 = 1 << 48;

impl AllocationKey {
    /// The one with this number.
    pub fn numbered(number: u64, attempt: Attempt) -> Self {
        match number.checked_sub(FIRST_OF_TRIGGERS).map(TriggerId) {
            Some(trigger) => Self::Trigger(ProgramKey { trigger, attempt }),
            None => Self::Job(AttemptKey {
                job: JobId(number),
                attempt,
            }),
        }
    }

    /// The number of job or trigger among allocations.
    pub const fn number(self) -> u64 {
        match self {
            Self::Job(key) => key.job.0,
            Self::Trigger(key) => FIRST_OF_TRIGGERS.saturating_add(key.trigger.0),
        }
    }

    /// How often it was tried, this time included.
    pub const fn attempt(self) -> Attempt {
        match self {
            Self::Job(key) => key.attempt,
            Self::Trigger(key) => key.attempt,
        }
    }

    /// The attempt of a job; `None` for the program of a trigger.
    pub const fn job(self) -> Option<AttemptKey> {
        match self {
            Self::Job(key) => Some(key),
            Self::Trigger(_) => None,
        }
    }
}

impl From<AttemptKey> for AllocationKey {
    fn from(key: AttemptKey) -> Self {
        Self::Job(key)
    }
}

impl From<ProgramKey> for AllocationKey {
    fn from(key: ProgramKey) -> Self {
        Self::Trigger(key)
    }
}

/// Without the attempt: `12`, `trigger 7`.
impl fmt::Display for AllocationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(key) => key.job.fmt(f),
            Self::Trigger(key) => write!(f, "trigger {}", key.trigger),
        }
    }
}

/// As an [`AllocationKey`] is in messages and spools.
#[derive(Serialize, Deserialize)]
struct NumberedKey {
    job: u64,
    attempt: Attempt,
}

impl From<NumberedKey> for AllocationKey {
    fn from(key: NumberedKey) -> Self {
        Self::numbered(key.job, key.attempt)
    }
}

impl From<AllocationKey> for NumberedKey {
    fn from(key: AllocationKey) -> Self {
        Self {
            job: key.number(),
            attempt: key.attempt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Daemons of other releases and spools have these numbers.
    #[test]
    fn keys_have_numbers() {
        let attempt = Attempt(2);
        let check = |key: AllocationKey, number: u64, name: &str| {
            assert_eq!(key.number(), number);
            assert_eq!(AllocationKey::numbered(number, attempt), key);
            assert_eq!(key.to_string(), name);
        };
        let job = |job| AttemptKey {
            job: JobId(job),
            attempt,
        };
        let program = |trigger| ProgramKey {
            trigger: TriggerId(trigger),
            attempt,
        };
        check(job(12).into(), 12, "12");
        check(job((1 << 48) - 1).into(), (1 << 48) - 1, "281474976710655");
        check(program(0).into(), 1 << 48, "trigger 0");
        check(program(7).into(), (1 << 48) + 7, "trigger 7");
        assert!(AllocationKey::from(job(99)) < AllocationKey::from(program(1)));
    }
}
