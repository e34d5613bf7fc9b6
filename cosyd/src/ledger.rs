//! Who may read which lines of the ledger.
//!
//! Administrators read all. Everyone reads the lines for reservations of their own, and
//! all lines of the accounts whose members they are. An account that everyone may charge
//! makes nobody a member: each sees only what is their own there.

use crate::store::bookings::{LedgerQuery, Reader};
use crate::store::{Store, StoreError};
use cosy_control::{AccountRow, Caller};
use cosy_model::api::Reply;
use cosy_model::{Refusal, RefusalCode, User};

/// Answers a question; `asking` is `None` for administrators.
///
/// # Errors
/// [`StoreError`]. Inside: a refusal when an account is named that the reader knows
/// nothing of.
pub fn read(
    store: &Store,
    mut query: LedgerQuery,
    reader: Option<&Caller>,
) -> Result<Result<Reply, Refusal>, StoreError> {
    let accounts = store.accounts()?;
    let known = |name: &str| accounts.iter().any(|a| a.name == name);
    let mut may_know = query.account.as_deref().is_none_or(known);
    if let Some(caller) = reader {
        let mine = of_member(&accounts, caller);
        may_know &= query
            .account
            .as_ref()
            .is_none_or(|name| mine.contains(name));
        query.reader = Some(Reader {
            uid: caller.user.uid,
            accounts: mine,
        });
    }
    let lines = store.ledger(&query)?;
    match &query.account {
        Some(name) if lines.is_empty() && query.after == 0 && !may_know => Ok(Err(unknown(name))),
        Some(_) | None => Ok(Ok(Reply::Ledger(lines))),
    }
}

/// Names of the accounts whose member the caller is. Groups count only when they are
/// known for sure.
fn of_member(accounts: &[AccountRow], caller: &Caller) -> Vec<String> {
    let user = &caller.user;
    let member = |who: &String| caller.resolved && is(user, who);
    let mine = accounts.iter().filter(|a| a.members.iter().any(member));
    mine.map(|a| a.name.clone()).collect()
}

fn is(user: &User, who: &str) -> bool {
    match who.strip_prefix('@') {
        Some(group) => user.in_group(group),
        None => user.name == who,
    }
}

fn unknown(name: &str) -> Refusal {
    let name: String = name.chars().take(60).collect();
    Refusal::new(
        RefusalCode::NotFound,
        format!(
            "there is no account '{name}' whose ledger you may read: 'cadm account' lists those that you may charge"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_control::Record;
    use cosy_model::reservation::LedgerEntry;
    use cosy_model::{Gid, Group, Su, Time, Uid};

    fn account(name: &str, members: &[&str]) -> Record {
        Record::Account(AccountRow {
            name: name.into(),
            members: members.iter().map(|m| (*m).into()).collect(),
            ..AccountRow::default()
        })
    }

    fn grant(seq: u64, to: &str) -> Record {
        Record::Ledger(LedgerEntry {
            seq,
            at: Time(0),
            from: "grants".into(),
            to: to.into(),
            sum: Su::whole(1),
            reservation: None,
            why: "grant".into(),
            who: "root".into(),
        })
    }

    fn caller(name: &str, group: &str, resolved: bool) -> Caller {
        let user = User {
            uid: Uid(1000),
            gid: Gid(7),
            name: name.into(),
            groups: vec![Group {
                gid: Gid(7),
                name: group.into(),
            }],
            ..User::default()
        };
        Caller {
            resolved,
            ..Caller::known(user)
        }
    }

    #[test]
    fn members_read_what_is_theirs() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("db")).unwrap();
        let records = [
            account("physics", &["ann", "@lab"]),
            account("art", &["bob"]),
            account("open", &[]),
            grant(1, "physics"),
            grant(2, "art"),
            grant(3, "open"),
            grant(4, "gone"),
        ];
        store.commit(&records).unwrap();
        let check = |reader: Option<Caller>, account: Option<&str>, wanted: Option<&[u64]>| {
            let query = LedgerQuery {
                account: account.map(Into::into),
                most: 100,
                ..LedgerQuery::default()
            };
            let got = match read(&store, query, reader.as_ref()).unwrap() {
                Ok(Reply::Ledger(lines)) => Some(lines.iter().map(|l| l.seq).collect::<Vec<_>>()),
                Ok(other) => panic!("{other:?}"),
                Err(refusal) => {
                    assert_eq!(refusal.code, RefusalCode::NotFound);
                    None
                }
            };
            assert_eq!(got.as_deref(), wanted, "{reader:?} {account:?}");
        };
        check(None, None, Some(&[1, 2, 3, 4]));
        check(None, Some("gone"), Some(&[4]));
        check(None, Some("nobody"), None);
        let ann = || Some(caller("ann", "users", true));
        check(ann(), None, Some(&[1]));
        check(ann(), Some("physics"), Some(&[1]));
        check(ann(), Some("art"), None);
        check(ann(), Some("open"), None);
        check(ann(), Some("nobody"), None);
        check(Some(caller("eve", "lab", true)), None, Some(&[1]));
        check(Some(caller("ann", "lab", false)), None, Some(&[]));
        check(Some(caller("@lab", "x", true)), None, Some(&[]));
    }
}
