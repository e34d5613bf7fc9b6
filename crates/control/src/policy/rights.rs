//! Who may change what, and a list of changes as a whole.

use super::draft::Draft;
use super::effect::{Effect, Said};
use super::{Policy, account_changes, association_changes, qos_changes, settings};
use crate::config::ClusterConfig;
use cosy_model::policy::{
    AdminLevel, AssociationChange, AssociationKey, PolicyChange, QosListChange,
};
use cosy_model::{EventKind, JobId, Refusal, RefusalCode};
use std::collections::BTreeMap;

/// Somebody who asks for a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Author<'a> {
    /// Login name.
    pub name: &'a str,
    /// An administrator of the cluster.
    pub admin: bool,
}

/// Jobs that wait or run in an association.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct UsedBy {
    /// The first of them, [`NAMED`] at most.
    first: Vec<JobId>,
    count: usize,
}

/// Jobs that a refusal names.
const NAMED: usize = 5;

impl UsedBy {
    /// One more.
    pub fn add(&mut self, id: JobId) {
        self.count += 1;
        if self.first.len() < NAMED {
            self.first.push(id);
        }
    }

    fn join(&mut self, other: &Self) {
        other.first.iter().for_each(|id| self.add(*id));
        self.count += other.count - other.first.len();
    }
}

/// Associations that jobs are in.
pub(crate) type Used = BTreeMap<AssociationKey, UsedBy>;

impl Policy {
    /// Carries out all of these changes, or none. `used`: associations that jobs are in, which
    /// cannot go. What was done is final with [`Draft::done`], and nothing with [`Draft::undone`].
    ///
    /// # Errors
    /// The first change that cannot be, by its number where there are several.
    pub(crate) fn draft(
        &mut self,
        config: &ClusterConfig,
        author: Author<'_>,
        changes: &[PolicyChange],
        used: &Used,
    ) -> Result<(Draft<'_>, Effect), Refusal> {
        let mut draft = Draft::of(self);
        for (at, change) in changes.iter().enumerate() {
            let done = may_change(draft.policy(), author, change)
                .and_then(|()| is_free(draft.policy(), change, used))
                .and_then(|()| carry_out(&mut draft, config, change));
            if let Err(refusal) = done {
                draft.undone();
                return Err(numbered(refusal, at, changes.len()));
            }
        }
        let effect = draft.effect();
        Ok((draft, effect))
    }

    /// What a user may change of the policy.
    pub(crate) fn level(&self, author: Author<'_>) -> AdminLevel {
        match author.admin {
            true => AdminLevel::Administrator,
            false => self
                .user(author.name)
                .map_or(AdminLevel::None, |row| row.admin_level),
        }
    }

    /// Whether a user may change what is below that account.
    pub(crate) fn coordinates(&self, user: &str, account: &str) -> bool {
        let mut up = self.upward(account);
        up.any(|row| row.coordinators.contains(user))
    }
}

/// The refusal, with which of several changes it is about.
fn numbered(refusal: Refusal, at: usize, all: usize) -> Refusal {
    match all {
        1 => refusal,
        _ => Refusal {
            message: format!(
                "change {} of {all}: {}; nothing was changed",
                at + 1,
                refusal.message
            ),
            ..refusal
        },
    }
}

/// Administrators and operators may change everything but who is one; coordinators what is below
/// their accounts, with qualities of service that the account has. Source: sacctmgr(1),
/// "AdminLevel" and "coordinator".
fn may_change(policy: &Policy, author: Author<'_>, change: &PolicyChange) -> Result<(), Refusal> {
    let level = policy.level(author);
    if level == AdminLevel::Administrator {
        return Ok(());
    }
    let may = match level {
        AdminLevel::Operator => return operator_may(policy, author, change),
        AdminLevel::None | AdminLevel::Administrator => {
            coordinator_may(policy, author.name, change)
        }
    };
    match may {
        true => Ok(()),
        false => Err(refused(
            author,
            "change this: administrators, operators, and coordinators below their accounts may, with qualities of service that these accounts have",
        )),
    }
}

fn refused(author: Author<'_>, what: &str) -> Refusal {
    Refusal::new(RefusalCode::Forbidden, format!("{} may not {what}", author.name))
}

fn operator_may(policy: &Policy, author: Author<'_>, change: &PolicyChange) -> Result<(), Refusal> {
    let of_admin = |name: &str| {
        let row = policy.user(name);
        row.is_some_and(|row| row.admin_level == AdminLevel::Administrator)
    };
    match change {
        PolicyChange::SetUser {
            admin_level: Some(_),
            ..
        } => Err(refused(author, "say who is an operator or administrator: administrators may")),
        PolicyChange::RemoveUser { name } if of_admin(name) => {
            Err(refused(author, &format!("remove the administrator {name}")))
        }
        _ => Ok(()),
    }
}

fn coordinator_may(policy: &Policy, user: &str, change: &PolicyChange) -> bool {
    let below = |account: &str| policy.coordinates(user, account);
    let strictly = |account: &str| {
        let above = policy
            .account(account)
            .and_then(|row| row.parent.as_deref());
        above.is_some_and(below)
    };
    match change {
        PolicyChange::AddAccount { parent, set, .. } => parent
            .as_deref()
            .is_some_and(|parent| below(parent) && has_all(policy, parent, set)),
        PolicyChange::ModifyAccount {
            name, parent, set, ..
        } => {
            let goes = parent.as_deref().is_none_or(below);
            strictly(name) && goes && has_all(policy, name, set)
        }
        PolicyChange::RemoveAccount { name } => strictly(name),
        PolicyChange::AddAssociation { key, set } => {
            below(&key.account) && has_all(policy, &key.account, set)
        }
        PolicyChange::ModifyAssociation { key, set } => {
            let place = match key.user {
                Some(_) => below(&key.account),
                None => strictly(&key.account),
            };
            place && has_all(policy, &key.account, set)
        }
        PolicyChange::RemoveAssociation { key } => below(&key.account),
        PolicyChange::AddCoordinator { account, .. }
        | PolicyChange::RemoveCoordinator { account, .. } => strictly(account),
        PolicyChange::SetUser {
            name: _,
            default_account: Some(account),
            admin_level: None,
            default_wckey: None,
            add_wckeys,
            remove_wckeys,
        } => below(account) && add_wckeys.is_empty() && remove_wckeys.is_empty(),
        PolicyChange::SetUser { .. }
        | PolicyChange::RemoveUser { .. }
        | PolicyChange::AddQos { .. }
        | PolicyChange::ModifyQos { .. }
        | PolicyChange::RemoveQos { .. }
        | PolicyChange::ResetUsage { .. } => false,
    }
}

/// What is given is within what the account itself may have.
fn has_all(policy: &Policy, account: &str, set: &AssociationChange) -> bool {
    let key = AssociationKey {
        account: account.to_owned(),
        user: None,
        queue: None,
    };
    match &set.qos {
        Some(QosListChange::Exactly(named) | QosListChange::Add(named)) => {
            named.is_subset(&policy.allowed_qos(&key))
        }
        Some(QosListChange::Remove(_) | QosListChange::Inherit) | None => true,
    }
}

/// Nothing that goes is used by a job.
fn is_free(policy: &Policy, change: &PolicyChange, used: &Used) -> Result<(), Refusal> {
    let (what, goes): (String, &dyn Fn(&AssociationKey) -> bool) = match change {
        PolicyChange::RemoveAccount { name } => {
            (format!("account {name}"), &|key| policy.is_within(&key.account, name))
        }
        PolicyChange::RemoveAssociation { key } => {
            (settings::described(key), &move |used| used == key)
        }
        PolicyChange::RemoveUser { name } => {
            (format!("user {name}"), &|key| key.user.as_ref() == Some(name))
        }
        _ => return Ok(()),
    };
    let mut hit = UsedBy::default();
    for (_, jobs) in used.iter().filter(|(key, _)| goes(key)) {
        hit.join(jobs);
    }
    match hit.count {
        0 => Ok(()),
        _ => Err(in_use(&what, &hit)),
    }
}

fn in_use(what: &str, jobs: &UsedBy) -> Refusal {
    let ids: Vec<String> = jobs.first.iter().map(ToString::to_string).collect();
    let ids = ids.join(" ");
    let (listed, how) = match jobs.count - jobs.first.len() {
        0 => (ids.clone(), format!("'cosy cancel {ids}' cancels them")),
        more => (format!("{ids} and {more} more"), "cancel them".to_owned()),
    };
    Refusal::new(
        RefusalCode::WrongState,
        format!(
            "{what}: jobs wait or run there ({listed}): {how}, and it can go when they have ended"
        ),
    )
}

fn carry_out(
    draft: &mut Draft<'_>,
    config: &ClusterConfig,
    change: &PolicyChange,
) -> Result<(), Refusal> {
    match change {
        PolicyChange::AddAccount {
            name,
            parent,
            description,
            organization,
            set,
        } => account_changes::add(draft, name, &texts(parent, description, organization), set),
        PolicyChange::ModifyAccount {
            name,
            parent,
            description,
            organization,
            set,
        } => account_changes::modify(draft, name, &texts(parent, description, organization), set),
        PolicyChange::RemoveAccount { name } => account_changes::remove(draft, name).map(drop),
        PolicyChange::AddAssociation { key, set } => {
            association_changes::add(draft, config, key, set)
        }
        PolicyChange::ModifyAssociation { key, set } => match key.user {
            Some(_) => association_changes::modify(draft, key, set),
            None => {
                let texts = texts(&None, &None, &None);
                account_changes::modify(draft, &key.account, &texts, set)
            }
        },
        PolicyChange::RemoveAssociation { key } => association_changes::remove(draft, key),
        PolicyChange::SetUser {
            name,
            default_account,
            admin_level,
            default_wckey,
            add_wckeys,
            remove_wckeys,
        } => {
            let change = association_changes::UserChange {
                default_account: default_account.as_deref(),
                admin_level: *admin_level,
                default_wckey: default_wckey.as_deref(),
                add_wckeys,
                remove_wckeys,
            };
            association_changes::set_user(draft, name, &change)
        }
        PolicyChange::RemoveUser { name } => association_changes::remove_user(draft, name),
        PolicyChange::AddCoordinator { account, user } => {
            account_changes::coordinator(draft, account, user, true)
        }
        PolicyChange::RemoveCoordinator { account, user } => {
            account_changes::coordinator(draft, account, user, false)
        }
        PolicyChange::AddQos { name, set } => qos_changes::add(draft, name, set),
        PolicyChange::ModifyQos { name, set } => qos_changes::modify(draft, name, set),
        PolicyChange::RemoveQos { name } => qos_changes::remove(draft, name),
        PolicyChange::ResetUsage { association, qos } => {
            reset_usage(draft, association.as_ref(), qos.as_deref())
        }
    }
}

/// What was used is forgotten: whose, has to be there. Where it is kept knows how.
fn reset_usage(
    draft: &mut Draft<'_>,
    association: Option<&AssociationKey>,
    qos: Option<&str>,
) -> Result<(), Refusal> {
    const WHAT: &str = "its use is forgotten";
    if let Some(key) = association {
        settings::account(draft, &key.account)?;
        if key.user.is_some() && draft.policy().association(key).is_none() {
            return Err(settings::not_found(format!(
                "it is not so that {}",
                settings::described(key)
            )));
        }
        let mut said = Said::account(EventKind::Changed, &key.account, WHAT.to_owned());
        if key.user.is_some() {
            said = Said::association(EventKind::Changed, key);
            said.detail.push_str(": use is forgotten");
        }
        draft.say(said);
    }
    if let Some(name) = qos {
        settings::known_qos(draft, name)?;
        let mut said = Said::qos(EventKind::Changed, name);
        WHAT.clone_into(&mut said.detail);
        draft.say(said);
    }
    Ok(())
}

fn texts<'a>(
    parent: &'a Option<String>,
    description: &'a Option<String>,
    organization: &'a Option<String>,
) -> account_changes::Texts<'a> {
    account_changes::Texts {
        parent: parent.as_deref(),
        description: description.as_deref(),
        organization: organization.as_deref(),
    }
}
