//! The only place where the controller's daemon reads a clock.

use cosy_model::{Moment, Span, Steady, Time};
use rustix::time::{ClockId, clock_gettime};

/// Looks that are farther apart than this, in milliseconds, are made again: something came
/// between them.
const APART: i64 = 20;
/// How often at most.
const LOOKS: usize = 4;

/// Now, in UTC.
pub fn now() -> Time {
    Time(ms(ClockId::Realtime))
}

/// The date and what passes, looked at together.
pub fn moment() -> Moment {
    let mut found = look();
    for _ in 1..LOOKS {
        if found.1 <= APART {
            break;
        }
        found = look();
    }
    found.0
}

/// All clocks, and how many milliseconds it took to look.
fn look() -> (Moment, i64) {
    let steady = ms(ClockId::Monotonic);
    let wall = now();
    let with_sleep = ms(ClockId::Boottime);
    let moment = Moment {
        wall,
        steady: Steady(steady),
        slept: Span(with_sleep.saturating_sub(steady)),
    };
    (moment, ms(ClockId::Monotonic).saturating_sub(steady))
}

fn ms(clock: ClockId) -> i64 {
    let at = clock_gettime(clock);
    at.tv_sec
        .saturating_mul(1000)
        .saturating_add(at.tv_nsec / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_clock_does_not_go_back() {
        let looks: Vec<Moment> = (0..1000).map(|_| moment()).collect();
        assert!(looks.is_sorted_by_key(|moment| moment.steady));
        assert!(looks.iter().all(|moment| moment.wall > Time::EPOCH));
    }
}
