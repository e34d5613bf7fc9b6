//! `cadm import-slurm`: a `slurm.conf` with what stands beside it, and the accounts of its
//! database, as a `cosy.toml` and a file of accounts for `sacctmgr load`.
//!
//! Everything that is not carried over is reported, so that nothing gets lost without a word. What
//! keeps somebody out and cannot be carried over leaves its queue to root and the administrators,
//! or its account or quality of service out; what is written passes `cosyd --check`. A file that is
//! wrong is refused as a whole. Pure: texts in, texts out. Sources: slurm.conf(5), gres.conf(5),
//! topology.conf(5), sacctmgr(1).

mod admits;
mod cluster;
mod dump;
mod enforced;
mod gres;
mod ignored_names;
pub mod lines;
mod node_sets;
mod nodes;
mod power;
mod preemption;
mod priority;
pub mod qos;
mod queues;
mod reader;
mod records;
mod switches;
mod tres;
mod write;

use crate::sacctmgr::load;
use crate::sacctmgr::view::PolicyView;
use cosy_model::policy::{NORMAL, QosRecord};
use cosy_model::{Span, limits};
use lines::{Fault, Line, Piece};
use qos::AllQos;
use reader::Reader;
use records::{Access, Queue};
use std::collections::BTreeSet;

/// Most node sets.
const MOST_SETS: usize = 10_000;

/// All texts that are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sources<'a> {
    /// `slurm.conf`, with the files that it includes in their places.
    pub conf: &'a [Piece],
    /// Lines of `gres.conf`.
    pub gres: &'a [Piece],
    /// Lines of `topology.conf`.
    pub topology: &'a [Piece],
    /// Path of the `job_submit.lua` beside it, if there is one.
    pub lua: Option<&'a str>,
    /// What `sacctmgr dump` wrote.
    pub accounts: Option<&'a Piece>,
    /// What [`qos::command`] wrote.
    pub qos: Option<&'a Piece>,
}

/// A configuration, and what could not be carried over.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Imported {
    /// Text of the `cosy.toml`.
    pub toml: String,
    /// Accounts, users and qualities of service, for `sacctmgr load`; where there are any.
    pub accounts: Option<String>,
    /// What is not carried over, one line each.
    pub notes: Vec<String>,
    /// Queues that only root and administrators may use, as something of them cannot be carried
    /// over to them.
    pub closed: Vec<String>,
}

/// Makes a configuration.
///
/// # Errors
/// A file that is none of Slurm's, or a value in accounts that is none.
pub fn import(sources: &Sources<'_>) -> Result<Imported, Fault> {
    let mut reader = Reader {
        lua: sources.lua.map(str::to_owned),
        ..Reader::default()
    };
    for line in lines::read(sources.conf)? {
        reader.line(&line);
    }
    for line in lines::read(sources.gres)? {
        reader.gres_line(&line);
    }
    for line in lines::read(sources.topology)? {
        reader.switches.push(line);
    }
    if let Some(line) = reader.sets.get(MOST_SETS) {
        return Err(Fault::new(&line.place, format!("more than {MOST_SETS} node sets")));
    }
    reader.finish(sources)
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

    fn finish(mut self, sources: &Sources<'_>) -> Result<Imported, Fault> {
        let sets = self.node_sets();
        let switches = self.all_switches();
        self.few_weights();
        if !switches.is_empty() {
            // What holds in Slurm where nothing is said.
            let usual = Span::from_secs(300);
            self.cluster.switch_wait.get_or_insert(usual);
        }
        let qos = self.all_qos(sources)?;
        let mut queues = self.queues(&sets, &qos)?;
        self.power_that_works(&mut queues);
        let names: BTreeSet<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
        let around = dump::Around {
            enforced: &self.cluster.enforced,
            qos: &qos,
            queues: &names,
        };
        let read = sources
            .accounts
            .map(|piece| dump::read(piece, &around, &mut self.report));
        let accounts = read.transpose()?.unwrap_or_default();
        self.about_access(sources, &accounts.admins);
        self.about_the_rest();
        let given = sources.accounts.is_some() || sources.qos.is_some();
        let file = given.then(|| file(write::cluster_name(&self.cluster), &qos, &accounts.lines));
        if let Some(text) = &file {
            self.loadable(text)?;
        }
        Ok(Imported {
            toml: write::text(
                &self.cluster,
                &self.nodes,
                (&sets, &switches),
                &queues,
                &accounts.admins,
            ),
            accounts: file,
            closed: closed(&queues),
            notes: self.report.finished(),
        })
    }

    /// Qualities of service of the list, else those that the dump names.
    fn all_qos(&mut self, sources: &Sources<'_>) -> Result<AllQos, Fault> {
        let Some(piece) = sources.qos else {
            let names = sources.accounts.map(dump::qos_names).unwrap_or_default();
            return match sources.accounts {
                Some(piece) if self.cluster.enforced.limits => Err(Fault::new(
                    &piece.place,
                    format!(
                        "AccountingStorageEnforce={} binds jobs to limits of qualities of service, and a dump has none of them: write them with '{}' into a file and name it with --qos",
                        self.cluster.enforced.words,
                        qos::command()
                    ),
                )),
                _ => Ok(AllQos::plain(names)),
            };
        };
        let all = qos::read(piece, &self.cluster.enforced, &mut self.report)?;
        let enforced = &mut self.cluster.enforced;
        if all.lacks && enforced.limits && !enforced.qos {
            enforced.qos = true;
            self.report.say("enforce has \"qos\" too: without it jobs could name a quality of service that is left out, and had no limits");
        }
        Ok(all)
    }

    fn about_access(&mut self, sources: &Sources<'_>, admins: &BTreeSet<String>) {
        let enforced = &self.cluster.enforced;
        if enforced.associations && sources.accounts.is_none() {
            self.report.say(format!(
                "AccountingStorageEnforce={}: jobs need an account here too, and none is carried over: nobody but administrators may submit until accounts are there; --accounts DUMP carries them over",
                enforced.words
            ));
        }
        if enforced.wckeys {
            self.report.say("AccountingStorageEnforce has wckeys: users without a key are left out; which of them a job names is not checked here");
        }
        if !admins.is_empty() {
            let names: Vec<&str> = admins.iter().map(String::as_str).collect();
            self.report.say(format!(
                "administrators may use every queue and account here: {}",
                names.join(", ")
            ));
        }
    }

    fn about_the_rest(&mut self) {
        if self.hooks {
            self.report.say(
                "prolog, epilog and health check find COSY_JOB_ID, COSY_JOB_USER and so on in their environment here, not SLURM_*",
            );
        }
        if !self.without_meaning.is_empty() {
            let names: Vec<&str> = self.without_meaning.iter().map(String::as_str).collect();
            self.report
                .say(format!("mean nothing here: {}", names.join(", ")));
        }
    }

    /// The file of accounts is read as `sacctmgr load` will read it.
    fn loadable(&mut self, text: &str) -> Result<(), Fault> {
        let usual = QosRecord {
            name: NORMAL.to_owned(),
            ..QosRecord::default()
        };
        let fresh = PolicyView {
            qos: vec![usual],
            ..PolicyView::default()
        };
        let loaded = load::read(&fresh, text, false).map_err(|lines| {
            let place = Piece::file("the file of accounts that would be written", "").place;
            Fault::new(&place, lines.join(" "))
        })?;
        let (all, most) = (loaded.changes.len(), limits::POLICY_CHANGES);
        if all > most {
            self.report.say(format!(
                "the file of accounts makes {all} changes, and one load takes {most}: cut it at a line of a parent, put its first line before each part, and load them one after another"
            ));
        }
        Ok(())
    }
}

/// The file of accounts: that of a dump, with qualities of service.
fn file(cluster: &str, qos: &AllQos, lines: &[String]) -> String {
    let first = format!("Cluster - '{cluster}'");
    let (head, rest) = lines
        .split_first()
        .map_or((first.as_str(), lines), |(first, rest)| (first.as_str(), rest));
    let mut text = String::from(
        "# Made by 'cadm import-slurm', for 'sacctmgr load'. Lines behind '#' were left out: what\n# stands above each says why. Who is in them may not submit jobs until they are added.\n",
    );
    let all = std::iter::once(head).chain(qos.lines.iter().map(String::as_str));
    for line in all.chain(rest.iter().map(String::as_str)) {
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// Queues that are closed for want of a word, and not by Slurm.
fn closed(queues: &[Queue]) -> Vec<String> {
    let shut = |queue: &&Queue| match &queue.access {
        Access::Nobody(words) => *words != ["RootOnly=YES"],
        Access::Everybody | Access::Groups(_) => false,
    };
    let shut = queues.iter().filter(shut);
    shut.map(|queue| queue.name.clone()).collect()
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
        PartitionName=short Nodes=n[1-2] MaxTime=30 AllowGroups=ops PriorityTier=10 State=DRAIN\n\
        MaxBatchRequeue=3\n";

    fn imported(conf: &str, dump: Option<&str>, qos: Option<&str>) -> Result<Imported, Fault> {
        let file = |name: &str, text: Option<&str>| text.map(|text| Piece::file(name, text));
        let (accounts, qos) = (file("a.dump", dump), file("q.txt", qos));
        import(&Sources {
            conf: &[Piece::file("slurm.conf", conf)],
            accounts: accounts.as_ref(),
            qos: qos.as_ref(),
            ..Sources::default()
        })
    }

    #[test]
    fn a_whole_file() {
        let got = imported(CONF, None, None).unwrap();
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
max_requeues = 3
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
weight = 3

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
                "slurm.conf:8: Prolog: write prolog = [\"/etc/p\"] into noded.toml",
                "slurm.conf:9: FooBar=1 is not carried over",
                "slurm.conf:14: types of GPUs (a100) are told by the nodes: [[gpu]] in noded.toml",
                "prolog, epilog and health check find COSY_JOB_ID, COSY_JOB_USER and so on in their environment here, not SLURM_*",
                "mean nothing here: SchedulerParameters, SlurmctldHost, SlurmctldPort",
            ]
        );
    }

    const DUMP: &str = "Cluster - 'base':Fairshare=1:QOS='normal,high,gone'\nParent - 'root'\n\
        User - 'root':DefaultAccount='root':AdminLevel='Administrator'\n\
        Account - 'physics':Description='p':GrpTRES=cpu=8,gres/gpu:a100=2\n\
        Account - 'old':GrpTRES=energy=7\nAccount - 'grants'\n\
        Parent - 'physics'\nUser - 'ann':Fairshare=1:DefaultQOS='high':MaxWizards=3\n\
        User - 'bob':Partition='main':Coordinator='physics':DefaultQOS='gone'\n\
        User - 'cyd':Partition='gone'\nUser - 'x y'\nParent - 'old'\nUser - 'bob'\n";

    #[test]
    fn accounts_of_a_dump() {
        let got = imported("NodeName=n1 CPUs=2\n", Some(DUMP), None).unwrap();
        for want in [
            "admins = [\"root\"]\n",
            "[[queue]]\nname = \"main\"\ndefault = true\n",
        ] {
            assert!(got.toml.contains(want), "{want} in {}", got.toml);
        }
        let accounts = got.accounts.unwrap();
        let lines: Vec<&str> = accounts.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "Cluster - 'base':Fairshare=1:QOS='gone,high,normal'",
                "QOS - 'gone'",
                "QOS - 'high'",
                "QOS - 'normal'",
                "Parent - 'root'",
                "User - 'root':DefaultAccount='root':AdminLevel='Administrator'",
                "Account - 'physics':Description='p':GrpTRES=cpu=8,gres/gpu:a100=2",
                // Nothing is enforced, so what is lost bound nobody.
                "Account - 'old'",
                "# no account can have that name here:",
                "#Account - 'grants'",
                "Parent - 'physics'",
                "User - 'ann':Fairshare=1:DefaultQOS='high'",
                "User - 'bob':Partition='main':Coordinator='physics':DefaultQOS='gone'",
                "# there is no partition 'gone':",
                "#User - 'cyd':Partition='gone'",
                "# no user can have that name here:",
                "#User - 'x y'",
                "Parent - 'old'",
                "User - 'bob'",
            ]
        );
    }

    /// A list with those columns, of one row.
    fn qos_list(name: &str, more: &[(&str, &str)]) -> String {
        let command = qos::command();
        let titles: Vec<&str> = command.split('=').nth(1).unwrap().split(',').collect();
        let cell = |title: &&str| match *title {
            "Name" => name.to_owned(),
            title => {
                let known = more.iter().find(|(t, _)| *t == title);
                known.map_or(String::new(), |(_, value)| (*value).to_owned())
            }
        };
        let cells: Vec<String> = titles.iter().map(cell).collect();
        format!("{}\n{}\n", titles.join("|"), cells.join("|"))
    }

    #[test]
    fn what_binds_and_is_lost_leaves_its_line_out() {
        let conf = "NodeName=n1 CPUs=2\nPartitionName=main Nodes=n1\nAccountingStorageEnforce=limits,qos\n";
        let list = qos_list(
            "high",
            &[
                ("Priority", "5"),
                ("GraceTime", "00:00:00"), // as Slurm shows none
                ("GrpTRES", "cpu=8"),
                ("MaxWall", "1-00:00:00"),
                ("MaxSubmitPU", "9"),
                ("Flags", "DenyOnLimit"),
            ],
        );
        let got = imported(conf, Some(DUMP), Some(&list)).unwrap();
        let text = got.accounts.unwrap();
        let want = "QOS - 'high':Priority='5':GraceTime='00:00:00':Flags='DenyOnLimit':GrpTRES='cpu=8':MaxWall='1-00:00:00':MaxSubmitJobsPerUser='9'\n";
        assert!(text.contains(want), "{text}");
        for left_out in [
            "# GrpTRES=energy=7 is not carried over:\n#Account - 'old'\n",
            "# MaxWizards=3 is not carried over:\n#User - 'ann'",
            "#Parent - 'old'\n#User - 'bob'\n",
            "Cluster - 'base':Fairshare=1:QOS='high'\n",
        ] {
            assert!(text.contains(left_out), "{left_out} in {text}");
        }
        let enforce = "enforce = [\"associations\", \"limits\", \"qos\"]\n";
        assert!(got.toml.contains(enforce), "{}", got.toml);
        let lost = qos_list("high", &[("MaxTRES", "energy=5")]);
        let conf = conf.replace(",qos", "");
        let got = imported(&conf, Some(DUMP), Some(&lost)).unwrap();
        assert!(got.accounts.unwrap().contains("\n#QOS - 'high'\n"));
        assert!(got.toml.contains("\"qos\"]"), "limits of 'high' would bind nobody: {}", got.toml);
    }

    #[test]
    fn nodes_that_are_switched_off() {
        let conf = "SuspendProgram=/p/off\nResumeProgram=/p/on\nSuspendTime=600\nSuspendTimeout=45\n\
            SuspendRate=10\nSuspendExcNodes=n[1,3]:1,n2,x9,n4:y\nSuspendExcParts=day,gone\n\
            SuspendExcStates=DOWN\nNodeName=n[1-4] CPUs=4 RealMemory=1000\n\
            NodeName=c[1-2] CPUs=4 RealMemory=1000 State=CLOUD SuspendTime=60\nNodeName=d1 State=CLOUD\n\
            PartitionName=day Nodes=n[1-4] SuspendTime=INFINITE\n\
            PartitionName=night Nodes=n[1-2] PowerDownOnIdle=YES\n";
        let got = imported(conf, None, None).unwrap();
        for part in [
            "\n[power]\nsuspend_program = [\"/p/off\"]\nresume_program = [\"/p/on\"]\n\
             suspend_after = \"600s\"\nsuspend_timeout = \"45s\"\nresume_timeout = \"60s\"\n\
             suspend_rate = 10\nkeep = [\"n[1,3]:1\", \"n2\"]\nkeep_queues = [\"day\"]\n",
            "names = \"c[1-2]\"\ncores = 4\nmemory = \"1000M\"\ncloud = true\nsuspend_after = \"60s\"\n",
            "names = \"d1\"\n\n",
            "nodes = \"n[1-4]\"\nsuspend_after = \"off\"\n",
            "nodes = \"n[1-2]\"\nsuspend_after = \"1s\"\n",
        ] {
            assert!(got.toml.contains(part), "{part} in {}", got.toml);
        }
        let report = got.notes.join("\n");
        for lost in [
            "x9",
            "n4:y",
            "SuspendExcParts=gone",
            "State=CLOUD needs",
            "DOWN is not",
        ] {
            assert!(report.contains(lost), "{lost} in {report}");
        }
        // One program alone switches nothing.
        let half = conf.replace("ResumeProgram=/p/on\n", "");
        let got = imported(&half, None, None).unwrap();
        let none = |word: &&str| !got.toml.contains(word);
        assert!(["[power]", "cloud", "suspend_after"].iter().all(none), "{}", got.toml);
        assert!(got.notes.join("\n").contains("nothing is switched off"));
    }

    /// A user's line for all queues would hold where the one for a queue is left out.
    #[test]
    fn a_line_left_out_lets_nobody_in_by_another() {
        let conf =
            "NodeName=n1 CPUs=2\nPartitionName=main Nodes=n1\nAccountingStorageEnforce=limits\n";
        let check = |lines: &str, want: &[&str]| {
            let dump = format!("Cluster - 'base'\nParent - 'root'\n{lines}");
            let list = qos_list("normal", &[]);
            let got = imported(conf, Some(&dump), Some(&list)).unwrap();
            let text = got.accounts.unwrap();
            let users = text.lines().filter(|line| line.contains("User - "));
            assert_eq!(users.collect::<Vec<_>>(), want, "{text}");
        };
        let (general, own) = ("User - 'ann'", "User - 'ann':Partition='main':MaxWizards=3");
        let out = ["#User - 'ann'", "#User - 'ann':Partition='main'"];
        check(&format!("{general}\n{own}\n"), &out);
        check(&format!("{own}\n{general}\n"), &[out[1], out[0]]);
        // Nobody can ask for a queue that is not there, and others are not concerned.
        let elsewhere = "User - 'ann':Partition='gone'";
        let want = [general, "#User - 'ann':Partition='gone'"];
        check(&format!("{general}\n{elsewhere}\n"), &want);
        let want = ["User - 'bob'", out[1]];
        check(&format!("User - 'bob'\n{own}\n"), &want);
    }

    #[test]
    fn what_decides_the_order() {
        let conf = "NodeName=n1 CPUs=2\nJobSubmitPlugins=lua\nPriorityType=priority/multifactor\n\
            PriorityWeightAge=100\nPriorityWeightQOS=7\n\
            PriorityWeightTRES=CPU=10,GRES/gpu=20,energy=1\nPriorityDecayHalfLife=14-0\n\
            PriorityMaxAge=7-0\nPriorityFavorSmall=YES\n\
            PriorityFlags=SMALL_RELATIVE_TO_TIME,MAX_TRES,INCR_ONLY\nPartitionName=a Nodes=n1 \
            PriorityJobFactor=5 TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu=2.5\n";
        let got = import(&Sources {
            conf: &[Piece::file("slurm.conf", conf)],
            lua: Some("/etc/slurm/job_submit.lua"),
            ..Sources::default()
        });
        let got = got.unwrap();
        let want = "\
nodes = \"n1\"
order = \"weights\"
priority_factor = 5

[queue.billing]
core = 1
memory_gib = 0.25
devices = { \"gpu\" = 2.5 }

[priority]
half_life = \"1209600s\"
billing = \"max\"
max_age = \"604800s\"
size_factor = \"small-by-time\"

[priority.weights]
age = 100
qos = 7
tres = { \"cpu\" = 10, \"gres/gpu\" = 20 }

[submit]
lua = \"/etc/slurm/job_submit.lua\"
";
        assert!(got.toml.ends_with(want), "{}", got.toml);
        let lost = ["PriorityWeightTRES=energy=1", "PriorityFlags=INCR_ONLY"];
        for lost in lost {
            let told = format!("{lost} is not carried over");
            assert!(got.notes.iter().any(|note| note.ends_with(&told)), "{:?}", got.notes);
        }
    }

    #[test]
    fn files_that_are_wrong() {
        let check = |conf: &str, dump: &str, want: &str| {
            let fault = imported(conf, Some(dump), None).unwrap_err().to_string();
            assert!(fault.starts_with(want), "{fault}");
        };
        let head = "Cluster - 'base'\n";
        let limits = "AccountingStorageEnforce=safe\n";
        check(limits, head, "a.dump:1: AccountingStorageEnforce=safe binds jobs to limits");
        check("", "", "a.dump:1: no line of a cluster");
        check("", "# nothing\n", "a.dump:1: no line of a cluster");
        check("", "User - 'a'\n", "a.dump:1: the first line names the cluster");
        check("", "Cluster - 'a'\nCluster - 'b'\n", "a.dump:2: a second cluster");
        let line = |text: &str, want: &str| {
            check("", &format!("{head}\n{text}\n"), &format!("a.dump:3: {want}"));
        };
        line("nonsense", "'nonsense' is no line of a dump");
        line("Wizard - 'a'", "'Wizard - 'a'' is no line of a dump");
        line("Parent - 'a'", "account 'a' is not there yet");
        line("Account - 'a':Fairshare=-5", "Fairshare=-5: Invalid value for FairShare (-5)");
        line("Account - 'a':GrpTRES=cpu=x", "GrpTRES=cpu=x: Invalid value for cpu (x)");
        line("Account - 'a':Fairshare", "'Fairshare': an option is NAME=VALUE");
        line("Account - 'a", "'Account - 'a': a quote is not closed");
        line("Account - 'a'\0", "character \\u{0} is none of a text");
        let circle = format!(
            "{head}Account - 'a'\nParent - 'a'\nAccount - 'b'\nParent - 'b'\nAccount - 'a'\n"
        );
        check("", &circle, "a.dump:6: account a is there twice, below 'root' and 'b'");
        let list = |text: &str, want: &str| {
            let fault = imported("", Some(head), Some(text))
                .unwrap_err()
                .to_string();
            assert!(fault.starts_with(want), "{fault}");
        };
        list("", "q.txt:1: nothing in it: write it with 'sacctmgr -P show qos format=Name,");
        list("Name|Priority\nnormal|3\n", "q.txt:1: no column GraceTime");
        list(&format!("{}a|b\n", qos_list("a", &[])), "q.txt:3: 2 columns, and 33 titles above");
        list(&qos_list("a", &[("GrpJobs", "x")]), "q.txt:2: GrpJobs=x: Invalid value");
        let twice = qos_list("a", &[]);
        let row = twice.lines().nth(1).unwrap();
        list(&format!("{twice}{row}\n"), "q.txt:3: 'a' is there twice");
    }

    /// Line ends of DOS change nothing.
    #[test]
    fn line_ends() {
        let dos = |text: &str| text.replace('\n', "\r\n");
        let unix = imported(CONF, Some(DUMP), Some(&qos_list("high", &[]))).unwrap();
        let list = dos(&qos_list("high", &[]));
        assert_eq!(imported(&dos(CONF), Some(&dos(DUMP)), Some(&list)), Ok(unix));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_text(
            conf in "(NodeName|PartitionName|Licenses|X|DEFAULT|[=: ,\n\"*]|[0-9]|Gres|gpu|CPUs|Nodes){0,30}",
            dump in "(User|Account|Parent|[-:'= \n]|a|b){0,30}",
        ) {
            let _ = imported(&conf, Some(&dump), None);
            let _ = imported(&conf, None, Some(&dump));
        }
    }
}
