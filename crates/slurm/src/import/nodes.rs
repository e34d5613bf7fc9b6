//! `NodeName` lines.

use super::lines::Line;
use super::{Node, Reader};
use std::collections::BTreeMap;

/// What a line may say without anything being lost.
const KNOWN: &[&str] = &[
    "nodename",
    "cpus",
    "procs",
    "boards",
    "sockets",
    "socketsperboard",
    "corespersocket",
    "threadspercore",
    "realmemory",
    "tmpdisk",
    "gres",
    "feature",
    "features",
    "nodeaddr",
    "nodehostname",
    "port",
    "bcastaddr",
];

impl Reader {
    pub(super) fn node(&mut self, line: &Line) {
        let names = line.get("NodeName").unwrap_or_default().to_owned();
        let mut values: BTreeMap<String, String> = self.node_defaults.clone();
        for (name, value) in &line.words {
            values.insert(name.to_ascii_lowercase(), value.clone());
        }
        if names.eq_ignore_ascii_case("DEFAULT") {
            values.remove("nodename");
            self.node_defaults = values;
            return;
        }
        if cosy_model::expand(&names).is_err() {
            return self.note(line, &format!("'{names}' is no list of nodes"));
        }
        let node = self.one_node(line, names, &values);
        for (name, value) in &line.words {
            let lower = name.to_ascii_lowercase();
            let told = lower == "state" && value.eq_ignore_ascii_case("unknown");
            if !told && !KNOWN.contains(&lower.as_str()) {
                self.note(line, &format!("{name}={value} is not carried over"));
            }
        }
        self.nodes.push(node);
    }

    fn one_node(&mut self, line: &Line, names: String, values: &BTreeMap<String, String>) -> Node {
        let number = |name: &str| values.get(name).and_then(|v| v.parse::<u64>().ok());
        let product = || {
            let sockets = number("sockets").or(number("socketsperboard"));
            let each = number("corespersocket");
            let known = sockets.is_some() || each.is_some();
            let threads = number("threadspercore").unwrap_or(1);
            let all = sockets
                .unwrap_or(1)
                .saturating_mul(each.unwrap_or(1))
                .saturating_mul(threads);
            known.then_some(all)
        };
        let features = values.get("features").or_else(|| values.get("feature"));
        let mut node = Node {
            names,
            cores: number("cpus").or(number("procs")).or_else(product),
            memory: number("realmemory"),
            disk: number("tmpdisk").unwrap_or(0),
            features: features.map_or_else(Vec::new, |text| words(text)),
            ..Node::default()
        };
        if let Some(gres) = values.get("gres") {
            self.gres(line, &mut node, gres);
        }
        if node.cores.is_none() && node.memory.is_some() {
            let text = "without CPUs a node tells itself what it has: RealMemory was left out";
            self.note(line, text);
        }
        node
    }

    /// `gpu:a100:2,gpu:1(S:0),fpga:1`.
    fn gres(&mut self, line: &Line, node: &mut Node, text: &str) {
        let mut types = Vec::new();
        for item in words(text) {
            let item = item.split('(').next().unwrap_or_default();
            let mut parts = item.split(':');
            let name = parts.next().unwrap_or_default().to_owned();
            let rest: Vec<&str> = parts.filter(|p| *p != "no_consume").collect();
            let count = match rest.last() {
                None => Some(1),
                Some(last) => size(last).or((rest.len() == 1).then_some(1)),
            };
            let Some(count) = count.filter(|_| !name.is_empty()) else {
                self.note(line, &format!("Gres={item} is not understood"));
                continue;
            };
            if name == "gpu" {
                node.gpus = node.gpus.saturating_add(count);
                let of_type = rest.first().filter(|t| size(t).is_none());
                types.extend(of_type.map(|t| (*t).to_owned()));
            } else {
                let sum = node.other.entry(name).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        if !types.is_empty() {
            let types = types.join(", ");
            let text =
                format!("types of GPUs ({types}) are told by the nodes: [[gpu]] in noded.toml");
            self.note(line, &text);
        }
    }
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(',').filter(|w| !w.is_empty());
    words.map(str::to_owned).collect()
}

/// `2`, `2K`.
fn size(text: &str) -> Option<u64> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}
