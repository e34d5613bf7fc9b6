//! Reservations as other commands than `cresv` show them: below the list of jobs, and as
//! JSON.
//!
//! What the asking user may not see the controller has left out already; nothing is hidden
//! here.

use crate::native::jobs::{json_span, json_time};
use crate::native::table::{Cell, Head, Paint, TableStyle, render};
use crate::times;
use cosy_model::Su;
use cosy_model::reservation::{ReservationInfo, ReservationState};
use jiff::Zoned;
use serde_json::{Value as Json, json};

/// A table of them with a title; at most `most` rows, then how many there are beyond.
/// Nothing at all when there are none.
pub fn list(all: &[ReservationInfo], now: &Zoned, look: TableStyle, most: usize) -> String {
    if all.is_empty() {
        return String::new();
    }
    let heads = [
        Head::right("RESERVATION"),
        Head::left("NAME").cut(6),
        Head::left("USER").cut(6),
        Head::left("QUEUE").cut(5),
        Head::left("STATE"),
        Head::left("START"),
        Head::left("END"),
        Head::right("NODES"),
        Head::left("WHERE").cut(8),
    ];
    let rows: Vec<Vec<Cell>> = all.iter().take(most).map(|r| row(r, now)).collect();
    let mut text = render(&heads, &rows, look);
    let beyond = all.len().saturating_sub(most);
    if beyond > 0 {
        text.push_str(&format!("and {beyond} more: cresv list shows all\n"));
    }
    text
}

fn row(r: &ReservationInfo, now: &Zoned) -> Vec<Cell> {
    vec![
        r.id.to_string().into(),
        r.name.as_str().into(),
        r.user.as_str().into(),
        r.queue.as_str().into(),
        state(r),
        times::short(r.start, now).into(),
        times::short(r.end, now).into(),
        r.node_count.to_string().into(),
        r.nodes.as_str().into(),
    ]
}

/// The state, with its colour; `degraded` behind it when nodes are missing.
pub fn state(r: &ReservationInfo) -> Cell {
    let paint = match r.state {
        _ if r.degraded => Paint::Red,
        ReservationState::Active => Paint::Green,
        ReservationState::Held | ReservationState::Confirmed => Paint::Yellow,
        ReservationState::Failed | ReservationState::Unused => Paint::Red,
        ReservationState::Ended | ReservationState::Cancelled | ReservationState::Expired => {
            Paint::Dim
        }
    };
    let more = if r.degraded { " degraded" } else { "" };
    Cell {
        text: format!("{}{more}", r.state),
        paint,
    }
}

/// One as JSON: times in RFC 3339, lengths in seconds, sums in service units.
pub fn json(info: &ReservationInfo) -> Json {
    // What is not told has its name here, so that a new field is not forgotten.
    let ReservationInfo {
        id,
        series,
        name,
        name_given: _,
        user,
        uid,
        usable,
        account,
        queue,
        state,
        degraded,
        start,
        end,
        movable_from,
        hold_until,
        free_until,
        nodes,
        node_count,
        cores,
        gpus,
        base,
        extra,
        charged,
        sharing,
        job,
        used_core_ms,
        delayed_jobs,
        total_delay,
        made,
        named: _,
        flags: _,
        rule,
        comment,
        note,
    } = info;
    json!({
        "id": id.0, "series": series.map(|s| s.0), "name": name, "user": user,
        "uid": uid.0, "usable": usable, "account": account, "queue": queue,
        "state": state.word(), "degraded": degraded,
        "start": json_time(Some(*start)), "end": json_time(Some(*end)),
        "movable_from": json_time(*movable_from), "hold_until": json_time(*hold_until),
        "free_until": json_time(*free_until), "made": json_time(Some(*made)),
        "nodes": nodes, "node_count": node_count, "cores": cores, "gpus": gpus,
        "base": su(*base), "extra": su(*extra), "charged": su(*charged),
        "used_core_seconds": *used_core_ms as f64 / 1000.0,
        "users": sharing.users, "groups": sharing.groups, "accounts": sharing.accounts,
        "job": job.map(|j| j.0), "delayed_jobs": delayed_jobs,
        "total_delay": json_span(*total_delay), "rule": rule, "comment": comment,
        "note": note,
    })
}

/// A sum of service units as a number.
pub fn su(sum: Su) -> Json {
    if sum.0 % Su::ONE == 0 {
        json!(sum.0 / Su::ONE)
    } else {
        json!(sum.0 as f64 / Su::ONE as f64)
    }
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
        let json = json(&sample(7, "ann", ReservationState::Confirmed));
        assert_eq!(json["state"], "confirmed");
        assert_eq!(json["end"], "2026-11-21T14:00:00.000Z");
        assert_eq!((&json["base"], &json["extra"]), (&json!(16), &json!(2.5)));
        assert_eq!(json["series"], Json::Null);
    }
}
