//! The policy as the controller tells it, page by page, for `sacctmgr` and `sshare`.

use crate::Context;
use cosy_client::CallError;
use cosy_model::api::{Reply, Request};
use cosy_model::policy::{AssociationInfo, AssociationUsage, PolicyAnswer, PolicyQuery, UserEntry};
use cosy_slurm::sacctmgr::view::PolicyView;
use std::collections::BTreeMap;

fn query(context: &Context, query: PolicyQuery) -> Result<PolicyAnswer, CallError> {
    match context.ask(Request::Policy(query))? {
        Reply::Policy(answer) => Ok(answer),
        _ => Err(CallError::Unexpected),
    }
}

/// Everything that the caller may see.
///
/// # Errors
/// No answer, a refusal, or an answer to something else.
pub fn view(context: &Context) -> Result<PolicyView, CallError> {
    let names = Vec::new;
    let accounts = match query(context, PolicyQuery::Accounts { names: names() })? {
        PolicyAnswer::Accounts(rows) => rows.into_iter().map(|row| row.record).collect(),
        _ => return Err(CallError::Unexpected),
    };
    let qos = PolicyQuery::Qos {
        names: names(),
        usage: false,
    };
    let qos = match query(context, qos)? {
        PolicyAnswer::Qos(rows) => rows.into_iter().map(|row| row.record).collect(),
        _ => return Err(CallError::Unexpected),
    };
    Ok(PolicyView {
        cluster: super::reports::cluster(context),
        accounts,
        users: users(context)?,
        associations: associations(context, false)?,
        qos,
    })
}

/// The same with what is used, of associations and by the names of qualities of service.
///
/// # Errors
/// No answer, a refusal, or an answer to something else.
pub fn with_usage(
    context: &Context,
) -> Result<(PolicyView, BTreeMap<String, AssociationUsage>), CallError> {
    let mut view = view(context)?;
    view.associations = associations(context, true)?;
    let names = Vec::new();
    let qos = match query(context, PolicyQuery::Qos { names, usage: true })? {
        PolicyAnswer::Qos(rows) => rows,
        _ => return Err(CallError::Unexpected),
    };
    let usage = qos.into_iter();
    let usage = usage.filter_map(|row| Some((row.record.name, row.usage?)));
    Ok((view, usage.collect()))
}

fn users(context: &Context) -> Result<Vec<UserEntry>, CallError> {
    let mut all: Vec<UserEntry> = Vec::new();
    loop {
        let page = PolicyQuery::Users {
            names: Vec::new(),
            after: all.last().map(|u| u.record.name.clone()),
        };
        let PolicyAnswer::Users { users, more } = query(context, page)? else {
            return Err(CallError::Unexpected);
        };
        let ends = users.is_empty() || !more;
        all.extend(users);
        if ends {
            return Ok(all);
        }
    }
}

/// All associations that the caller may see, in the order of the tree.
///
/// # Errors
/// No answer, a refusal, or an answer to something else.
pub fn associations(context: &Context, usage: bool) -> Result<Vec<AssociationInfo>, CallError> {
    let mut all: Vec<AssociationInfo> = Vec::new();
    loop {
        let page = PolicyQuery::Associations {
            accounts: Vec::new(),
            users: Vec::new(),
            usage,
            skip: u32::try_from(all.len()).unwrap_or(u32::MAX),
        };
        let PolicyAnswer::Associations { rows, more, .. } = query(context, page)? else {
            return Err(CallError::Unexpected);
        };
        let ends = rows.is_empty() || !more;
        all.extend(rows);
        if ends {
            return Ok(all);
        }
    }
}
