//! What always holds of the policy.

use super::Policy;
use crate::rooms::Rooms;
use cosy_model::policy::{NORMAL, ROOT};

/// Checks the room.
///
/// # Errors
/// What does not hold, in words.
pub(crate) fn check(it: &Rooms) -> Result<(), String> {
    it.policy.check()
}

impl Policy {
    fn check(&self) -> Result<(), String> {
        self.tree_is_one()?;
        self.names_are_known()?;
        let mut again = Self::default();
        again.accounts.clone_from(&self.accounts);
        again.associations.clone_from(&self.associations);
        again.index();
        if again.children != self.children || again.of_user != self.of_user {
            return Err("the policy's lists are not those of its records".to_owned());
        }
        Ok(())
    }

    fn tree_is_one(&self) -> Result<(), String> {
        for (name, account) in &self.accounts {
            let top = self.upward(name).last().map(|row| row.name.as_str());
            if top != Some(ROOT) || *name != account.name {
                return Err(format!("account {name} is not below the root"));
            }
        }
        Ok(())
    }

    fn names_are_known(&self) -> Result<(), String> {
        if !self.qos.contains_key(NORMAL) {
            return Err("there is no normal quality of service".to_owned());
        }
        let own = self.associations.values().map(|row| &row.settings);
        let all = self.accounts.values().map(|row| &row.settings).chain(own);
        let named = all.flat_map(|set| set.qos.iter().flatten().chain(&set.default_qos));
        if let Some(name) = named.into_iter().find(|name| !self.qos.contains_key(*name)) {
            return Err(format!("there is no quality of service {name}, which a list names"));
        }
        for key in self.associations.keys() {
            if !self.accounts.contains_key(&key.account) || key.user.is_none() {
                return Err(format!("{key:?} is in no account, or is no user's"));
            }
        }
        let mut ids: Vec<u32> = self.accounts.values().map(|row| row.id).collect();
        ids.extend(self.associations.values().map(|row| row.id));
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        match ids.len() == count && ids.last().is_none_or(|id| *id < self.next.association) {
            true => Ok(()),
            false => Err("a number of an association was given twice".to_owned()),
        }
    }
}
