//! What remains charged of a reservation that ends before its end. One that nobody used
//! stays charged whole, and a longer one is charged like a new one; nothing is to be found
//! out for either.
//!
//! The sum charged is p·n·d + f; what is given back is a part of both alike, in proportion
//! to the time given back, since f was paid for the whole slot's being in the way.
//!
//! ```text
//!   confirmed      free until        start                         end
//!      |--- nothing ---|-- [start, now + notice) --|-- [start, now) --|   remains charged
//! ```
//!
//! `free until` is start − notice, with the notice that the rule asked for at confirmation,
//! and never before the hold would have expired. Behind it others have less time than the
//! notice to plan with what comes free, so what lies in the next notice time cannot be used
//! by them any more and is charged. One that has begun costs the time that it has lasted;
//! but if it was hardly used, at least what giving it back just before its start would have
//! cost: else one would let it begin and end it at once.
//!
//! What always holds: never less than nothing and never more than what was charged remains;
//! the later it ends, the more, unless it is used.
//!
//! Source: issue of advance reservations, "Admission" and "Money"; the papers charge
//! everything and cancel nothing.

use crate::config::EarlyEnd;
use cosy_model::{Span, Su, Time};

/// What the sum that remains depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Terms {
    /// Planned start of the reservation.
    pub start: Time,
    /// End as promised.
    pub end: Time,
    /// Charged so far.
    pub charged: Su,
    /// The notice limit; `None`: no notice was asked for, the start is the limit.
    pub free_until: Option<Time>,
    /// When the hold expires or would have expired.
    pub hold_until: Option<Time>,
    /// Whether cancelling late costs anything.
    pub fee: bool,
    /// Hardly anything ran in it.
    pub idle: bool,
    /// What is given back once it has begun.
    pub early_end: EarlyEnd,
}

/// How a reservation ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// Given back by its owner or an administrator, or its work is done.
    Given,
    /// Its nodes were not there.
    Failed,
}

/// The notice limit of a start: until then cancelling is free.
pub(crate) fn free_until(start: Time, notice: Span) -> Time {
    start - notice
}

/// What remains charged when it ends like this now.
pub(crate) fn remains(terms: &Terms, ending: Ending, now: Time) -> Su {
    let charged = terms.charged.max(Su::ZERO);
    match ending {
        Ending::Failed => Su::ZERO,
        Ending::Given if now < terms.start => part(terms, lost_before_start(terms, now)),
        Ending::Given => match terms.early_end {
            EarlyEnd::Charge => charged,
            EarlyEnd::Refund => part(terms, lost_after_start(terms, now)),
        },
    }
}

/// What is given back when it ends like this now.
pub(crate) fn given_back(terms: &Terms, ending: Ending, now: Time) -> Su {
    let charged = terms.charged.max(Su::ZERO);
    charged.minus(remains(terms, ending, now))
}

/// Until when of the slot nobody else can use it.
fn lost_before_start(terms: &Terms, now: Time) -> Time {
    let free = is_free(terms, now);
    if free {
        terms.start
    } else {
        now + notice(terms)
    }
}

fn lost_after_start(terms: &Terms, now: Time) -> Time {
    let late = terms.idle && !is_free(terms, now);
    let least = if late { notice(terms) } else { Span::ZERO };
    now.max(terms.start + least)
}

/// Whether giving it back costs nothing but the time used.
pub(crate) fn is_free(terms: &Terms, now: Time) -> bool {
    let limits = [terms.free_until, terms.hold_until];
    let last = limits.into_iter().flatten().max();
    !terms.fee || last.is_none_or(|last| now <= last)
}

fn notice(terms: &Terms) -> Span {
    let limit = terms.free_until.unwrap_or(terms.start);
    terms.start.since(limit)
}

/// The part of the charge that [start, until) is of the slot, rounded up.
fn part(terms: &Terms, until: Time) -> Su {
    let charged = i128::from(terms.charged.0.max(0));
    let whole = i128::from(terms.end.since(terms.start).ms());
    let lost = i128::from(until.since(terms.start).ms()).min(whole);
    let sum = charged * lost;
    let up = i128::from(whole > 0 && sum % whole != 0);
    let part = sum.checked_div(whole).unwrap_or(0) + up;
    Su(i64::try_from(part).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(minutes: i64) -> Time {
        Time::EPOCH + Span::from_minutes(minutes)
    }

    /// 100 minutes for 100 SU, begins at 1000, notice 40 minutes, held until 5.
    fn terms() -> Terms {
        Terms {
            start: at(1000),
            end: at(1100),
            charged: Su::whole(100),
            free_until: Some(free_until(at(1000), Span::from_minutes(40))),
            hold_until: Some(at(5)),
            fee: true,
            idle: true,
            early_end: EarlyEnd::Refund,
        }
    }

    fn check(tweak: fn(&mut Terms), ending: Ending, now: i64, wanted: i64) {
        let mut terms = terms();
        tweak(&mut terms);
        let got = remains(&terms, ending, at(now));
        assert_eq!(got, Su::whole(wanted), "{ending:?} at {now}");
        let back = given_back(&terms, ending, at(now));
        assert_eq!(got.plus(back), terms.charged.max(Su::ZERO));
    }

    #[test]
    fn cancelled_before_the_start() {
        let check = |tweak, now, wanted| check(tweak, Ending::Given, now, wanted);
        check(|_| (), 0, 0);
        check(|_| (), 960, 0); // the notice limit
        check(|_| (), 961, 1); // others cannot use the first minute
        check(|_| (), 980, 20);
        check(|_| (), 999, 39);
        check(|t| t.fee = false, 999, 0);
        check(|t| t.free_until = None, 999, 0);
        check(|t| t.free_until = Some(at(800)), 999, 100); // longer than the slot
        check(|t| t.hold_until = Some(at(981)), 980, 0);
        check(|t| t.hold_until = Some(at(979)), 980, 20);
        check(|t| t.early_end = EarlyEnd::Charge, 980, 20);
    }

    #[test]
    fn ended_after_the_start() {
        let check = |tweak, now, wanted| check(tweak, Ending::Given, now, wanted);
        check(|_| (), 1000, 40); // no cheaper than a moment before
        check(|_| (), 1039, 40);
        check(|_| (), 1041, 41);
        check(|_| (), 1100, 100);
        check(|_| (), 2000, 100);
        check(|t| t.fee = false, 1010, 10);
        check(|t| t.idle = false, 1010, 10);
        check(|t| t.free_until = None, 1010, 10);
        check(|t| t.hold_until = Some(at(1005)), 1003, 3); // begun at once after booking
        check(|t| t.early_end = EarlyEnd::Charge, 1000, 100);
    }

    #[test]
    fn failed() {
        check(|_| (), Ending::Failed, 1015, 0);
        check(|t| t.charged = Su(-5), Ending::Given, 1015, 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The later it ends, the more remains, and never more than was charged.
        #[test]
        fn the_later_the_more(
            (start, length, notice) in (0i64..5000, 0i64..5000, 0i64..9000),
            (charged, hold) in (0i64..1_000_000_000_000, 0i64..500),
            (fee, idle, refund) in any::<(bool, bool, bool)>(),
            mut times in prop::collection::vec(-100i64..11_000, 2..20),
        ) {
            let terms = Terms {
                start: at(start),
                end: at(start + length),
                charged: Su(charged),
                free_until: Some(free_until(at(start), Span::from_minutes(notice))),
                hold_until: Some(at(hold)),
                fee,
                idle,
                early_end: if refund { EarlyEnd::Refund } else { EarlyEnd::Charge },
            };
            // Nothing can have run in it before its start.
            times.retain(|now| idle || *now >= start);
            times.sort_unstable();
            let kept = times.iter().map(|now| remains(&terms, Ending::Given, at(*now)));
            let kept: Vec<_> = kept.collect();
            prop_assert!(kept.is_sorted(), "{:?}", kept);
            prop_assert!(kept.iter().all(|sum| *sum >= Su::ZERO && *sum <= terms.charged));
        }

        #[test]
        fn absurd_terms(
            (start, end, now) in any::<(i64, i64, i64)>(),
            (charged, free, hold) in any::<(i64, Option<i64>, Option<i64>)>(),
        ) {
            let terms = Terms {
                start: Time(start),
                end: Time(end),
                charged: Su(charged),
                free_until: free.map(Time),
                hold_until: hold.map(Time),
                fee: true,
                idle: true,
                early_end: EarlyEnd::Refund,
            };
            let kept = remains(&terms, Ending::Given, Time(now));
            prop_assert!(kept >= Su::ZERO && kept <= Su(charged.max(0)));
        }
    }
}
