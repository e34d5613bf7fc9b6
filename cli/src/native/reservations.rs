//! Reservations as other commands than `cresv` show them: below the list of jobs, and as
//! JSON.
//!
//! The controller has left out what the user may not see; nothing is hidden here.

use crate::native::record::{self, TimeStyle};
use crate::native::table::TableStyle;
use cosy_model::reservation::ReservationInfo;
#[cfg(test)]
use cosy_model::{Su, reservation::ReservationState};
use cosy_view::reservation::{self, ReservationList};
use jiff::Zoned;
use serde_json::Value as Json;

/// A table of reservations with a title and at most `most` rows, then the number of others. Empty
/// without reservations.
pub fn list(all: &[ReservationInfo], now: &Zoned, style: TableStyle, most: usize) -> String {
    if all.is_empty() {
        return String::new();
    }
    let columns = ReservationList::BesideJobs.columns();
    let (shown, beyond) = all.split_at(all.len().min(most));
    let mut text = record::list(columns, shown, TimeStyle::in_lists(now), style);
    if !beyond.is_empty() {
        let beyond = beyond.len();
        text.push_str(&format!("and {beyond} more: cresv list shows all\n"));
    }
    text
}

/// A reservation as JSON: times in RFC 3339, lengths in seconds, sums in service units.
pub fn json(info: &ReservationInfo) -> Json {
    record::json(&reservation::fields(info))
}

/// A reservation for tests: two hours from noon on, of `user`.
#[cfg(test)]
pub fn sample(id: u64, user: &str, state: ReservationState) -> ReservationInfo {
    use cosy_model::{ReservationId, Span, Time, Uid};
    let noon = Time::from_secs(1_795_262_400);
    ReservationInfo {
        id: ReservationId(id),
        series: None,
        name: "resv".into(),
        name_given: true,
        user: user.into(),
        uid: Uid(1000),
        usable: true,
        account: Some("physics".into()),
        queue: "main".into(),
        state,
        degraded: false,
        start: noon,
        end: noon + Span::from_minutes(120),
        movable_from: None,
        hold_until: None,
        free_until: None,
        nodes: "n[1-2]".into(),
        node_count: 2,
        cores: 8,
        gpus: 0,
        licenses: Default::default(),
        base: Su::whole(16),
        extra: Su(2_500_000),
        charged: Su::ZERO,
        sharing: cosy_model::reservation::Sharing::default(),
        job: None,
        used_core_ms: 0,
        delayed_jobs: 0,
        total_delay: Span::ZERO,
        made: noon - Span::from_minutes(60),
        named: false,
        flags: Vec::new(),
        rule: String::new(),
        comment: String::new(),
        note: String::new(),
        preempts: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn morning() -> Zoned {
        "2026-11-21T09:00:00+00:00[+00:00]".parse().unwrap()
    }

    #[test]
    fn tables() {
        let mut all = vec![
            sample(7, "ann", ReservationState::Held),
            sample(8, "evil\u{1b}", ReservationState::Active),
            sample(9, "bob", ReservationState::Confirmed),
        ];
        all[1].degraded = true;
        let text = list(&all, &morning(), TableStyle::default(), 2);
        let want = "RESERVATION  NAME  USER   QUEUE  STATE            START     END       NODES  WHERE\n\
                    \u{20}         7  resv  ann    main   held             12:00:00  14:00:00      2  n[1-2]\n\
                    \u{20}         8  resv  evil?  main   active degraded  12:00:00  14:00:00      2  n[1-2]\n\
                    and 1 more: cresv list shows all\n";
        assert_eq!(text, want);
        assert_eq!(list(&[], &morning(), TableStyle::default(), 2), "");
    }

    #[test]
    fn as_json() {
        use serde_json::json as value;
        let json = json(&sample(7, "ann", ReservationState::Confirmed));
        assert_eq!(json["state"], "confirmed");
        assert_eq!(json["end"], "2026-11-21T14:00:00.000Z");
        assert_eq!((&json["base"], &json["extra"]), (&value!(16), &value!(2.5)));
        assert_eq!(json["series"], Json::Null);
    }
}
