//! The order in which waiting jobs are served.
//!
//! Source: COSY paper, section 3.1: queue priority first, then the user's level within
//! the queue, then first come, first served. `nice` lets a user step back in between.
//! Where a site orders by more than that (fair share, weighted factors), the score says so between level
//! and nice; it is 0 for all where it does not. Before all of that come jobs
//! for which others are made to make room.

use cosy_model::{AccessLevel, JobId, Time};
use std::cmp::Ordering;

/// Place of a job in the order of service: the smaller key is served first. Two jobs
/// never have equal keys, because the id is part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderKey {
    /// Since when running jobs make room for it: it stands before everybody, behind those for which
    /// room has been made longer, and its place is kept however few places the policy guarantees.
    pub ahead: Option<Time>,
    /// It gets no guaranteed start: it starts in what others leave free. Not for one that is ahead.
    pub no_place: bool,
    /// Priority of the queue: the higher is served first.
    pub queue_priority: i32,
    /// The user's level in the queue.
    pub level: AccessLevel,
    /// The higher is served first; 0 where it is first come, first served.
    pub score: i64,
    /// The smaller is served first.
    pub nice: i64,
    /// When the job was submitted, or became eligible.
    pub submit: Time,
    /// Among those of the same moment: the id, for tasks of an array the one that they would
    /// have if ids followed indices.
    pub rank: JobId,
    /// The job that stands there.
    pub job: JobId,
}

impl OrderKey {
    /// First come, first served: of a user and a queue like all others.
    pub const fn first_come(job: JobId, submit: Time) -> Self {
        Self {
            ahead: None,
            no_place: false,
            queue_priority: 0,
            level: AccessLevel::Allow,
            score: 0,
            nice: 0,
            submit,
            rank: job,
            job,
        }
    }
}

impl Ord for OrderKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let ahead = |key: &Self| key.ahead.unwrap_or(Time(i64::MAX));
        ahead(self)
            .cmp(&ahead(other))
            .then_with(|| other.queue_priority.cmp(&self.queue_priority))
            .then_with(|| self.level.cmp(&other.level))
            .then_with(|| other.score.cmp(&self.score))
            .then_with(|| self.nice.cmp(&other.nice))
            .then_with(|| self.submit.cmp(&other.submit))
            .then_with(|| self.rank.cmp(&other.rank))
            .then_with(|| self.job.cmp(&other.job))
    }
}

impl PartialOrd for OrderKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(queue_priority: i32, level: AccessLevel, nice: i64, submit: i64, job: u64) -> OrderKey {
        OrderKey {
            queue_priority,
            level,
            nice,
            ..OrderKey::first_come(JobId(job), Time(submit))
        }
    }

    #[test]
    fn each_part_outweighs_the_later_ones() {
        use AccessLevel::{Allow, Defer, Prefer};
        let first = OrderKey {
            ahead: Some(Time(9)),
            ..key(-9, Defer, 9, 99, 99)
        };
        let longer = OrderKey {
            ahead: Some(Time(8)),
            ..key(-9, Defer, 10, 99, 99)
        };
        let served = [
            longer,
            first,
            key(9, Defer, 5, 50, 50),
            key(1, Prefer, 5, 50, 50),
            key(1, Allow, -1, 50, 50),
            key(1, Allow, 0, 10, 50),
            key(1, Allow, 0, 11, 7),
            key(1, Allow, 0, 11, 8),
            key(-3, Prefer, -9, 0, 0),
        ];
        assert!(served.is_sorted());
    }

    #[test]
    fn a_score_outweighs_nice_and_no_level() {
        use AccessLevel::{Allow, Prefer};
        let scored = |score, level, nice| OrderKey {
            score,
            ..key(1, level, nice, 50, 50)
        };
        let served = [
            scored(-9, Prefer, 9),
            scored(8, Allow, 9),
            scored(7, Allow, 0),
            scored(-1, Allow, -9),
        ];
        assert!(served.is_sorted());
    }
}
