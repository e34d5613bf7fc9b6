//! Where accounts and users stand in the tree of shares, by name. Looked up without making names anew.

use cosy_policy::fair_tree::Place;
use std::collections::BTreeMap;

/// A user in an account; `queue` is empty for all queues, `account` for jobs that are in none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Member<'a> {
    pub account: &'a str,
    pub user: &'a str,
    pub queue: &'a str,
}

/// Places by name.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<Box<str>, InAccount>);

#[derive(Debug, Default)]
struct InAccount {
    own: Option<Place>,
    users: BTreeMap<Box<str>, OfUser>,
}

#[derive(Debug, Default)]
struct OfUser {
    everywhere: Option<Place>,
    by_queue: Vec<(Box<str>, Place)>,
}

impl Places {
    /// The place of an account.
    pub fn account(&self, name: &str) -> Option<Place> {
        self.0.get(name)?.own
    }

    /// An account has that place.
    pub fn set_account(&mut self, name: &str, place: Place) {
        self.0.entry(name.into()).or_default().own = Some(place);
    }

    /// The place that counts for jobs in the member's queue: of that queue, else of all queues.
    pub fn of(&self, member: Member<'_>) -> Option<Place> {
        let user = self.0.get(member.account)?.users.get(member.user)?;
        user.in_queue(member.queue).or(user.everywhere)
    }

    /// The place of exactly that member.
    pub fn exactly(&self, member: Member<'_>) -> Option<Place> {
        let user = self.0.get(member.account)?.users.get(member.user)?;
        match member.queue {
            "" => user.everywhere,
            queue => user.in_queue(queue),
        }
    }

    /// The name of the account at a place. It looks at all of them.
    pub fn account_at(&self, place: Place) -> Option<&str> {
        let mut all = self.0.iter();
        let found = all.find(|(_, account)| account.own == Some(place));
        found.map(|(name, _)| &**name)
    }

    /// Places of a user in all accounts, by account.
    pub fn of_user(&self, user: &str) -> Vec<Place> {
        let all = self.0.values();
        let all = all.filter_map(|account| account.users.get(user));
        let places = all.flat_map(|own| {
            let by_queue = own.by_queue.iter().map(|(_, place)| *place);
            own.everywhere.into_iter().chain(by_queue)
        });
        places.collect()
    }

    /// The member has that place.
    pub fn set(&mut self, member: Member<'_>, place: Place) {
        let account = self.0.entry(member.account.into()).or_default();
        let user = account.users.entry(member.user.into()).or_default();
        match member.queue {
            "" => user.everywhere = Some(place),
            queue => {
                user.by_queue.retain(|(name, _)| **name != *queue);
                user.by_queue.push((queue.into(), place));
            }
        }
    }
}

impl OfUser {
    fn in_queue(&self, queue: &str) -> Option<Place> {
        let mut all = self.by_queue.iter();
        all.find(|(name, _)| **name == *queue)
            .map(|(_, place)| *place)
    }
}
