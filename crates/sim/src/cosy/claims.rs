//! What the COSY paper says of its results, tried on ours.
//!
//! Means over all workloads are compared, at the same n for every share. A claim holds only
//! when every single comparison in it does.
//!
//! Source: COSY paper, section 4.4.

use super::needed_multiple::NeededMultiple;
use super::study::Point;
use cosy_sched::notice::Share;

/// A claim and what became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// What the paper says.
    pub statement: &'static str,
    /// Whether all comparisons are as it says.
    pub holds: bool,
    /// The figures that were compared.
    pub figures: String,
}

/// Tries all of them on a grid of points, `grid[p][n]`, and on the n that was needed for
/// each p.
pub fn claims(
    before_utilisation: f64,
    grid: &[Vec<Point>],
    needed: &[(Share, NeededMultiple)],
) -> Vec<Claim> {
    vec![
        longer_at_one(grid),
        wait_falls(grid),
        utilisation_falls(before_utilisation, grid),
        needed_grows(needed),
        rejections_grow(grid),
        rejections_fall(grid),
    ]
}

fn longer_at_one(grid: &[Vec<Point>]) -> Claim {
    let first = || grid.iter().filter_map(|row| row.first());
    let figure = |point: &Point| {
        let q = point.relative_wait;
        let (share, longer) = (point.share, point.longer * 100.0);
        format!(
            "p {share} %: q {:.3} [{:.3}, {:.3}], above 1 for {longer:.0} % of the workloads",
            q.mean, q.low, q.high
        )
    };
    Claim {
        statement: "q is above 1 at n = 1 for every p",
        holds: first().all(|point| point.relative_wait.mean > 1.0),
        figures: join(first().map(figure)),
    }
}

fn wait_falls(grid: &[Vec<Point>]) -> Claim {
    let wait = |point: &Point| point.relative_wait.mean;
    Claim {
        statement: "q falls as n grows, for every p",
        holds: grid.iter().all(|row| falls(row, wait)),
        figures: rows(grid, |point| format!("{:.3}", wait(point))),
    }
}

fn utilisation_falls(before: f64, grid: &[Vec<Point>]) -> Claim {
    let percent = |point: &Point| point.utilisation.mean * 100.0;
    let columns = columns(grid);
    let holds = |column: &Vec<&Point>| {
        let all = std::iter::once(before * 100.0).chain(column.iter().map(|point| percent(point)));
        all.collect::<Vec<_>>().is_sorted_by(|one, next| one > next)
    };
    Claim {
        statement: "u falls as p grows, at every n",
        holds: columns.iter().all(holds),
        figures: format!(
            "p 0 %: {:.1}; {}",
            before * 100.0,
            rows(grid, |point| format!("{:.1}", percent(point)))
        ),
    }
}

fn needed_grows(needed: &[(Share, NeededMultiple)]) -> Claim {
    let figure = |(share, found): &(Share, NeededMultiple)| match found {
        NeededMultiple::Lowest(n) => format!("p {share} %: none, q is not above 1 at {n}"),
        NeededMultiple::At(n) => format!("p {share} %: {n}"),
        NeededMultiple::Above(n) => format!("p {share} %: more than {n}"),
    };
    let grows = |pair: &[(Share, NeededMultiple)]| pair[0].1.multiple() < pair[1].1.multiple();
    Claim {
        statement: "the n at which q comes back to 1 grows with p",
        holds: needed.windows(2).all(grows),
        figures: join(needed.iter().map(figure)),
    }
}

fn rejections_grow(grid: &[Vec<Point>]) -> Claim {
    let rejected = |point: &Point| point.rejected.mean;
    let grow =
        |column: &Vec<&Point>| column.is_sorted_by(|one, next| rejected(one) < rejected(next));
    Claim {
        statement: "r grows with p, at every n",
        holds: columns(grid).iter().all(grow),
        figures: rows(grid, |point| format!("{:.2}", rejected(point) * 100.0)),
    }
}

fn rejections_fall(grid: &[Vec<Point>]) -> Claim {
    let rejected = |point: &Point| point.rejected.mean;
    Claim {
        statement: "r falls as n grows, for every p",
        holds: grid.iter().all(|row| falls(row, rejected)),
        figures: rows(grid, |point| format!("{:.2}", rejected(point) * 100.0)),
    }
}

fn falls(row: &[Point], of: impl Fn(&Point) -> f64) -> bool {
    row.is_sorted_by(|one, next| of(one) > of(next))
}

fn columns(grid: &[Vec<Point>]) -> Vec<Vec<&Point>> {
    let count = grid.iter().map(Vec::len).min().unwrap_or(0);
    let column = |at| grid.iter().map(|row: &Vec<Point>| &row[at]).collect();
    (0..count).map(column).collect()
}

/// `p 5 %: a b c; p 10 %: ...`, a figure for each n.
fn rows(grid: &[Vec<Point>], figure: impl Fn(&Point) -> String) -> String {
    let row = |row: &Vec<Point>| {
        let share = row.first().map(|point| point.share).unwrap_or_default();
        let figures: Vec<String> = row.iter().map(&figure).collect();
        format!("p {share} %: {}", figures.join(" "))
    };
    join(grid.iter().map(row))
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::super::statistics::Mean;
    use super::*;
    use cosy_sched::notice::WaitMultiple;

    fn mean(value: f64) -> Mean {
        Mean {
            mean: value,
            low: value,
            high: value,
        }
    }

    /// A point with q, u and r.
    fn point(percent: u32, (q, u, r): (f64, f64, f64)) -> Point {
        Point {
            share: Share::percent(percent),
            asked: WaitMultiple::ONE,
            multiple: mean(1.0),
            relative_wait: mean(q),
            relative_wait_by_work: mean(q),
            spread: (q, q),
            longer: 0.5,
            utilisation: mean(u),
            utilisation_while_queued: mean(u),
            rejected: mean(r),
        }
    }

    fn check(grid: [[(f64, f64, f64); 2]; 2], needed: [NeededMultiple; 2], wanted: [bool; 6]) {
        let percents = [5, 10];
        let row = |(row, percent): ([(f64, f64, f64); 2], u32)| {
            row.map(|cell| point(percent, cell)).to_vec()
        };
        let grid: Vec<Vec<Point>> = grid.into_iter().zip(percents).map(row).collect();
        let shares = percents.map(Share::percent);
        let needed: Vec<_> = shares.into_iter().zip(needed).collect();
        let holds: Vec<bool> = claims(0.74, &grid, &needed)
            .iter()
            .map(|claim| claim.holds)
            .collect();
        assert_eq!(holds, wanted, "{grid:?}");
    }

    #[test]
    fn claims_hold_when_every_comparison_does() {
        let (at, least) =
            (|n| NeededMultiple::At(WaitMultiple(n)), NeededMultiple::Lowest(WaitMultiple::ONE));
        let papers = [
            [(1.2, 0.70, 0.01), (0.9, 0.68, 0.005)],
            [(1.4, 0.58, 0.02), (1.1, 0.57, 0.01)],
        ];
        check(papers, [at(2000), at(3000)], [true; 6]);
        check(papers, [least, at(3000)], [true; 6]);
        check(papers, [least, least], [true, true, true, false, true, true]);
        let mut q = papers;
        q[1][0].0 = 0.99;
        check(q, [at(2000), at(3000)], [false, false, true, true, true, true]);
        let mut u = papers;
        u[0][1].1 = 0.75;
        check(u, [at(2000), at(3000)], [true, true, false, true, true, true]);
        let mut r = papers;
        r[0][1].2 = 0.01;
        check(r, [at(2000), at(3000)], [true, true, true, true, false, false]);
    }
}
