//! Cancel, hold, release, requeue, change.

pub(crate) mod procedures;

use crate::record::HeldBy;
use cosy_model::{About, Refusal, RefusalCode};

/// Whom a signal is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Recipients {
    /// The script and all that it started, and the steps.
    All,
    /// The script itself.
    Script,
    /// All steps, without the batch script.
    Steps,
}

impl Recipients {
    pub fn new(script_only: bool, steps_only: bool) -> Result<Self, Refusal> {
        match (script_only, steps_only) {
            (false, false) => Ok(Self::All),
            (true, false) => Ok(Self::Script),
            (false, true) => Ok(Self::Steps),
            (true, true) => Err(Refusal::invalid(
                "a signal goes to the script only or to the steps only, not both",
            )),
        }
    }
}

pub(crate) fn may_release(held: Option<HeldBy>, admin: bool) -> bool {
    held != Some(HeldBy::Admin) || admin
}

pub(crate) fn runs_already(name: &str) -> Refusal {
    Refusal::new(
        RefusalCode::WrongState,
        format!("job {name} does not wait any more: only waiting jobs can be held or changed"),
    )
    .about(About::Running)
}
