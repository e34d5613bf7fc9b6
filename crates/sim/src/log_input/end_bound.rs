//! Whether every replay of some jobs ends within 64 bits of milliseconds.
//!
//! What always holds: while [`EndBound::add`] agrees, no job of a replay ends later than all of
//! them would one after another, behind the last submission, because a planner that has
//! waiting jobs and an empty machine starts one.

use cosy_model::{Span, Time};

/// The latest end that a job could have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EndBound {
    last_submit_ms: i64,
    runs_ms: i64,
}

impl EndBound {
    /// Counts a job in; false, and nothing changes, when its end might not fit.
    #[must_use]
    pub fn add(&mut self, submit: Time, run: Span) -> bool {
        let last_submit_ms = self.last_submit_ms.max(submit.0);
        let runs_ms = self.runs_ms.checked_add(run.0);
        let Some(runs_ms) = runs_ms.filter(|runs| last_submit_ms.checked_add(*runs).is_some())
        else {
            return false;
        };
        *self = Self {
            last_submit_ms,
            runs_ms,
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_runs_behind_the_last_submission_fit() {
        let mut ends = EndBound::default();
        let most = i64::MAX;
        for (submit, run, fits) in [
            (10, 5, true),
            (most, 1, false),
            (most - 6, 2, false),
            (most - 6, 1, true),
            (0, 1, false),
            (0, most, false),
        ] {
            let before = ends;
            let got = ends.add(Time(submit), Span(run));
            assert_eq!(got, fits, "{submit} {run}");
            assert_eq!(ends != before, fits, "{submit} {run}");
        }
    }
}
