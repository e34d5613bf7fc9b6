//! How long before its start a reservation must be asked for, as a multiple n of the mean
//! wait w of queued jobs, and how n grows with the share p of reservations.
//!
//! Pure: whole numbers only (shares in basis points, multiples in thousandths), so that the
//! same figures give the same answer everywhere. It knows nothing of windows, clocks or
//! schedulers. What always holds: the points are sorted by share, and n never falls.
//!
//! Source: COSY paper, section 4.4 and figure 3.

use cosy_model::Span;
use std::fmt;

/// A share of requests in basis points: 10,000 are all of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Share(pub u32);

/// A multiple of the mean wait, in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct WaitMultiple(pub u32);

impl Share {
    /// The whole: every request, in ten-thousandths.
    pub const ALL: Self = Self(10_000);

    /// So many in a hundred.
    pub const fn percent(percent: u32) -> Self {
        Self(percent.saturating_mul(100))
    }

    /// `part` of `whole`, rounded down; none of nothing.
    pub fn of(part: u64, whole: u64) -> Self {
        let points = (u128::from(part) * 10_000).checked_div(u128::from(whole));
        Self(points.map_or(0, |points| points.min(10_000) as u32))
    }

    /// How many of `whole` that is, rounded to the nearest.
    pub fn count(self, whole: usize) -> usize {
        ((whole as u128 * u128::from(self.0) + 5_000) / 10_000) as usize
    }
}

impl WaitMultiple {
    /// Just the mean wait.
    pub const ONE: Self = Self(1000);

    /// The notice time that this multiple of `wait` is, rounded up to milliseconds.
    pub fn of(self, wait: Span) -> Span {
        let thousandths = i128::from(wait.ms()) * i128::from(self.0);
        let ms = thousandths.div_euclid(1000) + i128::from(thousandths.rem_euclid(1000) != 0);
        Span(i64::try_from(ms).unwrap_or(i64::MAX))
    }
}

/// In per cent: `7.5`.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        decimal(f, self.0, 100)
    }
}

/// A decimal fraction, such as `1.25`.
impl fmt::Display for WaitMultiple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        decimal(f, self.0, 1000)
    }
}

/// `units / one` as a decimal fraction without zeros at its end; `one` is a power of ten.
fn decimal(f: &mut fmt::Formatter<'_>, units: u32, one: u32) -> fmt::Result {
    let digits = one.ilog10() as usize;
    let fraction = format!("{:0digits$}", units % one);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    f.pad(&format!("{}{point}{fraction}", units / one))
}

/// Most points of a curve.
pub const MOST_POINTS: usize = 100;

/// n over p, linear between its points; before the first point it is as there, and so it is
/// behind the last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Curve {
    points: Vec<(Share, WaitMultiple)>,
    refuse_above: Share,
}

/// Why points are no curve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadCurve {
    /// None, or too many.
    #[error("a notice curve has 1 to {MOST_POINTS} points, not {0}")]
    Points(usize),
    /// A share is not larger than the one before it, or larger than all requests.
    #[error("the share {0} % of a notice curve is not above the one before it, or above 100 %")]
    Share(Share),
    /// A multiple is smaller than the one before it.
    #[error("the notice at {0} % is {1}, less than at the point before it")]
    Falls(Share, WaitMultiple),
}

impl Curve {
    /// A curve through `points`; above `refuse_above` reservations are refused.
    pub fn new(points: Vec<(Share, WaitMultiple)>, refuse_above: Share) -> Result<Self, BadCurve> {
        if points.is_empty() || points.len() > MOST_POINTS {
            return Err(BadCurve::Points(points.len()));
        }
        for pair in points.windows(2) {
            let ((before, low), (share, multiple)) = (pair[0], pair[1]);
            if share <= before {
                return Err(BadCurve::Share(share));
            }
            if multiple < low {
                return Err(BadCurve::Falls(share, multiple));
            }
        }
        let largest = points.iter().map(|(share, _)| *share).chain([refuse_above]);
        match largest.max().filter(|share| *share > Share::ALL) {
            Some(share) => Err(BadCurve::Share(share)),
            None => Ok(Self {
                points,
                refuse_above,
            }),
        }
    }

    /// Its points, by share.
    pub fn points(&self) -> &[(Share, WaitMultiple)] {
        &self.points
    }

    /// n while reservations are `share` of all accepted requests, rounded up; `None`: no
    /// reservation is accepted until the share has fallen.
    pub fn at(&self, share: Share) -> Option<WaitMultiple> {
        if share > self.refuse_above {
            return None;
        }
        let next = self.points.partition_point(|(known, _)| *known < share);
        let after = self.points.get(next);
        let before = next.checked_sub(1).and_then(|last| self.points.get(last));
        match (before, after) {
            (Some(before), Some(after)) => Some(between(*before, *after, share)),
            (Some((_, only)), None) | (None, Some((_, only))) => Some(*only),
            (None, None) => None,
        }
    }

    /// Above this share no reservation is accepted.
    pub fn refuse_above(&self) -> Share {
        self.refuse_above
    }

    /// The lines of a configuration that say the same.
    pub fn to_toml(&self) -> String {
        let point = |(share, multiple): &(Share, WaitMultiple)| match multiple.0 % 1000 {
            0 => format!("[{share}, {multiple}.0]"),
            _ => format!("[{share}, {multiple}]"),
        };
        let points: Vec<String> = self.points.iter().map(point).collect();
        format!(
            "[reservations]\n\
             # share of reservations in per cent, notice time in mean waits of queued jobs\n\
             notice = [{}]\n\
             refuse_above = {}\n",
            points.join(", "),
            self.refuse_above
        )
    }
}

fn between(low: (Share, WaitMultiple), high: (Share, WaitMultiple), share: Share) -> WaitMultiple {
    let run = u64::from(high.0.0 - low.0.0).max(1);
    let rise = u64::from(high.1.0 - low.1.0);
    let part = u64::from(share.0 - low.0.0);
    let up = (rise * part).div_ceil(run);
    WaitMultiple(
        low.1
            .0
            .saturating_add(u32::try_from(up).unwrap_or(u32::MAX)),
    )
}

/// The paper's: from 1 to 4 as the share goes from 0 to 15 %, and none above.
impl Default for Curve {
    fn default() -> Self {
        Self {
            points: vec![
                (Share(0), WaitMultiple::ONE),
                (Share::percent(15), WaitMultiple(4000)),
            ],
            refuse_above: Share::percent(15),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_papers_curve() {
        let curve = Curve::default();
        let at = |points| curve.at(Share(points)).map(|multiple| multiple.0);
        let wanted = [
            (0, Some(1000)),
            (1, Some(1002)),
            (500, Some(2000)),
            (1000, Some(3000)),
            (1499, Some(3998)),
            (1500, Some(4000)),
            (1501, None),
            (u32::MAX, None),
        ];
        for (points, multiple) in wanted {
            assert_eq!(at(points), multiple, "{points}");
        }
    }

    #[test]
    fn curves_are_written_as_configuration() {
        let points = vec![
            (Share(0), WaitMultiple::ONE),
            (Share(750), WaitMultiple(1_830)),
        ];
        let curve = Curve::new(points, Share::percent(20)).unwrap();
        let lines = "[reservations]\n\
                     # share of reservations in per cent, notice time in mean waits of queued jobs\n\
                     notice = [[0, 1.0], [7.5, 1.83]]\n\
                     refuse_above = 20\n";
        assert_eq!(curve.to_toml(), lines);
        assert_eq!(curve.at(Share(1900)), Some(WaitMultiple(1830)));
        // 1 and 830 / 750 thousandths more.
        assert_eq!(curve.at(Share(1)), Some(WaitMultiple(1002)));
    }

    #[test]
    fn what_is_no_curve_is_refused() {
        let check = |points: &[(u32, u32)], above, wanted| {
            let points = points.iter().map(|(s, m)| (Share(*s), WaitMultiple(*m)));
            assert_eq!(Curve::new(points.collect(), Share(above)), Err(wanted));
        };
        check(&[], 0, BadCurve::Points(0));
        check(&[(0, 0); 101], 0, BadCurve::Points(101));
        check(&[(5, 1), (5, 2)], 9, BadCurve::Share(Share(5)));
        check(&[(5, 2), (6, 1)], 9, BadCurve::Falls(Share(6), WaitMultiple(1)));
        check(&[(10_001, 2)], 9, BadCurve::Share(Share(10_001)));
        check(&[(0, 2)], 10_001, BadCurve::Share(Share(10_001)));
    }

    #[test]
    fn shares_and_multiples_round_as_they_say() {
        assert_eq!(Share::of(1, 3), Share(3333));
        assert_eq!(Share::of(5, 0), Share(0));
        assert_eq!(Share::of(u64::MAX, 1), Share::ALL);
        assert_eq!(Share::percent(5).count(30), 2);
        assert_eq!(WaitMultiple(1500).of(Span(3)), Span(5));
        assert_eq!(WaitMultiple(u32::MAX).of(Span(i64::MAX)), Span(i64::MAX));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn n_never_falls_and_stays_between_its_points(
            points in prop::collection::btree_map(0u32..=10_000, 0u32..1_000_000, 1..20),
            (low, high) in (0u32..=10_000, 0u32..=10_000),
        ) {
            let mut most = 0;
            let rising = |(share, up): (&u32, &u32)| {
                most = (*up).max(most);
                (Share(*share), WaitMultiple(most))
            };
            let points: Vec<_> = points.iter().map(rising).collect();
            let (first, last) = (points[0].1, points[points.len() - 1].1);
            let curve = Curve::new(points, Share::ALL).unwrap();
            let at = |points| curve.at(Share(points)).unwrap();
            prop_assert!(at(low.min(high)) <= at(low.max(high)));
            prop_assert!((first..=last).contains(&at(low)));
        }
    }
}
