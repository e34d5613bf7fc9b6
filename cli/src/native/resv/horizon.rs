//! How far ahead a quote is drawn: a window may be weeks long, and mostly all late starts are
//! alike, because the plan of the queue ends long before.

use cosy_model::reservation::{Quote, QuotedSlot};
use cosy_model::{Span, Time};

/// The last start that is drawn: behind it none differs from the last one.
pub fn last_start(quote: &Quote) -> Option<Time> {
    let (first, last) = (quote.slots.first()?, quote.slots.last()?);
    let alike = quote.slots.iter().rev().take_while(|s| are_alike(s, last));
    let from = quote.slots.get(quote.slots.len() - alike.count())?;
    let pick = quote.choice.and_then(|at| quote.slots.get(at as usize));
    let telling = pick.map_or(from.start, |pick| pick.start.max(from.start));
    // Some room behind it, so that one sees that it goes on so.
    let room = Span(telling.since(first.start).0 / 3);
    match room {
        Span::ZERO => Some(last.start),
        room => Some((telling + room).min(last.start)),
    }
}

/// Whether it is all one which of the two starts is taken, but for the time.
fn are_alike(a: &QuotedSlot, b: &QuotedSlot) -> bool {
    let told = |s: &QuotedSlot| {
        let delays = (s.delayed_jobs, s.total_delay);
        (s.feasible, s.admitted, s.price(), delays)
    };
    told(a) == told(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::resv::slots::sample;

    #[test]
    fn what_is_drawn() {
        let check = |quote: &Quote, want: &str| {
            assert_eq!(last_start(quote), Some(sample::at(want)));
        };
        // From 16:00 on all are alike: 210 minutes from the first, and a third more.
        let mut quote = sample::quote();
        quote.slots[4].start = sample::at("2026-12-05 18:00");
        check(&quote, "17:10");
        // The pick is seen, wherever it is.
        quote.choice = Some(4);
        check(&quote, "2026-12-05 18:00");
        // None is like the last.
        quote.choice = None;
        quote.slots[4].delayed_jobs = 1;
        check(&quote, "2026-12-05 18:00");
        // All are alike.
        quote.slots.drain(..3);
        quote.slots[1].delayed_jobs = 0;
        check(&quote, "2026-12-05 18:00");
        quote.slots.clear();
        assert_eq!(last_start(&quote), None);
    }
}
