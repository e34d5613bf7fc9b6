//! A quote as text: first what plain queueing would give, then the slots as a table and a
//! chart, then what the pick means, the rules and the account.

use crate::native::record::{self, TimeStyle};
use crate::native::resv::chart::{self, ChartStyle};
use crate::native::resv::words;
use crate::native::table::{self, TableStyle};
use cosy_model::reservation::{Quote, QuotedSlot, RoomMaker};
use cosy_model::{JobId, Span, Su, Time};
use cosy_view::quote::{slot_columns, slot_rows};
use cosy_view::words::counted;
use cosy_view::words::room_makers::in_words;
use cosy_view::words::slot_hint::bare_reason;
use jiff::Zoned;

/// The user's own delayed jobs that are named, at most; they come worst first.
const NAMED_JOBS: usize = 6;

/// A quote as text; at most `most` slots in the table, all without.
pub fn text(
    quote: &Quote,
    now: &Zoned,
    most: Option<usize>,
    table_style: TableStyle,
    chart_style: ChartStyle,
) -> String {
    let broken = |text: String| table::sentences(&text, table_style.width);
    let mut text = broken(plain_line(quote, now));
    if quote.slots.is_empty() {
        text.push_str("There is no slot in that window.\n");
    } else {
        let places = places(quote, most.unwrap_or(usize::MAX));
        text.push('\n');
        text.push_str(&slots_table(quote, &places, now, table_style));
        let hidden = quote.slots.len() - places.len();
        if hidden > 0 {
            let slots = words::count(hidden as u64, "slot", "slots");
            text.push_str(&format!("{slots} more: --all-slots shows them.\n"));
        }
        text.push_str(&chart::draw(quote, now, chart_style));
        text.push('\n');
        text.push_str(&broken(pick_lines(quote, now)));
    }
    text.push_str(&broken(rule_lines(quote, now)));
    text
}

/// The line about a plain job, which stands before any price.
pub fn plain_line(quote: &Quote, now: &Zoned) -> String {
    match quote.plain_start {
        None => "When a plain job of this size would start cannot be told now; \
                 it would cost nothing extra.\n"
            .to_owned(),
        Some(at) if at <= quote.now + Span::from_secs(1) => {
            "A plain job of this size would start now and cost nothing extra.\n".to_owned()
        }
        Some(at) => format!(
            "A plain job of this size would start about {} and cost nothing extra.\n",
            words::clock(whole_minute(at), now)
        ),
    }
}

/// The next full minute, for "about".
fn whole_minute(at: Time) -> Time {
    const MINUTE: i64 = 60_000;
    let rest = at.0.rem_euclid(MINUTE);
    at + Span(if rest == 0 { 0 } else { MINUTE - rest })
}

/// The reason at the first slot that cannot be taken.
pub fn first_reason(quote: &Quote, now: &Zoned) -> Option<String> {
    let mut reasons = quote.slots.iter().map(|s| s.reason.as_str());
    let first = reasons.find(|r| !r.is_empty())?;
    Some(words::local_times(first, now))
}

/// Indices of at most `most` slots for the table: the pick, the first (why not at once?), a few of
/// the cheapest, then the earliest that are free.
fn places(quote: &Quote, most: usize) -> Vec<usize> {
    const CHEAPEST: usize = 3;
    let mut by_price: Vec<usize> = (0..quote.slots.len())
        .filter(|at| quote.slots[*at].admitted)
        .collect();
    by_price.sort_by_key(|at| (quote.slots[*at].price(), *at));
    let pick = quote.choice.map(|c| c as usize);
    let request = pick
        .into_iter()
        .filter(|at| *at < quote.slots.len())
        .chain((!quote.slots.is_empty()).then_some(0))
        .chain(by_price.into_iter().take(CHEAPEST))
        .chain((0..quote.slots.len()).filter(|at| quote.slots[*at].feasible))
        .chain(0..quote.slots.len());
    let mut places = Vec::new();
    for at in request {
        if places.len() >= most {
            break;
        }
        if !places.contains(&at) {
            places.push(at);
        }
    }
    places.sort_unstable();
    places
}

fn slots_table(quote: &Quote, places: &[usize], now: &Zoned, style: TableStyle) -> String {
    let rows = slot_rows(quote, places);
    record::list(&slot_columns(), &rows, TimeStyle::in_words(now), style)
}

fn pick_lines(quote: &Quote, now: &Zoned) -> String {
    let slot = quote.choice.and_then(|c| quote.slots.get(c as usize));
    let Some(slot) = slot else {
        return refused_lines(quote, now);
    };
    let mut text = format!(
        "The pick: {} on {}, {} ({} for the time, {} for the delay of others).\n",
        words::clocks(slot.start, slot.end, now),
        words::clean(&slot.nodes),
        words::su(slot.price()),
        words::price(slot.base),
        words::price(slot.extra)
    );
    text.push_str(&cheaper_line(quote, slot, now));
    text.push_str(&licenses_line(quote, slot));
    text.push_str(&room_line(&slot.preempts));
    if !slot.own_delayed.is_empty() {
        text.push_str(&format!(
            "It delays jobs of yours: {}.\n",
            delayed_jobs_list(&slot.own_delayed)
        ));
    }
    text
}

/// Why none can be had: the first reason, and that of the last start where it is another.
fn refused_lines(quote: &Quote, now: &Zoned) -> String {
    let first = first_reason(quote, now).unwrap_or_default();
    let mut text = format!("None of them can be taken now. The first: {first}\n");
    let last = quote
        .slots
        .last()
        .map_or("", |slot| bare_reason(&slot.reason));
    let begin = |reason: &str| reason.split(' ').next().map(str::to_owned);
    if !last.is_empty() && begin(last) != begin(&first) {
        text.push_str(&format!("The last: {}\n", words::local_times(last, now)));
    }
    text
}

/// Where a later start costs half as much or less: the first of these, and the cheapest.
fn cheaper_line(quote: &Quote, pick: &QuotedSlot, now: &Zoned) -> String {
    let price = |slot: &QuotedSlot| i128::from(slot.price().0);
    let much_cheaper = |s: &&QuotedSlot| {
        s.admitted
            && s.start > pick.start
            && price(s) * 2 <= price(pick)
            && s.price() < pick.price()
    };
    let cheaper: Vec<&QuotedSlot> = quote.slots.iter().filter(much_cheaper).collect();
    let cheapest = cheaper.iter().min_by_key(|s| (s.price(), s.start));
    let (Some(first), Some(cheapest)) = (cheaper.first(), cheapest) else {
        return String::new();
    };
    let start = words::clock(first.start, now);
    let mut text = format!("A start at {start} costs {}", words::su(first.price()));
    if first.start != cheapest.start {
        let (start, sum) = (words::clock(cheapest.start, now), words::su(cheapest.price()));
        text.push_str(&format!(" and the cheapest one, at {start}, {sum}"));
    }
    text.push_str(" (--cheapest)");
    if let Some(tenths) = (price(pick) * 10).checked_div(price(cheapest)) {
        let times = format!("{}.{}", tenths / 10, tenths % 10);
        let times = times.trim_end_matches(".0");
        text.push_str(&format!(": this one costs {times} times as much"));
    }
    text + ".\n"
}

/// Which running jobs make room for a reservation; nothing where none does.
pub fn room_line(makers: &[RoomMaker]) -> String {
    match makers.is_empty() {
        true => String::new(),
        false => {
            format!("Running jobs make room for it: {}.\n", words::clean(&in_words(makers)))
        }
    }
}

fn licenses_line(quote: &Quote, slot: &QuotedSlot) -> String {
    if quote.licenses.is_empty() {
        return String::new();
    }
    let licences = words::clean(&counted::write(&quote.licenses));
    match slot.license_price {
        Su::ZERO => format!("It keeps the licences {licences}, which cost nothing.\n"),
        price => {
            let price = words::su(price);
            format!("It keeps the licences {licences}: {price} of what the time costs.\n")
        }
    }
}

fn delayed_jobs_list(jobs: &[(JobId, Span)]) -> String {
    let each = jobs.iter().take(NAMED_JOBS);
    let each: Vec<_> = each
        .map(|(job, by)| format!("{job} by {}", words::span(*by)))
        .collect();
    let more = if jobs.len() > NAMED_JOBS {
        " and more"
    } else {
        ""
    };
    format!("{}{more}", each.join(", "))
}

fn rule_lines(quote: &Quote, now: &Zoned) -> String {
    let mut text = String::new();
    if let Some(at) = quote.notice_earliest {
        text.push_str(&format!(
            "The notice rule allows starts from {} on.\n",
            words::clock(at, now)
        ));
    }
    for rule in &quote.rules {
        text.push_str(&format!("Rule: {}\n", words::local_times(rule, now)));
    }
    match &quote.account {
        Some((name, Some(left))) => text.push_str(&account(name, *left)),
        Some((name, None)) => text.push_str(&format!(
            "Account {}: no budget, what is booked is only counted.\n",
            words::clean(name)
        )),
        None => {}
    }
    text
}

fn account(name: &str, left: Su) -> String {
    format!("Account {}: {} SU left.\n", words::clean(name), words::balance(left))
}

/// A quote for tests.
#[cfg(test)]
pub mod sample {
    use super::*;
    use crate::times::{self, Direction};
    use cosy_model::CountedResources;

    /// The present of the tests.
    pub fn now() -> Zoned {
        "2026-11-21T12:00:00+01:00[Europe/Berlin]".parse().unwrap()
    }

    /// A time as users type it.
    pub fn at(text: &str) -> Time {
        times::parse(text, &now(), Direction::Future).unwrap()
    }

    fn slot(start: &str, extra: i64, jobs: u32, minutes: i64) -> QuotedSlot {
        QuotedSlot {
            start: at(start),
            end: at(start) + Span::from_minutes(120),
            feasible: true,
            admitted: true,
            reason: String::new(),
            availability_ppm: 1_000_000 - jobs * 100_000,
            by_load: jobs < 2,
            base: Su::whole(8),
            license_price: Su::ZERO,
            extra: Su(extra),
            delayed_jobs: jobs,
            total_delay: Span::from_minutes(minutes),
            own_delayed: Vec::new(),
            nodes: "n[1-4]".to_owned(),
            preempts: Vec::new(),
        }
    }

    /// One that is not free, one that is refused, three that can be had.
    pub fn quote() -> Quote {
        let blocked = QuotedSlot {
            feasible: false,
            admitted: false,
            reason: "not free: job 7 runs on n[1-2] until 13:30".to_owned(),
            ..slot("12:30", 0, 0, 0)
        };
        let refused = QuotedSlot {
            admitted: false,
            reason: "notice: 1 h 30 min are too short, 1 h 52 min are needed".to_owned(),
            ..slot("13:30", 4_500_000, 3, 95)
        };
        let mut picked = slot("14:20", 1_501_667, 2, 40);
        picked.own_delayed = vec![(JobId(12), Span::from_minutes(20))];
        let slots = vec![
            blocked,
            refused,
            picked,
            slot("16:00", 0, 0, 0),
            slot("18:00", 0, 0, 0),
        ];
        Quote {
            now: at("12:00"),
            queue: "day".to_owned(),
            plain_start: Some(at("14:19:30")),
            slots,
            choice: Some(2),
            notice_earliest: Some(at("13:52")),
            rules: vec!["notice: n(p) 1.9 x mean wait 58 min".to_owned()],
            account: Some(("phys".to_owned(), Some(Su(100_250_000)))),
            licenses: CountedResources::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(quote: &Quote, most: Option<usize>) -> String {
        text(quote, &sample::now(), most, TableStyle::default(), ChartStyle::plain(60))
    }

    #[test]
    fn a_quote() {
        let got = shown(&sample::quote(), None);
        let want = "\
A plain job of this size would start about 14:20 and cost nothing extra.

   START  END    PRICE SU  DELAYS          BY  VERDICT
   12:30  14:30         -       -           -  not free: job 7 runs on n[1-2] until 13:30
   13:30  15:30      12.5  3 jobs  1 h 35 min  notice: 1 h 30 min are too short, 1 h 52 min are needed
>  14:20  16:20      9.51  2 jobs      40 min  can be had on n[1-4]
   16:00  18:00         8    none              can be had on n[1-4]
   18:00  20:00         8    none              can be had on n[1-4]
";
        assert!(got.starts_with(want), "{got}");
        let end = "
The pick: 14:20 to 16:20 on n[1-4], 9.51 SU (8 for the time, 1.51 for the delay of others).
It delays jobs of yours: 12 by 20 min.
The notice rule allows starts from 13:52 on.
Rule: notice: n(p) 1.9 x mean wait 58 min
Account phys: 100.25 SU left.
";
        assert!(got.ends_with(end), "{got}");
    }

    #[test]
    fn the_plain_line_comes_first() {
        let check = |plain: Option<&str>, want: &str| {
            let quote = Quote {
                plain_start: plain.map(sample::at),
                ..sample::quote()
            };
            let got = shown(&quote, None);
            assert!(got.lines().next().unwrap().contains(want), "{got}");
        };
        check(Some("12:00"), "would start now and cost nothing extra");
        check(Some("14:20"), "about 14:20 and cost nothing");
        check(Some("2027-01-03 10:00"), "about 2027-01-03 10:00");
        check(None, "cannot be told now");
    }

    #[test]
    fn few_of_many() {
        let check = |most, want: &[usize]| assert_eq!(places(&sample::quote(), most), want);
        check(0, &[]);
        check(1, &[2]);
        check(2, &[0, 2]);
        check(3, &[0, 2, 3]);
        check(4, &[0, 2, 3, 4]);
        check(99, &[0, 1, 2, 3, 4]);
        assert!(shown(&sample::quote(), Some(3)).contains("2 slots more: --all-slots"));
    }

    #[test]
    fn a_reason_is_told_once() {
        let mut quote = sample::quote();
        let hint = "; the earliest start that passes is 2026-11-21T13:20:00Z";
        for slot in &mut quote.slots[..2] {
            slot.reason = format!("quota: 2 are open{hint}");
        }
        let got = shown(&quote, None);
        assert_eq!(got.matches("quota: 2 are open\n").count(), 1, "{got}");
        assert_eq!(got.matches("  the same\n").count(), 1, "{got}");
        // Its own times make no difference.
        let mut busy = quote.clone();
        for slot in &mut busy.slots[..2] {
            let start = cosy_view::words::moment::utc(slot.start);
            slot.reason = format!("not free from {start} on{hint}");
        }
        let got = shown(&busy, None);
        assert_eq!(got.matches("  not free from 12:30 on\n").count(), 1, "{got}");
        assert_eq!(got.matches("  the same\n").count(), 1, "{got}");
        quote.choice = None;
        let got = shown(&quote, None);
        assert!(got.contains("passes is 14:20\n"), "{got}");
    }

    #[test]
    fn what_a_later_start_saves() {
        let check = |extra: i64, later: i64, want: &str| {
            let mut quote = sample::quote();
            quote.slots[2].extra = Su(extra);
            for slot in &mut quote.slots[3..] {
                slot.base = Su(later);
            }
            let got = shown(&quote, None);
            let line = got.lines().find(|line| line.contains("--cheapest"));
            assert_eq!(line.unwrap_or_default(), want, "{got}");
        };
        let later = "A start at 16:00 costs 8 SU (--cheapest): this one costs";
        check(17_000_000, 8_000_000, &format!("{later} 3.1 times as much."));
        check(8_000_000, 8_000_000, &format!("{later} 2 times as much."));
        check(7_999_999, 8_000_000, "");
        check(0, 0, "A start at 16:00 costs 0 SU (--cheapest).");
        check(-8_000_000, 0, "");
        let mut quote = sample::quote();
        quote.slots[2].extra = Su::whole(24);
        quote.slots[4].base = Su::whole(4);
        let got = shown(&quote, None);
        let line = "A start at 16:00 costs 8 SU and the cheapest one, at 18:00, 4 SU (--cheapest): \
                    this one costs 8 times as much.\n";
        assert!(got.contains(line), "{got}");
    }

    #[test]
    fn nothing_to_be_had() {
        let none = Quote {
            choice: None,
            ..sample::quote()
        };
        let got = shown(&none, None);
        assert!(got.contains("None of them can be taken now. The first: not free: job 7"));
        assert!(!got.contains("The last"), "{got}");
        let mut refused = none;
        refused.slots[4].reason =
            "quota: 2 are open; none of the 5 starts in the window passes".into();
        let got = shown(&refused, None);
        assert!(got.contains("\nThe last: quota: 2 are open\n"), "{got}");
        let empty = Quote {
            slots: Vec::new(),
            choice: Some(3),
            account: Some(("a".into(), None)),
            ..sample::quote()
        };
        let got = shown(&empty, None);
        assert!(got.contains("There is no slot in that window.\n"), "{got}");
        assert!(got.contains("only counted"), "{got}");
    }
}
