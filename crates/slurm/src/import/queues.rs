//! `PartitionName` lines.

use super::lines::Line;
use super::{Queue, Reader, time};
use cosy_model::Span;
use std::collections::BTreeMap;

/// What a line may say without anything being lost.
const KNOWN: &[&str] = &[
    "partitionname",
    "default",
    "nodes",
    "maxtime",
    "defaulttime",
    "maxnodes",
    "maxmempernode",
    "defmempercpu",
    "oversubscribe",
    "shared",
    "state",
    "allowgroups",
    "rootonly",
    "prioritytier",
    "priority",
];

impl Reader {
    pub(super) fn queue(&mut self, line: &Line) {
        let name = line.get("PartitionName").unwrap_or_default().to_owned();
        let mut values: BTreeMap<String, String> = self.queue_defaults.clone();
        for (name, value) in &line.words {
            values.insert(name.to_ascii_lowercase(), value.clone());
        }
        if name.eq_ignore_ascii_case("DEFAULT") {
            values.remove("partitionname");
            self.queue_defaults = values;
            return;
        }
        for (key, value) in &line.words {
            if !KNOWN.contains(&key.to_ascii_lowercase().as_str()) {
                self.note(
                    line,
                    &format!("partition {name}: {key}={value} is not carried over"),
                );
            }
        }
        let queue = self.one_queue(line, name, &values);
        self.queues.push(queue);
    }

    fn one_queue(&mut self, line: &Line, name: String, values: &BTreeMap<String, String>) -> Queue {
        let get = |key: &str| values.get(key).map(String::as_str);
        let number = |key: &str| get(key).and_then(|v| v.parse::<u64>().ok());
        let yes = |key: &str| get(key).is_some_and(|v| v.eq_ignore_ascii_case("yes"));
        let limit = |key: &str| get(key).and_then(time).filter(|t: &Span| !t.is_unlimited());
        let shared = get("oversubscribe").or_else(|| get("shared"));
        let tier = number("prioritytier").or_else(|| number("priority"));
        let tier = tier.and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
        let groups = get("allowgroups").filter(|g| !g.eq_ignore_ascii_case("all"));
        let groups = groups.map_or_else(Vec::new, |g| g.split(',').map(str::to_owned).collect());
        let (nodes, sets) = self.members(line, get("nodes").unwrap_or("ALL"));
        Queue {
            name,
            default: yes("default"),
            // Slurm's usual tier is 1, the usual priority here 0.
            priority: if tier <= 1 { 0 } else { tier },
            nodes,
            sets,
            max_time: limit("maxtime"),
            default_time: limit("defaulttime"),
            max_nodes: number("maxnodes"),
            max_memory: number("maxmempernode").filter(|n| *n > 0),
            memory_per_core: number("defmempercpu").filter(|n| *n > 0),
            exclusive: shared.is_some_and(|s| s.eq_ignore_ascii_case("exclusive")),
            state: state(get("state").unwrap_or("UP")),
            closed: yes("rootonly") || !groups.is_empty(),
            groups,
        }
    }

    /// Nodes by name, and sets; neither for all nodes.
    fn members(&mut self, line: &Line, text: &str) -> (Option<String>, Vec<String>) {
        if text.eq_ignore_ascii_case("all") {
            return (None, Vec::new());
        }
        let is_set = |word: &&str| self.sets.iter().any(|(name, _)| name == word);
        let words: Vec<&str> = crate::targets::words(text);
        let (sets, nodes): (Vec<&str>, Vec<&str>) = words.into_iter().partition(is_set);
        let nodes = nodes.join(",");
        let sets: Vec<String> = sets.into_iter().map(str::to_owned).collect();
        if !nodes.is_empty() && cosy_model::expand(&nodes).is_err() {
            self.note(line, &format!("'{nodes}' is no list of nodes"));
            return (None, sets);
        }
        ((!nodes.is_empty()).then_some(nodes), sets)
    }
}

fn state(text: &str) -> &'static str {
    match text.to_ascii_uppercase().as_str() {
        "DRAIN" => "drained",
        "DOWN" => "stopped",
        "INACTIVE" => "closed",
        _ => "open",
    }
}
