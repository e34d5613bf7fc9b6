//! Nodes, accounts, policy, ledger, events: to look at, and for administrators to steer.

use super::values::done;
use crate::figures::is_out;
use crate::limits;
use crate::params::{Document, Params};
use crate::problem::{Answer, Problem, Result};
use crate::site::{Site, SiteState};
use crate::who::{Changer, Who};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use cosy_model::api::{HistoryEvent, NodeAction, NodeInfo, Reply, Request};
use cosy_model::policy::{PolicyAnswer, PolicyQuery};
use cosy_view::{account, event, json, node as nodes_view};
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks for new events.
const LOOK: Duration = Duration::from_secs(1);
/// Events of one look.
const EVENTS: u32 = 200;

/// Which nodes, and which part of the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodesAsk {
    #[serde(default)]
    skip: usize,
    rows: Option<u32>,
    queue: Option<String>,
    /// Only nodes in this state.
    state: Option<String>,
    /// Only nodes with this in their names.
    name: Option<String>,
    /// Only nodes that take no jobs.
    #[serde(default)]
    out: bool,
}

fn told(node: &NodeInfo) -> Json {
    let mut told = json::object(&nodes_view::fields(node));
    told["out"] = is_out(node).into();
    told["reason_by"] = node.reason_by.as_str().into();
    told["reason_since"] = json::time(node.reason_since);
    let machine = &node.machine;
    told["machine"] = json!({
        "host": machine.host, "os": machine.os, "arch": machine.arch, "sockets": machine.sockets,
        "cores_per_socket": machine.cores_per_socket, "threads_per_core": machine.threads_per_core,
        "boot": json::time(machine.boot), "daemon_start": json::time(machine.daemon_start),
        "load": machine.load_hundredths.map(|load| f64::from(load) / 100.0),
        "free_memory_mib": machine.free_memory.map(|free| free.0),
    });
    told
}

/// Nodes.
pub async fn nodes(State(site): SiteState, _: Who, Params(ask): Params<NodesAsk>) -> Result {
    let rows = ask.rows.unwrap_or(limits::ROWS);
    if !(1..=limits::MOST_ROWS).contains(&rows) {
        return Err(Problem::invalid(format!("rows is at most {}", limits::MOST_ROWS)));
    }
    let all = site.shared.nodes(&site.cluster).await?;
    let fits = |node: &&NodeInfo| {
        ask.queue
            .as_ref()
            .is_none_or(|queue| node.queues.contains(queue))
            && ask.state.as_ref().is_none_or(|state| node.state == *state)
            && ask
                .name
                .as_ref()
                .is_none_or(|name| node.name.contains(name))
            && (!ask.out || is_out(node))
    };
    let found = all.iter().filter(fits).count();
    let part = all.iter().filter(fits).skip(ask.skip).take(rows as usize);
    let part: Vec<Json> = part.map(told).collect();
    Ok(Answer(json!({ "nodes": part, "skip": ask.skip, "found": found })))
}

/// One node.
pub async fn node(State(site): SiteState, _: Who, Path(name): Path<String>) -> Result {
    let all = site.shared.nodes(&site.cluster).await?;
    match all.iter().find(|node| node.name == name) {
        Some(node) => Ok(Answer(told(node))),
        None => Err(Problem::not_found("there is no such node")),
    }
}

/// Latest events among which those of a node are looked for.
const LOG_LOOK: u32 = 10_000;
/// Events of a node that are told.
const LOG_ROWS: usize = 100;

/// What has happened to a node lately: its own events, and jobs that were lost with it.
pub async fn node_log(State(site): SiteState, who: Who, Path(name): Path<String>) -> Result {
    let request = Request::Events {
        after: 0,
        most: LOG_LOOK,
        latest: true,
    };
    let Reply::Events(all) = site.cluster.ask(who.uid, request).await? else {
        return Err(Problem::unexpected());
    };
    let of_node = all.iter().rev().filter(|one| is_of_node(one, &name));
    let rows: Vec<Json> = of_node
        .take(LOG_ROWS)
        .map(|one| json::object(&event::fields(one)))
        .collect();
    let since = all.first().map(|first| first.at);
    Ok(Answer(json!({ "events": rows, "since": json::time(since), "looked_at": all.len() })))
}

fn is_of_node(event: &HistoryEvent, name: &str) -> bool {
    let node = format!("node {name}");
    event.object == node || event.who == node || {
        let lost = event.what == "ended" && event.detail.starts_with(NODE_FAILED);
        lost && names_node(&event.detail, name)
    }
}

/// How the detail of a job's end begins that was lost with a node.
const NODE_FAILED: &str = "node_failed";

/// `node n1 was lost`, `nodes n[1-3] were lost`.
fn names_node(detail: &str, name: &str) -> bool {
    let mut words = detail.split([' ', ',']);
    words.any(|word| word == name) || {
        let lists = detail.split_once("nodes ").map(|(_, rest)| rest);
        let list = lists.and_then(|rest| rest.split_once(" were lost"));
        let names = list.and_then(|(list, _)| cosy_model::expand(list).ok());
        names.is_some_and(|names| names.iter().any(|one| one == name))
    }
}

/// What is done with a node.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", tag = "action", deny_unknown_fields)]
pub enum NodeAsk {
    /// Start nothing new there.
    Drain {
        /// Why, as it is shown.
        reason: String,
    },
    /// Take it into service again.
    Resume {},
}

/// Drains or resumes a node.
pub async fn steer_node(
    State(site): SiteState,
    Changer(who): Changer,
    Path(name): Path<String>,
    Document(ask): Document<NodeAsk>,
) -> Result {
    let action = match ask {
        NodeAsk::Drain { reason } if reason.trim().is_empty() => {
            return Err(Problem::invalid("say why it is drained: {\"reason\": \"...\"}"));
        }
        NodeAsk::Drain { reason } => NodeAction::Drain { reason },
        NodeAsk::Resume {} => NodeAction::Resume,
    };
    let nodes = vec![name];
    let request = Request::NodeControl { nodes, action };
    Ok(Answer(done(site.cluster.ask(who.uid, request).await?)?))
}

/// Accounts that the user may charge.
pub async fn accounts(State(site): SiteState, who: Who) -> Result {
    let names = Vec::new();
    match site
        .cluster
        .ask(who.uid, Request::Accounts { names })
        .await?
    {
        Reply::Accounts(all) => {
            let all: Vec<Json> = all
                .iter()
                .map(|one| json::object(&account::fields(one)))
                .collect();
            Ok(Answer(json!({ "accounts": all })))
        }
        _ => Err(Problem::unexpected()),
    }
}

/// Which lines.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerAsk {
    account: Option<String>,
    #[serde(default)]
    after: u64,
    rows: Option<u32>,
}

/// Lines of the ledger.
pub async fn ledger(State(site): SiteState, who: Who, Params(ask): Params<LedgerAsk>) -> Result {
    let most = ask.rows.unwrap_or(limits::ROWS).clamp(1, limits::MOST_ROWS);
    let request = Request::Ledger {
        account: ask.account,
        reservation: None,
        after: ask.after,
        most,
    };
    match site.cluster.ask(who.uid, request).await? {
        Reply::Ledger(all) => {
            let lines = all
                .iter()
                .map(|entry| json::object(&account::ledger_fields(entry)));
            Ok(Answer(json!({ "lines": lines.collect::<Vec<_>>() })))
        }
        _ => Err(Problem::unexpected()),
    }
}

/// Associations with their limits, or qualities of service.
pub async fn policy(State(site): SiteState, who: Who, Path(what): Path<String>) -> Result {
    let query = match what.as_str() {
        "associations" => PolicyQuery::Associations {
            accounts: Vec::new(),
            users: Vec::new(),
            usage: true,
            skip: 0,
        },
        "qos" => PolicyQuery::Qos {
            names: Vec::new(),
            usage: true,
        },
        "standing" => PolicyQuery::Standing {
            user: None,
            more: None,
        },
        _ => return Err(Problem::not_found("there are associations, qos and standing")),
    };
    let answer: PolicyAnswer = match site.cluster.ask(who.uid, Request::Policy(query)).await? {
        Reply::Policy(answer) => answer,
        _ => return Err(Problem::unexpected()),
    };
    let told = serde_json::to_value(answer).map_err(|_| Problem::unexpected())?;
    Ok(Answer(told))
}

/// From where on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsAsk {
    /// Number of the last event seen; without, the latest ones.
    after: Option<u64>,
}

async fn look(site: &Site, who: &Who, after: Option<u64>) -> Result<Vec<Json>> {
    let request = Request::Events {
        after: after.unwrap_or(0),
        most: EVENTS,
        latest: after.is_none(),
    };
    match site.cluster.ask(who.uid, request).await? {
        Reply::Events(all) => Ok(all
            .iter()
            .map(|one| json::object(&event::fields(one)))
            .collect()),
        _ => Err(Problem::unexpected()),
    }
}

/// What happens, as a stream of events (text/event-stream) that ends when nobody reads it.
pub async fn events(
    State(site): SiteState,
    who: Who,
    Params(ask): Params<EventsAsk>,
) -> Result<Response> {
    let place = site.streams.place(who.uid)?;
    // What is refused is refused before anything is streamed.
    let first = look(&site, &who, ask.after).await?;
    let state = Stream {
        site,
        who,
        after: last(&first).or(ask.after).unwrap_or(0),
        ready: Some(first),
        _place: place,
    };
    let chunks = stream::unfold(state, |mut state| async move {
        let events = match state.ready.take() {
            Some(events) => events,
            None => state.next().await,
        };
        let text = written(&events);
        Some((Ok::<_, Infallible>(text), state))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream")];
    Ok((headers, Body::from_stream(chunks)).into_response())
}

struct Stream {
    site: Arc<Site>,
    who: Who,
    after: u64,
    ready: Option<Vec<Json>>,
    _place: crate::site::Place,
}

impl Stream {
    /// The next events; none after a while, so that it is seen when nobody reads any more.
    async fn next(&mut self) -> Vec<Json> {
        for _ in 0..15 {
            tokio::time::sleep(LOOK).await;
            // A controller that is away comes back.
            let found = look(&self.site, &self.who, Some(self.after)).await;
            let found = found.unwrap_or_default();
            if let Some(seq) = last(&found) {
                self.after = seq;
                return found;
            }
        }
        Vec::new()
    }
}

fn last(events: &[Json]) -> Option<u64> {
    events.last().and_then(|event| event["seq"].as_u64())
}

fn written(events: &[Json]) -> String {
    if events.is_empty() {
        return ": still here\n\n".to_owned();
    }
    let each = events.iter();
    each.map(|event| format!("id: {}\ndata: {event}\n\n", event["seq"]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_a_node() {
        let check = |who: &str, object: &str, detail: &str, want: bool| {
            let event = HistoryEvent {
                seq: 1,
                at: cosy_model::Time(0),
                what: "ended".into(),
                who: who.into(),
                object: object.into(),
                detail: detail.into(),
            };
            assert_eq!(is_of_node(&event, "n2"), want, "{who} {object} {detail}");
        };
        check("root", "node n2", "", true);
        check("node n2", "job 3", "", true);
        check("controller", "node n21", "", false);
        let lost = "node_failed, exit code 0, signal 0:";
        check("controller", "job 4", &format!("{lost} node n2 was lost"), true);
        check("controller", "job 4", &format!("{lost} nodes n[1-3] were lost"), true);
        check("controller", "job 4", &format!("{lost} nodes n[3-4] were lost"), false);
        check("controller", "job 4", &format!("{lost} node n22 was lost"), false);
        check("controller", "job 4", "completed, exit code 0, signal 0", false);
    }
}
