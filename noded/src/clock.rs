//! The controller's clock, as far as a node knows it, and lengths of time on the node's own.
//!
//! The date here may be wrong; the controller says its own when it welcomes the node and when
//! it was set. Since then a clock has run that nobody sets. Tickets are good until a date on
//! the controller's clock, so that is what they are compared with.

use crate::sys;
use cosy_model::Time;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Not known yet.
const UNKNOWN: i64 = i64::MIN;

/// The controller's clock; clones are the same one.
#[derive(Clone, Debug)]
pub struct ControllerClock {
    /// The controller's date less the time since this machine was started, in milliseconds.
    ahead: Arc<AtomicI64>,
}

impl Default for ControllerClock {
    fn default() -> Self {
        Self {
            ahead: Arc::new(AtomicI64::new(UNKNOWN)),
        }
    }
}

impl ControllerClock {
    /// The controller has just said that it is `now`.
    pub fn set(&self, now: Time) {
        let ahead = now.0.saturating_sub(since_boot());
        self.ahead.store(ahead.max(UNKNOWN + 1), Ordering::Relaxed);
    }

    /// The date on it; this node's own before it is known.
    pub fn now(&self) -> Time {
        match self.ahead.load(Ordering::Relaxed) {
            UNKNOWN => sys::now(),
            ahead => Time(since_boot().saturating_add(ahead)),
        }
    }
}

/// In milliseconds, time asleep included.
fn since_boot() -> i64 {
    i64::try_from(sys::since_boot().as_millis()).unwrap_or(i64::MAX)
}

/// The moment of a date by this node's clock; now for a date to come, and for one so old that
/// this machine did not run yet.
pub fn moment_of(date: Time) -> Instant {
    let passed = Duration::from_millis(sys::now().since(date).ms().unsigned_abs());
    let now = Instant::now();
    now.checked_sub(passed).unwrap_or(now)
}

/// The date since this daemon began, whatever is done to the clock: for virtual jobs, whose
/// ends are dates.
pub fn date() -> Time {
    static BEGUN: OnceLock<(Time, i64)> = OnceLock::new();
    let (begun, then) = *BEGUN.get_or_init(|| (sys::now(), since_boot()));
    Time(begun.0.saturating_add(since_boot() - then))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::Span;

    #[test]
    fn the_controllers_date_runs_on_whatever_the_own_clock_says() {
        let (clock, own) = (ControllerClock::default(), sys::now());
        assert!(clock.now() >= own);
        let theirs = own - Span::from_minutes(600_000);
        clock.clone().set(theirs);
        let read = clock.now();
        assert!(
            theirs <= read && read < theirs + Span::from_minutes(100_000),
            "{read:?}"
        );
    }

    #[test]
    fn a_date_to_come_is_now() {
        let before = Instant::now();
        assert!(moment_of(Time::FAR) >= before);
        assert!(moment_of(sys::now() - Span::from_secs(1)) < Instant::now());
    }
}
