//! `cosy-sim experiment notice` on small workloads: the rule is kept, promises are kept, and
//! whoever is refused does what was said.

#![allow(clippy::unwrap_used)] // tests

use cosy_model::{Span, Time};
use cosy_sched::Policy;
use cosy_sched::notice::{Curve, Share};
use cosy_sim::cosy::controller_replay;
use cosy_sim::models::lublin::{self, JobKind};
use cosy_sim::notice::figures::Figures;
use cosy_sim::notice::rule_sets::RuleSet;
use cosy_sim::notice::run::{Month, Outcome, RunSettings};
use cosy_sim::notice::users::{AfterRefusal, BookingOutcome};
use cosy_sim::replay::Machine;
use cosy_sim::workload::Job;
use std::process::Command;

fn month(jobs: Vec<Job>, nodes: u32) -> Month {
    Month {
        machine: Machine { nodes, cores: 1 },
        policy: Policy::EASY,
        jobs,
        curve: Curve::default(),
        candidates: 30,
    }
}

fn lublin() -> Month {
    let settings = lublin::Settings {
        nodes: 32,
        jobs: 300,
        seed: 5,
        kind: JobKind::Both,
        load: 1.5,
    };
    let mut jobs = lublin::generate(&settings).jobs;
    jobs.retain(|job| job.processors <= 32 && job.limit > Span::ZERO);
    month(jobs, 32)
}

fn run(month: &Month, rule_set: RuleSet, after_refusal: AfterRefusal, percent: u32) -> Outcome {
    month.run(&RunSettings {
        rule_set,
        after_refusal,
        shares: vec![Share::percent(percent)],
        seed: 3,
    })
}

#[test]
fn without_requests_it_is_the_queue() {
    let month = lublin();
    let starts = controller_replay::starts(month.machine, month.policy, &month.jobs);
    assert_eq!(month.without().starts, starts);
    let outcome = run(&month, RuleSet::Academic, AfterRefusal::Queued, 0);
    assert_eq!(outcome.starts, starts);
    let figures = Figures::of(&month, &outcome, &month.without());
    assert_eq!(figures.month.queue.relative(), 1.0);
    assert_eq!(figures.month.queue.jobs, month.jobs.len() as u64);
}

/// Every booked start is at least n(p) w after its request, and is kept; returns how many
/// were booked and refused.
fn check_rule(month: &Month, after_refusal: AfterRefusal) -> (usize, usize) {
    let outcome = run(month, RuleSet::Academic, after_refusal, 30);
    let (mut booked, mut denied) = (0, 0);
    for request in &outcome.rule_figures {
        let (submit, start) = (month.jobs[request.at].submit, outcome.starts[request.at]);
        match &outcome.job_outcomes[request.at] {
            BookingOutcome::Booked(promised) => {
                let least = request.multiple.unwrap().of(request.wait);
                assert!(*promised >= submit + least, "{request:?}");
                assert_eq!(start, Some(*promised), "{request:?}");
                booked += 1;
            }
            BookingOutcome::Refused(why) => {
                assert!(request.multiple.is_none() && why.contains("15 %"), "{why}");
                assert_eq!(start.is_some(), after_refusal == AfterRefusal::Queued, "{request:?}");
                denied += 1;
            }
            BookingOutcome::Plain => panic!("{request:?} was never answered"),
        }
    }
    (booked, denied)
}

#[test]
fn the_rule_is_kept_and_so_are_promises() {
    for after_refusal in [AfterRefusal::Queued, AfterRefusal::Dropped] {
        let (booked, denied) = check_rule(&lublin(), after_refusal);
        // With 30 % of requests the share soon passes 15 %.
        assert!(booked > 10 && denied > 10, "{booked} {denied}");
    }
}

#[test]
fn waits_by_hand() {
    // The second job is to be a reservation: without a rule it begins when the first must
    // have ended, and the third waits for both as it would in the queue.
    let job = |submit, run, limit, processors| Job {
        submit: Time::from_secs(submit),
        run: Span::from_secs(run),
        limit: Span::from_secs(limit),
        processors,
        ..Job::default()
    };
    let jobs = vec![job(0, 100, 100, 8), job(1, 50, 50, 8), job(2, 10, 10, 8)];
    let month = month(jobs, 8);
    let setting = |seed| RunSettings {
        rule_set: RuleSet::Free,
        after_refusal: AfterRefusal::Queued,
        shares: vec![Share::percent(34)],
        seed,
    };
    let only_second = |outcome: &Outcome| outcome.rule_figures.iter().map(|a| a.at).eq([1]);
    let outcome = (0..200)
        .map(|seed| month.run(&setting(seed)))
        .find(only_second);
    let outcome = outcome.unwrap();
    assert_eq!(outcome.job_outcomes[1], BookingOutcome::Booked(Time::from_secs(100)));
    let figures = Figures::of(&month, &outcome, &month.without());
    assert_eq!((figures.month.asked, figures.late), (1, 0));
    assert_eq!(figures.month.queue.with_s, 148.0);
    assert_eq!(figures.month.queue.without_s, 148.0);
    assert_eq!(figures.month.booked.with_s, 99.0);
    assert_eq!(figures.utilisation, 1.0);
}

fn told(args: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cosy-sim"));
    let output = command
        .args(["experiment", "notice"])
        .args(args)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_command_writes_what_it_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.swf");
    let row = |at: u64| {
        let (submit, run, processors) = (at * 600, 1 + at * 7919 % 7000, 1 + at * 31 % 60);
        format!(
            "{at} {submit} -1 {run} {processors} -1 -1 {processors} 7200 -1 1 1 1 1 1 -1 -1 -1\n"
        )
    };
    std::fs::write(&path, (11..90).map(row).collect::<String>()).unwrap();
    let log = path.to_str().unwrap();
    let small = [
        "--workload",
        log,
        "--machine",
        "64",
        "--seeds",
        "2",
        "--candidates",
        "20",
    ];
    let (ok, text, error) = told(&[&small[..], &["--rule", "academic"]].concat());
    assert!(ok, "{error}");
    assert!(text.starts_with("79 jobs on 64 nodes over 1 weeks"), "{text}");
    let (ok, json, error) = told(&[&small[..], &["--rising", "5,50", "--json", "-"]].concat());
    assert!(ok, "{error}");
    let all: serde_json::Value = serde_json::from_str(&json).unwrap();
    // One row for each rule, one more where the refused go, and twice four constant shares.
    assert_eq!(all["rows"].as_array().unwrap().len(), 13);
    assert_eq!(all["rows"][0]["runs"].as_array().unwrap().len(), 2);
    let check = |args: &[&str], words: &str| {
        let (ok, out, error) = told(&[&["--workload", log][..], args].concat());
        assert!(!ok && out.is_empty(), "{args:?}");
        assert!(error.contains(words), "{args:?}: {error}");
    };
    check(&["--machine", "4"], "the machine has 4");
    check(&["--rising", "5,101"], "'101' is no whole number of per cent");
    check(&["--rule", "some"], "use none, academic, weighed or default");
    check(&["--curve", "15"], "'15' is no share and n like 15:4");
    check(&["--curve", "0:4,15:1"], "less than at the point before it");
    check(&["--candidates", "0"], "--candidates");
    let (ok, _, error) = told(&["--workload", "/no/such"]);
    assert!(!ok && error.contains("/no/such: cannot be read"), "{error}");
}
