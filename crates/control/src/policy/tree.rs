//! Questions to the tree: who is above and below, and what holds where.

use super::Policy;
use super::effect::facts;
use crate::queues::scores::layout::Layout;
use cosy_model::policy::{
    AccountRecord, AssociationKey, AssociationRecord, AssociationSettings, LimitKey, LimitScope,
    ROOT,
};
use std::collections::BTreeSet;

impl Policy {
    /// An account and those above it up to the root, the nearest first. Ends where the tree would
    /// go in a circle, which it never does.
    pub(crate) fn upward<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a AccountRecord> {
        let first = self.accounts.get(name);
        let above =
            |one: &&'a AccountRecord| one.parent.as_ref().and_then(|name| self.accounts.get(name));
        std::iter::successors(first, above).take(cosy_model::limits::ACCOUNT_LEVELS + 2)
    }

    /// True for an account that is `top` or below it.
    pub(crate) fn is_within(&self, name: &str, top: &str) -> bool {
        self.upward(name).any(|account| account.name == top)
    }

    /// Accounts right below an account, by name.
    pub(crate) fn children(&self, name: &str) -> impl Iterator<Item = &AccountRecord> {
        let below = self.children.get(name).into_iter().flatten();
        below.filter_map(|child| self.accounts.get(child))
    }

    /// Users in an account, by name and queue.
    pub(crate) fn users_in(&self, account: &str) -> impl Iterator<Item = &AssociationRecord> {
        let first = AssociationKey {
            account: account.to_owned(),
            user: None,
            queue: None,
        };
        let from = self.associations.range(first..);
        let own = from.map(|(_, row)| &**row);
        let account = account.to_owned();
        own.take_while(move |row| row.key.account == account)
    }

    /// An account and all below it, each before those below it, siblings by name.
    pub(crate) fn subtree(&self, top: &str) -> Vec<&AccountRecord> {
        let mut found = Vec::new();
        let mut open: Vec<&AccountRecord> = self.accounts.get(top).into_iter().collect();
        while let Some(account) = open.pop() {
            found.push(account);
            let below: Vec<&AccountRecord> = self.children(&account.name).collect();
            open.extend(below.into_iter().rev());
        }
        found
    }

    /// Tells all accounts, each behind that above it, and who is in them, with their shares.
    pub(crate) fn lay_out(&self, layout: &mut Layout) {
        for account in self.subtree(ROOT) {
            let above = account.parent.as_deref().filter(|above| *above != ROOT);
            if account.name != ROOT {
                layout.account(&account.name, above.unwrap_or(""), account.settings.shares);
            }
            let above = self.upward(&account.name);
            let inherited = above.filter_map(|account| account.settings.priority).next();
            for row in self.users_in(&account.name) {
                if let Some(user) = &row.key.user {
                    let queue = row.key.queue.as_deref().unwrap_or("");
                    let priority = row.settings.priority.or(inherited).unwrap_or(0);
                    layout.user(&account.name, user, queue, row.settings.shares, priority);
                }
            }
        }
        for (name, qos) in &self.qos {
            layout.qos(name, facts(qos));
        }
    }

    /// How many levels there are below an account; 0 where it has none below it.
    pub(crate) fn height(&self, top: &str) -> usize {
        let own = self.upward(top).count();
        let all = self.subtree(top);
        let depths = all.iter().map(|account| self.upward(&account.name).count());
        depths.max().unwrap_or(own).saturating_sub(own)
    }

    /// Settings of an association and of all above it, the nearest first, each with whose they are.
    pub(crate) fn settings_upward<'a>(
        &'a self,
        key: &AssociationKey,
    ) -> impl Iterator<Item = (AssociationKey, &'a AssociationSettings)> {
        let own = self.associations.get(key);
        let own = own.map(|row| (row.key.clone(), &row.settings));
        let accounts = self.upward(&key.account);
        own.into_iter()
            .chain(accounts.map(|account| (account_key(account), &account.settings)))
    }

    /// A limit as it counts at that association: what is set nearest. Limits of groups count at
    /// each level by themselves and are not inherited.
    pub(crate) fn limit(
        &self,
        key: &AssociationKey,
        limit: &LimitKey,
    ) -> Option<(u64, AssociationKey)> {
        let group = limit.kind.scope() == LimitScope::Group;
        let mut all = self.settings_upward(key);
        if group {
            let (of, settings) = all.next()?;
            return (of == *key)
                .then(|| settings.limits.get(limit))
                .flatten()
                .map(|v| (v, of));
        }
        all.find_map(|(of, settings)| settings.limits.get(limit).map(|value| (value, of)))
    }

    /// All limits that count at that association, with whose they are.
    pub(crate) fn limits(&self, key: &AssociationKey) -> Vec<(LimitKey, u64, AssociationKey)> {
        let mut set: BTreeSet<&LimitKey> = BTreeSet::new();
        for (_, settings) in self.settings_upward(key) {
            set.extend(settings.limits.iter().map(|(limit, _)| limit));
        }
        let found = |limit: &LimitKey| {
            let (value, of) = self.limit(key, limit)?;
            Some((limit.clone(), value, of))
        };
        set.into_iter().filter_map(found).collect()
    }

    /// Qualities of service that jobs of an association may have: those of the nearest list; only
    /// the normal one where nobody says anything.
    pub(crate) fn allowed_qos(&self, key: &AssociationKey) -> BTreeSet<String> {
        let listed = self
            .settings_upward(key)
            .find_map(|(_, own)| own.qos.clone());
        listed.unwrap_or_else(|| BTreeSet::from([cosy_model::policy::NORMAL.to_owned()]))
    }

    /// Whether jobs of an association may have that quality of service: [`Self::allowed_qos`].
    pub(crate) fn allows_qos(&self, key: &AssociationKey, qos: &str) -> bool {
        let own = self.associations.get(key).map(|row| &row.settings);
        let accounts = self.upward(&key.account).map(|account| &account.settings);
        let mut lists = own.into_iter().chain(accounts).map(|set| &set.qos);
        match lists.find_map(Option::as_ref) {
            Some(listed) => listed.contains(qos),
            None => qos == cosy_model::policy::NORMAL,
        }
    }

    /// Quality of service of jobs that name none: the nearest default, else the only one that is
    /// allowed, else the normal one where that is allowed.
    pub(crate) fn default_qos(&self, key: &AssociationKey) -> Option<String> {
        let set = self
            .settings_upward(key)
            .find_map(|(_, own)| own.default_qos.clone());
        if set.is_some() {
            return set;
        }
        let allowed = self.allowed_qos(key);
        if allowed.contains(cosy_model::policy::NORMAL) {
            return Some(cosy_model::policy::NORMAL.to_owned());
        }
        (allowed.len() == 1)
            .then(|| allowed.into_iter().next())
            .flatten()
    }
}

/// The key of an account's own association.
pub(crate) fn account_key(account: &AccountRecord) -> AssociationKey {
    AssociationKey {
        account: account.name.clone(),
        user: None,
        queue: None,
    }
}
