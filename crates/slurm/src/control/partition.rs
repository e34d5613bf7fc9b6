//! `scontrol create PartitionName=...` and `update PartitionName=...`: what becomes of a queue.
//!
//! A parameter that queues do not have may be given with the value that changes nothing; with
//! any other it is refused. Source: scontrol(1), "PARTITIONS - SPECIFICATIONS FOR CREATE,
//! UPDATE, AND DELETE COMMANDS", captures of 22.05.

use super::job::UpdateError;
use super::pairs::Pair;
use crate::submit::times::limit;
use cosy_model::{AccessLevel, MiB, QueueSpec, QueueState, Span};

/// Parameters that queues have.
const NAMES: &[&str] = &[
    "PartitionName",
    "Name",
    "Nodes",
    "State",
    "Default",
    "DefaultTime",
    "MaxTime",
    "MaxNodes",
    "MinNodes",
    "Priority",
    "PriorityTier",
    "AllowGroups",
    "AllowAccounts",
    "DenyAccounts",
    "AllowQos",
    "DenyQos",
    "QoS",
    "OverSubscribe",
    "Shared",
    "DefMemPerCPU",
    "MaxMemPerNode",
];

/// Parameters that queues do not have, and the values that say so.
const NEUTRAL: &[(&str, &[&str])] = &[
    ("AllocNodes", &["", "ALL"]),
    ("Alternate", &["", "NONE"]),
    ("CpuBind", &["", "NONE", "OFF"]),
    ("DefMemPerNode", &["", "0", "UNLIMITED"]),
    ("DisableRootJobs", &["", "NO"]),
    ("ExclusiveUser", &["", "NO"]),
    ("GraceTime", &["", "0"]),
    ("Hidden", &["", "NO"]),
    ("JobDefaults", &[""]),
    ("LLN", &["", "NO"]),
    ("MaxCPUsPerNode", &["", "0", "UNLIMITED"]),
    ("MaxMemPerCPU", &["", "0", "UNLIMITED"]),
    ("OverTimeLimit", &["", "0", "NONE"]),
    ("PreemptMode", &["", "OFF"]),
    ("PriorityJobFactor", &["", "1"]),
    ("ReqResv", &["", "NO"]),
    ("RootOnly", &["", "NO"]),
    ("TRESBillingWeights", &[""]),
];

/// What is asked for: a change of each queue that it is laid over.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartitionUpdate {
    /// Name as given.
    pub name: String,
    /// Whether it says anything but the name.
    pub changes: bool,
    /// Nodes as given.
    pub nodes: Option<String>,
    /// Whether it becomes the default.
    pub default: Option<bool>,
    state: Option<QueueState>,
    default_time: Option<Option<Span>>,
    max_time: Option<Option<Span>>,
    max_nodes: Option<Option<u32>>,
    priority: Option<i32>,
    groups: Option<Vec<String>>,
    allow_accounts: Option<Option<Vec<String>>>,
    deny_accounts: Option<Vec<String>>,
    allow_qos: Option<Option<Vec<String>>>,
    deny_qos: Option<Vec<String>>,
    qos: Option<Option<String>>,
    exclusive: Option<bool>,
    memory_per_core: Option<Option<MiB>>,
    max_memory: Option<Option<MiB>>,
}

impl PartitionUpdate {
    /// Changes a queue; nodes and default are the caller's business.
    pub fn lay_over(&self, spec: &mut QueueSpec) {
        fn set<T: Clone>(to: &mut T, new: Option<&T>) {
            if let Some(new) = new {
                to.clone_from(new);
            }
        }
        set(&mut spec.state, self.state.as_ref());
        set(&mut spec.default_time, self.default_time.as_ref());
        set(&mut spec.max_time, self.max_time.as_ref());
        set(&mut spec.max_nodes, self.max_nodes.as_ref());
        set(&mut spec.priority, self.priority.as_ref());
        set(&mut spec.exclusive, self.exclusive.as_ref());
        set(&mut spec.default_memory_per_core, self.memory_per_core.as_ref());
        set(&mut spec.max_memory, self.max_memory.as_ref());
        let admits = &mut spec.admits;
        set(&mut admits.allow_accounts, self.allow_accounts.as_ref());
        set(&mut admits.deny_accounts, self.deny_accounts.as_ref());
        set(&mut admits.allow_qos, self.allow_qos.as_ref());
        set(&mut admits.deny_qos, self.deny_qos.as_ref());
        set(&mut admits.qos, self.qos.as_ref());
        if let Some(groups) = &self.groups {
            spec.others = match groups.is_empty() {
                true => AccessLevel::Allow,
                false => AccessLevel::Deny,
            };
            let allowed = groups.iter().map(|g| (g.clone(), AccessLevel::Allow));
            spec.groups = allowed.collect();
        }
    }

    /// Whether the state is all that changes.
    pub fn only_state(&self) -> Option<QueueState> {
        let rest = Self {
            state: None,
            ..self.clone()
        };
        let plain = Self {
            name: self.name.clone(),
            changes: self.changes,
            ..Self::default()
        };
        self.state.filter(|_| rest == plain)
    }
}

/// Reads the words of an update or a creation of a partition.
///
/// # Errors
/// The first word that makes no sense, or none here.
pub fn read(words: &[String]) -> Result<PartitionUpdate, UpdateError> {
    let mut update = PartitionUpdate::default();
    for word in words {
        let pair = Pair::of(word);
        match pair.key(NAMES) {
            Some("PartitionName" | "Name") => pair.text().clone_into(&mut update.name),
            Some(key) => {
                set(&mut update, key, &pair)?;
                update.changes = true;
            }
            None if changes_nothing(&pair) => update.changes = true,
            None => return Err(UpdateError::unsupported(word)),
        }
    }
    Ok(update)
}

fn changes_nothing(pair: &Pair<'_>) -> bool {
    let names: Vec<&str> = NEUTRAL.iter().map(|(name, _)| *name).collect();
    let key = pair.key(&names);
    let found = NEUTRAL.iter().find(|(name, _)| Some(*name) == key);
    found.is_some_and(|(_, values)| values.iter().any(|v| v.eq_ignore_ascii_case(pair.text())))
}

fn set(update: &mut PartitionUpdate, key: &str, pair: &Pair<'_>) -> Result<(), UpdateError> {
    let text = pair.text();
    let bad = || invalid(pair);
    match key {
        "Nodes" => update.nodes = Some(text.to_owned()),
        "State" => update.state = Some(state(text)?),
        "Default" => update.default = Some(yes(pair)?),
        "DefaultTime" => update.default_time = Some(time(pair)?),
        "MaxTime" => update.max_time = Some(time(pair)?),
        "MaxNodes" => update.max_nodes = Some(number(pair)?),
        "MinNodes" if matches!(text, "0" | "1") => {}
        "MinNodes" => return Err(UpdateError::unsupported(pair.word)),
        "AllowGroups" => update.groups = Some(groups(text)),
        "AllowAccounts" => update.allow_accounts = Some(allowed(text)),
        "DenyAccounts" => update.deny_accounts = Some(denied(text)),
        "AllowQos" => update.allow_qos = Some(allowed(text)),
        "DenyQos" => update.deny_qos = Some(denied(text)),
        "QoS" => update.qos = Some(Some(text.to_owned()).filter(|name| is_named(name))),
        "Priority" | "PriorityTier" => {
            let tier: u16 = text.parse().map_err(|_| bad())?;
            update.priority = Some(tier.into());
        }
        "OverSubscribe" | "Shared" => update.exclusive = Some(exclusive(pair)?),
        "DefMemPerCPU" => update.memory_per_core = Some(memory(pair)?),
        _ => update.max_memory = Some(memory(pair)?),
    }
    Ok(())
}

/// `scontrol: error: Invalid input MaxTime=foo`.
fn invalid(pair: &Pair<'_>) -> UpdateError {
    let word: String = pair.word.chars().take(200).collect();
    UpdateError(vec![format!("scontrol: error: Invalid input {word}")])
}

fn yes(pair: &Pair<'_>) -> Result<bool, UpdateError> {
    match pair.text().to_ascii_uppercase().as_str() {
        "YES" => Ok(true),
        "NO" => Ok(false),
        _ => Err(invalid(pair)),
    }
}

fn is_endless(text: &str) -> bool {
    ["NONE", "INFINITE", "UNLIMITED"]
        .iter()
        .any(|w| w.eq_ignore_ascii_case(text))
}

fn time(pair: &Pair<'_>) -> Result<Option<Span>, UpdateError> {
    if is_endless(pair.text()) {
        return Ok(None);
    }
    let length = limit(pair.text()).ok_or_else(|| invalid(pair))?;
    Ok(Some(length).filter(|l| *l != Span::UNLIMITED))
}

fn number(pair: &Pair<'_>) -> Result<Option<u32>, UpdateError> {
    if is_endless(pair.text()) {
        return Ok(None);
    }
    let number = pair.text().parse().map_err(|_| invalid(pair))?;
    Ok(Some(number))
}

/// Mebibytes; 0 is no limit.
fn memory(pair: &Pair<'_>) -> Result<Option<MiB>, UpdateError> {
    if is_endless(pair.text()) {
        return Ok(None);
    }
    let size: u64 = pair.text().parse().map_err(|_| invalid(pair))?;
    Ok(Some(MiB(size)).filter(|_| size > 0))
}

/// Names; none: everybody.
fn groups(text: &str) -> Vec<String> {
    if text.eq_ignore_ascii_case("ALL") {
        return Vec::new();
    }
    let names = text.split(',').filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// Names that alone may; none: everybody.
fn allowed(text: &str) -> Option<Vec<String>> {
    Some(groups(text)).filter(|names| !names.is_empty())
}

/// Names of those who are shut out; `NONE` shuts out nobody.
fn denied(text: &str) -> Vec<String> {
    match text.eq_ignore_ascii_case("NONE") {
        true => Vec::new(),
        false => groups(text),
    }
}

fn is_named(text: &str) -> bool {
    !text.is_empty() && !text.eq_ignore_ascii_case("N/A")
}

/// Jobs never share cores here, so only whether they get whole nodes counts.
fn exclusive(pair: &Pair<'_>) -> Result<bool, UpdateError> {
    let upper = pair.text().to_ascii_uppercase();
    match upper.split(':').next().unwrap_or_default() {
        "EXCLUSIVE" => Ok(true),
        "NO" => Ok(false),
        "YES" | "FORCE" => Err(UpdateError::unsupported(pair.word)),
        _ => Err(invalid(pair)),
    }
}

fn state(text: &str) -> Result<QueueState, UpdateError> {
    match text.to_ascii_uppercase().as_str() {
        "UP" => Ok(QueueState::Open),
        "DOWN" => Ok(QueueState::Stopped),
        "DRAIN" => Ok(QueueState::Drained),
        "INACTIVE" => Ok(QueueState::Closed),
        _ => Err(UpdateError(vec![
            format!("Invalid input: State={}", text.chars().take(200).collect::<String>()),
            "Acceptable State values are UP, DOWN, DRAIN and INACTIVE".to_owned(),
        ])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(line: &str) -> Result<PartitionUpdate, String> {
        read(&super::super::words_of(line)).map_err(|m| m.0.join("|"))
    }

    #[test]
    fn changes() {
        let check = |line: &str, want: QueueSpec| {
            let mut spec = QueueSpec::default();
            one(line).unwrap().lay_over(&mut spec);
            assert_eq!(spec, want, "{line}");
        };
        let none = QueueSpec::default;
        check("part=a Hidden=no QoS= GraceTime=0 MinNodes=1", none());
        check(
            "part=a MaxTime=1 DefaultTime=30 maxnodes=2 Priority=5",
            QueueSpec {
                max_time: Some(Span::from_minutes(1)),
                default_time: Some(Span::from_minutes(30)),
                max_nodes: Some(2),
                priority: 5,
                ..none()
            },
        );
        check("part=a MaxTime=infinite MaxNodes=UNLIMITED", none());
        check(
            "part=a AllowGroups=phys,chem OverSubscribe=EXCLUSIVE State=drain",
            QueueSpec {
                groups: ["phys", "chem"]
                    .map(|g| (g.to_owned(), AccessLevel::Allow))
                    .into(),
                others: AccessLevel::Deny,
                exclusive: true,
                state: QueueState::Drained,
                ..none()
            },
        );
        check("part=a AllowGroups=x AllowGroups=ALL", none());
        check(
            "part=a DefMemPerCPU=100 MaxMemPerNode=0",
            QueueSpec {
                default_memory_per_core: Some(MiB(100)),
                ..none()
            },
        );
    }

    #[test]
    fn what_else_it_says() {
        let update = one("PartitionName=a Nodes=n[1-2] Default=YES").unwrap();
        let told = (update.name.as_str(), update.nodes.as_deref(), update.default);
        assert_eq!(told, ("a", Some("n[1-2]"), Some(true)));
        assert!(!one("PartitionName=a").unwrap().changes);
        let state = |line: &str| one(line).unwrap().only_state();
        assert_eq!(state("part=a state=DOWN"), Some(QueueState::Stopped));
        assert_eq!(state("part=a state=UP MaxTime=5"), None);
        assert_eq!(state("part=a MaxTime=5"), None);
    }

    #[test]
    fn mistakes() {
        let check = |line: &str, want: &str| assert_eq!(one(line), Err(want.to_owned()));
        check("part=a MaxTime=foo", "scontrol: error: Invalid input MaxTime=foo");
        check(
            "part=a Hidden=YES",
            "Update of this parameter is not supported: Hidden=YES|Request aborted",
        );
        check("part=a Foo=1", "Update of this parameter is not supported: Foo=1|Request aborted");
        check(
            "part=a State=x",
            "Invalid input: State=x|Acceptable State values are UP, DOWN, DRAIN and INACTIVE",
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_word(key in 0..NAMES.len(), value in "\\PC{0,12}") {
            let _ = read(&[format!("{}={value}", NAMES[key])]);
        }
    }
}
