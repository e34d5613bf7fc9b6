//! A dump of `sacctmgr dump`: accounts, their users, administrators. Source: sacctmgr(1),
//! "FLAT FILE DUMP AND LOAD".

use std::collections::{BTreeMap, BTreeSet};

/// What is carried over of a dump.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Accounts {
    /// Members by account.
    pub members: BTreeMap<String, BTreeSet<String>>,
    /// Administrators.
    pub admins: BTreeSet<String>,
}

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
                let admin = |o: &&str| o.starts_with("AdminLevel") && o.contains("Administrator");
                if options.iter().any(admin) {
                    accounts.admins.insert(name.clone());
                }
                if !parent.is_empty() && parent != "root" {
                    accounts
                        .members
                        .entry(parent.clone())
                        .or_default()
                        .insert(name);
                }
            }
            _ => {}
        }
        let lost = parts.filter_map(|p| p.split_once('=')).map(|(key, _)| key);
        let kept = [
            "AdminLevel",
            "DefaultAccount",
            "Description",
            "Organization",
            "Fairshare",
        ];
        limits.extend(lost.filter(|key| !kept.contains(key)).map(str::to_owned));
    }
    if !limits.is_empty() {
        let limits: Vec<String> = limits.into_iter().collect();
        let limits = limits.join(", ");
        notes.push(format!(
            "limits of accounts and users are not carried over: {limits}"
        ));
    }
    accounts
}

fn plain(text: &str) -> String {
    text.trim().trim_matches('\'').to_owned()
}
