//! What all of Slurm's commands tell of a partition, in the words that they share.
//! Source: sinfo(1); scontrol(1); slurm.conf(5).

use cosy_model::{AccessLevel, QueueSpec};

/// `OverSubscribe`: whether jobs share nodes.
pub const fn oversubscribe(spec: &QueueSpec) -> &'static str {
    if spec.exclusive { "EXCLUSIVE" } else { "NO" }
}

/// `PriorityTier`: at least 1, as Slurm has none below.
pub fn priority_tier(spec: &QueueSpec) -> i32 {
    spec.priority.max(1)
}

/// `AllowGroups`: the groups that alone may use it; `None` where everybody may who is not in a
/// group that is kept out.
pub fn allowed_groups(spec: &QueueSpec) -> Option<Vec<&str>> {
    let may = |(name, level)| (level != AccessLevel::Deny).then_some(name);
    let groups = spec
        .groups
        .iter()
        .map(|(name, level)| (name.as_str(), *level));
    (spec.others == AccessLevel::Deny).then(|| groups.filter_map(may).collect())
}

/// How jobs are made to make room, in Slurm's words.
pub const fn preempt_mode(mode: Option<cosy_model::policy::PreemptMode>) -> &'static str {
    match mode {
        None | Some(cosy_model::policy::PreemptMode::Off) => "OFF",
        Some(cosy_model::policy::PreemptMode::Cancel) => "CANCEL",
        Some(cosy_model::policy::PreemptMode::Requeue) => "REQUEUE",
        Some(cosy_model::policy::PreemptMode::Suspend) => "GANG,SUSPEND",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_are_kept_out_are_not_allowed() {
        let mut spec = QueueSpec::default();
        spec.groups.insert("bad".into(), AccessLevel::Deny);
        assert_eq!(allowed_groups(&spec), None);
        spec.others = AccessLevel::Deny;
        assert_eq!(allowed_groups(&spec), Some(Vec::new()));
        spec.groups.insert("ops".into(), AccessLevel::Allow);
        assert_eq!(allowed_groups(&spec), Some(vec!["ops"]));
    }
}
