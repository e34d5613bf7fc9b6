//! The controller's clock, as far as a node knows it, and lengths of time on the node's own.
//!
//! The date here may be wrong; the controller says its own when it welcomes the node and when
//! it was set. Since then a clock has run that nobody sets. Tickets are good until a date on
//! the controller's clock, so that is what they are compared with.

use crate::sys;
use cosy_model::{Span, Time};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Stands for a difference that is not known yet.
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
    ago(sys::now().since(date))
}

/// The moment so long ago; now, where this machine did not run yet.
pub fn ago(passed: Span) -> Instant {
    let passed = Duration::from_millis(passed.ms().max(0).unsigned_abs());
    let now = Instant::now();
    let within = passed <= sys::since_boot();
    now.checked_sub(passed).filter(|_| within).unwrap_or(now)
}

/// How long ago that was.
pub fn passed(since: Instant) -> Span {
    Span(i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX))
}

/// The date of a moment on this node's clock as it is now, whoever has set it since.
pub fn date_of(since: Instant) -> Time {
    sys::now() - passed(since)
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

    #[test]
    fn the_controllers_date_runs_on_whatever_the_own_clock_says() {
        let (clock, own) = (ControllerClock::default(), sys::now());
        assert!(clock.now() >= own);
        let theirs = own - Span::from_minutes(600_000);
        clock.clone().set(theirs);
        let read = clock.now();
        assert!(theirs <= read && read < theirs + Span::from_minutes(100_000), "{read:?}");
    }

    #[test]
    fn a_date_to_come_is_now() {
        let before = Instant::now();
        assert!(moment_of(Time::FAR) >= before);
        assert!(moment_of(sys::now() - Span::from_secs(1)) < Instant::now());
    }

    #[test]
    fn moments_and_dates_are_the_same() {
        let second = Span::from_secs(1);
        let date = sys::now() - second;
        let back = date_of(moment_of(date));
        assert!(back.ahead_of(date).abs() < second, "{back:?} {date:?}");
        assert!(passed(ago(second)) >= second);
        // Before this machine ran.
        assert!(passed(moment_of(Time::EPOCH)) < second);
    }
}
