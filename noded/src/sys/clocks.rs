//! Clocks of the kernel: the wall's, and those that nobody sets.

use cosy_model::Time;
use nix::libc;

/// The date, by the clock that administrators may set.
pub fn now() -> Time {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A moment in the zone of this machine: `2026-11-21T02:16:55`.
pub fn local_time(at: Time) -> String {
    let seconds: libc::time_t = at.0.div_euclid(1000);
    // SAFETY: both are plain values of this frame; the C library reads the first and writes
    // the second. All bytes of the second may be zero.
    let broken = unsafe {
        let mut broken: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const seconds, &raw mut broken);
        broken
    };
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        i64::from(broken.tm_year) + 1900,
        broken.tm_mon + 1,
        broken.tm_mday,
        broken.tm_hour,
        broken.tm_min,
        broken.tm_sec
    )
}

/// Time since the machine was started, also while it was asleep.
pub fn since_boot() -> std::time::Duration {
    shown_by(libc::CLOCK_BOOTTIME)
}

/// What the clock shows that nobody sets and that stands still while the machine is asleep.
pub fn steady() -> std::time::Duration {
    shown_by(libc::CLOCK_MONOTONIC)
}

fn shown_by(clock: libc::clockid_t) -> std::time::Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes one timespec and keeps nothing.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut now) } != 0;
    match failed {
        true => std::time::Duration::ZERO,
        false => std::time::Duration::new(
            now.tv_sec.unsigned_abs(),
            u32::try_from(now.tv_nsec).unwrap_or(0),
        ),
    }
}
