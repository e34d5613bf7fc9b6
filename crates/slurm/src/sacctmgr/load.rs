//! Reads a file of `sacctmgr dump`: what it has and the policy has not becomes changes. Source:
//! sacctmgr(1), "FLAT FILE DUMP AND LOAD".
//!
//! A file is taken whole or not at all: the first line that is wrong ends it, with its number.
//! Slurm's dumps have no qualities of service. Here a line `QOS - 'high':Priority=10` makes or changes
//! one, anywhere in the file: they are carried out before all else.

use super::settings::{Settings, Target};
use super::view::PolicyView;
use super::words::{Word, names, unquoted};
use crate::show::clean;
use cosy_model::policy::{AssociationKey, PolicyChange, QosChange, QosRecord, ROOT};
use std::collections::BTreeSet;

/// Longest file that is read, in bytes.
pub const LONGEST: usize = 64 << 20;

/// What a file says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Loaded {
    /// Qualities of service that are new.
    pub qos: Vec<String>,
    /// Accounts that are new, as lines of a table.
    pub accounts: Vec<String>,
    /// Users in accounts that are new.
    pub users: Vec<String>,
    /// What is to change.
    pub changes: Vec<PolicyChange>,
}

struct Reader<'a> {
    /// The policy, and qualities of service that the file makes.
    view: &'a PolicyView,
    /// Qualities of service that there are.
    known_qos: BTreeSet<&'a str>,
    parent: String,
    accounts: BTreeSet<String>,
    keys: BTreeSet<AssociationKey>,
    /// Account and user of each coordinator: a file names them in every line of the user.
    leads: BTreeSet<(String, String)>,
    /// Changes of qualities of service; whose jobs give way is said when all are there.
    qos: Vec<PolicyChange>,
    gives_way: Vec<PolicyChange>,
    loaded: Loaded,
}

/// Reads a file. `clean` deletes what the file does not have.
///
/// # Errors
/// The lines about what is wrong.
pub fn read(view: &PolicyView, text: &str, clean: bool) -> Result<Loaded, Vec<String>> {
    let known = with_new_qos(view, text);
    let mut reader = Reader {
        view: &known,
        known_qos: view.qos.iter().map(|qos| qos.name.as_str()).collect(),
        parent: ROOT.to_owned(),
        accounts: BTreeSet::from([ROOT.to_owned()]),
        keys: BTreeSet::new(),
        leads: BTreeSet::new(),
        qos: Vec::new(),
        gives_way: Vec::new(),
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
            "QOS" => reader.quality(&name, &options),
            _ => return Err(misformatted(number, line)),
        };
        done.map_err(|lines| at_line(number, lines))?;
    }
    if clean {
        reader.remove_others();
    }
    Ok(reader.finished())
}

/// The policy with the qualities of service that a file makes: lists may name them.
fn with_new_qos(view: &PolicyView, text: &str) -> PolicyView {
    let mut view = view.clone();
    let mut known: BTreeSet<String> = view.qos.iter().map(|qos| qos.name.clone()).collect();
    let lines = text
        .lines()
        .filter_map(|line| line.trim().split_once(" - "));
    for (_, rest) in lines.filter(|(kind, _)| kind.trim() == "QOS") {
        let name = unquoted(parts(rest).0).to_lowercase();
        if known.insert(name.clone()) {
            view.qos.push(QosRecord {
                name,
                ..QosRecord::default()
            });
        }
    }
    view
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
pub(crate) fn parts(rest: &str) -> (&str, Vec<&str>) {
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
        let says = default.is_some()
            || settings.admin_level.is_some()
            || settings.default_wckey.is_some()
            || !settings.wckeys.is_empty();
        if says {
            self.loaded.changes.push(PolicyChange::SetUser {
                name: name.to_owned(),
                default_account: default,
                admin_level: settings.admin_level,
                default_wckey: settings.default_wckey,
                add_wckeys: settings.wckeys,
                remove_wckeys: BTreeSet::new(),
            });
        }
        let led = led.into_iter().map(|a| (a.to_lowercase(), name.to_owned()));
        self.leads.extend(led);
        Ok(())
    }

    fn quality(&mut self, name: &str, options: &[&str]) -> Result<(), Vec<String>> {
        let name = name.to_lowercase();
        let mut set = self.settings(Target::Qos, options)?.qos;
        let new = self.known_qos.iter().all(|known| *known != name) && !self.makes(&name);
        if let Some(preempt) = set.preempt.take() {
            self.gives_way.push(PolicyChange::ModifyQos {
                name: name.clone(),
                set: QosChange {
                    preempt: Some(preempt),
                    ..QosChange::default()
                },
            });
        }
        self.qos.push(match new {
            true => {
                self.loaded.qos.push(name.clone());
                PolicyChange::AddQos { name, set }
            }
            false => PolicyChange::ModifyQos { name, set },
        });
        Ok(())
    }

    /// Whether the file has made that quality of service before.
    fn makes(&self, name: &str) -> bool {
        self.loaded.qos.iter().any(|made| made == name)
    }

    /// All changes in an order in which they can be carried out.
    fn finished(mut self) -> Loaded {
        let known = |account: &str, user: &str| {
            let record = self.view.account(account);
            record.is_some_and(|a| a.coordinators.contains(user))
        };
        let there =
            |account: &str| self.accounts.contains(account) || self.view.account(account).is_some();
        let new = self
            .leads
            .iter()
            .filter(|(account, user)| there(account) && !known(account, user));
        let leads: Vec<PolicyChange> = new
            .map(|(account, user)| PolicyChange::AddCoordinator {
                account: account.clone(),
                user: user.clone(),
            })
            .collect();
        let mut changes = self.qos;
        changes.append(&mut self.gives_way);
        changes.append(&mut self.loaded.changes);
        changes.extend(leads);
        self.loaded.changes = changes;
        self.loaded
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of the changes, in their order.
    fn loaded(text: &str) -> Vec<String> {
        let view = PolicyView {
            qos: vec![QosRecord {
                name: "normal".to_owned(),
                ..QosRecord::default()
            }],
            ..PolicyView::default()
        };
        let all = read(&view, text, false).unwrap().changes;
        let word = |change: &PolicyChange| match change {
            PolicyChange::AddQos { name, set } => {
                assert_eq!(set.preempt, None, "others may not be there yet");
                format!("+qos {name}")
            }
            PolicyChange::ModifyQos { name, set } => format!("qos {name} {:?}", set.preempt),
            PolicyChange::AddAccount { name, .. } => format!("+account {name}"),
            PolicyChange::AddAssociation { key, .. } => {
                format!("+{} in {}", key.user.clone().unwrap_or_default(), key.account)
            }
            PolicyChange::SetUser { name, .. } => format!("user {name}"),
            PolicyChange::AddCoordinator { account, user } => format!("{user} leads {account}"),
            other => format!("{other:?}"),
        };
        all.iter().map(word).collect()
    }

    #[test]
    fn qualities_of_service_come_first() {
        let text = "Cluster - 'base'\nAccount - 'a':QOS='high,normal':DefaultQOS='high'\n\
            QOS - 'High':Priority=10:Preempt='low'\nQOS - 'low'\nQOS - 'normal':Priority=1\n";
        let got = loaded(text);
        let low = "qos high Some(Exactly({\"low\"}))";
        assert_eq!(
            got,
            [
                "+qos high",
                "+qos low",
                "qos normal None",
                low,
                "+account a"
            ]
        );
    }

    /// A dump names whom a user coordinates in each of the user's lines, and perhaps before the account.
    #[test]
    fn a_coordinator_is_named_once() {
        let text = "Cluster - 'base'\nParent - 'root'\nAccount - 'a'\nParent - 'a'\n\
            User - 'bob':DefaultAccount='b':Coordinator='B'\nParent - 'root'\nAccount - 'b'\n\
            Parent - 'b'\nUser - 'bob':DefaultAccount='b':Coordinator='b'\nUser - 'cyd':Coordinator='gone'\n";
        let got = loaded(text);
        let want = [
            "+account a",
            "+bob in a",
            "+account b",
            "+bob in b",
            "user bob",
            "+cyd in b",
            "bob leads b",
        ];
        assert_eq!(got, want);
    }
}
