//! Reads a file of `sacctmgr dump`: what it has and the policy has not becomes changes. Source:
//! sacctmgr(1), "FLAT FILE DUMP AND LOAD".
//!
//! A file is taken whole or not at all: the first line that is wrong ends it, with its number.

use super::settings::{Settings, Target};
use super::view::PolicyView;
use super::words::{Word, names, unquoted};
use crate::show::clean;
use cosy_model::policy::{AssociationKey, PolicyChange, ROOT};
use std::collections::BTreeSet;

/// Longest file that is read, in bytes.
pub const LONGEST: usize = 64 << 20;

/// What a file says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Loaded {
    /// Accounts that are new, as lines of a table.
    pub accounts: Vec<String>,
    /// Users in accounts that are new.
    pub users: Vec<String>,
    /// What is to change.
    pub changes: Vec<PolicyChange>,
}

struct Reader<'a> {
    view: &'a PolicyView,
    parent: String,
    accounts: BTreeSet<String>,
    keys: BTreeSet<AssociationKey>,
    loaded: Loaded,
}

/// Reads a file. `clean` deletes what the file does not have.
///
/// # Errors
/// The lines about what is wrong.
pub fn read(view: &PolicyView, text: &str, clean: bool) -> Result<Loaded, Vec<String>> {
    let mut reader = Reader {
        view,
        parent: ROOT.to_owned(),
        accounts: BTreeSet::from([ROOT.to_owned()]),
        keys: BTreeSet::new(),
        loaded: Loaded::default(),
    };
    let mut begun = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let number = at + 1;
        let (kind, rest) = line
            .split_once(" - ")
            .ok_or_else(|| misformatted(number, line))?;
        let (name, options) = parts(rest);
        let name = unquoted(name).to_owned();
        if !begun && kind.trim() != "Cluster" {
            return Err(vec![
                " You need to specify a cluster name first with 'Cluster - $NAME' in your file"
                    .to_owned(),
            ]);
        }
        let done = match kind.trim() {
            "Cluster" => {
                begun = true;
                reader.cluster(&options)
            }
            "Parent" => reader.parent(number, &name),
            "Account" => reader.account(&name, &options),
            "User" => reader.user(&name, &options),
            _ => return Err(misformatted(number, line)),
        };
        done.map_err(|lines| at_line(number, lines))?;
    }
    if clean {
        reader.remove_others();
    }
    Ok(reader.loaded)
}

fn misformatted(number: usize, line: &str) -> Vec<String> {
    vec![
        format!(" Misformatted line({number}): {}", clean(line)),
        " Problem with requests: Unspecified error".to_owned(),
    ]
}

fn at_line(number: usize, mut lines: Vec<String>) -> Vec<String> {
    lines.retain(|line| !line.contains("keyword 'where'"));
    if !lines.iter().any(|line| line.starts_with(" line(")) {
        lines.push(format!(" Problem with line({number})"));
        lines.push(" Problem with requests: Unspecified error".to_owned());
    }
    lines
}

/// Name and options of a line; `:` inside of quotes ends nothing.
fn parts(rest: &str) -> (&str, Vec<&str>) {
    let mut all = Vec::new();
    let (mut quote, mut from) = (None, 0);
    for (at, c) in rest.char_indices() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            // A resource may have a type: gres/gpu:a100=2 goes on.
            (None, ':') if !is_type(rest.get(from..at).unwrap_or_default()) => {
                all.push(rest.get(from..at).unwrap_or_default());
                from = at + 1;
            }
            _ => {}
        }
    }
    all.push(rest.get(from..).unwrap_or_default());
    let name = all.remove(0);
    (name, all)
}

/// Whether what stands before a `:` is a device whose type follows.
fn is_type(text: &str) -> bool {
    let last = text.rsplit([',', '=']).next().unwrap_or_default();
    last.starts_with("gres/")
}

impl Reader<'_> {
    fn settings(&self, target: Target, options: &[&str]) -> Result<Settings, Vec<String>> {
        let mut settings = Settings::default();
        for option in options {
            settings.read(target, self.view, option)?;
        }
        Ok(settings)
    }

    fn cluster(&mut self, options: &[&str]) -> Result<(), Vec<String>> {
        let settings = self.settings(Target::Account, options)?;
        let key = AssociationKey {
            account: ROOT.to_owned(),
            user: None,
            queue: None,
        };
        if settings.changes_association() {
            self.loaded.changes.push(PolicyChange::ModifyAssociation {
                key,
                set: settings.association,
            });
        }
        Ok(())
    }

    fn parent(&mut self, number: usize, name: &str) -> Result<(), Vec<String>> {
        let name = name.to_lowercase();
        if !self.accounts.contains(&name) && self.view.account(&name).is_none() {
            return Err(vec![format!(
                " line({number}) You need to add this parent ({}) as a child before you can add children to it.",
                clean(&name)
            )]);
        }
        self.parent = name;
        Ok(())
    }

    fn account(&mut self, name: &str, options: &[&str]) -> Result<(), Vec<String>> {
        let name = name.to_lowercase();
        let settings = self.settings(Target::Account, options)?;
        if !self.accounts.insert(name.clone()) || name == ROOT {
            return Ok(());
        }
        let parent = Some(self.parent.clone());
        let (description, organization) = (settings.description, settings.organization);
        let set = settings.association;
        let change = match self.view.account(&name) {
            Some(_) => PolicyChange::ModifyAccount {
                name,
                parent,
                description,
                organization,
                set,
            },
            None => {
                self.loaded.accounts.push(name.clone());
                PolicyChange::AddAccount {
                    name,
                    parent,
                    description,
                    organization,
                    set,
                }
            }
        };
        self.loaded.changes.push(change);
        Ok(())
    }

    fn user(&mut self, name: &str, options: &[&str]) -> Result<(), Vec<String>> {
        let (mut queue, mut led, mut rest) = (None, Vec::new(), Vec::new());
        for option in options {
            let word = Word::of(option);
            match (word.name.to_ascii_lowercase().as_str(), word.value) {
                ("partition", Some((_, value))) => queue = Some(value.to_owned()),
                ("coordinator", Some((_, value))) => led = names(value),
                _ => rest.push(*option),
            }
        }
        let settings = self.settings(Target::User, &rest)?;
        let key = AssociationKey {
            account: self.parent.clone(),
            user: Some(name.to_owned()),
            queue,
        };
        if !self.keys.insert(key.clone()) {
            return Ok(());
        }
        let known = self.view.associations.iter().any(|row| row.key == key);
        let set = settings.association.clone();
        let change = match known {
            true => PolicyChange::ModifyAssociation { key, set },
            false => {
                self.loaded.users.push(format!("{name} in {}", self.parent));
                PolicyChange::AddAssociation { key, set }
            }
        };
        self.loaded.changes.push(change);
        // The default account may come later in the file: only where the user is in it by then.
        let default = settings.default_account.filter(|a| *a == self.parent);
        let user = PolicyChange::SetUser {
            name: name.to_owned(),
            default_account: default,
            admin_level: settings.admin_level,
            default_wckey: settings.default_wckey,
            add_wckeys: settings.wckeys,
            remove_wckeys: BTreeSet::new(),
        };
        self.loaded.changes.push(user);
        let leads = led
            .into_iter()
            .filter(|a| self.view.account(a).is_some() || self.accounts.contains(a));
        let leads: Vec<String> = leads.collect();
        for account in leads {
            let user = name.to_owned();
            self.loaded
                .changes
                .push(PolicyChange::AddCoordinator { account, user });
        }
        Ok(())
    }

    /// What is not in the file is deleted: associations first, then accounts.
    fn remove_others(&mut self) {
        let view = self.view;
        let others = view.associations.iter().filter(|row| {
            row.key.user.is_some()
                && !self.keys.contains(&row.key)
                && self.accounts.contains(&row.key.account)
        });
        let keys: Vec<AssociationKey> = others.map(|row| row.key.clone()).collect();
        let gone = |name: &str| !self.accounts.contains(name);
        let tops = view.accounts.iter().filter(|a| gone(&a.name));
        let tops = tops.filter(|a| a.parent.as_deref().is_none_or(|p| !gone(p)));
        let tops: Vec<String> = tops.map(|a| a.name.clone()).collect();
        let changes = &mut self.loaded.changes;
        changes.extend(
            keys.into_iter()
                .map(|key| PolicyChange::RemoveAssociation { key }),
        );
        changes.extend(
            tops.into_iter()
                .map(|name| PolicyChange::RemoveAccount { name }),
        );
    }
}
