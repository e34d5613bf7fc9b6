//! Queues that are one for the planner while jobs live whose components are in several of them.

use cosy_model::{MonotonicTime, QueueId, Span, limits};

/// Sets of queues that the planner has as one queue more each.
#[derive(Debug, Default)]
pub(crate) struct Joint {
    /// Each set sorted.
    sets: Vec<Vec<QueueId>>,
    /// When they were joined, or needed last.
    needed: MonotonicTime,
}

impl Joint {
    /// The set for a job of these queues: no larger than it must be.
    pub fn find(&self, queues: &[QueueId]) -> Option<usize> {
        let has = |set: &Vec<QueueId>| queues.iter().all(|queue| set.contains(queue));
        let sets = self.sets.iter().enumerate().filter(|(_, set)| has(set));
        sets.min_by_key(|(_, set)| set.len()).map(|(at, _)| at)
    }

    /// Joins these queues, or all `count` of them where there are many sets already. False when
    /// a set has them.
    pub fn join(&mut self, queues: Vec<QueueId>, count: usize, now: MonotonicTime) -> bool {
        if self.find(&queues).is_some() {
            return false;
        }
        let set = match self.sets.len() < limits::JOINT_QUEUES {
            true => queues,
            false => (0..count as u16).map(QueueId).collect(),
        };
        self.sets.push(set);
        self.needed = now;
        true
    }

    /// There are sets, and none was needed for so long.
    pub fn rests(&self, now: MonotonicTime, long: Span) -> bool {
        !self.sets.is_empty() && now.since(self.needed) >= long
    }

    /// A job spans several queues still.
    pub fn needed(&mut self, now: MonotonicTime) {
        self.needed = now;
    }

    /// Each queue is by itself again.
    pub fn clear(&mut self) {
        self.sets.clear();
    }

    /// The queues of each set.
    pub fn sets(&self) -> &[Vec<QueueId>] {
        &self.sets
    }
}
