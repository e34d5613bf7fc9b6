//! Bounds of what is asked of the policy.

use super::bounded::{Bounded, most, name, names, text};
use crate::limits;
use crate::policy::{
    AssociationChange, AssociationKey, PolicyChange, PolicyQuery, QosChange, QosListChange,
};
use std::collections::BTreeSet;

pub(super) fn query(query: &PolicyQuery) -> Bounded {
    match query {
        PolicyQuery::Accounts { names: all } | PolicyQuery::Qos { names: all, .. } => {
            names("names", all)
        }
        PolicyQuery::Users { names: all, after } => {
            names("users", all)?;
            optional("user", after.as_deref())
        }
        PolicyQuery::Associations {
            accounts, users, ..
        } => {
            names("accounts", accounts)?;
            names("users", users)
        }
        PolicyQuery::Standing { user, more } => {
            optional("user", user.as_deref())?;
            let queue = more.as_ref().and_then(|more| more.queue.as_deref());
            optional("queue", queue)
        }
    }
}

pub(super) fn changes(changes: &[PolicyChange]) -> Bounded {
    most("changes", changes.len(), limits::POLICY_CHANGES)?;
    changes.iter().try_for_each(change)
}

fn change(change: &PolicyChange) -> Bounded {
    match change {
        PolicyChange::AddAccount {
            name: own,
            parent,
            description,
            organization,
            set,
        }
        | PolicyChange::ModifyAccount {
            name: own,
            parent,
            description,
            organization,
            set,
        } => {
            name("account", own)?;
            optional("account", parent.as_deref())?;
            optional_text("description", description.as_deref())?;
            optional_text("organization", organization.as_deref())?;
            association_change(set)
        }
        PolicyChange::AddAssociation { key, set }
        | PolicyChange::ModifyAssociation { key, set } => {
            association(key)?;
            association_change(set)
        }
        PolicyChange::RemoveAssociation { key } => association(key),
        PolicyChange::SetUser {
            name: own,
            default_account,
            admin_level: _,
            default_wckey,
            add_wckeys,
            remove_wckeys,
        } => {
            name("user", own)?;
            optional("account", default_account.as_deref())?;
            optional("key", default_wckey.as_deref())?;
            set("keys", add_wckeys)?;
            set("keys", remove_wckeys)
        }
        PolicyChange::RemoveAccount { name: own }
        | PolicyChange::RemoveUser { name: own }
        | PolicyChange::RemoveQos { name: own } => name("object", own),
        PolicyChange::AddCoordinator { account, user }
        | PolicyChange::RemoveCoordinator { account, user } => {
            name("account", account)?;
            name("user", user)
        }
        PolicyChange::AddQos { name: own, set } | PolicyChange::ModifyQos { name: own, set } => {
            name("quality of service", own)?;
            qos_change(set)
        }
        PolicyChange::ResetUsage {
            association: of,
            qos,
        } => {
            of.as_ref().map_or(Ok(()), association)?;
            optional("quality of service", qos.as_deref())
        }
    }
}

pub(super) fn optional(what: &str, one: Option<&str>) -> Bounded {
    one.map_or(Ok(()), |one| name(what, one))
}

fn optional_text(what: &str, one: Option<&str>) -> Bounded {
    one.map_or(Ok(()), |one| text(what, one, limits::COMMENT_BYTES))
}

fn set(what: &str, all: &BTreeSet<String>) -> Bounded {
    most(what, all.len(), limits::SHARING)?;
    all.iter().try_for_each(|one| name(what, one))
}

fn association(key: &AssociationKey) -> Bounded {
    name("account", &key.account)?;
    optional("user", key.user.as_deref())?;
    optional("queue", key.queue.as_deref())
}

fn association_change(change: &AssociationChange) -> Bounded {
    most("limits", change.limits.len(), limits::LIMITS_OF_ONE)?;
    change.qos.as_ref().map_or(Ok(()), qos_list)?;
    let default = change.default_qos.as_ref();
    optional("quality of service", default.and_then(|qos| qos.as_deref()))?;
    optional_text("comment", change.comment.as_deref())
}

fn qos_list(change: &QosListChange) -> Bounded {
    match change {
        QosListChange::Exactly(all) | QosListChange::Add(all) | QosListChange::Remove(all) => {
            set("qualities of service", all)
        }
        QosListChange::Inherit => Ok(()),
    }
}

fn qos_change(change: &QosChange) -> Bounded {
    optional_text("description", change.description.as_deref())?;
    most("limits", change.limits.len(), limits::LIMITS_OF_ONE)?;
    change.preempt.as_ref().map_or(Ok(()), qos_list)
}
