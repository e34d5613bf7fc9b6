//! What is kept of accounts, users, associations and qualities of service.

use super::Limits;
use crate::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What of the policy binds jobs. Source: slurm.conf(5), `AccountingStorageEnforce`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Enforce {
    /// Jobs need an association: their user is in the account that they are charged to.
    pub associations: bool,
    /// Limits of associations and qualities of service bind. Implies associations.
    pub limits: bool,
    /// Jobs have a quality of service that their association allows. Implies associations.
    pub qos: bool,
    /// A job starts only if its whole time limit fits into the minutes that are left, and is never
    /// ended because of them. Implies limits.
    pub safe: bool,
}

impl Enforce {
    /// Whether jobs need an account here: everything that can be enforced implies associations.
    pub const fn binds(self) -> bool {
        self.associations || self.limits || self.qos
    }
}

/// The part of its siblings' use that an association is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shares {
    /// That many among the shares of its siblings.
    Count(u32),
    /// Its account is passed over: it counts as a child of the account above (`Fairshare=parent`).
    Parent,
}

impl Default for Shares {
    fn default() -> Self {
        Self::Count(1)
    }
}

/// What is set for an association, be it of an account or of a user in one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AssociationSettings {
    /// Its shares among its siblings.
    pub shares: Shares,
    /// Its limits; what is not set here may be set above.
    pub limits: Limits,
    /// Qualities of service that its jobs may have; `None` as the account above says.
    pub qos: Option<BTreeSet<String>>,
    /// Quality of service of jobs that name none; `None` as the account above says.
    pub default_qos: Option<String>,
    /// Its part of the priority of jobs (Slurm: Priority of an association).
    pub priority: Option<u32>,
    /// Any text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub comment: String,
}

/// An account in the tree.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AccountRecord {
    /// Its name, unique in the cluster.
    pub name: String,
    /// The account above; `None` for the root alone.
    pub parent: Option<String>,
    /// Any text.
    #[serde(default)]
    pub description: String,
    /// Any text.
    #[serde(default)]
    pub organization: String,
    /// Users who may change what is below this account.
    #[serde(default)]
    pub coordinators: BTreeSet<String>,
    /// Number of the account's own association.
    pub id: u32,
    /// Settings of the account's own association.
    #[serde(default)]
    pub settings: AssociationSettings,
}

/// What a user may change beyond own jobs. Source: sacctmgr(1), `AdminLevel`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdminLevel {
    /// Nothing of the policy.
    #[default]
    None,
    /// Accounts, users and qualities of service, but not who is an administrator.
    Operator,
    /// The whole policy.
    Administrator,
}

/// A user whom the policy knows.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct UserRecord {
    /// Login name.
    pub name: String,
    /// Account of jobs that name none.
    pub default_account: Option<String>,
    /// Right to change the policy.
    #[serde(default)]
    pub admin_level: AdminLevel,
    /// Key of jobs that name none.
    #[serde(default)]
    pub default_wckey: Option<String>,
    /// Keys under which the user's jobs may be counted.
    #[serde(default)]
    pub wckeys: BTreeSet<String>,
}

/// Which association: an account's own without a user.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct AssociationKey {
    /// Account, by name.
    pub account: String,
    /// User, by login name; `None` for the account itself.
    #[serde(default)]
    pub user: Option<String>,
    /// Only for jobs in this queue.
    #[serde(default)]
    pub queue: Option<String>,
}

/// A user in an account.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AssociationRecord {
    /// Its number; numbers are never given twice.
    pub id: u32,
    /// Account, user, queue.
    pub key: AssociationKey,
    /// What is set for it.
    #[serde(default)]
    pub settings: AssociationSettings,
}

/// The word for jobs that preempt those of their own quality of service that stand behind them.
pub const WITHIN: &str = "within";

/// How jobs are made to give way. Source: slurm.conf(5), `PreemptMode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PreemptMode {
    /// They are not.
    Off,
    /// They are ended.
    Cancel,
    /// They go back into the queue; those that may not run again are ended.
    Requeue,
    /// They are stopped, and go on when there is room again.
    Suspend,
}

impl PreemptMode {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::Off, Self::Cancel, Self::Requeue, Self::Suspend];

    /// The word for it, in settings and in what is shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Cancel => "cancel",
            Self::Requeue => "requeue",
            Self::Suspend => "suspend",
        }
    }

    /// The mode with exactly that word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.word() == word)
    }

    /// What a quality of service says: a mode, [`WITHIN`] or both, with a comma between them, and
    /// whether `within` is among them.
    pub fn of_words(text: &str) -> Option<(Option<Self>, bool)> {
        let (mut mode, mut within) = (None, false);
        for word in text.split(',').map(str::trim) {
            let known = match word {
                WITHIN => !std::mem::replace(&mut within, true),
                word => {
                    let one = Self::of_word(word);
                    one.is_some() && std::mem::replace(&mut mode, one).is_none()
                }
            };
            if !known {
                return None;
            }
        }
        Some((mode, within))
    }
}

macro_rules! qos_flags {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)+) => {
        /// A flag of a quality of service. Source: sacctmgr(1), "SPECIFICATIONS FOR QOS", `Flags`.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        pub enum QosFlag {
            $($(#[$doc])* $name,)+
        }

        impl QosFlag {
            /// Every flag.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The word for it, as `sacctmgr` has it.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            /// The flag with that word, without regard to case.
            pub fn of_word(word: &str) -> Option<Self> {
                Self::ALL.iter().find(|flag| flag.word().eq_ignore_ascii_case(word)).copied()
            }
        }
    };
}

qos_flags! {
    /// Jobs beyond a limit are refused at submission instead of waiting.
    DenyOnLimit = "DenyOnLimit";
    /// Jobs of users whose fair share is below the threshold wait.
    EnforceUsageThreshold = "EnforceUsageThreshold";
    /// Its use does not decay.
    NoDecay = "NoDecay";
    /// Its jobs get no guaranteed start.
    NoReserve = "NoReserve";
    /// As the quality of service of a job it comes before that of the queue.
    OverPartQos = "OverPartQOS";
    /// Its jobs may have more nodes than their queue allows.
    PartitionMaxNodes = "PartitionMaxNodes";
    /// Its jobs may have fewer nodes than their queue wants.
    PartitionMinNodes = "PartitionMinNodes";
    /// Its jobs may run longer than their queue allows.
    PartitionTimeLimit = "PartitionTimeLimit";
    /// Its jobs run only inside reservations.
    RequiresReservation = "RequiresReservation";
    /// Limits on how much is held at once are in per cent: of the queue whose quality of service it is,
    /// else of the cluster.
    Relative = "Relative";
    /// With `safe`: the usage factor counts in what a job may still use.
    UsageFactorSafe = "UsageFactorSafe";
}

/// A quality of service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct QosRecord {
    /// Its number; numbers are never given twice.
    pub id: u32,
    /// Its name, unique in the cluster.
    pub name: String,
    /// Any text.
    pub description: String,
    /// Its part of the priority of jobs; who preempts by quality of service looks at it too.
    pub priority: u32,
    /// Its limits.
    pub limits: Limits,
    /// Its flags.
    pub flags: BTreeSet<QosFlag>,
    /// By how much the use of its jobs counts, in millionths.
    pub usage_factor_ppm: u32,
    /// Qualities of service whose jobs give way to its jobs.
    pub preempt: BTreeSet<String>,
    /// How its jobs are made to give way; `None` as the cluster says.
    pub preempt_mode: Option<PreemptMode>,
    /// Its jobs give way to those of it that stand before them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub preempt_within: bool,
    /// Its jobs do not give way before they have run for so long.
    pub preempt_exempt: Option<Span>,
    /// Between the order to give way and its force.
    pub grace: Span,
}

impl Default for QosRecord {
    fn default() -> Self {
        Self {
            id: 0,
            name: String::new(),
            description: String::new(),
            priority: 0,
            limits: Limits::default(),
            flags: BTreeSet::new(),
            usage_factor_ppm: 1_000_000,
            preempt: BTreeSet::new(),
            preempt_mode: None,
            preempt_within: false,
            preempt_exempt: None,
            grace: Span::ZERO,
        }
    }
}

impl QosRecord {
    /// How its jobs give way, in the words of settings; `None`: as the cluster says.
    pub fn preempt_words(&self) -> Option<String> {
        let within = self.preempt_within.then_some(WITHIN);
        let words = within
            .into_iter()
            .chain(self.preempt_mode.map(PreemptMode::word));
        let words: Vec<&str> = words.collect();
        (!words.is_empty()).then(|| words.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_within() {
        let check = |text: &str, want: Option<(Option<PreemptMode>, bool)>| {
            assert_eq!(PreemptMode::of_words(text), want, "{text}");
        };
        check("cancel", Some((Some(PreemptMode::Cancel), false)));
        check("within", Some((None, true)));
        check("within,requeue", Some((Some(PreemptMode::Requeue), true)));
        check("suspend, within", Some((Some(PreemptMode::Suspend), true)));
        for bad in [
            "",
            ",",
            "gang",
            "cancel,requeue",
            "within,within",
            "within,",
            "cancel,cancel",
        ] {
            check(bad, None);
        }
        for text in ["cancel", "within", "within,off"] {
            let (preempt_mode, preempt_within) = PreemptMode::of_words(text).unwrap();
            let row = QosRecord {
                preempt_mode,
                preempt_within,
                ..QosRecord::default()
            };
            assert_eq!(row.preempt_words().as_deref(), Some(text));
        }
        assert_eq!(QosRecord::default().preempt_words(), None);
    }
}
