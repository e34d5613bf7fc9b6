//! `sacctmgr delete`.

use super::super::conditions::Subject;
use super::super::entity::{Entity, no_entity};
use super::super::settings::Target;
use super::super::view::PolicyView;
use super::add;
use super::lines::{added_row, association_line};
use super::outcome::Plan;
use super::words::read;
use cosy_model::policy::{AssociationInfo, AssociationKey, PolicyChange, ROOT};
use std::collections::BTreeSet;

const PROBLEM: &str = " Error with request";

/// Plans `delete`.
pub(super) fn plan(entity: Entity, view: &PolicyView, words: &[String]) -> Plan {
    let target = match entity {
        Entity::Account => Target::Account,
        Entity::User => Target::User,
        Entity::Qos => Target::Qos,
        Entity::Coordinator => return coordinator(view, words),
        Entity::Cluster | Entity::Federation | Entity::Resource => {
            return Plan::failed(vec![add::not_here(entity)]);
        }
        _ => return Plan::failed(no_entity("delete")),
    };
    let conditions = match read(target, view, words, false) {
        Ok((conditions, _)) => conditions,
        Err(lines) => return Plan::failed(lines),
    };
    if !conditions.any() {
        return Plan::failed(vec![" No conditions given to remove, not executing.".to_owned()]);
    }
    match target {
        Target::Account => {
            let chosen = view.accounts.iter().map(|a| a.name.clone());
            accounts(
                view,
                chosen
                    .filter(|name| conditions.account(view, name))
                    .collect(),
            )
        }
        Target::Qos => {
            let all = view.qos.iter().map(|q| q.name.clone());
            let all = all.filter(|name| conditions.passes(Subject::Name, name));
            qos(view, all.collect())
        }
        Target::User => {
            let by_account = !conditions.values(Subject::Account).is_empty()
                || !conditions.values(Subject::Partition).is_empty();
            let users = view.users.iter().map(|u| u.record.name.as_str());
            let users: BTreeSet<&str> = users.filter(|u| conditions.user(view, u)).collect();
            let rows: Vec<&AssociationInfo> = view
                .associations
                .iter()
                .filter(|row| row.key.user.as_deref().is_some_and(|u| users.contains(u)))
                .filter(|row| conditions.association(view, row))
                .collect();
            match by_account {
                true => associations(view, &rows),
                false => whole_users(&users),
            }
        }
    }
}

fn deleted(title: &str, names: &[String], change: impl Fn(&String) -> PolicyChange) -> Plan {
    if names.is_empty() {
        return Plan::nothing(" Nothing deleted");
    }
    let mut out = vec![title.to_owned()];
    out.extend(names.iter().map(|n| format!("  {n}")));
    Plan {
        out,
        changes: names.iter().map(change).collect(),
        problem: PROBLEM,
        ..Plan::default()
    }
}

fn accounts(view: &PolicyView, names: Vec<String>) -> Plan {
    if names.iter().any(|n| n == ROOT) {
        return Plan::failed(vec![
            " You are not allowed to remove the root account.".to_owned(),
            " Use remove cluster instead.".to_owned(),
        ]);
    }
    let gone = |account: &str| names.iter().any(|n| view.is_within(account, n));
    let mut held = Vec::new();
    for user in &view.users {
        let Some(account) = user.record.default_account.as_deref() else {
            continue;
        };
        let mut all = view.of_user(&user.record.name);
        // With all accounts of a user gone there is nothing left to be charged by default.
        if gone(account) && all.any(|row| !gone(&row.key.account)) {
            held.push(format!(
                "  C = {:<15} A = {account:<10} U = {:<9}",
                view.cluster, user.record.name
            ));
        }
    }
    if !held.is_empty() {
        let mut err = vec![
            " Error with request: You can not remove the default account of a user".to_owned(),
        ];
        err.extend(held);
        err.push(
            " Please either remove the accounts listed above from list and resubmit,".to_owned(),
        );
        err.push(" or change these users' default accounts to remove the account(s).".to_owned());
        err.push(" Changes Discarded".to_owned());
        return Plan::failed(err);
    }
    // What is below an account goes with it: one change each for those on top.
    let top = |name: &String| {
        let mut others = names.iter().filter(|n| *n != name);
        !others.any(|other| view.is_within(name, other))
    };
    let tops: Vec<String> = names.iter().filter(|n| top(n)).cloned().collect();
    let mut plan = deleted(" Deleting accounts...", &names, |_| PolicyChange::RemoveAccount {
        name: String::new(),
    });
    if !plan.changes.is_empty() {
        let change = |name: String| PolicyChange::RemoveAccount { name };
        plan.changes = tops.into_iter().map(change).collect();
    }
    plan
}

fn qos(view: &PolicyView, names: Vec<String>) -> Plan {
    let held = |row: &&AssociationInfo| {
        let default = row.own.default_qos.as_ref();
        default.is_some_and(|q| names.contains(q))
    };
    let held: Vec<&AssociationInfo> = view.associations.iter().filter(held).collect();
    if !held.is_empty() {
        let mut err =
            vec![" Associations listed below have these as their Default QOS.".to_owned()];
        for row in held {
            let line = association_line(view, &row.key, &row.parent);
            let default = row.own.default_qos.as_deref().unwrap_or_default();
            err.push(format!("  DefQOS = {default:<10}{}", line.get(1..).unwrap_or_default()));
        }
        err.push(" Please either remove the qos' listed above from list and resubmit,".to_owned());
        err.push(" or change the default qos to remove the qos.".to_owned());
        err.push(" Changes Discarded".to_owned());
        return Plan::failed(err);
    }
    deleted(" Deleting QOS(s)...", &names, |name| PolicyChange::RemoveQos { name: name.clone() })
}

fn whole_users(users: &BTreeSet<&str>) -> Plan {
    let names: Vec<String> = users.iter().map(|u| (*u).to_owned()).collect();
    deleted(" Deleting users...", &names, |name| PolicyChange::RemoveUser { name: name.clone() })
}

fn associations(view: &PolicyView, rows: &[&AssociationInfo]) -> Plan {
    if rows.is_empty() {
        return Plan::nothing(" Nothing deleted");
    }
    let mut out = vec![" Deleting user associations...".to_owned()];
    out.extend(rows.iter().map(|row| added_row(view, &row.key)));
    let keys: BTreeSet<&AssociationKey> = rows.iter().map(|row| &row.key).collect();
    let users: BTreeSet<&str> = rows.iter().filter_map(|r| r.key.user.as_deref()).collect();
    let bare = |user: &&str| view.of_user(user).all(|row| keys.contains(&row.key));
    let bare: Vec<&str> = users.into_iter().filter(bare).collect();
    let mut changes: Vec<PolicyChange> = rows
        .iter()
        .map(|row| PolicyChange::RemoveAssociation {
            key: row.key.clone(),
        })
        .collect();
    if !bare.is_empty() {
        out.push(" Deleting users (No Associations)...".to_owned());
        out.extend(bare.iter().map(|user| format!("  {user}")));
        let change = |user: &&str| PolicyChange::RemoveUser {
            name: (*user).to_owned(),
        };
        changes.extend(bare.iter().map(change));
    }
    Plan {
        out,
        changes,
        problem: PROBLEM,
        ..Plan::default()
    }
}

fn coordinator(view: &PolicyView, words: &[String]) -> Plan {
    let (accounts, names) = match add::coordinators(view, words) {
        Ok(read) => read,
        Err(lines) => return Plan::failed(lines),
    };
    let mut out = vec![" Removing Coordinators with user name".to_owned()];
    out.extend(names.iter().map(|n| format!("  {n}")));
    out.push(" From Account(s)".to_owned());
    out.extend(accounts.iter().map(|a| format!("  {a}")));
    let mut changes = Vec::new();
    for account in &accounts {
        changes.extend(names.iter().map(|user| PolicyChange::RemoveCoordinator {
            account: account.clone(),
            user: user.clone(),
        }));
    }
    Plan {
        out,
        changes,
        problem: PROBLEM,
        ..Plan::default()
    }
}
