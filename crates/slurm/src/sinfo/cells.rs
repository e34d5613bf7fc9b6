//! The values that `sinfo` shows for a group of nodes. Sources: sinfo(1), captures of
//! `sinfo -o`.

use super::fields::Field;
use super::groups::{Group, NodeWithState};
use crate::node::{BaseState, address, gres, gres_in_use, host_name, load};
use crate::partition::{allowed_groups, oversubscribe, preempt_mode, priority_tier};
use crate::show::{clean, or_null};
use crate::times::{self, TimeWriter};
use cosy_model::api::QueueInfo;
use cosy_model::{QueueState, Span, fold};
use std::fmt::Write;

/// How values are shown.
#[derive(Clone, Debug)]
pub struct ValueStyle {
    /// Points of time.
    pub stamps: TimeWriter,
    /// The release that is told as version.
    pub release: String,
    /// Name of the cluster.
    pub cluster: String,
}

/// Writes the value of `field`.
pub fn cell(field: Field, group: &Group<'_>, look: &ValueStyle, out: &mut String) {
    match field {
        Field::Available => out.push_str(group.partition.map_or("n/a", available)),
        Field::NodesAi => {
            let n = node_counts(group);
            let _ = write!(out, "{}/{}", n[0], n[1]);
        }
        Field::NodesAiot => four(out, node_counts(group)),
        Field::CpusState => four(out, core_counts(group)),
        Field::Features | Field::ActiveFeatures => {
            first(out, group, |k| or_null(&clean(&k.node.features.join(","))).to_owned())
        }
        Field::MaxCpusPerNode => out.push_str("UNLIMITED"),
        Field::Cpus | Field::Cores => {
            range(out, group, |k| Some(u64::from(k.node.amounts.cores)));
        }
        Field::Disk => range(out, group, |k| Some(k.node.amounts.disk.0)),
        Field::Nodes => {
            let _ = write!(out, "{}", group.nodes.len());
        }
        Field::FreeMemory => range(out, group, |k| k.node.machine.free_memory.map(|m| m.0)),
        Field::Reason => first(out, group, |k| match k.node.reason.as_str() {
            "" => "none".to_owned(),
            reason => clean(reason),
        }),
        Field::Groups => out.push_str(&group.partition.map_or("n/a".to_owned(), groups_of)),
        Field::Gres => first(out, group, |k| or_none(gres(&k.node.amounts))),
        Field::GresUsed => first(out, group, |k| or_none(gres_in_use(k.node))),
        Field::OverSubscribe => {
            out.push_str(group.partition.map_or("NO", |p| oversubscribe(&p.spec)));
        }
        Field::Timestamp => first(out, group, |k| match k.node.reason_since {
            Some(at) => look.stamps.text(at),
            None => "Unknown".to_owned(),
        }),
        Field::JobFactor => out.push('1'),
        Field::Sockets | Field::Threads | Field::Weight => range(out, group, |k| one(field, k)),
        Field::TimeLimit => {
            let most = group.partition.and_then(|p| p.spec.max_time);
            limit(out, most, "infinite");
        }
        Field::DefaultTime => {
            let usual = group.partition.and_then(|p| p.spec.default_time);
            limit(out, usual, "n/a");
        }
        Field::Memory => range(out, group, |k| Some(k.node.amounts.memory.0)),
        Field::AllocMem => range(out, group, |k| Some(k.node.used.memory.0)),
        Field::PreemptMode => out.push_str(preempts(group)),
        Field::HostNames => first(out, group, |k| clean(host_name(k.node))),
        Field::NodeList => out.push_str(&node_list(group)),
        Field::NodeAddr => first(out, group, |k| clean(address(k.node))),
        Field::CpuLoad => loads(out, group),
        Field::Tier => {
            let tier = group.partition.map_or(1, |p| priority_tier(&p.spec));
            let _ = write!(out, "{tier}");
        }
        Field::Partition => {
            let Some(partition) = group.partition else {
                return;
            };
            out.push_str(&clean(&partition.spec.name));
            if partition.default {
                out.push('*');
            }
        }
        Field::PartitionName => out.push_str(group.partition.map_or("", |p| &p.spec.name)),
        Field::Root => out.push_str("no"),
        Field::JobSize => match group.partition.and_then(|p| p.spec.max_nodes) {
            Some(most) => {
                let _ = write!(out, "1-{most}");
            }
            None => out.push_str("1-infinite"),
        },
        Field::AllocNodes => out.push_str("all"),
        Field::StateCompact => first(out, group, |k| k.state.compact()),
        Field::StateLong => first(out, group, |k| k.state.long()),
        Field::StateComplete => first(out, group, |k| k.state.complete()),
        Field::User | Field::UserLong => first(out, group, |k| named(&k.node.reason_by, "Unknown")),
        Field::Version => out.push_str(&look.release),
        Field::Cluster => out.push_str(match look.cluster.as_str() {
            "" => "N/A",
            name => name,
        }),
        Field::Sct => first(out, group, |k| format!("1:{}:1", k.node.amounts.cores)),
        Field::Comment | Field::Extra => out.push_str("(null)"),
        Field::Port => range(out, group, |k| Some(u64::from(k.node.machine.port))),
    }
}

fn named(text: &str, without: &str) -> String {
    clean(if text.is_empty() { without } else { text })
}

const fn available_word(state: QueueState) -> &'static str {
    match state {
        QueueState::Open => "up",
        QueueState::Drained => "drain",
        QueueState::Stopped => "down",
        QueueState::Closed => "inact",
    }
}

fn available(partition: &QueueInfo) -> &'static str {
    available_word(partition.spec.state)
}

fn groups_of(partition: &QueueInfo) -> String {
    match allowed_groups(&partition.spec) {
        None => "all".to_owned(),
        Some(groups) => or_null(&clean(&groups.join(","))).to_owned(),
    }
}

/// The nodes as a host list.
pub fn node_list(group: &Group<'_>) -> String {
    let names: Vec<&str> = group.nodes.iter().map(|k| k.node.name.as_str()).collect();
    fold(&names)
}

/// Allocated, idle, other, all.
fn node_counts(group: &Group<'_>) -> [u64; 4] {
    let mut counts = [0; 4];
    for known in &group.nodes {
        let at = match (known.state.base(), known.state.is_up()) {
            (_, false) => 2,
            (BaseState::Idle, true) => 1,
            (
                BaseState::Allocated | BaseState::Mixed | BaseState::Unknown | BaseState::Down,
                true,
            ) => 0,
        };
        counts[at] += 1;
        counts[3] += 1;
    }
    counts
}

fn core_counts(group: &Group<'_>) -> [u64; 4] {
    let mut counts = [0; 4];
    for known in &group.nodes {
        let all = u64::from(known.node.amounts.cores);
        let held = u64::from(known.node.used.cores).min(all);
        let usable = known.state.is_up() && !known.state.drains();
        counts[0] += held;
        counts[if usable { 1 } else { 2 }] += all - held;
        counts[3] += all;
    }
    counts
}

fn four(out: &mut String, counts: [u64; 4]) {
    let [a, i, o, t] = counts;
    let _ = write!(out, "{a}/{i}/{o}/{t}");
}

/// What the first node says, for all are alike in it; `n/a` without nodes.
fn first(out: &mut String, group: &Group<'_>, text: impl Fn(&NodeWithState<'_>) -> String) {
    match group.nodes.first() {
        Some(known) => out.push_str(&text(known)),
        None => out.push_str("n/a"),
    }
}

/// The weight of a node; other numbers are 1 here.
fn one(field: Field, of: &NodeWithState<'_>) -> Option<u64> {
    Some(if field == Field::Weight {
        of.node.weight.into()
    } else {
        1
    })
}

/// The least and the greatest; one number where they are the same.
fn range(out: &mut String, group: &Group<'_>, number: impl Fn(&NodeWithState<'_>) -> Option<u64>) {
    let numbers = || group.nodes.iter().filter_map(&number);
    let written = match (numbers().min(), numbers().max()) {
        (Some(least), Some(most)) if least < most => write!(out, "{least}-{most}"),
        (Some(least), _) => write!(out, "{least}"),
        (None, _) if group.nodes.is_empty() => write!(out, "0"),
        (None, _) => write!(out, "N/A"),
    };
    debug_assert!(written.is_ok(), "a string takes all");
}

fn loads(out: &mut String, group: &Group<'_>) {
    let nodes = &group.nodes;
    let all = || nodes.iter().filter_map(|k| k.node.machine.load_hundredths);
    match (all().min(), all().max()) {
        (Some(least), Some(most)) if least < most => {
            let _ = write!(out, "{}-{}", load(least), load(most));
        }
        (Some(least), _) => out.push_str(&load(least)),
        (None, _) => out.push_str("N/A"),
    }
}

fn limit(out: &mut String, span: Option<Span>, without: &str) {
    match span {
        Some(span) if !span.is_unlimited() => times::short_duration(out, span),
        Some(_) | None => out.push_str(without),
    }
}

fn or_none(text: Option<String>) -> String {
    text.unwrap_or_else(|| "(null)".to_owned())
}

fn preempts(group: &Group<'_>) -> &'static str {
    preempt_mode(group.partition.and_then(|partition| partition.preempt))
}
