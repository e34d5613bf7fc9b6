//! What has to change so that the policy is as a file says, in an order in which each change can be
//! made: what is named before who names it, accounts from the root downwards, removals last.

use super::super::settings::written;
use super::site::{Account, Place, Site, User};
use cosy_model::policy::{
    AdminLevel, AssociationChange, AssociationKey, AssociationSettings, LimitKey, Limits, NORMAL,
    PolicyChange, QosChange, QosListChange, QosRecord, ROOT, Shares,
};
use std::collections::{BTreeMap, BTreeSet};

/// A change, and the line that tells of it.
pub type Told = (PolicyChange, String);

/// Everything that has to change. `prune`: what the file does not name goes.
///
/// # Errors
/// Accounts that are in a circle, or would be below nothing.
pub fn between(present: &Site, wanted: &Site, prune: bool) -> Result<Vec<Told>, String> {
    let mut all = Vec::new();
    qualities(&mut all, present, wanted);
    for name in downwards(present, wanted, prune)? {
        account(&mut all, present, wanted, name);
    }
    for (name, row) in &wanted.users {
        user(&mut all, name, present.users.get(name), row);
    }
    coordinators(&mut all, present, wanted);
    if prune {
        remove_others(&mut all, present, wanted);
    }
    Ok(all)
}

// ---- qualities of service

fn qualities(all: &mut Vec<Told>, present: &Site, wanted: &Site) {
    for row in wanted.qos.values() {
        match present.qos.get(&row.name) {
            None => {
                let (set, mut words) = qos_change(&QosRecord::default(), row);
                words.retain(|word| word != "description");
                let name = row.name.clone();
                let line = format!("add qos {name}{}", told(&words));
                all.push((PolicyChange::AddQos { name, set }, line));
            }
            Some(old) => {
                let (set, words) = qos_change(old, row);
                if words.is_empty() {
                    continue;
                }
                let line = format!("change qos {}{}", row.name, told(&words));
                let name = row.name.clone();
                all.push((PolicyChange::ModifyQos { name, set }, line));
            }
        }
    }
    preemption(all, present, wanted);
}

/// Lists of whom each preempts: first all become shorter, so that none closes a circle on the way.
fn preemption(all: &mut Vec<Told>, present: &Site, wanted: &Site) {
    let none = BTreeSet::new();
    let list = |site: &Site, name: &str| site.qos.get(name).map(|row| row.preempt.clone());
    let set = |name: &str, list: BTreeSet<String>| PolicyChange::ModifyQos {
        name: name.to_owned(),
        set: QosChange {
            preempt: Some(QosListChange::Exactly(list)),
            ..QosChange::default()
        },
    };
    for shorter in [true, false] {
        for row in wanted.qos.values() {
            let old = list(present, &row.name).unwrap_or_default();
            let both: BTreeSet<String> = old.intersection(&row.preempt).cloned().collect();
            let (from, to) = match shorter {
                true => (&old, &both),
                false => (&both, &row.preempt),
            };
            if from != to {
                let words = joined(if to.is_empty() { &none } else { to });
                let line = format!("change qos {}: preempts {words}", row.name);
                all.push((set(&row.name, to.clone()), line));
            }
        }
    }
}

/// Everything but whom it preempts; what changes, in words.
fn qos_change(old: &QosRecord, new: &QosRecord) -> (QosChange, Vec<String>) {
    let mut words = Vec::new();
    let mut differs = |word: &str, differs: bool| {
        if differs {
            words.push(word.to_owned());
        }
        differs
    };
    let mode = |row: &QosRecord| (row.preempt_mode, row.preempt_within);
    let set = QosChange {
        description: differs("description", old.description != new.description)
            .then(|| new.description.clone()),
        priority: differs("priority", old.priority != new.priority).then_some(new.priority),
        limits: limit_changes(&old.limits, &new.limits),
        flags: differs("flags", old.flags != new.flags).then(|| new.flags.clone()),
        usage_factor_ppm: differs("usage-factor", old.usage_factor_ppm != new.usage_factor_ppm)
            .then_some(new.usage_factor_ppm),
        preempt_mode: differs("preempt-mode", mode(old) != mode(new)).then_some(new.preempt_mode),
        preempt_within: (mode(old) != mode(new)).then_some(new.preempt_within),
        preempt_exempt: differs("preempt-exempt", old.preempt_exempt != new.preempt_exempt)
            .then_some(new.preempt_exempt),
        grace: differs("grace", old.grace != new.grace).then_some(new.grace),
        ..QosChange::default()
    };
    for word in words.iter_mut().filter(|word| *word == "priority") {
        *word = format!("priority={}", new.priority);
    }
    words.extend(limit_words(&old.limits, &new.limits));
    (set, words)
}

// ---- accounts

/// The accounts of a file, each after that above it.
fn downwards<'a>(present: &Site, wanted: &'a Site, prune: bool) -> Result<Vec<&'a str>, String> {
    let mut below: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut open: Vec<&str> = Vec::new();
    for (name, row) in &wanted.accounts {
        let parent = row.parent.as_deref().unwrap_or_default();
        if wanted.accounts.contains_key(parent) {
            below.entry(parent).or_default().push(name);
            continue;
        }
        let there = parent == ROOT || present.accounts.contains_key(parent);
        if name != ROOT && (!there || prune && parent != ROOT) {
            return Err(format!(
                "account {name}: there is no account '{}' above it{}",
                parent.escape_debug(),
                match there {
                    true => " in the file, and --prune would remove it",
                    false => ", neither in the file nor in the policy",
                }
            ));
        }
        open.push(name);
    }
    let mut all = Vec::new();
    open.reverse();
    while let Some(name) = open.pop() {
        all.push(name);
        open.extend(below.remove(name).into_iter().flatten().rev());
    }
    match below.into_values().flatten().next() {
        None => Ok(all),
        Some(name) => {
            let row = wanted.accounts.get(name);
            let parent = row.and_then(|row| row.parent.as_deref());
            Err(format!(
                "account {name} is below {}, which is {name} or below it: a circle",
                parent.unwrap_or_default()
            ))
        }
    }
}

fn account(all: &mut Vec<Told>, present: &Site, wanted: &Site, name: &str) {
    let Some(row) = wanted.accounts.get(name) else {
        return;
    };
    let usual = Account::default();
    let old = present.accounts.get(name);
    let is_new = old.is_none() && name != ROOT;
    let old = old.unwrap_or(&usual);
    let mut words = Vec::new();
    let text = |new: &Option<String>, old: &Option<String>| {
        new.clone().filter(|new| Some(new) != old.as_ref())
    };
    let parent = text(&row.parent, &old.parent);
    let description = text(&row.description, &old.description);
    let organization = text(&row.organization, &old.organization);
    if let Some(parent) = &parent {
        words.push(format!("below {parent}"));
    }
    words.extend(description.is_some().then(|| "description".to_owned()));
    words.extend(organization.is_some().then(|| "organization".to_owned()));
    let (set, of_settings) = settings_change(&old.settings, &row.settings);
    words.extend(of_settings);
    let name = name.to_owned();
    if is_new {
        let line = format!("add account {name}{}", told(&words));
        let change = PolicyChange::AddAccount {
            name,
            parent,
            description,
            organization,
            set,
        };
        return all.push((change, line));
    }
    if words.is_empty() {
        return;
    }
    let line = format!("change account {name}{}", told(&words));
    let change = PolicyChange::ModifyAccount {
        name,
        parent,
        description,
        organization,
        set,
    };
    all.push((change, line));
}

fn coordinators(all: &mut Vec<Told>, present: &Site, wanted: &Site) {
    let none = BTreeSet::new();
    for (name, row) in &wanted.accounts {
        let old = present.accounts.get(name);
        let old = old.map_or(&none, |old| &old.coordinators);
        for user in row.coordinators.difference(old) {
            let (account, user) = (name.clone(), user.clone());
            let line = format!("user {user} coordinates account {account}");
            all.push((PolicyChange::AddCoordinator { account, user }, line));
        }
        for user in old.difference(&row.coordinators) {
            let (account, user) = (name.clone(), user.clone());
            let line = format!("user {user} coordinates account {account} no longer");
            all.push((PolicyChange::RemoveCoordinator { account, user }, line));
        }
    }
}

// ---- users

fn key(user: &str, (account, queue): &Place) -> AssociationKey {
    AssociationKey {
        account: account.clone(),
        user: Some(user.to_owned()),
        queue: queue.clone(),
    }
}

fn place_words(user: &str, (account, queue): &Place) -> String {
    match queue {
        Some(queue) => format!("user {user} in account {account} for queue {queue}"),
        None => format!("user {user} in account {account}"),
    }
}

fn user(all: &mut Vec<Told>, name: &str, old: Option<&User>, row: &User) {
    let usual = User::default();
    let old = old.unwrap_or(&usual);
    for (place, own) in &row.places {
        let key = key(name, place);
        let whom = place_words(name, place);
        match old.places.get(place) {
            None => {
                let (set, words) = settings_change(&AssociationSettings::default(), own);
                let line = format!("add {whom}{}", told(&words));
                all.push((PolicyChange::AddAssociation { key, set }, line));
            }
            Some(before) => {
                let (set, words) = settings_change(before, own);
                if !words.is_empty() {
                    let line = format!("change {whom}{}", told(&words));
                    all.push((PolicyChange::ModifyAssociation { key, set }, line));
                }
            }
        }
    }
    // Whoever has no default account gets the first one that comes.
    let first = row.places.keys().next().map(|(account, _)| account);
    let filled = old.default.as_ref().or(first);
    let default = row.default.clone().filter(|new| Some(new) != filled);
    let level = (row.level != old.level).then_some(row.level);
    let keys = (row.wckeys != old.wckeys).then_some(());
    let wckey = (row.default_wckey != old.default_wckey)
        .then(|| row.default_wckey.clone().unwrap_or_default());
    let mut words = Vec::new();
    words.extend(default.as_ref().map(|to| format!("default account {to}")));
    words.extend(level.map(|level| format!("level {}", level_word(level))));
    words.extend(keys.map(|()| "keys".to_owned()));
    words.extend(wckey.as_ref().map(|key| format!("default key '{key}'")));
    if words.is_empty() {
        return;
    }
    let change = PolicyChange::SetUser {
        name: name.to_owned(),
        default_account: default,
        admin_level: level,
        default_wckey: wckey,
        add_wckeys: row.wckeys.difference(&old.wckeys).cloned().collect(),
        remove_wckeys: old.wckeys.difference(&row.wckeys).cloned().collect(),
    };
    all.push((change, format!("change user {name}{}", told(&words))));
}

const fn level_word(level: AdminLevel) -> &'static str {
    match level {
        AdminLevel::None => "none",
        AdminLevel::Operator => "operator",
        AdminLevel::Administrator => "administrator",
    }
}

// ---- removals

fn remove_others(all: &mut Vec<Told>, present: &Site, wanted: &Site) {
    for (name, old) in &present.users {
        let Some(new) = wanted.users.get(name) else {
            let line = format!("remove user {name}");
            all.push((PolicyChange::RemoveUser { name: name.clone() }, line));
            continue;
        };
        for place in old.places.keys().filter(|p| !new.places.contains_key(*p)) {
            let line = format!("remove {}", place_words(name, place));
            let key = key(name, place);
            all.push((PolicyChange::RemoveAssociation { key }, line));
        }
    }
    let goes = |name: &str| name != ROOT && !wanted.accounts.contains_key(name);
    for (name, old) in &present.accounts {
        // What is below an account that goes, goes with it.
        let with_it = old.parent.as_deref().is_some_and(goes);
        if goes(name) && !with_it {
            let line = format!("remove account {name}");
            all.push((PolicyChange::RemoveAccount { name: name.clone() }, line));
        }
    }
    for name in present.qos.keys() {
        if name != NORMAL && !wanted.qos.contains_key(name) {
            let line = format!("remove qos {name}");
            all.push((PolicyChange::RemoveQos { name: name.clone() }, line));
        }
    }
}

// ---- settings

fn settings_change(
    old: &AssociationSettings,
    new: &AssociationSettings,
) -> (AssociationChange, Vec<String>) {
    let mut words = Vec::new();
    let mut set = AssociationChange::default();
    if old.shares != new.shares {
        words.push(match new.shares {
            Shares::Count(count) => format!("shares={count}"),
            Shares::Parent => "shares=parent".to_owned(),
        });
        set.shares = Some(new.shares);
    }
    if old.qos != new.qos {
        set.qos = Some(match &new.qos {
            Some(list) => QosListChange::Exactly(list.clone()),
            None => QosListChange::Inherit,
        });
        let list = new.qos.as_ref().map(joined);
        words.push(format!("qos={}", list.as_deref().unwrap_or("none")));
    }
    if old.default_qos != new.default_qos {
        let default = new.default_qos.as_deref().unwrap_or("none");
        words.push(format!("default-qos={default}"));
        set.default_qos = Some(new.default_qos.clone());
    }
    if old.priority != new.priority {
        let priority = new.priority.map(|priority| priority.to_string());
        words.push(format!("priority={}", priority.as_deref().unwrap_or("none")));
        set.priority = Some(new.priority);
    }
    if old.comment != new.comment {
        words.push("comment".to_owned());
        set.comment = Some(new.comment.clone());
    }
    set.limits = limit_changes(&old.limits, &new.limits);
    words.extend(limit_words(&old.limits, &new.limits));
    (set, words)
}

/// Limits that are others, and those that go.
fn limit_changes(old: &Limits, new: &Limits) -> Vec<(LimitKey, Option<u64>)> {
    let gone = old.iter().filter(|(key, _)| new.get(key).is_none());
    let gone = gone.map(|(key, _)| (key.clone(), None));
    let others = new
        .iter()
        .filter(|(key, value)| old.get(key) != Some(*value));
    gone.chain(others.map(|(key, value)| (key.clone(), Some(value))))
        .collect()
}

fn limit_words(old: &Limits, new: &Limits) -> Vec<String> {
    let word = |(key, value): (LimitKey, Option<u64>)| match value {
        Some(value) => format!("{key}={}", written(&key, value)),
        None => format!("{key}=none"),
    };
    limit_changes(old, new).into_iter().map(word).collect()
}

fn joined(all: &BTreeSet<String>) -> String {
    match all.is_empty() {
        true => "nobody".to_owned(),
        false => all.iter().map(String::as_str).collect::<Vec<_>>().join(","),
    }
}

fn told(words: &[String]) -> String {
    match words.is_empty() {
        true => String::new(),
        false => format!(": {}", words.join(", ")),
    }
}
