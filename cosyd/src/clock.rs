//! The only place where the controller's daemon reads a clock.

use cosy_model::{BootId, ClockReading, MonotonicTime, Span, Time};
use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;

/// Looks that are farther apart than this, in milliseconds, are made again: something came
/// between them.
const APART: i64 = 20;
/// Looks that are made at most.
const LOOKS: usize = 4;

/// Now, in UTC.
pub fn now() -> Time {
    Time(ms(ClockId::Realtime))
}

/// What has passed since the machine's start, its sleep included.
pub fn since_boot() -> cosy_lease::Moment {
    let passed = u64::try_from(ms(ClockId::Boottime)).unwrap_or(0);
    cosy_lease::Moment(std::time::Duration::from_millis(passed))
}

/// The date and what passes, looked at together.
pub fn moment() -> ClockReading {
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
fn look() -> (ClockReading, i64) {
    let steady = ms(ClockId::Monotonic);
    let wall = now();
    let with_sleep = ms(ClockId::Boottime);
    let moment = ClockReading {
        wall,
        steady: MonotonicTime(steady),
        slept: Span(with_sleep.saturating_sub(steady)),
        boot: boot(),
    };
    (moment, ms(ClockId::Monotonic).saturating_sub(steady))
}

/// Which run of this machine. A steady clock of other containers' own (time namespaces) counts from
/// elsewhere: what it is ahead of this machine's is in the number, too.
fn boot() -> BootId {
    static BOOT: OnceLock<BootId> = OnceLock::new();
    *BOOT.get_or_init(|| {
        let id = read("/proc/sys/kernel/random/boot_id");
        let offsets = read("/proc/self/timens_offsets");
        number(&id, &offsets)
    })
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// 0, which is known of none, where the kernel says nothing.
fn number(id: &str, offsets: &str) -> BootId {
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).collect();
    let id = u128::from_str_radix(&digits, 16).unwrap_or(0);
    let apart = offsets
        .split_ascii_whitespace()
        .filter_map(|word| word.parse::<i64>().ok());
    let apart = apart.fold(0u64, |sum, n| sum.wrapping_mul(31).wrapping_add(n.unsigned_abs()));
    match id {
        0 => BootId(0),
        id => BootId(id ^ u128::from(apart)),
    }
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
        let looks: Vec<ClockReading> = (0..1000).map(|_| moment()).collect();
        assert!(looks.is_sorted_by_key(|moment| moment.steady));
        assert!(looks.iter().all(|moment| moment.wall > Time::EPOCH));
    }

    #[test]
    fn runs_of_machines_are_told_apart() {
        let id = "0b1c2d3e-0000-4000-8000-00000000000f\n";
        let none = "monotonic           0         0\nboottime            0         0\n";
        let apart = "monotonic      864000         0\nboottime      864000         0\n";
        assert_eq!(number(id, none), number(id, ""));
        assert_eq!(number(id, none).0, 0x0b1c_2d3e_0000_4000_8000_0000_0000_000f);
        assert_ne!(number(id, none), number(id, apart));
        assert_eq!(number("", apart), BootId(0));
        assert!(!BootId(0).is_same(BootId(0)));
    }
}
