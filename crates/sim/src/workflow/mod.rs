//! The experiments of Zhao and Sakellariou, *Advance Reservation Policies for Workflows*
//! (2006), section 4.
//!
//! [`spare`] is Table 1, [`failures`] Table 2, [`times`] Figure 9; [`study`] runs them,
//! [`claims`] tries what the paper says, [`paper`] has its figures; [`queue`] is beyond the
//! paper: workflows beside the jobs of a log.
//!
//! Every plan is made by `cosy_sched::workflow`, as for a running cluster. It knows nothing of
//! files or clocks: the time that planning takes is told by whoever calls.

pub mod claims;
pub mod failures;
pub mod paper;
pub mod queue;
pub mod report;
pub mod spare;
pub mod study;
pub mod times;

pub use spare::SpareTimes;

use cosy_sched::workflow::FlowScheduler;

/// First schedules in the order of the paper's tables.
pub const SCHEDULERS: [FlowScheduler; 4] = [
    FlowScheduler::Hbmct,
    FlowScheduler::Fcp,
    FlowScheduler::Dls,
    FlowScheduler::Heft,
];

/// The recursive policies stop when less than this part of the deadline is left, in per
/// cent (Fig. 3 and 8).
pub const THRESHOLD_PERCENT: i64 = 5;

/// The part of a deadline below which recursive policies stop, in milliseconds.
pub(crate) const fn threshold_ms(deadline_ms: i64) -> i64 {
    deadline_ms / 100 * THRESHOLD_PERCENT
}

/// A length of time longer by some per cent of it.
pub(crate) fn longer_ms(ms: i64, percent: f64) -> i64 {
    ms.saturating_add((ms as f64 * percent / 100.0).round() as i64)
}
