//! The accounts that shares are counted in, who is in them, and the qualities of service, as the
//! policy has them.

use super::places::Member;
use cosy_model::policy::Shares;
use cosy_policy::fair_tree;
use std::collections::BTreeMap;

/// An account with its place and its shares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Account {
    pub name: String,
    /// Empty: below the root.
    pub above: String,
    pub shares: fair_tree::Shares,
}

/// A user in an account; an empty queue stands for all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct User {
    pub account: String,
    pub user: String,
    pub queue: String,
    pub standing: Standing,
}

impl User {
    pub fn member(&self) -> Member<'_> {
        Member {
            account: &self.account,
            user: &self.user,
            queue: &self.queue,
        }
    }
}

/// What the policy says of somebody in an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Standing {
    pub shares: fair_tree::Shares,
    /// Part of the priority of jobs, of its own or of an account above.
    pub priority: u32,
}

impl Default for Standing {
    fn default() -> Self {
        Self {
            shares: fair_tree::Shares::Of(1),
            priority: 0,
        }
    }
}

/// What counts of a quality of service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QosFacts {
    /// Its number: one that was made anew under the same name is another.
    pub id: u32,
    /// Its part of the priority of jobs.
    pub priority: u32,
    /// By how much use counts, in millionths.
    pub usage_factor_ppm: u32,
    /// What is used in it never fades.
    pub no_decay: bool,
}

/// Accounts, each behind that above it, users, and qualities of service.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Layout {
    pub(super) accounts: Vec<Account>,
    pub(super) users: Vec<User>,
    pub(super) qos: BTreeMap<String, QosFacts>,
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

    /// A user in an account, for one queue or (`""`) for all.
    pub fn user(&mut self, account: &str, user: &str, queue: &str, shares: Shares, priority: u32) {
        self.users.push(User {
            account: account.to_owned(),
            user: user.to_owned(),
            queue: queue.to_owned(),
            standing: Standing {
                shares: of(shares),
                priority,
            },
        });
    }

    /// A quality of service.
    pub fn qos(&mut self, name: &str, facts: QosFacts) {
        self.qos.insert(name.to_owned(), facts);
    }
}

const fn of(shares: Shares) -> fair_tree::Shares {
    match shares {
        Shares::Count(count) => fair_tree::Shares::Of(count),
        Shares::Parent => fair_tree::Shares::Parent,
    }
}
