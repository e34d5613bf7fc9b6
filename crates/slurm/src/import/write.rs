//! The `cosy.toml` that is written.

use super::accounts::Accounts;
use super::{Cluster, Node, Queue, Reader};
use cosy_model::Span;
use std::collections::BTreeSet;
use std::fmt::Display;

/// All tables in the order of `etc/cosy.toml`.
pub(super) fn text(reader: &Reader, accounts: &Accounts) -> String {
    let mut out = Out(String::new());
    cluster(&mut out, &reader.cluster, &accounts.admins);
    for node in &reader.nodes {
        self::node(&mut out, node);
    }
    for (name, nodes) in &reader.sets {
        out.table("\n[[node_set]]");
        out.text("name", name);
        out.text("nodes", nodes);
    }
    for queue in &reader.queues {
        self::queue(&mut out, queue, reader.cluster.memory_per_core);
    }
    for (name, members) in &accounts.members {
        out.table(&format!("\n[account.{}]", quoted(name)));
        out.list("members", members.iter().map(String::as_str));
    }
    out.0
}

struct Out(String);

impl Out {
    fn table(&mut self, title: &str) {
        self.0.push_str(title);
        self.0.push('\n');
    }

    fn plain(&mut self, key: &str, value: impl Display) {
        self.0.push_str(&format!("{key} = {value}\n"));
    }

    fn text(&mut self, key: &str, value: &str) {
        self.plain(key, quoted(value));
    }

    fn seconds(&mut self, key: &str, value: Option<Span>) {
        if let Some(span) = value {
            self.text(key, &format!("{}s", span.secs()));
        }
    }

    fn mebibytes(&mut self, key: &str, value: Option<u64>) {
        if let Some(mib) = value {
            self.text(key, &format!("{mib}M"));
        }
    }

    fn list<'a>(&mut self, key: &str, words: impl Iterator<Item = &'a str>) {
        let words: Vec<String> = words.map(quoted).collect();
        self.plain(key, format!("[{}]", words.join(", ")));
    }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Letters, digits, `-` and `_`.
fn cluster_name(text: &str) -> String {
    let fine = |c: &char| c.is_ascii_alphanumeric() || "-_".contains(*c);
    let name: String = text.chars().filter(fine).collect();
    if name.is_empty() {
        "cluster".to_owned()
    } else {
        name
    }
}

fn cluster(out: &mut Out, cluster: &Cluster, admins: &BTreeSet<String>) {
    out.table("[cluster]");
    out.text("name", &cluster_name(&cluster.name));
    if !admins.is_empty() {
        out.list("admins", admins.iter().map(String::as_str));
    }
    if let Some(first) = cluster.first_job {
        out.plain("first_job_id", first);
    }
    out.table("\n[controller]");
    out.text("state_dir", "/var/lib/cosy");
    out.text("socket", "/run/cosy/cosyd.sock");
    out.table("\n[policy]");
    if cluster.no_backfill {
        out.plain("backfill", false);
    }
    out.seconds("grace", cluster.grace);
    out.seconds("batch_delay", cluster.batch_delay);
    out.seconds("node_timeout", cluster.node_timeout);
    out.seconds("keep_ended", cluster.keep_ended);
    if let Some(most) = cluster.max_array_tasks {
        out.plain("max_array_tasks", most);
    }
    out.text("visibility", if cluster.private { "own" } else { "all" });
    if !cluster.licenses.is_empty() {
        out.table("\n[licenses]");
    }
    for (name, count) in &cluster.licenses {
        out.plain(&quoted(name), count);
    }
}

fn node(out: &mut Out, node: &Node) {
    out.table("\n[[node]]");
    out.text("names", &node.names);
    // Memory and the rest count only beside cores.
    if let Some(cores) = node.cores {
        out.plain("cores", cores);
        out.mebibytes("memory", Some(node.memory.unwrap_or(1)));
        out.mebibytes("disk", (node.disk > 0).then_some(node.disk));
        if node.gpus > 0 {
            out.plain("gpus", node.gpus);
        }
        if !node.other.is_empty() {
            let each = |(name, n): (&String, &u64)| format!("{} = {n}", quoted(name));
            let all: Vec<String> = node.other.iter().map(each).collect();
            out.plain("other", format!("{{ {} }}", all.join(", ")));
        }
    }
    if !node.features.is_empty() {
        out.list("features", node.features.iter().map(String::as_str));
    }
}

fn queue(out: &mut Out, queue: &Queue, memory: Option<u64>) {
    out.table("\n[[queue]]");
    out.text("name", &queue.name);
    if queue.default {
        out.plain("default", true);
    }
    if queue.priority > 0 {
        out.plain("priority", queue.priority);
    }
    if let Some(nodes) = &queue.nodes {
        out.text("nodes", nodes);
    }
    if !queue.sets.is_empty() {
        out.list("sets", queue.sets.iter().map(String::as_str));
    }
    let limits = [
        ("max_time", queue.max_time),
        ("default_time", queue.default_time),
    ];
    for (key, limit) in limits {
        if let Some(limit) = limit {
            out.text(key, &limit.to_string());
        }
    }
    if let Some(most) = queue.max_nodes {
        out.plain("max_nodes", most);
    }
    out.mebibytes("max_memory", queue.max_memory);
    out.mebibytes("default_memory_per_core", queue.memory_per_core.or(memory));
    if queue.exclusive {
        out.plain("exclusive", true);
    }
    if queue.state != "open" {
        out.text("state", queue.state);
    }
    if queue.closed {
        out.table("\n[queue.access]");
        let each = |name: &String| format!("{} = \"allow\"", quoted(name));
        let groups: Vec<String> = queue.groups.iter().map(each).collect();
        if !groups.is_empty() {
            out.plain("groups", format!("{{ {} }}", groups.join(", ")));
        }
        out.text("others", "deny");
    }
}
