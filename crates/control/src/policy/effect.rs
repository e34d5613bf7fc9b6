//! What changes of the policy mean elsewhere: history, books.

use super::row::PolicyRow;
use crate::record::Record;
use cosy_model::policy::AssociationKey;
use cosy_model::{EventKind, EventObject};

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
}

/// The row is new or another.
pub(super) fn kept(row: PolicyRow) -> Record {
    Record::Policy {
        key: row.key(),
        row: Some(Box::new(row)),
    }
}
