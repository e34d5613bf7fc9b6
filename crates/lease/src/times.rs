//! Moments, and the lengths of time that follow from the lease.

use std::time::Duration;

/// A moment on this process's clock: how long after one that means nothing.
///
/// The clock must be one that nobody sets and that goes on while the machine sleeps: on Linux
/// `CLOCK_BOOTTIME`. `CLOCK_MONOTONIC`, which is `std::time::Instant`, stands still then, and a
/// leader that woke would take its lease for fresh.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Moment(pub Duration);

impl Moment {
    /// This much later; saturates.
    #[must_use]
    pub const fn after(self, length: Duration) -> Self {
        Self(self.0.saturating_add(length))
    }
}

/// The lease and what follows from it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeaseTimes {
    /// How long a lead holds that is not renewed, and how long a contender must have seen that.
    pub lease: Duration,
    /// By how much earlier the holder stops to act: what two clocks may drift apart in a lease.
    /// A tenth allows each of them 5 % of error.
    pub margin: Duration,
    /// From what was last confirmed to the next renewal.
    pub renewal: Duration,
    /// Between two looks of a contender.
    pub poll: Duration,
}

impl LeaseTimes {
    /// Margin a tenth of the lease, renewal a third, poll a sixth.
    #[must_use]
    pub fn of(lease: Duration) -> Self {
        Self {
            lease,
            margin: lease / 10,
            renewal: lease / 3,
            poll: lease / 6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clocks that are 5 % slow and 5 % fast do not overlap.
    #[test]
    fn the_margin_covers_the_drift() {
        let times = LeaseTimes::of(Duration::from_secs(10));
        let holder_acts = (times.lease - times.margin).as_secs_f64() / 0.95;
        let contender_waits = times.lease.as_secs_f64() / 1.05;
        assert!(holder_acts < contender_waits);
    }

    /// The second renewal after a failed one is still in time.
    #[test]
    fn a_renewal_may_fail_once() {
        let times = LeaseTimes::of(Duration::from_secs(10));
        assert!(times.renewal * 2 < times.lease - times.margin);
    }
}
