//! Accounts, users, associations and qualities of service as `slurmdb` tells them: in the words of
//! `sacctmgr` and `sshare`.

use crate::json::INFINITE;
use crate::tree::{Tree, billionths, number, texts, tres, tres_of};
use cosy_model::policy::{
    AccountEntry, AdminLevel, AssociationInfo, AssociationUsage, LimitKind, Limits, PreemptMode,
    QosFlag, QosInfo, Shares, Tres, UserEntry,
};
use cosy_slurm::json_yaml::{Data, map};
use std::collections::BTreeMap;

/// The associations of an account, or of a user, in short.
fn short(row: &AssociationInfo, cluster: &str) -> Data {
    map([
        ("account", row.key.account.as_str().into()),
        ("cluster", cluster.into()),
        ("partition", row.key.queue.as_deref().unwrap_or_default().into()),
        ("user", row.key.user.as_deref().unwrap_or_default().into()),
        ("id", number(row.id)),
    ])
}

fn shorts(rows: &[&AssociationInfo], cluster: &str) -> Data {
    Data::List(rows.iter().map(|row| short(row, cluster)).collect())
}

/// An account with its associations.
pub fn of_account(account: &AccountEntry, own: &[&AssociationInfo], cluster: &str) -> Data {
    let record = &account.record;
    let coordinator =
        |name: &String| map([("name", name.as_str().into()), ("direct", true.into())]);
    map([
        ("associations", shorts(own, cluster)),
        ("coordinators", Data::List(record.coordinators.iter().map(coordinator).collect())),
        ("description", record.description.as_str().into()),
        ("name", record.name.as_str().into()),
        ("organization", record.organization.as_str().into()),
        ("flags", Data::Null),
    ])
}

/// A user with the own associations.
pub fn of_user(user: &UserEntry, own: &[&AssociationInfo], cluster: &str) -> Data {
    let record = &user.record;
    let level = match user.level {
        AdminLevel::None => "None",
        AdminLevel::Operator => "Operator",
        AdminLevel::Administrator => "Administrator",
    };
    let coordinator =
        |name: &String| map([("name", name.as_str().into()), ("direct", true.into())]);
    map([
        ("administrator_level", level.into()),
        ("associations", shorts(own, cluster)),
        ("coordinators", Data::List(user.coordinates.iter().map(coordinator).collect())),
        (
            "default",
            map([
                ("account", record.default_account.as_deref().unwrap_or_default().into()),
                ("wckey", record.default_wckey.as_deref().unwrap_or_default().into()),
            ]),
        ),
        ("flags", Data::Null),
        ("name", record.name.as_str().into()),
        ("old_name", "".into()),
        ("wckeys", Data::List(wckeys(user, cluster).collect())),
    ])
}

/// The keys of a user.
pub fn wckeys(user: &UserEntry, cluster: &str) -> impl Iterator<Item = Data> {
    user.record.wckeys.iter().map(move |key| {
        map([
            ("cluster", cluster.into()),
            ("name", key.as_str().into()),
            ("user", user.record.name.as_str().into()),
        ])
    })
}

/// An association, with its place in the tree.
pub fn of_association(row: &AssociationInfo, places: &Places<'_>, cluster: &str) -> Data {
    let mut tree = Tree::default();
    let own = &row.own;
    tree.set("account", row.key.account.as_str())
        .set("cluster", cluster)
        .set("comment", own.comment.as_str())
        .at("default.qos", row.default_qos.as_deref().unwrap_or_default())
        .set("id", number(row.id))
        .set("is_default", row.is_default)
        .set("lineage", places.lineage(row))
        .at("min.priority_threshold", plain(&own.limits, LimitKind::MinPrioThreshold))
        .set("parent_account", row.parent.as_str())
        .set("partition", row.key.queue.as_deref().unwrap_or_default())
        .set("priority", own.priority.map_or(Data::Null, number))
        .set("qos", texts(&row.qos))
        .set("shares_raw", shares(own.shares))
        .set("user", row.key.user.as_deref().unwrap_or_default());
    for (path, kind) in [
        ("max.jobs.per.count", LimitKind::GrpJobs),
        ("max.jobs.per.accruing", LimitKind::GrpJobsAccrue),
        ("max.jobs.per.submitted", LimitKind::GrpSubmitJobs),
        ("max.jobs.per.wall_clock", LimitKind::MaxWall),
        ("max.jobs.active", LimitKind::MaxJobs),
        ("max.jobs.accruing", LimitKind::MaxJobsAccrue),
        ("max.jobs.total", LimitKind::MaxSubmitJobs),
        ("max.per.account.wall_clock", LimitKind::GrpWall),
    ] {
        tree.at(path, plain(&own.limits, kind));
    }
    for (path, kind) in [
        ("max.tres.total", LimitKind::GrpTres),
        ("max.tres.group.minutes", LimitKind::GrpTresMins),
        ("max.tres.group.active", LimitKind::GrpTresRunMins),
        ("max.tres.minutes.per.job", LimitKind::MaxTresMinsPerJob),
        ("max.tres.per.job", LimitKind::MaxTresPerJob),
        ("max.tres.per.node", LimitKind::MaxTresPerNode),
    ] {
        tree.at(path, by_tres(&own.limits, kind));
    }
    tree.done()
}

/// A number of shares; Slurm's greatest one stands for the account above.
fn shares(shares: Shares) -> i64 {
    match shares {
        Shares::Count(count) => count.into(),
        Shares::Parent => i64::from(i32::MAX),
    }
}

/// Which account is below which.
#[derive(Debug)]
pub struct Places<'r>(BTreeMap<&'r str, &'r str>);

impl<'r> Places<'r> {
    /// Out of all associations.
    pub fn of(rows: &'r [AssociationInfo]) -> Self {
        let accounts = rows.iter().filter(|row| row.key.user.is_none());
        Self(
            accounts
                .map(|row| (row.key.account.as_str(), row.parent.as_str()))
                .collect(),
        )
    }

    /// The way from the root: `/physics/lab/0-ann/`.
    fn lineage(&self, row: &AssociationInfo) -> String {
        let mut names = vec![row.key.account.as_str()];
        while let Some(above) = names.last().and_then(|name| self.0.get(name)) {
            if above.is_empty() || names.len() > self.0.len() {
                break;
            }
            names.push(above);
        }
        let names = names.iter().rev().filter(|name| **name != "root");
        let mut text: String = names.map(|name| format!("/{name}")).collect();
        if let Some(user) = &row.key.user {
            text.push_str(&format!("/0-{user}"));
        }
        text.push('/');
        text
    }
}

fn plain(limits: &Limits, kind: LimitKind) -> Data {
    let set = limits.of_kind(kind).next();
    set.map_or(INFINITE, |(_, value)| number(value))
}

fn by_tres(limits: &Limits, kind: LimitKind) -> Data {
    let set = limits.of_kind(kind);
    Data::List(
        set.filter_map(|(key, value)| Some(tres(key.tres.as_ref()?, value)))
            .collect(),
    )
}

/// A quality of service.
pub fn of_qos(qos: &QosInfo) -> Data {
    let record = &qos.record;
    let mode = match record.preempt_mode {
        None | Some(PreemptMode::Off) => "DISABLED",
        Some(PreemptMode::Cancel) => "CANCEL",
        Some(PreemptMode::Requeue) => "REQUEUE",
        Some(PreemptMode::Suspend) => "SUSPEND",
    };
    let mut tree = Tree::default();
    tree.set("description", record.description.as_str())
        .set("flags", texts(record.flags.iter().map(|flag| qos_flag(*flag))))
        .set("id", number(record.id))
        .at("limits.grace_time", record.grace.secs())
        .set("name", record.name.as_str())
        .at("preempt.list", texts(&record.preempt))
        .at("preempt.mode", mode)
        .at(
            "preempt.exempt_time",
            record
                .preempt_exempt
                .map_or(Data::Null, |s| s.secs().into()),
        )
        .set("priority", number(record.priority))
        .set("usage_factor", Data::Real(f64::from(record.usage_factor_ppm) / 1e6))
        .set("usage_threshold", Data::Null);
    qos_limits(&mut tree, &record.limits);
    tree.done()
}

fn qos_limits(tree: &mut Tree, limits: &Limits) {
    for (path, kind) in [
        ("limits.max.active_jobs.accruing", LimitKind::GrpJobsAccrue),
        ("limits.max.active_jobs.count", LimitKind::GrpJobs),
        ("limits.max.jobs.count", LimitKind::GrpSubmitJobs),
        ("limits.max.jobs.active_jobs.per.account", LimitKind::MaxJobsPerAccount),
        ("limits.max.jobs.active_jobs.per.user", LimitKind::MaxJobsPerUser),
        ("limits.max.jobs.per.account", LimitKind::MaxSubmitJobsPerAccount),
        ("limits.max.jobs.per.user", LimitKind::MaxSubmitJobsPerUser),
        ("limits.max.wall_clock.per.qos", LimitKind::GrpWall),
        ("limits.max.wall_clock.per.job", LimitKind::MaxWall),
        ("limits.max.accruing.per.account", LimitKind::MaxJobsAccruePerAccount),
        ("limits.max.accruing.per.user", LimitKind::MaxJobsAccruePerUser),
        ("limits.min.priority_threshold", LimitKind::MinPrioThreshold),
    ] {
        tree.at(path, plain(limits, kind));
    }
    for (path, kind) in [
        ("limits.max.tres.total", LimitKind::GrpTres),
        ("limits.max.tres.minutes.total", LimitKind::GrpTresMins),
        ("limits.max.tres.minutes.per.qos", LimitKind::GrpTresRunMins),
        ("limits.max.tres.minutes.per.job", LimitKind::MaxTresMinsPerJob),
        ("limits.max.tres.minutes.per.account", LimitKind::MaxTresRunMinsPerAccount),
        ("limits.max.tres.minutes.per.user", LimitKind::MaxTresRunMinsPerUser),
        ("limits.max.tres.per.account", LimitKind::MaxTresPerAccount),
        ("limits.max.tres.per.job", LimitKind::MaxTresPerJob),
        ("limits.max.tres.per.node", LimitKind::MaxTresPerNode),
        ("limits.max.tres.per.user", LimitKind::MaxTresPerUser),
        ("limits.min.tres.per.job", LimitKind::MinTresPerJob),
    ] {
        tree.at(path, by_tres(limits, kind));
    }
}

const fn qos_flag(flag: QosFlag) -> &'static str {
    match flag {
        QosFlag::DenyOnLimit => "DENY_LIMIT",
        QosFlag::EnforceUsageThreshold => "ENFORCE_USAGE_THRESHOLD",
        QosFlag::NoDecay => "NO_DECAY",
        QosFlag::NoReserve => "NO_RESERVE",
        QosFlag::OverPartQos => "OVERRIDE_PARTITION_QOS",
        QosFlag::PartitionMaxNodes => "PARTITION_MAXIMUM_NODE",
        QosFlag::PartitionMinNodes => "PARTITION_MINIMUM_NODE",
        QosFlag::PartitionTimeLimit => "PARTITION_TIME_LIMIT",
        QosFlag::RequiresReservation => "REQUIRED_RESERVATION",
        QosFlag::Relative => "RELATIVE",
        QosFlag::UsageFactorSafe => "USAGE_FACTOR_SAFE",
    }
}

/// A row of `slurm/.../shares`, as `sshare` tells it.
pub fn of_share(row: &AssociationInfo, cluster: &str) -> Data {
    let none = AssociationUsage::default();
    let usage = row.usage.as_ref().unwrap_or(&none);
    let root = row.key.user.is_none() && row.parent.is_empty();
    let (name, parent, kind) = match &row.key.user {
        Some(user) => (user.as_str(), row.key.account.as_str(), "USER"),
        None => (row.key.account.as_str(), row.parent.as_str(), "ASSOCIATION"),
    };
    let unless_root = |value: Data| if root { Data::Null } else { value };
    let mut tree = Tree::default();
    tree.set("id", number(row.id))
        .set("cluster", cluster)
        .set("name", name)
        .set("parent", parent)
        .set("partition", row.key.queue.as_deref().unwrap_or_default())
        .set("shares_normalized", unless_root(billionths(usage.norm_shares_ppb)))
        .set("shares", unless_root(shares(row.own.shares).into()))
        .at("tres.run_seconds", uses(&usage.run_seconds))
        .at("tres.group_minutes", minutes_set(&row.own.limits))
        .at("tres.usage", uses(&usage.used_seconds))
        .set("effective_usage", billionths(usage.effective_usage_ppb))
        .set("usage_normalized", unless_root(billionths(usage.norm_usage_ppb)))
        .set("usage", number(usage.raw_usage))
        .at("fairshare.factor", usage.fair_share_ppb.map_or(Data::Null, billionths))
        .at("fairshare.level", unless_root(billionths(usage.level_fs_ppb)))
        .set("type", kind);
    tree.done()
}

fn named(name: &Tres, value: Data) -> Data {
    map([("name", name.to_string().into()), ("value", value)])
}

fn uses(amounts: &BTreeMap<Tres, u64>) -> Data {
    Data::List(
        amounts
            .iter()
            .map(|(name, n)| named(name, number(*n)))
            .collect(),
    )
}

fn minutes_set(limits: &Limits) -> Data {
    let set = limits.of_kind(LimitKind::GrpTresMins);
    Data::List(
        set.filter_map(|(key, n)| Some(named(key.tres.as_ref()?, number(n))))
            .collect(),
    )
}

/// All trackable resources: those that there are always, and those of the policy.
pub fn all_tres(more: impl Iterator<Item = Tres>) -> Vec<Data> {
    let fixed = crate::tree::TRES_IDS.iter();
    let mut all: Vec<Data> = fixed
        .map(|(kind, name, _)| tres_of(kind, name, 0))
        .collect();
    let mut id = 1001;
    for one in more.filter(|one| *one != Tres::gpus()) {
        id += 1;
        let mut tree = Tree::of(tres(&one, 0));
        tree.set("id", id);
        all.push(tree.done());
    }
    all
}
