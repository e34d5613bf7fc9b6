//! The file of `sacctmgr dump`. Source: sacctmgr(1), "FLAT FILE DUMP AND LOAD"; recordings of
//! 22.05.8. Qualities of service are not part of it, as in Slurm.

use super::conditions::level_word;
use super::values;
use super::view::PolicyView;
use cosy_model::policy::{
    AccountRecord, AdminLevel, AssociationInfo, AssociationSettings, LimitKind, Measure, ROOT,
    Shares,
};

/// How to edit such a file.
const HEAD: &str = "\
# Each line is about what stands first; options follow, in any order, after ':'.
# Cluster - 'NAME':Fairshare=1                the root of all accounts
# Parent - 'root'                             accounts and users below are in this account
# Account - 'cs':Description='Computer Science':Organization='LC':Fairshare=10
# Parent - 'cs'                               an account is added before it is a parent
# User - 'ann':DefaultAccount='cs':MaxJobs=3
";

/// Limits in the order of the file, with their names there.
const LIMITS: &[(LimitKind, &str)] = &[
    (LimitKind::GrpTresMins, "GrpTRESMins"),
    (LimitKind::GrpTresRunMins, "GrpTRESRunMins"),
    (LimitKind::GrpTres, "GrpTRES"),
    (LimitKind::GrpJobs, "GrpJobs"),
    (LimitKind::GrpJobsAccrue, "GrpJobsAccrue"),
    (LimitKind::GrpSubmitJobs, "GrpSubmitJobs"),
    (LimitKind::GrpWall, "GrpWall"),
    (LimitKind::MaxTresMinsPerJob, "MaxTRESMinsPerJob"),
    (LimitKind::MaxTresPerJob, "MaxTRESPerJob"),
    (LimitKind::MaxTresPerNode, "MaxTRESPerNode"),
    (LimitKind::MaxJobs, "MaxJobs"),
    (LimitKind::MaxJobsAccrue, "MaxJobsAccrue"),
    (LimitKind::MaxSubmitJobs, "MaxSubmitJobs"),
    (LimitKind::MaxWall, "MaxWallDurationPerJob"),
    (LimitKind::MinPrioThreshold, "MinPrioThreshold"),
];

/// The whole file.
pub fn file(view: &PolicyView) -> String {
    let lines = lines(view);
    format!("{HEAD}{}\n", lines.join("\n"))
}

/// Its lines without the head, which `dump` prints too.
pub fn lines(view: &PolicyView) -> Vec<String> {
    let mut all = Vec::new();
    let root = view.account(ROOT).map(|root| &root.settings);
    let settings = root.map(settings).unwrap_or_default();
    all.push(format!("Cluster - {}{settings}", quoted(&view.cluster)));
    let mut waiting = vec![ROOT];
    // Accounts before what is in them; each is a parent once.
    while let Some(parent) = waiting.pop() {
        let users: Vec<&AssociationInfo> = view
            .associations
            .iter()
            .filter(|row| row.key.account == parent && row.key.user.is_some())
            .collect();
        let below = view
            .accounts
            .iter()
            .filter(|a| a.parent.as_deref() == Some(parent));
        let below: Vec<&AccountRecord> = below.collect();
        if !users.is_empty() || !below.is_empty() || parent == ROOT {
            all.push(format!("Parent - {}", quoted(parent)));
        }
        all.extend(users.into_iter().map(|row| user(view, row)));
        all.extend(below.iter().map(|a| account(a)));
        waiting.extend(below.iter().rev().map(|a| a.name.as_str()));
    }
    all
}

fn account(account: &AccountRecord) -> String {
    format!(
        "Account - {}:Description={}:Organization={}{}",
        quoted(&account.name),
        quoted(&account.description),
        quoted(&account.organization),
        settings(&account.settings)
    )
}

fn user(view: &PolicyView, row: &AssociationInfo) -> String {
    let name = row.key.user.as_deref().unwrap_or_default();
    let mut text = format!("User - {}", quoted(name));
    if let Some(queue) = &row.key.queue {
        text.push_str(&format!(":Partition={}", quoted(queue)));
    }
    if let Some(entry) = view.user(name) {
        if let Some(account) = &entry.record.default_account {
            text.push_str(&format!(":DefaultAccount={}", quoted(account)));
        }
        if let Some(key) = &entry.record.default_wckey {
            text.push_str(&format!(":DefaultWCKey={}", quoted(key)));
        }
        if entry.record.admin_level != AdminLevel::None {
            let level = level_word(entry.record.admin_level);
            text.push_str(&format!(":AdminLevel={}", quoted(level)));
        }
        let led = view
            .accounts
            .iter()
            .filter(|a| a.coordinators.contains(name));
        let led: Vec<&str> = led.map(|a| a.name.as_str()).collect();
        if !led.is_empty() {
            text.push_str(&format!(":Coordinator={}", quoted(&led.join(","))));
        }
        if !entry.record.wckeys.is_empty() {
            let keys: Vec<&str> = entry.record.wckeys.iter().map(String::as_str).collect();
            text.push_str(&format!(":WCKeys={}", quoted(&keys.join(","))));
        }
    }
    text.push_str(&settings(&row.own));
    text
}

fn settings(settings: &AssociationSettings) -> String {
    let mut text = String::new();
    if let Some(default) = &settings.default_qos {
        text.push_str(&format!(":DefaultQOS={}", quoted(default)));
    }
    match settings.shares {
        Shares::Count(count) => text.push_str(&format!(":Fairshare={count}")),
        Shares::Parent => text.push_str(":Fairshare=parent"),
    }
    for (kind, name) in LIMITS {
        let mut all = settings.limits.of_kind(*kind).peekable();
        let Some((_, first)) = all.peek() else {
            continue;
        };
        let value = match kind.measure() {
            Measure::Tres | Measure::LeastTres | Measure::TresMinutes | Measure::TresRunMinutes => {
                let items = all.filter_map(|(key, value)| {
                    key.tres
                        .as_ref()
                        .map(|tres| values::amount(tres, Some(value)))
                });
                items.collect::<Vec<_>>().join(",")
            }
            _ => first.to_string(),
        };
        text.push_str(&format!(":{name}={value}"));
    }
    if let Some(priority) = settings.priority {
        text.push_str(&format!(":Priority={priority}"));
    }
    if let Some(qos) = &settings.qos {
        let names: Vec<&str> = qos.iter().map(String::as_str).collect();
        text.push_str(&format!(":QOS={}", quoted(&names.join(","))));
    }
    text
}

/// In quotes; what would end a value or a line is written as a blank.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace(['\'', '"', ':', '\n', '\r'], " "))
}
