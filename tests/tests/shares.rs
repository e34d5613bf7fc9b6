//! Limits, priorities and shares with real daemons: what users are told of them in the words of both
//! systems, and that a controller that is killed forgets nothing of it.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::people::{self, ANN, BOB};
use cosy_tests::{Cluster, Options, Output, system, wait};
use std::fs;

const SITE: &str = "[[account]]\nname='physics'\nshares=3\n\
    [[account]]\nname='chem'\nshares=1\n\
    [[user]]\nname='ann'\n[[user.in]]\naccount='physics'\nMaxJobs=1\n\
    [[user]]\nname='bob'\n[[user.in]]\naccount='chem'\n";

/// One node with four cores.
fn cluster(queue: &str, priority: &str) -> Cluster {
    let options = Options {
        policy:
            "heartbeat = \"1s\"\nnode_timeout = \"60s\"\ngrace = \"1s\"\nenforce = [\"limits\"]\n"
                .into(),
        head: priority.to_owned(),
        queues: Some(format!(
            "[[queue]]\nname = \"main\"\ndefault = true\nnodes = \"n1\"\n{queue}\n"
        )),
        ..Options::default()
    };
    let c = people::start(1, options);
    fs::write(c.work().join("site.toml"), SITE).unwrap();
    c.run(&["cadm", "account", "load", "site.toml"]).expect(0);
    c
}

fn submits(c: &Cluster, who: u32, words: &[&str]) -> JobId {
    let told = c.run_as(who, &[&["csub"], words, &["--", "sleep", "600"]].concat());
    let out = told.expect(0).out;
    JobId(out.trim().rsplit(' ').next().unwrap().parse().unwrap())
}

fn reason(c: &Cluster, job: JobId) -> String {
    let job = job.to_string();
    let words = ["squeue", "-h", "-j", &job, "-o", "%T %r"];
    c.run(&words).expect(0).out
}

fn cancel(c: &Cluster, job: JobId) {
    c.run(&["ccancel", &job.to_string()]).expect(0);
    c.until_end(job);
}

#[test]
fn a_limit_holds_and_nothing_of_it_is_forgotten() {
    if !system::root_or_skip() {
        return;
    }
    let mut c = cluster("", "");
    let first = submits(&c, ANN, &["-c1"]);
    c.until_state(first, JobState::Running);
    let second = submits(&c, ANN, &["-c1"]);
    let held = "PENDING AssocMaxJobsLimit\n";
    assert_eq!(reason(&c, second), held);
    let told = c.run_as(ANN, &["cstat", &second.to_string()]).expect(0).out;
    let limit = "user ann in account physics: MaxJobs=1, in use 1, wanted 1";
    assert!(told.contains(limit), "{told}");
    // It holds back nobody else.
    let other = submits(&c, BOB, &["-c1"]);
    c.until_state(other, JobState::Running);
    c.cosyd.kill();
    c.start_cosyd();
    assert_eq!(reason(&c, second), held);
    cancel(&c, first);
    c.until_state(second, JobState::Running);
    // A raised limit counts at once.
    let third = submits(&c, ANN, &["-c1"]);
    assert_eq!(reason(&c, third), held);
    let raise = ["cadm", "user", "set", "ann", "physics", "MaxJobs=2"];
    c.run(&raise).expect(0);
    c.until_state(third, JobState::Running);
}

/// The lines behind the head of a table.
fn rows(told: Output) -> Vec<Vec<String>> {
    let out = told.expect(0).out;
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    out.lines().map(words).collect()
}

#[test]
fn who_has_used_less_goes_first_and_is_told_so() {
    if !system::root_or_skip() {
        return;
    }
    let weights = "[priority.weights]\nfair_share = 1000\nage = 10\n";
    let mut c = cluster("order = \"weights\"", weights);
    let first = submits(&c, ANN, &["-c4"]);
    c.until_state(first, JobState::Running);
    wait::until_true("use is counted", || {
        let rows = rows(c.run(&["sshare", "-nP", "-u", "ann", "-o", "user,rawusage"]));
        let used = rows.concat().concat();
        used.rsplit('|').next().is_some_and(|used| used != "0")
    });
    let (anns, bobs) = (submits(&c, ANN, &["-c4"]), submits(&c, BOB, &["-c4"]));
    let sprio = |c: &Cluster| {
        let rows = rows(c.run(&["sprio", "-h", "-o", "%i %F"]));
        let factor = |job: JobId| -> u64 {
            let job = job.to_string();
            let row = rows.iter().find(|row| row[0] == job);
            row.unwrap_or_else(|| panic!("{job} {rows:?}"))[1]
                .parse()
                .unwrap()
        };
        (factor(anns), factor(bobs))
    };
    let (of_ann, of_bob) = sprio(&c);
    assert!(of_bob > of_ann, "{of_ann} {of_bob}");
    let told = c.run_as(ANN, &["cstat", "share"]).expect(0).out;
    assert!(told.contains("physics") && told.contains("chem"), "{told}");
    // Whose place it is is told to that user and to administrators.
    let told = c.run_as(BOB, &["cstat", "share", "-u", "ann"]);
    assert!(told.code != 0 && told.err.contains("told to ann"), "{} {}", told.code, told.err);
    c.cosyd.kill();
    c.start_cosyd();
    let (of_ann, of_bob) = sprio(&c);
    assert!(of_bob > of_ann, "after a kill: {of_ann} {of_bob}");
    cancel(&c, first);
    c.until_state(bobs, JobState::Running);
    // What is forgotten is so for the order, too; nobody else than an administrator says so.
    let reset = ["cadm", "account", "reset-usage", "physics"];
    let told = c.run_as(ANN, &reset);
    assert!(told.code != 0, "{}", told.out);
    c.run(&reset).expect(0);
    let told = rows(c.run(&[
        "sshare",
        "-nP",
        "-A",
        "physics",
        "-o",
        "account,user,rawusage",
    ]));
    assert_eq!(told.concat(), ["physics||0"]);
}
