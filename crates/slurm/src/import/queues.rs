//! `PartitionName` lines. What says who may use a partition and has no counterpart leaves its
//! queue to root and the administrators.

use super::admits::admits;
use super::enforced::BY_ROOT;
use super::lines::{Fault, Line};
use super::node_sets::NodeSets;
use super::qos::AllQos;
use super::reader::Reader;
use super::records::{Access, Queue};
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
    "allowaccounts",
    "allowgroups",
    "allowqos",
    "denyaccounts",
    "denyqos",
    "disablerootjobs",
    "gracetime",
    "minnodes",
    "preemptmode",
    "priorityjobfactor",
    "prioritytier",
    "priority",
    "qos",
    "rootonly",
    "tresbillingweights",
    "suspendtime",
    "powerdownonidle",
];

/// Words without a counterpart that keep nobody out, in small letters, and what is different then.
const LOST: &[(&str, &str)] = &[
    ("exclusiveuser", "jobs of several users may share a node"),
    ("hidden", "the queue is listed for everybody"),
    ("maxcpuspernode", "a job may use all cores of a node"),
    ("maxcpuspersocket", "a job may use all cores of a node"),
    ("maxmempercpu", "a job holds the memory and the cores that it asks for"),
    ("overtimelimit", "jobs end at their time limit"),
];

/// Words that say who may use a partition and have no counterpart, as the manual page writes them,
/// and the values that let everybody in.
const LIMITING: &[(&str, &[&str])] = &[
    ("AllowAllocNodes", &["all"]),
    ("AllocNodes", &["all"]),
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
    /// Words that keep somebody out, or limit jobs, and cannot be carried over.
    closed: Vec<String>,
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
                let meaning = LOST.iter().find(|(lost, _)| *lost == lower);
                let meaning = meaning.map_or(String::new(), |(_, meaning)| format!(": {meaning}"));
                let text = format!("partition {name}: {key}={value} is not carried over{meaning}");
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

    /// # Errors
    /// There are more partitions than there can be queues.
    pub(super) fn queues(&mut self, sets: &NodeSets, qos: &AllQos) -> Result<Vec<Queue>, Fault> {
        let mut queues: Vec<Queue> = Vec::new();
        if let Some((line, _)) = self.partitions.get(limits::QUEUES) {
            let most = limits::QUEUES;
            return Err(Fault::new(&line.place, format!("more than {most} partitions")));
        }
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
                    closed: Vec::new(),
                };
                let queue = self.queue(partition, sets, qos);
                queues.push(queue);
            }
        }
        if queues.is_empty() {
            queues.push(self.only_queue(qos));
        }
        self.one_default(&mut queues);
        Ok(queues)
    }

    /// In place of partitions that are not there.
    fn only_queue(&mut self, qos: &AllQos) -> Queue {
        let line = Line::default();
        let mut values = std::mem::take(&mut self.queue_defaults);
        values.insert("nodes".into(), "ALL".into());
        let partition = Partition {
            line: &line,
            name: "main",
            values: &values,
            closed: Vec::new(),
        };
        let mut queue = self.queue(partition, &NodeSets::new(), qos);
        if self.incomplete {
            queue.access = Access::Nobody(vec!["a file that was not found".into()]);
        }
        self.report
            .say("no partition is defined: a queue 'main' of all nodes was made");
        queue
    }

    fn one_default(&mut self, queues: &mut [Queue]) {
        let mut before = queues.iter_mut().filter(|q| q.default).rev();
        let last = before.next().map(|q| q.name.clone());
        let mut others = before.map(|q| q.default = false).count();
        if let Some(last) = last {
            if others > 0 {
                others += 1;
                self.report
                    .say(format!("{others} partitions are the default: {last}, the last, is it"));
            }
        } else if let [only] = queues {
            only.default = true;
        }
    }

    fn queue(&mut self, mut p: Partition<'_>, sets: &NodeSets, qos: &AllQos) -> Queue {
        let max_time = self.time(&mut p, "maxtime", "MaxTime");
        let mut default_time = self.time(&mut p, "defaulttime", "DefaultTime");
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
        let mebibytes = super::nodes::MOST_MIB;
        let max_nodes = self.limit(&mut p, "maxnodes", "MaxNodes", u64::from(u32::MAX));
        let max_memory = self.limit(&mut p, "maxmempernode", "MaxMemPerNode", mebibytes);
        self.least_nodes(&mut p);
        if p.yes("disablerootjobs") {
            let refuse = format!("root runs no jobs in queue {}", p.name);
            let rule = (BY_ROOT, String::new());
            // Where there is no such rule root, who may do everything, is not kept out.
            let made = self.queue_rule(p.name, "DisableRootJobs", rule, refuse);
            if !made {
                let text = format!("partition {}: DisableRootJobs is not carried over", p.name);
                self.note(p.line, &text);
            }
        }
        let admits = admits(p.values, &self.cluster.enforced, qos, &mut p.closed);
        let said = (p.get("preemptmode"), p.get("gracetime"));
        let (preempt_mode, preempt_grace) = self.partition_preempt(p.line, p.name, said);
        let after = self.suspend_after(p.line, p.values);
        let factor = self.number(&p, "priorityjobfactor", u64::from(u16::MAX));
        Queue {
            name: p.name.to_owned(),
            default: p.yes("default"),
            priority: self.tier(&p),
            members: self.members(p.line, p.get("nodes").unwrap_or_default(), sets),
            max_time,
            default_time,
            max_nodes,
            max_memory: max_memory.filter(|n| *n > 0).or(self.cluster.max_memory),
            memory_per_core: self
                .number(&p, "defmempercpu", mebibytes)
                .filter(|n| *n > 0),
            exclusive: self.whole_nodes(&p),
            state: self.state(&p),
            factor: factor.and_then(|n| u16::try_from(n).ok()).unwrap_or(0),
            billing: self.billing(p.line, p.name, p.get("tresbillingweights")),
            access: self.access(p),
            admits,
            after,
            preempt_mode,
            preempt_grace,
        }
    }

    /// Slurm's usual tier is 1, the usual priority here 0.
    fn tier(&mut self, p: &Partition<'_>) -> u32 {
        let tier = self.number(p, "prioritytier", u64::from(u16::MAX));
        let tier = tier.or_else(|| self.number(p, "priority", u64::from(u16::MAX)));
        let tier = tier.and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
        if tier <= 1 { 0 } else { tier }
    }

    /// `MinNodes`, as a rule at submission.
    fn least_nodes(&mut self, p: &mut Partition<'_>) {
        let Some(text) = p.get("minnodes").map(str::to_owned) else {
            return;
        };
        let least = text.parse::<u32>().ok();
        if least.is_some_and(|n| n <= 1) {
            return;
        }
        let made = least.is_some_and(|least| {
            let rule = ("", format!("nodes >= {least}"));
            let refuse = format!("jobs in queue {} have at least {least} nodes", p.name);
            self.queue_rule(p.name, "MinNodes", rule, refuse)
        });
        if !made {
            p.closed.push(format!("MinNodes={text}"));
        }
    }

    /// A number that limits jobs; what is not understood closes the queue.
    fn limit(&mut self, p: &mut Partition<'_>, key: &str, word: &str, most: u64) -> Option<u64> {
        let text = p.get(key)?;
        let read = bounded(text, most);
        if read.is_none() {
            p.closed.push(format!("{word}={text}"));
        }
        read.flatten()
    }

    /// `None` for no number, and for what is not understood, which is told.
    fn number(&mut self, p: &Partition<'_>, key: &str, most: u64) -> Option<u64> {
        let text = p.get(key)?;
        let name = format!("partition {}: {key}", p.name);
        let read = bounded(text, most);
        self.told(p.line, &name, text, read).flatten()
    }

    /// A time limit; one that is not understood closes the queue.
    fn time(&mut self, p: &mut Partition<'_>, key: &str, word: &str) -> Option<Span> {
        let text = p.get(key)?;
        let none = text.eq_ignore_ascii_case("none");
        let read = if none {
            Some(Span::UNLIMITED)
        } else {
            limit(text)
        };
        if read.is_none() {
            p.closed.push(format!("{word}={text}"));
        }
        read.filter(|span| !span.is_unlimited())
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

    fn access(&mut self, mut p: Partition<'_>) -> Access {
        let limiting = p
            .values
            .iter()
            .filter(|(key, value)| limits_access(key, value));
        let words = limiting.map(|(key, value)| format!("{}={value}", spelt(key)));
        p.closed.extend(words);
        if p.closed == ["RootOnly=YES"] {
            return Access::Nobody(p.closed);
        }
        if !p.closed.is_empty() {
            let text = format!(
                "partition {}: {} is not carried over: only root and administrators may use queue {} until its [queue.access] says who may",
                p.name,
                p.closed.join(" "),
                p.name
            );
            self.note(p.line, &text);
            return Access::Nobody(p.closed);
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
}

/// A number up to that; inner `None` for none, outer for what is no number.
fn bounded(text: &str, most: u64) -> Option<Option<u64>> {
    let none = ["unlimited", "infinite", "-1"];
    if none.iter().any(|w| text.eq_ignore_ascii_case(w)) {
        return Some(None);
    }
    text.parse().ok().filter(|n| *n <= most).map(Some)
}

/// Whether a word keeps somebody out of a partition who could use it otherwise. New releases
/// may know more of them.
fn limits_access(key: &str, value: &str) -> bool {
    let like = (key.starts_with("allow") || key.starts_with("deny")) && !KNOWN.contains(&key);
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
