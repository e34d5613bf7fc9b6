//! The `cosy.toml` that is written: whole and anew, as every file of ours, so that `toml_edit`, which
//! changes a file and keeps the rest of it, has nothing to do here.

use super::accounts::Accounts;
use super::node_sets::NodeSets;
use super::{Access, Cluster, Members, Node, Queue};
use cosy_model::{Span, fold};
use std::collections::BTreeSet;
use std::fmt::Display;
use toml_writer::{ToTomlValue as _, TomlStringBuilder};

/// All tables in the order of `etc/cosy.toml`.
pub(super) fn text(
    cluster: &Cluster,
    nodes: &[Node],
    sets: &NodeSets,
    queues: &[Queue],
    accounts: &Accounts,
) -> String {
    let mut out = TomlOutput(String::new());
    self::cluster(&mut out, cluster, &accounts.admins);
    for node in nodes {
        self::node(&mut out, node);
    }
    for (name, nodes) in sets.iter().filter(|(_, nodes)| !nodes.is_empty()) {
        out.table("\n[[node_set]]");
        out.text("name", name);
        out.text("nodes", &fold(nodes));
    }
    for queue in queues {
        self::queue(&mut out, queue, cluster.memory_per_core);
        access(&mut out, &queue.access, &accounts.admins);
    }
    for (name, members) in &accounts.members {
        out.table(&format!("\n[account.{}]", quoted(name)));
        if members.is_empty() {
            out.comment("No user can be named: only root may charge it.");
            out.list("members", ["root"].into_iter());
        } else {
            out.list("members", members.iter().map(String::as_str));
        }
    }
    out.0
}

struct TomlOutput(String);

impl TomlOutput {
    fn table(&mut self, title: &str) {
        self.0.push_str(title);
        self.0.push('\n');
    }

    fn comment(&mut self, text: &str) {
        let clean = text.chars().map(|c| if c.is_control() { '?' } else { c });
        let clean: String = clean.collect();
        self.0.push_str(&format!("# {clean}\n"));
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
pub(super) fn quoted(text: &str) -> String {
    TomlStringBuilder::new(text).as_basic().to_toml_value()
}

fn cluster(out: &mut TomlOutput, cluster: &Cluster, admins: &BTreeSet<String>) {
    out.table("[cluster]");
    out.text("name", super::cluster::name_of(cluster));
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
    if let Some(program) = &cluster.mail {
        let script = format!("exec {} -s \"$2\" \"$1\"", in_shell(program));
        out.list("mail_command", ["/bin/sh", "-c", &script, "mail"].into_iter());
    }
    if !cluster.licenses.is_empty() {
        out.table("\n[licenses]");
    }
    for (name, count) in &cluster.licenses {
        out.plain(&quoted(name), count);
    }
}

fn node(out: &mut TomlOutput, node: &Node) {
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

fn queue(out: &mut TomlOutput, queue: &Queue, memory: Option<u64>) {
    out.table("\n[[queue]]");
    out.text("name", &queue.name);
    if queue.default {
        out.plain("default", true);
    }
    if queue.priority > 0 {
        out.plain("priority", queue.priority);
    }
    match &queue.members {
        Members::All => {}
        Members::These(None, sets) => out.list("sets", sets.iter().map(String::as_str)),
        Members::These(Some(nodes), sets) => {
            out.text("nodes", nodes);
            if !sets.is_empty() {
                out.list("sets", sets.iter().map(String::as_str));
            }
        }
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
}

fn access(out: &mut TomlOutput, access: &Access, admins: &BTreeSet<String>) {
    let allowed = |names: &mut dyn Iterator<Item = &str>| {
        let each = names.map(|name| format!("{} = \"allow\"", quoted(name)));
        format!("{{ {} }}", each.collect::<Vec<String>>().join(", "))
    };
    let always = || {
        ["root"]
            .into_iter()
            .chain(admins.iter().map(String::as_str))
    };
    let table = |out: &mut TomlOutput| out.table("[queue.access]");
    match access {
        Access::Everybody => return,
        Access::Groups(groups) => {
            out.table("");
            table(out);
            if !groups.is_empty() {
                let names: BTreeSet<&str> = groups.iter().map(String::as_str).collect();
                out.plain("groups", allowed(&mut names.into_iter()));
            }
        }
        Access::Users(users) => {
            let names: BTreeSet<&str> = always().chain(users.iter().map(String::as_str)).collect();
            out.table("");
            table(out);
            out.plain("users", allowed(&mut names.into_iter()));
        }
        Access::Nobody(words) => {
            let names: BTreeSet<&str> = always().collect();
            out.table("");
            out.comment(&format!("In Slurm: {}.", words.join(" ")));
            out.comment("Only root and the administrators may use this queue until it is said here who may.");
            table(out);
            out.plain("users", allowed(&mut names.into_iter()));
        }
    }
    out.text("others", "deny");
}

/// A word that a shell takes as it is. Not shlex: it leaves quotes out where a word needs none,
/// and the file that is written looks alike for every program.
fn in_shell(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
