//! Workflows: lists, one with its tasks, confirmed, given up.

use super::values::{OwnAsk, done, number};
use crate::params::Params;
use crate::problem::{Answer, Problem, Result};
use crate::site::SiteState;
use crate::who::{Changer, Who};
use axum::extract::{Path, State};
use cosy_model::FlowId;
use cosy_model::api::{Reply, Request};
use cosy_model::workflow::{FlowFilter, FlowInfo};
use cosy_view::json::object_with_ms;
use cosy_view::workflow;
use serde_json::{Value as Json, json};

/// One as it is told.
pub fn told(flow: &FlowInfo) -> Json {
    let mut told = object_with_ms(&workflow::fields(flow));
    let tasks = flow.tasks.iter().map(workflow::task_fields);
    told["tasks"] = tasks.map(|task| object_with_ms(&task)).collect();
    told["now_ms"] = crate::site::now().0.into();
    told
}

/// Workflows that the user may see.
pub async fn list(State(site): SiteState, who: Who, Params(ask): Params<OwnAsk>) -> Result {
    let filter = FlowFilter {
        users: ask.users(&who),
        ended: ask.ended,
        ..FlowFilter::default()
    };
    match site.cluster.ask(who.uid, Request::Flows { filter }).await? {
        Reply::Flows(all) => {
            let all: Vec<Json> = all.iter().map(told).collect();
            Ok(Answer(json!({ "workflows": all })))
        }
        _ => Err(Problem::unexpected()),
    }
}

/// One with its tasks.
pub async fn show(State(site): SiteState, who: Who, Path(id): Path<String>) -> Result {
    let filter = FlowFilter {
        ids: vec![FlowId(number(&id)?)],
        ended: true,
        tasks: true,
        ..FlowFilter::default()
    };
    match site.cluster.ask(who.uid, Request::Flows { filter }).await? {
        Reply::Flows(all) => match all.first() {
            Some(flow) => Ok(Answer(told(flow))),
            None => Err(Problem::not_found(format!("there is no workflow {id} that you may see"))),
        },
        _ => Err(Problem::unexpected()),
    }
}

/// Makes a held one final.
pub async fn confirm(
    State(site): SiteState,
    Changer(who): Changer,
    Path(id): Path<String>,
) -> Result {
    let id = FlowId(number(&id)?);
    match site
        .cluster
        .ask(who.uid, Request::ConfirmFlow { id })
        .await?
    {
        Reply::Flow(flow) => Ok(Answer(told(&flow))),
        _ => Err(Problem::unexpected()),
    }
}

/// Gives one up.
pub async fn cancel(
    State(site): SiteState,
    Changer(who): Changer,
    Path(id): Path<String>,
) -> Result {
    let ids = vec![FlowId(number(&id)?)];
    Ok(Answer(done(
        site.cluster
            .ask(who.uid, Request::CancelFlow { ids })
            .await?,
    )?))
}
