//! A dump of `sacctmgr dump`: accounts, their users, administrators. Source: sacctmgr(1),
//! "FLAT FILE DUMP AND LOAD".

use cosy_model::limits;
use std::collections::{BTreeMap, BTreeSet};

/// What is carried over of a dump.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Accounts {
    /// Members by account.
    pub members: BTreeMap<String, BTreeSet<String>>,
    /// Login names of those with `AdminLevel=Administrator`.
    pub admins: BTreeSet<String>,
    /// Everybody who is in an account, the one of root too.
    pub users: BTreeSet<String>,
}

/// Options of a line that are carried over, or say nothing about what somebody may do.
const KEPT: [&str; 5] = [
    "AdminLevel",
    "DefaultAccount",
    "Description",
    "Organization",
    "Fairshare",
];

/// Reads a dump; what is lost is noted.
pub fn read(text: &str, notes: &mut Vec<String>) -> Accounts {
    let mut accounts = Accounts::default();
    let mut parent = String::new();
    let mut limits = BTreeSet::new();
    for line in text.lines().map(str::trim) {
        let Some((kind, rest)) = line.split_once('-') else {
            continue;
        };
        let mut parts = rest.trim().split(':');
        let name = plain(parts.next().unwrap_or_default());
        match kind.trim() {
            "Parent" => parent = name,
            "Account" if !name.is_empty() => {
                accounts.members.entry(name).or_default();
            }
            "User" if !name.is_empty() => {
                let options: Vec<&str> = parts.clone().collect();
                accounts.user(&parent, name, &options);
            }
            _ => {}
        }
        let lost = parts.filter_map(|p| p.split_once('=')).map(|(key, _)| key);
        limits.extend(lost.filter(|key| !KEPT.contains(key)).map(str::to_owned));
    }
    if !limits.is_empty() {
        let limits: Vec<String> = limits.into_iter().collect();
        let limits = limits.join(", ");
        notes.push(format!("limits of accounts and users are not carried over: {limits}"));
    }
    accounts.settle(notes);
    accounts
}

impl Accounts {
    fn user(&mut self, parent: &str, name: String, options: &[&str]) {
        let admin = |o: &&str| o.starts_with("AdminLevel") && o.contains("Administrator");
        if options.iter().any(admin) {
            self.admins.insert(name.clone());
        }
        if !parent.is_empty() && parent != "root" {
            let members = self.members.entry(parent.to_owned()).or_default();
            members.insert(name.clone());
        }
        self.users.insert(name);
    }

    /// What no configuration can say is left out, so that nobody may charge it.
    fn settle(&mut self, notes: &mut Vec<String>) {
        let odd = |c: char| c.is_whitespace() || c.is_control();
        let names = |set: &mut BTreeSet<String>, notes: &mut Vec<String>| {
            set.retain(|name| {
                let fine = !name.contains(odd) && !name.starts_with('@');
                if !fine {
                    notes.push(format!("'{}' is no name of a user: left out", shown(name)));
                }
                fine
            });
        };
        names(&mut self.users, notes);
        self.admins.retain(|name| self.users.contains(name));
        for members in self.members.values_mut() {
            members.retain(|name| self.users.contains(name));
        }
        self.members.retain(|account, members| {
            let reserved = matches!(account.as_str(), "grants" | "income");
            let odd = |c: char| odd(c) || matches!(c, ',' | '@');
            if reserved || account.len() > limits::NAME_BYTES || account.contains(odd) {
                let account = shown(account);
                notes.push(format!("account '{account}' is left out: no account can have that name here"));
                return false;
            }
            if members.len() > limits::SHARING {
                notes.push(format!(
                    "account {account} has {} users, {} can be named: only root may charge it until members = [\"@GROUP\"] names a group of them",
                    members.len(),
                    limits::SHARING
                ));
                members.clear();
            }
            true
        });
        if self.members.len() > limits::ACCOUNTS {
            let all = self.members.len();
            notes
                .push(format!("of {all} accounts the first {} are carried over", limits::ACCOUNTS));
            let kept = std::mem::take(&mut self.members);
            self.members = kept.into_iter().take(limits::ACCOUNTS).collect();
        }
    }
}

fn shown(name: &str) -> String {
    name.chars().take(60).collect()
}

fn plain(text: &str) -> String {
    text.trim().trim_matches('\'').to_owned()
}
