//! Machine time booked ahead: what it costs and whom it delays, held, confirmed, given back.

use super::values::{OwnAsk, Seconds, When, done, number};
use crate::params::{Document, Params};
use crate::problem::{Answer, Problem, Result};
use crate::site::{Site, SiteState};
use crate::who::{Changer, Who};
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use cosy_model::api::{Reply, Request};
use cosy_model::job::{MemoryRequest, ResourceRequest};
use cosy_model::reservation::{
    Repeat, ReservationFilter, ReservationInfo, ReservationSpec, StartChoice,
};
use cosy_model::{MiB, ReservationId, Su, limits};
use cosy_view::json::{object_with_ms, su, time};
use cosy_view::{quote as quotes, reservation};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::fmt::Write;

/// Slots of a quote, where nothing else is asked for.
const SLOTS: u32 = 60;
/// Repetitions of one booking.
const REPEATS: usize = 200;

/// Which start is taken.
#[derive(Deserialize, Clone, Copy, Default, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
enum Pick {
    #[default]
    Soonest,
    Cheapest,
    /// To end at `latest_end`.
    FinishBy,
}

/// Machine time that is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    #[serde(default)]
    name: String,
    queue: Option<String>,
    nodes: Option<u32>,
    /// Nodes by name.
    #[serde(default)]
    named: Vec<String>,
    tasks: Option<u32>,
    cores_per_task: Option<u32>,
    #[serde(default)]
    gpus_per_node: u32,
    memory_mib_per_node: Option<u64>,
    #[serde(default)]
    exclusive: bool,
    #[serde(default)]
    features: Vec<String>,
    length: Seconds,
    /// Exactly then; without, `pick` says which.
    start: Option<When>,
    earliest: Option<When>,
    latest_end: Option<When>,
    #[serde(default)]
    pick: Pick,
    account: Option<String>,
    max_price: Option<String>,
    #[serde(default)]
    comment: String,
    #[serde(default)]
    share_users: Vec<String>,
    /// All starts, the first one included.
    #[serde(default)]
    repeat: Vec<When>,
    /// The rule that they follow, to be shown (RFC 5545).
    #[serde(default)]
    rule: String,
    #[serde(default)]
    as_many_as_fit: bool,
    /// Slots of a quote, at most.
    most: Option<u32>,
    /// Only held, to be confirmed.
    #[serde(default)]
    hold: bool,
}

impl Ask {
    fn spec(&self) -> Result<ReservationSpec> {
        let plain = ResourceRequest::default();
        let request = ResourceRequest {
            nodes: self.nodes,
            tasks: self.tasks,
            cores_per_task: self.cores_per_task.unwrap_or(plain.cores_per_task),
            gpus_per_node: self.gpus_per_node,
            memory: match self.memory_mib_per_node {
                Some(mib) => MemoryRequest::PerNode(MiB(mib)),
                None => MemoryRequest::QueueDefault,
            },
            exclusive: self.exclusive,
            features: self.features.clone(),
            require: self.named.clone(),
            ..plain
        };
        let first = self.repeat.first().map(|when| when.0);
        let pick = match (self.start.map(|when| when.0).or(first), self.pick) {
            (Some(start), _) => StartChoice::At(start),
            (None, Pick::Soonest) => StartChoice::Soonest,
            (None, Pick::Cheapest) => StartChoice::Cheapest,
            (None, Pick::FinishBy) => StartChoice::FinishBy,
        };
        let max_price = self.max_price.as_ref().map(|text| {
            text.parse::<Su>()
                .map_err(|e| Problem::invalid(format!("max_price: {e}")))
        });
        let mut spec = ReservationSpec {
            name: self.name.clone(),
            queue: self.queue.clone(),
            earliest: self.earliest.map(|when| when.0),
            latest_end: self.latest_end.map(|when| when.0),
            repeat: self.repeated()?,
            account: self.account.clone(),
            max_price: max_price.transpose()?,
            comment: self.comment.clone(),
            ..ReservationSpec::plain(request, self.length.0, pick)
        };
        spec.sharing.users.clone_from(&self.share_users);
        Ok(spec)
    }

    fn repeated(&self) -> Result<Option<Repeat>> {
        if self.repeat.is_empty() {
            return Ok(None);
        }
        let starts: Vec<_> = self.repeat.iter().map(|when| when.0).collect();
        if starts.len() > REPEATS || !starts.is_sorted_by(|a, b| a < b) {
            return Err(Problem::invalid(format!(
                "repeat has the starts in their order, at most {REPEATS}"
            )));
        }
        Ok(Some(Repeat {
            rule: self.rule.clone(),
            starts,
            as_many_as_fit: self.as_many_as_fit,
        }))
    }
}

/// What it would cost and whom it would delay. Nothing is kept.
pub async fn quote(State(site): SiteState, who: Who, Document(ask): Document<Ask>) -> Result {
    if ask.hold {
        return Err(Problem::invalid("a quote holds nothing: ask for a reservation"));
    }
    let most = ask.most.unwrap_or(SLOTS).min(limits::CANDIDATES as u32);
    let request = Request::Quote {
        ask: Box::new(ask.spec()?),
        most: Some(most),
        as_job: None,
    };
    let Reply::Quote(quote) = site.cluster.ask(who.uid, request).await? else {
        return Err(Problem::unexpected());
    };
    let mut told = object_with_ms(&quotes::fields(&quote));
    let slots = quote.slots.iter().map(quotes::slot_fields);
    told["slots"] = slots.map(|slot| object_with_ms(&slot)).collect();
    Ok(Answer(told))
}

fn told(info: &ReservationInfo, now_ms: i64) -> Json {
    let mut told = object_with_ms(&reservation::fields(info));
    told["price"] = su(reservation::price(info));
    told["now_ms"] = now_ms.into();
    told
}

fn reserved(reply: Reply) -> Result<Json> {
    let Reply::Reserved {
        reservations,
        conflicts,
        note,
    } = reply
    else {
        return Err(Problem::unexpected());
    };
    let now = crate::site::now().0;
    let all: Vec<Json> = reservations.iter().map(|one| told(one, now)).collect();
    let conflicts: Vec<Json> = conflicts
        .iter()
        .map(|(start, refusal)| {
            json!({
                "start": time(Some(*start)), "start_ms": start.0, "code": refusal.code,
                "message": refusal.message,
            })
        })
        .collect();
    Ok(json!({ "reservations": all, "conflicts": conflicts, "note": note }))
}

/// Holds or books.
pub async fn reserve(
    State(site): SiteState,
    Changer(who): Changer,
    Document(ask): Document<Ask>,
) -> Result {
    if ask.most.is_some() {
        return Err(Problem::invalid("most is for quotes"));
    }
    let request = Request::Reserve {
        ask: Box::new(ask.spec()?),
        hold: ask.hold,
        job: None,
    };
    Ok(Answer(reserved(site.cluster.ask(who.uid, request).await?)?))
}

/// Makes a held one final.
pub async fn confirm(
    State(site): SiteState,
    Changer(who): Changer,
    Path(id): Path<String>,
) -> Result {
    let id = ReservationId(number(&id)?);
    Ok(Answer(reserved(site.cluster.ask(who.uid, Request::Confirm { id }).await?)?))
}

/// How much of a series is meant.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelAsk {
    #[serde(default)]
    series: bool,
}

/// Gives one back.
pub async fn cancel(
    State(site): SiteState,
    Changer(who): Changer,
    Path(id): Path<String>,
    Params(ask): Params<CancelAsk>,
) -> Result {
    let request = Request::CancelReservation {
        ids: vec![ReservationId(number(&id)?)],
        series: ask.series,
    };
    Ok(Answer(done(site.cluster.ask(who.uid, request).await?)?))
}

async fn all(site: &Site, who: &Who, filter: ReservationFilter) -> Result<Vec<ReservationInfo>> {
    match site
        .cluster
        .ask(who.uid, Request::Reservations { filter })
        .await?
    {
        Reply::Reservations(all) => Ok(all),
        _ => Err(Problem::unexpected()),
    }
}

fn chosen(ask: &OwnAsk, who: &Who) -> ReservationFilter {
    ReservationFilter {
        users: ask.users(who),
        ended: ask.ended,
        ..ReservationFilter::default()
    }
}

/// Reservations that the user may see.
pub async fn list(State(site): SiteState, who: Who, Params(ask): Params<OwnAsk>) -> Result {
    let now = crate::site::now().0;
    let all = all(&site, &who, chosen(&ask, &who)).await?;
    let all: Vec<Json> = all.iter().map(|one| told(one, now)).collect();
    Ok(Answer(json!({ "reservations": all })))
}

/// One of them.
pub async fn show(State(site): SiteState, who: Who, Path(id): Path<String>) -> Result {
    let filter = ReservationFilter {
        ids: vec![ReservationId(number(&id)?)],
        ..ReservationFilter::default()
    };
    let now = crate::site::now().0;
    match all(&site, &who, filter).await?.first() {
        Some(one) => Ok(Answer(told(one, now))),
        None => Err(Problem::not_found(format!("there is no reservation {id} that you may see"))),
    }
}

/// The user's bookings as a calendar (RFC 5545).
pub async fn calendar(State(site): SiteState, who: Who) -> Result<Response> {
    let ask = OwnAsk {
        own: true,
        ended: true,
    };
    let all = all(&site, &who, chosen(&ask, &who)).await?;
    let stamp = stamp(crate::site::now());
    let mut text = String::from("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Cosy//Cosy//EN\r\n");
    for one in all.iter().filter(|one| is_told(one)) {
        let _ = write!(
            text,
            "BEGIN:VEVENT\r\nUID:reservation-{}@cosy\r\nDTSTAMP:{stamp}\r\nDTSTART:{}\r\nDTEND:{}\r\n",
            one.id,
            self::stamp(one.start),
            self::stamp(one.end),
        );
        let title = format!("{} ({} nodes, {})", one.name, one.node_count, one.queue);
        text.push_str(&folded("SUMMARY", &title));
        text.push_str(&folded("LOCATION", &one.nodes));
        let words = format!("Reservation {}, {}. {}", one.id, one.state, one.comment);
        text.push_str(&folded("DESCRIPTION", words.trim_end()));
        text.push_str("END:VEVENT\r\n");
    }
    text.push_str("END:VCALENDAR\r\n");
    let headers = [
        (header::CONTENT_TYPE, "text/calendar; charset=utf-8"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"cosy.ics\""),
    ];
    Ok((headers, text).into_response())
}

fn is_told(one: &ReservationInfo) -> bool {
    use cosy_model::reservation::ReservationState as State;
    match one.state {
        State::Confirmed | State::Active | State::Ended => true,
        State::Held | State::Cancelled | State::Expired | State::Unused | State::Failed => false,
    }
}

fn stamp(time: cosy_model::Time) -> String {
    let stamp = Timestamp::from_millisecond(time.0).unwrap_or(Timestamp::UNIX_EPOCH);
    stamp.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// A line of a calendar: what means something to it is escaped, and it is folded at 75 bytes.
fn folded(name: &str, value: &str) -> String {
    let mut text = format!("{name}:");
    for c in value.chars() {
        match c {
            '\\' | ';' | ',' => {
                text.push('\\');
                text.push(c);
            }
            '\n' => text.push_str("\\n"),
            c if c.is_control() => {}
            c => text.push(c),
        }
    }
    let (mut lines, mut length) = (String::new(), 0);
    for c in text.chars() {
        if length + c.len_utf8() > 75 {
            lines.push_str("\r\n ");
            length = 1;
        }
        lines.push(c);
        length += c.len_utf8();
    }
    lines + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_calendar() {
        assert_eq!(folded("SUMMARY", "a;b,c\\d\ne\r\u{7}"), "SUMMARY:a\\;b\\,c\\\\d\\ne\r\n");
        let long = folded("X", &"ü".repeat(60));
        let lines: Vec<&str> = long.split("\r\n").collect();
        assert!(lines.iter().all(|line| line.len() <= 75), "{lines:?}");
        assert_eq!(long.replace("\r\n ", ""), format!("X:{}\r\n", "ü".repeat(60)));
        // Nobody begins an event of his own.
        assert_eq!(folded("X", "a\r\nEND:VEVENT"), "X:a\\nEND:VEVENT\r\n");
    }

    #[test]
    fn what_is_asked_for() {
        let ask = |text: &str| {
            let ask: Ask = serde_json::from_str(text).unwrap();
            ask.spec()
        };
        let spec = ask("{\"length\": 3600, \"nodes\": 2, \"start\": 5000}").unwrap();
        assert_eq!(spec.pick, StartChoice::At(cosy_model::Time(5000)));
        assert_eq!((spec.request.nodes, spec.length.secs()), (Some(2), 3600));
        let spec = ask("{\"length\": 60, \"pick\": \"cheapest\", \"max_price\": \"1.5\"}").unwrap();
        assert_eq!(spec.pick, StartChoice::Cheapest);
        let spec = ask("{\"length\": 60, \"repeat\": [1000, 2000]}").unwrap();
        assert_eq!(spec.pick, StartChoice::At(cosy_model::Time(1000)));
        assert!(ask("{\"length\": 60, \"repeat\": [2000, 1000]}").is_err());
        assert!(ask("{\"length\": 60, \"max_price\": \"much\"}").is_err());
        assert!(serde_json::from_str::<Ask>("{\"length\": 60, \"nods\": 2}").is_err());
    }
}
