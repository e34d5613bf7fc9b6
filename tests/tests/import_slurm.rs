//! What `cadm import-slurm` writes is a configuration: the controller's own check takes it, and
//! its advice for nodes the node daemon's. What it cannot carry over stays closed.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_tests::chance::Chance;
use cosy_tests::run::run;
use cosy_tests::{Output, programs};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/slurm")
        .join(name)
}

fn import(conf: &Path, more: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(programs::folder().join("cosy"));
    command.arg0("cadm").arg("import-slurm").arg(conf);
    for (option, file) in more {
        command.arg(option).arg(file);
    }
    run(&mut command)
}

/// The check of a daemon.
#[track_caller]
fn check(program: &str, folder: &TempDir, text: &str) {
    let file = folder.path().join("checked.toml");
    fs::write(&file, text).unwrap();
    let mut command = Command::new(programs::folder().join(program));
    let out = run(command.arg("--check").arg("--config").arg(&file));
    assert_eq!(out.code, 0, "{}\n{text}", out.err);
}

/// A fixture as a configuration that has been checked, and what was said; the advice for
/// `noded.toml` has been checked too.
#[track_caller]
fn imported(conf: &Path, more: &[(&str, &Path)]) -> (String, String) {
    let folder = TempDir::new().unwrap();
    let Output { out, err, .. } = import(conf, more).expect(0);
    check("cosyd", &folder, &out);
    let lines = err.lines().filter_map(|line| line.split_once(": write "));
    let advice = lines.filter_map(|(_, rest)| rest.strip_suffix(" into noded.toml"));
    let advice: String = advice.map(|line| format!("{line}\n")).collect();
    let key = "00".repeat(32);
    let node = format!("name = 'n'\ncontroller = 'x:1'\ncontroller_key = '{key}'\n");
    check("noded", &folder, &format!("{node}{advice}"));
    (out, err)
}

/// The table of a queue with its access.
fn queue<'a>(toml: &'a str, name: &str) -> &'a str {
    let begin = toml
        .find(&format!("[[queue]]\nname = \"{name}\"\n"))
        .unwrap();
    let rest = &toml[begin..];
    let end = rest[2..]
        .find("\n[[queue]]")
        .map_or(rest.len(), |at| at + 3);
    &rest[..end]
}

const CLOSED: &str = "users = { \"root\" = \"allow\" }\nothers = \"deny\"\n";

/// A fixture with its accounts: the configuration, the file of accounts, and what was said.
fn with_accounts(conf: &Path) -> (String, String, String) {
    let folder = TempDir::new().unwrap();
    let policy = folder.path().join("policy");
    let (dump, qos) = (conf.with_extension("dump"), conf.with_extension("qos"));
    let more = [
        ("--accounts", dump.as_path()),
        ("--qos", qos.as_path()),
        ("--policy", policy.as_path()),
    ];
    let (toml, said) = imported(conf, &more);
    (toml, fs::read_to_string(&policy).unwrap(), said)
}

#[test]
fn every_fixture_passes_the_check() {
    for file in fs::read_dir(fixture("")).unwrap() {
        let conf = file.unwrap().path();
        if conf.extension().is_some_and(|e| e == "conf") {
            imported(&conf, &[]);
            if conf.with_extension("dump").exists() {
                with_accounts(&conf);
            }
        }
    }
}

#[test]
fn what_limits_a_partition_leaves_it_closed() {
    let (toml, said) = imported(&fixture("university.conf"), &[]);
    for name in ["inside", "there", "later"] {
        let queue = queue(&toml, name);
        assert!(queue.contains(CLOSED), "{queue}");
        assert!(queue.contains("# In Slurm: "), "{queue}");
    }
    for (name, list) in [
        ("main", "allow_qos = [\"high\", \"normal\"]\n"),
        ("physics", "allow_accounts = [\"physics\"]\n"),
        ("gpu", "deny_qos = [\"scavenger\"]\n"),
    ] {
        let queue = queue(&toml, name);
        assert!(queue.contains(list) && !queue.contains("[queue.access]"), "{queue}");
    }
    assert!(toml.contains("[preemption]\nby = [\"queue\"]\nmode = \"requeue\"\n"), "{toml}");
    // Root alone, whatever groups there are.
    let root = queue(&toml, "root");
    assert!(root.contains(CLOSED) && !root.contains("groups"), "{root}");
    assert!(queue(&toml, "odd").contains("state = \"closed\""));
    let short = queue(&toml, "short");
    assert!(
        short.contains(
            "groups = { \"ops\" = \"allow\", \"res earch\" = \"allow\" }\nothers = \"deny\""
        ),
        "{short}"
    );
    // Users without an account are refused there, and nobody says who has one.
    let enforce = "enforce = [\"associations\", \"limits\", \"qos\"]\n";
    assert!(toml.contains(enforce), "{toml}");
    assert!(said.contains("nobody but administrators may submit until accounts are there"));
    let rule = "name = \"lua\"\nwhen = \"not admin\"\nrefuse = ";
    assert!(toml.contains(rule), "{toml}");
    let root = "name = \"DisableRootJobs\"\nwhen = \"user == \\\"root\\\" and request != \\\"change\\\"\"\nrefuse = ";
    assert!(toml.contains(root), "{toml}");
    let last = said.lines().last().unwrap();
    assert_eq!(
        last,
        "cadm: for root and administrators alone until you say who else may use them: queue inside, there, later, odd"
    );
    for told in [
        "MaxNodes=many",
        "OverSubscribe=FORCE:4",
        "JobSubmitPlugins=lua",
        "health_interval = \"300s\"",
        "HealthCheckNodeState=ANY",
        "ansys@flex1:20",
        "SlurmdTimeout=5",
        "cn999",
    ] {
        assert!(said.contains(told), "{told} is not told:\n{said}");
    }
}

#[test]
fn accounts_come_along() {
    let (toml, policy, said) = with_accounts(&fixture("university.conf"));
    assert!(toml.contains("admins = [\"eve\", \"root\"]\n"), "{toml}");
    assert!(!toml.contains("[account"), "accounts are in the tree: {toml}");
    for want in [
        "Cluster - 'uni':Fairshare=1:QOS='normal'\n",
        "QOS - 'normal':Priority='10':PreemptMode='cluster':UsageFactor='1.000000'\n",
        "QOS - 'high':Priority='100':GraceTime='00:02:00':PreemptMode='cancel':UsageFactor='2.000000':MaxTRESPerUser='cpu=256,gres/gpu=8':Preempt='scavenger'\n",
        "\nQOS - 'booked':Flags='RequiresReservation':UsageFactor='1.000000'\n",
        "Account - 'physics':Description='physics':Organization='physics':Fairshare=10:GrpTRES=cpu=512\n",
        "User - 'bob':DefaultAccount='physics':AdminLevel='Operator':MaxJobs=5\n",
        "# no user can have that name here:\n#User - 'odd name':Fairshare=1\n",
    ] {
        assert!(policy.contains(want), "{want} in {policy}");
    }
    assert!(said.contains("university.dump:5: Account - 'grants'"), "{said}");
}

/// A file that is wrong is told with its line, and nothing is written.
#[test]
fn wrong_files_leave_nothing() {
    let folder = TempDir::new().unwrap();
    let put = |name: &str, text: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let conf = put("slurm.conf", b"NodeName=n1 CPUs=2\n");
    let (toml, policy) = (folder.path().join("toml"), folder.path().join("policy"));
    let fails = |conf: &Path, dump: &Path, want: &str| {
        let more = [
            ("--accounts", dump),
            ("--policy", policy.as_path()),
            ("--output", toml.as_path()),
        ];
        let out = import(conf, &more);
        assert!(out.code != 0 && out.err.contains(want), "{}", out.err);
        assert!(!toml.exists() && !policy.exists());
    };
    let dump = put("a.dump", b"Cluster - 'a'\r\nAccount - 'b':Fairshare=-7\r\n");
    fails(&conf, &dump, "a.dump:2: Fairshare=-7: Invalid value for FairShare (-7)");
    fails(&conf, &put("b.dump", &[0, 159, 146, 150, 10]), "b.dump:1: character \\u{0}");
    fails(&conf, &put("c.dump", b""), "c.dump:1: no line of a cluster");
    let good = put("good.dump", b"Cluster - 'a'\n");
    fails(&put("l.conf", b"# ok\nInclude l.conf\n"), &good, "l.conf:2: ");
    fails(&put("u.conf", b"# M\xfcller\nNodeName=n\xfc\n"), &good, "u.conf:2: letters");
    let huge = folder.path().join("huge.conf");
    fs::File::create(&huge).unwrap().set_len(17 << 20).unwrap();
    fails(&huge, &good, "is larger than 16 MiB");
    // What is there already stays.
    fs::write(&policy, "mine").unwrap();
    let more = [
        ("--accounts", good.as_path()),
        ("--policy", policy.as_path()),
        ("--output", toml.as_path()),
    ];
    assert_eq!(import(&conf, &more).code, 1);
    assert!(!toml.exists() && fs::read_to_string(&policy).unwrap() == "mine");
}

/// Devices of gres.conf are advice that a node daemon takes; switches are carried over.
#[test]
fn files_beside_the_configuration() {
    let folder = TempDir::new().unwrap();
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    put(
        "slurm.conf",
        "NodeName=n[1-4] CPUs=2 RealMemory=100 Gres=gpu:a100:2,fpga:3\nNodeName=n[8-9] CPUs=8 RealMemory=9000 CoreSpecCount=2 MemSpecLimit=4096\n",
    );
    put(
        "gres.conf",
        "AutoDetect=off\nNodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-1] Cores=0-3\nName=fpga Count=3\nNodeName=n3 AutoDetect=nvml Name=gpu\nName=shard Count=8\n",
    );
    put(
        "topology.conf",
        "SwitchName=left Nodes=n[1-2]\nSwitchName=right Nodes=n[3-4]\nSwitchName=top Switches=left,right\nBlockName=late Nodes=n4\nSwitchName=gone Nodes=x1\n",
    );
    let (toml, said) = imported(&folder.path().join("slurm.conf"), &[]);
    assert!(toml.contains("[[switch]]\nname = \"left\"\nnodes = \"n[1-2]\"\n"), "{toml}");
    assert!(toml.contains("[[switch]]\nname = \"top\"\nswitches = \"left,right\"\n"), "{toml}");
    assert!(said.contains("topology.conf:4: n4 hang on another switch already"), "{said}");
    assert!(said.contains("topology.conf:5: switch gone has no nodes"), "{said}");
    assert!(said.contains("gres.conf:2: Cores=0-3 is not carried over"), "{said}");
    for advice in [
        "slurm.conf:2: n[8-9]: write reserved = { cores = 2, memory = \"4096M\" } into their noded.toml",
        "gres.conf:1: AutoDetect=off of all nodes: write gpu_detect = false into their noded.toml",
        "gres.conf:4: AutoDetect=nvml of n3: noded finds GPUs by itself",
        "gres.conf:5: shards of every node that has it: write how many each GPU has",
    ] {
        assert!(said.contains(advice), "{advice}: {said}");
    }
    let key = "00".repeat(32);
    for of in ["gpu of n[1-2]", "fpga of every node that has it"] {
        let advice = said.split(&format!("{of}: write ")).nth(1).unwrap();
        let advice = advice.split(" into their noded.toml").next().unwrap();
        let node = format!("name = 'n'\ncontroller = 'x:1'\ncontroller_key = '{key}'\n{advice}\n");
        check("noded", &folder, &node);
    }
}

#[test]
fn partitions_that_did_not_come_along_open_nothing() {
    let (toml, _) = imported(&fixture("included.conf"), &[]);
    assert!(queue(&toml, "main").contains(CLOSED), "{toml}");
    let (toml, _) = imported(&fixture("empty.conf"), &[]);
    assert!(!queue(&toml, "main").contains("access"), "{toml}");
}

/// The programs that are advised are run as Slurm runs them: all of a pattern, until one fails.
#[test]
fn the_advised_commands_do_what_slurm_does() {
    let folder = TempDir::new().unwrap();
    let script = |name: &str, text: &str| {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let log = folder.path().join("log");
    script("1.sh", &format!("echo one >> {}", log.display()));
    script("2.sh", &format!("echo two >> {}; exit 7", log.display()));
    script("3.sh", &format!("echo three >> {}", log.display()));
    let mail = script("post man", &format!("printf '%s.' \"$@\" >> {}", log.display()));
    let conf = folder.path().join("slurm.conf");
    let text =
        format!("Prolog={}/*.sh\nMailProg=\"{}\"\n", folder.path().display(), mail.display());
    fs::write(&conf, text).unwrap();
    let (toml, said) = imported(&conf, &[]);
    let prolog = said.split("prolog = ").nth(1).unwrap();
    let prolog = prolog.split(" into noded.toml").next().unwrap();
    let line = toml
        .lines()
        .find(|l| l.starts_with("mail_command"))
        .unwrap();
    let command = |list: &str, more: &[&str]| {
        // An array of basic strings is the same in JSON.
        let words: Vec<String> = serde_json::from_str(list).unwrap();
        run(Command::new(&words[0]).args(&words[1..]).args(more)).code
    };
    assert_eq!(command(prolog, &[]), 1);
    let mail = line.split_once(" = ").unwrap().1;
    assert_eq!(command(mail, &["ann@x", "job 1 has ended"]), 0);
    assert_eq!(fs::read_to_string(&log).unwrap(), "one\ntwo\n-s.job 1 has ended.ann@x.");
}

/// Whatever words a file is made of, what is written is a configuration.
#[test]
fn any_file_becomes_a_configuration() {
    const KEYS: &[&str] = &[
        "NodeName",
        "PartitionName",
        "NodeSet",
        "Nodes",
        "CPUs",
        "RealMemory",
        "TmpDisk",
        "Gres",
        "Feature",
        "Licenses",
        "MaxTime",
        "DefaultTime",
        "MaxNodes",
        "MaxMemPerNode",
        "DefMemPerCPU",
        "AllowGroups",
        "AllowAccounts",
        "RootOnly",
        "State",
        "Default",
        "PriorityTier",
        "KillWait",
        "SlurmdTimeout",
        "MinJobAge",
        "MaxArraySize",
        "FirstJobId",
        "ClusterName",
        "SchedulerParameters",
        "MailProg",
        "Prolog",
        "OverSubscribe",
        "AccountingStorageEnforce",
        "JobSubmitPlugins",
        "DisableRootJobs",
        "MinNodes",
        "PriorityType",
        "PriorityWeightAge",
        "PriorityDecayHalfLife",
        "PriorityCalcPeriod",
        "PriorityMaxAge",
        "PriorityJobFactor",
        "TRESBillingWeights",
        "SelectType",
        "PrivateData",
    ];
    const VALUES: &[&str] = &[
        "n[1-4]",
        "n[3-9],m1",
        "DEFAULT",
        "ALL",
        "main",
        "a,b",
        "0",
        "1",
        "-1",
        "64",
        "99999999999999999999",
        "4294967296",
        "UNLIMITED",
        "1-00:00:00",
        "30",
        "YES",
        "gpu:a100:2,x:9G",
        "gpu:4294967295,gpu:7",
        "x@y:2,z*3",
        "a b",
        "\"a b\"",
        "'",
        "\\\"",
        "\u{1}",
        "[",
        "n[1-99999999]",
        "batch_sched_delay=9999999",
        "/bin/x*'y\\z",
        "associations",
        "FORCE:4",
        "select/linear",
        "",
        "\u{fc}",
        "grants",
        "priority/multifactor",
        "lua",
        "all_partitions,a'\"b,require_timelimit",
        "CPU=1.0,Mem=0.25G,GRES/gpu=2.0,energy=1",
        "cpu=0.0000001,mem=9999T,gres/a b=1",
    ];
    let folder = TempDir::new().unwrap();
    let conf = folder.path().join("slurm.conf");
    let mut chance = Chance::from_environment();
    for _ in 0..60 {
        let mut text = String::new();
        for _ in 0..chance.below(30) {
            let first = KEYS[chance.below(3) as usize * usize::from(chance.one_in(2))];
            let mut line =
                format!("{first}={}", VALUES[chance.below(VALUES.len() as u64) as usize]);
            for _ in 0..chance.below(6) {
                let key = KEYS[chance.below(KEYS.len() as u64) as usize];
                let value = VALUES[chance.below(VALUES.len() as u64) as usize];
                line.push_str(&format!("{}{key}={value}", [" ", "\n"][chance.below(2) as usize]));
            }
            text.push_str(&line);
            text.push('\n');
        }
        fs::write(&conf, &text).unwrap();
        let out = import(&conf, &[]);
        eprintln!("{text}");
        match out.code {
            0 => check("cosyd", &folder, &out.out),
            // Or it is said which line is wrong, and nothing is written.
            _ => assert!(out.out.is_empty() && out.err.contains("slurm.conf:"), "{}", out.err),
        }
    }
}
