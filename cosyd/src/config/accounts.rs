//! `[account.NAME]` of `cosy.toml`.

use super::values::{self, Raw};
use cosy_config::Check;
use cosy_control::AccountConfig;
use cosy_model::limits;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    members: Option<Spanned<Vec<Spanned<String>>>>,
    budget: Option<Raw>,
}

/// Accounts by name.
pub(super) type Tables = BTreeMap<Spanned<String>, Table>;

pub(super) fn read(check: &mut Check<'_>, tables: &Tables) -> BTreeMap<String, AccountConfig> {
    if tables.len() > limits::ACCOUNTS {
        check.fault(0, format!("more than {} accounts", limits::ACCOUNTS));
    }
    let mut accounts = BTreeMap::new();
    for (name, table) in tables {
        if let Some(what) = odd_name(name.get_ref()) {
            check.fault(name.span().start, what);
        }
        let account = AccountConfig {
            members: members(check, table),
            budget: table.budget.as_ref().and_then(|b| values::sum(check, b)),
        };
        accounts.insert(name.get_ref().clone(), account);
    }
    accounts
}

fn members(check: &mut Check<'_>, table: &Table) -> Vec<String> {
    let Some(list) = &table.members else {
        return Vec::new();
    };
    if list.get_ref().is_empty() {
        check.fault(
            list.span().start,
            "nobody is a member: name who may charge the account, or leave 'members' out for everybody",
        );
    }
    if list.get_ref().len() > limits::SHARING {
        let what = format!("more than {} members: use a group", limits::SHARING);
        check.fault(list.span().start, what);
    }
    for name in list.get_ref() {
        let bare = name.get_ref().strip_prefix('@').unwrap_or(name.get_ref());
        if bare.is_empty() || bare.contains(|c: char| c.is_whitespace() || c.is_control()) {
            let what = format!(
                "'{}' is no member: use the name of a user, or of a group behind '@'",
                name.get_ref()
            );
            check.fault(name.span().start, what);
        }
    }
    list.get_ref().iter().map(|n| n.get_ref().clone()).collect()
}

/// Books are named after accounts: `NAME` and `NAME:held`, beside `grants` and `income`.
fn odd_name(name: &str) -> Option<String> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, ',' | ':' | '@');
    if name.is_empty() || name.len() > limits::NAME_BYTES || name.contains(odd) {
        return Some(format!(
            "an account's name has 1 to {} bytes, without spaces, ',', ':' and '@'",
            limits::NAME_BYTES
        ));
    }
    let taken = name == "grants" || name == "income";
    taken.then(|| format!("no account can be named '{name}': that is a book of the ledger"))
}
