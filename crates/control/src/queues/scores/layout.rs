//! The accounts that shares are counted in, and who is in them, as the policy has them.

use cosy_model::policy::Shares;
use cosy_policy::fair_tree;
use std::collections::BTreeMap;

/// An account with its place and its shares.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Account {
    name: String,
    /// Empty: below the root.
    above: String,
    shares: fair_tree::Shares,
}

/// Accounts, each behind that above it, and users.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Layout {
    accounts: Vec<Account>,
    /// By account and user. A user who is in an account for several queues has one place, with the
    /// shares that come first.
    users: BTreeMap<(String, String), fair_tree::Shares>,
}

impl Layout {
    /// One account more; those above it have been told before.
    pub fn account(&mut self, name: &str, above: &str, shares: Shares) {
        self.accounts.push(Account {
            name: name.to_owned(),
            above: above.to_owned(),
            shares: of(shares),
        });
    }

    /// A user in an account.
    pub fn user(&mut self, account: &str, user: &str, shares: Shares) {
        let key = (account.to_owned(), user.to_owned());
        self.users.entry(key).or_insert(of(shares));
    }

    /// Name, name of the account above, shares.
    pub fn accounts(&self) -> impl Iterator<Item = (&str, &str, fair_tree::Shares)> {
        let all = self.accounts.iter();
        all.map(|account| (account.name.as_str(), account.above.as_str(), account.shares))
    }

    /// Account and user of everybody who is in one.
    pub fn users(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.users.keys();
        all.map(|(account, user)| (account.as_str(), user.as_str()))
    }

    /// Shares of a user in an account; one where nobody says otherwise.
    pub fn shares_of(&self, account: &str, user: &str) -> fair_tree::Shares {
        let key = (account.to_owned(), user.to_owned());
        let own = self.users.get(&key).copied();
        own.unwrap_or(fair_tree::Shares::Of(1))
    }
}

const fn of(shares: Shares) -> fair_tree::Shares {
    match shares {
        Shares::Count(count) => fair_tree::Shares::Of(count),
        Shares::Parent => fair_tree::Shares::Parent,
    }
}
