//! `sacctmgr show transaction`: who changed what of the policy and when, out of the table of events.
//! Sources: sacctmgr(1), "LIST/SHOW TRANSACTION FORMAT OPTIONS"; recordings of 22.05.8.
//!
//! `Where` has the name of what was changed and `Info` what was set, in the words of `sacctmgr`, where
//! Slurm has parts of its SQL.

use super::conditions::{Conditions, Subject};
use super::events::Frame;
use super::rows::Cells;
use crate::show::clean;
use crate::times;
use cosy_model::api::HistoryEvent;

/// Words for what is done, as Slurm has them.
const ACTIONS: &[&str] = &[
    "Add Accounts",
    "Add Account Coord",
    "Add Associations",
    "Add QOS",
    "Add Users",
    "Modify Accounts",
    "Modify Associations",
    "Modify QOS",
    "Modify Users",
    "Remove Accounts",
    "Remove Account Coords",
    "Remove Associations",
    "Remove QOS",
    "Remove Users",
];

/// A change of the policy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Transaction {
    action: &'static str,
    place: String,
    info: String,
    account: String,
    user: String,
}

/// What an event of the table was, where it was a change of the policy.
fn transaction(event: &HistoryEvent) -> Option<Transaction> {
    let (kind, name) = event.object.split_once(' ')?;
    let name = name.to_owned();
    let detail = event.detail.as_str();
    let is = |action| Transaction {
        action,
        place: name.clone(),
        info: detail.to_owned(),
        ..Transaction::default()
    };
    let by = |add, modify, remove| match event.what.as_str() {
        "created" => Some(is(add)),
        "changed" => Some(is(modify)),
        "removed" => Some(is(remove)),
        _ => None,
    };
    match kind {
        "account" => {
            let coordinator = |rest: &str, action| {
                let user = detail.strip_suffix(rest)?;
                Some(Transaction {
                    place: user.to_owned(),
                    info: name.clone(),
                    account: name.clone(),
                    user: user.to_owned(),
                    ..is(action)
                })
            };
            if let Some(row) = coordinator(" no longer coordinates it", "Remove Account Coords")
                .or_else(|| coordinator(" coordinates it", "Add Account Coord"))
            {
                return Some(row);
            }
            let Some(user) = detail.strip_prefix("user ") else {
                let row = by("Add Accounts", "Modify Accounts", "Remove Accounts")?;
                return Some(Transaction {
                    account: name.clone(),
                    ..row
                });
            };
            let (whom, set) = user.split_once(": ").unwrap_or((user, ""));
            let row = by("Add Associations", "Modify Associations", "Remove Associations")?;
            let login = whom.split(' ').next().unwrap_or_default();
            Some(Transaction {
                place: format!("acct='{name}' user='{whom}'"),
                info: set.to_owned(),
                account: name.clone(),
                user: login.to_owned(),
                ..row
            })
        }
        "user" => {
            let row = by("Add Users", "Modify Users", "Remove Users")?;
            Some(Transaction {
                user: name.clone(),
                ..row
            })
        }
        "qos" => by("Add QOS", "Modify QOS", "Remove QOS"),
        _ => None,
    }
}

/// Checks what the list is asked for.
///
/// # Errors
/// The line about an action that there is not.
pub fn check(conditions: &Conditions) -> Result<(), Vec<String>> {
    let known = |word: &&String| !ACTIONS.iter().any(|a| a.eq_ignore_ascii_case(word));
    match conditions.values(Subject::Action).iter().find(known) {
        None => Ok(()),
        Some(bad) => Err(vec![format!(
            "sacctmgr: error: You gave a bad action '{}'. There are: {}",
            clean(bad),
            ACTIONS.join(", ")
        )]),
    }
}

/// The row of an event, where it is a change of the policy that the conditions take.
pub fn row(event: &HistoryEvent, conditions: &Conditions, frame: Frame<'_>) -> Option<Cells> {
    if event.at < frame.from || event.at > frame.until {
        return None;
    }
    let it = transaction(event)?;
    let among = |subject, value: &str| {
        let values = conditions.values(subject);
        values.is_empty() || values.iter().any(|v| v.eq_ignore_ascii_case(value))
    };
    let wanted = among(Subject::Action, it.action)
        && among(Subject::Actor, &event.who)
        && among(Subject::Account, &it.account)
        && among(Subject::User, &it.user)
        && among(Subject::Cluster, frame.cluster)
        && among(Subject::Id, &event.seq.to_string());
    wanted.then(|| {
        Cells::from([
            ("Time", times::timestamp(event.at, frame.zone)),
            ("Action", it.action.to_owned()),
            ("Actor", event.who.clone()),
            ("Where", it.place),
            ("Info", it.info),
            ("ID", event.seq.to_string()),
            ("Account", it.account),
            ("User", it.user),
            ("Cluster", frame.cluster.to_owned()),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::Time;
    use jiff::tz::TimeZone;

    fn told(what: &str, object: &str, detail: &str, words: &[&str]) -> String {
        let event = HistoryEvent {
            seq: 7,
            at: Time(1_795_625_635_000),
            what: what.to_owned(),
            who: "root".to_owned(),
            object: object.to_owned(),
            detail: detail.to_owned(),
        };
        let mut conditions = Conditions::default();
        words.iter().for_each(|w| conditions.read(w).unwrap());
        let frame = Frame {
            cluster: "base",
            zone: &TimeZone::UTC,
            now: Time(0),
            from: Time(0),
            until: Time(i64::MAX),
            uid: &|_| None,
        };
        let Some(row) = row(&event, &conditions, frame) else {
            return "nothing".to_owned();
        };
        let columns = ["Time", "Action", "Actor", "Where", "Info"];
        columns.map(|c| row[c].clone()).join("|")
    }

    #[test]
    fn rows() {
        let check = |what, object, detail, want: &str| {
            let want = format!("2026-11-25T16:53:55|{want}");
            assert_eq!(told(what, object, detail, &[]), want);
        };
        check("created", "account physics", "below root", "Add Accounts|root|physics|below root");
        check("changed", "account physics", "GrpJobs=5", "Modify Accounts|root|physics|GrpJobs=5");
        check("removed", "account physics", "", "Remove Accounts|root|physics|");
        check(
            "created",
            "account physics",
            "user ann: MaxJobs=4",
            "Add Associations|root|acct='physics' user='ann'|MaxJobs=4",
        );
        check(
            "removed",
            "account physics",
            "user ann",
            "Remove Associations|root|acct='physics' user='ann'|",
        );
        check(
            "changed",
            "account physics",
            "ann coordinates it",
            "Add Account Coord|root|ann|physics",
        );
        check(
            "changed",
            "account physics",
            "ann no longer coordinates it",
            "Remove Account Coords|root|ann|physics",
        );
        check("changed", "user ann", "level operator", "Modify Users|root|ann|level operator");
        check("created", "qos high", "priority=4", "Add QOS|root|high|priority=4");
        assert_eq!(told("granted", "account physics", "5 SU", &[]), "nothing");
        assert_eq!(told("drained", "node n1", "", &[]), "nothing");
    }

    #[test]
    fn conditions_choose() {
        let check = |word: &str, taken: bool| {
            let told = told("created", "account physics", "user ann", &[word]);
            assert_eq!(told != "nothing", taken, "{word}");
        };
        check("actor=root", true);
        check("actor=ann", false);
        check("action=Add Associations", true);
        check("action=Add Users", false);
        check("user=ann", true);
        check("user=bob", false);
        check("account=physics", true);
        check("account=biology", false);
        check("id=7", true);
        check("id=8", false);
        let mut conditions = Conditions::default();
        conditions.read("action=nosuch").unwrap();
        let why = super::check(&conditions).unwrap_err();
        assert!(why[0].starts_with("sacctmgr: error: You gave a bad action 'nosuch'."), "{why:?}");
    }
}
