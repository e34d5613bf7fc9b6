//! Rows of the policy in the store.

use cosy_model::policy::{AccountRecord, AssociationRecord, QosRecord, UserRecord};
use serde::{Deserialize, Serialize};

/// A row of the policy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyRow {
    /// An account in the tree.
    Account(AccountRecord),
    /// A user.
    User(UserRecord),
    /// A user in an account.
    Association(AssociationRecord),
    /// A quality of service.
    Qos(QosRecord),
    /// Numbers that are given out next.
    Numbers {
        /// The next association's.
        association: u32,
        /// The next quality of service's.
        qos: u32,
    },
}

/// Which row of the policy: a word for its kind, and its name or number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PolicyKey(pub String);

impl PolicyRow {
    /// Under which key it is kept.
    pub fn key(&self) -> PolicyKey {
        PolicyKey(match self {
            Self::Account(row) => format!("account {}", row.name),
            Self::User(row) => format!("user {}", row.name),
            Self::Association(row) => format!("association {}", row.id),
            Self::Qos(row) => format!("qos {}", row.name),
            Self::Numbers { .. } => "numbers".to_owned(),
        })
    }
}
