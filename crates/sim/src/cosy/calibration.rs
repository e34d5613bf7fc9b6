//! The notice curve of a site: for each share of reservations the n at which the queue
//! waits no longer than without any, on the site's own workload.
//!
//! The paper leaves that open ("when the workload is lighter or heavier, the result has to
//! be adapted accordingly", section 4.4).

use super::case::{Case, Weighting};
use super::needed_multiple::NeededMultiple;
use super::study::{PERCENTS, Point, needed_multiple};
use cosy_sched::notice::{BadCurve, Curve, Share, WaitMultiple};

/// n in a configuration is rounded up to so many thousandths.
const STEP: u32 = 100;

/// What was found for one share.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The n that is needed.
    pub found: NeededMultiple,
    /// What it brings, over all choices of the jobs that become reservations.
    pub point: Point,
}

/// Finds the n that is needed at each share of [`PERCENTS`]; `cases` are one workload with
/// different choices of the reservations. Stops after the first share for which there is
/// none, and hands out each row as it is found.
///
/// # Errors
/// Those of `tell`; nothing is looked for after one.
pub fn calibrate<E>(
    cases: &[Case],
    weighting: Weighting,
    mut tell: impl FnMut(&Row) -> Result<(), E>,
) -> Result<Vec<Row>, E> {
    let mut rows: Vec<Row> = Vec::new();
    for percent in PERCENTS {
        let share = Share::percent(percent);
        let found = needed_multiple(cases, share, weighting);
        let point = Point::of(cases, share, found.multiple());
        let row = Row { found, point };
        tell(&row)?;
        rows.push(row);
        if matches!(found, NeededMultiple::Above(_)) {
            break;
        }
    }
    Ok(rows)
}

/// The curve through what was found. It begins with n = 1 at no reservations, never falls,
/// and ends at the largest share at which the queue still waits no longer.
///
/// # Errors
/// Rows that are not in the order of their shares.
pub fn curve(rows: &[Row]) -> Result<Curve, BadCurve> {
    let mut points = vec![(Share::default(), WaitMultiple::ONE)];
    let mut last = WaitMultiple::ONE;
    for row in rows {
        let n = match row.found {
            NeededMultiple::Lowest(n) | NeededMultiple::At(n) => n,
            NeededMultiple::Above(_) => break,
        };
        last = WaitMultiple(n.0.div_ceil(STEP).saturating_mul(STEP)).max(last);
        points.push((row.point.share, last));
    }
    let refuse_above = points.last().map_or(Share::default(), |(share, _)| *share);
    Curve::new(points, refuse_above)
}

#[cfg(test)]
mod tests {
    use super::super::statistics::Mean;
    use super::*;

    fn row(percent: u32, found: NeededMultiple) -> Row {
        let zero = Mean::of(&[]);
        let point = Point {
            share: Share::percent(percent),
            asked: found.multiple(),
            multiple: zero,
            relative_wait: zero,
            relative_wait_by_work: zero,
            spread: (0.0, 0.0),
            longer: 0.0,
            utilisation: zero,
            utilisation_while_queued: zero,
            rejected: zero,
        };
        Row { found, point }
    }

    fn check(found: &[NeededMultiple], points: &[(u32, u32)], refuse_above: u32) {
        let rows = PERCENTS.into_iter().zip(found);
        let rows: Vec<Row> = rows.map(|(percent, found)| row(percent, *found)).collect();
        let points = points
            .iter()
            .map(|(p, n)| (Share::percent(*p), WaitMultiple(*n)));
        let wanted = Curve::new(points.collect(), Share::percent(refuse_above));
        assert_eq!(curve(&rows), wanted, "{found:?}");
    }

    #[test]
    fn curves_rise_and_end_where_no_notice_helps() {
        let (at, least) =
            (|n| NeededMultiple::At(WaitMultiple(n)), NeededMultiple::Lowest(WaitMultiple::ONE));
        let beyond = NeededMultiple::Above(WaitMultiple(16_000));
        let rising = [(0, 1000), (5, 1800), (10, 2900), (15, 4000)];
        check(&[at(1793), at(2900), at(3901), beyond], &rising, 15);
        let level = [(0, 1000), (5, 1000), (10, 2100), (15, 2100), (20, 2200)];
        check(&[least, at(2001), at(1500), at(2200)], &level, 20);
        check(&[beyond], &[(0, 1000)], 0);
        check(&[], &[(0, 1000)], 0);
    }
}
