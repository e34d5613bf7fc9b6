//! `cadm import-slurm`: a `slurm.conf`, and a dump of accounts beside it, as a `cosy.toml`.
//!
//! Carries over nodes with cores, memory, disk, GPUs, other resources and features;
//! partitions with limits, defaults, access and state; licences; the numbers of the policy;
//! accounts and administrators. Everything else is listed, so that nothing gets lost without
//! a word. What limits who may use a partition and cannot be carried over leaves its queue to
//! root and the administrators, and what is written passes `cosyd --check`. Pure: texts in, texts out. Sources: slurm.conf(5), sacctmgr(1) "FLAT FILE DUMP
//! AND LOAD".

pub mod accounts;
mod cluster;
mod ignored_names;
pub mod lines;
mod node_sets;
mod nodes;
mod queues;
mod write;

use cosy_model::Span;
use lines::Line;
use std::collections::{BTreeMap, BTreeSet};

/// A configuration, and what could not be carried over.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Imported {
    /// Text of the `cosy.toml`.
    pub toml: String,
    /// One line each.
    pub notes: Vec<String>,
}

/// A node line with its defaults.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Node {
    names: String,
    cores: Option<u64>,
    /// `RealMemory`, in MiB.
    memory: Option<u64>,
    /// `TmpDisk`, in MiB.
    disk: u64,
    gpus: u64,
    other: BTreeMap<String, u64>,
    features: Vec<String>,
}

/// Which nodes a partition or a set has.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Members {
    All,
    /// As a host list, and names of sets; neither for none.
    These(Option<String>, Vec<String>),
}

/// Who may use a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Access {
    Everybody,
    /// Groups by name.
    Groups(Vec<String>),
    /// Users by name, and those who always may.
    Users(BTreeSet<String>),
    /// Only root and the administrators, because of these words of the partition.
    Nobody(Vec<String>),
}

/// A partition line with its defaults.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Queue {
    name: String,
    default: bool,
    priority: u32,
    members: Members,
    max_time: Option<Span>,
    default_time: Option<Span>,
    max_nodes: Option<u64>,
    /// `MaxMemPerNode`, in MiB.
    max_memory: Option<u64>,
    /// `DefMemPerCPU`, in MiB.
    memory_per_core: Option<u64>,
    exclusive: bool,
    state: &'static str,
    access: Access,
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
    /// `SelectType=select/linear`: jobs get whole nodes.
    whole_nodes: bool,
    /// `DefMemPerCPU` of the cluster, in MiB.
    memory_per_core: Option<u64>,
    licenses: BTreeMap<String, u32>,
    /// Path of the program that sends mail as mail(1) does.
    mail: Option<String>,
    /// What `AccountingStorageEnforce` says, where users without an account are refused.
    enforced: Option<String>,
}

/// All that is read.
#[derive(Default)]
struct Reader {
    cluster: Cluster,
    nodes: Vec<Node>,
    /// Nodes that have been named.
    known: BTreeSet<String>,
    /// Lines of sets and of partitions, until all nodes are known.
    sets: Vec<Line>,
    partitions: Vec<(Line, BTreeMap<String, String>)>,
    notes: Vec<String>,
    /// Values of lines that are called `DEFAULT`.
    node_defaults: BTreeMap<String, String>,
    queue_defaults: BTreeMap<String, String>,
    /// Names of parameters that mean nothing here.
    without_meaning: BTreeSet<String>,
    /// Programs beside jobs have been named.
    hooks: bool,
    /// An included file was not there: partitions may be missing.
    incomplete: bool,
}

/// Makes a configuration of a `slurm.conf` whose included files have been put in their
/// places, and of the dump of its accounts.
pub fn import(conf: &str, dump: Option<&str>) -> Imported {
    let mut reader = Reader::default();
    for line in lines::read(conf) {
        reader.line(&line);
    }
    let accounts = dump.map(|text| accounts::read(text, &mut reader.notes));
    reader.finish(accounts)
}

impl Reader {
    fn line(&mut self, line: &Line) {
        if line.begins("NodeName") {
            self.node(line);
        } else if line.begins("PartitionName") {
            self.partition(line);
        } else if line.begins("NodeSet") {
            self.sets.push(line.clone());
        } else if line.begins("DownNodes") {
            let nodes = line.get("DownNodes").unwrap_or_default();
            self.note(line, &format!("nodes {nodes} are down: 'cadm node down' says so here"));
        } else {
            for (name, value) in &line.words {
                self.parameter(line, name, value);
            }
        }
    }

    fn note(&mut self, line: &Line, text: &str) {
        self.notes.push(match line.number {
            0 => text.to_owned(),
            number => format!("line {number}: {text}"),
        });
    }

    fn finish(mut self, accounts: Option<accounts::Accounts>) -> Imported {
        let sets = self.node_sets();
        let mut queues = self.queues(&sets);
        self.enforce(&mut queues, accounts.as_ref());
        if self.hooks {
            self.notes.push(
                "prolog, epilog and health check find COSY_JOB_ID, COSY_JOB_USER and so on in their environment here, not SLURM_*".into(),
            );
        }
        if !self.without_meaning.is_empty() {
            let names: Vec<&str> = self.without_meaning.iter().map(String::as_str).collect();
            self.notes
                .push(format!("mean nothing here: {}", names.join(", ")));
        }
        let accounts = accounts.unwrap_or_default();
        Imported {
            toml: write::text(&self.cluster, &self.nodes, &sets, &queues, &accounts),
            notes: self.notes,
        }
    }
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
                "line 14: Weight=3 is not carried over",
                "line 14: types of GPUs (a100) are told by the nodes: [[gpu]] in noded.toml",
                "prolog, epilog and health check find COSY_JOB_ID, COSY_JOB_USER and so on in their environment here, not SLURM_*",
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
