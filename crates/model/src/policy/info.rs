//! What is told of the policy.

use super::{
    AccountRecord, AdminLevel, AssociationKey, AssociationSettings, Enforce, LimitKey, QosRecord,
    Tres, UserRecord,
};
use crate::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is asked of the policy. Empty lists of names mean all that the asking user may see.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyQuery {
    /// Accounts without settings of users. Answer: [`PolicyAnswer::Accounts`].
    Accounts {
        /// Names of accounts.
        names: Vec<String>,
    },
    /// Users. Answer: [`PolicyAnswer::Users`].
    Users {
        /// Login names.
        names: Vec<String>,
        /// Only those after this name.
        after: Option<String>,
    },
    /// Associations of accounts and users, in the order of the tree. Answer:
    /// [`PolicyAnswer::Associations`].
    Associations {
        /// Only of these accounts.
        accounts: Vec<String>,
        /// Only of these users, without those of accounts themselves.
        users: Vec<String>,
        /// With what is used and what follows for the order.
        usage: bool,
        /// So many of the list are left out, as the answers before had them.
        skip: u32,
    },
    /// Qualities of service. Answer: [`PolicyAnswer::Qos`].
    Qos {
        /// Names of qualities of service.
        names: Vec<String>,
        /// With what is used.
        usage: bool,
    },
    /// Where somebody stands in the order of queues that go by use. Answer: [`PolicyAnswer::Standing`].
    Standing {
        /// Login name; the asking user without.
        user: Option<String>,
        /// Where that would be after one more job.
        #[serde(default)]
        more: Option<MoreUse>,
    },
}

/// Answer to a [`PolicyQuery`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyAnswer {
    /// Accounts, the root first, each before those below it, siblings by name.
    Accounts(Vec<AccountEntry>),
    /// Users by name.
    Users {
        /// A page of them.
        users: Vec<UserEntry>,
        /// There are more after the last.
        more: bool,
    },
    /// Associations of accounts and users.
    Associations {
        /// A page of them: accounts before those below them, the users of an account before the
        /// accounts below it, each by name.
        rows: Vec<AssociationInfo>,
        /// There are more after the last.
        more: bool,
        /// What of the policy binds jobs.
        enforce: Enforce,
    },
    /// Qualities of service, by number.
    Qos(Vec<QosInfo>),
    /// Where a user stands, by account and queue.
    Standing(Vec<Standing>),
}

/// Where a user stands in one account, in the order of queues that go by use. Use is in billing units
/// times seconds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Standing {
    /// Account; empty of a user whose jobs are in none.
    pub account: String,
    /// Login name.
    pub user: String,
    /// Only for jobs in this queue; empty for all others.
    pub queue: String,
    /// Rank: the highest is served first.
    pub rank: u32,
    /// The highest rank.
    pub users: u32,
    /// From the first level below the root down to the user.
    pub levels: Vec<LevelStanding>,
    /// After one more job, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<AfterUse>,
}

/// What one more job would use.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MoreUse {
    /// Cores that it holds.
    pub cores: u32,
    /// How long.
    pub length: Span,
    /// The queue by whose weights it is billed; the default one without.
    #[serde(default)]
    pub queue: Option<String>,
}

/// Where somebody would stand right after that use.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AfterUse {
    /// What the job uses, in billing units times seconds.
    pub used: u64,
    /// The rank then.
    pub rank: u32,
    /// The account, at last the user, that is then behind somebody at its level, the first from above;
    /// empty where there is none.
    pub behind_as: String,
    /// Who comes right before it there.
    pub next: Option<NextAhead>,
}

/// Where an account, or at last the user, stands among its siblings.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LevelStanding {
    /// Account; at last the user.
    pub name: String,
    /// Its shares; `None` counts as the account above (`parent`).
    pub shares: Option<u32>,
    /// Shares of all at this level.
    pub all_shares: u64,
    /// What it has used.
    pub used: u64,
    /// What all at this level have used.
    pub all_used: u64,
    /// What its running jobs may still use until their limits.
    pub committed: u64,
    /// How many of the level come before it.
    pub ahead: u32,
    /// How many there are at the level.
    pub of: u32,
    /// The nearest of those before it.
    pub next: Option<NextAhead>,
}

/// Who comes right before somebody at a level.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NextAhead {
    /// Account or user; empty where that is not told.
    pub name: String,
    /// Its shares.
    pub shares: Option<u32>,
    /// What it has used.
    pub used: u64,
    /// So much it has to use, while nobody else at the level uses anything, until it is overtaken; `None`
    /// where use changes nothing, because one of the two has no shares.
    pub until_overtaken: Option<u64>,
    /// When it is overtaken if all that runs now goes on; `None` where that is not within a year.
    pub overtaken_at: Option<Time>,
}

/// An account as it is told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AccountEntry {
    /// What is kept of it.
    pub record: AccountRecord,
}

/// A user as told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UserEntry {
    /// What is kept of the user.
    pub record: UserRecord,
    /// Accounts that the user may change.
    pub coordinates: Vec<String>,
    /// What the user may change; administrators of the cluster may change everything.
    pub level: AdminLevel,
}

/// An association as it is told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AssociationInfo {
    /// Its number.
    pub id: u32,
    /// Account, user, queue.
    pub key: AssociationKey,
    /// For an account the account above; empty for the root and for users.
    pub parent: String,
    /// Number of the association above; 0 for the root.
    pub parent_id: u32,
    /// Depth in the tree: 0 for the root.
    pub depth: u32,
    /// What is set for it.
    pub own: AssociationSettings,
    /// Limits that hold for it, its own and those that accounts above set, with the account that
    /// sets each; group limits of accounts above are not in it, they hold beside its own.
    pub effective: Vec<(LimitKey, u64, AssociationKey)>,
    /// Qualities of service that its jobs may have.
    pub qos: Vec<String>,
    /// Quality of service of jobs that name none.
    pub default_qos: Option<String>,
    /// It is the user's default account.
    pub is_default: bool,
    /// What is used, where it was asked for.
    pub usage: Option<AssociationUsage>,
}

/// Accounts of a user as rules at submission are told of them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UserAccounts {
    /// Account of jobs that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_account: Option<String>,
    /// Accounts that the user is in, the default one first; at most
    /// [`limits::TOLD_ACCOUNTS`](crate::limits::TOLD_ACCOUNTS).
    pub accounts: Vec<UserAccount>,
    /// Priorities of qualities of service: those of these accounts, then others by name; at most
    /// [`limits::TOLD_PRIORITIES`](crate::limits::TOLD_PRIORITIES).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub qos_priorities: BTreeMap<String, u32>,
    /// The cluster has more qualities of service than are told.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub priorities_left_out: bool,
}

/// An account that a user is in.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UserAccount {
    /// Its name.
    pub account: String,
    /// Only for jobs in this queue, for which it comes before one of all queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Quality of service of jobs that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_qos: Option<String>,
    /// Qualities of service that jobs may have; at most
    /// [`limits::TOLD_QOS`](crate::limits::TOLD_QOS).
    pub qos: Vec<String>,
    /// The comment of the association; at most its first
    /// [`limits::COMMENT_BYTES`](crate::limits::COMMENT_BYTES).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub comment: String,
}

impl UserAccounts {
    /// What holds for jobs of that account in that queue; for those that name none the default
    /// account.
    pub fn of(&self, account: Option<&str>, queue: Option<&str>) -> Option<&UserAccount> {
        let account = account.or(self.default_account.as_deref())?;
        let mut own = self.accounts.iter().filter(|row| row.account == account);
        let here = own
            .clone()
            .find(|row| row.queue.is_some() && row.queue.as_deref() == queue);
        here.or_else(|| own.find(|row| row.queue.is_none()))
    }
}

/// What an association, or a quality of service, has used and holds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AssociationUsage {
    /// Jobs that run.
    pub running: u32,
    /// Jobs that wait or run.
    pub submitted: u32,
    /// Waiting jobs that gather age.
    pub accruing: u32,
    /// What running jobs hold.
    pub held: BTreeMap<Tres, u64>,
    /// Amounts times seconds, decayed.
    pub used_seconds: BTreeMap<Tres, u64>,
    /// Amounts times what is left of limits of running jobs, in seconds.
    pub run_seconds: BTreeMap<Tres, u64>,
    /// Wall seconds, decayed.
    pub wall_seconds: u64,
    /// Billing times seconds, decayed: what shares are compared with.
    pub raw_usage: u64,
    /// Part of the shares of the cluster, in billionths; of siblings for users of Fair Tree.
    pub norm_shares_ppb: u64,
    /// Part of all use, in billionths.
    pub norm_usage_ppb: u64,
    /// Part of the use of the account above, in billionths.
    pub effective_usage_ppb: u64,
    /// Shares over use among siblings, in billionths; `u64::MAX` is infinity.
    pub level_fs_ppb: u64,
    /// Fair share factor in billionths; only of users.
    pub fair_share_ppb: Option<u64>,
}

/// A quality of service as it is told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QosInfo {
    /// What is kept of it.
    pub record: QosRecord,
    /// What is used, where it was asked for.
    pub usage: Option<AssociationUsage>,
}
