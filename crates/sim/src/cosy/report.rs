//! The results of a study, and the same as JSON.

use super::case::{Case, Weighting};
use super::claims::{Claim, claims};
use super::needed_multiple::NeededMultiple;
use super::paper::PaperRow;
use super::statistics::Mean;
use super::study::{self, Baseline, PERCENTS, Point};
use cosy_sched::notice::Share;
use serde_json::{Value, json};

/// All results of a study.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Number of workloads.
    pub workloads: usize,
    /// Workloads in which nothing waits without reservations: they have no q.
    pub without_waits: usize,
    /// Means over the workloads without reservations.
    pub baseline: Baseline,
    /// At the paper's points.
    pub table: Vec<(PaperRow, Point)>,
    /// Every share at the same multiples.
    pub grid: Vec<Vec<Point>>,
    /// For each share the n at which q is 1, and the figures there.
    pub needed: Vec<(NeededMultiple, Point)>,
    /// For each share the n at which q is 1 when every job is as heavy as what it asks for.
    pub needed_by_work: Vec<(NeededMultiple, Point)>,
    /// For each share q if the reservations were not there at all.
    pub left_out: Vec<(Share, Mean)>,
    /// What the paper says, tried.
    pub claims: Vec<Claim>,
}

impl Report {
    /// Runs everything that the report tells, on all `cases`.
    pub fn of(cases: &[Case]) -> Self {
        let baseline = Baseline::of(cases);
        let grid = study::grid(cases);
        let needed = needed_in(cases, Weighting::PerJob);
        let shares: Vec<_> = needed
            .iter()
            .map(|(found, point)| (point.share, *found))
            .collect();
        let left_out =
            |(share, _): &(Share, NeededMultiple)| (*share, study::left_out(cases, *share));
        let waits = cases
            .iter()
            .filter(|case| case.baseline.queue_wait.ms() > 0);
        Self {
            workloads: cases.len(),
            without_waits: cases.len() - waits.count(),
            baseline,
            table: study::table(cases),
            left_out: shares.iter().map(left_out).collect(),
            claims: claims(baseline.utilisation.mean, &grid, &shares),
            grid,
            needed,
            needed_by_work: needed_in(cases, Weighting::ByWork),
        }
    }

    /// True when every claim holds.
    pub fn all_hold(&self) -> bool {
        self.claims.iter().all(|claim| claim.holds)
    }

    /// In how many of the paper's experiments its q lies within the spread of ours: it had
    /// one workload.
    pub fn within_spread(&self) -> usize {
        let within = |(paper, ours): &&(PaperRow, Point)| {
            (ours.spread.0..=ours.spread.1).contains(&paper.relative_wait)
        };
        self.table.iter().filter(within).count()
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let row = |(paper, ours): &(PaperRow, Point)| {
            let mut row = point_json(ours);
            row["number"] = json!(paper.number);
            row["paper"] = json!({
                "n": f64::from(paper.multiple.0) / 1000.0,
                "q": paper.relative_wait,
                "u": f64::from(paper.utilisation_percent) / 100.0,
                "r": f64::from(paper.rejected_percent) / 100.0,
            });
            row
        };
        let needed = |(found, point): &(NeededMultiple, Point)| {
            let mut row = point_json(point);
            row["needed"] = json!(match found {
                NeededMultiple::Lowest(_) => "not above 1",
                NeededMultiple::At(_) => "found",
                NeededMultiple::Above(_) => "beyond",
            });
            row
        };
        let claim = |claim: &Claim| {
            json!({
                "claim": claim.statement, "holds": claim.holds, "figures": claim.figures,
            })
        };
        let left_out = |(share, q): &(Share, Mean)| json!({"p": part(*share), "q": q});
        json!({
            "workloads": self.workloads,
            "without_waits": self.without_waits,
            "before": {
                "u": self.baseline.utilisation,
                "wait_hours": self.baseline.wait_hours,
                "submission_days": self.baseline.submission_days,
                "makespan_days": self.baseline.makespan_days,
            },
            "table": self.table.iter().map(row).collect::<Vec<_>>(),
            "grid": self.grid.iter().flatten().map(point_json).collect::<Vec<_>>(),
            "needed": self.needed.iter().map(needed).collect::<Vec<_>>(),
            "needed_by_work": self.needed_by_work.iter().map(needed).collect::<Vec<_>>(),
            "left_out": self.left_out.iter().map(left_out).collect::<Vec<_>>(),
            "claims": self.claims.iter().map(claim).collect::<Vec<_>>(),
        })
    }
}

fn needed_in(cases: &[Case], weighting: Weighting) -> Vec<(NeededMultiple, Point)> {
    let found = |percent: &u32| {
        let share = Share::percent(*percent);
        let found = study::needed_multiple(cases, share, weighting);
        (found, Point::of(cases, share, found.multiple()))
    };
    PERCENTS.iter().map(found).collect()
}

fn part(share: Share) -> f64 {
    f64::from(share.0) / 10_000.0
}

fn point_json(point: &Point) -> Value {
    json!({
        "p": part(point.share),
        "n_asked": f64::from(point.asked.0) / 1000.0,
        "n": point.multiple,
        "q": point.relative_wait,
        "q_by_work": point.relative_wait_by_work,
        "q_of_5_percent": point.spread.0,
        "q_of_95_percent": point.spread.1,
        "q_above_1": point.longer,
        "u": point.utilisation,
        "u_while_queued": point.utilisation_while_queued,
        "r": point.rejected,
    })
}
