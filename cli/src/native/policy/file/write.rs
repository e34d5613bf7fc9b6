//! The file of `cadm account dump`.

use super::super::settings::written;
use super::site::{Account, Site, User};
use cosy_model::policy::{
    AdminLevel, AssociationSettings, LimitKey, Limits, QosRecord, ROOT, Shares,
};
use std::collections::BTreeMap;
use toml_writer::{ToTomlKey as _, ToTomlValue as _, TomlKeyBuilder, TomlStringBuilder};

/// How such a file is edited.
const HEAD: &str = "\
# 'cadm account load FILE' makes it so: what is named here is then as it says here, all of it or
# nothing; --dry-run says what would change, --prune also removes what is not named. Settings are
# those of 'cadm account set', 'cadm user set' and 'cadm qos set'.
";

/// The whole file.
pub fn text(site: &Site) -> String {
    let mut text = format!(
        "# Accounts, users and qualities of service of cluster {}.\n{HEAD}",
        site.cluster.escape_debug()
    );
    site.qos.values().for_each(|row| qos(&mut text, row));
    for name in in_order(&site.accounts) {
        if let Some(row) = site.accounts.get(name) {
            account(&mut text, name, row);
        }
    }
    let users = site.users.iter();
    users.for_each(|(name, row)| user(&mut text, name, row));
    text
}

/// Each account before those below it, siblings by name.
fn in_order(accounts: &BTreeMap<String, Account>) -> Vec<&str> {
    let mut below: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, row) in accounts {
        let parent = row.parent.as_deref().unwrap_or_default();
        below.entry(parent).or_default().push(name);
    }
    let mut all = Vec::new();
    let mut open: Vec<&str> = vec![ROOT];
    // Of somebody who may not see the root the accounts at the top are others.
    let hidden = |parent: &String| parent != ROOT && !accounts.contains_key(parent);
    let tops = accounts
        .iter()
        .filter(|(_, row)| row.parent.as_ref().is_some_and(hidden));
    open.extend(tops.map(|(name, _)| name.as_str()));
    while let Some(name) = open.pop() {
        all.extend(accounts.contains_key(name).then_some(name));
        open.extend(below.get(name).into_iter().flatten().rev());
    }
    all
}

fn line(text: &mut String, name: &str, value: &str) {
    let key = TomlKeyBuilder::new(name).as_default().to_toml_key();
    let value = TomlStringBuilder::new(value).as_default().to_toml_value();
    text.push_str(&format!("{key} = {value}\n"));
}

fn number(text: &mut String, name: &str, value: u32) {
    text.push_str(&format!("{name} = {value}\n"));
}

fn list<'a>(text: &mut String, name: &str, all: impl IntoIterator<Item = &'a String>) {
    let all: Vec<&str> = all.into_iter().map(String::as_str).collect();
    line(text, name, &all.join(","));
}

fn qos(text: &mut String, row: &QosRecord) {
    let usual = QosRecord::default();
    text.push_str("\n[[qos]]\n");
    line(text, "name", &row.name);
    line(text, "description", &row.description);
    number(text, "priority", row.priority);
    if !row.flags.is_empty() {
        let flags: Vec<&str> = row.flags.iter().map(|flag| flag.word()).collect();
        line(text, "flags", &flags.join(","));
    }
    if row.usage_factor_ppm != usual.usage_factor_ppm {
        line(text, "usage-factor", &super::super::qos::decimal(row.usage_factor_ppm));
    }
    if !row.preempt.is_empty() {
        list(text, "preempt", &row.preempt);
    }
    if let Some(words) = row.preempt_words() {
        line(text, "preempt-mode", &words);
    }
    if let Some(exempt) = row.preempt_exempt {
        line(text, "preempt-exempt", &exempt.to_string());
    }
    if row.grace != usual.grace {
        line(text, "grace", &row.grace.to_string());
    }
    limits(text, &row.limits);
}

fn account(text: &mut String, name: &str, row: &Account) {
    text.push_str("\n[[account]]\n");
    line(text, "name", name);
    if let Some(parent) = &row.parent {
        line(text, "parent", parent);
    }
    for (word, value) in [
        ("description", &row.description),
        ("organization", &row.organization),
    ] {
        if let Some(value) = value {
            line(text, word, value);
        }
    }
    if !row.coordinators.is_empty() {
        list(text, "coordinators", &row.coordinators);
    }
    settings(text, &row.settings);
}

fn user(text: &mut String, name: &str, row: &User) {
    text.push_str("\n[[user]]\n");
    line(text, "name", name);
    if let Some(default) = &row.default {
        line(text, "default", default);
    }
    match row.level {
        AdminLevel::None => {}
        AdminLevel::Operator => line(text, "level", "operator"),
        AdminLevel::Administrator => line(text, "level", "administrator"),
    }
    if !row.wckeys.is_empty() {
        list(text, "wckeys", &row.wckeys);
    }
    if let Some(key) = &row.default_wckey {
        line(text, "default-wckey", key);
    }
    for ((account, queue), own) in &row.places {
        text.push_str("[[user.in]]\n");
        line(text, "account", account);
        if let Some(queue) = queue {
            line(text, "queue", queue);
        }
        settings(text, own);
    }
}

fn settings(text: &mut String, row: &AssociationSettings) {
    match row.shares {
        Shares::Count(1) => {}
        Shares::Count(count) => number(text, "shares", count),
        Shares::Parent => line(text, "shares", "parent"),
    }
    if let Some(all) = &row.qos {
        list(text, "qos", all);
    }
    if let Some(default) = &row.default_qos {
        line(text, "default-qos", default);
    }
    if let Some(priority) = row.priority {
        number(text, "priority", priority);
    }
    if !row.comment.is_empty() {
        line(text, "comment", &row.comment);
    }
    limits(text, &row.limits);
}

/// A line for each kind of limit, with all its resources.
fn limits(text: &mut String, all: &Limits) {
    let mut kinds: Vec<(&str, Vec<String>)> = Vec::new();
    for (key, value) in all.iter() {
        let LimitKey { kind, tres } = key;
        let value = written(key, value);
        let value = match tres {
            Some(tres) => format!("{tres}={value}"),
            None => value,
        };
        match kinds.last_mut().filter(|(word, _)| *word == kind.word()) {
            Some((_, values)) => values.push(value),
            None => kinds.push((kind.word(), vec![value])),
        }
    }
    kinds
        .iter()
        .for_each(|(word, values)| line(text, word, &values.join(",")));
}
