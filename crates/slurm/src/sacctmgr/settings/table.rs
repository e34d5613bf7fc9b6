//! The words that `set` and `add` know, and what each sets.

use super::super::words::lookup;
use cosy_model::policy::{LimitKind, Tres};

/// Whose settings are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// An account, or the root for the cluster.
    Account,
    /// A user.
    User,
    /// A quality of service.
    Qos,
}

/// What a word sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Setting {
    /// A limit, of one number or a list of resources.
    Limit(LimitKind),
    /// The name of a limit from before there were lists of resources.
    OneResource(LimitKind, Resource),
    /// Shares among siblings.
    Shares,
    /// Part of the priority of jobs.
    Priority,
    /// Allowed qualities of service.
    QosList,
    /// Quality of service of jobs that name none.
    DefaultQos,
    /// Any text about it.
    Description,
    /// Any text about the account.
    Organization,
    /// The account above it.
    Parent,
    /// Right to change the policy.
    AdminLevel,
    /// Account of jobs that name none.
    DefaultAccount,
    /// Key of jobs that name none.
    DefaultWckey,
    /// Keys that jobs may name.
    Wckeys,
    /// Usage that is forgotten.
    RawUsage,
    /// Flags of a quality of service.
    Flags,
    /// Time between order and force.
    Grace,
    /// Whose jobs give way.
    Preempt,
    /// How its jobs give way.
    PreemptMode,
    /// How long its jobs need not give way.
    PreemptExempt,
    /// By how much use counts.
    UsageFactor,
    /// Kept by Slurm, without meaning here.
    NotHere,
}

/// A resource that once had words of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Resource {
    /// Cores of processors.
    Cpu,
    /// Memory in MiB.
    Memory,
    /// Nodes, each counted once.
    Node,
}

impl Resource {
    pub(super) const fn tres(self) -> Tres {
        match self {
            Self::Cpu => Tres::Cpu,
            Self::Memory => Tres::Memory,
            Self::Node => Tres::Node,
        }
    }
}

/// Limits that associations and qualities of service have.
const LIMITS: &[(&str, Setting)] = &[
    ("GrpCPUMins", Setting::OneResource(LimitKind::GrpTresMins, Resource::Cpu)),
    ("GrpCPURunMins", Setting::OneResource(LimitKind::GrpTresRunMins, Resource::Cpu)),
    ("GrpCPUs", Setting::OneResource(LimitKind::GrpTres, Resource::Cpu)),
    ("GrpJobs", Setting::Limit(LimitKind::GrpJobs)),
    ("GrpJobsAccrue", Setting::Limit(LimitKind::GrpJobsAccrue)),
    ("GrpMemory", Setting::OneResource(LimitKind::GrpTres, Resource::Memory)),
    ("GrpNodes", Setting::OneResource(LimitKind::GrpTres, Resource::Node)),
    ("GrpSubmitJobs", Setting::Limit(LimitKind::GrpSubmitJobs)),
    ("GrpTRES", Setting::Limit(LimitKind::GrpTres)),
    ("GrpTRESMins", Setting::Limit(LimitKind::GrpTresMins)),
    ("GrpTRESRunMins", Setting::Limit(LimitKind::GrpTresRunMins)),
    ("GrpWall", Setting::Limit(LimitKind::GrpWall)),
    ("MaxCPUMinsPerJob", Setting::OneResource(LimitKind::MaxTresMinsPerJob, Resource::Cpu)),
    ("MaxCPUsPerJob", Setting::OneResource(LimitKind::MaxTresPerJob, Resource::Cpu)),
    ("MaxNodesPerJob", Setting::OneResource(LimitKind::MaxTresPerJob, Resource::Node)),
    ("MaxTRESPerJob", Setting::Limit(LimitKind::MaxTresPerJob)),
    ("MaxTRESMinsPerJob", Setting::Limit(LimitKind::MaxTresMinsPerJob)),
    ("MaxTRESPerNode", Setting::Limit(LimitKind::MaxTresPerNode)),
    ("MaxTRESPJ", Setting::Limit(LimitKind::MaxTresPerJob)),
    ("MaxTRESPN", Setting::Limit(LimitKind::MaxTresPerNode)),
    ("MaxTRES", Setting::Limit(LimitKind::MaxTresPerJob)),
    ("MaxTRESMins", Setting::Limit(LimitKind::MaxTresMinsPerJob)),
    ("MaxWall", Setting::Limit(LimitKind::MaxWall)),
    ("MaxWallDurationPerJob", Setting::Limit(LimitKind::MaxWall)),
    ("MinPrioThreshold", Setting::Limit(LimitKind::MinPrioThreshold)),
    ("MinPrioThres", Setting::Limit(LimitKind::MinPrioThreshold)),
    ("Priority", Setting::Priority),
    ("Description", Setting::Description),
    ("RawUsage", Setting::RawUsage),
];

/// What only associations have.
const ASSOCIATION: &[(&str, Setting)] = &[
    ("Fairshare", Setting::Shares),
    ("Shares", Setting::Shares),
    ("MaxJobs", Setting::Limit(LimitKind::MaxJobs)),
    ("MaxJobsAccrue", Setting::Limit(LimitKind::MaxJobsAccrue)),
    ("MaxSubmitJobs", Setting::Limit(LimitKind::MaxSubmitJobs)),
    ("QOS", Setting::QosList),
    ("QosLevel", Setting::QosList),
    ("DefaultQOS", Setting::DefaultQos),
];

const ACCOUNT: &[(&str, Setting)] = &[
    ("Organization", Setting::Organization),
    ("Parent", Setting::Parent),
];

const USER: &[(&str, Setting)] = &[
    ("AdminLevel", Setting::AdminLevel),
    ("DefaultAccount", Setting::DefaultAccount),
    ("DefaultWCKey", Setting::DefaultWckey),
    ("WCKeys", Setting::Wckeys),
];

/// What only qualities of service have.
const QOS: &[(&str, Setting)] = &[
    ("Flags", Setting::Flags),
    ("GraceTime", Setting::Grace),
    ("LimitFactor", Setting::NotHere),
    ("MaxCPUsPerUser", Setting::OneResource(LimitKind::MaxTresPerUser, Resource::Cpu)),
    ("MaxNodesPerUser", Setting::OneResource(LimitKind::MaxTresPerUser, Resource::Node)),
    ("MaxJobs", Setting::Limit(LimitKind::MaxJobsPerUser)),
    ("MaxJobsPerUser", Setting::Limit(LimitKind::MaxJobsPerUser)),
    ("MaxJobsPU", Setting::Limit(LimitKind::MaxJobsPerUser)),
    ("MaxJobsPerAccount", Setting::Limit(LimitKind::MaxJobsPerAccount)),
    ("MaxJobsPA", Setting::Limit(LimitKind::MaxJobsPerAccount)),
    ("MaxJobsAccruePerUser", Setting::Limit(LimitKind::MaxJobsAccruePerUser)),
    ("MaxJobsAccruePU", Setting::Limit(LimitKind::MaxJobsAccruePerUser)),
    ("MaxJobsAccruePerAccount", Setting::Limit(LimitKind::MaxJobsAccruePerAccount)),
    ("MaxJobsAccruePA", Setting::Limit(LimitKind::MaxJobsAccruePerAccount)),
    ("MaxSubmitJobs", Setting::Limit(LimitKind::MaxSubmitJobsPerUser)),
    ("MaxSubmitJobsPerUser", Setting::Limit(LimitKind::MaxSubmitJobsPerUser)),
    ("MaxSubmitJobsPU", Setting::Limit(LimitKind::MaxSubmitJobsPerUser)),
    ("MaxSubmitJobsPerAccount", Setting::Limit(LimitKind::MaxSubmitJobsPerAccount)),
    ("MaxSubmitJobsPA", Setting::Limit(LimitKind::MaxSubmitJobsPerAccount)),
    ("MaxTRESPerUser", Setting::Limit(LimitKind::MaxTresPerUser)),
    ("MaxTRESPU", Setting::Limit(LimitKind::MaxTresPerUser)),
    ("MaxTRESPerAccount", Setting::Limit(LimitKind::MaxTresPerAccount)),
    ("MaxTRESPA", Setting::Limit(LimitKind::MaxTresPerAccount)),
    ("MaxTRESRunMinsPerUser", Setting::Limit(LimitKind::MaxTresRunMinsPerUser)),
    ("MaxTRESRunMinsPU", Setting::Limit(LimitKind::MaxTresRunMinsPerUser)),
    ("MaxTRESRunMinsPerAccount", Setting::Limit(LimitKind::MaxTresRunMinsPerAccount)),
    ("MaxTRESRunMinsPA", Setting::Limit(LimitKind::MaxTresRunMinsPerAccount)),
    ("MinTRESPerJob", Setting::Limit(LimitKind::MinTresPerJob)),
    ("Preempt", Setting::Preempt),
    ("PreemptMode", Setting::PreemptMode),
    ("PreemptExemptTime", Setting::PreemptExempt),
    ("UsageFactor", Setting::UsageFactor),
    ("UsageThreshold", Setting::NotHere),
];

/// The setting that a word means.
pub(super) fn find(target: Target, name: &str) -> Option<Setting> {
    let tables: &[&[(&'static str, Setting)]] = match target {
        Target::Account => &[LIMITS, ASSOCIATION, ACCOUNT],
        Target::User => &[LIMITS, ASSOCIATION, USER],
        Target::Qos => &[LIMITS, QOS],
    };
    let all: Vec<(&'static str, Setting)> = tables.concat();
    lookup(&all, name).map(|(_, setting)| setting)
}
