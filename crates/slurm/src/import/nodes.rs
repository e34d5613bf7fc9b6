//! The nodes that `NodeName` lines of a `slurm.conf` describe.

use super::lines::Line;
use super::reader::Reader;
use super::records::Node;
use super::write::quoted;
use cosy_model::limits;
use std::collections::{BTreeMap, BTreeSet};

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
    "weight",
    "corespeccount",
    "cpuspeclist",
    "memspeclimit",
    "suspendtime",
];

/// Most memory or disk of a node that is taken for true, in MiB: an exbibyte.
pub(super) const MOST_MIB: u64 = 1 << 40;

impl Reader {
    pub(super) fn node(&mut self, line: &Line) {
        let names = line.get("NodeName").unwrap_or_default().to_owned();
        let mut values: BTreeMap<String, String> = self.node_defaults.clone();
        for (name, value) in &line.words {
            values.insert(name.to_ascii_lowercase(), value.clone());
        }
        for (name, value) in &line.words {
            let lower = name.to_ascii_lowercase();
            let known = |word: &str| value.eq_ignore_ascii_case(word);
            let told = lower == "state" && (known("unknown") || known("cloud"));
            if !told && !KNOWN.contains(&lower.as_str()) {
                self.note(line, &format!("{name}={value} is not carried over"));
            }
        }
        if names.eq_ignore_ascii_case("DEFAULT") {
            values.remove("nodename");
            self.node_defaults = values;
            return;
        }
        if let Some(names) = self.new_names(line, &names) {
            let node = self.one_node(line, names, &values);
            self.nodes.push(node);
        }
    }

    /// Weights are left out where there are too many different ones.
    pub(super) fn few_weights(&mut self) {
        let all: BTreeSet<Option<u32>> = self.nodes.iter().map(|node| node.weight).collect();
        if all.len() > limits::WEIGHTS {
            let most = limits::WEIGHTS;
            self.report
                .say(format!("nodes have more than {most} different weights: left out"));
            self.nodes.iter_mut().for_each(|node| node.weight = None);
        }
    }

    /// Those of a list that have not been named before.
    fn new_names(&mut self, line: &Line, list: &str) -> Option<String> {
        let Ok(names) = cosy_model::expand(list) else {
            self.note(line, &format!("'{list}' is no list of nodes"));
            return None;
        };
        let all = names.len();
        let room = limits::NODES.saturating_sub(self.known.len());
        let known = &mut self.known;
        let new = names.into_iter().filter(|name| known.insert(name.clone()));
        let new: Vec<String> = new.take(room).collect();
        if new.len() == all {
            return Some(list.to_owned());
        }
        self.note(line, &format!("of NodeName={list} only names that are new are carried over"));
        (!new.is_empty()).then(|| cosy_model::fold(&new))
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
        let fitting = |mebibytes: &u64| *mebibytes <= MOST_MIB;
        let mut node = Node {
            names,
            cores: number("cpus").or(number("procs")).or_else(product),
            memory: number("realmemory").filter(fitting),
            disk: number("tmpdisk").filter(fitting).unwrap_or(0),
            features: features.map_or_else(Vec::new, |text| words(text)),
            weight: number("weight")
                .and_then(|own| u32::try_from(own).ok())
                .filter(|own| *own != 1),
            cloud: values
                .get("state")
                .is_some_and(|state| state.eq_ignore_ascii_case("cloud")),
            after: self.suspend_after(line, values),
            ..Node::default()
        };
        if let Some(gres) = values.get("gres") {
            self.gres(line, &mut node, gres);
        }
        self.set_aside(line, values, &mut node);
        self.whole_or_nothing(line, &mut node);
        node
    }

    /// Cores and memory that are kept from jobs: their daemon keeps them, and tells the rest.
    fn set_aside(&mut self, line: &Line, values: &BTreeMap<String, String>, node: &mut Node) {
        let said = |name: &str| values.get(name).filter(|value| *value != "0");
        let number = |name: &str| said(name).and_then(|value| value.parse::<u64>().ok());
        let mut keys = Vec::new();
        keys.extend(number("corespeccount").map(|cores| format!("cores = {cores}")));
        keys.extend(said("cpuspeclist").map(|list| format!("processors = {}", quoted(list))));
        let memory = number("memspeclimit").filter(|mib| *mib <= MOST_MIB);
        keys.extend(memory.map(|mib| format!("memory = \"{mib}M\"")));
        if keys.is_empty() {
            return;
        }
        let text = format!(
            "{}: write reserved = {{ {} }} into their noded.toml; CPUs and RealMemory are left out here, their daemons tell what is left",
            node.names,
            keys.join(", ")
        );
        self.note(line, &text);
        (node.cores, node.memory) = (None, None);
    }

    /// Cores and memory go together, and the rest is beside them; else the node tells.
    fn whole_or_nothing(&mut self, line: &Line, node: &mut Node) {
        let cores = 1..=u64::from(limits::NODE_CORES);
        let cores = node.cores.filter(|n| cores.contains(n));
        if cores.is_some() && node.memory.is_some() {
            return;
        }
        let counted = node.gpus > 0 || !node.other.is_empty();
        let said = [
            ("CPUs", node.cores.is_some()),
            ("RealMemory", node.memory.is_some()),
            ("TmpDisk", node.disk > 0),
            ("Gres", counted),
        ];
        let said = said.iter().filter(|(_, is)| *is).map(|(word, _)| *word);
        let said: Vec<&str> = said.collect();
        if !said.is_empty() {
            let lacking = if cores.is_none() {
                "CPUs"
            } else {
                "RealMemory"
            };
            let text = format!(
                "without {lacking} a node tells itself what it has: {} was left out",
                said.join(", ")
            );
            self.note(line, &text);
        }
        node.cores = None;
    }

    /// Counts of a list like `gpu:a100:2,gpu:1(S:0),fpga:1`; types and sockets are left out.
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
            let most = u64::from(u32::MAX);
            let Some(count) = count.filter(|n| *n <= most && !name.is_empty()) else {
                self.note(line, &format!("Gres={item} is not carried over"));
                continue;
            };
            if name == "gpu" {
                node.gpus = node.gpus.saturating_add(count).min(most);
                let of_type = rest.first().filter(|t| size(t).is_none());
                types.extend(of_type.map(|t| (*t).to_owned()));
            } else {
                let sum = node.other.entry(name).or_default();
                *sum = sum.saturating_add(count).min(most);
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

/// A count with a factor of 1024, 1024^2 or 1024^3: `2`, `2K`.
fn size(text: &str) -> Option<u64> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}
