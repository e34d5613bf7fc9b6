//! The `cosy.toml` that is written: whole and anew, as every file of ours, so that `toml_edit`, which
//! changes a file and keeps the rest of it, has nothing to do here.

use super::node_sets::NodeSets;
use super::records::{
    Access, Admits, Billing, Cluster, Enforced, Members, Node, Power, Preemption, Priority, Queue,
    Rule,
};
use cosy_model::policy::PreemptMode;
use cosy_model::{Span, SwitchSpec, fold};
use std::collections::BTreeSet;
use std::fmt::Display;
use toml_writer::{ToTomlValue as _, TomlStringBuilder};

/// All tables in the order of `etc/cosy.toml`.
pub(super) fn text(
    cluster: &Cluster,
    nodes: &[Node],
    (sets, switches): (&NodeSets, &[SwitchSpec]),
    queues: &[Queue],
    admins: &BTreeSet<String>,
) -> String {
    let mut out = TomlOutput(String::new());
    self::cluster(&mut out, cluster, admins);
    for node in nodes {
        self::node(&mut out, node);
    }
    for (name, nodes) in sets.iter().filter(|(_, nodes)| !nodes.is_empty()) {
        out.table("\n[[node_set]]");
        out.text("name", name);
        out.text("nodes", &fold(nodes));
    }
    for switch in switches {
        out.table("\n[[switch]]");
        out.text("name", &switch.name);
        match switch.switches.is_empty() {
            true => out.text("nodes", &fold(&switch.nodes)),
            false => out.text("switches", &fold(&switch.switches)),
        }
    }
    for queue in queues {
        self::queue(&mut out, queue, cluster);
        access(&mut out, &queue.access, admins);
    }
    priority(&mut out, &cluster.priority);
    preemption(&mut out, &cluster.preemption);
    power(&mut out, &cluster.power);
    if let Some(path) = &cluster.lua {
        out.table("\n[submit]");
        out.text("lua", path);
    }
    rules(&mut out, &cluster.rules);
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

    fn plain_if(&mut self, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.plain(key, value);
        }
    }

    fn text_if(&mut self, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.text(key, &value.to_string());
        }
    }

    fn seconds(&mut self, key: &str, value: Option<Span>) {
        self.text_if(key, value.map(|span| format!("{}s", span.secs())));
    }

    /// `off` for what is never.
    fn switchable(&mut self, key: &str, value: Option<Option<Span>>) {
        match value {
            Some(None) => self.text(key, "off"),
            Some(after) => self.seconds(key, after),
            None => {}
        }
    }

    fn mebibytes(&mut self, key: &str, value: Option<u64>) {
        self.text_if(key, value.map(|mib| format!("{mib}M")));
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
    out.text("name", cluster_name(cluster));
    if !admins.is_empty() {
        out.list("admins", admins.iter().map(String::as_str));
    }
    out.plain_if("first_job_id", cluster.first_job);
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
    out.plain_if("max_requeues", cluster.max_requeues);
    out.seconds("max_switch_wait", cluster.switch_wait);
    out.seconds("keep_ended", cluster.keep_ended);
    out.plain_if("max_array_tasks", cluster.max_array_tasks);
    out.text("visibility", if cluster.private { "own" } else { "all" });
    enforced(out, &cluster.enforced);
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
    out.plain_if("weight", node.weight);
    if node.cloud {
        out.plain("cloud", true);
    }
    out.switchable("suspend_after", node.after);
}

/// What of the accounts binds jobs.
fn enforced(out: &mut TomlOutput, enforced: &Enforced) {
    let words = [
        ("associations", enforced.associations),
        ("limits", enforced.limits),
        ("qos", enforced.qos),
        ("safe", enforced.safe),
    ];
    let words = words.into_iter().filter(|(_, is)| *is);
    let words: Vec<&str> = words.map(|(word, _)| word).collect();
    if !words.is_empty() {
        out.list("enforce", words.into_iter());
    }
    // As Slurm does without the flag DenyOnLimit.
    if enforced.limits {
        out.plain("limits_pend", true);
    }
}

/// Nothing where no queue looks at it.
fn priority(out: &mut TomlOutput, priority: &Priority) {
    if !priority.orders() {
        return;
    }
    out.table("\n[priority]");
    match priority.half_life {
        Some(Span::ZERO) => out.text("half_life", "off"),
        half_life => out.seconds("half_life", half_life),
    }
    out.text_if("usage_reset", priority.reset);
    out.text_if("billing", priority.billing);
    out.seconds("period", priority.period);
    out.seconds("max_age", priority.max_age);
    let size = match (priority.favour_small, priority.relative_to_time) {
        (false, false) => None,
        (true, false) => Some("small"),
        (false, true) => Some("large-by-time"),
        (true, true) => Some("small-by-time"),
    };
    out.text_if("size_factor", size);
    if priority.classic {
        out.plain("classic_damping", priority.damping.unwrap_or(1));
    }
    out.table("\n[priority.weights]");
    for (name, weight) in &priority.weights {
        out.plain(name, weight);
    }
    if !priority.tres.is_empty() {
        let each = |(name, weight): (&String, &u32)| format!("{} = {weight}", quoted(name));
        let all: Vec<String> = priority.tres.iter().map(each).collect();
        out.plain("tres", format!("{{ {} }}", all.join(", ")));
    }
}

/// Nothing where nobody makes room.
fn preemption(out: &mut TomlOutput, preemption: &Preemption) {
    let Some(by) = preemption.by else {
        return;
    };
    out.table("\n[preemption]");
    out.list("by", [by].into_iter());
    out.text_if("mode", preemption.mode.map(PreemptMode::word));
    out.seconds("exempt", preemption.exempt);
    out.plain_if("exempt_priority", preemption.exempt_priority);
    if preemption.within {
        out.plain("within", true);
    }
    if preemption.own_signal {
        out.plain("own_signal", true);
    }
}

/// Nothing where nothing is switched.
fn power(out: &mut TomlOutput, power: &Power) {
    if power.suspend.is_none() {
        return;
    }
    out.table("\n[power]");
    let programs = [
        ("suspend_program", &power.suspend),
        ("resume_program", &power.resume),
        ("resume_fail_program", &power.failed),
    ];
    for (key, path) in programs {
        if let Some(path) = path {
            out.list(key, std::iter::once(path.as_str()));
        }
    }
    out.switchable("suspend_after", power.after);
    out.seconds("suspend_timeout", power.suspend_time);
    // What holds in Slurm where nothing is said.
    out.seconds("resume_timeout", power.resume_time.or(Some(Span::from_secs(60))));
    for (key, rate) in [
        ("suspend_rate", power.suspend_rate),
        ("resume_rate", power.resume_rate),
    ] {
        out.plain_if(key, rate);
    }
    for (key, names) in [("keep", &power.keep), ("keep_queues", &power.keep_queues)] {
        if !names.is_empty() {
            out.list(key, names.iter().map(String::as_str));
        }
    }
}

/// Rules at submission, which bind root and administrators too.
fn rules(out: &mut TomlOutput, rules: &[Rule]) {
    for rule in rules {
        out.table("");
        out.comment(&rule.comment);
        out.table("[[submit.rule]]");
        out.text("name", &rule.name);
        if !rule.when.is_empty() {
            out.text("when", &rule.when);
        }
        if !rule.require.is_empty() {
            out.text("require", &rule.require);
        }
        out.text("refuse", &rule.refuse);
    }
}

fn admits(out: &mut TomlOutput, admits: &Admits) {
    let lists = [
        ("allow_accounts", &admits.allow_accounts),
        ("deny_accounts", &admits.deny_accounts),
        ("allow_qos", &admits.allow_qos),
        ("deny_qos", &admits.deny_qos),
    ];
    for (key, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        out.list(key, list.iter().map(String::as_str));
    }
    out.text_if("qos", admits.qos.as_ref());
}

fn billing(out: &mut TomlOutput, billing: &Billing) {
    if *billing == Billing::default() {
        return;
    }
    out.table("\n[queue.billing]");
    let one = [
        ("core", &billing.core),
        ("memory_gib", &billing.memory_gib),
        ("node", &billing.node),
    ];
    for (key, weight) in one {
        out.plain_if(key, weight.as_ref());
    }
    if !billing.devices.is_empty() {
        let each = |(name, weight): (&String, &String)| format!("{} = {weight}", quoted(name));
        let all: Vec<String> = billing.devices.iter().map(each).collect();
        out.plain("devices", format!("{{ {} }}", all.join(", ")));
    }
}

fn queue(out: &mut TomlOutput, queue: &Queue, cluster: &Cluster) {
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
        out.text_if(key, limit);
    }
    out.plain_if("max_nodes", queue.max_nodes);
    out.mebibytes("max_memory", queue.max_memory);
    out.mebibytes("default_memory_per_core", queue.memory_per_core.or(cluster.memory_per_core));
    if queue.exclusive {
        out.plain("exclusive", true);
    }
    if queue.state != "open" {
        out.text("state", queue.state);
    }
    admits(out, &queue.admits);
    if cluster.priority.orders() {
        out.text("order", "weights");
    }
    if queue.factor > 0 {
        out.plain("priority_factor", queue.factor);
    }
    out.switchable("suspend_after", queue.after);
    billing(out, &queue.billing);
    if queue.preempt_mode.is_some() || queue.preempt_grace.is_some() {
        out.table("\n[queue.preemption]");
        out.text_if("mode", queue.preempt_mode.map(PreemptMode::word));
        out.seconds("grace", queue.preempt_grace);
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

/// The name that the configuration gives the cluster.
pub(super) fn cluster_name(cluster: &Cluster) -> &str {
    match cluster.name.as_str() {
        "" => "cluster",
        name => name,
    }
}
