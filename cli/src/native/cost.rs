//! `chist --cost`: what reservations cost, and the sum of each account.
//!
//! Live and ended ones that the controller remembers: what was quoted (base and extra), what
//! was charged so far or in the end, and how much of the booked time jobs inside used.

use crate::native::jobs::json_span;
use crate::native::record::{self, Clock, su};
use crate::native::reservations;
use crate::native::table::{Cell, Head, TableStyle, render};
use crate::times;
use cosy_model::reservation::ReservationInfo;
use cosy_model::{Span, Su, Time};
use cosy_view::reservation::ReservationList;
use jiff::Zoned;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// What one account's reservations come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sum {
    reservations: u64,
    base: Su,
    extra: Su,
    charged: Su,
    used_core_ms: i64,
}

/// Sums by account; reservations that no account pays for are under the empty name.
fn sums(all: &[ReservationInfo]) -> BTreeMap<&str, Sum> {
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    for r in all {
        let sum = sums.entry(r.account.as_deref().unwrap_or("")).or_default();
        sum.reservations += 1;
        sum.base = sum.base.plus(r.base);
        sum.extra = sum.extra.plus(r.extra);
        sum.charged = sum.charged.plus(r.charged);
        sum.used_core_ms = sum.used_core_ms.saturating_add(r.used_core_ms);
    }
    sums
}

/// Keeps those that end at `since` or later and begin before `until`.
pub fn within(all: &mut Vec<ReservationInfo>, since: Option<Time>, until: Option<Time>) {
    all.retain(|r| {
        since.is_none_or(|since| r.end >= since) && until.is_none_or(|until| r.start < until)
    });
}

/// A row for each reservation, and below that the sum of each account.
pub fn tables(all: &[ReservationInfo], now: &Zoned, look: TableStyle) -> String {
    let mut text = each(all, now, look);
    if !all.is_empty() {
        text.push('\n');
        text.push_str(&by_account(all, look));
    }
    text
}

fn each(all: &[ReservationInfo], now: &Zoned, look: TableStyle) -> String {
    let write = times::short;
    let columns = ReservationList::Bill.columns();
    record::list(columns, all, Clock { now, write }, look)
}

fn by_account(all: &[ReservationInfo], look: TableStyle) -> String {
    let heads = [
        Head::left("ACCOUNT"),
        Head::right("RESERVATIONS"),
        Head::right("BASE"),
        Head::right("EXTRA"),
        Head::right("CHARGED"),
        Head::right("CORE HOURS USED"),
    ];
    let row = |(name, sum): (&str, Sum)| -> Vec<Cell> {
        let name = if name.is_empty() { "-" } else { name };
        vec![
            name.into(),
            sum.reservations.to_string().into(),
            sum.base.to_string().into(),
            sum.extra.to_string().into(),
            sum.charged.to_string().into(),
            hours(sum.used_core_ms).into(),
        ]
    };
    let rows: Vec<Vec<Cell>> = sums(all).into_iter().map(row).collect();
    render(&heads, &rows, look)
}

/// With one decimal, rounded down.
fn hours(core_ms: i64) -> String {
    let tenths = core_ms.max(0) / 360_000;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Both as JSON.
pub fn json(all: &[ReservationInfo]) -> Json {
    let each: Vec<Json> = all.iter().map(reservations::json).collect();
    let accounts: Vec<Json> = sums(all)
        .into_iter()
        .map(|(name, sum)| {
            let name = Some(name).filter(|n| !n.is_empty());
            json!({
                "account": name, "reservations": sum.reservations, "base": su(sum.base),
                "extra": su(sum.extra), "charged": su(sum.charged),
                "used_core_seconds": json_span(Span(sum.used_core_ms)),
            })
        })
        .collect();
    json!({ "reservations": each, "accounts": accounts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::reservation::ReservationState;

    fn three() -> Vec<ReservationInfo> {
        // 8 cores for 2 h: 16 core-hours, 16 SU and 2.5 extra each.
        let mut all = vec![
            reservations::sample(7, "ann", ReservationState::Ended),
            reservations::sample(8, "bob", ReservationState::Confirmed),
            reservations::sample(9, "ann", ReservationState::Cancelled),
        ];
        all[0].charged = Su(18_500_000);
        all[0].used_core_ms = 4 * 3_600_000;
        all[2].account = None;
        all[2].charged = Su(1);
        all
    }

    #[test]
    fn sums_add_up() {
        let now = "2026-11-21T09:00:00+00:00[+00:00]".parse().unwrap();
        let text = tables(&three(), &now, TableStyle::default());
        let want = [
            "RESERVATION  NAME  USER  ACCOUNT  STATE      START     END       CORES  BASE  EXTRA   CHARGED  USED",
            "          7  resv  ann   physics  ended      12:00:00  14:00:00      8    16    2.5      18.5  25 %",
            "          8  resv  bob   physics  confirmed  12:00:00  14:00:00      8    16    2.5         0   0 %",
            "          9  resv  ann   -        cancelled  12:00:00  14:00:00      8    16    2.5  0.000001   0 %",
            "",
            "ACCOUNT  RESERVATIONS  BASE  EXTRA   CHARGED  CORE HOURS USED",
            "-                   1    16    2.5  0.000001              0.0",
            "physics             2    32      5      18.5              4.0",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), want);
        let json = json(&three());
        assert_eq!(json["accounts"][0]["account"], Json::Null);
        assert_eq!(json["accounts"][1]["charged"], 18.5);
        assert_eq!(json["accounts"][1]["used_core_seconds"], 4 * 3600);
        assert_eq!(json["reservations"][2]["id"], 9);
    }

    #[test]
    fn overflow_and_nothing_do_no_harm() {
        let mut all = three();
        for r in &mut all {
            (r.base, r.used_core_ms, r.cores) = (Su(i64::MAX), i64::MAX, 0);
        }
        let total = sums(&all)["physics"];
        assert_eq!((total.base, total.used_core_ms), (Su(i64::MAX), i64::MAX));
        assert_eq!(cosy_view::reservation::percent_used(&all[0]), None);
    }

    #[test]
    fn of_a_time() {
        let check = |since: Option<i64>, until: Option<i64>, want: usize| {
            let mut all = three();
            let (start, end) = (all[0].start, all[0].end);
            let since = since.map(|ms| end + Span(ms));
            let until = until.map(|ms| start + Span(ms));
            within(&mut all, since, until);
            assert_eq!(all.len(), want);
        };
        check(None, None, 3);
        check(Some(0), None, 3);
        check(Some(1), None, 0);
        check(None, Some(0), 0);
        check(None, Some(1), 3);
    }
}
