//! Settings with a change, checked: shares, limits, qualities of service.

use super::draft::Draft;
use cosy_model::policy::{
    AccountRecord, AssociationChange, AssociationKey, AssociationSettings, LimitKey, Limits,
    QosListChange, ROOT, Shares,
};
use cosy_model::{Refusal, RefusalCode, limits};
use std::collections::BTreeSet;

/// The largest number of shares. Source: sacctmgr(1), `Fairshare`; 0x7FFFFFFF stands for
/// `parent` there.
const MOST_SHARES: u32 = 0x7fff_fffe;

/// The account, which has to be there.
pub(super) fn account(draft: &Draft<'_>, name: &str) -> Result<AccountRecord, Refusal> {
    let found = draft.policy().account(name).cloned();
    found.ok_or_else(|| not_found(format!("there is no account '{name}'")))
}

/// The settings with a change. `account`: whose they are, or in which account the user is;
/// `above`: whose list of qualities of service is inherited.
pub(super) fn change_settings(
    draft: &Draft<'_>,
    mut settings: AssociationSettings,
    change: &AssociationChange,
    account: &str,
    above: Option<&str>,
) -> Result<AssociationSettings, Refusal> {
    if let Some(shares) = change.shares {
        if matches!(shares, Shares::Count(count) if count > MOST_SHARES) {
            return Err(Refusal::invalid(format!(
                "shares are a number from 0 to {MOST_SHARES}, or 'parent'"
            )));
        }
        if shares == Shares::Parent && above.is_none() {
            return Err(Refusal::invalid("the root account has no account above to count as"));
        }
        settings.shares = shares;
    }
    change_limits(&mut settings.limits, &change.limits, |limit| limit.kind.of_associations())?;
    let inherited = || {
        let key = AssociationKey {
            account: above.unwrap_or(ROOT).to_owned(),
            user: None,
            queue: None,
        };
        draft.policy().allowed_qos(&key)
    };
    if let Some(list) = &change.qos {
        settings.qos = changed_list(draft, settings.qos.take(), list, inherited)?;
    }
    if let Some(default) = &change.default_qos {
        settings.default_qos.clone_from(default);
    }
    if let Some(default) = &settings.default_qos {
        known_qos(draft, default)?;
        let allowed = settings.qos.clone().unwrap_or_else(inherited);
        if !allowed.contains(default) {
            return Err(Refusal::invalid(format!(
                "account {account}: the default quality of service {default} is not among those allowed ({})",
                allowed
                    .iter()
                    .map(String::as_str)
                    .collect::<Vec<_>>()
                    .join(",")
            )));
        }
    }
    if let Some(priority) = change.priority {
        settings.priority = priority;
    }
    if let Some(comment) = &change.comment {
        settings.comment.clone_from(comment);
    }
    Ok(settings)
}

/// A list of qualities of service with a change.
fn changed_list(
    draft: &Draft<'_>,
    own: Option<BTreeSet<String>>,
    change: &QosListChange,
    inherited: impl Fn() -> BTreeSet<String>,
) -> Result<Option<BTreeSet<String>>, Refusal> {
    let (QosListChange::Exactly(named) | QosListChange::Add(named) | QosListChange::Remove(named)) =
        change
    else {
        return Ok(None);
    };
    named.iter().try_for_each(|name| known_qos(draft, name))?;
    let mut list = own.unwrap_or_else(inherited);
    match change {
        QosListChange::Add(_) => list.extend(named.iter().cloned()),
        QosListChange::Remove(_) => list.retain(|name| !named.contains(name)),
        _ => list.clone_from(named),
    }
    Ok(Some(list))
}

/// Sets and unsets limits.
///
/// # Errors
/// One cannot be set there, or they contradict each other.
pub(super) fn change_limits(
    limits: &mut Limits,
    changes: &[(LimitKey, Option<u64>)],
    may_be_here: impl Fn(&LimitKey) -> bool,
) -> Result<(), Refusal> {
    for (key, value) in changes {
        if value.is_some() && !may_be_here(key) {
            let place = match key.kind.of_qos() {
                true => "a quality of service, not on accounts and users",
                false => "accounts and users, not on a quality of service",
            };
            return Err(Refusal::invalid(format!("{key} is set on {place}")));
        }
        limits.set(key.clone(), *value);
    }
    if limits.len() > limits::LIMITS_OF_ONE {
        return Err(Refusal::new(
            RefusalCode::TooMany,
            format!("more than {} limits at one place", limits::LIMITS_OF_ONE),
        ));
    }
    Ok(())
}

/// There is such a quality of service.
pub(super) fn known_qos(draft: &Draft<'_>, name: &str) -> Result<(), Refusal> {
    match draft.policy().qos(name) {
        Some(_) => Ok(()),
        None => Err(not_found(format!("there is no quality of service '{name}'"))),
    }
}

pub(super) fn not_found(why: String) -> Refusal {
    Refusal::new(RefusalCode::NotFound, why)
}

/// `ann is in account physics for queue day`.
pub(super) fn described(key: &AssociationKey) -> String {
    let user = key.user.as_deref().unwrap_or("");
    match &key.queue {
        Some(queue) => format!("{user} is in account {} for queue {queue}", key.account),
        None => format!("{user} is in account {}", key.account),
    }
}
