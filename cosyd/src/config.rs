//! `cosy.toml`: reading it, and saying every fault with file and line.

mod accounts;
mod licenses;
mod presets;
mod quotas;
mod reservations;
#[cfg(test)]
mod reservations_tests;
mod values;

pub use cosy_config::Faults;
use cosy_config::{Check, Size};
use cosy_control::{ClusterConfig, PolicyConfig, ReservationPolicy, Visibility};
use cosy_model::{
    AccessLevel, Amounts, Counted, JobId, NodeSpec, QueueSpec, QueueState, Relay, Span, Uid, limits,
};
use cosy_sched::Depth;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use toml::Spanned;

/// What the daemon itself needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonConfig {
    /// Where the database and keys are.
    pub state_dir: PathBuf,
    /// Where commands connect.
    pub socket: PathBuf,
    /// Where nodes connect.
    pub listen: String,
    /// Private key file.
    pub key: PathBuf,
    /// Log filter.
    pub log: String,
    /// Program that looks users up, instead of the system's directory.
    pub lookup_command: Option<Vec<String>>,
    /// Program that sends mail: called with recipient and subject.
    pub mail_command: Option<Vec<String>>,
    /// Most connections of one user to the local socket.
    pub connections_per_user: u64,
}

impl DaemonConfig {
    /// Keys whose values differ in another configuration. All of them take effect with a
    /// restart only.
    pub fn changed(&self, new: &Self) -> Vec<&'static str> {
        let Self {
            state_dir,
            socket,
            listen,
            key,
            log,
            lookup_command,
            mail_command,
            connections_per_user,
        } = self;
        let each = [
            ("[controller] state_dir", *state_dir != new.state_dir),
            ("[controller] socket", *socket != new.socket),
            ("[controller] listen", *listen != new.listen),
            ("[controller] key", *key != new.key),
            ("[controller] log", *log != new.log),
            (
                "[controller] connections_per_user",
                *connections_per_user != new.connections_per_user,
            ),
            (
                "[users] lookup_command",
                *lookup_command != new.lookup_command,
            ),
            ("[policy] mail_command", *mail_command != new.mail_command),
        ];
        let changed = each.into_iter().filter(|(_, changed)| *changed);
        changed.map(|(key, _)| key).collect()
    }
}

/// Everything in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// For the daemon.
    pub daemon: DaemonConfig,
    /// For the controller.
    pub cluster: ClusterConfig,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cluster: Option<Cluster>,
    controller: Controller,
    #[serde(default)]
    policy: Policy,
    #[serde(default)]
    users: Users,
    #[serde(default)]
    node: Vec<Node>,
    #[serde(default)]
    node_set: Vec<NodeSet>,
    #[serde(default)]
    queue: Vec<Queue>,
    #[serde(default)]
    reservations: reservations::Table,
    #[serde(default)]
    account: accounts::Tables,
    #[serde(default)]
    licenses: licenses::Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cluster {
    name: Option<Spanned<String>>,
    #[serde(default)]
    admins: Vec<String>,
    first_job_id: Option<Spanned<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Controller {
    state_dir: PathBuf,
    socket: PathBuf,
    listen: Option<Spanned<String>>,
    key: Option<PathBuf>,
    log: Option<String>,
    connections_per_user: Option<Spanned<u64>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Policy {
    backfill: Option<bool>,
    backfill_depth: Option<Spanned<toml::Value>>,
    heartbeat: Option<Spanned<String>>,
    node_timeout: Option<Spanned<String>>,
    self_fencing: Option<bool>,
    clock_skew: Option<Spanned<String>>,
    grace: Option<Spanned<String>>,
    keep_ended: Option<Spanned<String>>,
    user_ttl: Option<Spanned<String>>,
    max_array_tasks: Option<Spanned<u32>>,
    max_jobs_per_user: Option<u32>,
    visibility: Option<Spanned<String>>,
    clearance: Option<Spanned<String>>,
    interactive_per_user: Option<u32>,
    attend_grace: Option<Spanned<String>>,
    batch_delay: Option<Spanned<String>>,
    mail_command: Option<Vec<String>>,
    #[serde(default)]
    end_if_never: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Users {
    lookup_command: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    names: Spanned<String>,
    cores: Option<Spanned<u32>>,
    memory: Option<Spanned<Size>>,
    disk: Option<Spanned<Size>>,
    gpus: Option<u32>,
    #[serde(default)]
    other: BTreeMap<String, u32>,
    #[serde(default)]
    features: Vec<String>,
    #[serde(default)]
    login: bool,
    relay: Option<Spanned<toml::Value>>,
    key: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeSet {
    name: Spanned<String>,
    nodes: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Queue {
    name: Spanned<String>,
    #[serde(default)]
    default: bool,
    #[serde(default)]
    priority: i32,
    nodes: Option<Spanned<String>>,
    sets: Option<Vec<Spanned<String>>>,
    max_time: Option<Spanned<String>>,
    default_time: Option<Spanned<String>>,
    max_nodes: Option<u32>,
    max_memory: Option<Spanned<Size>>,
    max_disk: Option<Spanned<Size>>,
    max_jobs: Option<u32>,
    max_jobs_per_user: Option<u32>,
    default_memory_per_core: Option<Spanned<Size>>,
    #[serde(default)]
    exclusive: bool,
    mpi: Option<Spanned<String>>,
    state: Option<Spanned<String>>,
    #[serde(default)]
    access: Access,
    reservations: Option<reservations::Table>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Access {
    #[serde(default)]
    users: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    groups: BTreeMap<String, Spanned<String>>,
    others: Option<Spanned<String>>,
}

/// A node is counted on to be clean so long after the last process of a job was killed.
const CLEANING: Span = Span::from_secs(2);
fn level(check: &mut Check<'_>, text: &Spanned<String>) -> AccessLevel {
    match text.get_ref().as_str() {
        "prefer" => AccessLevel::Prefer,
        "allow" => AccessLevel::Allow,
        "defer" => AccessLevel::Defer,
        "deny" => AccessLevel::Deny,
        other => {
            let what = format!("'{other}' is no access level: use prefer, allow, defer or deny");
            check.fault(text.span().start, what);
            AccessLevel::Deny
        }
    }
}

/// Reads and checks a configuration file.
///
/// # Errors
/// [`Faults`]: every fault found.
pub fn read(path: &Path) -> Result<Config, Faults> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Faults(vec![format!("{}: {e}", path.display())]))?;
    parse(path, &text)
}

/// Checks the text of a configuration file.
///
/// # Errors
/// [`Faults`]: every fault found.
pub fn parse(path: &Path, text: &str) -> Result<Config, Faults> {
    let mut check = Check::new(path, text, &SEVERAL);
    let Some(file) = check.understood::<File>() else {
        return Err(check.told());
    };
    let nodes = nodes(&mut check, &file.node);
    let known: BTreeSet<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
    let sets = sets(&mut check, &file.node_set, &known);
    let queues = queues(&mut check, &file.queue, &known, &sets);
    let default_queue = default_queue(&mut check, &file.queue);
    let (reservations, queue_reservations) = reservation_rules(&mut check, &file);
    let cluster = ClusterConfig {
        name: cluster_name(&mut check, file.cluster.as_ref()),
        first_job: first_job(&mut check, file.cluster.as_ref()),
        admins: file.cluster.map(|c| c.admins).unwrap_or_default(),
        host: nix::unistd::gethostname()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        file: path.display().to_string(),
        mails: file.policy.mail_command.is_some(),
        controller_uid: Uid(nix::unistd::getuid().as_raw()),
        nodes,
        sets,
        queues,
        default_queue,
        policy: policy(&mut check, &file.policy),
        reservations,
        queue_reservations,
        accounts: accounts::read(&mut check, &file.account),
        licenses: licenses::read(&mut check, &file.licenses),
        end_if_never: file.policy.end_if_never,
    };
    let daemon = daemon(&mut check, file.controller, file.policy, file.users);
    if check.is_good() {
        Ok(Config { daemon, cluster })
    } else {
        Err(check.told())
    }
}

/// Tables of which there can be several.
const SEVERAL: [&str; 3] = ["node", "node_set", "queue"];

fn cluster_name(check: &mut Check<'_>, cluster: Option<&Cluster>) -> String {
    let Some(name) = cluster.and_then(|c| c.name.as_ref()) else {
        return "cosy".to_owned();
    };
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.get_ref().is_empty() || !name.get_ref().chars().all(fine) {
        check.fault(
            name.span().start,
            "a cluster's name has letters, digits, '-' and '_' only",
        );
    }
    name.get_ref().clone()
}

fn first_job(check: &mut Check<'_>, cluster: Option<&Cluster>) -> JobId {
    let Some(id) = cluster.and_then(|c| c.first_job_id.as_ref()) else {
        return JobId(1);
    };
    if !(1..=limits::FIRST_JOB).contains(id.get_ref()) {
        let most = limits::FIRST_JOB;
        check.fault(
            id.span().start,
            format!("first_job_id must be between 1 and {most}"),
        );
    }
    JobId(*id.get_ref())
}

fn nodes(check: &mut Check<'_>, tables: &[Node]) -> Vec<NodeSpec> {
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
                login: table.login,
                relay: relay.clone(),
                key: table.key.as_ref().map(|k| k.get_ref().to_ascii_lowercase()),
            });
        }
    }
    if nodes.len() > limits::NODES {
        check.fault(0, format!("more than {} nodes", limits::NODES));
    }
    nodes
}

/// Whose requests the node may pass on.
fn node_relay(check: &mut Check<'_>, value: Option<&Spanned<toml::Value>>) -> Relay {
    let Some(value) = value else {
        return Relay::default();
    };
    let names = |list: &Vec<toml::Value>| {
        let name = |v: &toml::Value| v.as_str().filter(|t| !t.is_empty()).map(str::to_owned);
        list.iter().map(name).collect::<Option<Vec<String>>>()
    };
    let read = match value.get_ref() {
        toml::Value::String(word) => match word.as_str() {
            "all" => Some(Relay::All),
            "users" => Some(Relay::Users),
            "none" => Some(Relay::Nobody),
            _ => None,
        },
        toml::Value::Array(list) => names(list).map(Relay::Only),
        _ => None,
    };
    if read.is_none() {
        check.fault(
            value.span().start,
            "relay is \"all\", \"users\", \"none\" or a list of users and @groups like [\"ann\", \"@staff\"]",
        );
    }
    // What cannot be read lets nobody through.
    read.unwrap_or(Relay::Nobody)
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
    let mut other = Counted::default();
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

fn sets(
    check: &mut Check<'_>,
    tables: &[NodeSet],
    known: &BTreeSet<&str>,
) -> BTreeMap<String, Vec<String>> {
    let mut sets = BTreeMap::new();
    for table in tables {
        let nodes = known_hosts(check, &table.nodes, known);
        let name = table.name.get_ref().clone();
        if sets.insert(name.clone(), nodes).is_some() {
            check.fault(
                table.name.span().start,
                format!("node set {name} is there twice"),
            );
        }
    }
    sets
}

fn known_hosts(
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

fn queues(
    check: &mut Check<'_>,
    tables: &[Queue],
    known: &BTreeSet<&str>,
    sets: &BTreeMap<String, Vec<String>>,
) -> Vec<QueueSpec> {
    let mut seen = BTreeSet::new();
    let mut queues = Vec::new();
    for table in tables {
        let at = table.name.span().start;
        let name = table.name.get_ref();
        let odd = |c: char| c.is_whitespace() || c.is_control() || c == ',';
        if name.is_empty() || name.len() > limits::NAME_BYTES || name.contains(odd) {
            check.fault(
                at,
                "a queue's name must not be empty nor have spaces or commas",
            );
        }
        if !seen.insert(name.clone()) {
            check.fault(at, format!("queue {name} is there twice"));
        }
        queues.push(queue(check, table, known, sets));
    }
    if queues.is_empty() {
        check.fault(0, "no queue is configured: add a [[queue]]");
    }
    queues
}

fn queue(
    check: &mut Check<'_>,
    table: &Queue,
    known: &BTreeSet<&str>,
    sets: &BTreeMap<String, Vec<String>>,
) -> QueueSpec {
    let max_time = table.max_time.as_ref().and_then(|t| check.parse(t));
    let default_time: Option<Span> = table.default_time.as_ref().and_then(|t| check.parse(t));
    if let (Some(max), Some(default), Some(text)) = (max_time, default_time, &table.default_time)
        && default > max
    {
        check.fault(text.span().start, "default_time is longer than max_time");
    }
    let users = levels(check, &table.access.users);
    let groups = levels(check, &table.access.groups);
    let others = table.access.others.as_ref().map(|t| level(check, t));
    QueueSpec {
        name: table.name.get_ref().clone(),
        priority: table.priority,
        nodes: queue_nodes(check, table, known, sets),
        max_time,
        default_time,
        max_nodes: table.max_nodes,
        max_memory: check.size(table.max_memory.as_ref()),
        max_disk: check.size(table.max_disk.as_ref()),
        max_jobs: table.max_jobs,
        max_jobs_per_user: table.max_jobs_per_user,
        default_memory_per_core: check.size(table.default_memory_per_core.as_ref()),
        exclusive: table.exclusive,
        users,
        groups,
        mpi: mpi(check, table.mpi.as_ref()),
        others: others.unwrap_or_default(),
        state: queue_state(check, table.state.as_ref()),
    }
}

fn mpi(check: &mut Check<'_>, name: Option<&Spanned<String>>) -> Option<String> {
    let name = name?;
    if let Err(why) = cosy_model::job::check_plugin(name.get_ref()) {
        check.fault(name.span().start, why);
    }
    Some(name.get_ref().clone())
}

fn levels(
    check: &mut Check<'_>,
    table: &BTreeMap<String, Spanned<String>>,
) -> BTreeMap<String, AccessLevel> {
    table
        .iter()
        .map(|(name, text)| (name.clone(), level(check, text)))
        .collect()
}

fn queue_nodes(
    check: &mut Check<'_>,
    table: &Queue,
    known: &BTreeSet<&str>,
    sets: &BTreeMap<String, Vec<String>>,
) -> Option<Vec<String>> {
    if table.nodes.is_none() && table.sets.is_none() {
        return None;
    }
    let mut names = Vec::new();
    if let Some(list) = &table.nodes {
        names.extend(known_hosts(check, list, known));
    }
    for set in table.sets.iter().flatten() {
        match sets.get(set.get_ref()) {
            Some(nodes) => names.extend(nodes.iter().cloned()),
            None => {
                let what = format!("there is no node set '{}'", set.get_ref());
                check.fault(set.span().start, what);
            }
        }
    }
    Some(names)
}

fn queue_state(check: &mut Check<'_>, text: Option<&Spanned<String>>) -> QueueState {
    match text.map(|t| t.get_ref().as_str()) {
        None | Some("open") => QueueState::Open,
        Some("drained") => QueueState::Drained,
        Some("stopped") => QueueState::Stopped,
        Some("closed") => QueueState::Closed,
        Some(other) => {
            let at = text.map_or(0, |t| t.span().start);
            check.fault(
                at,
                format!("'{other}' is no queue state: use open, drained, stopped or closed"),
            );
            QueueState::Closed
        }
    }
}

fn default_queue(check: &mut Check<'_>, tables: &[Queue]) -> Option<String> {
    let mut defaults = tables.iter().filter(|q| q.default);
    let first = defaults.next();
    for more in defaults {
        check.fault(
            more.name.span().start,
            "a second default queue: only one can be",
        );
    }
    match (first, tables) {
        (Some(queue), _) => Some(queue.name.get_ref().clone()),
        (None, [only]) => Some(only.name.get_ref().clone()),
        (None, _) => None,
    }
}

/// The cluster's rules, and those of queues that have rules of their own.
fn reservation_rules(
    check: &mut Check<'_>,
    file: &File,
) -> (ReservationPolicy, BTreeMap<String, ReservationPolicy>) {
    let names: BTreeSet<&str> = file
        .queue
        .iter()
        .map(|q| q.name.get_ref().as_str())
        .collect();
    let mut cluster = reservations::Rules::default();
    cluster.lay(check, &file.reservations, &names);
    let mut queues = BTreeMap::new();
    for queue in &file.queue {
        if let Some(table) = &queue.reservations {
            let mut rules = cluster.clone();
            rules.lay(check, table, &names);
            queues.insert(queue.name.get_ref().clone(), rules.finished());
        }
    }
    (cluster.finished(), queues)
}

fn policy(check: &mut Check<'_>, table: &Policy) -> PolicyConfig {
    let standard = PolicyConfig::default();
    let max_array_tasks = match &table.max_array_tasks {
        Some(n) if *n.get_ref() == 0 || *n.get_ref() > limits::ARRAY_INDEX => {
            check.fault(
                n.span().start,
                format!(
                    "max_array_tasks must be between 1 and {}",
                    limits::ARRAY_INDEX
                ),
            );
            standard.max_array_tasks
        }
        Some(n) => *n.get_ref(),
        None => standard.max_array_tasks,
    };
    let visibility = match &table.visibility {
        None => Visibility::Own,
        Some(text) => match text.get_ref().as_str() {
            "own" => Visibility::Own,
            "all" => Visibility::States,
            "everything" => Visibility::Everything,
            _ => {
                check.fault(
                    text.span().start,
                    "visibility must be \"own\", \"all\" or \"everything\"",
                );
                Visibility::Own
            }
        },
    };
    let grace = check.span(table.grace.as_ref(), standard.grace);
    let policy = PolicyConfig {
        backfill: table.backfill.unwrap_or(standard.backfill),
        depth: depth(check, table.backfill_depth.as_ref()),
        heartbeat: check.span(table.heartbeat.as_ref(), standard.heartbeat),
        node_timeout: check.span(table.node_timeout.as_ref(), standard.node_timeout),
        self_fencing: table.self_fencing.unwrap_or(standard.self_fencing),
        clock_skew: clock_skew(check, table.clock_skew.as_ref(), standard.clock_skew),
        grace,
        max_array_tasks,
        max_jobs_per_user: table
            .max_jobs_per_user
            .unwrap_or(standard.max_jobs_per_user),
        keep_ended: check.span(table.keep_ended.as_ref(), standard.keep_ended),
        user_ttl: check.span(table.user_ttl.as_ref(), standard.user_ttl),
        visibility,
        clearance: check.span(table.clearance.as_ref(), grace + CLEANING),
        interactive_per_user: table
            .interactive_per_user
            .unwrap_or(standard.interactive_per_user),
        attend_grace: check.span(table.attend_grace.as_ref(), standard.attend_grace),
        batch_delay: batch_delay(check, table.batch_delay.as_ref(), standard.batch_delay),
    };
    if policy.node_timeout <= policy.heartbeat || policy.heartbeat <= Span::ZERO {
        let at = table.node_timeout.as_ref().or(table.heartbeat.as_ref());
        let at = at.map_or(0, |t| t.span().start);
        check.fault(
            at,
            "node_timeout must be longer than heartbeat, and heartbeat longer than 0",
        );
    }
    policy
}

fn clock_skew(check: &mut Check<'_>, text: Option<&Spanned<String>>, standard: Span) -> Span {
    let skew = check.span(text, standard);
    if let Some(text) = text
        && skew < limits::LEAST_CLOCK_SKEW
    {
        let least = limits::LEAST_CLOCK_SKEW.secs();
        check.fault(
            text.span().start,
            format!(
                "clock_skew is at least {least} s: what a node tells may be under way that long"
            ),
        );
    }
    skew
}

fn batch_delay(check: &mut Check<'_>, text: Option<&Spanned<String>>, standard: Span) -> Span {
    let delay = check.span(text, standard);
    if let Some(text) = text
        && delay > limits::BATCH_DELAY
    {
        let most = limits::BATCH_DELAY.secs();
        check.fault(
            text.span().start,
            format!("batch_delay is at most {most} s: every batch job waits so long"),
        );
    }
    delay
}

fn depth(check: &mut Check<'_>, value: Option<&Spanned<toml::Value>>) -> Depth {
    let Some(value) = value else {
        return Depth::Count(1);
    };
    match value.get_ref() {
        toml::Value::String(s) if s == "all" => Depth::All,
        toml::Value::Integer(n) if (0..=1_000_000).contains(n) => Depth::Count(*n as u32),
        _ => {
            check.fault(
                value.span().start,
                "backfill_depth must be a number from 0 on, or \"all\"",
            );
            Depth::Count(1)
        }
    }
}

fn daemon(check: &mut Check<'_>, table: Controller, policy: Policy, users: Users) -> DaemonConfig {
    let listen = match &table.listen {
        Some(text) => {
            if text
                .get_ref()
                .rsplit_once(':')
                .and_then(|(_, p)| p.parse::<u16>().ok())
                .is_none()
            {
                check.fault(text.span().start, "listen must be ADDRESS:PORT");
            }
            text.get_ref().clone()
        }
        None => "0.0.0.0:7817".to_owned(),
    };
    for (name, command) in [
        ("lookup_command", &users.lookup_command),
        ("mail_command", &policy.mail_command),
    ] {
        let relative = |c: &Vec<String>| c.first().is_none_or(|p| !p.starts_with('/'));
        if command.as_ref().is_some_and(relative) {
            check.fault(0, format!("{name} must start with a whole path"));
        }
    }
    let connections_per_user = match &table.connections_per_user {
        Some(n) if !(1..=limits::CONNECTIONS_PER_USER).contains(n.get_ref()) => {
            let most = limits::CONNECTIONS_PER_USER;
            let what = format!("connections_per_user must be between 1 and {most}");
            check.fault(n.span().start, what);
            1
        }
        Some(n) => *n.get_ref(),
        None => 256,
    };
    DaemonConfig {
        connections_per_user,
        key: table
            .key
            .unwrap_or_else(|| table.state_dir.join("cosyd.key")),
        state_dir: table.state_dir,
        socket: table.socket,
        listen,
        log: table.log.unwrap_or_else(|| "info".to_owned()),
        lookup_command: users.lookup_command,
        mail_command: policy.mail_command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[cluster]
name = "lab"
admins = ["ann", "@ops"]
[controller]
state_dir = "/s"
socket = "/s/sock"
[[node]]
names = "n[1-4]"
cores = 8
memory = "16G"
[[node_set]]
name = "fast"
nodes = "n[1-2]"
[[queue]]
name = "day"
priority = 10
sets = ["fast"]
max_time = "1h"
default = true
[queue.access]
users = { bob = "deny" }
[[queue]]
name = "night"
"#;

    #[test]
    fn entries_that_do_not_fit_are_all_told() {
        let check = |more: &str, lines: &[usize]| {
            let text = format!("{GOOD}{more}");
            let faults = parse(Path::new("x"), &text).unwrap_err().0;
            let base = GOOD.lines().count();
            let want: Vec<String> = lines.iter().map(|n| format!("x:{}:", base + n)).collect();
            assert_eq!(faults.len(), want.len(), "{more}: {faults:?}");
            for (fault, want) in faults.iter().zip(&want) {
                assert!(fault.starts_with(want), "{more}: {faults:?}");
            }
        };
        check("shape = 1\nmax_time = 'soon'\nsize = 2\n", &[1, 2, 3]);
        check("max_jobs = 'x'\ncolour = 1", &[1, 2]);
        check("[[node]]\nx = 1\n", &[1, 2]);
        check("nodes = [\n'a'\n]\n", &[1]);
        check("a = = 1\nb = 2\n", &[1, 2]);
        check("[[queue", &[1]);
    }

    #[test]
    fn good() {
        let config = parse(Path::new("x"), GOOD).unwrap();
        let day = &config.cluster.queues[0];
        assert_eq!(
            day.nodes.as_deref(),
            Some(["n1".to_owned(), "n2".to_owned()].as_slice())
        );
        assert_eq!(day.users["bob"], AccessLevel::Deny);
        assert_eq!(config.cluster.default_queue.as_deref(), Some("day"));
        assert_eq!(config.cluster.nodes.len(), 4);
        assert_eq!(config.cluster.first_job, JobId(1));
        assert_eq!(config.cluster.policy.batch_delay, Span::ZERO);
    }

    #[test]
    fn every_fault_has_its_line() {
        let check = |from: &str, to: &str, want: &str| {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD, "{from}");
            let faults = parse(Path::new("x"), &text).unwrap_err().0;
            assert!(
                faults.iter().any(|f| f.contains(want)),
                "{faults:?} lacks {want}"
            );
        };
        check("max_time = \"1h\"", "max_time = \"soon\"", "x:19: 'soon'");
        check("cores = 8", "coors = 8", "x:10: unknown field");
        check("cores = 8", "coors = 8", "did you mean `cores`?");
        check("[[queue]]", "[queue]", "write [[queue]] instead of [queue]");
        check(
            "[[node]]",
            "[node]",
            "x:8: write [[node]] instead of [node]",
        );
        check(
            "name = \"lab\"",
            "first_job_id = 0",
            "x:3: first_job_id must be between 1 and",
        );
        check(
            "[[node]]",
            "[policy]\nbatch_delay = \"2h\"\n[[node]]",
            "x:9: batch_delay is at most 3600 s",
        );
        check(
            "nodes = \"n[1-2]\"",
            "nodes = \"n9\"",
            "x:14: there is no node 'n9'",
        );
        check(
            "\"deny\"",
            "\"denied\"",
            "x:22: 'denied' is no access level",
        );
        check("n[1-4]", "n[1-1000000000]", "x:9:");
        check("memory = \"16G\"", "memory = \"lots\"", "x:11: 'lots'");
        check(
            "name = \"night\"",
            "name = \"day\"",
            "x:24: queue day is there twice",
        );
    }

    #[test]
    fn several_faults_at_once() {
        let text = GOOD.replace("1h", "soon").replace("16G", "lots");
        assert_eq!(parse(Path::new("x"), &text).unwrap_err().0.len(), 2);
    }
}
