//! Which limits a job is under, in the order in which they are looked at.
//!
//! ```text
//!   quality of service of the queue ─▶ of the job ─▶ the user's association ─▶ accounts, upward
//!            (OverPartQOS swaps these two)
//! ```
//!
//! Of each limit, and of each resource by itself, the first place that sets it decides; later places
//! are not looked at, also when they allow less. Limits of groups that associations set count on
//! every level, unless a quality of service has set the same. `MaxJobs` and `MaxSubmitJobs` of an
//! association count only where no quality of service limits the jobs of a user or of an account.
//! Source: the resource limits guide of Slurm; sacctmgr(1).

use super::party::Meter;
use cosy_model::policy::{AssociationKey, LimitHit, LimitKey, LimitKind, LimitPlace, Measure};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Who has set a limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    Association(Arc<AssociationKey>),
    Qos(Arc<str>),
}

/// A limit that a job is under.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    pub place: LimitPlace,
    /// Whose it is.
    pub of: Owner,
    /// Which jobs count together.
    pub meter: Meter,
    pub key: LimitKey,
    pub value: u64,
    /// It is that part of what there is in all.
    pub percent: Option<u64>,
}

/// All limits that the jobs of a party are under.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    /// Over which jobs are counted that belong to the party.
    pub meters: Box<[Meter]>,
    /// In the order in which they are looked at.
    pub all: Box<[Rule]>,
    /// It has a quality of service of its own or of its queue.
    pub has_qos: bool,
    /// One of these refuses what is beyond a limit.
    pub denies: bool,
    /// Only so many of its waiting jobs gather age.
    pub limits_age: bool,
    /// By how much, in millionths, what a job may still use is multiplied where minutes are looked at
    /// beforehand: the usage factor of its quality of service with `UsageFactorSafe`.
    pub planned_ppm: u32,
}

impl Rules {
    /// Where jobs are counted together of which only so many gather age.
    pub fn of_age(&self) -> BTreeSet<Meter> {
        let rules = self.all.iter().filter(|rule| rule.limits_age());
        rules.map(|rule| rule.meter).collect()
    }

    /// Where jobs are counted together of which only so many, or so much, may run; each once.
    pub fn of_running(&self) -> BTreeSet<Meter> {
        let running = self.all.iter().filter(|rule| rule.limits_running());
        running.map(|rule| rule.meter).collect()
    }
}

/// Such limits are on how many jobs run at once, or what they hold together.
pub(crate) fn limits_running(kind: LimitKind) -> bool {
    let amounts = matches!(
        kind,
        LimitKind::GrpTres | LimitKind::MaxTresPerUser | LimitKind::MaxTresPerAccount
    );
    amounts || kind.measure() == Measure::Jobs
}

impl Rule {
    /// It limits how many waiting jobs gather age.
    pub fn limits_age(&self) -> bool {
        self.key.kind.measure() == Measure::JobsAccrue
    }

    /// It limits how many jobs run at once, or what they hold together.
    pub fn limits_running(&self) -> bool {
        limits_running(self.key.kind)
    }

    pub fn hit(&self) -> LimitHit {
        LimitHit {
            place: self.place,
            key: self.key.clone(),
        }
    }
}

impl fmt::Display for Owner {
    /// `user ann in account physics`, `account physics`, `quality of service high`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = match self {
            Self::Association(key) => key,
            Self::Qos(name) => return write!(f, "quality of service {name}"),
        };
        if let Some(user) = &key.user {
            write!(f, "user {user} in ")?;
        }
        write!(f, "account {}", key.account)?;
        match &key.queue {
            Some(queue) => write!(f, " for queue {queue}"),
            None => Ok(()),
        }
    }
}
