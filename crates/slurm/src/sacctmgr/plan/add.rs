//! `sacctmgr add`.

use super::super::conditions::{Conditions, Subject, level_word};
use super::super::entity::{Entity, no_entity};
use super::super::settings::{Settings, Target};
use super::super::view::PolicyView;
use super::lines::{added_line, sorted};
use super::outcome::Plan;
use super::words::read_add;
use crate::show::clean;
use cosy_model::policy::{AssociationKey, PolicyChange, ROOT};

/// Plans `add`.
pub(super) fn plan(entity: Entity, view: &PolicyView, words: &[String]) -> Plan {
    let target = match entity {
        Entity::Account => Target::Account,
        Entity::User => Target::User,
        Entity::Qos => Target::Qos,
        Entity::Coordinator => return coordinator(view, words),
        Entity::Cluster | Entity::Federation | Entity::Resource => {
            return Plan::failed(vec![not_here(entity)]);
        }
        _ => return Plan::failed(no_entity("add")),
    };
    let (conditions, settings) = match read_add(target, view, words) {
        Ok(read) => read,
        Err(lines) => return Plan::failed(lines),
    };
    if let Some(cluster) = other_cluster(view, &conditions) {
        return Plan::failed(vec![
            format!(" This cluster '{}' doesn't exist.", clean(&cluster)),
            "        Contact your admin to add it to accounting.".to_owned(),
        ]);
    }
    match target {
        Target::Account => accounts(view, &conditions, settings),
        Target::User => users(view, &conditions, settings),
        Target::Qos => qos(view, &conditions, settings),
    }
}

/// Why a cluster, a federation, a resource cannot be added or changed.
pub(super) fn not_here(entity: Entity) -> String {
    match entity {
        Entity::Resource => {
            "sacctmgr: error: licences are set by [licenses] of cosy.toml and 'cadm reload', those in use elsewhere by 'cadm license use'"
                .to_owned()
        }
        _ => "sacctmgr: error: there is one cluster: cosy.toml says what it is".to_owned(),
    }
}

fn other_cluster(view: &PolicyView, conditions: &Conditions) -> Option<String> {
    let mut named = conditions.values(Subject::Cluster).iter();
    named.find(|c| **c != view.cluster.to_lowercase()).cloned()
}

fn accounts(view: &PolicyView, conditions: &Conditions, settings: Settings) -> Plan {
    let names = conditions.all(&[Subject::Name, Subject::Account]);
    if names.is_empty() {
        return Plan::failed(vec![" Need name of account to add.".to_owned()]);
    }
    let parent = settings.parent.clone().unwrap_or_else(|| ROOT.to_owned());
    if view.account(&parent).is_none() && !names.contains(&parent) {
        return Plan::failed(vec![
            format!(
                " Parent account '{}' doesn't exist on cluster {}",
                clean(&parent),
                view.cluster
            ),
            "        Contact your admin to add this account.".to_owned(),
            " No associations created.".to_owned(),
        ]);
    }
    let mut new: Vec<String> = names.iter().map(|n| n.to_lowercase()).collect();
    new.retain(|name| view.account(name).is_none());
    let mut seen = std::collections::BTreeSet::new();
    new.retain(|name| seen.insert(name.clone()));
    if new.is_empty() {
        return Plan::nothing(" Nothing new added.");
    }
    let mut out = vec![" Adding Account(s)".to_owned()];
    out.extend(new.iter().map(|n| format!("  {n}")));
    let or =
        |text: &Option<String>, without: &str| text.clone().unwrap_or_else(|| without.to_owned());
    out.push(" Settings".to_owned());
    out.push(format!("  Description     = {}", or(&settings.description, "Account Name")));
    out.push(format!("  Organization    = {}", or(&settings.organization, "Parent/Account Name")));
    out.push(" Associations".to_owned());
    out.extend(
        new.iter()
            .map(|n| format!("  A = {n:<10} C = {:<10}", view.cluster)),
    );
    out.push(" Settings".to_owned());
    let mut lines = settings.lines;
    lines.push(format!("  Parent        = {parent}"));
    out.extend(sorted(lines, Target::Account));
    let change = |name: &String| PolicyChange::AddAccount {
        name: name.clone(),
        parent: settings.parent.clone(),
        description: settings.description.clone(),
        organization: settings.organization.clone(),
        set: settings.association.clone(),
    };
    Plan {
        out,
        changes: new.iter().map(change).collect(),
        problem: " Problem adding accounts",
        ..Plan::default()
    }
}

fn users(view: &PolicyView, conditions: &Conditions, settings: Settings) -> Plan {
    let names = conditions.all(&[Subject::Name, Subject::User]);
    if names.is_empty() {
        return Plan::failed(vec![" Need name of user to add.".to_owned()]);
    }
    let mut accounts = conditions.values(Subject::Account).to_vec();
    if accounts.is_empty() {
        accounts.extend(settings.default_account.clone());
    }
    if accounts.is_empty() {
        return Plan::failed(vec![" Need name of account to add user to.".to_owned()]);
    }
    if let Some(missing) = accounts.iter().find(|a| view.account(a).is_none()) {
        return Plan::failed(vec![
            format!(" This account '{}' doesn't exist.", clean(missing)),
            "        Contact your admin to add this account.".to_owned(),
            " No associations or wckeys created.".to_owned(),
        ]);
    }
    let keys = new_keys(view, &names, &accounts, conditions.values(Subject::Partition));
    if keys.is_empty() {
        return Plan::nothing(" Nothing new added.");
    }
    let new: Vec<&String> = names.iter().filter(|n| view.user(n).is_none()).collect();
    let mut out = Vec::new();
    if !new.is_empty() {
        out.push(" Adding User(s)".to_owned());
        out.extend(new.iter().map(|n| format!("  {n}")));
    }
    out.extend(user_settings(&settings));
    out.push(" Associations =".to_owned());
    out.extend(keys.iter().map(|key| added_line(view, key)));
    if !settings.wckeys.is_empty() {
        out.push(" WCKeys =".to_owned());
        for name in &names {
            let line =
                |key: &String| format!("  U = {name:<9} W = {key:<10} C = {:<10}", view.cluster);
            out.extend(settings.wckeys.iter().map(line));
        }
    }
    out.push(" Non Default Settings".to_owned());
    out.extend(sorted(settings.lines.clone(), Target::User));
    let mut changes: Vec<PolicyChange> = keys
        .into_iter()
        .map(|key| PolicyChange::AddAssociation {
            key,
            set: settings.association.clone(),
        })
        .collect();
    changes.extend(set_users(&names, &settings));
    Plan {
        out,
        changes,
        problem: " Problem adding users",
        ..Plan::default()
    }
}

fn new_keys(
    view: &PolicyView,
    names: &[String],
    accounts: &[String],
    queues: &[String],
) -> Vec<AssociationKey> {
    let queues: Vec<Option<String>> = match queues {
        [] => vec![None],
        queues => queues.iter().cloned().map(Some).collect(),
    };
    let mut keys = Vec::new();
    for name in names {
        for account in accounts {
            for queue in &queues {
                let key = AssociationKey {
                    account: account.clone(),
                    user: Some(name.clone()),
                    queue: queue.clone(),
                };
                let known = view.associations.iter().any(|row| row.key == key);
                if !known && !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
    }
    keys
}

fn user_settings(settings: &Settings) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(account) = &settings.default_account {
        lines.push(format!("  Default Account = {account}"));
    }
    if let Some(key) = &settings.default_wckey {
        lines.push(format!("  Default WCKey   = {key}"));
    }
    if let Some(level) = settings.admin_level {
        lines.push(format!("  Admin Level     = {}", level_word(level)));
    }
    if !lines.is_empty() {
        lines.insert(0, " Settings =".to_owned());
    }
    lines
}

fn set_users(names: &[String], settings: &Settings) -> Vec<PolicyChange> {
    let said = settings.default_account.is_some()
        || settings.admin_level.is_some()
        || settings.default_wckey.is_some()
        || !settings.wckeys.is_empty();
    let change = |name: &String| PolicyChange::SetUser {
        name: name.clone(),
        default_account: settings.default_account.clone(),
        admin_level: settings.admin_level,
        default_wckey: settings.default_wckey.clone(),
        add_wckeys: settings.wckeys.clone(),
        remove_wckeys: std::collections::BTreeSet::new(),
    };
    names.iter().filter(|_| said).map(change).collect()
}

fn qos(view: &PolicyView, conditions: &Conditions, settings: Settings) -> Plan {
    let names = conditions.values(Subject::Name);
    if names.is_empty() {
        return Plan::failed(vec![" Need name of qos to add.".to_owned()]);
    }
    let names = names.iter().map(|n| n.to_lowercase());
    let new: std::collections::BTreeSet<String> = names.filter(|n| view.qos(n).is_none()).collect();
    if new.is_empty() {
        return Plan::nothing(" Nothing new added.");
    }
    let mut out = vec![" Adding QOS(s)".to_owned()];
    out.extend(new.iter().map(|n| format!("  {n}")));
    out.push(" Settings".to_owned());
    let text = settings.qos.description.clone();
    let text = text.unwrap_or_else(|| new.iter().cloned().collect::<Vec<_>>().join(","));
    out.push(format!("  Description    = {text}"));
    out.extend(sorted(settings.lines.clone(), Target::Qos));
    let change = |name: &String| {
        let mut set = settings.qos.clone();
        set.description.get_or_insert_with(|| name.clone());
        PolicyChange::AddQos {
            name: name.clone(),
            set,
        }
    };
    Plan {
        out,
        changes: new.iter().map(change).collect(),
        problem: " Problem adding QOS",
        ..Plan::default()
    }
}

/// Names and accounts of `add coordinator` and `delete coordinator`, all of them known.
///
/// # Errors
/// The lines about one that is not known.
pub(super) fn coordinators(
    view: &PolicyView,
    words: &[String],
) -> Result<(Vec<String>, Vec<String>), Vec<String>> {
    let mut conditions = Conditions::default();
    for word in words {
        if !["where", "set"].contains(&word.to_ascii_lowercase().as_str()) {
            conditions.read(word)?;
        }
    }
    let accounts = conditions.values(Subject::Account).to_vec();
    let names = conditions.all(&[Subject::Name, Subject::User]);
    if accounts.is_empty() || names.is_empty() {
        return Err(vec![
            " You need to specify an account and a user: accounts=ACCOUNT names=USER".to_owned(),
        ]);
    }
    if let Some(missing) = accounts.iter().find(|a| view.account(a).is_none()) {
        let missing = clean(missing);
        return Err(vec![format!(
            " You specified a non-existent account '{missing}'."
        )]);
    }
    if let Some(missing) = names.iter().find(|n| view.user(n).is_none()) {
        let missing = clean(missing);
        return Err(vec![format!(" You specified a non-existent user '{missing}'.")]);
    }
    Ok((accounts, names))
}

fn coordinator(view: &PolicyView, words: &[String]) -> Plan {
    let (accounts, names) = match coordinators(view, words) {
        Ok(read) => read,
        Err(lines) => return Plan::failed(lines),
    };
    let mut out = vec![" Adding Coordinator User(s)".to_owned()];
    out.extend(names.iter().map(|n| format!("  {n}")));
    out.push(" To Account(s) and all sub-accounts".to_owned());
    out.extend(accounts.iter().map(|a| format!("  {a}")));
    let mut changes = Vec::new();
    for account in &accounts {
        changes.extend(names.iter().map(|user| PolicyChange::AddCoordinator {
            account: account.clone(),
            user: user.clone(),
        }));
    }
    Plan {
        out,
        changes,
        problem: " Problem adding coordinator",
        ..Plan::default()
    }
}
