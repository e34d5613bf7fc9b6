//! Changes of accounts and of who coordinates them.

use super::draft::Draft;
use super::effect::Said;
use super::settings::{account, change_settings, not_found};
use crate::reservations::books::Books;
use cosy_model::policy::{AccountRecord, AssociationChange, AssociationSettings, ROOT};
use cosy_model::{EventKind, Refusal, RefusalCode, limits};

/// What a change of an account may name beside settings.
pub(super) struct Texts<'a> {
    pub parent: Option<&'a str>,
    pub description: Option<&'a str>,
    pub organization: Option<&'a str>,
}

pub(super) fn add(
    draft: &mut Draft<'_>,
    name: &str,
    texts: &Texts<'_>,
    set: &AssociationChange,
) -> Result<(), Refusal> {
    if !Books::sound_name(name) {
        return Err(Refusal::invalid(format!(
            "'{}' is no name of an account: use 1 to {} characters without spaces, ':', ',' and '@'",
            name.chars().take(70).collect::<String>().escape_debug(),
            limits::NAME_BYTES
        )));
    }
    if draft.policy().account(name).is_some() {
        return Err(there_is(name));
    }
    if draft.policy().accounts.len() >= limits::ACCOUNTS {
        return Err(Refusal::new(
            RefusalCode::TooMany,
            format!("there are {} accounts, no more are kept", limits::ACCOUNTS),
        ));
    }
    let parent = texts.parent.unwrap_or(ROOT);
    let above = account(draft, parent)?;
    let organization = texts.organization.unwrap_or(&above.name).to_owned();
    check_depth(draft, name, parent, 0)?;
    let mut row = AccountRecord {
        name: name.to_owned(),
        parent: Some(parent.to_owned()),
        description: texts.description.unwrap_or(name).to_owned(),
        organization,
        id: draft.association_number(),
        ..AccountRecord::default()
    };
    row.settings = change_settings(draft, AssociationSettings::default(), set, name, Some(parent))?;
    draft.put_account(row);
    let told = Said::account(EventKind::Created, name, format!("below {parent}"));
    draft.say(told.with(&set.words()));
    Ok(())
}

pub(super) fn modify(
    draft: &mut Draft<'_>,
    name: &str,
    texts: &Texts<'_>,
    set: &AssociationChange,
) -> Result<(), Refusal> {
    let mut row = account(draft, name)?;
    if let Some(parent) = texts
        .parent
        .filter(|parent| row.parent.as_deref() != Some(*parent))
    {
        if name == ROOT {
            return Err(Refusal::invalid("the root account is below no other"));
        }
        account(draft, parent)?;
        if draft.policy().is_within(parent, name) {
            return Err(Refusal::invalid(format!(
                "account {name} cannot go below {parent}: {parent} is {name} or below it, which would be a circle"
            )));
        }
        let height = draft.policy().height(name);
        check_depth(draft, name, parent, height)?;
        row.parent = Some(parent.to_owned());
    }
    if let Some(text) = texts.description {
        text.clone_into(&mut row.description);
    }
    if let Some(text) = texts.organization {
        text.clone_into(&mut row.organization);
    }
    let parent = row.parent.clone();
    row.settings = change_settings(draft, row.settings, set, name, parent.as_deref())?;
    draft.put_account(row);
    let moved = texts.parent.map(|parent| format!("below {parent}"));
    let told = Said::account(EventKind::Changed, name, moved.unwrap_or_default());
    draft.say(told.with(&set.words()));
    Ok(())
}

/// Removes an account with all below it. Whether jobs or reservations use one of them is asked
/// before ([`super::rights::change_policy`]).
pub(super) fn remove(draft: &mut Draft<'_>, name: &str) -> Result<Vec<String>, Refusal> {
    account(draft, name)?;
    if name == ROOT {
        return Err(Refusal::invalid("the root account cannot be removed"));
    }
    let all = draft.policy().subtree(name);
    let all: Vec<String> = all.iter().map(|account| account.name.clone()).collect();
    for account in &all {
        let keys = draft.policy().users_in(account);
        let keys: Vec<_> = keys.map(|row| row.key.clone()).collect();
        for key in keys {
            super::association_changes::remove_one(draft, &key, &all)?;
        }
        draft.drop_account(account);
        draft.say(Said::account(EventKind::Removed, account, String::new()));
    }
    Ok(all)
}

pub(super) fn coordinator(
    draft: &mut Draft<'_>,
    name: &str,
    user: &str,
    comes: bool,
) -> Result<(), Refusal> {
    let mut row = account(draft, name)?;
    let known = draft.policy().user(user).is_some();
    let changed = match comes {
        true if !known => {
            return Err(not_found(format!(
                "there is no user '{user}' in any account: put the user into one first"
            )));
        }
        true => row.coordinators.insert(user.to_owned()),
        false => row.coordinators.remove(user),
    };
    if !changed {
        let word = if comes {
            "coordinates it already"
        } else {
            "does not coordinate it"
        };
        return Err(Refusal::new(
            RefusalCode::WrongState,
            format!("account {name}: {user} {word}"),
        ));
    }
    draft.put_account(row);
    let word = if comes {
        "coordinates"
    } else {
        "no longer coordinates"
    };
    draft.say(Said::account(EventKind::Changed, name, format!("{user} {word} it")));
    Ok(())
}

fn check_depth(draft: &Draft<'_>, name: &str, parent: &str, height: usize) -> Result<(), Refusal> {
    let levels = draft.policy().upward(parent).count() + height;
    match levels <= limits::ACCOUNT_LEVELS {
        true => Ok(()),
        false => Err(Refusal::new(
            RefusalCode::TooMany,
            format!(
                "account {name} below {parent} would be {levels} levels below the root, {} are allowed",
                limits::ACCOUNT_LEVELS
            ),
        )),
    }
}

fn there_is(name: &str) -> Refusal {
    Refusal::new(RefusalCode::WrongState, format!("there is an account {name} already"))
}
