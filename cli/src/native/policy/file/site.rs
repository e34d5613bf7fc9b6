//! The policy of a site as a whole, as it is or as a file wants it.

use cosy_model::policy::{AdminLevel, AssociationSettings, QosRecord};
use std::collections::{BTreeMap, BTreeSet};

/// Accounts, users and qualities of service by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Site {
    pub cluster: String,
    pub qos: BTreeMap<String, QosRecord>,
    pub accounts: BTreeMap<String, Account>,
    pub users: BTreeMap<String, User>,
}

/// An account.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// The account above; `None` for the root alone.
    pub parent: Option<String>,
    /// `None` in a file: as it is, or as the controller fills it in.
    pub description: Option<String>,
    /// The same.
    pub organization: Option<String>,
    pub coordinators: BTreeSet<String>,
    pub settings: AssociationSettings,
}

/// A place of a user: account and queue.
pub type Place = (String, Option<String>);

/// A user.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct User {
    /// Account of jobs that name none; `None` in a file: as it is.
    pub default: Option<String>,
    pub level: AdminLevel,
    pub wckeys: BTreeSet<String>,
    pub default_wckey: Option<String>,
    pub places: BTreeMap<Place, AssociationSettings>,
}
