//! A fault in the controller hurts those who waited for that turn and nobody else; a row of
//! the store that it fails at is set aside, said, and can be put back.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::{Reply, Request};
use cosy_model::{JobId, JobState, RefusalCode};
use cosy_tests::{Cluster, Options, programs, script};
use nix::sys::signal::Signal;
use std::process::Command;

/// What debug builds of the controller look for.
const FAULT: &str = "COSYD_FAULT";

fn asks_for(c: &mut Cluster, fault: Option<&str>) {
    c.cosyd.variables.retain(|(name, _)| name != FAULT);
    if let Some(fault) = fault {
        c.cosyd.variables.push((FAULT.into(), fault.into()));
    }
}

fn named(c: &Cluster, name: &str, text: &str) -> cosy_model::api::Submission {
    let mut submission = script(&c.work(), text);
    submission.spec.name = name.into();
    submission
}

fn stop(c: &mut Cluster) {
    c.cosyd.signal(Signal::SIGTERM);
    assert!(c.cosyd.await_end().success());
}

fn told(c: &Cluster) -> Vec<String> {
    match c.ask(Request::Ping) {
        Reply::Pong { set_aside, .. } => set_aside,
        other => panic!("{other:?}"),
    }
}

fn cosyd(c: &Cluster, words: &[&str]) -> String {
    let output = Command::new(programs::folder().join("cosyd"))
        .arg("--config")
        .arg(c.dir().join("cosy.toml"))
        .args(words)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_fault_in_a_turn_is_told_to_those_who_waited_for_it() {
    let mut c = Cluster::prepare(1, Options::default());
    asks_for(&mut c, Some("ask:panic:poison"));
    c.start_cosyd();
    c.start_noded(0);
    c.nodes[0].await_ready();
    let go = c.work().join("go");
    let text = format!("while [ ! -e {} ]; do sleep 0.05; done; exit 7", go.display());
    let long = c.submit(&script(&c.work(), &text));
    c.until_state(long, JobState::Running);
    let poison = named(&c, "poison", "true");
    for words in [
        "fault of its own",
        "fault of its own",
        "takes no more of them",
    ] {
        let refusal = c.client().submit(&poison).unwrap().unwrap_err();
        assert_eq!(refusal.code, RefusalCode::Unavailable);
        assert!(refusal.message.contains(words), "{}", refusal.message);
    }
    // What was running goes on and is heard of.
    std::fs::write(&go, "").unwrap();
    let row = c.until_end(long);
    assert_eq!(row.outcome(), (JobState::Failed, 7), "{row:?}");
    assert!(told(&c).is_empty());
    assert!(c.cosyd.is_running(), "it is the same process");
}

#[test]
fn a_row_that_it_fails_at_is_set_aside() {
    let mut c = Cluster::start(1, Options::default());
    let mut poison = named(&c, "poison", "exit 0");
    poison.spec.hold = true;
    let poison = c.submit(&poison);
    let mut other = named(&c, "other", "exit 0");
    other.spec.hold = true;
    let other = c.submit(&other);
    stop(&mut c);
    asks_for(&mut c, Some("load:panic:poison"));
    c.start_cosyd();
    check_aside(&c, poison, other);
    // Put back without what made it fail: it is there again.
    let number = cosyd(&c, &["--set-aside"]);
    let number = number.split('\t').next().unwrap().to_owned();
    let said = cosyd(&c, &["--put-back", &number]);
    assert_eq!(said, format!("job {poison} is taken up at the next start\n"));
    stop(&mut c);
    asks_for(&mut c, None);
    c.start_cosyd();
    assert!(told(&c).is_empty());
    c.run(&["cosy", "release", &poison.to_string()]).expect(0);
    assert_eq!(c.until_end(poison).outcome(), (JobState::Completed, 0));
}

/// The one is set aside and said; the other is there, and can run.
fn check_aside(c: &Cluster, poison: JobId, other: JobId) {
    let all = told(c);
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].starts_with(&format!("job {poison}: ")), "{all:?}");
    let shown = c.run(&["cadm", "ping"]).expect(0).out;
    assert!(shown.contains(&format!("set aside: job {poison}: ")), "{shown}");
    let listed = cosyd(c, &["--set-aside"]);
    assert!(listed.contains(&format!("\tjob {poison}\t")), "{listed}");
    c.run(&["cosy", "release", &other.to_string()]).expect(0);
    assert_eq!(c.until_end(other).outcome(), (JobState::Completed, 0));
}

#[test]
fn a_row_that_kills_it_twice_is_set_aside() {
    let mut c = Cluster::start(1, Options::default());
    let mut poison = named(&c, "poison", "exit 0");
    poison.spec.hold = true;
    let poison = c.submit(&poison);
    let mut other = named(&c, "other", "exit 0");
    other.spec.hold = true;
    let other = c.submit(&other);
    stop(&mut c);
    asks_for(&mut c, Some("load:abort:poison"));
    for _ in 0..2 {
        c.start_cosyd_only();
        assert!(!c.cosyd.await_end().success());
    }
    c.start_cosyd();
    check_aside(&c, poison, other);
}
