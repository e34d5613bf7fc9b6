//! Rules at submission in a real controller: who is told what by which command, changes that are
//! judged as what they leave, and rules that are read again.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::{Reply, Request};
use cosy_model::{JobId, JobState};
use cosy_tests::client::new_key;
use cosy_tests::people::{self, ANN, BOB};
use cosy_tests::{Client, Cluster, Options, system};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const QUEUES: &str = "[[queue]]\nname = \"main\"\ndefault = true\n[[queue]]\nname = \"wide\"\n";

const RULES: &str = r#"
[submit]
exempt = ["bob"]
[[submit.rule]]
name = "wide"
when = "cores > 2"
set = { queue = "wide" }
default = { time_limit = "30m" }
warn = "{cores} cores: the job goes to {queue}"
[[submit.rule]]
name = "named"
require = "name != 'bad' and account != 'bad'"
refuse = "{request} of {user}: no job is called bad"
[[submit.rule]]
name = "short"
when = "time_limit > 2h"
refuse = "{time_limit} is longer than 2h"
"#;

fn cluster() -> Cluster {
    Cluster::start(
        1,
        Options {
            queues: Some(format!("{QUEUES}{RULES}")),
            ..Options::default()
        },
    )
}

fn script(c: &Cluster, name: &str, text: &str) -> String {
    let file = c.work().join(name);
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// The job that a command with `--parsable` has submitted.
fn submitted(c: &Cluster, words: &[&str]) -> JobId {
    let done = c
        .run(&[&["csub", "-H", "--parsable"], words].concat())
        .expect(0);
    JobId(done.out.trim().parse().unwrap())
}

fn shown(c: &Cluster, job: JobId, format: &str) -> String {
    let id = job.to_string();
    let done = c.run(&["squeue", "-h", "-o", format, "-j", &id]).expect(0);
    done.out.trim().to_owned()
}

fn queue_of(c: &Cluster, job: JobId) -> String {
    shown(c, job, "%P")
}

#[test]
fn submissions_changes_and_quotes() {
    let c = cluster();
    // Routed, filled in, and told so.
    let done = c.run(&["csub", "-H", "-n", "3", "--", "true"]).expect(0);
    assert_eq!(done.err.trim(), "csub: 3 cores: the job goes to wide");
    let job = submitted(&c, &["-n", "3", "--", "true"]);
    assert_eq!(queue_of(&c, job), "wide");
    let done = c.run(&["sbatch", "-H", "-n3", "--wrap", "true"]).expect(0);
    assert_eq!(done.err.trim(), "sbatch: 3 cores: the job goes to wide");
    // Refused, in the words of each command.
    c.run(&["csub", "-J", "bad", "--", "true"])
        .expect_refusal("csub: submit of");
    let refused = c.run(&["sbatch", "-J", "bad", "--wrap", "true"]).expect(1);
    let lines: Vec<&str> = refused.err.lines().collect();
    assert!(lines[0].starts_with("sbatch: error: submit of "), "{lines:?}");
    assert_eq!(lines[1], "sbatch: error: Batch job submission failed: Unspecified error");
    // A change is judged as what it leaves of the job.
    let small = submitted(&c, &["-n", "2", "--", "true"]);
    let id = small.to_string();
    c.run(&["cosy", "change", &id, "-c", "2"]).expect(0);
    assert_eq!(queue_of(&c, small), "wide");
    let refused = c.run(&["cosy", "change", &id, "--name", "bad"]).expect(1);
    let lines: Vec<&str> = refused.err.lines().collect();
    assert_eq!(lines.len(), 2, "what a rule warns of, and the refusal: {lines:?}");
    assert!(lines[1].starts_with("cosy change: change of"), "{lines:?}");
    let update = c.run(&[
        "scontrol",
        "update",
        &format!("JobId={id}"),
        "TimeLimit=300",
    ]);
    assert_ne!(update.code, 0, "{update:?}");
    assert!(shown(&c, small, "%j") != "bad");
    // Quotes and bookings.
    for word in ["quote", "book"] {
        c.run(&["cresv", word, "-N", "1", "-t", "3h", "--soonest"])
            .expect_refusal("03:00:00 is longer than 2h");
    }
    // Rules that are read again bind at once; ones with faults do not, and the old ones stay.
    let mut c = c;
    c.reconfigure(|o| {
        o.queues = Some(format!("{QUEUES}[[submit.rule]]\nname = 'x'\nwhen = 'quue'\n"))
    });
    c.run(&["cadm", "reload"])
        .expect_refusal("did you mean 'queue'?");
    c.run(&["csub", "-J", "bad", "--", "true"]).expect(1);
    c.reconfigure(|o| o.queues = Some(QUEUES.into()));
    c.run(&["cadm", "reload"]).expect(0);
    c.run(&["csub", "-H", "-J", "bad", "--", "true"]).expect(0);
}

#[test]
fn what_was_carried_out_is_not_judged_again() {
    let mut c = cluster();
    let id = submitted(&c, &["-J", "later", "--", "true"]);
    c.reconfigure(|o| {
        let never = "[[submit.rule]]\nname = 'never'\nrefuse = 'never'\n";
        o.queues = Some(format!("{QUEUES}{never}"));
    });
    c.cosyd.kill();
    c.start_cosyd();
    assert_eq!(shown(&c, id, "%j"), "later");
    c.run(&["csub", "--", "true"]).expect_refusal("never");
    c.run(&["cosy", "release", &id.to_string()]).expect(0);
    c.until_state(id, JobState::Completed);
}

#[test]
fn rules_are_tried() {
    let c = cluster();
    let text = "#!/bin/sh\n#COSY -n 3\ntrue\n";
    let file = script(&c, "cosy.sh", text);
    let done = c.run(&["cadm", "rule", "test", &file]).expect(0);
    for want in [
        "wide, named",
        "queue becomes wide",
        "time_limit becomes 00:30:00",
        "goes on",
    ] {
        assert!(done.out.contains(want), "{want}: {}", done.out);
    }
    let text = "#!/bin/sh\n#SBATCH -n 3\n#SBATCH -J bad -t 5\ntrue\n";
    let file = script(&c, "slurm.sh", text);
    let done = c.run(&["cadm", "rule", "test", &file]).expect(1);
    assert!(done.out.contains("no job is called bad"), "{}", done.out);
    let done = c.run(&["cadm", "rule", "test", "--json", &file]);
    let parsed: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(parsed["changes"]["queue"], "wide");
    c.run(&["cadm", "rule", "test", &file, "-q", "main"]);
    assert!(c.run(&["squeue", "-h"]).expect(0).out.trim().is_empty());
}

#[test]
fn users_and_those_who_are_exempt() {
    if !system::root_or_skip() {
        return;
    }
    let options = Options {
        queues: Some(format!("{QUEUES}{RULES}")),
        ..Options::default()
    };
    let c = people::start(1, options);
    let bad = ["csub", "-H", "-J", "bad", "--", "true"];
    c.run_as(ANN, &bad).expect_refusal("submit of ann");
    c.run_as(people::BOB, &bad).expect(0);
    let file = script(&c, "s.sh", "#!/bin/sh\n#COSY -J bad\ntrue\n");
    let uid = people::BOB.to_string();
    let done = c
        .run(&["cadm", "rule", "test", "--user", &uid, &file])
        .expect(0);
    assert!(done.out.starts_with("no rules bind bob"), "{}", done.out);
    c.run_as(ANN, &["cadm", "rule", "test", "--user", &uid, &file])
        .expect_refusal("only administrators");
    c.run_as(ANN, &["cadm", "rule", "test", &file]).expect(1);
}

/// Requests of a burst.
const BURST: u64 = 1000;

/// A program that judges keeps ANN's first request until others were answered; behind it stand all
/// the others of ANN's, no more of them than one user may have connections.
#[test]
fn a_burst_is_judged_to_the_last_and_holds_up_nobody_else() {
    if !system::root_or_skip() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let go = folder.path().join("go");
    let judge = format!(
        "n=0; while read -r line; do n=$((n+1)); case $line in *'\"user\":\"ann\"'*) \
         until [ -e {} ]; do sleep 0.01; done;; esac; echo \"{{\\\"id\\\":$n}}\"; done",
        go.display()
    );
    let submit = format!(
        "[submit]\nworker = [\"/bin/sh\", \"-c\", {judge:?}]\ntimeout = \"30s\"\non_failure = \"open\"\n\
         [[submit.rule]]\nname = \"wide\"\nset = {{ queue = \"wide\" }}\n"
    );
    let options = Options {
        queues: Some(format!("{QUEUES}{submit}")),
        ..Options::default()
    };
    let c = people::start_with_connections(BURST, options);
    let connect = || Client::connect(&c.socket()).unwrap();
    let mut burst: Vec<Client> = people::as_user(ANN, || (0..BURST).map(|_| connect()).collect());
    let mut job = cosy_tests::script(&c.work(), "exit 0");
    job.spec.hold = true;
    for client in &mut burst {
        let request = Request::Submit(Box::new(job.clone()));
        client.send(request, Some(new_key())).unwrap();
    }
    for _ in 0..3 {
        c.run_as(BOB, &["csub", "-H", "--", "true"]).expect(0);
    }
    let waits = |client: &Client| !client.has_answer().unwrap();
    assert!(burst.iter().all(waits), "others had to wait for the burst");
    let mut beyond = people::as_user(ANN, connect);
    match beyond.ask(Request::Ping).unwrap() {
        Reply::Refused(refusal) => {
            let told = format!("user {ANN} has {BURST} connections");
            assert!(refusal.message.contains(&told), "{}", refusal.message);
        }
        other => panic!("one connection too many is taken: {other:?}"),
    }
    fs::write(&go, "").unwrap();
    let mut answered = BTreeSet::new();
    for client in &mut burst {
        match client.receive().unwrap() {
            Reply::Submitted { job, .. } => assert!(answered.insert(job), "{job} came twice"),
            other => panic!("not submitted: {other:?}"),
        }
    }
    let listed = c
        .run(&["squeue", "-h", "-o", "%i %P", "-u", "ann"])
        .expect(0)
        .out;
    let listed: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
    let want: BTreeSet<String> = answered.iter().map(|job| format!("{job} wide")).collect();
    assert_eq!(want.len() as u64, BURST);
    assert_eq!(listed, want, "what was answered is there, once, and was judged");
}
