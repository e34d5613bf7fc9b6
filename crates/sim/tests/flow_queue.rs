//! `cosy-sim experiment workflow --queue`: workflows beside the jobs of small made logs.
#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{Span, Time};
use cosy_sched::Policy;
use cosy_sched::workflow::FlowSlackPolicy;
use cosy_sim::replay::{self, Machine, ReplayOptions};
use cosy_sim::workflow::queue::arrivals::WorkflowLoad;
use cosy_sim::workflow::queue::{Flow, FlowEnd, Outcome, RunSettings, Scheme, Simulation};
use cosy_sim::workload::{Job, Workload};
use std::process::Command;

const MACHINE: Machine = Machine { nodes: 4, cores: 1 };
const KILL: Scheme = Scheme::Slots {
    early: false,
    replan: false,
};
const EARLY: Scheme = Scheme::Slots {
    early: true,
    replan: false,
};
const REPLAN: Scheme = Scheme::Slots {
    early: false,
    replan: true,
};

/// Seconds of submission, run time and limit; nodes.
fn job((submit, run, limit, processors): (i64, i64, i64, u32)) -> Job {
    Job {
        submit: Time::from_secs(submit),
        run: Span::from_secs(run),
        limit: Span::from_secs(limit),
        processors,
        ..Job::default()
    }
}

fn secs(all: &[i64]) -> Vec<Span> {
    all.iter().map(|s| Span::from_secs(*s)).collect()
}

/// Tasks of 100 s one after the other, on all nodes.
fn chain(at: i64, actual: &[i64]) -> Flow {
    Flow {
        at: Time::from_secs(at),
        estimates: vec![Span::from_secs(100); actual.len()],
        actual: secs(actual),
        edges: (1..actual.len()).map(|to| (to - 1, to)).collect(),
    }
}

fn run(jobs: &[Job], flows: &[Flow], task_nodes: u32, scheme: Scheme) -> Outcome {
    let simulation = Simulation {
        machine: MACHINE,
        policy: Policy::EASY,
        jobs,
        flows,
        task_nodes,
    };
    simulation.run(&RunSettings {
        scheme,
        slack_percent: 50,
        policy: FlowSlackPolicy::CpEvenPercent,
    })
}

/// A chain beside one short job: what became of it, when its tasks ran, when the job began.
fn check(scheme: Scheme, actual: &[i64], end: FlowEnd, ran: &[(i64, i64)], job_start: i64) {
    let jobs = [job((0, 50, 50, 4)), job((10, 20, 20, 4))];
    let outcome = run(&jobs, &[chain(50, actual)], 4, scheme);
    let at = Time::from_secs;
    let label = format!("{scheme:?} {actual:?}");
    assert_eq!(outcome.ends, [(at(350), end)], "{label}");
    let want = ran.iter().map(|(from, to)| (0, at(*from), at(*to)));
    assert_eq!(outcome.tasks, want.collect::<Vec<_>>(), "{label}");
    assert_eq!(outcome.job_runs[1].unwrap().start, at(job_start), "{label}");
}

#[test]
fn a_chain_by_hand() {
    let done = |at| FlowEnd::Done(Time::from_secs(at));
    let (good, long, longer) = ([100, 100], [160, 100], [260, 100]);
    // Slots are 50 to 200 and 200 to 350; the job fits what is left of the first.
    check(KILL, &good, done(300), &[(50, 150), (200, 300)], 150);
    check(EARLY, &good, done(250), &[(50, 150), (150, 250)], 250);
    check(REPLAN, &good, done(300), &[(50, 150), (200, 300)], 150);
    check(KILL, &long, FlowEnd::Failed, &[(50, 200)], 200);
    check(EARLY, &long, FlowEnd::Failed, &[(50, 200)], 200);
    // Grows by 30 s over the second slot, which moves: the deadline is kept.
    check(REPLAN, &long, done(330), &[(50, 210), (230, 330)], 210);
    // Grows four times: the deadline cannot be kept.
    check(REPLAN, &longer, done(420), &[(50, 310), (320, 420)], 420);
    // In the queue the job comes first.
    check(Scheme::Plain, &good, done(270), &[(70, 170), (170, 270)], 50);
    check(Scheme::Plain, &long, FlowEnd::Failed, &[(70, 220)], 50);
}

fn log() -> Vec<Job> {
    let row = |at: i64| {
        let limit = 300 + at * 7919 % 7000;
        let run = limit - at * 31 % 250;
        job((at * 900, run, limit, 1 + (at * 31 % 4) as u32))
    };
    (0..120).map(row).collect()
}

fn flows(percent: u32, qoi: u32) -> Vec<Flow> {
    WorkflowLoad {
        window: (Time(0), Time::from_secs(108_000)),
        nodes: 4,
        percent,
        task_nodes: 1,
        unit_s: 4,
        qoi,
        seed: 7,
    }
    .draw()
}

#[test]
fn without_workflows_it_is_a_replay() {
    let jobs = log();
    let workload = Workload {
        jobs: jobs.clone(),
        ..Workload::default()
    };
    let replay = replay::replay(MACHINE, Policy::EASY, &workload, ReplayOptions::default());
    assert_eq!(run(&jobs, &[], 1, KILL).job_runs, replay.job_runs);
}

/// Never more nodes than there are, at whatever instant.
fn check_room(jobs: &[Job], outcome: &Outcome) {
    let ran = jobs.iter().zip(&outcome.job_runs);
    let ran = ran.map(|(job, ran)| (ran.unwrap(), i64::from(job.processors)));
    let queue = ran.flat_map(|(ran, nodes)| [(ran.end, -nodes), (ran.start, nodes)]);
    let tasks = outcome.tasks.iter();
    let tasks = tasks.flat_map(|(_, from, to)| [(*to, -1), (*from, 1)]);
    let mut changes: Vec<(Time, i64)> = queue.chain(tasks).collect();
    changes.sort_unstable();
    let mut used = 0;
    for (at, change) in changes {
        used += change;
        assert!(used <= 4, "{used} nodes at {at:?}");
    }
}

#[test]
fn many_workflows_beside_a_queue() {
    let jobs = log();
    let flows = flows(40, 60);
    assert!(flows.len() >= 10, "{}", flows.len());
    let failed = Scheme::ALL.map(|scheme| {
        let outcome = run(&jobs, &flows, 1, scheme);
        check_room(&jobs, &outcome);
        assert_eq!(outcome, run(&jobs, &flows, 1, scheme), "{scheme:?}");
        assert!(outcome.slots.0 <= outcome.slots.1, "{scheme:?}");
        let ends = outcome.ends.iter();
        ends.filter(|(_, end)| *end == FlowEnd::Failed).count()
    });
    let [plain, kill, _, replan, _] = failed;
    assert!(plain > 0 && kill > 0 && replan < kill, "{failed:?}");
}

#[test]
fn exact_estimates_keep_every_deadline() {
    let (jobs, flows) = (log(), flows(40, 0));
    for scheme in Scheme::ALL.into_iter().skip(1) {
        let outcome = run(&jobs, &flows, 1, scheme);
        for (deadline, end) in &outcome.ends {
            assert!(matches!(end, FlowEnd::Done(at) if at <= deadline), "{scheme:?} {end:?}");
        }
        assert_eq!(outcome.replans, 0);
    }
}

#[test]
fn smaller_loads_are_part_of_larger_ones() {
    let (small, large) = (flows(20, 50), flows(40, 50));
    assert!(small.len() < large.len());
    assert!(small.iter().all(|flow| large.contains(flow)));
    let load = WorkflowLoad {
        window: (Time(0), Time::from_secs(20_000_000)),
        nodes: 100,
        percent: 10,
        task_nodes: 4,
        unit_s: 30,
        qoi: 0,
        seed: 1,
    };
    let (drawn, about) = (load.draw().len() as u64, load.about());
    assert!(drawn.abs_diff(about) * 10 < drawn, "{drawn} {about}");
}

fn told(args: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cosy-sim"));
    let command = command.args(["experiment", "workflow"]).args(args);
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    (output.status.success(), out, error)
}

#[test]
fn the_command() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.swf");
    let row = |at: u64| {
        let (submit, run, nodes) = (at * 600, 1 + at * 7919 % 7000, 1 + at * 31 % 8);
        format!("{at} {submit} -1 {run} {nodes} -1 -1 {nodes} 7200 -1 1 1 1 1 1 -1 -1 -1\n")
    };
    std::fs::write(&path, (1..90).map(row).collect::<String>()).unwrap();
    let log = path.to_str().unwrap();
    let base = ["--queue", log, "--machine", "8", "--unit", "5"];
    let small = [&base[..], &["--task-nodes", "1", "--seeds", "2"]].concat();
    let (ok, text, error) = told(&[&small[..], &["--load", "10", "--slack", "50"]].concat());
    assert!(ok, "{error}");
    assert!(text.starts_with("89 jobs on 8 nodes"), "{text}");
    // Five ways with the first policy, four with each of the others.
    assert_eq!(text.matches("| 10 | 50 | ").count(), 13, "{text}");
    let (ok, json, error) = told(&[&small[..], &["--load", "5", "--json", "-"]].concat());
    assert!(ok, "{error}");
    let all: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = all["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3 * 5 + 2 * 4);
    for run in rows.iter().flat_map(|row| row["runs"].as_array().unwrap()) {
        let of = |name: &str| run[name].as_f64().unwrap();
        let ends = of("refused") + of("failed") + of("late") + of("kept");
        assert!((ends - 1.0).abs() < 1e-9, "{run}");
        assert!(of("use_of_slots") <= 1.0 && of("utilisation") <= 1.0, "{run}");
    }
    let check = |args: &[&str], words: &str| {
        let (ok, out, error) = told(args);
        assert!(!ok && out.is_empty() && error.contains(words), "{error}");
    };
    check(&["--load", "5"], "--queue");
    let far = dir.path().join("far.swf");
    let row = |at: u64, day: u64| {
        let submit = day * 86_400;
        format!("{at} {submit} -1 9 1 -1 -1 1 10 -1 1 1 1 1 1 -1 -1 -1\n")
    };
    std::fs::write(&far, row(1, 0) + &row(2, 900)).unwrap();
    let far = ["--queue", far.to_str().unwrap(), "--span", "1000d"];
    let many = ["--load", "900", "--unit", "1"];
    check(&[&far[..], &many].concat(), "9000 are the most");
    check(&["--queue", "/no/such"], "/no/such: cannot be read");
    check(&[&base[..], &["--task-nodes", "9"]].concat(), "9 nodes do not fit");
    check(&[&base[..], &["--slack", "20,x"]].concat(), "'x' is no whole number");
    check(&[&base[..], &["--slack-policy", "even"]].concat(), "cp_even_percent");
    check(&[&base[..], &["--runs", "3"]].concat(), "cannot be used with");
}
