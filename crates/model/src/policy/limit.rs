//! Limits of associations and qualities of service: every kind once, with its word, its scope,
//! what it measures and where it may be set.

use super::Tres;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Over whom a limit counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LimitScope {
    /// Over all jobs below an association, or in a quality of service.
    Group,
    /// Over the jobs of an association, of each user in a quality of service.
    User,
    /// Over the jobs of each account in a quality of service.
    Account,
    /// Of one job.
    Job,
    /// Of one job on each of its nodes.
    Node,
}

/// What a limit measures.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Measure {
    /// Amounts held at one time.
    Tres,
    /// Least amounts of a job.
    LeastTres,
    /// Amounts times minutes, used and still to be used.
    TresMinutes,
    /// Amounts times what is left of the time limits of running jobs, in minutes.
    TresRunMinutes,
    /// Jobs that run.
    Jobs,
    /// Jobs that wait or run.
    SubmitJobs,
    /// Waiting jobs that gather age.
    JobsAccrue,
    /// Wall minutes.
    Wall,
    /// Least priority with which a job gets a guaranteed start.
    Priority,
}

impl Measure {
    /// Whether a limit of this measure is set for each resource by itself.
    pub const fn by_tres(self) -> bool {
        matches!(self, Self::Tres | Self::LeastTres | Self::TresMinutes | Self::TresRunMinutes)
    }
}

macro_rules! limit_kinds {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $scope:ident, $measure:ident, $places:ident;)+) => {
        /// A kind of limit. Source: sacctmgr(1); the resource limits guide of Slurm.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum LimitKind {
            $($(#[$doc])* $name,)+
        }

        impl LimitKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The word for it, as `sacctmgr` has it.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            /// Over whom it counts.
            pub const fn scope(self) -> LimitScope {
                match self { $(Self::$name => LimitScope::$scope,)+ }
            }

            /// What it measures.
            pub const fn measure(self) -> Measure {
                match self { $(Self::$name => Measure::$measure,)+ }
            }

            const fn places(self) -> Places {
                match self { $(Self::$name => Places::$places,)+ }
            }
        }
    };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Places {
    Both,
    Association,
    Qos,
}

limit_kinds! {
    /// Amounts that all running jobs hold together.
    GrpTres = "GrpTRES", Group, Tres, Both;
    /// Amounts times minutes, used (decayed) and still to be used.
    GrpTresMins = "GrpTRESMins", Group, TresMinutes, Both;
    /// Amounts times remaining limits of all running jobs.
    GrpTresRunMins = "GrpTRESRunMins", Group, TresRunMinutes, Both;
    /// Jobs that run at once.
    GrpJobs = "GrpJobs", Group, Jobs, Both;
    /// Jobs that gather age at once.
    GrpJobsAccrue = "GrpJobsAccrue", Group, JobsAccrue, Both;
    /// Jobs that wait or run at once.
    GrpSubmitJobs = "GrpSubmitJobs", Group, SubmitJobs, Both;
    /// Wall minutes, used (decayed) and still to be used.
    GrpWall = "GrpWall", Group, Wall, Both;
    /// Amounts of one job.
    MaxTresPerJob = "MaxTRESPerJob", Job, Tres, Both;
    /// Amounts of one job on each of its nodes.
    MaxTresPerNode = "MaxTRESPerNode", Node, Tres, Both;
    /// Amounts times minutes of one job.
    MaxTresMinsPerJob = "MaxTRESMinsPerJob", Job, TresMinutes, Both;
    /// Time limit of one job, in minutes.
    MaxWall = "MaxWall", Job, Wall, Both;
    /// Least amounts of one job.
    MinTresPerJob = "MinTRESPerJob", Job, LeastTres, Qos;
    /// Jobs of the association that run at once.
    MaxJobs = "MaxJobs", User, Jobs, Association;
    /// Jobs of the association that gather age at once.
    MaxJobsAccrue = "MaxJobsAccrue", User, JobsAccrue, Association;
    /// Jobs of the association that wait or run at once.
    MaxSubmitJobs = "MaxSubmitJobs", User, SubmitJobs, Association;
    /// Jobs of each user that run at once.
    MaxJobsPerUser = "MaxJobsPerUser", User, Jobs, Qos;
    /// Jobs of each account that run at once.
    MaxJobsPerAccount = "MaxJobsPerAccount", Account, Jobs, Qos;
    /// Jobs of each user that gather age at once.
    MaxJobsAccruePerUser = "MaxJobsAccruePerUser", User, JobsAccrue, Qos;
    /// Jobs of each account that gather age at once.
    MaxJobsAccruePerAccount = "MaxJobsAccruePerAccount", Account, JobsAccrue, Qos;
    /// Jobs of each user that wait or run at once.
    MaxSubmitJobsPerUser = "MaxSubmitJobsPerUser", User, SubmitJobs, Qos;
    /// Jobs of each account that wait or run at once.
    MaxSubmitJobsPerAccount = "MaxSubmitJobsPerAccount", Account, SubmitJobs, Qos;
    /// Amounts that the running jobs of each user hold.
    MaxTresPerUser = "MaxTRESPerUser", User, Tres, Qos;
    /// Amounts that the running jobs of each account hold.
    MaxTresPerAccount = "MaxTRESPerAccount", Account, Tres, Qos;
    /// Amounts times remaining limits of the running jobs of each user.
    MaxTresRunMinsPerUser = "MaxTRESRunMinsPerUser", User, TresRunMinutes, Qos;
    /// Amounts times remaining limits of the running jobs of each account.
    MaxTresRunMinsPerAccount = "MaxTRESRunMinsPerAccount", Account, TresRunMinutes, Qos;
    /// Least priority with which a job gets a guaranteed start.
    MinPrioThreshold = "MinPrioThreshold", Job, Priority, Both;
}

impl LimitKind {
    /// Whether it can be set on associations of users and accounts.
    pub fn of_associations(self) -> bool {
        self.places() != Places::Qos
    }

    /// Whether it can be set on a quality of service.
    pub fn of_qos(self) -> bool {
        self.places() != Places::Association
    }

    /// The kind with that word, without regard to case.
    pub fn of_word(word: &str) -> Option<Self> {
        let mut all = Self::ALL.iter();
        all.find(|kind| kind.word().eq_ignore_ascii_case(word))
            .copied()
    }
}

/// A limit, and the resource it is about where its measure has one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LimitKey {
    /// Its kind.
    pub kind: LimitKind,
    /// Its resource; `Some` exactly where [`Measure::by_tres`] says so.
    pub tres: Option<Tres>,
}

impl LimitKey {
    /// A limit that is about no resource.
    pub const fn plain(kind: LimitKind) -> Self {
        Self { kind, tres: None }
    }

    /// A limit on a resource.
    pub const fn of(kind: LimitKind, tres: Tres) -> Self {
        Self {
            kind,
            tres: Some(tres),
        }
    }
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tres {
            Some(tres) => write!(f, "{}={tres}", self.kind.word()),
            None => f.write_str(self.kind.word()),
        }
    }
}

impl From<LimitKey> for String {
    fn from(key: LimitKey) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for LimitKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for LimitKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, tres) = match text.split_once('=') {
            Some((word, tres)) => (word, Some(tres.parse()?)),
            None => (text, None),
        };
        let shown = || text.chars().take(70).collect::<String>();
        let kind = LimitKind::of_word(word)
            .ok_or_else(|| format!("'{}' is no limit", shown().escape_debug()))?;
        match kind.measure().by_tres() == tres.is_some() {
            true => Ok(Self { kind, tres }),
            false => Err(format!(
                "'{}': {} is set {}",
                shown().escape_debug(),
                kind.word(),
                match tres {
                    Some(_) => "without a resource",
                    None => "for a resource, as in GrpTRES=cpu",
                }
            )),
        }
    }
}

/// The limits that are set at one place, few as a rule. Amounts of memory are in MiB, wall times in minutes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "BTreeMap<LimitKey, u64>", into = "BTreeMap<LimitKey, u64>")]
pub struct Limits(Vec<(LimitKey, u64)>);

impl Limits {
    fn place(&self, key: &LimitKey) -> Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| own.cmp(key))
    }

    /// What is set for that limit.
    pub fn get(&self, key: &LimitKey) -> Option<u64> {
        let at = self.place(key).ok()?;
        self.0.get(at).map(|(_, value)| *value)
    }

    /// Sets a limit, or with `None` sets it no more.
    pub fn set(&mut self, key: LimitKey, value: Option<u64>) {
        match (self.place(&key), value) {
            (Ok(at), Some(value)) => {
                if let Some(own) = self.0.get_mut(at) {
                    own.1 = value;
                }
            }
            (Err(at), Some(value)) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (key, value));
            }
            (Ok(at), None) => drop(self.0.remove(at)),
            (Err(_), None) => {}
        }
    }

    /// All that are set, by kind and resource.
    pub fn iter(&self) -> impl Iterator<Item = (&LimitKey, u64)> {
        self.0.iter().map(|(key, value)| (key, *value))
    }

    /// All of one kind, by resource.
    pub fn of_kind(&self, kind: LimitKind) -> impl Iterator<Item = (&LimitKey, u64)> {
        let first = self.0.partition_point(|(key, _)| key.kind < kind);
        let from = self.iter().skip(first);
        from.take_while(move |(key, _)| key.kind == kind)
    }

    /// How many are set.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True where none is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<BTreeMap<LimitKey, u64>> for Limits {
    fn from(all: BTreeMap<LimitKey, u64>) -> Self {
        Self(all.into_iter().collect())
    }
}

impl From<Limits> for BTreeMap<LimitKey, u64> {
    fn from(limits: Limits) -> Self {
        limits.0.into_iter().collect()
    }
}

/// Whose limit it is that a job waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitPlace {
    /// An association's, of a user or an account.
    Association,
    /// A quality of service's, of the job or of its queue.
    Qos,
}

/// A limit that keeps a job waiting. Whose it is by name, and the figures, are told beside it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct LimitHit {
    /// Whose limit it is.
    pub place: LimitPlace,
    /// Which limit.
    pub key: LimitKey,
}

impl LimitHit {
    /// One word: `assoc:GrpTRES=cpu`, `qos:MaxJobsPerUser`.
    pub fn word(&self) -> String {
        let place = match self.place {
            LimitPlace::Association => "assoc",
            LimitPlace::Qos => "qos",
        };
        format!("{place}:{}", self.key)
    }

    /// The hit that a word stands for.
    pub fn of_word(word: &str) -> Option<Self> {
        let (place, key) = word.split_once(':')?;
        let place = match place {
            "assoc" => LimitPlace::Association,
            "qos" => LimitPlace::Qos,
            _ => return None,
        };
        let key = key.parse().ok()?;
        Some(Self { place, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_again() {
        for kind in LimitKind::ALL {
            let tres = kind.measure().by_tres().then(Tres::gpus);
            let key = LimitKey { kind: *kind, tres };
            assert_eq!(key.to_string().parse(), Ok(key.clone()));
            let hit = LimitHit {
                place: LimitPlace::Qos,
                key,
            };
            assert_eq!(LimitHit::of_word(&hit.word()), Some(hit));
        }
        for text in ["GrpTRES", "GrpJobs=cpu", "GrpTRES=", "Nothing", ""] {
            assert!(text.parse::<LimitKey>().is_err(), "{text}");
        }
    }

    #[test]
    fn limits_of_a_kind() {
        let mut limits = Limits::default();
        limits.set(LimitKey::plain(LimitKind::GrpJobs), Some(4));
        limits.set(LimitKey::of(LimitKind::GrpTres, Tres::Node), Some(2));
        limits.set(LimitKey::of(LimitKind::GrpTres, Tres::Cpu), Some(9));
        limits.set(LimitKey::of(LimitKind::GrpTresMins, Tres::Cpu), Some(7));
        let found: Vec<u64> = limits.of_kind(LimitKind::GrpTres).map(|l| l.1).collect();
        assert_eq!(found, [9, 2]);
        limits.set(LimitKey::plain(LimitKind::GrpJobs), None);
        assert_eq!(limits.len(), 3);
    }
}
