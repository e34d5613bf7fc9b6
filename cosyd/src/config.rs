//! `cosy.toml`: reading it, and saying every fault with file and line.

mod accounts;
mod controllers;
#[cfg(test)]
mod fixture;
mod licenses;
mod nodes;
mod policy;
mod power;
mod preemption;
mod presets;
mod priority;
mod queues;
mod quotas;
mod reservations;
#[cfg(test)]
mod reservations_tests;
mod store;
mod submit;
mod switches;
mod values;
mod web;

use crate::archiver::Retention;
use crate::store::Location;
use crate::submit::{SubmitPolicy, load};
use controllers::Controller;
pub use controllers::ControllerEntry;
pub use cosy_config::Faults;
use cosy_config::{Check, Size};
use cosy_control::{ClusterConfig, ReservationPolicy};
use cosy_model::policy::Enforce;
use cosy_model::{JobId, Uid, limits, text};
use nodes::{Node, NodeSet, nodes, sets};
use policy::{Policy, policy};
use queues::{Queue, admitted_is_enforced, default_queue, queues};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
pub use store::{Durability, StoreServer};
use switches::{Switch, switches};
use toml::Spanned;

/// What the daemon itself needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonConfig {
    /// Where the database and keys are.
    pub state_dir: PathBuf,
    /// Path of the socket for commands.
    pub socket: PathBuf,
    /// Address and port for nodes.
    pub listen: String,
    /// Private key file.
    pub key: PathBuf,
    /// Which messages are logged: a level, or levels by part of the program.
    pub log: String,
    /// Program that looks users up, instead of the system's directory.
    pub lookup_command: Option<Vec<String>>,
    /// Program that sends mail: called with recipient and subject.
    pub mail_command: Option<Vec<String>>,
    /// Most connections of one user to the local socket.
    pub connections_per_user: u64,
    /// Bytes of memory that the daemon may have; `None` is no limit.
    pub memory_limit: Option<u64>,
    /// The server that has the state, if it is not in a file.
    pub postgres: Option<StoreServer>,
    /// All controllers of the cluster; none where there is only this one.
    pub controllers: Vec<ControllerEntry>,
    /// Which one of them this is.
    pub own: Option<usize>,
}

impl DaemonConfig {
    /// Where the state is.
    pub fn database(&self) -> Location {
        match &self.postgres {
            Some(server) => Location::Postgres {
                place: server.place.clone(),
                fence: None,
            },
            None => Location::Sqlite(self.state_dir.join("cosy.db")),
        }
    }

    /// This controller among those that there are.
    pub fn own_entry(&self) -> Option<&ControllerEntry> {
        self.own.and_then(|at| self.controllers.get(at))
    }

    /// Keys whose values differ in another configuration and take effect with a restart only.
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
            memory_limit: _,
            postgres,
            controllers,
            own: _,
        } = self;
        let each = [
            ("[controller] state_dir", *state_dir != new.state_dir),
            ("[controller] socket", *socket != new.socket),
            ("[controller] listen", *listen != new.listen),
            ("[controller] key", *key != new.key),
            ("[controller] log", *log != new.log),
            ("[store]", *postgres != new.postgres),
            ("[[controller]]", *controllers != new.controllers),
            (
                "[controller] connections_per_user",
                *connections_per_user != new.connections_per_user,
            ),
            ("[users] lookup_command", *lookup_command != new.lookup_command),
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
    /// Rules at submission; `None` without `[submit]`.
    pub submit: Option<Arc<SubmitPolicy>>,
    /// How long history is kept.
    pub retention: Retention,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cluster: Option<Cluster>,
    controller: controllers::Controllers,
    #[serde(default)]
    policy: Policy,
    #[serde(default)]
    priority: priority::Table,
    #[serde(default)]
    preemption: preemption::Table,
    #[serde(default)]
    power: power::Table,
    #[serde(default)]
    users: Users,
    #[serde(default)]
    node: Vec<Node>,
    #[serde(default)]
    node_set: Vec<NodeSet>,
    #[serde(default)]
    switch: Vec<Switch>,
    #[serde(default)]
    queue: Vec<Queue>,
    #[serde(default)]
    reservations: reservations::Table,
    #[serde(default)]
    account: accounts::Tables,
    #[serde(default)]
    licenses: licenses::Table,
    submit: Option<submit::Table>,
    store: Option<store::Table>,
    web: Option<web::Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cluster {
    name: Option<Spanned<String>>,
    #[serde(default)]
    admins: Vec<String>,
    first_job_id: Option<Spanned<u64>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Users {
    lookup_command: Option<Vec<String>>,
}

/// Reads and checks a configuration file, and the script in Lua that it names.
///
/// # Errors
/// [`Faults`]: every fault found.
pub fn read(path: &Path) -> Result<Config, Faults> {
    read_as(path, None)
}

/// The same for the controller of that name.
///
/// # Errors
/// [`Faults`]: every fault found.
pub fn read_as(path: &Path, name: Option<&str>) -> Result<Config, Faults> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Faults(vec![format!("{}: {e}", path.display())]))?;
    let mut config = parse_as(path, &text, name)?;
    if let Some(policy) = &mut config.submit {
        load(Arc::make_mut(policy)).map_err(|fault| Faults(vec![fault]))?;
    }
    Ok(config)
}

/// Checks the text of a configuration file.
///
/// # Errors
/// [`Faults`]: every fault found.
pub fn parse(path: &Path, text: &str) -> Result<Config, Faults> {
    parse_as(path, text, None)
}

fn parse_as(path: &Path, text: &str, name: Option<&str>) -> Result<Config, Faults> {
    let mut check = Check::new(path, text, &SEVERAL);
    let Some(file) = check.deserialize::<File>() else {
        return Err(check.into_faults());
    };
    let nodes = nodes(&mut check, &file.node);
    let known: BTreeSet<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
    let sets = sets(&mut check, &file.node_set, &known);
    let queues = queues(&mut check, &file.queue, &known, &sets);
    let default_queue = default_queue(&mut check, &file.queue);
    let (reservations, queue_reservations) = reservation_rules(&mut check, &file);
    let priority = file.queue.iter().map(Queue::priority);
    let priority = priority::read(&mut check, &file.priority, priority);
    let cluster = ClusterConfig {
        power: power::read(&mut check, &file.power, &around(&file, &nodes, &queues)),
        enforce: enforced(&mut check, &file),
        name: cluster_name(&mut check, file.cluster.as_ref()),
        first_job: first_job(&mut check, file.cluster.as_ref()),
        admins: file.cluster.map(|c| c.admins).unwrap_or_default(),
        host: controllers::host_name(),
        file: path.display().to_string(),
        mails: file.policy.mail_command.is_some(),
        controller_uid: Uid(nix::unistd::getuid().as_raw()),
        web: web::read(&mut check, file.web),
        switches: switches(&mut check, &file.switch, &known),
        nodes,
        sets,
        queues,
        default_queue,
        policy: policy(&mut check, &file.policy),
        preemption: preemption::read(
            &mut check,
            &file.preemption,
            file.queue.iter().map(Queue::preemption),
        ),
        reservations,
        queue_reservations,
        accounts: accounts::read(&mut check, &file.account),
        licenses: licenses::read(&mut check, &file.licenses),
        license_times: licenses::times(&mut check, &file.licenses, &priority.zone),
        priority,
        end_if_never: file.policy.end_if_never,
    };
    reservations::preempt_has_effect(&mut check, &file.reservations, None, &cluster);
    for queue in &file.queue {
        if let Some(table) = &queue.reservations {
            let name = Some(queue.name.get_ref().as_str());
            reservations::preempt_has_effect(&mut check, table, name, &cluster);
        }
    }
    let retention = policy::retention(&mut check, &file.policy, cluster.policy.keep_ended);
    let submit = submit::read(&mut check, file.submit.as_ref()).map(Arc::new);
    let server = store::read(&mut check, file.store.as_ref());
    let own = controllers::own(&mut check, file.controller, name);
    let daemon = own.map(|(own, at, controllers)| DaemonConfig {
        own: at,
        postgres: server,
        controllers,
        ..daemon(&mut check, own, file.policy, file.users)
    });
    match daemon {
        Some(daemon) if check.is_good() => Ok(Config {
            daemon,
            cluster,
            submit,
            retention,
        }),
        _ => Err(check.into_faults()),
    }
}

/// What decides about the power of nodes beside `[power]`.
fn around<'a>(
    file: &'a File,
    nodes: &'a [cosy_model::NodeSpec],
    queues: &'a [cosy_model::QueueSpec],
) -> power::Around<'a> {
    power::Around {
        node_tables: &file.node,
        nodes,
        queue_tables: &file.queue,
        queues,
    }
}

/// What of the policy binds jobs.
fn enforced(check: &mut Check<'_>, file: &File) -> Enforce {
    let enforce = policy::enforce(check, &file.policy);
    admitted_is_enforced(check, &file.queue, enforce);
    enforce
}

/// Tables of which there can be several.
const SEVERAL: [&str; 5] = ["node", "node_set", "switch", "queue", "submit.rule"];

fn cluster_name(check: &mut Check<'_>, cluster: Option<&Cluster>) -> String {
    let Some(name) = cluster.and_then(|c| c.name.as_ref()) else {
        return "cosy".to_owned();
    };
    if !text::is_word(name.get_ref()) {
        check.fault(name.span().start, "a cluster's name has letters, digits, '-' and '_' only");
    }
    name.get_ref().clone()
}

fn first_job(check: &mut Check<'_>, cluster: Option<&Cluster>) -> JobId {
    let Some(id) = cluster.and_then(|c| c.first_job_id.as_ref()) else {
        return JobId(1);
    };
    if !(1..=limits::FIRST_JOB).contains(id.get_ref()) {
        let most = limits::FIRST_JOB;
        check.fault(id.span().start, format!("first_job_id must be between 1 and {most}"));
    }
    JobId(*id.get_ref())
}

/// The cluster's rules, and those of queues that have rules of their own.
fn reservation_rules(
    check: &mut Check<'_>,
    file: &File,
) -> (ReservationPolicy, BTreeMap<String, ReservationPolicy>) {
    let queues = file.queue.iter().map(|q| q.name.get_ref().as_str());
    let names = reservations::Names {
        queues: queues.collect(),
        licenses: file.licenses.keys().map(String::as_str).collect(),
    };
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
        memory_limit: memory_limit(check, table.memory_limit.as_ref()),
        key: table
            .key
            .unwrap_or_else(|| table.state_dir.join("cosyd.key")),
        state_dir: table.state_dir,
        socket: table.socket,
        listen,
        log: table.log.unwrap_or_else(|| "info".to_owned()),
        lookup_command: users.lookup_command,
        mail_command: policy.mail_command,
        postgres: None,
        controllers: Vec::new(),
        own: None,
    }
}

/// In bytes.
fn memory_limit(check: &mut Check<'_>, size: Option<&Spanned<Size>>) -> Option<u64> {
    let limit = check.size(size)?;
    if limit < limits::LEAST_MEMORY {
        let at = size.map_or(0, |size| size.span().start);
        let least = limits::LEAST_MEMORY;
        check.fault(at, format!("memory_limit is at least {}M", least.0));
    }
    Some(limit.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::{AccessLevel, Span};

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
        assert_eq!(day.nodes.as_deref(), Some(["n1".to_owned(), "n2".to_owned()].as_slice()));
        assert_eq!(day.users["bob"], AccessLevel::Deny);
        assert_eq!(config.cluster.default_queue.as_deref(), Some("day"));
        assert_eq!(config.cluster.nodes.len(), 4);
        assert_eq!(config.cluster.first_job, JobId(1));
        assert_eq!(config.retention.history, None);
        assert_eq!(config.cluster.policy.batch_delay, Span::ZERO);
    }

    #[test]
    fn every_fault_has_its_line() {
        let check = |from: &str, to: &str, want: &str| {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD, "{from}");
            let faults = parse(Path::new("x"), &text).unwrap_err().0;
            assert!(faults.iter().any(|f| f.contains(want)), "{faults:?} lacks {want}");
        };
        check("max_time = \"1h\"", "max_time = \"soon\"", "x:19: 'soon'");
        check("cores = 8", "coors = 8", "x:10: unknown field");
        check("cores = 8", "coors = 8", "did you mean `cores`?");
        check("[[queue]]", "[queue]", "write [[queue]] instead of [queue]");
        check("[[node]]", "[node]", "x:8: write [[node]] instead of [node]");
        check(
            "[[node]]",
            "[web]\nuser = \"root\"\n[[node]]",
            "x:9: user is the login name of an ordinary user",
        );
        check("name = \"lab\"", "first_job_id = 0", "x:3: first_job_id must be between 1 and");
        check(
            "[[node]]",
            "[policy]\nbatch_delay = \"2h\"\n[[node]]",
            "x:9: batch_delay is at most 3600 s",
        );
        check(
            "[[node]]",
            "[policy]\nkeep_ended = \"2d\"\nkeep_history = \"30h\"\n[[node]]",
            "x:10: keep_history: it is at least a day, and not shorter than keep_ended (2-00:00:00)",
        );
        check("nodes = \"n[1-2]\"", "nodes = \"n9\"", "x:14: there is no node 'n9'");
        check("\"deny\"", "\"denied\"", "x:22: 'denied' is no access level");
        check("n[1-4]", "n[1-1000000000]", "x:9:");
        check("memory = \"16G\"", "memory = \"lots\"", "x:11: 'lots'");
        check("name = \"night\"", "name = \"day\"", "x:24: queue day is there twice");
    }

    #[test]
    fn several_faults_at_once() {
        let text = GOOD.replace("1h", "soon").replace("16G", "lots");
        assert_eq!(parse(Path::new("x"), &text).unwrap_err().0.len(), 2);
    }
}
