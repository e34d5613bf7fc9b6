//! By which dates jobs stand in line: as they came, whatever the clock was set to.
//!
//! Who was submitted first is served first, and ids say who that was. The date of a submission
//! says the same until somebody sets the clock back: then jobs that come later have earlier
//! dates. For the order of the line such a job has the latest date that was given before it, and
//! its id decides.
//!
//! What always holds: of two jobs the one with the lesser base never has the later date in line.

use crate::job::Submitted;
use cosy_model::{JobId, Time};
use std::collections::BTreeMap;

/// So many steps back are remembered; of jobs before the first of them the dates count.
const STEPS: usize = 64;

/// Dates of jobs in line.
#[derive(Debug, Default)]
pub(crate) struct Came {
    /// The latest submission so far.
    last: (JobId, Time),
    /// From each of these jobs on nobody stands before that date.
    floors: BTreeMap<JobId, Time>,
}

impl Came {
    /// A submission has come, or was loaded; in the order of their ids.
    pub fn note(&mut self, submitted: &Submitted) {
        let (base, submit) = (submitted.base, submitted.submit);
        let (before, latest) = self.last;
        if base <= before {
            return; // an ended one that waits again
        }
        self.last = (base, submit.max(latest));
        let known = self.floors.last_key_value();
        if submit < latest && known.is_none_or(|(_, floor)| *floor < latest) {
            self.floors.insert(base, latest);
            if self.floors.len() > STEPS {
                self.floors.pop_first();
            }
        }
    }

    /// The date by which a job stands in line.
    pub fn in_line(&self, submitted: &Submitted) -> Time {
        let floor = self.floors.range(..=submitted.base).next_back();
        let floor = floor.map_or(Time(i64::MIN), |(_, floor)| *floor);
        submitted.submit.max(floor)
    }
}
