//! A site's policy: accounts, who is in them, qualities of service, and limits.
//!
//! Accounts form one tree under [`ROOT`]. A user is in an account by an *association*, which may
//! be for one queue only. Associations of accounts and of users carry the same settings: shares,
//! limits, allowed qualities of service. Source of the words: sacctmgr(1).

mod change;
mod info;
mod limit;
mod records;
mod told;
mod tres;

pub use change::{AssociationChange, PolicyChange, QosChange, QosListChange};
pub use info::{
    AccountEntry, AfterUse, AssociationInfo, AssociationUsage, LevelStanding, MoreUse, NextAhead,
    PolicyAnswer, PolicyQuery, QosInfo, Standing, UserAccount, UserAccounts, UserEntry,
};
pub use limit::{LimitHit, LimitKey, LimitKind, LimitPlace, LimitScope, Limits, Measure};
pub use records::{
    AccountRecord, AdminLevel, AssociationKey, AssociationRecord, AssociationSettings, Enforce,
    PreemptMode, QosFlag, QosRecord, Shares, UserRecord, WITHIN,
};
pub use tres::Tres;

/// Name of the account that all others are below.
pub const ROOT: &str = "root";
/// Name of the quality of service that is always there.
pub const NORMAL: &str = "normal";
