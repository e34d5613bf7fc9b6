//! What is shown of nodes.

use crate::column::{Column, Fields};
use crate::value::{FieldValue, Tone};
use cosy_model::Amounts;
use cosy_model::api::NodeInfo;
use cosy_model::device::{gpu_type, is_of_gpus};

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

/// Columns of `cstat nodes`.
pub const LIST: &[Column<NodeInfo>] = &[
    Column::left("NODE", |node| (&node.name).into()),
    Column::left("STATE", |node| {
        FieldValue::State((&node.state).into(), tone(NodeCondition::of(node)))
    }),
    Column::right("CORES", |node| FieldValue::share(node.used.cores, node.amounts.cores)),
    Column::right("MEMORY", |node| FieldValue::share(node.used.memory, node.amounts.memory)),
    Column::right("GPUS", |node| gpus(node).into()),
    Column::right("JOBS", |node| node.jobs.into()),
    Column::left_cut("QUEUES", 6, |node| FieldValue::texts(&node.queues)),
    Column::left_cut("FEATURES", 8, |node| FieldValue::texts(&node.features)),
    Column::left_cut("REASON", 10, |node| (&node.reason).into()),
];

const fn tone(condition: Option<NodeCondition>) -> Tone {
    use NodeCondition as C;
    match condition {
        Some(C::Idle) => Tone::Quiet,
        Some(C::Mixed | C::Busy) => Tone::Active,
        Some(C::Down | C::Unknown) => Tone::Wrong,
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
    } = node;
    vec![
        ("name", name.into()),
        ("state", state.into()),
        ("reason", reason.into()),
        ("has", amounts(has)),
        ("used", amounts(used)),
        ("features", FieldValue::texts(features)),
        ("queues", FieldValue::texts(queues)),
        ("jobs", (*jobs).into()),
        ("version", version.into()),
        ("last_seen", FieldValue::Time(*last_seen)),
        ("clock_ahead_ms", (*skew_ms).into()),
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
