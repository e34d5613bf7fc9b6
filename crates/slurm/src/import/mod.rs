//! `cadm import-slurm`: a `slurm.conf`, and a dump of accounts beside it, as a `cosy.toml`.
//!
//! Carries over nodes with cores, memory, disk, GPUs, other resources and features;
//! partitions with limits, defaults, access and state; licences; the numbers of the policy;
//! accounts and administrators. Everything else is listed, so that nothing gets lost without
//! a word. Pure: texts in, texts out. Sources: slurm.conf(5), sacctmgr(1) "FLAT FILE DUMP
//! AND LOAD".

pub mod accounts;
pub mod lines;
mod nodes;
mod queues;
mod write;

use crate::submit::when::limit;
use cosy_model::Span;
use lines::Line;
use std::collections::{BTreeMap, BTreeSet};

/// A configuration, and what could not be carried over.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Imported {
    /// The `cosy.toml`.
    pub toml: String,
    /// One line each.
    pub notes: Vec<String>,
}

/// A node line with its defaults.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Node {
    names: String,
    cores: Option<u64>,
    memory: Option<u64>,
    disk: u64,
    gpus: u64,
    other: BTreeMap<String, u64>,
    features: Vec<String>,
}

/// A partition line with its defaults.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Queue {
    name: String,
    default: bool,
    priority: u32,
    nodes: Option<String>,
    sets: Vec<String>,
    max_time: Option<Span>,
    default_time: Option<Span>,
    max_nodes: Option<u64>,
    max_memory: Option<u64>,
    memory_per_core: Option<u64>,
    exclusive: bool,
    state: &'static str,
    groups: Vec<String>,
    closed: bool,
}

/// The numbers and texts of the cluster as a whole.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Cluster {
    name: String,
    grace: Option<Span>,
    node_timeout: Option<Span>,
    keep_ended: Option<Span>,
    max_array_tasks: Option<u64>,
    first_job: Option<u64>,
    batch_delay: Option<Span>,
    no_backfill: bool,
    private: bool,
    memory_per_core: Option<u64>,
    licenses: Vec<(String, u64)>,
}

/// All that is read.
#[derive(Default)]
struct Reader {
    cluster: Cluster,
    nodes: Vec<Node>,
    sets: Vec<(String, String)>,
    queues: Vec<Queue>,
    notes: Vec<String>,
    /// Values of lines that are called `DEFAULT`.
    node_defaults: BTreeMap<String, String>,
    queue_defaults: BTreeMap<String, String>,
    /// Names of parameters that mean nothing here.
    without_meaning: BTreeSet<String>,
}

/// Parameters that say how Slurm itself is built up: nothing here depends on them.
const MEANINGLESS: &[&str] = &[
    "Plugin",
    "Port",
    "PidFile",
    "LogFile",
    "Debug",
    "Syslog",
    "Type",
    "Auth",
    "Munge",
    "Spool",
    "StateSave",
    "ControlMachine",
    "ControlAddr",
    "SlurmctldHost",
    "SlurmctldAddr",
    "SlurmUser",
    "SlurmdUser",
    "BackupController",
    "TreeWidth",
    "FastSchedule",
    "CacheGroups",
    "CryptoType",
    "ReturnToService",
    "SlurmctldTimeout",
    "InactiveLimit",
    "WaitTime",
    "SlurmctldParameters",
    "SlurmdParameters",
    "CommunicationParameters",
    "MessageTimeout",
    "TCPTimeout",
    "LaunchType",
    "SelectTypeParameters",
    "JobAcct",
    "AcctGather",
    "AccountingStorage",
    "TaskPlugin",
    "DebugFlags",
    "MaxDBDMsgs",
    "GresTypes",
    "BatchStartTimeout",
    "EpilogMsgTime",
    "MaxJobId",
    "MaxJobCount",
    "LogTimeFormat",
    "PropagateResourceLimits",
];

/// Makes a configuration of a `slurm.conf` whose included files have been put in their
/// places, and of the dump of its accounts.
pub fn import(conf: &str, dump: Option<&str>) -> Imported {
    let mut reader = Reader::default();
    for line in lines::read(conf) {
        reader.line(&line);
    }
    let accounts = dump.map(|text| accounts::read(text, &mut reader.notes));
    reader.finish(&accounts.unwrap_or_default())
}

impl Reader {
    fn line(&mut self, line: &Line) {
        if line.begins("NodeName") {
            self.node(line);
        } else if line.begins("PartitionName") {
            self.queue(line);
        } else if line.begins("NodeSet") {
            self.set(line);
        } else if line.begins("DownNodes") {
            let nodes = line.get("DownNodes").unwrap_or_default();
            self.note(
                line,
                &format!("nodes {nodes} are down: 'cadm node down' says so here"),
            );
        } else {
            for (name, value) in &line.words {
                self.parameter(line, name, value);
            }
        }
    }

    fn note(&mut self, line: &Line, text: &str) {
        self.notes.push(format!("line {}: {text}", line.number));
    }

    fn set(&mut self, line: &Line) {
        let name = line.get("NodeSet").unwrap_or_default().to_owned();
        match line.get("Nodes") {
            Some(nodes) => self.sets.push((name, nodes.to_owned())),
            None => self.note(line, &format!("node set {name} is not made of named nodes")),
        }
    }

    fn parameter(&mut self, line: &Line, name: &str, value: &str) {
        let cluster = &mut self.cluster;
        let seconds = || value.parse().ok().map(Span::from_secs);
        match name.to_ascii_lowercase().as_str() {
            "clustername" => value.clone_into(&mut cluster.name),
            "killwait" => cluster.grace = seconds(),
            "slurmdtimeout" => cluster.node_timeout = seconds().filter(|s| *s > Span::ZERO),
            "minjobage" => cluster.keep_ended = seconds().filter(|s| *s > Span::ZERO),
            "maxarraysize" => {
                let size = value.parse::<u64>().ok();
                cluster.max_array_tasks = size.map(|n| n.saturating_sub(1)).filter(|n| *n > 0);
            }
            "firstjobid" => {
                let ids = 1..=cosy_model::limits::FIRST_JOB;
                cluster.first_job = value.parse().ok().filter(|id| ids.contains(id));
            }
            "schedulerparameters" => {
                cluster.batch_delay = batch_delay(value);
                if value.split(',').any(|p| !p.trim().starts_with(BATCH_DELAY)) {
                    self.without_meaning.insert(name.to_owned());
                }
            }
            "schedulertype" => cluster.no_backfill = value.eq_ignore_ascii_case("sched/builtin"),
            "privatedata" => cluster.private = value.to_ascii_lowercase().contains("jobs"),
            "defmempercpu" => cluster.memory_per_core = value.parse().ok().filter(|n| *n > 0),
            "licenses" => cluster.licenses = licenses(value),
            "prolog" | "epilog" | "healthcheckprogram" => {
                let key = match name.to_ascii_lowercase().as_str() {
                    "healthcheckprogram" => "health_check".to_owned(),
                    other => other.to_owned(),
                };
                self.note(line, &format!("{name}: write {key} = [\"{value}\"] into noded.toml"));
            }
            "mailprog" => self.note(
                line,
                &format!("{name}: mail_command in [controller] is called with recipient and subject ({value})"),
            ),
            "include" => self.note(line, "an included file was not found"),
            _ if means_nothing(name) => {
                self.without_meaning.insert(name.to_owned());
            }
            _ => self.note(line, &format!("{name}={value} is not carried over")),
        }
    }

    fn finish(mut self, accounts: &accounts::Accounts) -> Imported {
        if self.queues.is_empty() {
            self.notes
                .push("no partition is defined: a queue 'main' of all nodes was made".into());
            self.queues.push(Queue {
                name: "main".into(),
                default: true,
                state: "open",
                ..Queue::default()
            });
        }
        if !self.queues.iter().any(|q| q.default)
            && let [only] = self.queues.as_mut_slice()
        {
            only.default = true;
        }
        if !self.without_meaning.is_empty() {
            let names: Vec<&str> = self.without_meaning.iter().map(String::as_str).collect();
            self.notes
                .push(format!("mean nothing here: {}", names.join(", ")));
        }
        Imported {
            toml: write::text(&self, accounts),
            notes: self.notes,
        }
    }
}

fn means_nothing(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    MEANINGLESS
        .iter()
        .any(|m| lower.contains(&m.to_ascii_lowercase()))
}

fn licenses(text: &str) -> Vec<(String, u64)> {
    let one = |item: &str| {
        let (name, count) = item.split_once([':', '*']).unwrap_or((item, "1"));
        let count = count.parse().ok().filter(|n| *n > 0)?;
        (!name.is_empty()).then(|| (name.to_owned(), count))
    };
    text.split(',').filter_map(one).collect()
}

/// A time limit of a partition; without end for `UNLIMITED`.
fn time(text: &str) -> Option<Span> {
    limit(text)
}

/// The only one of `SchedulerParameters` that means something here.
const BATCH_DELAY: &str = "batch_sched_delay=";

/// How long batch jobs are not looked at, if it is said.
fn batch_delay(parameters: &str) -> Option<Span> {
    let mut each = parameters.split(',').map(str::trim);
    let seconds = each.find_map(|p| p.strip_prefix(BATCH_DELAY))?;
    let delay = Span::from_secs(seconds.parse::<u32>().ok()?.into());
    (delay > Span::ZERO).then(|| delay.min(cosy_model::limits::BATCH_DELAY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CONF: &str = "ClusterName=base\nSlurmctldHost=vm(127.0.0.1)\nKillWait=3\n\
        MinJobAge=300\nMaxArraySize=100001\nDefMemPerCPU=100\nLicenses=lic:2\nProlog=/etc/p\n\
        FooBar=1\nSlurmctldPort=17001\nFirstJobId=1000\n\
        SchedulerParameters=bf_continue,batch_sched_delay=2\n\
        NodeName=DEFAULT RealMemory=16000 Feature=fa\n\
        NodeName=n[1-8] CPUs=16 Gres=gpu:a100:2,fpga:1 Weight=3\n\
        PartitionName=DEFAULT MaxTime=1-00:00:00\n\
        PartitionName=main Nodes=ALL Default=YES DefaultTime=60 MaxTime=INFINITE\n\
        PartitionName=short Nodes=n[1-2] MaxTime=30 AllowGroups=ops PriorityTier=10 State=DRAIN\n";

    #[test]
    fn a_whole_file() {
        let got = import(CONF, None);
        let want = "\
[cluster]
name = \"base\"
first_job_id = 1000

[controller]
state_dir = \"/var/lib/cosy\"
socket = \"/run/cosy/cosyd.sock\"

[policy]
grace = \"3s\"
batch_delay = \"2s\"
keep_ended = \"300s\"
max_array_tasks = 100000
visibility = \"all\"

[licenses]
\"lic\" = 2

[[node]]
names = \"n[1-8]\"
cores = 16
memory = \"16000M\"
gpus = 2
other = { \"fpga\" = 1 }
features = [\"fa\"]

[[queue]]
name = \"main\"
default = true
default_time = \"01:00:00\"
default_memory_per_core = \"100M\"

[[queue]]
name = \"short\"
priority = 10
nodes = \"n[1-2]\"
max_time = \"00:30:00\"
default_memory_per_core = \"100M\"
state = \"drained\"

[queue.access]
groups = { \"ops\" = \"allow\" }
others = \"deny\"
";
        assert_eq!(got.toml, want);
        assert_eq!(
            got.notes,
            [
                "line 8: Prolog: write prolog = [\"/etc/p\"] into noded.toml",
                "line 9: FooBar=1 is not carried over",
                "line 14: types of GPUs (a100) are told by the nodes: [[gpu]] in noded.toml",
                "line 14: Weight=3 is not carried over",
                "mean nothing here: SchedulerParameters, SlurmctldHost, SlurmctldPort",
            ]
        );
    }

    #[test]
    fn accounts_of_a_dump() {
        let dump = "Cluster - 'base':Fairshare=1\nParent - 'root'\n\
            User - 'root':DefaultAccount='root':AdminLevel='Administrator'\n\
            Account - 'physics':Description='p'\nParent - 'physics'\nUser - 'ann':Fairshare=1\n\
            User - 'bob'\n";
        let got = import("NodeName=n1 CPUs=2\n", Some(dump)).toml;
        for want in [
            "admins = [\"root\"]\n",
            "[account.\"physics\"]\nmembers = [\"ann\", \"bob\"]\n",
            "[[queue]]\nname = \"main\"\ndefault = true\n",
        ] {
            assert!(got.contains(want), "{want} in {got}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_text(
            conf in "(NodeName|PartitionName|Licenses|X|DEFAULT|[=: ,\n\"*]|[0-9]|Gres|gpu|CPUs|Nodes){0,30}",
            dump in "(User|Account|Parent|[-:'= \n]|a|b){0,30}",
        ) {
            let _ = import(&conf, Some(&dump));
        }
    }
}
