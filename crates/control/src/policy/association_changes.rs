//! Changes of associations: of settings, of who is in which account, and of users.

use super::draft::Draft;
use super::effect::Said;
use super::settings::{account, change_settings, described, not_found};
use crate::config::ClusterConfig;
use cosy_model::policy::{
    AssociationChange, AssociationKey, AssociationRecord, AssociationSettings, UserRecord,
};
use cosy_model::{EventKind, Refusal, RefusalCode, limits};
use std::collections::BTreeSet;

pub(super) fn add(
    draft: &mut Draft<'_>,
    config: &ClusterConfig,
    key: &AssociationKey,
    set: &AssociationChange,
) -> Result<(), Refusal> {
    let user = named_user(key)?.to_owned();
    account(draft, &key.account)?;
    if let Some(queue) = &key.queue
        && !config.queues.iter().any(|known| known.name == *queue)
    {
        return Err(not_found(format!("there is no queue '{queue}'")));
    }
    if draft.policy().association(key).is_some() {
        return Err(Refusal::new(
            RefusalCode::WrongState,
            format!("user {} already", described(key)),
        ));
    }
    if draft.policy().associations.len() >= limits::ASSOCIATIONS {
        return Err(Refusal::new(
            RefusalCode::TooMany,
            format!("there are {} associations, no more are kept", limits::ASSOCIATIONS),
        ));
    }
    let default = AssociationSettings::default();
    let settings = change_settings(draft, default, set, &key.account, Some(&key.account))?;
    let id = draft.association_number();
    draft.put_association(AssociationRecord {
        id,
        key: key.clone(),
        settings,
    });
    let mut row = draft.policy().user(&user).cloned().unwrap_or(UserRecord {
        name: user,
        ..UserRecord::default()
    });
    row.default_account
        .get_or_insert_with(|| key.account.clone());
    draft.put_user(row);
    draft.say(Said::association(EventKind::Created, key).with(&set.words()));
    Ok(())
}

pub(super) fn modify(
    draft: &mut Draft<'_>,
    key: &AssociationKey,
    set: &AssociationChange,
) -> Result<(), Refusal> {
    let found = draft.policy().association(key).cloned();
    let mut row = found.ok_or_else(|| missing(key))?;
    row.settings = change_settings(draft, row.settings, set, &key.account, Some(&key.account))?;
    draft.put_association(row);
    draft.say(Said::association(EventKind::Changed, key).with(&set.words()));
    Ok(())
}

pub(super) fn remove(draft: &mut Draft<'_>, key: &AssociationKey) -> Result<(), Refusal> {
    named_user(key)?;
    draft
        .policy()
        .association(key)
        .ok_or_else(|| missing(key))?;
    remove_one(draft, key, std::slice::from_ref(&key.account))
}

/// Removes a user's association while these accounts, or the user's places in them, go.
pub(super) fn remove_one(
    draft: &mut Draft<'_>,
    key: &AssociationKey,
    going: &[String],
) -> Result<(), Refusal> {
    let user = named_user(key)?.to_owned();
    draft.drop_association(key);
    draft.say(Said::association(EventKind::Removed, key));
    let left = draft.policy().associations_of(&user);
    let left: BTreeSet<String> = left.map(|row| row.key.account.clone()).collect();
    let Some(mut row) = draft.policy().user(&user).cloned() else {
        return Ok(());
    };
    let default = row.default_account.clone();
    if default
        .as_ref()
        .is_none_or(|account| left.contains(account))
    {
        return Ok(());
    }
    let stays = |account: &&String| !going.contains(account);
    row.default_account = left.iter().find(stays).or(left.first()).cloned();
    draft.put_user(row);
    Ok(())
}

/// What is known of a user beside associations.
pub(super) struct UserChange<'a> {
    pub default_account: Option<&'a str>,
    pub admin_level: Option<cosy_model::policy::AdminLevel>,
    pub default_wckey: Option<&'a str>,
    pub add_wckeys: &'a BTreeSet<String>,
    pub remove_wckeys: &'a BTreeSet<String>,
}

impl UserChange<'_> {
    /// What it sets, for the history.
    fn words(&self) -> String {
        let account = self.default_account;
        let account = account.map(|account| format!("DefaultAccount={account}"));
        let level = self
            .admin_level
            .map(|level| format!("AdminLevel={level:?}"));
        let key = self.default_wckey.map(|key| format!("DefaultWCKey={key}"));
        let all = [account, level, key];
        all.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

pub(super) fn set_user(
    draft: &mut Draft<'_>,
    name: &str,
    change: &UserChange<'_>,
) -> Result<(), Refusal> {
    sound_user(name)?;
    let mut row = draft.policy().user(name).cloned().unwrap_or(UserRecord {
        name: name.to_owned(),
        ..UserRecord::default()
    });
    if let Some(account) = change.default_account {
        let mut own = draft.policy().associations_of(name);
        if !own.any(|own| own.key.account == account) {
            return Err(Refusal::new(
                RefusalCode::WrongState,
                format!(
                    "user {name} is not in account {account}, so it cannot be the default: put the user into it first"
                ),
            ));
        }
        row.default_account = Some(account.to_owned());
    }
    if let Some(level) = change.admin_level {
        row.admin_level = level;
    }
    row.wckeys.extend(change.add_wckeys.iter().cloned());
    row.wckeys.retain(|key| !change.remove_wckeys.contains(key));
    if row.wckeys.len() > limits::SHARING {
        return Err(Refusal::new(
            RefusalCode::TooMany,
            format!("user {name} would have more than {} keys", limits::SHARING),
        ));
    }
    if let Some(key) = change.default_wckey {
        row.default_wckey = Some(key.to_owned()).filter(|key| !key.is_empty());
    }
    draft.put_user(row);
    draft.say(Said::user(EventKind::Changed, name).with(&change.words()));
    Ok(())
}

pub(super) fn remove_user(draft: &mut Draft<'_>, name: &str) -> Result<(), Refusal> {
    let known = draft.policy().user(name).is_some();
    let keys = draft.policy().associations_of(name);
    let keys: Vec<AssociationKey> = keys.map(|row| row.key.clone()).collect();
    if !known && keys.is_empty() {
        return Err(not_found(format!("there is no user '{name}' in the policy")));
    }
    keys.iter().for_each(|key| draft.drop_association(key));
    let accounts = draft.policy().accounts.values();
    let led = accounts.filter(|account| account.coordinators.contains(name));
    for mut row in led.cloned().collect::<Vec<_>>() {
        row.coordinators.remove(name);
        draft.put_account(row);
    }
    draft.drop_user(name);
    draft.say(Said::user(EventKind::Removed, name));
    Ok(())
}

fn named_user(key: &AssociationKey) -> Result<&str, Refusal> {
    let user = key
        .user
        .as_deref()
        .ok_or_else(|| Refusal::invalid(format!("name a user of account {}", key.account)))?;
    sound_user(user)?;
    Ok(user)
}

fn sound_user(name: &str) -> Result<(), Refusal> {
    let odd = |c: char| c == ':' || c == ',' || c.is_whitespace() || c.is_control();
    let sound = !name.is_empty() && name.len() <= limits::NAME_BYTES && !name.contains(odd);
    match sound && !name.starts_with(['@', '-']) {
        true => Ok(()),
        false => Err(Refusal::invalid(format!(
            "'{}' is no login name",
            name.chars().take(70).collect::<String>().escape_debug()
        ))),
    }
}

fn missing(key: &AssociationKey) -> Refusal {
    not_found(format!("no user {}", described(key)))
}
