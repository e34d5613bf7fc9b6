//! `sacctmgr modify`.

use super::super::conditions::Subject;
use super::super::entity::{Entity, no_entity};
use super::super::settings::{Settings, Target};
use super::super::view::PolicyView;
use super::super::words::Word;
use super::add;
use super::lines::{association_line, sorted};
use super::outcome::Plan;
use super::words::read;
use crate::show::clean;
use cosy_model::policy::{
    AssociationChange, AssociationInfo, AssociationKey, LimitScope, PolicyChange, ROOT,
};
use std::collections::BTreeSet;

const PROBLEM: &str = " Error with request";

/// Plans `modify`.
pub(super) fn plan(entity: Entity, view: &PolicyView, words: &[String]) -> Plan {
    let target = match entity {
        Entity::Account | Entity::Cluster => Target::Account,
        Entity::User => Target::User,
        Entity::Qos => Target::Qos,
        Entity::Federation | Entity::Resource => {
            return Plan::failed(vec![add::not_here(entity)]);
        }
        Entity::Job => {
            return Plan::failed(vec![
                "sacctmgr: error: what an ended job says of itself is not changed here".to_owned(),
            ]);
        }
        _ => return Plan::failed(no_entity("modify")),
    };
    // A new name would part a user from the account of that name on the machine.
    let renamed = words
        .iter()
        .map(|w| Word::of(w))
        .find(|w| w.name.eq_ignore_ascii_case("newname"));
    if renamed.is_some() && entity == Entity::User {
        return Plan::failed(vec![
            "sacctmgr: error: NewName: users keep the names they log in with; add the new one and delete the old one".to_owned(),
        ]);
    }
    let (conditions, settings) = match read(target, view, words, false) {
        Ok(read) => read,
        Err(lines) => return Plan::failed(lines),
    };
    if !settings.given {
        return Plan::failed(vec![" You didn't give me anything to set".to_owned()]);
    }
    match entity {
        Entity::Cluster => {
            cluster(view, conditions.passes(Subject::Name, &view.cluster), &settings)
        }
        Entity::Account => {
            let names = view.accounts.iter().map(|a| a.name.as_str());
            accounts(view, names.filter(|n| conditions.account(view, n)).collect(), &settings)
        }
        Entity::User => {
            let users = view.users.iter().map(|u| u.record.name.as_str());
            let users: Vec<&str> = users.filter(|u| conditions.user(view, u)).collect();
            let rows = view.associations.iter().filter(|row| {
                let user = row.key.user.as_deref();
                user.is_some_and(|u| users.contains(&u)) && conditions.association(view, row)
            });
            let rows: Vec<&AssociationInfo> = rows.collect();
            modify_users(view, &users, &rows, &settings)
        }
        _ => {
            let names = view.qos.iter().map(|q| q.name.clone());
            let names: Vec<String> = names
                .filter(|n| conditions.passes(Subject::Name, n))
                .collect();
            qos(&names, &settings)
        }
    }
}

fn finished(out: Vec<String>, changes: Vec<PolicyChange>) -> Plan {
    if changes.is_empty() {
        return Plan::nothing(" Nothing modified");
    }
    Plan {
        out,
        changes,
        problem: PROBLEM,
        ..Plan::default()
    }
}

fn qos(names: &[String], settings: &Settings) -> Plan {
    let mut out = vec![" Modified qos...".to_owned()];
    out.extend(names.iter().map(|n| format!("  {n}")));
    let change = |name: &String| match settings.reset_usage {
        true => PolicyChange::ResetUsage {
            association: None,
            qos: Some(name.clone()),
        },
        false => PolicyChange::ModifyQos {
            name: name.clone(),
            set: settings.qos.clone(),
        },
    };
    finished(out, names.iter().map(change).collect())
}

fn own_key(account: &str) -> AssociationKey {
    AssociationKey {
        account: account.to_owned(),
        user: None,
        queue: None,
    }
}

fn cluster(view: &PolicyView, chosen: bool, settings: &Settings) -> Plan {
    if !chosen {
        return Plan::nothing(" Nothing modified");
    }
    let mut out = vec![" Setting".to_owned(), "  Default Limits:".to_owned()];
    out.extend(sorted(settings.lines.clone(), Target::Account));
    out.push(" Modified cluster defaults for associations...".to_owned());
    out.extend(touched(view, ROOT, &settings.association));
    let change = PolicyChange::ModifyAssociation {
        key: own_key(ROOT),
        set: settings.association.clone(),
    };
    let changes = settings.changes_association().then_some(change);
    finished(out, changes.into_iter().collect())
}

/// The lines of an account's association and of those of users below it that follow it: group
/// limits and shares are its own alone.
fn touched(view: &PolicyView, account: &str, set: &AssociationChange) -> Vec<String> {
    let parent = view.own(account).map(|own| own.parent.as_str());
    let mut lines = vec![association_line(
        view,
        &own_key(account),
        parent.unwrap_or_default(),
    )];
    let passed = |(key, _): &(cosy_model::policy::LimitKey, Option<u64>)| {
        key.kind.scope() != LimitScope::Group
    };
    let follows = set.qos.is_some()
        || set.default_qos.is_some()
        || set.priority.is_some()
        || set.limits.iter().any(passed);
    if follows {
        let below = view
            .associations
            .iter()
            .filter(|row| row.key.user.is_some() && view.is_within(&row.key.account, account));
        lines.extend(below.map(|row| association_line(view, &row.key, "")));
    }
    lines
}

fn accounts(view: &PolicyView, names: Vec<&str>, settings: &Settings) -> Plan {
    if let Some(parent) = &settings.parent {
        if view.account(parent).is_none() {
            let parent = clean(parent);
            return Plan::failed(vec![format!(" Parent Account {parent} doesn't exist.")]);
        }
        if let Some(name) = names.iter().find(|n| view.is_within(parent, n)) {
            return Plan::failed(vec![format!(
                " Error with request: account {name} cannot go below {parent}, which is {name} or below it"
            )]);
        }
    }
    if names.is_empty() {
        return Plan::nothing(" Nothing modified");
    }
    let texts = settings.description.is_some() || settings.organization.is_some();
    let association =
        settings.changes_association() || settings.parent.is_some() || settings.reset_usage;
    let mut out = Vec::new();
    if texts {
        out.push(" Modified accounts...".to_owned());
        out.extend(names.iter().map(|n| format!("  {n}")));
    }
    if association {
        out.push(" Modified account associations...".to_owned());
        for name in &names {
            out.extend(touched(view, name, &settings.association));
        }
    }
    let mut changes = Vec::new();
    for name in &names {
        if settings.reset_usage {
            changes.push(PolicyChange::ResetUsage {
                association: Some(own_key(name)),
                qos: None,
            });
        }
        if texts || settings.changes_association() || settings.parent.is_some() {
            changes.push(PolicyChange::ModifyAccount {
                name: (*name).to_owned(),
                parent: settings.parent.clone(),
                description: settings.description.clone(),
                organization: settings.organization.clone(),
                set: settings.association.clone(),
            });
        }
    }
    finished(out, changes)
}

fn modify_users(
    view: &PolicyView,
    users: &[&str],
    rows: &[&AssociationInfo],
    settings: &Settings,
) -> Plan {
    if let Some(plan) =
        not_in_default(view, users, settings).or_else(|| no_qos(view, rows, settings))
    {
        return plan;
    }
    let of_user = settings.default_account.is_some()
        || settings.admin_level.is_some()
        || settings.default_wckey.is_some()
        || !settings.wckeys.is_empty();
    let (mut out, mut changes) = (Vec::new(), Vec::new());
    if of_user && !users.is_empty() {
        out.push(" Modified users...".to_owned());
        out.extend(users.iter().map(|u| format!("  {u}")));
        changes.extend(users.iter().map(|user| PolicyChange::SetUser {
            name: (*user).to_owned(),
            default_account: settings.default_account.clone(),
            admin_level: settings.admin_level,
            default_wckey: settings.default_wckey.clone(),
            add_wckeys: settings.wckeys.clone(),
            remove_wckeys: BTreeSet::new(),
        }));
    }
    if (settings.changes_association() || settings.reset_usage) && !rows.is_empty() {
        out.push(" Modified user associations...".to_owned());
        out.extend(rows.iter().map(|row| association_line(view, &row.key, "")));
        for row in rows {
            if settings.reset_usage {
                changes.push(PolicyChange::ResetUsage {
                    association: Some(row.key.clone()),
                    qos: None,
                });
            }
            if settings.changes_association() {
                changes.push(PolicyChange::ModifyAssociation {
                    key: row.key.clone(),
                    set: settings.association.clone(),
                });
            }
        }
    }
    finished(out, changes)
}

/// Users who are not in the account that is to be their default.
fn not_in_default(view: &PolicyView, users: &[&str], settings: &Settings) -> Option<Plan> {
    let account = settings.default_account.as_deref()?;
    let is_in = |user: &str| view.of_user(user).any(|row| row.key.account == account);
    let lines = users.iter().filter(|user| !is_in(user));
    let lines: Vec<String> = lines
        .map(|user| format!("  U = {user} C = {}", view.cluster))
        .collect();
    if lines.is_empty() {
        return None;
    }
    let first = format!(
        " Can't modify because these users aren't associated with new default account '{}'...",
        clean(account)
    );
    Some(Plan {
        out: std::iter::once(first).chain(lines).collect(),
        code: 1,
        ..Plan::default()
    })
}

/// Associations that may not have what is to be their default quality of service.
fn no_qos(view: &PolicyView, rows: &[&AssociationInfo], settings: &Settings) -> Option<Plan> {
    let default = settings.association.default_qos.as_ref()?.as_deref()?;
    if settings.association.qos.is_some() {
        return None;
    }
    let without: Vec<String> = rows
        .iter()
        .filter(|row| !row.qos.iter().any(|q| q == default))
        .map(|row| {
            let line = association_line(view, &row.key, "");
            format!("  DefQOS = {default:<10}{}", line.get(1..).unwrap_or_default())
        })
        .collect();
    if without.is_empty() {
        return None;
    }
    let mut err = vec![
        " These associations don't have access to their default qos.".to_owned(),
        " Please give them access before they the default can be set to this.".to_owned(),
    ];
    err.extend(without);
    Some(Plan::failed(err))
}
