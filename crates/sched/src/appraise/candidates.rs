//! Which starts of a window are looked at.
//!
//! There are two kinds, and four that are always among them:
//! - the instants at which free resources change in the plan as it is: ends of running jobs,
//!   starts and ends of planned jobs and of reservations (pricing paper, section 3);
//! - starts with equal distances, a whole multiple of the least gap (what-if paper,
//!   section 4: "a limited number of time slots distributed over the interval");
//! - the earliest and the latest start of the window, the JOB placeholder's slot (section
//!   4.2), and the end of the plan, where nobody is delayed any more.
//!
//! When there are too many, the last four stay in this order, and each kind gets half of
//! the room that is left, or what the other kind does not need; the instants are thinned
//! out evenly.
//!
//! With a least gap of a second or more all starts are whole seconds, rounded up (the latest
//! down): instants that differ by milliseconds are one choice.
//!
//! What always holds: starts are sorted, each is there once, none is outside the window or
//! before now, and there are no more than asked for.

use cosy_model::{Span, Time};
use std::collections::BTreeSet;

const SECOND: Span = Span::from_secs(1);

/// A window of starts, and how many are wanted of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub earliest: Time,
    pub latest: Time,
    pub most: usize,
    pub gap: Span,
}

/// Candidate starts. `changes` are the instants at which free resources change, in any
/// order; `kept` the starts that stay when there are too many, the most important first.
pub(super) fn candidates(window: Window, kept: &[Time], changes: &[Time]) -> Vec<Time> {
    let grain = if window.gap >= SECOND { SECOND.0 } else { 1 };
    let window = Window {
        earliest: up(window.earliest, grain),
        latest: Time(window.latest.0.div_euclid(grain).saturating_mul(grain)),
        ..window
    };
    let Window {
        earliest, latest, ..
    } = window;
    if earliest > latest {
        return Vec::new();
    }
    let kept: Vec<Time> = kept.iter().map(|at| up(*at, grain)).collect();
    let changes: Vec<Time> = changes.iter().map(|at| up(*at, grain)).collect();
    let inside = |at: &&Time| (earliest..=latest).contains(*at);
    let kept = [earliest, latest].into_iter().chain(kept.iter().copied());
    let mut starts = BTreeSet::new();
    for at in kept.filter(|at| inside(&at)) {
        if starts.len() < window.most {
            starts.insert(at);
        }
    }
    let changes: BTreeSet<Time> = changes.iter().filter(inside).copied().collect();
    let room = window.most - starts.len();
    let own = changes.difference(&starts).count().min(room / 2);
    starts.extend(spaced(window, room - own));
    let changes: Vec<Time> = changes.difference(&starts).copied().collect();
    let left = window.most - starts.len();
    starts.extend(thinned(&changes, left));
    starts.into_iter().collect()
}

/// The next multiple of `grain` milliseconds.
fn up(at: Time, grain: i64) -> Time {
    let rest = at.0.rem_euclid(grain);
    Time(if rest == 0 {
        at.0
    } else {
        at.0.saturating_add(grain - rest)
    })
}

/// At most `most` starts between the ends of the window, all with the same distance.
fn spaced(window: Window, most: usize) -> impl Iterator<Item = Time> {
    let (first, last) = (i128::from(window.earliest.0), i128::from(window.latest.0));
    let gap = i128::from(window.gap.0.max(1));
    let parts = gap.saturating_mul(most as i128 + 1);
    let length = last - first;
    let step = gap.saturating_mul((length / parts + i128::from(length % parts != 0)).max(1));
    let starts = (1..=most as i128).map(move |at| first.saturating_add(step.saturating_mul(at)));
    let inside = starts.take_while(move |at| *at < last);
    inside.filter_map(|at| i64::try_from(at).ok().map(Time))
}

/// At most `most` of `all`, evenly.
fn thinned(all: &[Time], most: usize) -> impl Iterator<Item = Time> + '_ {
    let count = most.min(all.len());
    (0..count).map(move |at| all[(at as u128 * all.len() as u128 / count as u128) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(window: (i64, i64, usize, i64), kept: &[i64], changes: &[i64], wanted: &[i64]) {
        let times = |all: &[i64]| all.iter().copied().map(Time).collect::<Vec<_>>();
        let (earliest, latest, most, gap) = window;
        let asked = Window {
            earliest: Time(earliest),
            latest: Time(latest),
            most,
            gap: Span(gap),
        };
        let got = candidates(asked, &times(kept), &times(changes));
        assert_eq!(got, times(wanted), "{window:?} {kept:?} {changes:?}");
    }

    #[test]
    fn both_kinds_and_the_ends() {
        check((0, 100, 9, 40), &[], &[], &[0, 40, 80, 100]);
        check((0, 100, 9, 40), &[55], &[7, 101, -3, 7], &[0, 7, 40, 55, 80, 100]);
        check((5, 4, 9, 1), &[4], &[5], &[]);
        check((5, 5, 9, 1), &[4], &[5], &[5]);
    }

    #[test]
    fn too_many_are_thinned_out() {
        let changes: Vec<i64> = (1..100).collect();
        check((0, 100, 0, 1), &[50], &changes, &[]);
        check((0, 100, 1, 1), &[50], &changes, &[0]);
        check((0, 100, 2, 1), &[50], &changes, &[0, 100]);
        check((0, 100, 3, 1), &[50], &changes, &[0, 50, 100]);
        // Two of each kind: 34 and 68, and of the other 97 the first and the one in the middle.
        check((0, 100, 6, 1), &[], &changes, &[0, 1, 34, 50, 68, 100]);
        // One instant only: the rest is for the others.
        check((0, 100, 6, 1), &[], &[3], &[0, 3, 25, 50, 75, 100]);
        // No room between with that gap: all the rest is for the instants.
        check((0, 100, 5, 200), &[], &[1, 2, 3, 4, 5, 6], &[0, 1, 3, 5, 100]);
    }

    #[test]
    fn whole_seconds_with_a_gap_of_seconds() {
        check(
            (10, 9_999, 9, 4000),
            &[2_500],
            &[2_501, 2_999, 5_000],
            &[1_000, 3_000, 5_000, 9_000],
        );
        check((10, 999, 9, 1000), &[], &[], &[]);
    }

    #[test]
    fn absurd_windows() {
        let (least, most) = (i64::MIN, i64::MAX);
        check((least, most, 2, 0), &[], &[0], &[least, most]);
        check((least, most, 3, 999), &[0], &[], &[least, 0, most]);
        check((least, most, 3, most), &[0], &[], &[least / 1000 * 1000, 0, most / 1000 * 1000]);
        check((0, most, 3, 0), &[], &[], &[0, 1 << 62, most]);
    }

    /// What a calendar asks for, from whatever minute on and however busy the plan is.
    #[test]
    fn every_hour_of_a_week() {
        const MINUTE: i64 = 60_000;
        let week = 7 * 24 * 60 * MINUTE;
        for (changes, gap) in [(0, 15), (3, 15), (40, 15), (400, 15), (400, 30)] {
            let changes: Vec<Time> = (1..=changes).map(|at| Time(at * 7 * MINUTE)).collect();
            for minute in 0..1440 {
                let window = Window {
                    earliest: Time(minute * MINUTE),
                    latest: Time(week),
                    most: 2 * 7 * 24 + 8,
                    gap: Span(gap * MINUTE),
                };
                let got = candidates(window, &[Time(week / 3), Time(week / 2)], &changes);
                let far = got.windows(2).map(|pair| pair[1].0 - pair[0].0).max();
                assert!(far <= Some(60 * MINUTE), "from minute {minute}: {far:?}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn sorted_unique_bounded_and_inside(
            (earliest, length) in (-50i64..50, 0i64..200),
            most in 0usize..40,
            gap in -5i64..60,
            kept in prop::collection::vec(-100i64..300, 0..3),
            changes in prop::collection::vec(-100i64..300, 0..60),
        ) {
            let latest = earliest + length;
            let window = Window {
                earliest: Time(earliest),
                latest: Time(latest),
                most,
                gap: Span(gap),
            };
            let times = |all: &[i64]| all.iter().copied().map(Time).collect::<Vec<_>>();
            let got = candidates(window, &times(&kept), &times(&changes));
            prop_assert!(got.len() <= most);
            prop_assert!(got.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", got);
            prop_assert!(got.iter().all(|at| (earliest..=latest).contains(&at.0)));
            prop_assert!(most < 2 || got.contains(&Time(earliest)) && got.contains(&Time(latest)));
            let known: BTreeSet<i64> = kept.iter().chain(&changes).copied().collect();
            let even: Vec<i64> = got.iter().map(|at| at.0).filter(|at| !known.contains(at)).collect();
            let far = |pair: &[i64]| pair[1] - pair[0] >= gap || pair[1] == latest;
            prop_assert!(even.windows(2).all(far), "{:?}", even);
            let inside = known.iter().filter(|at| (earliest..=latest).contains(*at)).count();
            let spaced = (length / gap.max(1)) as usize;
            let all_there = known.iter().filter(|at| (earliest..=latest).contains(*at))
                .all(|at| got.contains(&Time(*at)));
            prop_assert!(all_there || inside + spaced + 2 > most, "room was left: {:?}", got);
        }
    }
}
