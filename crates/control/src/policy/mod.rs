//! The policy of a site: the tree of accounts, users in them, qualities of service, limits.
//!
//! ```text
//!   root ─┬─ physics ─┬─ ann            an association: a user in an account,
//!         │           └─ bob (queue x)  perhaps for one queue only
//!         └─ biology ─── lab1 ─── ann
//! ```
//!
//! An account of the books (budgets, the ledger) is the account of that name in the tree; one that
//! only the configuration or the books know is taken up below the root. What binds jobs is said
//! by `enforce` in the configuration; without it the tree is kept and shown, and binds nobody.
//!
//! Changes are carried out on the state itself, each change seeing those before it, with what was
//! there before kept aside ([`draft::Draft`]): a list of changes is done as a whole or not at all.
//!
//! Source: sacctmgr(1); the guide to resource limits of Slurm for which limit counts.

mod account_changes;
mod association_changes;
pub(crate) mod books;
pub(crate) mod draft;
pub(crate) mod effect;
pub(crate) mod invariants;
mod lifted;
pub(crate) mod limits;
pub(crate) mod preempt;
mod qos_changes;
pub(crate) mod rejudge;
pub(crate) mod rights;
pub(crate) mod row;
mod settings;
pub(crate) mod show;
pub(crate) mod standing;
mod tree;

use self::effect::kept;
use self::limits::counts::Counts;
use self::limits::wholes::Wholes;
use self::row::PolicyRow;
use crate::turn::Turn;
use cosy_model::policy::{
    AccountRecord, AssociationKey, AssociationRecord, LimitKind, Limits, NORMAL, QosFlag,
    QosRecord, ROOT, UserRecord,
};
use std::collections::{BTreeMap, BTreeSet};

/// Number of the root's own association.
const ROOT_ID: u32 = 1;
/// Number of the quality of service that is always there.
const NORMAL_ID: u32 = 1;

/// Numbers that were given out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Numbers {
    /// The next association's.
    association: u32,
    /// The next quality of service's.
    qos: u32,
}

/// Accounts, users, associations and qualities of service.
#[derive(Debug)]
pub(crate) struct Policy {
    accounts: BTreeMap<String, AccountRecord>,
    /// Behind pointers, for there are many, and a tree has room for more than it holds.
    users: BTreeMap<String, Box<UserRecord>>,
    /// Users in accounts; those of accounts themselves are in `accounts`.
    associations: BTreeMap<AssociationKey, Box<AssociationRecord>>,
    qos: BTreeMap<String, QosRecord>,
    next: Numbers,
    /// Accounts below each account, by name.
    children: BTreeMap<String, BTreeSet<String>>,
    /// Associations of each user, in order: most have one.
    of_user: BTreeMap<String, Vec<AssociationKey>>,
    /// What is counted of jobs for the sake of limits.
    counts: Counts,
    /// What there is in all, of which some limits are shares.
    wholes: Wholes,
    /// Records because of which a job may get no guaranteed start ([`denies_places`]).
    without_places: usize,
}

impl Default for Policy {
    fn default() -> Self {
        let root = AccountRecord {
            name: ROOT.to_owned(),
            id: ROOT_ID,
            description: "default root account".to_owned(),
            organization: ROOT.to_owned(),
            ..AccountRecord::default()
        };
        let normal = QosRecord {
            id: NORMAL_ID,
            name: NORMAL.to_owned(),
            description: "Normal QOS default".to_owned(),
            ..QosRecord::default()
        };
        Self {
            accounts: BTreeMap::from([(ROOT.to_owned(), root)]),
            users: BTreeMap::new(),
            associations: BTreeMap::new(),
            qos: BTreeMap::from([(NORMAL.to_owned(), normal)]),
            next: Numbers {
                association: ROOT_ID + 1,
                qos: NORMAL_ID + 1,
            },
            children: BTreeMap::new(),
            of_user: BTreeMap::new(),
            counts: Counts::default(),
            wholes: Wholes::default(),
            without_places: 0,
        }
    }
}

impl Policy {
    /// Out of the rows of the store. Accounts whose account above is not there are below the root;
    /// associations in accounts that are not there are left out.
    pub fn restore(rows: Vec<PolicyRow>) -> Self {
        let mut it = Self::default();
        for row in rows {
            match row {
                PolicyRow::Account(row) => drop(it.accounts.insert(row.name.clone(), row)),
                PolicyRow::User(row) => drop(it.users.insert(row.name.clone(), row.into())),
                PolicyRow::Association(row) => {
                    drop(it.associations.insert(row.key.clone(), row.into()));
                }
                PolicyRow::Qos(row) => drop(it.qos.insert(row.name.clone(), row)),
                PolicyRow::Numbers { association, qos } => {
                    it.next = Numbers { association, qos };
                }
            }
        }
        it.mend();
        it
    }

    /// What a store lacks that could not be read whole.
    fn mend(&mut self) {
        let names: BTreeSet<String> = self.accounts.keys().cloned().collect();
        for account in self.accounts.values_mut() {
            let known = account.parent.as_ref().is_some_and(|p| names.contains(p));
            if !known && account.name != ROOT {
                account.parent = Some(ROOT.to_owned());
            }
        }
        self.associations
            .retain(|key, _| names.contains(&key.account));
        let ids = self.accounts.values().map(|account| account.id);
        let ids = ids.chain(self.associations.values().map(|row| row.id));
        let last = ids.max().unwrap_or(ROOT_ID);
        self.next.association = self.next.association.max(last.saturating_add(1));
        let last = self.qos.values().map(|qos| qos.id).max();
        let last = last.unwrap_or(NORMAL_ID).saturating_add(1);
        self.next.qos = self.next.qos.max(last);
        self.index();
    }

    /// Builds what follows from the records.
    fn index(&mut self) {
        self.children.clear();
        self.of_user.clear();
        for account in self.accounts.values() {
            if let Some(parent) = &account.parent {
                let below = self.children.entry(parent.clone()).or_default();
                below.insert(account.name.clone());
            }
        }
        for key in self.associations.keys() {
            if let Some(user) = &key.user {
                let own = self.of_user.entry(user.clone()).or_default();
                own.reserve_exact(1);
                own.push(key.clone());
            }
        }
        self.without_places = self.count_without_places();
    }

    fn count_without_places(&self) -> usize {
        let qos = self.qos.values().filter(|row| qos_denies_places(row));
        let limits = self.accounts.values().map(|row| &row.settings.limits);
        let limits = limits.chain(self.associations.values().map(|row| &row.settings.limits));
        qos.count() + limits.filter(|limits| have_threshold(limits)).count()
    }

    /// Whether a job may get no guaranteed start because of a record.
    pub(crate) const fn may_deny_places(&self) -> bool {
        self.without_places > 0
    }

    /// What there is in all.
    pub(crate) const fn wholes(&self) -> &Wholes {
        &self.wholes
    }

    /// There is so much in all from now on: which qualities of service have other limits by that.
    pub(crate) fn is_measured(&mut self, wholes: Wholes) -> BTreeSet<String> {
        if self.wholes == wholes {
            return BTreeSet::new();
        }
        self.wholes = wholes;
        let relative = self.qos.values();
        let relative = relative.filter(|row| row.flags.contains(&QosFlag::Relative));
        relative.map(|row| row.name.clone()).collect()
    }

    /// The account of that name.
    pub fn account(&self, name: &str) -> Option<&AccountRecord> {
        self.accounts.get(name)
    }

    /// The user of that name.
    pub fn user(&self, name: &str) -> Option<&UserRecord> {
        self.users.get(name).map(AsRef::as_ref)
    }

    /// The quality of service of that name.
    pub fn qos(&self, name: &str) -> Option<&QosRecord> {
        self.qos.get(name)
    }

    /// The association of a user in an account.
    pub fn association(&self, key: &AssociationKey) -> Option<&AssociationRecord> {
        self.associations.get(key).map(AsRef::as_ref)
    }

    /// Whether somebody has been put into an account, or a quality of service was made: nothing of
    /// the policy is filled in for jobs before that.
    pub fn is_in_use(&self) -> bool {
        !self.associations.is_empty() || self.qos.len() > 1
    }

    /// Associations of a user, by account and queue.
    pub fn associations_of(&self, user: &str) -> impl Iterator<Item = &AssociationRecord> {
        let keys = self.of_user.get(user).into_iter().flatten();
        keys.filter_map(|key| self.association(key))
    }

    /// Login names by account.
    pub fn users_by_account(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for key in self.associations.keys() {
            let own = all.entry(key.account.clone()).or_default();
            own.extend(key.user.clone());
        }
        all
    }

    /// Accounts that only the books know are taken up below the root.
    pub fn take_up(&mut self, turn: &mut Turn, names: impl Iterator<Item = String>) {
        let mut numbers = false;
        for name in names {
            if self.accounts.contains_key(&name) {
                continue;
            }
            let account = AccountRecord {
                id: self.next.association,
                parent: Some(ROOT.to_owned()),
                description: name.clone(),
                organization: ROOT.to_owned(),
                name,
                ..AccountRecord::default()
            };
            self.next.association = self.next.association.saturating_add(1);
            let below = self.children.entry(ROOT.to_owned()).or_default();
            below.insert(account.name.clone());
            let row = PolicyRow::Account(account.clone());
            turn.record(kept(row));
            self.accounts.insert(account.name.clone(), account);
            numbers = true;
        }
        if numbers {
            turn.record(kept(self.numbers()));
        }
    }

    fn numbers(&self) -> PolicyRow {
        PolicyRow::Numbers {
            association: self.next.association,
            qos: self.next.qos,
        }
    }
}

fn have_threshold(limits: &Limits) -> bool {
    limits
        .iter()
        .any(|(key, _)| key.kind == LimitKind::MinPrioThreshold)
}

fn qos_denies_places(row: &QosRecord) -> bool {
    row.flags.contains(&QosFlag::NoReserve) || have_threshold(&row.limits)
}

/// Whether a record may be why a job gets no guaranteed start.
fn denies_places(row: &PolicyRow) -> bool {
    match row {
        PolicyRow::Account(row) => have_threshold(&row.settings.limits),
        PolicyRow::Association(row) => have_threshold(&row.settings.limits),
        PolicyRow::Qos(row) => qos_denies_places(row),
        PolicyRow::User(_) | PolicyRow::Numbers { .. } => false,
    }
}
