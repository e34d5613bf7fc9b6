//! `PartitionName` lines. What says who may use a partition and has no counterpart leaves its
//! queue to root and the administrators.

use super::accounts::Accounts;
use super::lines::Line;
use super::node_sets::NodeSets;
use super::{Access, Queue, Reader};
use crate::submit::times::limit;
use cosy_model::{Span, limits};
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

/// Words that say who may use a partition, as the manual page writes them, and the values that
/// let everybody in.
const LIMITING: &[(&str, &[&str])] = &[
    ("AllowAccounts", &["all"]),
    ("AllowAllocNodes", &["all"]),
    ("AllowQos", &["all"]),
    ("AllocNodes", &["all"]),
    ("DenyAccounts", &[""]),
    ("DenyQos", &[""]),
    ("ReqResv", NO),
    ("RootOnly", NO),
];
/// What stands for no.
const NO: &[&str] = &["no", "false", "0", "down"];
/// What stands for yes.
const YES: &[&str] = &["yes", "true", "1", "up"];

/// A line with the values that it gets from lines called `DEFAULT`.
struct Partition<'a> {
    line: &'a Line,
    name: &'a str,
    values: &'a BTreeMap<String, String>,
}

impl Partition<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    fn yes(&self, key: &str) -> bool {
        self.get(key).is_some_and(|v| is_one_of(v, YES))
    }
}

impl Reader {
    /// Keeps a line until all nodes are known.
    pub(super) fn partition(&mut self, line: &Line) {
        let name = line.get("PartitionName").unwrap_or_default();
        let mut values = self.queue_defaults.clone();
        for (name, value) in &line.words {
            values.insert(name.to_ascii_lowercase(), value.clone());
        }
        for (key, value) in &line.words {
            let lower = key.to_ascii_lowercase();
            if !KNOWN.contains(&lower.as_str())
                && !limits_access(&lower, value)
                && !frees(&lower, value)
            {
                let text = format!("partition {name}: {key}={value} is not carried over");
                self.note(line, &text);
            }
        }
        if name.eq_ignore_ascii_case("DEFAULT") {
            values.remove("partitionname");
            self.queue_defaults = values;
        } else {
            self.partitions.push((line.clone(), values));
        }
    }

    pub(super) fn queues(&mut self, sets: &NodeSets) -> Vec<Queue> {
        let mut queues: Vec<Queue> = Vec::new();
        for (line, values) in std::mem::take(&mut self.partitions) {
            let name = line.get("PartitionName").unwrap_or_default();
            let odd = |c: char| c.is_whitespace() || c.is_control() || c == ',';
            if name.is_empty() || name.len() > limits::NAME_BYTES || name.contains(odd) {
                self.note(&line, "a partition whose name no queue can have is left out");
            } else if queues.iter().any(|q| q.name == name) {
                self.note(&line, &format!("partition {name} is there twice: the first counts"));
            } else {
                let partition = Partition {
                    line: &line,
                    name,
                    values: &values,
                };
                let queue = self.queue(&partition, sets);
                queues.push(queue);
            }
        }
        if queues.is_empty() {
            queues.push(self.only_queue());
        }
        self.one_default(&mut queues);
        queues
    }

    /// In place of partitions that are not there.
    fn only_queue(&mut self) -> Queue {
        let line = Line {
            number: 0,
            words: Vec::new(),
        };
        let mut values = std::mem::take(&mut self.queue_defaults);
        values.insert("nodes".into(), "ALL".into());
        let partition = Partition {
            line: &line,
            name: "main",
            values: &values,
        };
        let mut queue = self.queue(&partition, &NodeSets::new());
        if self.incomplete {
            queue.access = Access::Nobody(vec!["a file that was not found".into()]);
        }
        self.notes
            .push("no partition is defined: a queue 'main' of all nodes was made".into());
        queue
    }

    fn one_default(&mut self, queues: &mut [Queue]) {
        let mut before = queues.iter_mut().filter(|q| q.default).rev();
        let last = before.next().map(|q| q.name.clone());
        let mut others = before.map(|q| q.default = false).count();
        if let Some(last) = last {
            if others > 0 {
                others += 1;
                self.notes
                    .push(format!("{others} partitions are the default: {last}, the last, is it"));
            }
        } else if let [only] = queues {
            only.default = true;
        }
    }

    fn queue(&mut self, p: &Partition<'_>, sets: &NodeSets) -> Queue {
        let max_time = self.time(p, "maxtime");
        let mut default_time = self.time(p, "defaulttime");
        if let (Some(most), Some(usual)) = (max_time, default_time)
            && usual > most
        {
            let text = format!(
                "partition {}: DefaultTime is longer than MaxTime: {most} is taken",
                p.name
            );
            self.note(p.line, &text);
            default_time = Some(most);
        }
        let tier = self.number(p, "prioritytier", u64::from(u16::MAX));
        let tier = tier.or_else(|| self.number(p, "priority", u64::from(u16::MAX)));
        let tier = tier.and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
        let mebibytes = super::nodes::MOST_MIB;
        Queue {
            name: p.name.to_owned(),
            default: p.yes("default"),
            // Slurm's usual tier is 1, the usual priority here 0.
            priority: if tier <= 1 { 0 } else { tier },
            members: self.members(p.line, p.get("nodes").unwrap_or_default(), sets),
            max_time,
            default_time,
            max_nodes: self.number(p, "maxnodes", u64::from(u32::MAX)),
            max_memory: self
                .number(p, "maxmempernode", mebibytes)
                .filter(|n| *n > 0),
            memory_per_core: self.number(p, "defmempercpu", mebibytes).filter(|n| *n > 0),
            exclusive: self.whole_nodes(p),
            state: self.state(p),
            access: self.access(p),
        }
    }

    /// `None` for no limit, and for what is not understood, which is told.
    fn number(&mut self, p: &Partition<'_>, key: &str, most: u64) -> Option<u64> {
        let text = p.get(key)?;
        if ["unlimited", "infinite", "-1"]
            .iter()
            .any(|w| text.eq_ignore_ascii_case(w))
        {
            return None;
        }
        let read = text.parse().ok().filter(|n| *n <= most);
        let name = format!("partition {}: {key}", p.name);
        self.told(p.line, &name, text, read)
    }

    fn time(&mut self, p: &Partition<'_>, key: &str) -> Option<Span> {
        let text = p.get(key)?;
        let none = text.eq_ignore_ascii_case("none");
        let read = if none {
            Some(Span::UNLIMITED)
        } else {
            limit(text)
        };
        let name = format!("partition {}: {key}", p.name);
        let read = self.told(p.line, &name, text, read)?;
        (!read.is_unlimited()).then_some(read)
    }

    /// Whether jobs get whole nodes. That cores are given out more than once is told.
    fn whole_nodes(&mut self, p: &Partition<'_>) -> bool {
        let Some(text) = p.get("oversubscribe").or_else(|| p.get("shared")) else {
            return self.cluster.whole_nodes;
        };
        let lower = text.to_ascii_lowercase();
        match lower.as_str() {
            "exclusive" => return true,
            "no" | "force:1" => {}
            _ => {
                let text = format!(
                    "partition {}: OverSubscribe={text} is not carried over: a core is given to one job at a time",
                    p.name
                );
                self.note(p.line, &text);
            }
        }
        self.cluster.whole_nodes
    }

    fn state(&mut self, p: &Partition<'_>) -> &'static str {
        let text = p.get("state").unwrap_or("UP");
        match text.to_ascii_uppercase().as_str() {
            "UP" => "open",
            "DRAIN" => "drained",
            "DOWN" => "stopped",
            "INACTIVE" => "closed",
            _ => {
                let text = format!(
                    "partition {}: State={text} is not understood: the queue is closed",
                    p.name
                );
                self.note(p.line, &text);
                "closed"
            }
        }
    }

    fn access(&mut self, p: &Partition<'_>) -> Access {
        let limiting = p
            .values
            .iter()
            .filter(|(key, value)| limits_access(key, value));
        let words: Vec<String> = limiting
            .map(|(key, value)| format!("{}={value}", spelt(key)))
            .collect();
        if words == ["RootOnly=YES"] {
            return Access::Nobody(words);
        }
        if !words.is_empty() {
            let text = format!(
                "partition {}: {} is not carried over: only root and administrators may use queue {} until its [queue.access] says who may",
                p.name,
                words.join(" "),
                p.name
            );
            self.note(p.line, &text);
            return Access::Nobody(words);
        }
        match p
            .get("allowgroups")
            .filter(|g| !g.eq_ignore_ascii_case("all"))
        {
            None => Access::Everybody,
            Some(groups) => {
                let groups = groups.split(',').map(str::trim).filter(|g| !g.is_empty());
                Access::Groups(groups.map(str::to_owned).collect())
            }
        }
    }

    /// Where users without an account are refused, queues are for those who have one.
    pub(super) fn enforce(&mut self, queues: &mut [Queue], accounts: Option<&Accounts>) {
        let Some(word) = self.cluster.enforced.clone() else {
            return;
        };
        let word = format!("AccountingStorageEnforce={word}");
        let users = accounts
            .map(|a| &a.users)
            .filter(|users| users.len() <= limits::ACCESS_NAMES);
        let open = |queue: &&mut Queue| queue.access == Access::Everybody;
        for queue in queues.iter_mut().filter(open) {
            queue.access = match users {
                Some(users) => Access::Users(users.clone()),
                None => Access::Nobody(vec![word.clone()]),
            };
        }
        let text = match users {
            Some(users) => format!(
                "{word}: queues are for the {} users of the dump; members of a queue's groups need no account here",
                users.len()
            ),
            None => format!(
                "{word}: only root and administrators may use the queues until [queue.access] says who may; with --accounts DUMP it says those who have an account"
            ),
        };
        self.notes.push(text);
    }
}

/// Whether a word keeps somebody out of a partition who could use it otherwise. New releases
/// may know more of them.
fn limits_access(key: &str, value: &str) -> bool {
    let like = (key.starts_with("allow") || key.starts_with("deny")) && key != "allowgroups";
    (known(key).is_some() || like) && !frees(key, value)
}

/// Whether it is such a word with a value that lets everybody in.
fn frees(key: &str, value: &str) -> bool {
    known(key).is_some_and(|(_, free)| is_one_of(value, free))
}

fn known(key: &str) -> Option<&'static (&'static str, &'static [&'static str])> {
    LIMITING
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(key))
}

fn is_one_of(value: &str, words: &[&str]) -> bool {
    words.iter().any(|w| value.trim().eq_ignore_ascii_case(w))
}

/// As the manual page writes it.
fn spelt(key: &str) -> &str {
    known(key).map_or(key, |(word, _)| word)
}
