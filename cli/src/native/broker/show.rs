//! Quotes of several clusters and outcomes of bookings, as text and as JSON.

use super::Quotes;
use super::outcome::{ClusterOutcome, ClusterResult, Outcome, RejectedSlot, Verdict, command};
use super::rank::{Ranked, telling_refusal};
use crate::native::job_table::json_time;
use crate::native::record::{self, TimeStyle};
use crate::native::reservations;
use crate::native::resv::{slots, words};
use crate::native::table::{self, TableStyle};
use crate::times;
use cosy_model::reservation::{QuotedSlot, ReservationInfo};
use cosy_model::{ReservationId, Time};
use cosy_view::quote::{ClusterSlot, cluster_fields, cluster_slot_columns, cluster_slot_fields};
use cosy_view::words::slot_hint::bare_reason;
use jiff::Zoned;
use serde_json::{Value as Json, json};

/// The slots of all clusters, best first, at most `most`; then what clusters without any
/// say, and when a plain job would start.
pub fn quotes(
    quotes: &Quotes,
    ranked: &[Ranked],
    now: &Zoned,
    style: TableStyle,
    most: usize,
) -> String {
    let rows: Vec<ClusterSlot<'_>> = ranked.iter().take(most).map(row).collect();
    let mut text = if rows.is_empty() {
        String::new()
    } else {
        record::list(&cluster_slot_columns(), &rows, TimeStyle::in_words(now), style)
    };
    let beyond = ranked.len().saturating_sub(most);
    if beyond > 0 {
        let slots = words::count(beyond as u64, "slot", "slots");
        text.push_str(&format!("{slots} more: --json has all.\n"));
    }
    for (cluster, quote) in quotes {
        let said = match quote {
            Err(error) => error.to_string(),
            Ok(quote) => {
                let none = quote.slots.iter().all(|s| !s.admitted);
                let reason = telling_refusal(quote).filter(|_| none);
                let reason = match reason {
                    Some(slot) => {
                        let reason = words::local_times(bare_reason(&slot.reason), now);
                        format!("none of its slots can be taken now: {reason}. ")
                    }
                    None if none => "there is no slot in that window. ".to_owned(),
                    None => String::new(),
                };
                format!("{reason}{}", slots::plain_line(quote, now).trim_end())
            }
        };
        let said = line(&format!("cluster {}: {said}", cluster.name));
        text.push_str(&table::sentences(&said, style.width));
    }
    text
}

fn row(r: &Ranked) -> ClusterSlot<'_> {
    ClusterSlot {
        cluster: &r.cluster.name,
        slot: &r.slot,
    }
}

/// The same as JSON: `ranked` with the name of the cluster in each slot, and `clusters`.
pub fn quotes_json(quotes: &Quotes, ranked: &[Ranked]) -> Json {
    let slots: Vec<Json> = ranked
        .iter()
        .map(|r| {
            let mut slot = slot_json(&r.slot);
            slot["cluster"] = r.cluster.name.as_str().into();
            slot
        })
        .collect();
    let clusters = quotes.iter().map(|(cluster, quote)| {
        let one = match quote {
            Err(error) => json!({ "error": error.to_string() }),
            Ok(quote) => record::json(&cluster_fields(quote)),
        };
        (cluster.name.clone(), one)
    });
    json!({ "ranked": slots, "clusters": clusters.collect::<serde_json::Map<_, _>>() })
}

fn slot_json(s: &QuotedSlot) -> Json {
    record::json(&cluster_slot_fields(s))
}

/// An outcome in whole sentences, one for each cluster.
pub fn outcome(outcome: &Outcome, now: &Zoned) -> String {
    let mut text = String::new();
    for tried in &outcome.tried {
        let start = tried
            .start
            .map_or_else(String::new, |start| format!(" at {}", times::short(start, now)));
        text.push_str(&line(&format!("tried on cluster {}{start}: {}", tried.cluster, tried.why)));
    }
    // Clusters without anything whose refusal stands among the tried slots need no line.
    let in_tried = |result: &&ClusterResult| {
        let tried = |t: &RejectedSlot| t.cluster == result.cluster.name;
        let nothing =
            matches!(result.outcome, ClusterOutcome::Nothing(_) | ClusterOutcome::Untried);
        nothing && outcome.tried.iter().any(tried)
    };
    for result in outcome.results.iter().filter(|p| !in_tried(p)) {
        text.push_str(&line(&sentence(result, now)));
    }
    for note in &outcome.notes {
        text.push_str(&line(note));
    }
    text.push_str(match outcome.verdict {
        Verdict::Done => "",
        Verdict::Nothing => "Nothing was booked, nothing is left anywhere\n",
        Verdict::Leftover => "Nothing was booked as asked; see above what is left where\n",
    });
    text
}

/// One line: text of controllers has no control characters here.
fn line(text: &str) -> String {
    format!("{}\n", text.replace(char::is_control, "?"))
}

fn sentence(result: &ClusterResult, now: &Zoned) -> String {
    let name = &result.cluster.name;
    match &result.outcome {
        ClusterOutcome::Booked(all) => format!("Booked on cluster {name}: {}", slot_list(all, now)),
        ClusterOutcome::Held(all) => {
            let until = all.iter().filter_map(|r| r.hold_until).min();
            let until =
                until.map_or_else(String::new, |t| format!(" until {}", times::short(t, now)));
            let ids: Vec<ReservationId> = all.iter().map(|r| r.id).take(1).collect();
            format!(
                "Held on cluster {name}{until}: {}; to keep it: {}",
                slot_list(all, now),
                command(&result.cluster, "confirm", &ids)
            )
        }
        ClusterOutcome::GivenBack(ids) => format!("cluster {name}: {} given back", id_list(ids)),
        ClusterOutcome::Nothing(why) => format!("cluster {name}: nothing booked: {why}"),
        ClusterOutcome::Untried => format!("cluster {name}: not asked to book"),
        ClusterOutcome::Lapsing(why) => format!(
            "cluster {name}: it may hold a slot, for it gave no answer ({why}); if so, the \
             hold lapses by itself"
        ),
        ClusterOutcome::Left { ids, lapses, why } => {
            leftover_line(result, ids, *lapses, &why.to_string(), now)
        }
        ClusterOutcome::Unclear(why) => format!(
            "cluster {name}: it may be booked there, for it gave no answer ({why}); see: {}",
            command(&result.cluster, "list", &[]).trim_end()
        ),
    }
}

fn leftover_line(
    result: &ClusterResult,
    ids: &[ReservationId],
    lapses: Option<Time>,
    why: &str,
    now: &Zoned,
) -> String {
    let by_itself = match lapses {
        Some(time) => format!("it lapses by itself at {}, or", times::short(time, now)),
        None => "it may be booked for good;".to_owned(),
    };
    format!(
        "cluster {}: {} could not be given back ({why}); {by_itself} give it back with: {}",
        result.cluster.name,
        id_list(ids),
        command(&result.cluster, "cancel", ids)
    )
}

fn id_list(ids: &[ReservationId]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    match ids.as_slice() {
        [one] => format!("reservation {one}"),
        all => format!("reservations {}", all.join(", ")),
    }
}

fn slot_list(all: &[ReservationInfo], now: &Zoned) -> String {
    let one = |r: &ReservationInfo| {
        format!(
            "reservation {} from {} to {} on {}",
            r.id,
            times::short(r.start, now),
            times::short(r.end, now),
            r.nodes
        )
    };
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// An outcome as JSON.
pub fn outcome_json(outcome: &Outcome) -> Json {
    let tried: Vec<Json> = outcome
        .tried
        .iter()
        .map(|t| json!({ "cluster": t.cluster, "start": json_time(t.start), "why": t.why }))
        .collect();
    let verdict = match outcome.verdict {
        Verdict::Done => "done",
        Verdict::Nothing => "nothing",
        Verdict::Leftover => "loose",
    };
    let results: Vec<Json> = outcome.results.iter().map(result_json).collect();
    json!({ "verdict": verdict, "clusters": results, "tried": tried, "notes": outcome.notes })
}

fn result_json(result: &ClusterResult) -> Json {
    let infos =
        |all: &[ReservationInfo]| -> Vec<Json> { all.iter().map(reservations::json).collect() };
    let numbers = |ids: &[ReservationId]| -> Vec<u64> { ids.iter().map(|id| id.0).collect() };
    let mut json = match &result.outcome {
        ClusterOutcome::Booked(all) => json!({ "state": "booked", "reservations": infos(all) }),
        ClusterOutcome::Held(all) => json!({ "state": "held", "reservations": infos(all) }),
        ClusterOutcome::GivenBack(ids) => json!({ "state": "given_back", "ids": numbers(ids) }),
        ClusterOutcome::Nothing(why) => json!({ "state": "nothing", "why": why.to_string() }),
        ClusterOutcome::Untried => json!({ "state": "untried" }),
        ClusterOutcome::Lapsing(why) => json!({ "state": "lapsing", "why": why.to_string() }),
        ClusterOutcome::Left { ids, lapses, why } => json!({
            "state": "left", "ids": numbers(ids), "lapses": json_time(*lapses),
            "why": why.to_string(), "command": command(&result.cluster, "cancel", ids),
        }),
        ClusterOutcome::Unclear(why) => json!({ "state": "unclear", "why": why.to_string() }),
    };
    json["cluster"] = result.cluster.name.as_str().into();
    json["socket"] = result.cluster.socket.display().to_string().into();
    json
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::broker::fake::clusters;
    use crate::native::broker::rank::{Preference, rank};
    use crate::native::broker::transport::ClusterError;
    use crate::native::resv::slots::sample;

    #[test]
    fn the_words_are_those_of_one_cluster() {
        let mut all = clusters(&["near", "far", "down"]).into_iter();
        let mut next = || all.next().unwrap();
        let mut full = sample::quote();
        full.slots.truncate(1);
        let quotes: Quotes = vec![
            (next(), Ok(sample::quote())),
            (next(), Ok(full)),
            (next(), Err(ClusterError::Unreachable("nobody listens".to_owned()))),
        ];
        let ranked = rank(&quotes, Preference::Soonest);
        let style = TableStyle {
            width: Some(80),
            ..TableStyle::default()
        };
        let text = super::quotes(&quotes, &ranked, &sample::now(), style, 2);
        let want = [
            "CLUSTER  START  END    PRICE SU  DELAYS      BY  VERDICT",
            "near     14:20  16:20      9.51  2 jobs  40 min  can be had on n[1-4]",
            "near     16:00  18:00         8    none          can be had on n[1-4]",
            "1 slot more: --json has all.",
            "cluster near: A plain job of this size would start about 14:20 and cost nothing",
            "extra.",
            "cluster far: none of its slots can be taken now: not free: job 7 runs on n[1-2]",
            "until 13:30. A plain job of this size would start about 14:20 and cost nothing",
            "extra.",
        ];
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..want.len()], want, "{text}");
        assert!(lines[want.len()].contains("nobody listens"), "{text}");
    }
}
