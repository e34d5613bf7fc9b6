//! Jobs whose rows in the store are behind: each is written once, however much happened to it.

use cosy_model::JobId;
use std::collections::BTreeSet;

/// What is still to be written.
#[derive(Debug, Default)]
pub(crate) struct UnsavedRows {
    /// At the end of this turn.
    changed: BTreeSet<JobId>,
    /// With the next tick: a start is known to its node too.
    started: BTreeSet<JobId>,
}

impl UnsavedRows {
    /// Something of the job's row is another.
    pub fn changed(&mut self, id: JobId) {
        self.changed.insert(id);
    }

    /// The job's program has started, which can be written a little later.
    pub fn started(&mut self, id: JobId) {
        self.started.insert(id);
    }

    /// The whole row is written anyway, with the start.
    pub fn written(&mut self, id: JobId) {
        self.started.remove(&id);
    }

    /// Those to be written at the end of the turn.
    pub fn take_changed(&mut self) -> BTreeSet<JobId> {
        std::mem::take(&mut self.changed)
    }

    /// Those whose start is to be written.
    pub fn take_started(&mut self) -> BTreeSet<JobId> {
        std::mem::take(&mut self.started)
    }
}
