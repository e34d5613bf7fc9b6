//! Reads a file of `cadm account dump`. Everything in it is known, or the file is refused: a word
//! that is misspelled is no limit that is left out.

use super::super::settings;
use super::site::{Account, Site, User};
use cosy_model::near;
use cosy_model::policy::{
    AdminLevel, AssociationChange, AssociationSettings, QosChange, QosListChange, QosRecord, ROOT,
};
use std::collections::BTreeSet;
use toml::{Table, Value};

/// What a file wants.
///
/// # Errors
/// What is wrong, and where.
pub fn site(text: &str) -> Result<Site, String> {
    let mut top: Table = text.parse().map_err(|e: toml::de::Error| e.to_string())?;
    let mut site = Site::default();
    for (at, table) in tables(&mut top, "qos")?.into_iter().enumerate() {
        qos(&mut site, at, table)?;
    }
    for (at, table) in tables(&mut top, "account")?.into_iter().enumerate() {
        account(&mut site, at, table)?;
    }
    for (at, table) in tables(&mut top, "user")?.into_iter().enumerate() {
        user(&mut site, at, table)?;
    }
    match top.keys().next() {
        None => Ok(site),
        Some(other) => Err(format!(
            "'{}' is unknown{}: there are [[qos]], [[account]] and [[user]]",
            other.escape_debug(),
            near_word(other, &["qos", "account", "user"])
        )),
    }
}

fn near_word(word: &str, all: &[&'static str]) -> String {
    match near::nearest(word, all.iter().copied()) {
        Some(near) => format!(", did you mean {near}?"),
        None => String::new(),
    }
}

fn tables(of: &mut Table, name: &str) -> Result<Vec<Table>, String> {
    let Some(value) = of.remove(name) else {
        return Ok(Vec::new());
    };
    let wrong = || format!("'{name}': write [[{name}]], one for each");
    let Value::Array(all) = value else {
        return Err(wrong());
    };
    let one = |value| match value {
        Value::Table(table) => Ok(table),
        _ => Err(wrong()),
    };
    all.into_iter().map(one).collect()
}

/// A name out of a table, with what the table is called in what is said of it.
fn named(table: &mut Table, kind: &str, at: usize) -> Result<(String, String), String> {
    let number = format!("[[{kind}]] number {}", at + 1);
    let name = match table.remove("name") {
        Some(Value::String(name)) if !name.is_empty() => name,
        Some(_) => return Err(format!("{number}: its name is no text")),
        None => return Err(format!("{number} has no name")),
    };
    let whole = format!("{kind} {}", name.escape_debug());
    Ok((name, whole))
}

fn text(table: &mut Table, key: &str, whole: &str) -> Result<Option<String>, String> {
    match table.remove(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("{whole}: {key} is a text, in quotes")),
    }
}

fn name_set(table: &mut Table, key: &str, whole: &str) -> Result<BTreeSet<String>, String> {
    let Some(value) = table.remove(key) else {
        return Ok(BTreeSet::new());
    };
    let list = as_text(key, &value).map_err(|why| format!("{whole}: {why}"))?;
    let names = list.split(',').map(str::trim).filter(|n| !n.is_empty());
    Ok(names.map(str::to_owned).collect())
}

/// A value as it would stand on a command line.
fn as_text(key: &str, value: &Value) -> Result<String, String> {
    let one = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        _ => Err(format!("{}: a text or a number is needed", key.escape_debug())),
    };
    match value {
        Value::Array(all) => {
            let all: Result<Vec<String>, String> = all.iter().map(one).collect();
            Ok(all?.join(","))
        }
        value => one(value),
    }
}

/// What is left of a table as `NAME=VALUE`.
fn pairs(table: &Table) -> Result<Vec<String>, String> {
    let pair =
        |(key, value): (&String, &Value)| as_text(key, value).map(|value| format!("{key}={value}"));
    table.iter().map(pair).collect()
}

fn twice(whole: &str) -> String {
    format!("{whole} is there twice")
}

fn qos(site: &mut Site, at: usize, mut table: Table) -> Result<(), String> {
    let (name, whole) = named(&mut table, "qos", at)?;
    let say = |why: String| format!("{whole}: {why}");
    let change = settings::qos(&pairs(&table).map_err(say)?).map_err(say)?;
    let row = qos_of(&name, change).map_err(say)?;
    match site.qos.insert(name, row) {
        None => Ok(()),
        Some(_) => Err(twice(&whole)),
    }
}

fn qos_of(name: &str, change: QosChange) -> Result<QosRecord, String> {
    let mut row = QosRecord {
        name: name.to_owned(),
        description: change.description.unwrap_or_else(|| name.to_owned()),
        priority: change.priority.unwrap_or_default(),
        preempt_mode: change.preempt_mode.flatten(),
        preempt_within: change.preempt_within.unwrap_or_default(),
        preempt_exempt: change.preempt_exempt.flatten(),
        grace: change.grace.unwrap_or_default(),
        ..QosRecord::default()
    };
    if !change.add_flags.is_empty() || !change.remove_flags.is_empty() {
        return Err(whole_list("flags"));
    }
    row.flags = change.flags.unwrap_or_default();
    if let Some(factor) = change.usage_factor_ppm {
        row.usage_factor_ppm = factor;
    }
    row.preempt = exact("preempt", change.preempt)?.unwrap_or_default();
    for (key, value) in change.limits {
        row.limits.set(key, value);
    }
    Ok(row)
}

fn whole_list(word: &str) -> String {
    format!("{word}: a file has the whole list, without + and -")
}

fn exact(word: &str, change: Option<QosListChange>) -> Result<Option<BTreeSet<String>>, String> {
    match change {
        Some(QosListChange::Exactly(all)) => Ok(Some(all)),
        Some(QosListChange::Inherit) | None => Ok(None),
        Some(QosListChange::Add(_) | QosListChange::Remove(_)) => Err(whole_list(word)),
    }
}

fn settings_of(table: &Table) -> Result<AssociationSettings, String> {
    let change: AssociationChange = settings::association(&pairs(table)?)?;
    let mut own = AssociationSettings {
        shares: change.shares.unwrap_or_default(),
        qos: exact("qos", change.qos)?,
        default_qos: change.default_qos.flatten(),
        priority: change.priority.flatten(),
        comment: change.comment.unwrap_or_default(),
        ..AssociationSettings::default()
    };
    for (key, value) in change.limits {
        own.limits.set(key, value);
    }
    Ok(own)
}

fn account(site: &mut Site, at: usize, mut table: Table) -> Result<(), String> {
    let (name, whole) = named(&mut table, "account", at)?;
    let parent = text(&mut table, "parent", &whole)?;
    let account = Account {
        parent: match name == ROOT {
            true => parent,
            false => Some(parent.unwrap_or_else(|| ROOT.to_owned())),
        },
        description: text(&mut table, "description", &whole)?,
        organization: text(&mut table, "organization", &whole)?,
        coordinators: name_set(&mut table, "coordinators", &whole)?,
        settings: settings_of(&table).map_err(|why| format!("{whole}: {why}"))?,
    };
    if name == ROOT && account.parent.is_some() {
        return Err("account root: it is below no other".to_owned());
    }
    match site.accounts.insert(name, account) {
        None => Ok(()),
        Some(_) => Err(twice(&whole)),
    }
}

const OF_USER: &[&str] = &["name", "default", "level", "wckeys", "default-wckey", "in"];

fn user(site: &mut Site, at: usize, mut table: Table) -> Result<(), String> {
    let (name, whole) = named(&mut table, "user", at)?;
    let level = match text(&mut table, "level", &whole)?.as_deref() {
        None | Some("none") => AdminLevel::None,
        Some("operator") => AdminLevel::Operator,
        Some("administrator") => AdminLevel::Administrator,
        Some(_) => return Err(format!("{whole}: level is none, operator or administrator")),
    };
    let mut user = User {
        default: text(&mut table, "default", &whole)?,
        level,
        wckeys: name_set(&mut table, "wckeys", &whole)?,
        default_wckey: text(&mut table, "default-wckey", &whole)?,
        ..User::default()
    };
    for mut place in tables(&mut table, "in").map_err(|why| format!("{whole}: {why}"))? {
        let account = text(&mut place, "account", &whole)?
            .ok_or_else(|| format!("{whole}: [[user.in]] names no account"))?;
        let queue = text(&mut place, "queue", &whole)?;
        let whole = format!("{whole} in account {}", account.escape_debug());
        let own = settings_of(&place).map_err(|why| format!("{whole}: {why}"))?;
        if user.places.insert((account, queue), own).is_some() {
            return Err(twice(&whole));
        }
    }
    if let Some(other) = table.keys().next() {
        return Err(format!(
            "{whole}: '{}' is unknown{}: limits and shares are set in [[user.in]]",
            other.escape_debug(),
            near_word(other, OF_USER)
        ));
    }
    match site.users.insert(name, user) {
        None => Ok(()),
        Some(_) => Err(twice(&whole)),
    }
}
