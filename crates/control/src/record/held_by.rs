//! Who holds a job, as its row says.

use serde::{Deserialize, Serialize};

/// Who holds a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldBy {
    /// Its own user, who may release it.
    User,
    /// An administrator, who alone may release it.
    Admin,
    /// Its user, by putting it back into the queue.
    Requeued,
    /// The same, with a mark that it ended in a special way.
    Special,
    /// The controller, because the store was restored and nobody knows whether it has run.
    Restored,
    /// The controller, because it was lost with nodes too often.
    Losses,
}

impl HeldBy {
    /// What holds a job that is held already: an administrator's hold stays one.
    pub(crate) const fn upon(self, old: Option<Self>) -> Self {
        match old {
            Some(Self::Admin) => Self::Admin,
            Some(Self::User | Self::Requeued | Self::Special | Self::Restored | Self::Losses)
            | None => self,
        }
    }

    /// What holds a job that was put back into the queue, to be held there or even marked.
    pub(crate) const fn after_requeue(hold: bool, special: bool) -> Option<Self> {
        match (special, hold) {
            (true, _) => Some(Self::Special),
            (false, true) => Some(Self::Requeued),
            (false, false) => None,
        }
    }
}
