//! How a request of an experiment is put to the planner.
//!
//! Where the papers are silent: the weights of eq. (4) are half and half unless told
//! otherwise; all waiting jobs are looked at.

use super::simulation::ReservationRequest;
use crate::replay::waiting;
use cosy_model::{Span, Time};
use cosy_sched::appraise::{Appraisal, Inquiry, Listed, Starts, Tariff};
use std::sync::Arc;

/// Both metrics count the same.
pub const HALF_PPM: u32 = 500_000;

impl ReservationRequest<'_> {
    /// What the planner says of `starts`.
    pub fn appraise(&self, starts: Starts, makespan_weight_ppm: u32) -> Appraisal {
        let job = waiting(self.at as u64, &self.jobs[self.at], self.demand);
        let inquiry = Inquiry {
            job,
            starts,
            tariff: Tariff::default(),
            makespan_weight_ppm,
            most_jobs: usize::MAX,
            replaces: None,
            fixed: None,
            pushed: Arc::default(),
            listed: Listed::Nobody,
            plain_start: true,
            joint: None,
            leavers: Vec::new(),
        };
        self.scheduler.appraise(self.now, &inquiry)
    }
}

/// Starts with equal distances from `earliest` to `latest`, both among them: at most `most`,
/// and no two nearer than `gap` except for the last (what-if paper, section 4).
pub fn evenly(earliest: Time, latest: Time, most: usize, gap: Span) -> Vec<Time> {
    let length = latest.since(earliest).0.max(0);
    let parts = i64::try_from(most.saturating_sub(1)).unwrap_or(i64::MAX);
    let step = gap.0.max(1);
    let step = step.max(length / parts.max(1) + i64::from(length % parts.max(1) != 0));
    let starts = (0..most as i64).map(|at| earliest + Span(step.saturating_mul(at)));
    let mut starts: Vec<Time> = starts.take_while(|at| *at < latest).collect();
    if starts.len() < most.max(1) {
        starts.push(latest);
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_starts() {
        let check = |(latest, most, gap), wanted: &[i64]| {
            let starts = evenly(Time(100), Time(latest), most, Span(gap));
            let starts: Vec<i64> = starts.iter().map(|at| at.0).collect();
            assert_eq!(starts, wanted, "{latest} {most} {gap}");
        };
        check((100, 5, 10), &[100]);
        check((140, 5, 10), &[100, 110, 120, 130, 140]);
        check((140, 5, 15), &[100, 115, 130, 140]);
        check((142, 5, 1), &[100, 111, 122, 133, 142]);
        check((140, 2, 10), &[100, 140]);
        check((140, 1, 10), &[100]);
    }
}
