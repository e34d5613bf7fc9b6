//! `[[node]]` and `[[node_set]]` of `cosy.toml`.

use super::values::Raw;
use cosy_config::{Check, Size};
use cosy_model::{Amounts, CountedResources, NodeSpec, RelayPolicy, limits};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    names: Spanned<String>,
    cores: Option<Spanned<u32>>,
    memory: Option<Spanned<Size>>,
    disk: Option<Spanned<Size>>,
    gpus: Option<u32>,
    #[serde(default)]
    other: BTreeMap<String, u32>,
    #[serde(default)]
    features: Vec<String>,
    weight: Option<u32>,
    #[serde(default)]
    login: bool,
    relay: Option<Spanned<toml::Value>>,
    key: Option<Spanned<String>>,
    suspend_after: Option<Raw>,
    #[serde(default)]
    cloud: bool,
}

impl Node {
    /// After how long idle ones are switched off.
    pub(super) fn suspend_after(&self) -> Option<&Raw> {
        self.suspend_after.as_ref()
    }

    /// They are off until they are needed.
    pub(super) fn is_cloud(&self) -> bool {
        self.cloud
    }

    /// The file says what they have.
    pub(super) fn is_counted(&self) -> bool {
        self.cores.is_some()
    }

    /// Where it is in the file.
    pub(super) fn place(&self) -> usize {
        self.names.span().start
    }

    /// Their names.
    pub(super) fn names(&self, check: &mut Check<'_>) -> Vec<String> {
        check.hosts(&self.names)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeSet {
    name: Spanned<String>,
    nodes: Spanned<String>,
}

pub(super) fn nodes(check: &mut Check<'_>, tables: &[Node]) -> Vec<NodeSpec> {
    let mut nodes: Vec<NodeSpec> = Vec::new();
    let mut seen = BTreeSet::new();
    for table in tables {
        let at = table.names.span().start;
        let amounts = node_amounts(check, table);
        let relay = node_relay(check, table.relay.as_ref());
        if let Some(key) = &table.key
            && key
                .get_ref()
                .parse::<cosy_proto::keys::PublicKey>()
                .is_err()
        {
            check.fault(key.span().start, "a public key has 64 hexadecimal digits");
        }
        for name in check.hosts(&table.names) {
            if !seen.insert(name.clone()) {
                check.fault(at, format!("node {name} is there twice"));
            }
            nodes.push(NodeSpec {
                name,
                amounts: amounts.clone(),
                features: table.features.clone(),
                weight: table.weight.unwrap_or(1),
                login: table.login,
                relay: relay.clone(),
                key: table.key.as_ref().map(|k| k.get_ref().to_ascii_lowercase()),
            });
        }
    }
    let weights: BTreeSet<u32> = nodes.iter().map(|node| node.weight).collect();
    if weights.len() > limits::WEIGHTS {
        let most = limits::WEIGHTS;
        check.fault(0, format!("more than {most} different weights of nodes"));
    }
    if nodes.len() > limits::NODES {
        check.fault(0, format!("more than {} nodes", limits::NODES));
    }
    nodes
}

/// Whose requests the node may pass on.
fn node_relay(check: &mut Check<'_>, value: Option<&Spanned<toml::Value>>) -> RelayPolicy {
    let Some(value) = value else {
        return RelayPolicy::default();
    };
    let names = |list: &Vec<toml::Value>| {
        let name = |v: &toml::Value| v.as_str().filter(|t| !t.is_empty()).map(str::to_owned);
        list.iter().map(name).collect::<Option<Vec<String>>>()
    };
    let read = match value.get_ref() {
        toml::Value::String(word) => match word.as_str() {
            "all" => Some(RelayPolicy::All),
            "users" => Some(RelayPolicy::Users),
            "none" => Some(RelayPolicy::Nobody),
            _ => None,
        },
        toml::Value::Array(list) => names(list).map(RelayPolicy::Only),
        _ => None,
    };
    if read.is_none() {
        check.fault(
            value.span().start,
            "relay is \"all\", \"users\", \"none\" or a list of users and @groups like [\"ann\", \"@staff\"]",
        );
    }
    // What cannot be read lets nobody through.
    read.unwrap_or(RelayPolicy::Nobody)
}

/// `None` when the node is to tell what it has.
fn node_amounts(check: &mut Check<'_>, table: &Node) -> Option<Amounts> {
    let Some(cores) = table.cores.as_ref() else {
        if table.memory.is_some()
            || table.disk.is_some()
            || table.gpus.is_some()
            || !table.other.is_empty()
        {
            check.fault(
                table.names.span().start,
                "a node with configured memory, disk, gpus or other needs cores too (or leave all out: the node tells)",
            );
        }
        return None;
    };
    if !(1..=limits::NODE_CORES).contains(cores.get_ref()) {
        check.fault(
            cores.span().start,
            format!("cores must be between 1 and {}", limits::NODE_CORES),
        );
    }
    let mut other = CountedResources::default();
    for (name, amount) in &table.other {
        other.set(name, *amount);
    }
    let Some(memory) = &table.memory else {
        check.fault(
            cores.span().start,
            "a node with configured cores needs memory too (or leave both out: the node tells)",
        );
        return None;
    };
    Some(Amounts {
        cores: *cores.get_ref(),
        memory: check.size(Some(memory)).unwrap_or_default(),
        disk: check.size(table.disk.as_ref()).unwrap_or_default(),
        gpus: table.gpus.unwrap_or(0),
        other,
    })
}

pub(super) fn sets(
    check: &mut Check<'_>,
    tables: &[NodeSet],
    known: &BTreeSet<&str>,
) -> BTreeMap<String, Vec<String>> {
    let mut sets = BTreeMap::new();
    for table in tables {
        let nodes = known_hosts(check, &table.nodes, known);
        let name = table.name.get_ref().clone();
        if sets.insert(name.clone(), nodes).is_some() {
            check.fault(table.name.span().start, format!("node set {name} is there twice"));
        }
    }
    sets
}

pub(super) fn known_hosts(
    check: &mut Check<'_>,
    list: &Spanned<String>,
    known: &BTreeSet<&str>,
) -> Vec<String> {
    let names = check.hosts(list);
    for name in &names {
        if !known.contains(name.as_str()) {
            check.fault(list.span().start, format!("there is no node '{name}'"));
        }
    }
    names
}
