//! Jobs that ended lately: what commands are told of them without a look into the store, and
//! what is needed to let them run again.
//!
//! What always holds: at most [`MOST`] are kept, and of those over the most the ones that ended
//! first go first.

pub(crate) mod procedures;
use crate::jobs::job::Submitted;
use crate::record::JobRow;
use cosy_model::{JobId, JobState, Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeBounds;
use std::sync::Arc;

/// Ended jobs kept in memory, at most; older ones are read from the store.
const MOST: usize = 100_000;

/// A job that ended a moment ago.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    /// When it was over. It may have waited again since an earlier end.
    pub at: Time,
    pub row: Box<JobRow>,
    pub submitted: Arc<Submitted>,
    pub state: JobState,
    pub exit_code: i32,
    /// Number of the signal that ended it; 0 without one.
    pub signal: i32,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct EndedJobs {
    by_id: BTreeMap<JobId, Ended>,
    /// Ends in their order. A job that ran again and ended again is in it twice.
    order: VecDeque<(Time, JobId)>,
}

impl EndedJobs {
    /// A job has ended.
    pub fn remember(&mut self, id: JobId, ended: Ended) {
        self.order.push_back((ended.at, id));
        self.by_id.insert(id, ended);
    }

    /// The job lives again.
    pub fn lives_again(&mut self, id: JobId) -> Option<Ended> {
        self.by_id.remove(&id)
    }

    /// The job, if it ended lately.
    pub fn get(&self, id: JobId) -> Option<&Ended> {
        self.by_id.get(&id)
    }

    /// Whether the job ended lately.
    pub fn has(&self, id: JobId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Those with ids in that range, in the order of their ids.
    pub fn range(
        &self,
        ids: impl RangeBounds<JobId>,
    ) -> impl DoubleEndedIterator<Item = (JobId, &Ended)> {
        self.by_id.range(ids).map(|(id, ended)| (*id, ended))
    }

    /// One that ended longer ago than `keep`, or is one too many; it is forgotten.
    pub fn forget_one(&mut self, now: Time, keep: Span) -> Option<JobId> {
        loop {
            let (at, id) = *self.order.front()?;
            if now.since(at) < keep && self.order.len() <= MOST {
                return None;
            }
            self.order.pop_front();
            if self.by_id.get(&id).is_some_and(|ended| ended.at == at) {
                self.by_id.remove(&id);
                return Some(id);
            }
        }
    }
}
