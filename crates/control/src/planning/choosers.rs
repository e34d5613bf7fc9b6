//! Jobs that have a choice between groups of nodes, and whose turn it is to choose again.

use crate::jobs::dependencies::Waiter;
use std::collections::BTreeSet;
use std::ops::Bound;

/// So many that ask for different things look for a better place in one turn.
const CHOICES: usize = 200;

/// Jobs with a choice between groups of nodes, those that ask for the same as one.
#[derive(Debug, Default)]
pub(crate) struct Choosers {
    all: BTreeSet<Waiter>,
    /// The last that have looked.
    last: Option<Waiter>,
}

impl Choosers {
    pub fn insert(&mut self, jobs: Waiter) {
        self.all.insert(jobs);
    }

    pub fn remove(&mut self, jobs: Waiter) {
        self.all.remove(&jobs);
    }

    /// Those whose turn it is.
    pub fn next(&mut self) -> Vec<Waiter> {
        let from = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let after = self.all.range((from, Bound::Unbounded));
        let before = self.last.map(|last| self.all.range(..=last));
        let all = after.chain(before.into_iter().flatten());
        let next: Vec<Waiter> = all.take(CHOICES).copied().collect();
        self.last = next.last().copied();
        next
    }
}
