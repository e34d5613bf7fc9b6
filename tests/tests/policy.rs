//! Accounts, users and qualities of service through the commands of administrators, coordinators and
//! users: files, bad input, what is told of it afterwards.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::people::{self, ANN};
use cosy_tests::{Cluster, Options, system};
use std::fmt::Write;
use std::fs;

fn options() -> Options {
    let policy = "heartbeat = \"1s\"\ngrace = \"1s\"\nenforce = [\"associations\", \"qos\"]\n";
    Options {
        policy: policy.into(),
        ..Options::default()
    }
}

const SITE: &str = "[[qos]]\nname='urgent'\npriority=9\npreempt='normal'\n\
    [[account]]\nname='science'\nqos='normal,urgent'\n\
    [[account]]\nname='physics'\nparent='science'\ncoordinators='ann'\nGrpTRES='cpu=4'\n\
    [[user]]\nname='ann'\n[[user.in]]\naccount='physics'\nMaxJobs=3\n";

fn load(c: &Cluster, text: &str) {
    fs::write(c.work().join("site.toml"), text).unwrap();
    c.run(&["cadm", "account", "load", "site.toml"]).expect(0);
}

#[test]
fn a_file_is_loaded_whole_or_not_at_all() {
    let c = Cluster::start(1, options());
    load(&c, SITE);
    let dump = c.run(&["cadm", "account", "dump"]).expect(0).out;
    assert!(dump.contains("GrpTRES = \"cpu=4\""), "{dump}");
    let check = |text: &str, code: i32, want: &str| {
        fs::write(c.work().join("bad.toml"), text).unwrap();
        let told = c.run(&["cadm", "account", "load", "bad.toml"]);
        assert_eq!(told.code, code, "{text}: {}", told.err);
        assert!(told.err.contains(want), "{text}: {}", told.err);
        assert_eq!(c.run(&["cadm", "account", "dump"]).out, dump, "{text}");
    };
    let fresh = "[[account]]\nname='fresh'\n";
    check(&format!("{fresh}[[account]]\nname='x'\nMaxJob=3\n"), 2, "did you mean MaxJobs?");
    check(
        &format!("{fresh}[[account]]\nname='a'\nparent='b'\n[[account]]\nname='b'\nparent='a'\n"),
        2,
        "a circle",
    );
    // What only the controller can know.
    check(&format!("{fresh}[[account]]\nname='a b'\n"), 1, "is no name of an account");
    check(
        &format!("{fresh}[[account]]\nname='x'\nqos='nothing'\n"),
        1,
        "no quality of service 'nothing'",
    );
    check(
        &format!("{fresh}[[qos]]\nname='urgent'\npreempt='urgent'\n"),
        1,
        "cannot preempt itself",
    );
    check(
        &format!("{fresh}[[qos]]\nname='odd'\nMinTRESPerJob='cpu=9'\nMaxTRESPerJob='cpu=8'\n"),
        1,
        "no job at all",
    );
    check(
        &format!("{fresh}[[user]]\nname='@staff'\n[[user.in]]\naccount='fresh'\n"),
        1,
        "no login name",
    );
    check(&format!("{fresh}[[user]]\nname='ann'\ndefault='fresh'\n"), 1, "is not in account fresh");
    // The same file again, and what would change.
    let again = c.run(&["cadm", "account", "load", "site.toml"]).expect(0);
    assert_eq!(again.out, "everything is as the file says\n");
    fs::write(c.work().join("less.toml"), SITE.replace("MaxJobs=3\n", "")).unwrap();
    let dry = [
        "cadm",
        "account",
        "load",
        "--dry-run",
        "--prune",
        "less.toml",
    ];
    let told = c.run(&dry).expect(0).out;
    assert_eq!(
        told,
        "change user ann in account physics: MaxJobs=none\n\
         changes: 1; without --dry-run they would be made\n"
    );
    assert_eq!(c.run(&["cadm", "account", "dump"]).out, dump);
}

#[test]
fn what_was_done_is_told_in_slurms_words() {
    let c = Cluster::start(1, options());
    load(&c, SITE);
    let told = |words: &[&str]| {
        let told = c.run(words);
        (told.code, told.out, told.err)
    };
    let transactions = [
        "sacctmgr",
        "-nP",
        "show",
        "transaction",
        "format=action,where,info",
    ];
    let (code, out, _) = told(&transactions);
    assert_eq!(code, 0);
    for line in [
        "Add QOS|urgent|Description=urgent Priority=9\n",
        "Add Accounts|physics|below science: GrpTRES=cpu=4\n",
        "Add Associations|acct='physics' user='ann'|MaxJobs=3\n",
        "Add Account Coord|ann|physics\n",
    ] {
        assert!(out.contains(line), "{line} {out}");
    }
    c.run(&["cadm", "node", "drain", "n1", "-r", "fan"])
        .expect(0);
    let events = [
        "sacctmgr",
        "-nP",
        "show",
        "event",
        "nodes=n1",
        "format=nodename,state,reason,end",
    ];
    assert_eq!(told(&events), (0, "n1|DRAIN|fan|Unknown\n".into(), String::new()));
    let runaway = ["sacctmgr", "show", "runawayjobs"];
    let none = "Runaway Jobs: No runaway jobs found on cluster test\n";
    assert_eq!(told(&runaway), (0, none.into(), String::new()));
    let (code, out, _) = told(&[
        "scontrol",
        "show",
        "assoc_mgr",
        "accounts=physics",
        "flags=assoc",
    ]);
    assert_eq!(code, 0);
    assert!(out.contains("Account=physics UserName= Partition= Priority=0"), "{out}");
    assert!(out.contains("GrpTRES=cpu=4(0),mem=N(0)"), "{out}");
    for (words, want) in [
        (&["sacctmgr", "archive", "dump"][..], "no database to archive"),
        (&["sacctmgr", "clear", "stats"], "see sdiag"),
        (&["sacctmgr", "show", "stats"], "sdiag"),
        (&["sacctmgr", "shutdown"], "no slurmdbd"),
        (&["sacctmgr", "-i", "add", "resource", "name=x", "count=1"], "[licenses]"),
        (&["sacctmgr", "show", "event", "start=nonsense"], "Invalid time specification"),
        (&["sacctmgr", "show", "transaction", "action=nothing"], "You gave a bad action 'nothing'"),
    ] {
        let (code, _, err) = told(words);
        assert!(code == 1 && err.contains(want), "{words:?} {code} {err}");
    }
}

/// As an ordinary user, as a coordinator, and with a job in the way.
#[test]
fn who_may_do_what_and_when() {
    if !system::root_or_skip() {
        return;
    }
    let c = people::start(1, options());
    load(&c, SITE);
    let ann = |words: &[&str]| c.run_as(ANN, words);
    let refused = |words: &[&str], want: &str| {
        let told = ann(words);
        assert!(told.code != 0 && told.err.contains(want), "{words:?}: {}", told.err);
    };
    refused(&["cadm", "qos", "create", "mine"], "may not change this");
    refused(&["cadm", "account", "create", "mine", "--parent", "science"], "may not change this");
    refused(&["sacctmgr", "-i", "add", "qos", "mine"], "doesn't have privilege");
    refused(&["sacctmgr", "show", "transaction"], "administrator");
    // A coordinator gives what the account has, below it, and no more.
    ann(&["cadm", "account", "create", "lab", "--parent", "physics"]).expect(0);
    ann(&["cadm", "user", "add", "bob", "lab", "MaxJobs=1"]).expect(0);
    refused(&["cadm", "account", "set", "physics", "GrpTRES=cpu=400"], "may not change this");
    refused(&["cadm", "user", "level", "ann", "administrator"], "may not change this");
    // A list of changes of which one may not be made.
    fs::write(c.work().join("more.toml"), "[[account]]\nname='lab'\nparent='physics'\nshares=9\n[[account]]\nname='physics'\nparent='science'\nshares=9\ncoordinators='ann'\nGrpTRES='cpu=4'\n").unwrap();
    refused(&["cadm", "account", "load", "more.toml"], "nothing was changed");
    let tree = c.run(&["cadm", "account", "dump"]).out;
    assert!(!tree.contains("shares"), "{tree}");
    let told = ann(&["csub", "--qos", "urgent", "--", "sleep", "600"])
        .expect(0)
        .out;
    let job: u64 = told.trim().rsplit(' ').next().unwrap().parse().unwrap();
    c.until_state(JobId(job), JobState::Running);
    for words in [
        &["sacctmgr", "-i", "delete", "user", "ann"][..],
        &["sacctmgr", "-i", "delete", "account", "science"],
        &["sacctmgr", "-i", "delete", "user", "ann", "account=physics"],
    ] {
        let told = c.run(words);
        let want = format!(
            " Error with request: Job(s) active, cancel job(s) before remove\n  \
             JobID = {job:<10} C = test       A = physics    U = ann      \n"
        );
        assert_eq!((told.code, &*told.err), (1, &*want), "{words:?}");
    }
    let told = c.run(&["cadm", "user", "remove", "ann"]);
    assert!(
        told.err
            .contains(&format!("'cosy cancel {job}' cancels them")),
        "{}",
        told.err
    );
    // Its list shrinks: what runs goes on, what waits waits until it may again.
    let waits = ann(&["csub", "-c4", "--qos", "urgent", "--", "sleep", "600"])
        .expect(0)
        .out;
    let waits: u64 = waits.trim().rsplit(' ').next().unwrap().parse().unwrap();
    let shown = |c: &Cluster| {
        c.run(&["squeue", "-h", "-j", &waits.to_string(), "-o", "%T %r"])
            .out
    };
    c.run(&[
        "sacctmgr",
        "-i",
        "modify",
        "account",
        "science",
        "set",
        "qos=normal",
    ])
    .expect(0);
    assert_eq!(shown(&c), "PENDING InvalidQOS\n");
    c.until_state(JobId(job), JobState::Running);
    c.run(&[
        "sacctmgr",
        "-i",
        "modify",
        "account",
        "science",
        "set",
        "qos+=urgent",
    ])
    .expect(0);
    assert_ne!(shown(&c), "PENDING InvalidQOS\n");
    c.run(&["cosy", "cancel", &job.to_string(), &waits.to_string()])
        .expect(0);
    c.until_end(JobId(job));
    c.until_end(JobId(waits));
    c.run(&["sacctmgr", "-i", "delete", "account", "science"])
        .expect(0);
}

/// A site of thousands is loaded, dumped, changed and shown.
#[test]
fn many_accounts_and_users() {
    let c = Cluster::start(1, options());
    let mut text = String::new();
    for at in 0..1000 {
        let parent = match at {
            0..30 => "root".to_owned(),
            _ => format!("a{}", at - 30),
        };
        // Not deeper than accounts may be.
        let parent = if at / 30 > 20 {
            "root".to_owned()
        } else {
            parent
        };
        writeln!(text, "[[account]]\nname='a{at}'\nparent='{parent}'\nshares={}", at % 7 + 1)
            .unwrap();
    }
    for at in 0..10_000 {
        writeln!(text, "[[user]]\nname='u{at}'\n[[user.in]]\naccount='a{}'\nMaxJobs=5", at % 1000)
            .unwrap();
    }
    load(&c, &text);
    let dump = c.run(&["cadm", "account", "dump", "all.toml"]).expect(0);
    assert_eq!(dump.out, "");
    let again = c
        .run(&["cadm", "account", "load", "--prune", "all.toml"])
        .expect(0);
    assert_eq!(again.out, "everything is as the file says\n");
    let rows = c
        .run(&[
            "sacctmgr",
            "-nP",
            "show",
            "assoc",
            "tree",
            "format=account,user",
        ])
        .expect(0);
    assert_eq!(rows.out.lines().count(), 11_001);
    let rows = c
        .run(&["sacctmgr", "-nP", "show", "account", "withcoord"])
        .expect(0);
    assert_eq!(rows.out.lines().count(), 1001);
    let whole = c
        .run(&["scontrol", "-o", "show", "assoc_mgr", "flags=assoc"])
        .expect(0);
    assert!(whole.out.lines().count() > 11_001);
    // 10,000 changes in one request, and all of them refused for the last.
    let changed = text.replace("MaxJobs=5", "MaxJobs=6");
    fs::write(c.work().join("bad.toml"), format!("{changed}[[user]]\nname='zz'\ndefault='a1'\n"))
        .unwrap();
    let told = c.run(&["cadm", "account", "load", "bad.toml"]);
    assert!(told.code != 0 && told.err.contains("nothing was changed"), "{}", told.err);
    load(&c, &changed);
    fs::write(c.work().join("empty.toml"), "").unwrap();
    let told = c
        .run(&["cadm", "account", "load", "--prune", "empty.toml"])
        .expect(0);
    assert!(told.out.ends_with("changes made: 10400\n"), "{}", &told.out[told.out.len() - 99..]);
}

/// Changes of an administrator, each until it was answered; those that were acknowledged.
fn changes_by(c: &Cluster, admin: u32, count: u32) -> Vec<(String, u32)> {
    let mut done = Vec::new();
    for n in 0..count {
        let name = format!("lab{admin}x{n}");
        let jobs = format!("GrpJobs={}", 1000 * admin + n);
        let own = format!("MaxJobs={}", n + 1);
        let all: [&[&str]; 3] = [
            &[
                "sacctmgr",
                "-i",
                "add",
                "account",
                &name,
                "parent=common",
                &own,
            ],
            &[
                "sacctmgr", "-i", "modify", "account", "common", "set", &jobs,
            ],
            &["cadm", "account", "set", &name, "GrpJobs=7"],
        ];
        if all.iter().all(|words| c.run(words).code == 0) {
            done.push((name, n));
        }
    }
    done
}

/// Two administrators change the same tree at once: what was acknowledged is there, whole, also after
/// the controller was killed.
#[test]
fn two_administrators_at_once() {
    if !system::root_or_skip() {
        return;
    }
    const EACH: u32 = 15;
    let mut c = Cluster::start(1, Options::default());
    c.run(&["sacctmgr", "-i", "add", "account", "common"])
        .expect(0);
    let (one, two) = std::thread::scope(|all| {
        let one = all.spawn(|| changes_by(&c, 1, EACH));
        let two = all.spawn(|| changes_by(&c, 2, EACH));
        (one.join().unwrap(), two.join().unwrap())
    });
    assert_eq!((one.len(), two.len()), (EACH as usize, EACH as usize), "each change is made");
    let look = |c: &Cluster| {
        let format = "format=account,user,maxjobs,grpjobs";
        let words = ["sacctmgr", "-nP", "show", "associations", format];
        c.run(&words).expect(0).out
    };
    let before = look(&c);
    for (name, n) in one.iter().chain(&two) {
        let row = format!("{name}||{}|7", n + 1);
        assert!(before.lines().any(|line| line == row), "{row}: {before}");
    }
    let last: Vec<String> = (1..=2)
        .map(|admin| format!("common|||{}", 1000 * admin + EACH - 1))
        .collect();
    let common = before.lines().filter(|line| line.starts_with("common|"));
    let common: Vec<&str> = common.collect();
    assert!(common.len() == 1 && last.iter().any(|row| row == common[0]), "{common:?}");
    c.cosyd.kill();
    c.start_cosyd();
    assert_eq!(look(&c), before);
}
