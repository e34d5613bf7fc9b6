//! What is shown of nodes.

use crate::column::{Column, Fields};
use crate::phrase::count;
use crate::value::{FieldValue, Tone};
use cosy_model::api::NodeInfo;
use cosy_model::device::{gpu_type, is_of_gpus};
use cosy_model::{Amounts, MiB};
use std::collections::BTreeMap;

macro_rules! conditions {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)+) => {
        /// What a node does, in the word by which lists tell it ([`NodeInfo::state`]).
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum NodeCondition {
            $($(#[$doc])* $name,)+
        }

        impl NodeCondition {
            /// Each of them once.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// In one word.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            /// That of a node; `None` when a controller of another release says it in a word
            /// that is not known here.
            pub fn of(node: &NodeInfo) -> Option<Self> {
                match node.state.as_str() {
                    $($word => Some(Self::$name),)+
                    _ => None,
                }
            }
        }
    };
}

conditions! {
    /// Nobody holds anything of it.
    Idle = "idle";
    /// Some of its cores are held.
    Mixed = "mixed";
    /// All of its cores are held.
    Busy = "busy";
    /// Nothing starts there, and nothing runs there any more.
    Drained = "drained";
    /// Nothing starts there; jobs still run.
    Draining = "draining";
    /// Nothing starts there until whatever is wrong with it is mended.
    Unhealthy = "unhealthy";
    /// An administrator says that it is down.
    Down = "down";
    /// It was there, and nothing is heard of it.
    Lost = "lost";
    /// Nothing was heard of it yet.
    Unknown = "unknown";
    /// It is switched off, and comes up when it is needed.
    Off = "off";
    /// It was told to go off.
    PoweringDown = "powering-down";
    /// It was told to come up.
    PoweringUp = "powering-up";
}

/// Types of GPUs with how many there are of each.
pub fn gpu_types(amounts: &Amounts) -> impl Iterator<Item = (&str, u32)> {
    let counted = amounts.other.iter();
    counted.filter_map(|(name, count)| Some((gpu_type(name)?, count)))
}

/// What can be counted beside cores, memory, disk and GPUs, with how much there is of each.
pub fn other_resources(amounts: &Amounts) -> impl Iterator<Item = (&str, u32)> {
    amounts.other.iter().filter(|(name, _)| !is_of_gpus(name))
}

type Listed = Column<NodeInfo>;

/// Columns of `cstat nodes` with a line for each node.
pub const LIST: &[Listed] = &[
    Listed::left("NODE", |node| (&node.name).into()),
    Listed::left("STATE", |node| {
        FieldValue::State((&node.state).into(), tone(NodeCondition::of(node)))
    }),
    Listed::right("CORES", |node| FieldValue::share(node.used.cores, node.amounts.cores)),
    Listed::right("MEMORY", |node| FieldValue::share(node.used.memory, node.amounts.memory))
        .leaves(3),
    Listed::right("GPUS", |node| gpus(node).into()).leaves(4),
    Listed::right("JOBS", |node| node.jobs.into()).leaves(2),
    Listed::left_cut("QUEUES", 6, |node| FieldValue::texts(&node.queues)).leaves(1),
    Listed::left_cut("FEATURES", 8, |node| FieldValue::texts(&node.features)).leaves(0),
    Listed::left_cut("REASON", 10, |node| (&node.reason).into()),
];

/// Nodes that are alike: in the same queues, state and size, with the same features and reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeGroup {
    /// The first of them.
    first: NodeInfo,
    /// Their names, in the order of the list.
    names: Vec<String>,
    /// Cores, GPUs and memory that jobs hold of all of them.
    used: (u64, u64, MiB),
}

/// Groups of nodes that are alike, each in the place of its first node.
pub fn groups(all: &[NodeInfo]) -> Vec<NodeGroup> {
    let mut groups: Vec<NodeGroup> = Vec::new();
    let mut known = BTreeMap::new();
    for node in all {
        let has = &node.amounts;
        let types: Vec<(&str, u32)> = gpu_types(has).collect();
        let size = (has.cores, has.memory, has.gpus, types);
        let kind = (&node.state, &node.queues, &node.features, &node.reason, size);
        let at = *known.entry(kind).or_insert(groups.len());
        if at == groups.len() {
            groups.push(NodeGroup {
                first: node.clone(),
                names: Vec::new(),
                used: (0, 0, MiB(0)),
            });
        }
        if let Some(group) = groups.get_mut(at) {
            group.names.push(node.name.clone());
            let (cores, gpus, memory) = &mut group.used;
            *cores += u64::from(node.used.cores);
            *gpus += u64::from(node.used.gpus);
            memory.0 = memory.0.saturating_add(node.used.memory.0);
        }
    }
    groups
}

impl NodeGroup {
    fn count(&self) -> u64 {
        self.names.len() as u64
    }

    /// `3/16 a100:8,t4:8`; nothing where there are no GPUs.
    fn gpus(&self) -> String {
        let has = &self.first.amounts;
        if has.gpus == 0 {
            return String::new();
        }
        let types = gpu_types(has);
        let types = types.map(|(name, each)| format!("{name}:{}", u64::from(each) * self.count()));
        let types = types.collect::<Vec<_>>().join(",");
        let all = u64::from(has.gpus) * self.count();
        format!("{}/{all} {types}", self.used.1)
            .trim_end()
            .to_owned()
    }
}

type Grouped = Column<NodeGroup>;

/// Columns of `cstat nodes` on a terminal: a line for nodes that are alike.
pub const GROUPS: &[Grouped] = &[
    Column {
        list: true,
        ..Grouped::left_cut("NODES", 8, |group| cosy_model::fold(&group.names).into())
    },
    Grouped::right("COUNT", |group| group.count().into()).leaves(5),
    Grouped::left("STATE", |group| {
        let node = &group.first;
        FieldValue::State((&node.state).into(), tone(NodeCondition::of(node)))
    }),
    Grouped::right("CORES", |group| {
        let all = u64::from(group.first.amounts.cores) * group.count();
        FieldValue::share(group.used.0, all)
    }),
    Grouped::right("MEMORY", |group| {
        let all = group.first.amounts.memory.0.saturating_mul(group.count());
        FieldValue::share(group.used.2, MiB(all))
    })
    .leaves(2),
    Grouped::right("GPUS", |group| group.gpus().into()).leaves(4),
    Grouped::left_cut("QUEUES", 6, |group| FieldValue::texts(&group.first.queues)).leaves(1),
    Grouped::left_cut("FEATURES", 8, |group| FieldValue::texts(&group.first.features)).leaves(0),
    Grouped::left_cut("REASON", 10, |group| (&group.first.reason).into()).leaves(3),
];

/// How many nodes there are and how they stand: `4 nodes: 2 busy, 2 mixed; 6 of 8 cores in use`.
pub fn total(all: &[NodeInfo]) -> String {
    let mut states: Vec<(&str, usize)> = Vec::new();
    for node in all {
        match states.iter_mut().find(|(state, _)| *state == node.state) {
            Some((_, count)) => *count += 1,
            None => states.push((&node.state, 1)),
        }
    }
    let states = states
        .iter()
        .map(|(state, count)| format!("{count} {state}"));
    let states = states.collect::<Vec<_>>().join(", ");
    let cores = |of: fn(&NodeInfo) -> u32| all.iter().map(|n| u64::from(of(n))).sum::<u64>();
    let (used, has) = (cores(|node| node.used.cores), cores(|node| node.amounts.cores));
    let nodes = count(all.len() as u64, "node", "nodes");
    format!("{nodes}: {states}; {used} of {has} cores in use")
}

const fn tone(condition: Option<NodeCondition>) -> Tone {
    use NodeCondition as C;
    match condition {
        Some(C::Idle | C::Off) => Tone::Quiet,
        Some(C::Mixed | C::Busy) => Tone::Active,
        Some(C::Down | C::Unknown) => Tone::Wrong,
        Some(C::PoweringUp | C::PoweringDown) => Tone::Waiting,
        Some(C::Drained | C::Draining | C::Unhealthy | C::Lost) | None => Tone::Waiting,
    }
}

/// `1/4`, with types `1/4 a100:2,t4:2`.
fn gpus(node: &NodeInfo) -> String {
    let types = gpu_types(&node.amounts).map(|(name, count)| format!("{name}:{count}"));
    let types = types.collect::<Vec<_>>().join(",");
    let all = format!("{}/{} {types}", node.used.gpus, node.amounts.gpus);
    all.trim_end().to_owned()
}

/// All fields of a node that JSON tells.
pub fn fields(node: &NodeInfo) -> Fields<'_> {
    let NodeInfo {
        name,
        state,
        reason,
        amounts: has,
        used,
        features,
        switch,
        weight,
        queues,
        jobs,
        version,
        last_seen,
        skew_ms,
        // Slurm's front ends alone have words for these.
        reason_by: _,
        reason_since: _,
        machine: _,
        gpu_types: _,
        // Which cores and GPUs of a node are held its jobs tell.
        cores_held: _,
        gpus_held: _,
        power,
    } = node;
    vec![
        ("name", name.into()),
        ("state", state.into()),
        ("reason", reason.into()),
        ("has", amounts(has)),
        ("used", amounts(used)),
        ("features", FieldValue::texts(features)),
        ("switch", switch.into()),
        ("weight", (*weight).into()),
        ("queues", FieldValue::texts(queues)),
        ("jobs", (*jobs).into()),
        ("version", version.into()),
        ("last_seen", FieldValue::Time(*last_seen)),
        ("clock_ahead_ms", (*skew_ms).into()),
        (
            "power",
            power
                .as_ref()
                .map_or("on", |power| power.phase.word())
                .into(),
        ),
        ("up_at", FieldValue::Time(power.as_ref().and_then(|power| power.ready))),
    ]
}

fn amounts(of: &Amounts) -> FieldValue<'_> {
    let Amounts {
        cores,
        memory,
        disk,
        gpus,
        other: _, // in two parts below
    } = of;
    let record = |counted: Vec<(&'_ str, u32)>| {
        let each = counted.into_iter();
        FieldValue::Record(
            each.map(|(name, n)| (name.to_owned().into(), n.into()))
                .collect(),
        )
    };
    FieldValue::Record(vec![
        ("cores".into(), (*cores).into()),
        ("memory_mib".into(), memory.0.into()),
        ("disk_mib".into(), disk.0.into()),
        ("gpus".into(), (*gpus).into()),
        ("gpu_types".into(), record(gpu_types(of).collect())),
        ("other".into(), record(other_resources(of).collect())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_are_alike() {
        let node = |name: &str, state: &str, cores: u32, used: u32| NodeInfo {
            name: name.into(),
            state: state.into(),
            amounts: Amounts {
                cores,
                memory: MiB(2048),
                ..Amounts::default()
            },
            used: Amounts {
                cores: used,
                memory: MiB(100),
                ..Amounts::default()
            },
            queues: vec!["main".into()],
            ..NodeInfo::default()
        };
        let all = [
            node("n1", "idle", 4, 0),
            node("n2", "mixed", 4, 1),
            node("n3", "mixed", 4, 3),
            node("n4", "mixed", 8, 3),
            node("n5", "idle", 4, 0),
        ];
        let cells = |group: &NodeGroup| {
            let texts = GROUPS.iter().map(|column| match (column.cell)(group) {
                FieldValue::Text(text) | FieldValue::State(text, _) => text.into_owned(),
                FieldValue::Number(n) => n.to_string(),
                FieldValue::Texts(all) => all.join(","),
                other => format!("{other:?}"),
            });
            texts.collect::<Vec<_>>().join(" ").trim_end().to_owned()
        };
        let lines: Vec<String> = groups(&all).iter().map(cells).collect();
        let want = [
            "n[1,5] 2 idle 0/8 200M/4G  main",
            "n[2-3] 2 mixed 4/8 200M/4G  main",
            "n4 1 mixed 3/8 100M/2G  main",
        ];
        assert_eq!(lines, want);
        assert_eq!(total(&all), "5 nodes: 2 idle, 3 mixed; 7 of 24 cores in use");
        assert!(groups(&[]).is_empty());
    }

    #[test]
    fn words_are_read_again() {
        for condition in NodeCondition::ALL {
            let node = NodeInfo {
                state: condition.word().to_owned(),
                ..NodeInfo::default()
            };
            assert_eq!(NodeCondition::of(&node), Some(*condition));
        }
        assert_eq!(NodeCondition::of(&NodeInfo::default()), None);
    }
}
