//! `chist --cost`: what reservations cost, and the sum of each account.
//!
//! Live and ended ones that the controller remembers: what was quoted (base and extra), what
//! was charged so far or in the end, and how much of the booked time jobs inside used.

use crate::native::record::{self, TimeStyle};
use crate::native::reservations;
use crate::native::table::TableStyle;
use cosy_model::Time;
use cosy_model::reservation::ReservationInfo;
use cosy_view::account;
use cosy_view::reservation::ReservationList;
use jiff::Zoned;
use serde_json::{Value as Json, json};

/// Keeps those that end at `since` or later and begin before `until`.
pub fn keep_period(all: &mut Vec<ReservationInfo>, since: Option<Time>, until: Option<Time>) {
    all.retain(|r| {
        since.is_none_or(|since| r.end >= since) && until.is_none_or(|until| r.start < until)
    });
}

/// A row for each reservation, and below that the sum of each account.
pub fn tables(all: &[ReservationInfo], now: &Zoned, style: TableStyle) -> String {
    let mut text = each(all, now, style);
    if !all.is_empty() {
        text.push('\n');
        text.push_str(&by_account(all, now, style));
    }
    text
}

fn each(all: &[ReservationInfo], now: &Zoned, style: TableStyle) -> String {
    record::list(ReservationList::Bill.columns(), all, TimeStyle::in_lists(now), style)
}

fn by_account(all: &[ReservationInfo], now: &Zoned, style: TableStyle) -> String {
    record::list(account::SUMS, &account::sums(all), TimeStyle::in_lists(now), style)
}

/// The reservations and the sums of accounts as JSON.
pub fn json(all: &[ReservationInfo]) -> Json {
    let each: Vec<Json> = all.iter().map(reservations::json).collect();
    let sums = account::sums(all);
    let accounts: Vec<Json> = sums
        .iter()
        .map(|sum| record::json(&account::sum_fields(sum)))
        .collect();
    json!({ "reservations": each, "accounts": accounts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::reservation::ReservationState;
    use cosy_model::{Span, Su};

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
        let sums = account::sums(&all);
        let total = &sums[1];
        assert_eq!(total.account.as_deref(), Some("physics"));
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
            keep_period(&mut all, since, until);
            assert_eq!(all.len(), want);
        };
        check(None, None, 3);
        check(Some(0), None, 3);
        check(Some(1), None, 0);
        check(None, Some(0), 0);
        check(None, Some(1), 3);
    }
}
