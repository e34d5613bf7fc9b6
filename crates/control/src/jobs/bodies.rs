//! Bodies: what jobs of a submission ask for, each kept once, however many jobs have it.
//!
//! A submission begins with body 0, which is in its own row. A change makes another one, with a
//! number of its own, for all jobs that were alike before. Rows of jobs name the number; a body
//! is written with the first row that names it, and goes when no job and no row has it any more.
//!
//! Tasks of an array that have no row of their own stand alike: which body they have and who
//! holds them is one row for all of them ([`crate::record::StandingRow`]). What is done to all of
//! them changes that row, and none of them gets one.

pub(crate) mod procedures;

use crate::jobs::job::{Group, Place, Submitted};
use crate::record::SubmissionRow;
use cosy_model::JobSpec;
use std::sync::Arc;

/// A body that jobs have.
#[derive(Debug)]
pub(crate) struct Body {
    pub submitted: Arc<Submitted>,
    /// Live jobs that have it.
    pub jobs: u32,
    /// It is in the store.
    pub stored: bool,
    /// A row of an ended job names it.
    pub named: bool,
    /// Waiting jobs that have it were found to have an account or a quality of service that they
    /// may not have.
    pub barred: bool,
}

impl Group {
    /// The number of the next body.
    pub fn new_number(&mut self) -> u32 {
        self.next_body += 1;
        self.next_body - 1
    }

    /// The body with that request in that queue, if a job has it.
    pub fn body_like(&self, spec: &JobSpec, queue: &str) -> Option<Arc<Submitted>> {
        let bodies = self.bodies.values().map(|body| &body.submitted);
        let mut same = bodies.filter(|s| s.queue == queue && *s.spec == *spec);
        same.next().cloned()
    }
}

impl Submitted {
    /// Another request of the same job.
    pub fn with(&self, body: u32, spec: Arc<JobSpec>, queue: String, place: Place) -> Self {
        Self {
            base: self.base,
            body,
            uid: self.uid,
            gid: self.gid,
            user: self.user.clone(),
            submit: self.submit,
            spec,
            queue,
            place,
            flow: self.flow,
            only: None,
        }
    }

    /// Its row in the store: a submission's without the tasks.
    fn row(&self) -> SubmissionRow {
        SubmissionRow {
            base: self.base,
            indices: None,
            numbering: Default::default(),
            at_once: None,
            uid: self.uid,
            gid: self.gid,
            user: self.user.clone(),
            queue: self.queue.clone(),
            submit: self.submit,
            spec: self.spec.clone(),
            flow: self.flow,
        }
    }
}
