//! How full the cluster is, was, and how promises have come out.

use super::jobs::counts_of;
use crate::figures::{Load, by_state};
use crate::params::Params;
use crate::problem::{Answer, Problem, Result};
use crate::site::{self, SiteState};
use crate::who::Who;
use axum::extract::State;
use cosy_model::api::{Reply, Request};
use cosy_view::json;
use cosy_view::queue;
use serde::Deserialize;
use serde_json::json;

/// Points of a curve, at most.
const POINTS: usize = 240;

/// How things stand.
pub async fn now(State(site): SiteState, who: Who) -> Result {
    let nodes = site.shared.nodes(&site.cluster).await?;
    let queues = site.shared.queues(&site.cluster).await?;
    let promises = site.shared.promises(&site.cluster).await?;
    let (mine, whole) = counts_of(&site, &who).await?;
    Ok(Answer(json!({
        "now": json::time(Some(site::now())), "load": Load::of(&nodes, &queues),
        "nodes_by_state": by_state(&nodes), "promises": *promises,
        "mine": mine, "mine_is_whole": whole,
    })))
}

/// How far back.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Back {
    /// `hour`, `day` or `week`.
    span: Option<String>,
}

/// How full the cluster was.
pub async fn history(State(site): SiteState, _: Who, Params(back): Params<Back>) -> Result {
    let ms = match back.span.as_deref() {
        Some("hour") => 3_600_000,
        None | Some("day") => 86_400_000,
        Some("week") => 7 * 86_400_000,
        Some(other) => {
            let short: String = other.chars().take(40).collect();
            return Err(Problem::invalid(format!("span is hour, day or week, not '{short}'")));
        }
    };
    let now = site::now();
    let samples = site.samples.since(cosy_model::Time(now.0 - ms), POINTS);
    Ok(Answer(json!({ "now_ms": now.0, "from_ms": now.0 - ms, "samples": samples })))
}

/// The queues that the user sees.
pub async fn queues(State(site): SiteState, who: Who) -> Result {
    match site.cluster.ask(who.uid, Request::Queues).await? {
        Reply::Queues(all) => {
            let each = all.iter().map(|one| json::object(&queue::fields(one)));
            Ok(Answer(json!({ "queues": each.collect::<Vec<_>>() })))
        }
        _ => Err(Problem::unexpected()),
    }
}
