//! What is told of the policy, and to whom: administrators and operators see all, coordinators what
//! is below their accounts, everybody the own associations with the accounts above them.

use super::Policy;
use super::rights::Author;
use super::tree::account_key;
use crate::config::ClusterConfig;
use cosy_model::policy::{
    AccountEntry, AccountRecord, AdminLevel, AssociationInfo, AssociationKey, AssociationRecord,
    AssociationSettings, PolicyAnswer, PolicyQuery, QosInfo, ROOT, UserEntry,
};
use cosy_model::{Refusal, RefusalCode, limits};

/// Answers a question about the policy.
///
/// # Errors
/// A name that is not there, or that the asking user may not see.
pub(crate) fn answer(
    config: &ClusterConfig,
    policy: &Policy,
    author: Author<'_>,
    query: &PolicyQuery,
) -> Result<PolicyAnswer, Refusal> {
    let eyes = Eyes { policy, author };
    match query {
        PolicyQuery::Accounts { names } => {
            let all = policy.subtree(ROOT);
            let named = |row: &&AccountRecord| names.is_empty() || names.contains(&row.name);
            let rows = all.into_iter().filter(named);
            let rows = rows.filter(|row| eyes.see_account(&row.name));
            let rows = rows.map(|row| AccountEntry {
                record: row.clone(),
            });
            let rows: Vec<AccountEntry> = rows.collect();
            let known = |name: &str| rows.iter().any(|row| row.record.name == name);
            missing("account", names, known)?;
            Ok(PolicyAnswer::Accounts(rows))
        }
        PolicyQuery::Users { names, after } => users(&eyes, names, after.as_deref()),
        PolicyQuery::Associations {
            accounts,
            users,
            usage: _,
            skip,
        } => {
            missing("account", accounts, |name| eyes.see_account(name))?;
            let all = associations(&eyes, accounts, users);
            let rows = all
                .iter()
                .skip(*skip as usize)
                .take(limits::ASSOCIATION_ROWS);
            let rows: Vec<AssociationInfo> = rows.map(|seen| info(policy, seen)).collect();
            let more = all.len() > *skip as usize + rows.len();
            Ok(PolicyAnswer::Associations {
                rows,
                more,
                enforce: config.enforce,
            })
        }
        // filled in by whoever knows the order
        PolicyQuery::Standing { .. } => Ok(PolicyAnswer::Standing(Vec::new())),
        PolicyQuery::Qos { names, usage: _ } => {
            missing("quality of service", names, |name| policy.qos(name).is_some())?;
            let all = policy.qos.values();
            let named = all.filter(|row| names.is_empty() || names.contains(&row.name));
            let rows = named.map(|row| QosInfo {
                record: row.clone(),
                usage: None,
            });
            let mut rows: Vec<QosInfo> = rows.collect();
            rows.sort_by_key(|row| row.record.id);
            Ok(PolicyAnswer::Qos(rows))
        }
    }
}

/// The eyes of somebody.
struct Eyes<'a> {
    policy: &'a Policy,
    author: Author<'a>,
}

impl Eyes<'_> {
    fn see_all(&self) -> bool {
        self.policy.level(self.author) != AdminLevel::None
    }

    fn see_account(&self, name: &str) -> bool {
        let own = || {
            let mut own = self.policy.associations_of(self.author.name);
            own.any(|row| self.policy.is_within(&row.key.account, name))
        };
        self.policy.account(name).is_some()
            && (self.see_all() || self.policy.coordinates(self.author.name, name) || own())
    }

    fn see_user(&self, key: &AssociationKey) -> bool {
        let own = key.user.as_deref() == Some(self.author.name);
        own || self.see_all() || self.policy.coordinates(self.author.name, &key.account)
    }
}

fn missing(what: &str, names: &[String], seen: impl Fn(&str) -> bool) -> Result<(), Refusal> {
    match names.iter().find(|name| !seen(name)) {
        None => Ok(()),
        Some(name) => Err(Refusal::new(
            RefusalCode::NotFound,
            format!("there is no {what} '{name}' that you may see"),
        )),
    }
}

fn users(eyes: &Eyes<'_>, names: &[String], after: Option<&str>) -> Result<PolicyAnswer, Refusal> {
    let sees = |name: &str| {
        let mut own = eyes.policy.associations_of(name);
        eyes.see_all() || name == eyes.author.name || own.any(|row| eyes.see_user(&row.key))
    };
    let known = |name: &str| eyes.policy.user(name).is_some() && sees(name);
    missing("user", names, known)?;
    let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
    let rows = eyes
        .policy
        .users
        .range::<str, _>((from, std::ops::Bound::Unbounded));
    let rows = rows.filter(|(name, _)| names.is_empty() || names.contains(name));
    let mut rows = rows.filter(|(name, _)| sees(name));
    let page = rows.by_ref().take(limits::ASSOCIATION_ROWS);
    let users = page.map(|(name, row)| {
        let led = eyes.policy.accounts.values();
        let led = led.filter(|account| account.coordinators.contains(name));
        UserEntry {
            record: (**row).clone(),
            coordinates: led.map(|account| account.name.clone()).collect(),
            level: row.admin_level,
        }
    });
    let users = users.collect();
    Ok(PolicyAnswer::Users {
        users,
        more: rows.next().is_some(),
    })
}

/// An association that is told.
enum Seen<'a> {
    Account(&'a AccountRecord),
    User(&'a AssociationRecord),
}

/// In the order of the tree: an account, its users, the accounts below it.
fn associations<'a>(eyes: &Eyes<'a>, accounts: &[String], users: &[String]) -> Vec<Seen<'a>> {
    let mut seen = Vec::new();
    for account in eyes.policy.subtree(ROOT) {
        if !accounts.is_empty() && !accounts.contains(&account.name) {
            continue;
        }
        if users.is_empty() && eyes.see_account(&account.name) {
            seen.push(Seen::Account(account));
        }
        let named = |row: &&AssociationRecord| {
            let user = row.key.user.as_ref();
            users.is_empty() || user.is_some_and(|user| users.contains(user))
        };
        let rows = eyes.policy.users_in(&account.name).filter(named);
        seen.extend(rows.filter(|row| eyes.see_user(&row.key)).map(Seen::User));
    }
    seen
}

fn info(policy: &Policy, seen: &Seen<'_>) -> AssociationInfo {
    let (key, id, own, parent): (AssociationKey, u32, &AssociationSettings, &str) = match seen {
        Seen::Account(row) => {
            let parent = row.parent.as_deref().unwrap_or("");
            (account_key(row), row.id, &row.settings, parent)
        }
        Seen::User(row) => (row.key.clone(), row.id, &row.settings, row.key.account.as_str()),
    };
    let depth = policy.upward(&key.account).count() as u32;
    let user = key.user.as_deref();
    let default = user.and_then(|user| policy.user(user)?.default_account.as_deref());
    AssociationInfo {
        id,
        parent: match user {
            Some(_) => String::new(),
            None => parent.to_owned(),
        },
        parent_id: policy.account(parent).map_or(0, |above| above.id),
        depth: match user {
            Some(_) => depth,
            None => depth.saturating_sub(1),
        },
        own: own.clone(),
        effective: policy.limits(&key),
        qos: policy.allowed_qos(&key).into_iter().collect(),
        default_qos: policy.default_qos(&key),
        is_default: user.is_some() && default == Some(key.account.as_str()),
        usage: None,
        key,
    }
}
