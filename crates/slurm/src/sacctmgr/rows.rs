//! The rows of `sacctmgr show`: what each column says of an account, a user, an association, a
//! quality of service.

use super::conditions::{Conditions, Subject, level_word};
use super::entity::Entity;
use super::values;
use super::view::PolicyView;
use crate::times;
use cosy_model::policy::{
    AccountRecord, AssociationInfo, LimitKey, LimitKind, Measure, QosRecord, Shares, Tres,
};
use cosy_model::{License, Span};
use std::collections::{BTreeMap, BTreeSet};

/// A row of any list, by name of column.
pub type Cells = BTreeMap<&'static str, String>;

/// Limits by column, of associations.
const ASSOCIATION: &[(&str, LimitKind)] = &[
    ("GrpJobs", LimitKind::GrpJobs),
    ("GrpJobsAccrue", LimitKind::GrpJobsAccrue),
    ("GrpSubmitJobs", LimitKind::GrpSubmitJobs),
    ("GrpTRES", LimitKind::GrpTres),
    ("GrpTRESMins", LimitKind::GrpTresMins),
    ("GrpTRESRunMins", LimitKind::GrpTresRunMins),
    ("GrpWall", LimitKind::GrpWall),
    ("MaxJobs", LimitKind::MaxJobs),
    ("MaxJobsAccrue", LimitKind::MaxJobsAccrue),
    ("MaxSubmitJobs", LimitKind::MaxSubmitJobs),
    ("MaxTRES", LimitKind::MaxTresPerJob),
    ("MaxTRESMins", LimitKind::MaxTresMinsPerJob),
    ("MaxTRESPerNode", LimitKind::MaxTresPerNode),
    ("MaxWall", LimitKind::MaxWall),
    ("MinPrioThreshold", LimitKind::MinPrioThreshold),
];

/// Limits by column, of qualities of service.
const QOS: &[(&str, LimitKind)] = &[
    ("GrpJobs", LimitKind::GrpJobs),
    ("GrpJobsAccrue", LimitKind::GrpJobsAccrue),
    ("GrpSubmitJobs", LimitKind::GrpSubmitJobs),
    ("GrpTRES", LimitKind::GrpTres),
    ("GrpTRESMins", LimitKind::GrpTresMins),
    ("GrpTRESRunMins", LimitKind::GrpTresRunMins),
    ("GrpWall", LimitKind::GrpWall),
    ("MaxJobsAccruePA", LimitKind::MaxJobsAccruePerAccount),
    ("MaxJobsAccruePU", LimitKind::MaxJobsAccruePerUser),
    ("MaxJobsPA", LimitKind::MaxJobsPerAccount),
    ("MaxJobsPU", LimitKind::MaxJobsPerUser),
    ("MaxSubmitJobsPA", LimitKind::MaxSubmitJobsPerAccount),
    ("MaxSubmitJobsPU", LimitKind::MaxSubmitJobsPerUser),
    ("MaxTRES", LimitKind::MaxTresPerJob),
    ("MaxTRESMins", LimitKind::MaxTresMinsPerJob),
    ("MaxTRESPA", LimitKind::MaxTresPerAccount),
    ("MaxTRESPU", LimitKind::MaxTresPerUser),
    ("MaxTRESPerNode", LimitKind::MaxTresPerNode),
    ("MaxTRESRunMinsPA", LimitKind::MaxTresRunMinsPerAccount),
    ("MaxTRESRunMinsPU", LimitKind::MaxTresRunMinsPerUser),
    ("MaxWall", LimitKind::MaxWall),
    ("MinPrioThreshold", LimitKind::MinPrioThreshold),
    ("MinTRES", LimitKind::MinTresPerJob),
];

/// Columns of one resource, from before there were lists.
const OF_ONE: &[(&str, LimitKind, Tres)] = &[
    ("GrpCPUs", LimitKind::GrpTres, Tres::Cpu),
    ("GrpMemory", LimitKind::GrpTres, Tres::Memory),
    ("GrpNodes", LimitKind::GrpTres, Tres::Node),
    ("GrpCPUMins", LimitKind::GrpTresMins, Tres::Cpu),
    ("GrpCPURunMins", LimitKind::GrpTresRunMins, Tres::Cpu),
    ("MaxCPUsPerJob", LimitKind::MaxTresPerJob, Tres::Cpu),
    ("MaxNodesPerJob", LimitKind::MaxTresPerJob, Tres::Node),
    ("MaxCPUMinsPerJob", LimitKind::MaxTresMinsPerJob, Tres::Cpu),
    ("MaxCPUsPerUser", LimitKind::MaxTresPerUser, Tres::Cpu),
    ("MaxNodesPerUser", LimitKind::MaxTresPerUser, Tres::Node),
];

fn limits(row: &mut Cells, columns: &[(&'static str, LimitKind)], all: &[(&LimitKey, u64)]) {
    for (column, kind) in columns {
        let of_kind: Vec<&(&LimitKey, u64)> = all.iter().filter(|(k, _)| k.kind == *kind).collect();
        let Some((_, first)) = of_kind.first() else {
            continue;
        };
        let text = match kind.measure() {
            measure if measure.by_tres() => {
                let items = of_kind.iter().filter_map(|(key, value)| {
                    key.tres
                        .as_ref()
                        .map(|tres| values::amount(tres, Some(*value)))
                });
                items.collect::<Vec<_>>().join(",")
            }
            Measure::Wall => minutes(*first),
            _ => first.to_string(),
        };
        row.insert(column, text);
    }
    for (column, kind, tres) in OF_ONE {
        let found = all
            .iter()
            .find(|(k, _)| k.kind == *kind && k.tres.as_ref() == Some(tres));
        if let Some((_, value)) = found {
            row.insert(column, value.to_string());
        }
    }
}

/// Wall minutes as `01:30:00`.
fn minutes(minutes: u64) -> String {
    let minutes = i64::try_from(minutes).unwrap_or(i64::MAX / 60_000);
    times::duration(Span::from_minutes(minutes))
}

/// An association: of an account its own limits, of a user those too that the accounts above set.
pub fn association(view: &PolicyView, info: &AssociationInfo) -> Cells {
    let mut row = Cells::new();
    let shares = match info.own.shares {
        Shares::Count(count) => count.to_string(),
        Shares::Parent => "parent".to_owned(),
    };
    let user = info.key.user.clone().unwrap_or_default();
    row.insert("Cluster", view.cluster.clone());
    row.insert("Account", info.key.account.clone());
    row.insert("User", user);
    row.insert("Partition", info.key.queue.clone().unwrap_or_default());
    row.insert("Fairshare", shares);
    row.insert("ID", info.id.to_string());
    row.insert("ParentID", info.parent_id.to_string());
    row.insert("ParentName", info.parent.clone());
    row.insert("Priority", priority(view, info).map_or_else(String::new, |p| p.to_string()));
    row.insert("QOS", info.qos.join(","));
    row.insert("DefaultQOS", info.default_qos.clone().unwrap_or_default());
    let own: Vec<(&LimitKey, u64)> = info.own.limits.iter().collect();
    let all: Vec<(&LimitKey, u64)> = match info.key.user {
        Some(_) => info
            .effective
            .iter()
            .map(|(key, value, _)| (key, *value))
            .collect(),
        None => own,
    };
    limits(&mut row, ASSOCIATION, &all);
    row
}

/// The priority that an association has: its own, or the nearest of an account above.
fn priority(view: &PolicyView, info: &AssociationInfo) -> Option<u32> {
    if info.own.priority.is_some() {
        return info.own.priority;
    }
    // Most sites set none: nothing is walked up then, of thousands of rows.
    let set = |account: &AccountRecord| account.settings.priority.is_some();
    if !view.accounts.iter().any(set) {
        return None;
    }
    let mut account = Some(info.key.account.as_str());
    for _ in 0..=view.accounts.len() {
        let record = view.account(account?)?;
        if record.settings.priority.is_some() {
            return record.settings.priority;
        }
        account = record.parent.as_deref();
    }
    None
}

/// A quality of service.
pub fn qos(record: &QosRecord) -> Cells {
    let mut row = Cells::new();
    let flags: Vec<&str> = record.flags.iter().map(|f| f.word()).collect();
    let preempt: Vec<&str> = record.preempt.iter().map(String::as_str).collect();
    row.insert("Name", record.name.clone());
    row.insert("Description", record.description.clone());
    row.insert("ID", record.id.to_string());
    row.insert("Priority", record.priority.to_string());
    row.insert("GraceTime", times::duration(record.grace));
    row.insert("Preempt", preempt.join(","));
    let mode = record.preempt_words();
    row.insert("PreemptMode", mode.unwrap_or_else(|| "cluster".to_owned()));
    row.insert("Flags", flags.join(","));
    row.insert("UsageFactor", values::factor(record.usage_factor_ppm));
    if let Some(exempt) = record.preempt_exempt {
        row.insert("PreemptExemptTime", times::duration(exempt));
    }
    let all: Vec<(&LimitKey, u64)> = record.limits.iter().collect();
    limits(&mut row, QOS, &all);
    row
}

/// The rows of a list; lists of what is not here are empty.
pub fn rows(entity: Entity, view: &PolicyView, conditions: &Conditions) -> Vec<Cells> {
    match entity {
        Entity::Account => accounts(view, conditions),
        Entity::User => users(view, conditions),
        Entity::Association => view
            .associations
            .iter()
            .filter(|info| conditions.association(view, info))
            .map(|info| association(view, info))
            .collect(),
        Entity::Qos => {
            let named = |q: &&QosRecord| {
                conditions.passes(Subject::Name, &q.name)
                    && conditions.passes(Subject::Id, &q.id.to_string())
            };
            view.qos.iter().filter(named).map(qos).collect()
        }
        Entity::Cluster => {
            let shown = conditions.cluster(view) && conditions.passes(Subject::Name, &view.cluster);
            let root = view.own(cosy_model::policy::ROOT).filter(|_| shown);
            root.map(|root| association(view, root))
                .into_iter()
                .collect()
        }
        Entity::Tres => tres(view),
        Entity::Wckey => wckeys(view, conditions),
        Entity::Problem => problems(view),
        _ => Vec::new(),
    }
}

fn accounts(view: &PolicyView, conditions: &Conditions) -> Vec<Cells> {
    let mut all = Vec::new();
    let names = by_name(view);
    let mut chosen: Vec<_> = view
        .accounts
        .iter()
        .filter(|a| conditions.account(view, &a.name))
        .collect();
    chosen.sort_by(|a, b| a.name.cmp(&b.name));
    for account in chosen {
        let mut row = Cells::new();
        row.insert("Account", account.name.clone());
        row.insert("Name", account.name.clone());
        row.insert("Description", account.description.clone());
        row.insert("Organization", account.organization.clone());
        row.insert("Coordinators", coordinators(&names, &account.name).join(","));
        if !conditions.associations {
            all.push(row);
            continue;
        }
        for info in view
            .associations
            .iter()
            .filter(|i| i.key.account == account.name)
        {
            let mut whole = association(view, info);
            whole.extend(row.clone());
            all.push(whole);
        }
    }
    all
}

/// Accounts by name, for walks upwards in trees of many thousand.
fn by_name(view: &PolicyView) -> BTreeMap<&str, &AccountRecord> {
    let all = view.accounts.iter();
    all.map(|account| (account.name.as_str(), account))
        .collect()
}

/// An account and all above it.
fn upwards<'a>(
    by_name: &BTreeMap<&'a str, &'a AccountRecord>,
    account: &str,
) -> Vec<&'a AccountRecord> {
    let mut all = Vec::new();
    let mut at = by_name.get(account).copied();
    while let Some(account) = at.filter(|_| all.len() <= by_name.len()) {
        all.push(account);
        let above = account.parent.as_deref();
        at = above.and_then(|above| by_name.get(above).copied());
    }
    all
}

/// Users who may change what is below an account, named at it or above it.
fn coordinators(by_name: &BTreeMap<&str, &AccountRecord>, account: &str) -> Vec<String> {
    let above = upwards(by_name, account).into_iter();
    let mut all: Vec<String> = above.flat_map(|a| a.coordinators.iter().cloned()).collect();
    all.sort();
    all.dedup();
    all
}

fn users(view: &PolicyView, conditions: &Conditions) -> Vec<Cells> {
    let mut all = Vec::new();
    for user in view
        .users
        .iter()
        .filter(|u| conditions.user(view, &u.record.name))
    {
        let name = &user.record.name;
        let mut row = Cells::new();
        row.insert("User", name.clone());
        row.insert("Name", name.clone());
        row.insert("DefaultAccount", user.record.default_account.clone().unwrap_or_default());
        row.insert("DefaultWCKey", user.record.default_wckey.clone().unwrap_or_default());
        row.insert(
            "WCKeys",
            user.record
                .wckeys
                .iter()
                .cloned()
                .collect::<Vec<_>>()
                .join(","),
        );
        row.insert("AdminLevel", level_word(user.level).to_owned());
        row.insert("Coordinators", user.coordinates.join(","));
        let narrowed = !conditions.values(Subject::Account).is_empty();
        let mut own = view
            .of_user(name)
            .filter(|info| conditions.association(view, info));
        if !conditions.associations {
            if !narrowed || own.next().is_some() {
                all.push(row);
            }
            continue;
        }
        for info in own {
            let mut whole = association(view, info);
            whole.extend(row.clone());
            all.push(whole);
        }
    }
    all
}

/// Resources that are always counted, and those that limits name, with numbers: the fixed ones as
/// in Slurm, the others from 1001 on.
fn tres(view: &PolicyView) -> Vec<Cells> {
    let fixed = [
        (1, "cpu"),
        (2, "mem"),
        (3, "energy"),
        (4, "node"),
        (5, "billing"),
    ];
    let row = |kind: &str, name: &str, id: usize| {
        Cells::from([
            ("Type", kind.to_owned()),
            ("Name", name.to_owned()),
            ("ID", id.to_string()),
        ])
    };
    let mut named: BTreeSet<Tres> = BTreeSet::new();
    let of_qos = view.qos.iter().flat_map(|q| q.limits.iter());
    let of_associations = view.associations.iter().flat_map(|a| a.own.limits.iter());
    named.extend(
        of_qos
            .chain(of_associations)
            .filter_map(|(key, _)| key.tres.clone()),
    );
    let mut all: Vec<Cells> = fixed.iter().map(|(id, kind)| row(kind, "", *id)).collect();
    let others = named.iter().map(ToString::to_string);
    let others: Vec<String> = others.filter(|t| t.contains('/')).collect();
    for (at, tres) in others.iter().enumerate() {
        let (kind, name) = tres.split_once('/').unwrap_or((tres, ""));
        all.push(row(kind, name, 1001 + at));
    }
    all
}

/// Licences of the cluster, as resources that it has to itself.
pub fn resources(cluster: &str, licenses: &[License], conditions: &Conditions) -> Vec<Cells> {
    let chosen = licenses
        .iter()
        .filter(|l| conditions.passes(Subject::Name, &l.name));
    let row = |license: &License| {
        Cells::from([
            ("Name", license.name.clone()),
            ("Server", cluster.to_owned()),
            ("Type", "License".to_owned()),
            ("Count", license.total.to_string()),
            ("Allocated", "100".to_owned()),
            ("ServerType", String::new()),
            ("Description", license.name.clone()),
            ("Cluster", cluster.to_owned()),
        ])
    };
    chosen.map(row).collect()
}

fn wckeys(view: &PolicyView, conditions: &Conditions) -> Vec<Cells> {
    let mut all = Vec::new();
    for user in &view.users {
        for key in &user.record.wckeys {
            let name = &user.record.name;
            if conditions.passes(Subject::Name, key) && conditions.passes(Subject::User, name) {
                all.push(Cells::from([
                    ("WCKey", key.clone()),
                    ("Cluster", view.cluster.clone()),
                    ("User", name.clone()),
                ]));
            }
        }
    }
    all
}

fn problems(view: &PolicyView) -> Vec<Cells> {
    let names = by_name(view);
    let mut used: BTreeSet<&str> = BTreeSet::new();
    for row in view
        .associations
        .iter()
        .filter(|row| row.key.user.is_some())
    {
        for account in upwards(&names, &row.key.account) {
            if !used.insert(&account.name) {
                break;
            }
        }
    }
    let bare = view
        .accounts
        .iter()
        .filter(|a| a.parent.is_some() && !used.contains(a.name.as_str()));
    bare.map(|account| {
        Cells::from([
            ("Cluster", view.cluster.clone()),
            ("Account", account.name.clone()),
            ("Problem", "Account has no users".to_owned()),
        ])
    })
    .collect()
}

/// The accounts of associations under those above them, as `tree` has them: each row's account
/// with a blank for each level.
pub fn indent(view: &PolicyView, rows: &mut [Cells]) {
    let names = by_name(view);
    for row in rows {
        let account = row.get("Account").cloned().unwrap_or_default();
        let is_user = row.get("User").is_some_and(|u| !u.is_empty());
        let above = upwards(&names, &account).len();
        let depth = above.saturating_sub(1) + usize::from(is_user);
        row.insert("Account", format!("{}{account}", " ".repeat(depth)));
    }
}
