//! What is kept in the store and not taken up, and who watches what is worked on.
//!
//! Of a job that is set aside nothing is known but its id. Its nodes go on with it and keep
//! its outcome until it is put back; nothing else starts on them meanwhile, because nobody
//! knows what it holds. Jobs that depend on it wait.

pub(crate) mod procedures;

use crate::record::SetAside;
use cosy_model::{FlowId, JobId, ReservationId, TriggerId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the controller works on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Object {
    /// A job: a report about it, its begin time, its start.
    Job(JobId),
    /// A reservation's next date.
    Reservation(ReservationId),
    /// A workflow, with all its tasks.
    Flow(FlowId),
    /// A trigger, with the program that it runs.
    Trigger(TriggerId),
}

/// Is told what the controller works on, so that a failure can be laid to it.
pub trait Witness: std::fmt::Debug + Send + Sync {
    /// From now on it works on that.
    fn works_on(&self, object: Object);
}

/// What is not taken up, and who is to find what cannot be.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    all: Vec<SetAside>,
    /// Ids of jobs: the first, and one beyond the last.
    jobs: BTreeMap<JobId, JobId>,
    /// Who watches what is worked on.
    witness: Option<Arc<dyn Witness>>,
}

impl Aside {
    pub fn new(all: Vec<SetAside>) -> Self {
        let ids = all.iter().filter_map(|aside| aside.ids);
        let jobs = ids.map(|(first, count)| (first, JobId(first.0.saturating_add(count))));
        Self {
            jobs: jobs.collect(),
            all,
            witness: None,
        }
    }

    /// Has somebody watch what is worked on.
    pub fn watched_by(&mut self, witness: Arc<dyn Witness>) {
        self.witness = Some(witness);
    }

    pub fn has(&self, job: JobId) -> bool {
        let before = self.jobs.range(..=job).next_back();
        before.is_some_and(|(_, end)| job < *end)
    }

    /// For an administrator: what and why, one line each.
    pub fn lines(&self) -> Vec<String> {
        let line = |aside: &SetAside| format!("{}: {}", aside.what, aside.why);
        self.all.iter().map(line).collect()
    }
}
