//! The time limit of a program or step and the signal before it, on a clock that stands
//! still while it is suspended.

use cosy_model::Span;
use cosy_model::job::WarnSignal;
use std::time::{Duration, Instant};

/// When what is due.
#[derive(Clone, Debug)]
pub struct Clock {
    begun: Instant,
    limit: Option<Instant>,
    /// How long before the limit; `None` once it was given.
    before: Option<Duration>,
    /// Since when the clock stands still; `None` while it runs.
    stopped: Option<Instant>,
    /// How long it stood still before.
    lost: Duration,
}

impl Clock {
    /// A clock that runs from `begun` on.
    pub fn new(begun: Instant, limit: Span, warn: Option<WarnSignal>) -> Self {
        Self {
            begun,
            limit: after(begun, limit),
            before: warn.map(|warn| duration(warn.before)),
            stopped: None,
            lost: Duration::ZERO,
        }
    }

    /// The limit has come.
    pub fn is_over(&self, now: Instant) -> bool {
        self.stopped.is_none() && self.limit.is_some_and(|at| now >= at)
    }

    /// The signal before the limit is due; true once.
    pub fn takes_warning(&mut self, now: Instant) -> bool {
        let due = self.warn().is_some_and(|at| now >= at);
        if due {
            self.before = None;
        }
        due
    }

    /// When one of the two is due next.
    pub fn next(&self) -> Option<Instant> {
        let limit = self.limit.filter(|_| self.stopped.is_none());
        limit.into_iter().chain(self.warn()).min()
    }

    fn warn(&self) -> Option<Instant> {
        let end = self.limit.filter(|_| self.stopped.is_none())?;
        let at = end.checked_sub(self.before?).unwrap_or(self.begun);
        Some(at.max(self.begun))
    }

    /// Stops it. False when it stands still already.
    pub fn stop(&mut self, now: Instant) -> bool {
        let running = self.stopped.is_none();
        self.stopped.get_or_insert(now);
        running
    }

    /// Lets it run on. False when it runs already.
    pub fn go_on(&mut self, now: Instant) -> bool {
        let Some(since) = self.stopped.take() else {
            return false;
        };
        let lost = now.saturating_duration_since(since);
        self.lost = self.lost.saturating_add(lost);
        self.limit = self.limit.and_then(|at| at.checked_add(lost));
        true
    }

    /// Another limit, counted from the beginning.
    pub fn limit_to(&mut self, limit: Span) {
        self.limit = after(self.begun, limit).and_then(|at| at.checked_add(self.lost));
    }

    /// Another limit, counted from now.
    pub fn leave(&mut self, now: Instant, left: Span) {
        self.limit = after(self.stopped.unwrap_or(now), left);
    }
}

fn duration(span: Span) -> Duration {
    Duration::from_millis(span.ms().max(0) as u64)
}

/// A moment some time after another; `None` when that is without end.
fn after(begun: Instant, span: Span) -> Option<Instant> {
    match span.is_unlimited() {
        true => None,
        false => begun.checked_add(duration(span)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_stands_still_does_not_count() {
        let begun = Instant::now();
        let at = |secs: u64| begun + Duration::from_secs(secs);
        let warn = WarnSignal {
            signal: 10,
            before: Span::from_secs(5),
            script_only: false,
        };
        let mut clock = Clock::new(begun, Span::from_secs(20), Some(warn));
        assert_eq!(clock.next(), Some(at(15)));
        assert!(clock.stop(at(10)) && !clock.stop(at(11)));
        assert_eq!(clock.next(), None);
        assert!(!clock.is_over(at(100)) && !clock.takes_warning(at(100)));
        assert!(clock.go_on(at(110)) && !clock.go_on(at(111)));
        assert_eq!(clock.next(), Some(at(115)));
        assert!(clock.takes_warning(at(115)) && !clock.takes_warning(at(116)));
        assert_eq!(clock.next(), Some(at(120)));
        assert!(!clock.is_over(at(119)) && clock.is_over(at(120)));
        clock.limit_to(Span::from_secs(30));
        assert_eq!(clock.next(), Some(at(130)));
        clock.leave(at(112), Span::from_secs(4));
        assert_eq!(clock.next(), Some(at(116)));
        clock.limit_to(Span::UNLIMITED);
        assert_eq!(clock.next(), None);
    }
}
