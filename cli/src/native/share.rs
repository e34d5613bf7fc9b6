//! `cstat share`: where one stands in the order of queues that go by use, and how to read it.

use crate::{Context, times};
use cosy_model::api::{Reply, Request};
use cosy_model::policy::{PolicyAnswer, PolicyQuery, Standing};
use cosy_view::standing::lines;
use serde_json::json;

/// What is told of the users; of the caller without one.
///
/// # Errors
/// A refusal, or no controller.
pub fn text(context: &Context, users: &[String], as_json: bool) -> anyhow::Result<String> {
    let asked: Vec<Option<String>> = match users {
        [] => vec![None],
        named => named.iter().cloned().map(Some).collect(),
    };
    let mut all: Vec<Standing> = Vec::new();
    for user in asked {
        match context.ask(Request::Policy(PolicyQuery::Standing { user }))? {
            Reply::Policy(PolicyAnswer::Standing(told)) => all.extend(told),
            _ => return Err(cosy_client::CallError::Unexpected.into()),
        }
    }
    if as_json {
        return Ok(format!("{:#}\n", json!({ "standing": all })));
    }
    if all.is_empty() {
        return Ok(
            "no place yet: who is in no account and has had no job here stands before all\n"
                .to_owned(),
        );
    }
    let now = times::time_of(&times::now());
    let lines = all.iter().flat_map(|standing| lines(standing, now));
    Ok(lines.map(|line| format!("{line}\n")).collect())
}
