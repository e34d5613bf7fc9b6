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

fn import(conf: &Path, words: &[&Path]) -> Output {
    let mut command = Command::new(programs::folder().join("cosy"));
    command.arg0("cadm").arg("import-slurm").arg(conf);
    for dump in words {
        command.arg("--accounts").arg(dump);
    }
    run(&mut command).expect(0)
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
fn imported(conf: &Path, dump: Option<&Path>) -> (String, String) {
    let folder = TempDir::new().unwrap();
    let Output { out, err, .. } = import(conf, dump.as_slice());
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

#[test]
fn every_fixture_passes_the_check() {
    for file in fs::read_dir(fixture("")).unwrap() {
        let conf = file.unwrap().path();
        if conf.extension().is_some_and(|e| e == "conf") {
            imported(&conf, None);
            let dump = conf.with_extension("dump");
            if dump.exists() {
                imported(&conf, Some(&dump));
            }
        }
    }
}

#[test]
fn what_limits_a_partition_leaves_it_closed() {
    let (toml, said) = imported(&fixture("university.conf"), None);
    for name in ["main", "physics", "gpu", "inside", "there", "later"] {
        let queue = queue(&toml, name);
        assert!(queue.contains(CLOSED), "{queue}");
        assert!(queue.contains("# In Slurm: "), "{queue}");
    }
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
    assert!(queue(&toml, "everybody").contains(CLOSED));
    for told in [
        "AllowQos=normal,high",
        "AllowAccounts=physics",
        "DenyQos=scavenger",
        "OverSubscribe=FORCE:4",
        "JobSubmitPlugins=lua",
        "PreemptType=preempt/partition_prio",
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
fn with_a_dump_queues_are_for_those_who_have_an_account() {
    let dump = fixture("university.dump");
    let (toml, _) = imported(&fixture("university.conf"), Some(&dump));
    let everybody = queue(&toml, "everybody");
    let users = "users = { \"ann\" = \"allow\", \"bob\" = \"allow\", \"eve\" = \"allow\", \"root\" = \"allow\" }\nothers = \"deny\"\n";
    assert!(everybody.contains(users), "{everybody}");
    let physics = queue(&toml, "physics");
    assert!(!physics.contains("ann"), "{physics}");
    assert!(toml.contains("[account.\"science\"]\n# No user can be named: only root may charge it.\nmembers = [\"root\"]\n"), "{toml}");
    assert!(!toml.contains("members = []"), "that would be everybody");
}

#[test]
fn partitions_that_did_not_come_along_open_nothing() {
    let (toml, _) = imported(&fixture("included.conf"), None);
    assert!(queue(&toml, "main").contains(CLOSED), "{toml}");
    let (toml, _) = imported(&fixture("empty.conf"), None);
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
    let (toml, said) = imported(&conf, None);
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
        check("cosyd", &folder, &out.out);
    }
}
