//! The jobs that a name stands for: a job, an array, one of its tasks.

pub(crate) mod procedures;

use cosy_model::JobId;
use cosy_model::api::JobRef;
use std::collections::{BTreeSet, VecDeque};

/// What a name stands for, looked up in pieces: it may be an array of 100,000 tasks.
#[derive(Debug)]
pub(crate) struct Expanding {
    pub target: JobRef,
    /// The next place of a live array.
    next: usize,
    /// All that ended up to this one were looked at.
    after: Option<JobId>,
    /// There is such a job.
    pub known: bool,
}

impl Expanding {
    /// Nothing is looked up yet.
    pub const fn of(target: JobRef) -> Self {
        Self {
            target,
            next: 0,
            after: None,
            known: false,
        }
    }
}

/// Names that a request gives, each once, and how far they are looked up.
#[derive(Debug, Default)]
pub(crate) struct Names {
    left: VecDeque<JobRef>,
    seen: BTreeSet<JobRef>,
    /// The one that is looked up.
    under_way: Option<Expanding>,
}

impl Names {
    /// Nothing is looked up yet.
    pub fn of(left: VecDeque<JobRef>) -> Self {
        Self {
            left,
            ..Self::default()
        }
    }

    /// The name whose turn it is. One that comes first costs a look.
    pub fn next(&mut self, looks: &mut usize) -> Option<Expanding> {
        if let Some(expanding) = self.under_way.take() {
            return Some(expanding);
        }
        while *looks > 0 {
            let target = self.left.pop_front()?;
            *looks -= 1;
            if self.seen.insert(target) {
                return Some(Expanding::of(target));
            }
        }
        None
    }

    /// Not all that this name stands for is looked up: it comes next again.
    pub fn goes_on(&mut self, expanding: Expanding) {
        self.under_way = Some(expanding);
    }

    /// Nothing is left.
    pub fn are_over(&self) -> bool {
        self.left.is_empty() && self.under_way.is_none()
    }
}
