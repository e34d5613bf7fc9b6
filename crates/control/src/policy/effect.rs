//! What changes of the policy mean elsewhere: history, books.

use super::row::PolicyRow;
use crate::policy::lifted::lifted_by;
use crate::queues::scores::layout::QosFacts;
use crate::record::Record;
use cosy_model::policy::{AssociationKey, QosFlag, QosRecord, Shares};
use cosy_model::{EventKind, EventObject};
use std::collections::{BTreeMap, BTreeSet};

/// A line of history to be written.
#[derive(Debug)]
pub(crate) struct Said {
    pub kind: EventKind,
    pub object: EventObject,
    pub detail: String,
}

impl Said {
    pub(super) fn account(kind: EventKind, name: &str, detail: String) -> Self {
        let object = EventObject::Account(name.to_owned());
        Self {
            kind,
            object,
            detail,
        }
    }

    pub(super) fn association(kind: EventKind, key: &AssociationKey) -> Self {
        let user = key.user.as_deref().unwrap_or("");
        let detail = match &key.queue {
            Some(queue) => format!("user {user} for queue {queue}"),
            None => format!("user {user}"),
        };
        Self::account(kind, &key.account, detail)
    }

    /// With what was set.
    pub(super) fn with(mut self, words: &str) -> Self {
        if !words.is_empty() {
            let colon = if self.detail.is_empty() { "" } else { ": " };
            self.detail = format!("{}{colon}{words}", self.detail);
        }
        self
    }

    pub(super) fn user(kind: EventKind, name: &str) -> Self {
        Self {
            kind,
            object: EventObject::User(name.to_owned()),
            detail: String::new(),
        }
    }

    pub(super) fn qos(kind: EventKind, name: &str) -> Self {
        Self {
            kind,
            object: EventObject::Qos(name.to_owned()),
            detail: String::new(),
        }
    }
}

/// What a list of changes means for the books.
#[derive(Debug, Default)]
pub(crate) struct Effect {
    /// Accounts that are new.
    pub made: Vec<String>,
    /// Accounts that are gone.
    pub gone: Vec<String>,
    /// Which records are new, gone or others.
    pub touched: Touched,
}

/// Which records a list of changes has touched: what is derived from others stays as it is.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Accounts by name.
    pub accounts: BTreeSet<String>,
    /// Login names of those of whom an association was touched, by account.
    pub users: BTreeMap<String, BTreeSet<String>>,
    /// Qualities of service by name.
    pub qos: BTreeSet<String>,
    /// Those of them that lift other limits of queues than before, or no more.
    pub lifting: BTreeSet<String>,
    /// Somebody came or went, or what counts in the order of jobs is another.
    pub layout: bool,
}

impl Touched {
    /// A record was touched: `before` as it was, `now` as it is.
    pub(super) fn note(&mut self, before: Option<&PolicyRow>, now: Option<&PolicyRow>) {
        self.layout |= before.map(in_layout) != now.map(in_layout);
        if let (Some(PolicyRow::Qos(before)), Some(PolicyRow::Qos(now))) = (before, now)
            && lifted_by(before) != lifted_by(now)
        {
            self.lifting.insert(now.name.clone());
        }
        for row in before.into_iter().chain(now) {
            match row {
                PolicyRow::Account(row) => drop(self.accounts.insert(row.name.clone())),
                PolicyRow::Association(row) => {
                    let users = self.users.entry(row.key.account.clone()).or_default();
                    users.extend(row.key.user.clone());
                }
                PolicyRow::Qos(row) => drop(self.qos.insert(row.name.clone())),
                _ => {}
            }
        }
    }

    /// Whether a user of an account is touched there; not by what is above the account.
    pub fn has_user(&self, account: &str, user: &str) -> bool {
        self.users
            .get(account)
            .is_some_and(|users| users.contains(user))
    }
}

/// What of a record counts in the order of jobs.
#[derive(PartialEq, Eq)]
enum InLayout<'a> {
    Account(Option<&'a str>, Shares, Option<u32>),
    Association(Shares, Option<u32>),
    Qos(QosFacts),
    Nothing,
}

fn in_layout(row: &PolicyRow) -> InLayout<'_> {
    match row {
        PolicyRow::Account(row) => {
            let set = &row.settings;
            InLayout::Account(row.parent.as_deref(), set.shares, set.priority)
        }
        PolicyRow::Association(row) => {
            InLayout::Association(row.settings.shares, row.settings.priority)
        }
        PolicyRow::Qos(row) => InLayout::Qos(facts(row)),
        _ => InLayout::Nothing,
    }
}

/// What counts of a quality of service.
pub(super) fn facts(qos: &QosRecord) -> QosFacts {
    QosFacts {
        id: qos.id,
        priority: qos.priority,
        usage_factor_ppm: qos.usage_factor_ppm,
        no_decay: qos.flags.contains(&QosFlag::NoDecay),
    }
}

/// The row is new or another.
pub(super) fn kept(row: PolicyRow) -> Record {
    Record::Policy {
        key: row.key(),
        row: Some(Box::new(row)),
    }
}
