//! Why a request was refused: a value with a stable code, not an exception.

use crate::limits;
use crate::policy::LimitHit;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What kind of refusal it is. Stable: commands turn it into exit codes, tools match it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// The request contradicts itself or passes a limit of the protocol.
    Invalid,
    /// No such job, queue, node, reservation.
    NotFound,
    /// The object belongs to somebody else, or only administrators may do this.
    Forbidden,
    /// The queue's access list denies this user.
    AccessDenied,
    /// More than the queue allows (time, nodes, memory, disk, jobs).
    QueueLimit,
    /// More than the machine has, however long one waits.
    NeverFits,
    /// The queue takes no jobs now.
    QueueClosed,
    /// The object is in the wrong state for this (already ended, not waiting).
    WrongState,
    /// The controller cannot make anything durable now; nothing was changed.
    Unavailable,
    /// Another controller of the cluster leads, and the message says which as far as it is known;
    /// nothing was changed. The same request may go to the leader.
    Standby,
    /// The directory service does not answer; nothing was changed.
    DirectoryDown,
    /// The peer speaks a protocol version that is not understood.
    Version,
    /// A limit on the number of objects is reached.
    TooMany,
    /// The nodes are not free then: running jobs or accepted reservations are in the way.
    NotFree,
    /// A rule of admission refuses it now; the message names rule and figures.
    Admission,
    /// The account cannot pay, or the price is above what the user allows.
    Price,
}

/// What a refusal is about, where its kind alone does not tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// A licence that is not there, or not so often.
    License,
    /// An account that is not there, or that the user is not in.
    Account,
    /// A quality of service that is not there, or that the user may not have.
    Qos,
    /// A feature that no node has.
    Feature,
    /// A preferred feature that no node has.
    Preference,
    /// A node that is not there, or may not be used.
    Node,
    /// A number of nodes.
    NodeCount,
    /// A number of tasks.
    Tasks,
    /// Cores of one node.
    Cores,
    /// Memory of one node.
    Memory,
    /// Scratch disk of one node.
    Disk,
    /// GPUs or other countable resources of one node.
    Gres,
    /// A queue that is not there, or does not allow what was asked for.
    Queue,
    /// A job that is waited for.
    Dependency,
    /// A reservation that is not there, or may not be used.
    Reservation,
    /// A time limit.
    TimeLimit,
    /// A deadline that cannot be kept.
    Deadline,
    /// An array: its indices or its size.
    Array,
    /// A priority or nice value.
    Priority,
    /// The job waits.
    Waiting,
    /// The job does not wait any more.
    Running,
    /// The job is held.
    Held,
    /// The job does not want to run again.
    Requeue,
    /// The job has ended.
    Ended,
    /// The job is suspended, or is not.
    Suspended,
    /// A trigger that cannot be set: it is there already, or there are too many.
    Trigger,
}

/// A refused request: what was refused, which object, why, and what would work.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub struct Refusal {
    /// Stable code that programs go by.
    pub code: RefusalCode,
    /// One line for the user, with figures.
    pub message: String,
    /// What it is about, where the kind alone does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
    /// Slurm's error number for it, where a script of the site gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm_number: Option<u32>,
    /// The limit of an association or a quality of service that refuses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitHit>,
}

impl Refusal {
    /// A refusal of that kind.
    pub fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            about: None,
            slurm_number: None,
            limit: None,
        }
    }

    /// The same, and what it is about.
    #[must_use]
    pub fn about(mut self, about: About) -> Self {
        self.about = Some(about);
        self
    }

    /// The same, and which limit refuses it.
    #[must_use]
    pub fn by_limit(mut self, limit: LimitHit) -> Self {
        self.limit = Some(limit);
        self
    }

    /// A refusal of what can never be right ([`RefusalCode::Invalid`]).
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(RefusalCode::Invalid, message)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// What could not be done of a request for many objects: the first of them each with why, the
/// others counted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Refusals {
    first: Vec<(String, Refusal)>,
    /// Kind of the first of the others, and how many these are.
    more: Option<(RefusalCode, Option<About>, u64)>,
}

impl Refusals {
    /// Takes up another object.
    pub fn push(&mut self, object: impl Into<String>, refusal: Refusal) {
        if self.first.len() < limits::REFUSALS {
            return self.first.push((object.into(), refusal));
        }
        let (.., count) = self.more.get_or_insert((refusal.code, refusal.about, 0));
        *count += 1;
    }

    /// True when nothing was refused.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// As an answer has them: at most [`limits::REFUSALS`] and one that counts the others.
    pub fn told(self) -> Vec<(String, Refusal)> {
        let mut all = self.first;
        if let Some((code, about, count)) = self.more {
            let message = format!("{count} more were refused, which are not named here");
            let refusal = Refusal {
                about,
                ..Refusal::new(code, message)
            };
            all.push((format!("{count} more"), refusal));
        }
        all
    }
}

impl From<Vec<(String, Refusal)>> for Refusals {
    fn from(all: Vec<(String, Refusal)>) -> Self {
        let mut it = Self::default();
        all.into_iter()
            .for_each(|(object, refusal)| it.push(object, refusal));
        it
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_refusals_are_counted() {
        let check = |count: usize, want: usize, last: &str| {
            let mut all = Refusals::default();
            for n in 0..count {
                all.push(n.to_string(), Refusal::invalid("no"));
            }
            let told = all.told();
            assert_eq!(told.len(), want, "{count}");
            assert_eq!(told.last().map_or("", |(object, _)| object), last);
        };
        check(0, 0, "");
        check(200, 200, "199");
        check(201, 201, "1 more");
        check(100_000, 201, "99800 more");
    }
}
