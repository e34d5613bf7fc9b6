//! Which nodes a set or a partition has. Looked at when all lines have been read, as nodes may
//! be named below the partitions that have them; a name that stands for no node is left out.

use super::lines::Line;
use super::reader::Reader;
use super::records::{Members, Node};
use cosy_model::{expand, fold};
use std::collections::BTreeMap;

/// Nodes of each set, by its name.
pub(super) type NodeSets = BTreeMap<String, Vec<String>>;

impl Reader {
    pub(super) fn node_sets(&mut self) -> NodeSets {
        let mut sets = NodeSets::new();
        for line in std::mem::take(&mut self.sets) {
            let name = line.get("NodeSet").unwrap_or_default().to_owned();
            let mut nodes = Vec::new();
            if let Some(list) = line.get("Nodes") {
                nodes = self.named(&line, list);
            }
            if let Some(feature) = line.get("Feature") {
                nodes.extend(self.with_feature(feature));
            }
            nodes.sort();
            nodes.dedup();
            if nodes.is_empty() {
                self.note(&line, &format!("node set {name} has no nodes"));
            }
            if sets.insert(name.clone(), nodes).is_some() {
                self.note(&line, &format!("node set {name} is there twice: this one counts"));
            }
        }
        sets
    }

    fn with_feature(&self, feature: &str) -> Vec<String> {
        let having = |node: &&Node| node.features.iter().any(|f| f == feature);
        let nodes = self.nodes.iter().filter(having);
        let names = nodes.flat_map(|node| expand(&node.names).unwrap_or_default());
        names.collect()
    }

    /// The nodes of a list that there are.
    pub(super) fn named(&mut self, line: &Line, list: &str) -> Vec<String> {
        let Ok(names) = expand(list) else {
            self.note(line, &format!("'{list}' is no list of nodes"));
            return Vec::new();
        };
        let (there, gone): (Vec<String>, Vec<String>) = names
            .into_iter()
            .partition(|name| self.known.contains(name));
        if !gone.is_empty() {
            let text = format!("no NodeName names {}: left out", fold(&gone));
            self.note(line, &text);
        }
        there
    }

    pub(super) fn members(&mut self, line: &Line, text: &str, sets: &NodeSets) -> Members {
        if text.eq_ignore_ascii_case("all") {
            return Members::All;
        }
        let words = crate::targets::words(text).into_iter();
        let words = words.map(str::trim).filter(|word| !word.is_empty());
        let (mine, nodes): (Vec<&str>, Vec<&str>) =
            words.partition(|word| sets.contains_key(*word));
        let nodes = match nodes.is_empty() {
            true => Vec::new(),
            false => self.named(line, &nodes.join(",")),
        };
        let mine = mine.into_iter().filter(|name| !sets[*name].is_empty());
        let mine: Vec<String> = mine.map(str::to_owned).collect();
        let nodes = (!nodes.is_empty()).then(|| fold(&nodes));
        if nodes.is_none() && mine.is_empty() {
            self.note(line, "a partition without nodes: its jobs are refused");
        }
        Members::These(nodes, mine)
    }
}
