//! Starts at which every one of several clusters could have a slot.
//!
//! ```text
//! a:  |free      |busy  |free          candidates at 0, 30
//! b:       |free      |busy  |free     candidates at 10, 40
//! both:    10 (a as since 0)   40 (a as since 30)
//! ```
//!
//! A cluster's candidates are the instants at which its free resources change (pricing
//! paper, section 3), so between two of them it is taken to be as it was at the first: an
//! estimate, for prices change too. Only what a cluster says of the very start counts; the
//! estimate is for the order in which starts are tried.

use super::rank::{Preference, SlotScore, sort};
use super::{Cluster, ClusterError};
use cosy_model::reservation::{Quote, QuotedSlot};
use cosy_model::{Span, Su, Time};
use std::collections::BTreeSet;

/// Least time from now to a start on several clusters: holding and confirming takes time.
const LEAD: Span = Span::from_secs(60);

/// A start that all clusters may be able to offer.
#[derive(Clone, Copy, Debug)]
struct CommonStart {
    start: Time,
    price: Su,
    availability_ppm: u32,
    /// Whether all clusters are estimated to admit the start.
    likely: bool,
}

/// Starts to try, best first; none at which a cluster has said no.
pub(super) fn common_starts(quotes: &[&Quote], preference: Preference) -> Vec<Time> {
    let now = quotes.iter().map(|q| q.now).max().unwrap_or_default();
    let soonest = next_second(now + LEAD);
    let admitted = |q: &&Quote| -> Vec<Time> {
        let those = q.slots.iter().filter(|s| s.admitted);
        those.map(|s| s.start.max(soonest)).collect()
    };
    let starts: BTreeSet<Time> = quotes.iter().flat_map(admitted).collect();
    let mut all: Vec<CommonStart> = starts
        .into_iter()
        .filter_map(|start| estimate(quotes, start))
        .collect();
    sort(&mut all, preference, |c| SlotScore {
        start: c.start,
        price: c.price,
        availability_ppm: c.availability_ppm,
    });
    all.sort_by_key(|c| !c.likely);
    all.into_iter().map(|c| c.start).collect()
}

fn next_second(time: Time) -> Time {
    Time::from_secs(time.secs().saturating_add(1))
}

/// Price and availability of a start over all clusters; `None` where one has refused this very start.
fn estimate(quotes: &[&Quote], start: Time) -> Option<CommonStart> {
    let mut common = CommonStart {
        start,
        price: Su::ZERO,
        availability_ppm: u32::MAX,
        likely: true,
    };
    for quote in quotes {
        let Some(slot) = slot_at(quote, start) else {
            common.likely = false;
            continue;
        };
        if slot.start == start && !slot.admitted {
            return None;
        }
        common.likely &= slot.admitted;
        common.price = common.price.plus(slot.price());
        common.availability_ppm = common.availability_ppm.min(slot.availability_ppm);
    }
    Some(common)
}

/// The candidate at this time, else the last one before it.
fn slot_at(quote: &Quote, start: Time) -> Option<&QuotedSlot> {
    let before = quote.slots.iter().filter(|s| s.start <= start);
    before.max_by_key(|s| s.start)
}

/// The clusters whose quotes do not have this very start.
pub(super) fn without_quote(
    quotes: &[(Cluster, Result<Quote, ClusterError>)],
    start: Time,
) -> Vec<Cluster> {
    let known = |q: &Quote| q.slots.iter().any(|s| s.start == start);
    let open = |(_, quote): &&(Cluster, Result<Quote, ClusterError>)| {
        quote.as_ref().is_ok_and(|q| !known(q))
    };
    quotes.iter().filter(open).map(|(c, _)| c.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fake::{full, minutes, quote, slot};
    use super::*;

    fn check(quotes: Vec<Vec<QuotedSlot>>, preference: Preference, want: &[i64]) {
        let quotes: Vec<Quote> = quotes.into_iter().map(quote).collect();
        let quotes: Vec<&Quote> = quotes.iter().collect();
        let got = common_starts(&quotes, preference);
        let want: Vec<Time> = want.iter().map(|m| minutes(*m)).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn where_all_are_free() {
        let a = vec![slot(2, 4, 1), full(20), slot(50, 1, 1)];
        let b = vec![slot(10, 1, 1), full(40), slot(60, 1, 1)];
        let both = || vec![a.clone(), b.clone()];
        // 10 and 60: both admit; at 2 nobody knows of b, at 50 b is taken to be full.
        check(both(), Preference::Soonest, &[10, 60, 2, 50]);
        check(both(), Preference::Cheapest, &[60, 10, 50, 2]);
    }

    #[test]
    fn what_one_refuses_is_not_tried() {
        check(vec![vec![slot(10, 1, 1)], vec![full(10)]], Preference::Soonest, &[]);
        check(vec![vec![], vec![]], Preference::Soonest, &[]);
    }

    #[test]
    fn at_once_is_a_minute_ahead() {
        let quotes = quote(vec![slot(0, 1, 1)]);
        let got = common_starts(&[&quotes, &quotes], Preference::Soonest);
        assert_eq!(got, [Time::from_secs(61)]);
    }
}
