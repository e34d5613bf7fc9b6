//! Since when a waiting job gathers age. Which limits say so is in [`crate::jobs::limits::ageing`].

use cosy_model::Time;

/// Since when a waiting job gathers age.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Ages {
    /// Since it could first have started: no limit says otherwise.
    #[default]
    WhenEligible,
    /// Limits let only so many jobs gather age: it has done so since then, or waits until it may.
    Limited(Option<Time>),
}

impl Ages {
    /// What is kept of it in the row.
    pub fn stored(self) -> Option<Time> {
        match self {
            Self::WhenEligible => None,
            Self::Limited(since) => since,
        }
    }
}
