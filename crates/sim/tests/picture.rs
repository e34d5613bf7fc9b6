//! Pictures: one whole as a snapshot, and all of them well-formed whatever is drawn.

#![allow(clippy::unwrap_used)] // tests

use cosy_model::{Span, Time};
use cosy_sched::Policy;
use cosy_sim::machine::Machine;
use cosy_sim::picture::{self, PictureError};
use cosy_sim::replay::{ReplayOptions, replay};
use cosy_sim::workload::{Job, Workload};

fn job(id: u64, submit: i64, run: i64, limit: i64, processors: u32) -> Job {
    Job {
        id,
        submit: Time::from_secs(submit),
        run: Span::from_secs(run),
        limit: Span::from_secs(limit),
        processors,
        ..Job::default()
    }
}

fn five() -> Workload {
    Workload {
        jobs: vec![
            job(1, 0, 36_000, 40_000, 3),
            job(2, 3600, 86_400, 90_000, 4),
            job(3, 7200, 20_000, 30_000, 1),
            job(4, 9000, 50_000, 60_000, 2),
            job(5, 9000, 10_000, 60_000, 1),
        ],
        ..Workload::default()
    }
}

/// Gantt chart, utilisation, backlog.
fn pictures(machine: Machine, workload: &Workload) -> [String; 3] {
    let options = ReplayOptions {
        keep_shares: true,
        ..ReplayOptions::default()
    };
    let replay = replay(machine, Policy::EASY, workload, options);
    [
        picture::gantt(machine, workload, &replay).unwrap(),
        picture::utilisation(machine, workload, &replay),
        picture::backlog(machine, workload, &replay),
    ]
}

/// Every element is closed by its own end, and there is no bare `&` or `<`.
fn check_xml(text: &str) {
    let mut open = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let words = &rest[..at];
        assert!(!words.contains('>'), "bare > in {words}");
        for entity in words.split('&').skip(1) {
            let known = ["amp;", "lt;", "gt;", "quot;"];
            assert!(known.iter().any(|name| entity.starts_with(name)), "&{entity}");
        }
        let end = at + rest[at..].find('>').expect("an element has an end");
        let tag = &rest[at + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap());
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_gantt_chart() {
    let machine = Machine { nodes: 4, cores: 1 };
    let [gantt, ..] = pictures(machine, &five());
    insta::assert_snapshot!(gantt);
}

#[test]
fn backlog_of_five_jobs() {
    let machine = Machine { nodes: 4, cores: 1 };
    let [.., backlog] = pictures(machine, &five());
    insta::assert_snapshot!(backlog);
}

#[test]
fn all_are_well_formed() {
    let single = Workload {
        jobs: vec![job(u64::MAX, 5, 1, 1, 1)],
        ..Workload::default()
    };
    let absurd = Workload {
        jobs: vec![job(1, 0, i64::MAX / 1000, i64::MAX / 1000, 1)],
        ..Workload::default()
    };
    for workload in [five(), single, absurd] {
        for (nodes, cores) in [(4, 1), (2, 2), (1, 4), (1_000, 1), (3, 65_535)] {
            for text in pictures(Machine { nodes, cores }, &workload) {
                check_xml(&text);
                assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
            }
        }
    }
}

#[test]
fn shared_nodes_have_a_row_for_each_processor() {
    let machine = Machine { nodes: 2, cores: 2 };
    let workload = Workload {
        jobs: vec![
            job(1, 0, 10, 10, 1),
            job(2, 0, 10, 10, 1),
            job(3, 0, 10, 10, 2),
        ],
        ..Workload::default()
    };
    let [gantt, ..] = pictures(machine, &workload);
    assert_eq!(gantt.matches("job 1: 1 processor, node 0").count(), 1);
    assert_eq!(gantt.matches("job 2: 1 processor, node 0").count(), 1);
    assert_eq!(gantt.matches("job 3: 2 processors, node 1").count(), 1);
    // Four rows of 28 pixels: 112 in all.
    assert_eq!(gantt.matches("height=\"28\"><title>job").count(), 2);
    assert_eq!(gantt.matches("height=\"56\"><title>job").count(), 1);
}

#[test]
fn too_many_bars_are_refused() {
    let jobs = (0..20_001).map(|id| job(id, id as i64, 1, 1, 1)).collect();
    let workload = Workload {
        jobs,
        ..Workload::default()
    };
    let machine = Machine { nodes: 1, cores: 1 };
    let options = || ReplayOptions {
        keep_shares: true,
        ..ReplayOptions::default()
    };
    let all = replay(machine, Policy::EASY, &workload, options());
    let refused = picture::gantt(machine, &workload, &all);
    assert_eq!(refused, Err(PictureError::TooMany { jobs: 20_001 }));
    let mut part = workload.clone();
    part.jobs.truncate(20_000);
    let replayed = replay(machine, Policy::EASY, &part, options());
    let drawn = picture::gantt(machine, &part, &replayed).unwrap();
    assert_eq!(drawn.matches("<title>job ").count(), 20_000);
    let without = replay(machine, Policy::EASY, &workload, ReplayOptions::default());
    let refused = picture::gantt(machine, &workload, &without);
    assert_eq!(refused, Err(PictureError::NoShares));
}
