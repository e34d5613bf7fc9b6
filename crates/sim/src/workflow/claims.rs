//! What the workflow paper says of its results, tried on its own tables and on ours.
//!
//! Every rule is one function that looks at a table and tells its figures and whether the
//! statement holds there; the same function looks at the paper's table and at ours. So where
//! the paper's own table does not bear its text out, that is told too. Figure 9 is a picture
//! that we do not have: there only ours are judged.
//!
//! Source: section 4.2.

use super::failures::{self, ALPHAS, Method, QOI};
use super::spare::{self, TableCell};
use super::times::Point;
use super::{SCHEDULERS, SpareTimes};
use crate::booking::claims::Claim;
use crate::dag::GraphKind;
use cosy_sched::workflow::FlowSlackPolicy;

const HBMCT: usize = 0;
const FCP: usize = 1;
const DLS: usize = 2;
const HEFT: usize = 3;
/// Policies before this place of the list are recursive.
const RECURSIVE: usize = 4;
/// From so much of alpha on a spare time is close to it.
const CLOSE: f64 = 0.9;
/// Up to so many per cent of the runs are "very few".
const FEW: f64 = 5.0;
/// Figures that differ by no more than this part are similar.
const SIMILAR: f64 = 0.15;

/// A statement, and how a table is judged by it.
struct TestedStatement<T> {
    statement: &'static str,
    judge: fn(&T) -> (String, bool),
}

impl<T> TestedStatement<T> {
    fn claim(&self, paper: &T, ours: &T) -> Claim {
        let (theirs, borne_out) = (self.judge)(paper);
        let (ours, holds) = (self.judge)(ours);
        let remark = match borne_out {
            true => "",
            false => " (its own table does not bear it out)",
        };
        Claim {
            statement: self.statement,
            paper: format!("{theirs}{remark}"),
            ours,
            holds,
        }
    }
}

/// What is said of Table 1.
pub fn of_spare(ours: &spare::Table) -> Vec<Claim> {
    let paper = spare::Table::paper();
    let rules = [
        TestedStatement {
            statement: "the least spare time is close to alpha (nine tenths) or higher in most cases",
            judge: close_to_alpha,
        },
        TestedStatement {
            statement: "the critical path policies lead to a slightly higher least spare time",
            judge: critical_is_higher,
        },
        TestedStatement {
            statement: "Montage, HBMCT, cp_even_percent: the least spare time is above alpha",
            judge: montage_above_alpha,
        },
        TestedStatement {
            statement: "HBMCT generally has the highest least spare time (more than half of kind and \
                   policy)",
            judge: hbmct_highest,
        },
        TestedStatement {
            statement: "FFT: DLS has a higher least spare time than HBMCT in 4 of the 6 policies, \
                   or more",
            judge: dls_on_fft,
        },
        TestedStatement {
            statement: "FCP has a lower alpha, a longer schedule, than HEFT, on all kinds",
            judge: fcp_is_longer,
        },
        TestedStatement {
            statement: "FCP has a higher least spare time than HEFT (most policies) on all kinds but \
                   Montage",
            judge: fcp_above_heft,
        },
        TestedStatement {
            statement: "FCP has a lower least spare time than HBMCT on all kinds",
            judge: fcp_below_hbmct,
        },
        TestedStatement {
            statement: "kinds behave alike: first schedules but FCP come in the same order by least \
                   spare time on all",
            judge: kinds_alike,
        },
        TestedStatement {
            statement: "both strategies perform similarly (mean least spare time, within 15 %)",
            judge: strategies_alike,
        },
    ];
    rules.iter().map(|rule| rule.claim(&paper, ours)).collect()
}

/// What is said of Table 2.
pub fn of_failures(ours: &failures::Table) -> Vec<Claim> {
    let paper = failures::Table::paper();
    let rules = [
        TestedStatement {
            statement: "with a QoI below alpha failures are unlikely (5 % of the runs at most)",
            judge: below_alpha,
        },
        TestedStatement {
            statement: "with a QoI of about alpha, but 150, there are no or very few failures (5 % at \
                   most)",
            judge: at_alpha,
        },
        TestedStatement {
            statement: "slots are more robust to failures than DAG_Reserve (fewer, wherever they \
                   differ)",
            judge: more_robust,
        },
        TestedStatement {
            statement: "slots suffer from low use, compared with DAG_Reserve",
            judge: lower_use,
        },
    ];
    rules.iter().map(|rule| rule.claim(&paper, ours)).collect()
}

/// What is said of Figure 9.
pub fn of_times(points: &[Point]) -> Vec<Claim> {
    vec![recursive_is_cheaper(points), critical_grows_faster(points)]
}

fn cells(table: &spare::Table) -> impl Iterator<Item = (GraphKind, &TableCell)> {
    let kinds = table.kinds.iter();
    kinds.flat_map(|(kind, cells)| cells.iter().map(move |cell| (*kind, cell)))
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    crate::booking::spread::mean(values)
}

/// The mean of the least spare times of some policies.
fn mean_min(shares: &[SpareTimes]) -> f64 {
    mean(shares.iter().map(|shares| shares.min))
}

/// In how many policies one first schedule has a higher least spare time than another.
fn wins(cells: &[TableCell; 4], one: usize, other: usize) -> usize {
    let pairs = cells[one].shares.iter().zip(&cells[other].shares);
    pairs.filter(|(one, other)| one.min > other.min).count()
}

fn by_kind(table: &spare::Table, figure: impl Fn(&[TableCell; 4]) -> String) -> String {
    let kinds = table.kinds.iter();
    let kinds = kinds.map(|(kind, cells)| format!("{} {}", kind.word(), figure(cells)));
    kinds.collect::<Vec<_>>().join(", ")
}

fn close_to_alpha(table: &spare::Table) -> (String, bool) {
    let all = cells(table).flat_map(|(_, cell)| {
        let close = |shares: &SpareTimes| shares.min >= CLOSE * cell.alpha;
        cell.shares.iter().map(close)
    });
    let all: Vec<bool> = all.collect();
    let close = all.iter().filter(|close| **close).count();
    (format!("{close} of {}", all.len()), close * 2 > all.len())
}

fn critical_is_higher(table: &spare::Table) -> (String, bool) {
    let pair = |cell: &TableCell| {
        let (recursive, critical) = cell.shares.split_at(RECURSIVE);
        (mean_min(recursive), mean_min(critical))
    };
    let pairs: Vec<(f64, f64)> = cells(table).map(|(_, cell)| pair(cell)).collect();
    let recursive = mean(pairs.iter().map(|pair| pair.0));
    let critical = mean(pairs.iter().map(|pair| pair.1));
    let higher = pairs.iter().filter(|pair| pair.1 > pair.0).count();
    let text = format!(
        "{critical:.1} against {recursive:.1} % on average, higher in {higher} of {}",
        pairs.len()
    );
    (text, critical > recursive && higher * 2 > pairs.len())
}

fn montage_above_alpha(table: &spare::Table) -> (String, bool) {
    let montage = table
        .kinds
        .iter()
        .find(|(kind, _)| *kind == GraphKind::Montage);
    let Some((_, cells)) = montage else {
        return ("no Montage".to_owned(), false);
    };
    let (min, alpha) = (cells[HBMCT].shares[5].min, cells[HBMCT].alpha);
    (format!("{min:.1} % with alpha {alpha:.1}"), min > alpha)
}

fn hbmct_highest(table: &spare::Table) -> (String, bool) {
    let highest = |cells: &[TableCell; 4]| {
        let others = [FCP, DLS, HEFT];
        let min = |scheduler: usize, policy: usize| cells[scheduler].shares[policy].min;
        let policies = 0..FlowSlackPolicy::ALL.len();
        policies
            .filter(|policy| {
                others
                    .iter()
                    .all(|o| min(HBMCT, *policy) >= min(*o, *policy))
            })
            .count()
    };
    let count: usize = table.kinds.iter().map(|(_, cells)| highest(cells)).sum();
    let all = table.kinds.len() * FlowSlackPolicy::ALL.len();
    let each = by_kind(table, |cells| format!("{} of 6", highest(cells)));
    (format!("{count} of {all}: {each}"), count * 2 > all)
}

fn dls_on_fft(table: &spare::Table) -> (String, bool) {
    let fft = table.kinds.iter().find(|(kind, _)| *kind == GraphKind::Fft);
    let higher = fft.map_or(0, |(_, cells)| wins(cells, DLS, HBMCT));
    (format!("in {higher} of 6"), higher >= 4)
}

fn fcp_is_longer(table: &spare::Table) -> (String, bool) {
    let text =
        by_kind(table, |cells| format!("{:.0} and {:.0}", cells[FCP].alpha, cells[HEFT].alpha));
    let mut kinds = table.kinds.iter();
    let holds = kinds.all(|(_, cells)| cells[FCP].alpha < cells[HEFT].alpha);
    (format!("alpha of FCP and HEFT: {text}"), holds)
}

fn fcp_above_heft(table: &spare::Table) -> (String, bool) {
    let text = by_kind(table, |cells| format!("in {} of 6", wins(cells, FCP, HEFT)));
    let mut kinds = table.kinds.iter();
    let holds = kinds.all(|(kind, cells)| {
        let wins = wins(cells, FCP, HEFT);
        if *kind == GraphKind::Montage {
            wins < 3
        } else {
            wins > 3
        }
    });
    (text, holds)
}

fn fcp_below_hbmct(table: &spare::Table) -> (String, bool) {
    let pair =
        |cells: &[TableCell; 4]| (mean_min(&cells[FCP].shares), mean_min(&cells[HBMCT].shares));
    let text = by_kind(table, |cells| {
        let (fcp, hbmct) = pair(cells);
        format!("{fcp:.1} and {hbmct:.1}")
    });
    let mut kinds = table.kinds.iter();
    let holds = kinds.all(|(_, cells)| pair(cells).0 < pair(cells).1);
    (format!("FCP and HBMCT, means over policies: {text}"), holds)
}

fn kinds_alike(table: &spare::Table) -> (String, bool) {
    let order = |cells: &[TableCell; 4]| {
        let mut order = [HBMCT, DLS, HEFT];
        let min = |at: &usize| mean_min(&cells[*at].shares);
        order.sort_by(|one, other| min(other).total_cmp(&min(one)));
        order
    };
    let text = by_kind(table, |cells| {
        let words = order(cells).map(|at| SCHEDULERS[at].word());
        words.join(" > ")
    });
    let orders: Vec<_> = table.kinds.iter().map(|(_, cells)| order(cells)).collect();
    (text, orders.windows(2).all(|pair| pair[0] == pair[1]))
}

fn strategies_alike(table: &spare::Table) -> (String, bool) {
    let all = |policies: std::ops::Range<usize>| {
        mean(cells(table).map(|(_, cell)| mean_min(&cell.shares[policies.clone()])))
    };
    let (recursive, critical) = (all(0..RECURSIVE), all(RECURSIVE..6));
    let text = format!("recursive {recursive:.1} %, critical path {critical:.1} %");
    (text, (recursive - critical).abs() <= SIMILAR * recursive.max(critical))
}

/// The most failures of a policy with slots over the cells that are chosen by alpha and QoI.
fn most_failures(table: &failures::Table, chosen: fn(u32, u32) -> bool) -> (String, bool) {
    let mut parts = Vec::new();
    let mut worst = 0.0f64;
    for (alpha, rows) in ALPHAS.iter().zip(&table.0) {
        for (at, qoi) in QOI.iter().enumerate().filter(|(_, q)| chosen(*alpha, **q)) {
            let slots = &rows[..FlowSlackPolicy::ALL.len()];
            let failures = slots.iter().map(|row| row.failures[at]);
            let (least, most) = failures
                .fold((f64::INFINITY, 0.0f64), |(low, high), now| (low.min(now), high.max(now)));
            parts.push(format!("alpha {alpha}, QoI {qoi}: {least:.0} to {most:.0} %"));
            worst = worst.max(most);
        }
    }
    (parts.join("; "), worst <= FEW)
}

fn below_alpha(table: &failures::Table) -> (String, bool) {
    most_failures(table, |alpha, qoi| qoi > 0 && qoi < alpha)
}

fn at_alpha(table: &failures::Table) -> (String, bool) {
    most_failures(table, |alpha, qoi| qoi == alpha && qoi < 150)
}

/// Compares slots with DAG_Reserve: cells in which they have less, and more, of something.
fn against_reserve(table: &failures::Table, of: fn(&failures::Row) -> [f64; 5]) -> (usize, usize) {
    let (mut less, mut more) = (0, 0);
    for rows in &table.0 {
        let reserve = of(&rows[Method::ALL.len() - 1]);
        for row in &rows[..FlowSlackPolicy::ALL.len()] {
            for (slots, reserve) in of(row).into_iter().zip(reserve) {
                less += usize::from(slots < reserve);
                more += usize::from(slots > reserve);
            }
        }
    }
    (less, more)
}

fn more_robust(table: &failures::Table) -> (String, bool) {
    let (fewer, more) = against_reserve(table, |row| row.failures);
    let text = format!("fewer failures in {fewer} cells, more in {more}");
    (text, more == 0 && fewer > 0)
}

fn lower_use(table: &failures::Table) -> (String, bool) {
    let (lower, higher) = against_reserve(table, |row| row.used);
    let text = format!("lower use in {lower} cells, higher in {higher}");
    (text, higher == 0 && lower > 0)
}

/// Means over first schedules and policies, in microseconds: recursive, critical path.
fn means_us(point: &Point) -> (f64, f64) {
    let of = |rows: &[[f64; 4]]| mean(rows.iter().flatten().copied());
    let (recursive, critical) = point.whole_us.split_at(RECURSIVE);
    (of(recursive), of(critical))
}

fn recursive_is_cheaper(points: &[Point]) -> Claim {
    let (recursive, critical) = points.last().map(means_us).unwrap_or_default();
    Claim {
        statement: "the recursive policies take significantly less time (100 tasks)",
        paper: "figure 9".to_owned(),
        ours: format!("recursive {recursive:.0} µs, critical path {critical:.0} µs"),
        holds: recursive * (1.0 + SIMILAR) < critical,
    }
}

fn critical_grows_faster(points: &[Point]) -> Claim {
    let ends = points.first().zip(points.last());
    let ends = ends.map(|(first, last)| (means_us(first), means_us(last)));
    let ((r0, c0), (r1, c1)) = ends.unwrap_or_default();
    let (recursive, critical) = (r1 / r0.max(1.0), c1 / c0.max(1.0));
    Claim {
        statement: "the time of the critical path policies rises faster with the number of tasks",
        paper: "figure 9: they list all paths".to_owned(),
        ours: format!(
            "from 20 to 100 tasks {critical:.1} times, recursive {recursive:.1} times; no paths \
             are listed"
        ),
        holds: critical > recursive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the paper's own tables say of its text.
    #[test]
    fn the_papers_tables_against_its_text() {
        let of_spare = of_spare(&spare::Table::paper());
        let holds: Vec<bool> = of_spare.iter().map(|claim| claim.holds).collect();
        let want = [true, true, true, true, true, true, false, true, false, true];
        assert_eq!(holds, want, "{of_spare:#?}");
        let of_failures = of_failures(&failures::Table::paper());
        let holds: Vec<bool> = of_failures.iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [true, true, false, false], "{of_failures:#?}");
    }

    #[test]
    fn times() {
        let point = |tasks, recursive: f64, critical: f64| {
            let mut whole_us = [[recursive; 4]; 6];
            whole_us[4..].fill([critical; 4]);
            Point {
                tasks,
                first_us: [1.0; 4],
                whole_us,
                ways: 1.0,
            }
        };
        let check = |first: (f64, f64), last: (f64, f64), want: [bool; 2]| {
            let points = [point(20, first.0, first.1), point(100, last.0, last.1)];
            let holds: Vec<bool> = of_times(&points).iter().map(|claim| claim.holds).collect();
            assert_eq!(holds, want);
        };
        check((10.0, 10.0), (50.0, 100.0), [true, true]);
        check((10.0, 30.0), (50.0, 100.0), [true, false]);
        check((10.0, 10.0), (50.0, 55.0), [false, true]);
        check((10.0, 10.0), (50.0, 40.0), [false, false]);
    }
}
