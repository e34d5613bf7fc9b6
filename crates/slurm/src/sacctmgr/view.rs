//! What `sacctmgr` knows of the policy while it works on a command, and what of it conditions
//! choose.

use cosy_model::policy::{AccountRecord, AssociationInfo, QosRecord, UserEntry};

/// The policy as the controller told it, whole.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PolicyView {
    /// Name of the cluster.
    pub cluster: String,
    /// Accounts, the root first, each before those below it.
    pub accounts: Vec<AccountRecord>,
    /// Users by name.
    pub users: Vec<UserEntry>,
    /// Associations in the order of the tree.
    pub associations: Vec<AssociationInfo>,
    /// Qualities of service by number.
    pub qos: Vec<QosRecord>,
}

impl PolicyView {
    /// The account of that name.
    pub fn account(&self, name: &str) -> Option<&AccountRecord> {
        self.accounts.iter().find(|a| a.name == name)
    }

    /// The user of that name.
    pub fn user(&self, name: &str) -> Option<&UserEntry> {
        self.users.iter().find(|u| u.record.name == name)
    }

    /// The quality of service of that name.
    pub fn qos(&self, name: &str) -> Option<&QosRecord> {
        self.qos.iter().find(|q| q.name == name)
    }

    /// The account's own association.
    pub fn own(&self, account: &str) -> Option<&AssociationInfo> {
        let own = |a: &&AssociationInfo| a.key.user.is_none() && a.key.account == account;
        self.associations.iter().find(own)
    }

    /// Associations of a user, of all accounts and queues.
    pub fn of_user<'a>(&'a self, user: &'a str) -> impl Iterator<Item = &'a AssociationInfo> {
        let of = move |a: &&AssociationInfo| a.key.user.as_deref() == Some(user);
        self.associations.iter().filter(of)
    }

    /// Whether an account is another or below it.
    pub fn is_within(&self, account: &str, above: &str) -> bool {
        let mut at = Some(account);
        for _ in 0..=self.accounts.len() {
            match at {
                Some(name) if name == above => return true,
                Some(name) => at = self.account(name).and_then(|a| a.parent.as_deref()),
                None => return false,
            }
        }
        false
    }

    /// The names of all qualities of service, as errors list them.
    pub fn qos_names(&self) -> String {
        let names: Vec<&str> = self.qos.iter().map(|q| q.name.as_str()).collect();
        names.join(",")
    }
}
