//! Which accounts and qualities of service a partition takes: `AllowAccounts`, `DenyAccounts`,
//! `AllowQos`, `DenyQos`, `QOS`. They keep somebody out only where accounts, or qualities of service,
//! are enforced; where they are not, or a list cannot be written, the queue is closed. Source:
//! slurm.conf(5).

use super::qos::{AllQos, sound_name};
use super::records::{Admits, Enforced};
use std::collections::BTreeMap;

/// Most names of one list that are carried over; a queue may have more, `limits::ADMITTED`.
const MOST_NAMES: usize = 1000;

/// What a partition says, and the words of it that close the queue.
pub(super) fn admits(
    values: &BTreeMap<String, String>,
    enforced: &Enforced,
    qos: &AllQos,
    closed: &mut Vec<String>,
) -> Admits {
    let mut lists = |what: &str, is_enforced: bool| {
        let words = [format!("Allow{what}"), format!("Deny{what}")];
        let said = words
            .each_ref()
            .map(|word| values.get(&word.to_ascii_lowercase()));
        let allow = said[0].filter(|text| !text.trim().eq_ignore_ascii_case("all"));
        let deny = said[1].filter(|text| !text.trim().is_empty());
        if allow.is_none() && deny.is_none() {
            return (Vec::new(), Vec::new());
        }
        let mut mine = allow.map(|text| names(text)).unwrap_or_default();
        let others = deny.map(|text| names(text)).unwrap_or_default();
        mine.retain(|name| !others.contains(name));
        let fine = is_enforced
            && (allow.is_none() || !mine.is_empty())
            && mine.len() <= MOST_NAMES
            && others.len() <= MOST_NAMES;
        if !fine {
            let both = words.iter().zip([allow, deny]);
            let both = both.filter_map(|(word, text)| Some(format!("{word}={}", text?)));
            closed.extend(both);
            return (Vec::new(), Vec::new());
        }
        // Where some are allowed all others are denied.
        match allow {
            Some(_) => (mine, Vec::new()),
            None => (Vec::new(), others),
        }
    };
    let (allow_accounts, deny_accounts) = lists("Accounts", enforced.associations);
    let (allow_qos, deny_qos) = lists("Qos", enforced.qos);
    Admits {
        allow_accounts,
        deny_accounts,
        allow_qos,
        deny_qos,
        qos: own(values, enforced, qos, closed),
    }
}

/// The partition's own quality of service, whose limits bind its jobs.
fn own(
    values: &BTreeMap<String, String>,
    enforced: &Enforced,
    qos: &AllQos,
    closed: &mut Vec<String>,
) -> Option<String> {
    let text = values.get("qos").map(|text| text.trim());
    let text = text.filter(|text| !text.is_empty() && enforced.limits)?;
    let name = text.to_lowercase();
    // A queue's own quality of service asks nobody for a reservation here.
    if !qos.names.contains(&name) || qos.reserved.contains(&name) {
        closed.push(format!("QOS={text}"));
        return None;
    }
    Some(name)
}

/// Names that an account, or a quality of service, can have here.
fn names(text: &str) -> Vec<String> {
    let names = text.split(',').map(|name| name.trim().to_lowercase());
    let mut names: Vec<String> = names.filter(|name| sound_name(name)).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let enforced = super::super::enforced::enforced("limits,qos");
        let qos = AllQos {
            names: ["normal".to_owned(), "booked".to_owned()].into(),
            reserved: ["booked".to_owned()].into(),
            ..AllQos::default()
        };
        let check = |words: &[(&str, &str)], enforced: &Enforced, want: &str, shut: &[&str]| {
            let words = words
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            let mut closed = Vec::new();
            let got = admits(&words.collect(), enforced, &qos, &mut closed);
            let lists = [
                got.allow_accounts,
                got.deny_accounts,
                got.allow_qos,
                got.deny_qos,
            ];
            let lists: Vec<String> = lists.iter().map(|list| list.join(",")).collect();
            let got = format!("{} {}", lists.join("|"), got.qos.unwrap_or_default());
            assert_eq!(
                (got.trim(), closed),
                (want, shut.iter().map(|s| (*s).to_owned()).collect())
            );
        };
        let none = Enforced::default();
        check(&[], &enforced, "|||", &[]);
        check(&[("allowaccounts", "B,a, b")], &enforced, "a,b|||", &[]);
        check(&[("allowaccounts", "ALL"), ("denyqos", "low")], &enforced, "|||low", &[]);
        check(&[("allowaccounts", "a,b"), ("denyaccounts", "b")], &enforced, "a|||", &[]);
        check(
            &[("allowaccounts", "b"), ("denyaccounts", "b")],
            &enforced,
            "|||",
            &["AllowAccounts=b", "DenyAccounts=b"],
        );
        check(&[("allowqos", "x y@,")], &enforced, "|||", &["AllowQos=x y@,"]);
        check(&[("allowaccounts", "a")], &none, "|||", &["AllowAccounts=a"]);
        check(&[("denyqos", "a")], &none, "|||", &["DenyQos=a"]);
        check(&[("qos", "Normal")], &enforced, "||| normal", &[]);
        check(&[("qos", "gone")], &enforced, "|||", &["QOS=gone"]);
        check(&[("qos", "booked")], &enforced, "|||", &["QOS=booked"]);
        check(&[("qos", "gone")], &none, "|||", &[]);
    }
}
