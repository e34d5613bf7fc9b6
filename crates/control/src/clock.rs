//! Clocks: the controller's own, which somebody may set, and those of nodes, which may be
//! wrong.
//!
//! The controller is told the date and a clock that nobody sets ([`ClockReading`]). When one of them
//! runs ahead of the other, the date was set or the machine has slept. What is counted from a
//! date (a time limit from a start, a pause, the lapse of a hold) is then counted from the
//! date which the clock, as it is now, would have shown: so each of them lasts as long as it
//! was to last. What users named as dates (begin times, reservations, deadlines) stays.
//!
//! A store says how the clocks stood when they agreed last ([`ClockRow`]). A controller that takes
//! it up on the same run of the same machine begins with the date that this clock would show, so a
//! clock that was set meanwhile is seen in the first turn like any other step. On another machine, or
//! after a restart of it, nothing tells the two apart; there it is the nodes that say how long
//! programs have run, and what runs is counted from then (`clock/procedures.rs`). Allocations
//! in which nothing is launched have nobody who says so.
//!
//! Silence of nodes is measured in time in which the controller listened. A gap in it, in which
//! nobody could report, gives all of them their full time again.
//!
//! Of a node's clock nothing is believed that lies before its job's allocation or after now,
//! and nothing but lengths once it is wrong by more than the configuration allows: then the
//! node takes no jobs until its clock is right. Where most nodes say the same of the
//! controller's clock, it is that one that is wrong, and they go on.

pub(crate) mod procedures;

use crate::record::ClockRow;
use cosy_model::{BootId, ClockReading, ClockStep, MonotonicTime, Span, Time, limits};
use std::collections::VecDeque;

/// The most that the time between two turns counts as listening.
const LISTENS: Span = Span::from_secs(2);
/// With fewer nodes that tell the time the controller's clock is the right one.
const WITNESSES: usize = 3;
/// Less than this is how long a report was under way, not another clock.
const UNDER_WAY: Span = Span::from_secs(1);

/// How often time-dependent things are looked at when nothing else happens.
pub(crate) const TICK: Span = Span::from_secs(1);

/// What the controller knows of its own clocks.
#[derive(Debug)]
pub(crate) struct Clocks {
    /// When they agreed last.
    agreed: ClockReading,
    /// The date now.
    pub wall: Time,
    /// The steady one now.
    pub steady: MonotonicTime,
    /// That of the turn before, and how long the machine had slept.
    last_turn: (MonotonicTime, Span),
    slept: Span,
    /// How long it has listened to nodes in all.
    pub listened: Span,
    /// Most nodes say that the clock is wrong.
    doubted: bool,
    /// The store does not say that they agreed then.
    unsaved: bool,
    /// Dates in the store are of a clock that cannot be compared with this one.
    unsure: bool,
    /// When the controller began.
    started: Time,
    /// The last look at what depends on time: by the wall's clock and by the steady one.
    ticked: (Time, MonotonicTime),
    /// When answers and tokens that are too old were forgotten last.
    forgotten: MonotonicTime,
}

impl ClockRow {
    fn of(agreed: ClockReading) -> Self {
        Self {
            wall: agreed.wall,
            steady_ms: agreed.steady.0,
            slept: agreed.slept,
            boot: format!("{:032x}", agreed.boot.0),
        }
    }

    /// Now, with the date that the clock would show had nobody set it since; `None` where that
    /// cannot be known.
    pub(crate) fn carried_to(&self, now: ClockReading) -> Option<ClockReading> {
        let boot = BootId(u128::from_str_radix(&self.boot, 16).ok()?);
        let passed = now.steady.0.checked_sub(self.steady_ms)?;
        (boot.is_same(now.boot) && passed >= 0).then(|| ClockReading {
            wall: self.wall + Span(passed),
            slept: self.slept,
            ..now
        })
    }
}

impl Clocks {
    pub fn new(now: ClockReading) -> Self {
        Self {
            unsaved: now.boot != BootId::default(),
            unsure: false,
            agreed: now,
            wall: now.wall,
            steady: now.steady,
            last_turn: (now.steady, now.slept),
            slept: now.slept,
            listened: Span::ZERO,
            doubted: false,
            started: now.wall,
            // The first turn looks at everything.
            ticked: (now.wall - TICK, MonotonicTime(now.steady.0.saturating_sub(TICK.ms()))),
            forgotten: now.steady,
        }
    }

    /// When the controller began.
    pub const fn started(&self) -> Time {
        self.started
    }

    /// When a tick is over: the time of the last look at what depends on time. The next is one
    /// tick from now.
    pub fn next_tick(&mut self, now: ClockReading) -> Option<Time> {
        let (before, steady) = self.ticked;
        if now.steady.since(steady) < TICK {
            return None;
        }
        self.ticked = (now.wall, now.steady);
        Some(before)
    }

    /// Whether ten minutes are over since this was true the last time.
    pub fn is_time_to_forget(&mut self) -> bool {
        let is = self.steady.since(self.forgotten) > Span::from_minutes(10);
        if is {
            self.forgotten = self.steady;
        }
        is
    }

    /// The clock on the wall was set.
    fn clock_set(&mut self, step: ClockStep) {
        self.ticked.0 = self.ticked.0.set_by(step);
        self.started = self.started.set_by(step);
    }

    /// By how much the clock on the wall was set since they agreed, and how much of that the
    /// machine has slept; nothing while they agree.
    fn look(&mut self, now: ClockReading) -> Option<(Span, Span)> {
        (self.wall, self.steady) = (now.wall, self.steady.max(now.steady));
        self.slept = now.slept;
        let passed = now.steady.since(self.agreed.steady);
        let by = now.wall.ahead_of(self.agreed.wall + passed);
        if by.abs() < limits::CLOCK_STEP {
            return None;
        }
        let slept = Span(now.slept.ms() - self.agreed.slept.ms()).max(Span::ZERO);
        self.agreed = now;
        self.unsaved = now.boot != BootId::default();
        Some((by, slept))
    }
}

/// What is known of a node's clock.
#[derive(Debug, Default)]
pub(crate) struct NodeClock {
    /// By how much it was ahead when it was told last, oldest first.
    looks: VecDeque<Span>,
    /// It is wrong by more than is allowed: the node takes no jobs.
    pub wrong: bool,
}

impl NodeClock {
    /// Another daemon tells from now on, and whether it is wrong.
    pub fn forget(&mut self) {
        self.looks.clear();
    }

    pub fn told(&mut self, ahead: Span) {
        if self.looks.len() == limits::CLOCK_LOOKS {
            self.looks.pop_front();
        }
        self.looks.push_back(ahead);
    }

    /// By how much it is ahead of the controller's, behind if less than zero. What is told
    /// was under way for a while, which looks like a clock that is behind: the best counts.
    pub fn ahead(&self) -> Option<Span> {
        self.looks.iter().max().copied()
    }

    /// What a date of that node is on the controller's clock.
    fn date(&self, told: Time) -> Time {
        let ahead = self.ahead().filter(|ahead| ahead.abs() >= UNDER_WAY);
        told + Span(-ahead.unwrap_or(Span::ZERO).ms())
    }
}

/// `its clock is 00:20:00 behind the controller's`.
pub(crate) fn told_skew(ahead: Span) -> String {
    let word = if ahead < Span::ZERO {
        "behind"
    } else {
        "ahead of"
    };
    format!("its clock is {} {word} the controller's", ahead.abs())
}

/// Seconds with a fraction: clocks are set by less than a minute too.
fn seconds(span: Span) -> String {
    let ms = span.abs().ms();
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wall: i64, steady: i64, slept: i64) -> ClockReading {
        ClockReading {
            wall: Time::from_secs(wall),
            steady: MonotonicTime(steady * 1000),
            slept: Span::from_secs(slept),
            boot: BootId(1),
        }
    }

    #[test]
    fn a_step_is_seen_once_with_its_size() {
        let mut clocks = Clocks::new(at(1000, 5, 0));
        let secs = |n| Some((Span::from_secs(n), Span::ZERO));
        assert_eq!(clocks.look(at(1010, 15, 0)), None);
        assert_eq!(clocks.look(at(4611, 16, 0)), secs(3600));
        assert_eq!(clocks.look(at(4612, 17, 0)), None);
        assert_eq!(clocks.look(at(1013, 18, 0)), secs(-3600));
        assert_eq!(clocks.look(at(1014, 19, 0)), None);
        // It comes in small pieces and is seen when they are a second.
        assert_eq!(
            clocks.look(ClockReading {
                wall: Time(1_015_600),
                ..at(0, 20, 0)
            }),
            None
        );
        assert_eq!(
            clocks.look(ClockReading {
                wall: Time(1_017_000),
                ..at(0, 21, 0)
            }),
            secs(1)
        );
        let slept = Span::from_secs(600);
        assert_eq!(clocks.look(at(1618, 22, 600)), Some((slept, slept)));
    }

    #[test]
    fn the_best_look_at_a_clock_counts() {
        let mut clock = NodeClock::default();
        let secs = Span::from_secs;
        assert_eq!(clock.ahead(), None);
        for ahead in [-30, -1, -9, -4, -7] {
            clock.told(secs(ahead));
        }
        assert_eq!(clock.ahead(), Some(secs(-4)));
        assert_eq!(clock.date(Time::from_secs(100)), Time::from_secs(104));
        for ahead in [1200, 1195, 1100] {
            clock.told(secs(ahead));
        }
        assert_eq!(clock.ahead(), Some(secs(1200)));
        assert_eq!(told_skew(secs(-1200)), "its clock is 00:20:00 behind the controller's");
    }
}
