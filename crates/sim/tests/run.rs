//! Replays against figures made by hand, by an independent program, and by a short
//! scheduler of its own that only counts processors; and the command `run` as users call it.

#![allow(clippy::unwrap_used)] // tests

use cosy_model::{Span, Time};
use cosy_sched::Policy;
use cosy_sim::machine::Machine;
use cosy_sim::metrics::Metrics;
use cosy_sim::replay::{Replay, ReplayOptions, replay};
use cosy_sim::swf::{self, Strictness};
use cosy_sim::workload::{Job, Workload};
use proptest::prelude::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Seconds: (submit, run, limit, processors).
type Row = (i64, i64, i64, u32);

fn workload(rows: &[Row]) -> Workload {
    let job = |(at, row): (usize, &Row)| Job {
        id: at as u64 + 1,
        submit: Time::from_secs(row.0),
        run: Span::from_secs(row.1),
        limit: Span::from_secs(row.2),
        processors: row.3,
        ..Job::default()
    };
    Workload {
        jobs: rows.iter().enumerate().map(job).collect(),
        ..Workload::default()
    }
}

fn starts(replay: &Replay) -> Vec<i64> {
    let start = |ran: &Option<cosy_sim::replay::JobRun>| ran.map_or(-1, |ran| ran.start.secs());
    replay.job_runs.iter().map(start).collect()
}

// --- by hand

/// On 4 processors. Job 1 holds three of them until 100 (its limit says 120). Job 2 wants
/// all and must wait. Job 3 fits beside job 1 until 90: backfilled. Job 4 would run beyond
/// 120 by its limit and waits behind job 2. Job 5 is killed at its limit.
///
/// ```text
///   0   10 20       90 100            150     200   210
///   111111111111111111|2222222222222222|44444444|
///   111111111111111111|2222222222222222|44444444|
///   111111111111111111|2222222222222222|55555|
///       333333333333  |2222222222222222|
/// ```
const BY_HAND: [Row; 5] = [
    (0, 100, 120, 3),
    (5, 50, 60, 4),
    (10, 80, 90, 1),
    (20, 60, 130, 2),
    (30, 99, 40, 1),
];

#[test]
fn a_small_log_by_hand() {
    let machine = Machine { nodes: 4, cores: 1 };
    let workload = workload(&BY_HAND);
    let easy = replay(machine, Policy::EASY, &workload, ReplayOptions::default());
    assert_eq!(starts(&easy), [0, 100, 10, 150, 150]);
    let backfilled: Vec<bool> = easy
        .job_runs
        .iter()
        .map(|ran| ran.unwrap().backfilled)
        .collect();
    assert_eq!(backfilled, [false, false, true, false, false]);
    let got = Metrics::of(machine, &workload, &easy);
    assert_eq!(got.jobs, 5);
    assert_eq!(got.backfilled, 1);
    assert_eq!(got.makespan, Span::from_secs(210));
    // (0 + 95 + 0 + 130 + 120) / 5
    assert_eq!(got.mean_wait(), Some(69.0));
    assert_eq!(got.median_wait(), Some(95.0));
    assert_eq!(got.p95_wait(), Some(130.0));
    // 3*100 + 4*50 + 1*80 + 2*60 + 1*40 of 4*210
    assert_eq!(got.utilisation(), Some(740.0 / 840.0));
    // 1, (95+50)/50, 1, (130+60)/60, (120+40)/40
    let slowdown = (1.0 + 2.9 + 1.0 + 190.0 / 60.0 + 4.0) / 5.0;
    assert!((got.mean_bounded_slowdown().unwrap() - slowdown).abs() < 1e-8);
    let fcfs = replay(machine, Policy::FCFS, &workload, ReplayOptions::default());
    assert_eq!(starts(&fcfs), [0, 100, 150, 150, 150]);
}

#[test]
fn the_higher_queue_is_served_first() {
    let machine = Machine { nodes: 1, cores: 1 };
    let mut workload = workload(&[(0, 10, 10, 1), (1, 10, 10, 1), (2, 10, 10, 1), (3, 1, 1, 1)]);
    for (job, queue) in workload.jobs.iter_mut().zip([1, 1, 2, 7]) {
        job.queue = queue;
    }
    let check = |priorities: &[i32], want: [i64; 4]| {
        let options = ReplayOptions {
            priorities,
            ..ReplayOptions::default()
        };
        let replay = replay(machine, Policy::EASY, &workload, options);
        assert_eq!(starts(&replay), want, "{priorities:?}");
        assert!(replay.job_runs.iter().flatten().all(|ran| !ran.backfilled));
    };
    check(&[], [0, 10, 20, 30]);
    check(&[0, 0, 5], [0, 20, 10, 30]);
    check(&[0, -2, -1], [0, 21, 11, 10]);
}

// --- against a scheduler that counts processors

/// EASY on processors alone: what starts when.
fn counted(size: u32, jobs: &[Row]) -> Vec<i64> {
    let mut start = vec![-1; jobs.len()];
    let mut running: Vec<(i64, i64, u32)> = Vec::new(); // end, end by limit, processors
    let mut waiting: Vec<usize> = Vec::new();
    let mut next = 0;
    loop {
        let submit = jobs.get(next).map(|job| job.0);
        let end = running.iter().map(|job| job.0).min();
        let Some(now) = submit.into_iter().chain(end).min() else {
            return start;
        };
        running.retain(|job| job.0 > now);
        while next < jobs.len() && jobs[next].0 <= now {
            waiting.push(next);
            next += 1;
        }
        let mut free = size - running.iter().map(|job| job.2).sum::<u32>();
        let mut head: Option<(i64, u32)> = None; // its start, and what it leaves over then
        waiting.retain(|at| {
            let (_, run, limit, processors) = jobs[*at];
            let fits = processors <= free;
            let behind =
                head.is_some_and(|(shadow, over)| now + limit > shadow && processors > over);
            if fits && !behind {
                if let Some((_, over)) = head.as_mut().filter(|head| now + limit > head.0) {
                    *over -= processors;
                }
                free -= processors;
                start[*at] = now;
                running.push((now + run.min(limit), now + limit, processors));
                return false;
            }
            if head.is_none() {
                let mut ends: Vec<_> = running.iter().map(|job| (job.1, job.2)).collect();
                ends.sort_unstable();
                let mut room = free;
                let enough = ends.iter().find(|end| {
                    room += end.1;
                    room >= processors
                });
                let shadow = enough.expect("jobs fit the machine").0;
                let later = ends.iter().filter(|end| end.0 <= shadow).map(|end| end.1);
                head = Some((shadow, free + later.sum::<u32>() - processors));
            }
            true
        });
    }
}

fn rows() -> impl Strategy<Value = (u32, Vec<Row>)> {
    (1..12u32).prop_flat_map(|size| {
        let row = (0..8i64, 1..40i64, 1..40i64, 1..=size);
        let rows = prop::collection::vec(row, 1..80).prop_map(|mut rows| {
            let mut now = 0;
            for row in &mut rows {
                now += row.0;
                row.0 = now;
            }
            rows
        });
        (Just(size), rows)
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// On whole nodes and on the cores of one shared node alike.
    #[test]
    fn starts_are_those_of_the_counting_scheduler((size, rows) in rows()) {
        let workload = workload(&rows);
        let want = counted(size, &rows);
        for (nodes, cores) in [(size, 1), (1, size)] {
            let machine = Machine { nodes, cores };
            let got = replay(machine, Policy::EASY, &workload, ReplayOptions::default());
            prop_assert_eq!(starts(&got), want.clone());
        }
    }

    /// Whatever the policy, no instant has more processors in use than there are, and no job
    /// starts before it was submitted.
    #[test]
    fn never_too_much((size, rows) in rows(), depth in 0..4u32) {
        let workload = workload(&rows);
        let machine = Machine { nodes: size, cores: 1 };
        let policy = Policy { depth: cosy_sched::Depth::Count(depth), backfill: true };
        let replay = replay(machine, policy, &workload, ReplayOptions::default());
        for ran in replay.job_runs.iter().flatten() {
            let held = replay.job_runs.iter().zip(&workload.jobs).filter_map(|(other, job)| {
                let other = (*other)?;
                (other.start <= ran.start && ran.start < other.end).then_some(job.processors)
            });
            prop_assert!(held.sum::<u32>() <= size);
        }
        for (job, ran) in workload.jobs.iter().zip(&replay.job_runs) {
            prop_assert!(ran.is_some_and(|ran| ran.start >= job.submit));
        }
    }
}

// --- the command

fn cosy_sim(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cosy-sim"));
    command.args(args).output().unwrap()
}

/// Rows as a log in the Standard Workload Format.
fn written(dir: &Path, rows: &[Row], header: &str) -> PathBuf {
    let line = |(at, row): (usize, &Row)| {
        let (submit, run, limit, processors) = row;
        let id = at + 1;
        format!(
            "{id} {submit} -1 {run} {processors} -1 -1 {processors} {limit} -1 1 1 1 -1 1 -1 -1 -1\n"
        )
    };
    let text: String = rows.iter().enumerate().map(line).collect();
    let path = dir.join("log.swf");
    std::fs::write(&path, format!("{header}{text}")).unwrap();
    path
}

fn figures(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn figures_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let log = written(dir.path(), &BY_HAND, "; MaxProcs: 4\n");
    let got = figures(&cosy_sim(&["run", "--workload", log.to_str().unwrap(), "--json", "-"]));
    assert_eq!(got["jobs"], 5);
    assert_eq!(got["mean_wait"], 69.0);
    assert_eq!(got["median_wait"], 95.0);
    assert_eq!(got["makespan"], 210);
    assert_eq!(got["backfilled"], 1);
    assert_eq!(got["backfilled_share"], 0.2);
    assert_eq!(got["machine"]["nodes"], 4);
    assert_eq!(got["policy"], "easy");
    assert_eq!(got["too_large"], 0);
    assert!(got["jobs_per_second"].as_f64().unwrap() > 0.0);
    if Path::new("/proc/self/status").exists() {
        assert!(got["peak_memory_bytes"].as_u64().unwrap() > 100_000);
    } else {
        cosy_skip::skip("peak memory: there is no /proc/self/status");
    }
}

#[test]
fn figures_as_table() {
    let dir = tempfile::tempdir().unwrap();
    let log = written(dir.path(), &BY_HAND, "");
    let log = log.to_str().unwrap();
    let output = cosy_sim(&[
        "run",
        "--workload",
        log,
        "--machine",
        "2x2",
        "--policy",
        "fcfs",
    ]);
    let text = String::from_utf8(output.stdout).unwrap();
    // In their turn: starts 0 100 150 150 150, ends 100 150 230 210 190.
    for want in [
        "machine            2 nodes with 2 cores\n",
        "policy             fcfs\n",
        "jobs that ran      5\n",
        "mean wait          00:01:37 (97.000 s)\n",
        "utilisation        80.4 %\n",
        "bounded slowdown   2.7633 in the mean (10 s)\n",
        "backfilled         0, 0.0 % of the jobs\n",
    ] {
        assert!(text.contains(want), "{want}{text}");
    }
}

#[test]
fn pictures_and_files() {
    let dir = tempfile::tempdir().unwrap();
    let log = written(dir.path(), &BY_HAND, "; MaxProcs: 4\n");
    let log = log.to_str().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for (option, words) in [
        ("--gantt", "job 3: 1 processor"),
        ("--utilisation", "share of the processors"),
        ("--backlog", "jobs that wait"),
    ] {
        let path = file(option);
        let output = cosy_sim(&["run", "--workload", log, option, &path]);
        assert!(String::from_utf8_lossy(&output.stdout).contains("mean wait"));
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.starts_with("<svg ") && text.contains(words), "{text}");
        let shown = cosy_sim(&["run", "--workload", log, option, "-"]);
        assert_eq!(String::from_utf8(shown.stdout).unwrap(), text);
    }
}

#[test]
fn what_is_refused_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let log = written(dir.path(), &BY_HAND, "");
    let log = log.to_str().unwrap();
    let check = |args: &[&str], want: &str| {
        let output = cosy_sim(&[&["run", "--workload", log], args].concat());
        assert!(!output.status.success(), "{args:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains(want), "{args:?}: {errors}");
        assert!(output.stdout.is_empty(), "{args:?}");
    };
    check(&[], "say it with --machine NODES[xCORES]");
    check(&["--machine", "0"], "'0' is no machine");
    check(&["--machine", "4x0"], "'4x0' is no machine");
    check(&["--machine", "1000001"], "1 to 1000000 nodes");
    check(&["--machine", "4", "--policy", "depth=-1"], "'depth=-1' is no policy");
    check(&["--machine", "4", "--policy", "sjf"], "use fcfs, easy, conservative or depth=N");
    check(&["--machine", "4", "--until", "soon"], "'soon' is no length of time");
    check(
        &["--machine", "3"],
        &format!(
            "{log}:2: job 2 asks for 4 processors, the machine has 3 nodes; --lenient leaves \
             such jobs out and counts them"
        ),
    );
    check(
        &["--machine", "4", "--seed", "5"],
        "'--workload <FILE>' cannot be used with '--seed <S>'",
    );
    check(
        &["--machine", "4", "--gantt", "x.svg", "--backlog", "x.svg"],
        "--gantt and --backlog both name 'x.svg'",
    );
    check(&["--machine", "4", "--json", "-", "--gantt", "-"], "only one of the files");
    check(
        &["--machine", "4", "--json", log],
        &format!("--json would overwrite '{log}', which --workload reads"),
    );
    check(
        &["--machine", "4", "--json", "/nowhere/x"],
        "cannot write '/nowhere/x': '/nowhere' is no folder",
    );
    let empty = written(dir.path(), &[], "; MaxProcs: 4\n");
    let empty = empty.to_str().unwrap();
    let output = cosy_sim(&["run", "--workload", empty, "--lenient"]);
    assert!(!output.status.success());
}

/// Each row fits 64 bits of milliseconds, but not the second behind the first.
#[test]
fn ends_beyond_64_bits() {
    let dir = tempfile::tempdir().unwrap();
    let long = 9_000_000_000_000_000;
    let log = written(
        dir.path(),
        &[(0, long, long, 4), (5, long, long, 4), (6, 7, 8, 4)],
        "; MaxProcs: 4\n",
    );
    let log = log.to_str().unwrap();
    let refused = cosy_sim(&["run", "--workload", log]);
    assert!(!refused.status.success());
    let errors = String::from_utf8(refused.stderr).unwrap();
    let want = format!("{log}:3: all jobs up to this one, one after another, end beyond 64 bits");
    assert!(errors.contains(&want), "{errors}");
    let figures = figures(&cosy_sim(&["run", "--workload", log, "--lenient", "--json", "-"]));
    assert_eq!(figures["jobs"], 2);
    assert_eq!(figures["makespan"], long + 7);
    assert_eq!(figures["dropped"][0]["reason"], "beyond 64 bits");
}

#[test]
fn gantt_charts_of_too_many_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gantt.svg");
    let path = path.to_str().unwrap();
    let args = [
        "run", "--model", "cirne", "--jobs", "20001", "--gantt", path,
    ];
    let refused = cosy_sim(&args);
    assert!(!refused.status.success());
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert!(errors.contains("draw a part of them with --until"), "{errors}");
    assert!(!Path::new(path).exists());
    let part = cosy_sim(&[args.as_slice(), &["--until", "1d"]].concat());
    assert!(part.status.success());
}

#[test]
fn lenient_leaves_out_and_counts() {
    let dir = tempfile::tempdir().unwrap();
    let rows = [BY_HAND.as_slice(), &[(40, 0, 10, 1), (50, 10, 10, 9)]].concat();
    let log = written(dir.path(), &rows, "; MaxProcs: 4\n");
    let log = log.to_str().unwrap();
    let got = figures(&cosy_sim(&["run", "--workload", log, "--lenient", "--json", "-"]));
    assert_eq!((got["jobs"].clone(), got["too_large"].clone()), (5.into(), 1.into()));
    let rows = got["dropped"].as_array().unwrap();
    let rows = rows.iter().map(|row| row["rows"].as_u64().unwrap());
    assert_eq!(rows.sum::<u64>(), 2);
    let table = cosy_sim(&["run", "--workload", log, "--lenient"]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("left out           1: larger than the machine"), "{table}");
}

/// A job that `--until` leaves out may be as large as it likes.
#[test]
fn what_comes_later_does_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    let log = written(dir.path(), &[(0, 9, 9, 1), (9000, 9, 9, 8)], "; MaxProcs: 4\n");
    let args = ["run", "--workload", log.to_str().unwrap(), "--json", "-"];
    assert!(!cosy_sim(&args).status.success());
    let got = figures(&cosy_sim(&[args.as_slice(), &["--until", "1h"]].concat()));
    assert_eq!((&got["jobs"], &got["too_large"]), (&1.into(), &0.into()));
}

#[test]
fn until_counts_from_the_first_submission() {
    let dir = tempfile::tempdir().unwrap();
    let later: Vec<Row> = BY_HAND
        .iter()
        .map(|row| (row.0 + 1000, row.1, row.2, row.3))
        .collect();
    let log = written(dir.path(), &later, "; MaxProcs: 4\n");
    let log = log.to_str().unwrap();
    let check = |until: &str, jobs: u64| {
        let args = ["run", "--workload", log, "--until", until, "--json", "-"];
        assert_eq!(figures(&cosy_sim(&args))["jobs"], jobs, "{until}");
    };
    check("0s", 1);
    check("10s", 3);
    check("19s", 3);
    check("30d", 5);
    check("unlimited", 5);
}

// --- figures that an independent program has found

/// The folder with the logs, which are not part of the project.
fn traces() -> Option<PathBuf> {
    let traces = std::env::var_os("COSY_TRACES").map(PathBuf::from);
    if traces.is_none() {
        cosy_skip::skip("COSY_TRACES does not name the folder with the logs");
    }
    traces
}

/// Plain EASY on the whole processors of a log, jobs without run time or processors left
/// out.
#[test]
fn the_log_of_kth_as_others_replay_it() {
    let Some(traces) = traces() else {
        return;
    };
    let log = traces.join("KTH-SP2-1996-2.1-cln.swf.gz");
    let log = log.to_str().unwrap();
    let args = [
        "--machine",
        "100",
        "--policy",
        "easy",
        "--lenient",
        "--json",
        "-",
    ];
    let got = figures(&cosy_sim(&[&["run", "--workload", log], args.as_slice()].concat()));
    let near = |key: &str, want: f64, by: f64| {
        let got = got[key].as_f64().unwrap();
        assert!((got - want).abs() < by, "{key}: {got}, not {want}");
    };
    assert_eq!(got["jobs"], 28_467);
    assert_eq!(got["makespan"], 28_763_776);
    assert_eq!(got["backfilled"], 17_092);
    near("mean_wait", 6837.485, 0.0005);
    near("mean_bounded_slowdown", 92.7299, 0.000_05);
}

/// Every job of whole logs starts in the second in which it starts when processors are
/// counted.
#[test]
fn logs_start_as_in_the_counting_scheduler() {
    let Some(traces) = traces() else {
        return;
    };
    let check = |log: &str, nodes: u32| {
        let log = swf::open(&traces.join(log), Strictness::Lenient).unwrap();
        let row = |job: &Job| (job.submit.secs(), job.run.secs(), job.limit.secs(), job.processors);
        let rows: Vec<Row> = log.jobs.iter().map(row).collect();
        let machine = Machine { nodes, cores: 1 };
        let got = replay(machine, Policy::EASY, &log, ReplayOptions::default());
        assert!(starts(&got) == counted(nodes, &rows), "{nodes} nodes");
    };
    check("KTH-SP2-1996-2.1-cln.swf.gz", 100);
    check("SDSC-SP2-1998-4.2-cln.swf.gz", 128);
    check("CTC-SP2-1996-3.1-cln.swf.gz", 338);
}
