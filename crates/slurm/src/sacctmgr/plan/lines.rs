//! Lines that several commands print.

use super::super::settings::Target;
use super::super::view::PolicyView;
use cosy_model::policy::AssociationKey;

/// `  C = base       A = quarks               U = ann      `
pub(super) fn association_line(view: &PolicyView, key: &AssociationKey, parent: &str) -> String {
    let cluster = &view.cluster;
    match (&key.user, &key.queue) {
        (None, _) if parent.is_empty() => format!("  C = {cluster:<10} A = {}", key.account),
        (None, _) => format!("  C = {cluster:<10} A = {} of {parent}", key.account),
        (Some(user), None) => {
            format!("  C = {cluster:<10} A = {:<20} U = {user:<9}", key.account)
        }
        (Some(user), Some(queue)) => {
            format!("  C = {cluster:<10} A = {:<20} U = {user:<9} P = {queue}", key.account)
        }
    }
}

/// `  U = ann       A = atoms      C = base      `
pub(super) fn added_line(view: &PolicyView, key: &AssociationKey) -> String {
    let user = key.user.as_deref().unwrap_or_default();
    let mut text = format!("  U = {user:<9} A = {:<10} C = {:<10}", key.account, view.cluster);
    if let Some(queue) = &key.queue {
        text.push_str(&format!(" P = {queue:<10}"));
    }
    text
}

/// `  C = base       A = atoms      U = cyd      `
pub(super) fn added_row(view: &PolicyView, key: &AssociationKey) -> String {
    let user = key.user.as_deref().unwrap_or_default();
    let mut text = format!("  C = {:<10} A = {:<10} U = {user:<9}", view.cluster, key.account);
    if let Some(queue) = &key.queue {
        text.push_str(&format!(" P = {queue}"));
    }
    text
}

/// Labels of a quality of service in the order of `add`, which is by letter but for a few.
const QOS_LABELS: &[&str] = &[
    "Flags",
    "GraceTime",
    "GrpJobs",
    "GrpJobsAccrue",
    "GrpSubmitJobs",
    "GrpTRES",
    "GrpTRESMins",
    "GrpTRESRunMins",
    "GrpWall",
    "MaxJobsAccruePerAccount",
    "MaxJobsAccruePerUser",
    "MaxJobsPerAccount",
    "MaxJobsPerUser",
    "MaxSubmitJobsPerAccount",
    "MaxSubmitJobsPerUser",
    "MaxTRESPerAccount",
    "MaxTRESPerJob",
    "MaxTRESPerNode",
    "MaxTRESPerUser",
    "MinPrioThresh",
    "MinTRESPerJob",
    "MaxTRESMins",
    "MaxTRESRUNMinsPerAccount",
    "MaxTRESRUNMinsPerUser",
    "MaxWall",
    "Preempt",
    "PreemptMode",
    "PreemptExemptTime",
    "Priority",
    "UsageFactor",
];

/// Lines of settings in Slurm's order.
pub(super) fn sorted(mut lines: Vec<String>, target: Target) -> Vec<String> {
    let label = |line: &String| {
        let label = line.split('=').next().unwrap_or_default();
        label.trim().to_owned()
    };
    match target {
        Target::Qos => lines.sort_by_key(|line| {
            let label = label(line);
            QOS_LABELS.iter().position(|l| *l == label)
        }),
        Target::Account | Target::User => {
            // By letter, but minutes after nodes, and the default after the list.
            lines.sort_by_key(|line| {
                let label = label(line);
                (label == "DefQOS", label.replace("MaxTRESMins", "MaxTRESPerNodeMins"))
            });
        }
    }
    lines
}
