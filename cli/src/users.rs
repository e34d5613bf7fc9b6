//! Users and groups of this host.
//!
//! They are looked up in `/etc/passwd` and `/etc/group`, and what is not there by `getent`,
//! which asks all sources that the host has (LDAP, SSSD ...). The C library's own lookup
//! loads plugins for them; these commands are linked statically, where that ends in a
//! crash. Clippy refuses its functions here (cli/clippy.toml).

use std::fs;
use std::process::{Command, Stdio};

/// Whether there is such a user, by name or number.
pub fn exists(user: &str) -> bool {
    is_number(user) || number(user).is_some()
}

/// A group's name; the number where it has none.
pub fn group(gid: u32) -> String {
    let id = gid.to_string();
    found("group", 2, &id).map_or(id, |fields| fields[0].clone())
}

/// A user's name; the number where it has none.
pub fn name(uid: u32) -> String {
    let id = uid.to_string();
    found("passwd", 2, &id).map_or(id, |fields| fields[0].clone())
}

/// The name in full that the machine knows a user by: what comes first in the comment of the
/// account.
pub fn full_name(user: &str) -> Option<String> {
    let fields = found("passwd", 0, user)?;
    fields.get(4)?.split(',').next().map(str::to_owned)
}

/// Whether there is such a group, by name or number.
pub fn group_exists(group: &str) -> bool {
    is_number(group) || (!group.is_empty() && found("group", 0, group).is_some())
}

/// A user's number, by name.
pub fn number(user: &str) -> Option<i64> {
    if user.is_empty() || is_number(user) {
        return None;
    }
    found("passwd", 0, user)?[2].parse().ok()
}

/// The name of the user who runs this.
pub fn current_user() -> Option<String> {
    let id = nix::unistd::getuid().as_raw().to_string();
    found("passwd", 2, &id).map(|fields| fields[0].clone())
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit())
}

/// The first entry of a database, `passwd` or `group`, that has the key as this field: at
/// least three fields, of which the first are name, password and number.
fn found(database: &str, place: usize, key: &str) -> Option<Vec<String>> {
    let file = fs::read_to_string(format!("/etc/{database}")).unwrap_or_default();
    find_entry(&file, place, key).or_else(|| {
        let answer = Command::new("getent")
            .args(["--", database, key])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        find_entry(&String::from_utf8_lossy(&answer.stdout), place, key)
    })
}

fn find_entry(text: &str, place: usize, key: &str) -> Option<Vec<String>> {
    let mut entries = text.lines().map(|line| line.split(':'));
    let entry = entries.find(|entry| entry.clone().nth(place) == Some(key))?;
    let fields: Vec<String> = entry.map(str::to_owned).collect();
    (fields.len() > 2).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries() {
        let text = "root:x:0:0:root:/root:/bin/sh\nbroken:x\nann:x:1000:100::/home/ann:/bin/sh\n";
        let check = |place, key, want: Option<&str>| {
            let found = find_entry(text, place, key);
            assert_eq!(found.as_ref().map(|f| f[2].as_str()), want, "{key}");
        };
        check(0, "ann", Some("1000"));
        check(2, "0", Some("0"));
        check(0, "broken", None);
        check(0, "an", None);
    }

    #[test]
    fn users_and_groups_of_this_host() {
        assert_eq!(number("root"), Some(0));
        assert!(exists("root") && exists("4711") && !exists(""));
        assert!(!exists("no-such-user-here") && !exists("-s"));
        assert_eq!(group(0), "root");
        assert_eq!(group(4_000_000_001), "4000000001");
        assert!(current_user().is_some_and(|me| number(&me).is_some()));
    }
}
