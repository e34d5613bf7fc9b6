//! Table 1 of the COSY paper, as printed.

use cosy_sched::notice::{Share, WaitMultiple};

/// A row of Table 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PaperRow {
    /// Number of the experiment.
    pub number: u32,
    /// Share of reservations (p).
    pub share: Share,
    /// Notice time over mean wait of queued jobs (n).
    pub multiple: WaitMultiple,
    /// Mean wait of queued jobs, relative to that without reservations (q).
    pub relative_wait: f64,
    /// Utilisation in per cent (u).
    pub utilisation_percent: u32,
    /// Rejected reservations of all requests, in per cent (r).
    pub rejected_percent: u32,
}

/// Utilisation without reservations, in per cent (experiment 1).
pub const UTILISATION_PERCENT: u32 = 74;

/// The experiments with reservations.
pub const TABLE_1: [PaperRow; 11] = [
    row(2, 5, 1300, 1.19, 70, 0),
    row(3, 5, 2180, 0.99, 68, 0),
    row(4, 10, 910, 1.44, 58, 1),
    row(5, 10, 2390, 1.10, 57, 1),
    row(6, 10, 4200, 0.94, 41, 0),
    row(7, 15, 840, 1.76, 52, 2),
    row(8, 15, 3100, 1.19, 50, 1),
    row(9, 15, 3900, 1.08, 39, 0),
    row(10, 20, 1170, 2.10, 45, 4),
    row(11, 20, 3330, 1.18, 39, 2),
    row(12, 20, 5590, 0.93, 37, 1),
];

const fn row(number: u32, percent: u32, thousandths: u32, q: f64, u: u32, r: u32) -> PaperRow {
    PaperRow {
        number,
        share: Share::percent(percent),
        multiple: WaitMultiple(thousandths),
        relative_wait: q,
        utilisation_percent: u,
        rejected_percent: r,
    }
}
