//! Changes of the policy. A list of them is done as a whole or not at all.

use super::{AdminLevel, AssociationKey, LimitKey, PreemptMode, QosFlag, Shares};
use crate::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How a list of qualities of service changes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QosListChange {
    /// These and no others.
    Exactly(BTreeSet<String>),
    /// These too.
    Add(BTreeSet<String>),
    /// Not these any more.
    Remove(BTreeSet<String>),
    /// As the account above says.
    Inherit,
}

/// What changes of an association's settings; what is `None` or not listed stays.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AssociationChange {
    /// Its shares.
    pub shares: Option<Shares>,
    /// Limits: those with `None` are set no more.
    pub limits: Vec<(LimitKey, Option<u64>)>,
    /// Its list of qualities of service.
    pub qos: Option<QosListChange>,
    /// Its default quality of service; inner `None`: as the account above says.
    pub default_qos: Option<Option<String>>,
    /// Its part of the priority; inner `None`: none.
    pub priority: Option<Option<u32>>,
    /// Any text.
    pub comment: Option<String>,
}

/// What changes of a quality of service; what is `None` or not listed stays.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QosChange {
    /// Any text.
    pub description: Option<String>,
    /// Its part of the priority.
    pub priority: Option<u32>,
    /// Limits: those with `None` are set no more.
    pub limits: Vec<(LimitKey, Option<u64>)>,
    /// All its flags.
    pub flags: Option<BTreeSet<QosFlag>>,
    /// Flags that come to it.
    pub add_flags: BTreeSet<QosFlag>,
    /// Flags that it has no more.
    pub remove_flags: BTreeSet<QosFlag>,
    /// By how much use counts, in millionths.
    pub usage_factor_ppm: Option<u32>,
    /// Whose jobs give way to its jobs.
    pub preempt: Option<QosListChange>,
    /// How its jobs give way; inner `None`: as the cluster says.
    pub preempt_mode: Option<Option<PreemptMode>>,
    /// Whether its jobs give way to those of it that stand before them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempt_within: Option<bool>,
    /// How long its jobs need not give way; inner `None`: as the cluster says.
    pub preempt_exempt: Option<Option<Span>>,
    /// Between the order to give way and its force.
    pub grace: Option<Span>,
}

/// One change of the policy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyChange {
    /// A new account.
    AddAccount {
        /// Its name.
        name: String,
        /// The account above; the root without.
        parent: Option<String>,
        /// Any text; the name without.
        description: Option<String>,
        /// Any text; the name of the account above without.
        organization: Option<String>,
        /// Its settings where they are not the default.
        #[serde(default)]
        set: AssociationChange,
    },
    /// An account's texts, its place in the tree, its settings.
    ModifyAccount {
        /// Its name.
        name: String,
        /// It goes below this account, with all that is below it.
        parent: Option<String>,
        /// Any text.
        description: Option<String>,
        /// Any text.
        organization: Option<String>,
        /// What changes of its settings.
        #[serde(default)]
        set: AssociationChange,
    },
    /// An account with all that is below it.
    RemoveAccount {
        /// Its name.
        name: String,
    },
    /// A user in an account; the user is new or not.
    AddAssociation {
        /// Account, user (always named), queue.
        key: AssociationKey,
        /// Its settings where they are not the default.
        #[serde(default)]
        set: AssociationChange,
    },
    /// The settings of an association, of a user or an account.
    ModifyAssociation {
        /// Of which user or account.
        key: AssociationKey,
        /// What changes.
        set: AssociationChange,
    },
    /// A user is no more in an account.
    RemoveAssociation {
        /// Account, user (always named), queue.
        key: AssociationKey,
    },
    /// What is known of a user beside associations; the user is made when there is none.
    SetUser {
        /// Login name.
        name: String,
        /// Account of jobs that name none; the user is in it.
        default_account: Option<String>,
        /// Right to change the policy.
        admin_level: Option<AdminLevel>,
        /// Key of jobs that name none.
        default_wckey: Option<String>,
        /// Keys that come to the user.
        #[serde(default)]
        add_wckeys: BTreeSet<String>,
        /// Keys that the user has no more.
        #[serde(default)]
        remove_wckeys: BTreeSet<String>,
    },
    /// A user with all associations.
    RemoveUser {
        /// Login name.
        name: String,
    },
    /// A user may change what is below an account.
    AddCoordinator {
        /// Account, by name.
        account: String,
        /// Login name.
        user: String,
    },
    /// A user may not any more.
    RemoveCoordinator {
        /// Account, by name.
        account: String,
        /// Login name.
        user: String,
    },
    /// A new quality of service.
    AddQos {
        /// Its name.
        name: String,
        /// Its settings where they are not the default.
        #[serde(default)]
        set: QosChange,
    },
    /// The settings of a quality of service.
    ModifyQos {
        /// Its name.
        name: String,
        /// What changes.
        set: QosChange,
    },
    /// A quality of service; it goes out of every list.
    RemoveQos {
        /// Its name.
        name: String,
    },
    /// What has been used is forgotten (`sacctmgr modify ... set RawUsage=0`).
    ResetUsage {
        /// Of this association and, of an account's, all below it.
        association: Option<AssociationKey>,
        /// Of this quality of service.
        qos: Option<String>,
    },
}
