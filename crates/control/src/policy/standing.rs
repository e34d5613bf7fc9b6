//! Where a job stands in the policy: which account and quality of service it has, and whether it
//! may be there. Source: slurm.conf(5), `AccountingStorageEnforce`; sbatch(1), `--account`, `--qos`.

use super::Policy;
use super::lifted::lifted_by;
use crate::queues::demand::Lifted;
use cosy_model::policy::{
    AssociationKey, AssociationRecord, Enforce, ROOT, UserAccount, UserAccounts,
};
use cosy_model::{About, Refusal, RefusalCode, limits};
use std::collections::BTreeMap;

/// An account and a quality of service that a job gets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Standing {
    /// The account that it is charged to.
    pub account: Option<String>,
    /// Its quality of service.
    pub qos: Option<String>,
}

/// What is asked of the policy for a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// Login name of the job's user.
    pub user: &'a str,
    /// Account as named.
    pub account: Option<&'a str>,
    /// Quality of service as named.
    pub qos: Option<&'a str>,
    /// The queue that it goes to.
    pub queue: &'a str,
    /// The user may charge the account by a list of members of the books, or is an administrator.
    pub is_member: bool,
    /// The user is an administrator of the cluster, whom the root account is for.
    pub is_admin: bool,
}

/// As much of a comment as rules at submission are told.
fn beginning(comment: &str) -> String {
    let ends = comment.char_indices().map(|(at, c)| at + c.len_utf8());
    let fitting = ends.take_while(|end| *end <= limits::COMMENT_BYTES);
    let end = fitting.last().unwrap_or_default();
    comment.get(..end).unwrap_or_default().to_owned()
}

impl Policy {
    /// What of the limits of queues does not bind jobs of that quality of service.
    pub(crate) fn lifted(&self, qos: Option<&str>) -> Lifted {
        let row = qos.and_then(|name| self.qos(name));
        row.map_or_else(Lifted::default, lifted_by)
    }

    /// The association of a user in an account that counts for a queue: that of the queue, else that
    /// of all queues.
    pub(crate) fn association_for(
        &self,
        account: &str,
        user: &str,
        queue: &str,
    ) -> Option<AssociationKey> {
        let mut key = AssociationKey {
            account: account.to_owned(),
            user: Some(user.to_owned()),
            queue: Some(queue.to_owned()),
        };
        if self.association(&key).is_none() {
            key.queue = None;
        }
        self.association(&key).map(|row| row.key.clone())
    }

    /// The key whose settings count for a job: of the user in the account, else of the account.
    pub(crate) fn key_for(&self, account: &str, user: &str, queue: &str) -> AssociationKey {
        self.association_for(account, user, queue)
            .unwrap_or(AssociationKey {
                account: account.to_owned(),
                user: None,
                queue: None,
            })
    }

    /// The accounts of a user, the default one first, with what qualities of service jobs may have
    /// there, and priorities of qualities of service.
    pub(crate) fn accounts_of(&self, user: &str) -> UserAccounts {
        let default_account = self.user(user).and_then(|row| row.default_account.clone());
        let all: Vec<&AssociationRecord> = self.associations_of(user).collect();
        let is_default =
            |row: &&&AssociationRecord| Some(&row.key.account) == default_account.as_ref();
        let first = all.iter().filter(is_default);
        let others = all.iter().filter(|row| !is_default(row));
        let one = |row: &&AssociationRecord| UserAccount {
            account: row.key.account.clone(),
            queue: row.key.queue.clone(),
            default_qos: self.default_qos(&row.key),
            qos: self
                .allowed_qos(&row.key)
                .into_iter()
                .take(limits::TOLD_QOS)
                .collect(),
            comment: beginning(&row.settings.comment),
        };
        let told = first.chain(others).take(limits::TOLD_ACCOUNTS);
        let accounts: Vec<UserAccount> = told.map(one).collect();
        let qos_priorities = self.qos_priorities(&accounts);
        UserAccounts {
            default_account,
            accounts,
            priorities_left_out: qos_priorities.len() < self.qos.len(),
            qos_priorities,
        }
    }

    /// Priorities of the qualities of service of these accounts, then of others as far as there is
    /// room.
    fn qos_priorities(&self, accounts: &[UserAccount]) -> BTreeMap<String, u32> {
        let own = accounts.iter().flat_map(|row| &row.qos);
        let mut told = BTreeMap::new();
        for name in own.chain(self.qos.keys()) {
            if told.len() >= limits::TOLD_PRIORITIES {
                break;
            }
            if let Some(row) = self.qos(name) {
                told.insert(name.clone(), row.priority);
            }
        }
        told
    }

    /// The account and quality of service of a job that asks for that. Names are filled in where the
    /// policy knows the user; they are judged as far as they are enforced.
    ///
    /// # Errors
    /// The account or the quality of service is not the user's, while that is enforced.
    pub(crate) fn standing(&self, enforce: Enforce, asked: Asked<'_>) -> Result<Standing, Refusal> {
        let default = self.user(asked.user);
        let default = default.and_then(|row| row.default_account.as_deref());
        let account = asked.account.or(default);
        let bound = enforce.binds();
        let account = account.or((bound && asked.is_admin).then_some(ROOT));
        let Some(account) = account else {
            return match bound {
                true => Err(no_account(format!(
                    "user {} is in no account: jobs need one here (an administrator puts users into accounts)",
                    asked.user
                ))),
                false => Ok(Standing {
                    account: None,
                    qos: asked.qos.map(str::to_owned),
                }),
            };
        };
        let own = self.association_for(account, asked.user, asked.queue);
        let known = self.account(account).is_some();
        if bound && own.is_none() && !(asked.is_member && known) {
            return Err(no_account(self.not_in(account, asked)));
        }
        let key = own.unwrap_or_else(|| self.key_for(account, asked.user, asked.queue));
        let qos = self.qos_of(enforce, &key, asked)?;
        Ok(Standing {
            account: Some(account.to_owned()),
            qos,
        })
    }

    fn qos_of(
        &self,
        enforce: Enforce,
        key: &AssociationKey,
        asked: Asked<'_>,
    ) -> Result<Option<String>, Refusal> {
        let default = || {
            let known = self.is_in_use() && self.account(&key.account).is_some();
            known.then(|| self.default_qos(key)).flatten()
        };
        let Some(name) = asked.qos.map(str::to_owned).or_else(default) else {
            return match enforce.qos {
                true => Err(no_qos(format!(
                    "user {} has no default quality of service in account {}: name one of {}",
                    asked.user,
                    key.account,
                    listed(self.allowed_qos(key))
                ))),
                false => Ok(None),
            };
        };
        if !enforce.qos {
            return Ok(Some(name));
        }
        // A default comes from an account above, whose list is not that of the user.
        let allowed = self.allowed_qos(key);
        if self.qos(&name).is_none() || !allowed.contains(&name) {
            let why = match self.qos(&name) {
                None => "there is none of that name".to_owned(),
                Some(_) => format!("user {} in account {} has none such", asked.user, key.account),
            };
            return Err(no_qos(format!(
                "quality of service '{name}' cannot be had: {why}; {} can be",
                listed(allowed)
            )));
        }
        Ok(Some(name))
    }

    fn not_in(&self, account: &str, asked: Asked<'_>) -> String {
        let own = self.associations_of(asked.user);
        let usable = own.filter(|row| row.key.queue.as_deref().is_none_or(|q| q == asked.queue));
        let mut own: Vec<&str> = usable.map(|row| row.key.account.as_str()).collect();
        own.dedup();
        let whose = match own.is_empty() {
            true => "in no account".to_owned(),
            false => format!("in {}", own.join(",")),
        };
        match self.account(account) {
            None => format!("there is no account '{account}'; user {} is {whose}", asked.user),
            Some(_) => format!(
                "user {} is not in account {account} (for queue {}), but {whose}",
                asked.user, asked.queue
            ),
        }
    }
}

fn listed(all: impl IntoIterator<Item = String>) -> String {
    let all: Vec<String> = all.into_iter().collect();
    match all.is_empty() {
        true => "none".to_owned(),
        false => all.join(","),
    }
}

fn no_account(why: String) -> Refusal {
    Refusal::new(RefusalCode::AccessDenied, why).about(About::Account)
}

fn no_qos(why: String) -> Refusal {
    Refusal::new(RefusalCode::AccessDenied, why).about(About::Qos)
}
