//! The policy as the controller tells it.

use super::super::ask;
use super::site::{Account, Site, User};
use crate::Context;
use cosy_client::CallError;
use cosy_model::api::{Reply, Request};
use cosy_model::policy::{PolicyAnswer, PolicyQuery};

/// Everything that the caller may see.
///
/// # Errors
/// A refusal, or no controller.
pub fn site(context: &Context) -> anyhow::Result<Site> {
    let mut site = Site::default();
    if let Reply::Settings(settings) = context.ask(Request::Settings)? {
        site.cluster = settings.cluster;
    }
    let qos = PolicyQuery::Qos {
        names: Vec::new(),
        usage: false,
    };
    let PolicyAnswer::Qos(qos) = ask(context, qos)? else {
        return Err(CallError::Unexpected.into());
    };
    site.qos = qos
        .into_iter()
        .map(|row| (row.record.name.clone(), row.record))
        .collect();
    let accounts = PolicyQuery::Accounts { names: Vec::new() };
    let PolicyAnswer::Accounts(accounts) = ask(context, accounts)? else {
        return Err(CallError::Unexpected.into());
    };
    for row in accounts {
        let account = Account {
            parent: row.record.parent,
            description: Some(row.record.description),
            organization: Some(row.record.organization),
            coordinators: row.record.coordinators,
            settings: row.record.settings,
        };
        site.accounts.insert(row.record.name, account);
    }
    users(context, &mut site)?;
    places(context, &mut site)?;
    Ok(site)
}

fn users(context: &Context, site: &mut Site) -> anyhow::Result<()> {
    let mut after = None;
    loop {
        let query = PolicyQuery::Users {
            names: Vec::new(),
            after: after.clone(),
        };
        let PolicyAnswer::Users { users, more } = ask(context, query)? else {
            return Err(CallError::Unexpected.into());
        };
        after = users.last().map(|user| user.record.name.clone());
        for user in users {
            let one = User {
                default: user.record.default_account,
                level: user.record.admin_level,
                wckeys: user.record.wckeys,
                default_wckey: user.record.default_wckey,
                places: Default::default(),
            };
            site.users.insert(user.record.name, one);
        }
        if !more || after.is_none() {
            return Ok(());
        }
    }
}

fn places(context: &Context, site: &mut Site) -> anyhow::Result<()> {
    let mut skip = 0_usize;
    loop {
        let query = PolicyQuery::Associations {
            accounts: Vec::new(),
            users: Vec::new(),
            usage: false,
            skip: u32::try_from(skip).unwrap_or(u32::MAX),
        };
        let PolicyAnswer::Associations { rows, more, .. } = ask(context, query)? else {
            return Err(CallError::Unexpected.into());
        };
        skip += rows.len();
        let ends = rows.is_empty() || !more;
        for row in rows {
            if let Some(user) = row.key.user {
                let user = site.users.entry(user).or_default();
                user.places
                    .insert((row.key.account, row.key.queue), row.own);
            }
        }
        if ends {
            return Ok(());
        }
    }
}
