//! What remains charged of a reservation that ends before its end, and what a longer one
//! costs more.
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
//! by them any more and is charged. One that has begun costs the time used, but at least
//! what giving it back just before its start would have cost: else one would let it begin
//! and end it at once.
//!
//! What always holds: never less than nothing and never more than what was charged remains;
//! the later it ends, the more.
//!
//! Source: issue of advance reservations, "Admission" and "Money"; the papers charge
//! everything and cancel nothing.

use crate::config::EarlyEnd;
use cosy_model::{Span, Su, Time};

/// What the sum that remains depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Terms {
    /// Start.
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
    /// What is given back once it has begun.
    pub early_end: EarlyEnd,
}

/// How a reservation ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// Given back by its owner or an administrator, or its work is done.
    Given,
    /// Nothing was started in it in time.
    Unused,
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
        Ending::Unused => charged,
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

/// p·n·d and f of the difference between a reservation and the longer one that takes its
/// place; neither is below zero.
pub(crate) fn difference(before: (Su, Su), after: (Su, Su)) -> (Su, Su) {
    let more = |before: Su, after: Su| after.minus(before).max(Su::ZERO);
    (more(before.0, after.0), more(before.1, after.1))
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
    let free = is_free(terms, now);
    let least = if free { Span::ZERO } else { notice(terms) };
    now.max(terms.start + least)
}

fn is_free(terms: &Terms, now: Time) -> bool {
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
