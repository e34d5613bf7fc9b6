//! A controller with `memory_limit`: new work is refused before there is memory taken for it, everything
//! else goes on, and there is room again once jobs have ended.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::{BudgetRow, Reply, Request, Submission};
use cosy_model::job::ArraySpec;
use cosy_model::{JobState, OsText, Program, Refusal, RefusalCode};
use cosy_tests::bench::rss_mib;
use cosy_tests::people::{ANN, BOB, as_user, prepare};
use cosy_tests::{Client, Cluster, Options, command, script, system};

/// Bytes of the arguments of each job.
const ARGUMENTS: usize = 200 << 10;

/// A cluster whose controller may have some MiB more than it has.
fn limited() -> (Cluster, u64) {
    let usual = Options::default();
    let lookup = "[users]\nlookup_command = [\"DIR/lookup\"]\n";
    let options = Options {
        policy: format!("{}max_array_tasks = 4000000\nmax_jobs_per_user = 0\n", usual.policy),
        controller: lookup.into(),
        ..usual
    };
    let mut cluster = prepare(1, options);
    cluster.start_cosyd();
    cluster.start_noded(0);
    cluster.nodes[0].await_ready();
    let limit = ((rss(&cluster) / 0.8) as u64 + 12).max(64);
    let limited = format!("memory_limit = \"{limit}M\"\n{lookup}");
    cluster.reconfigure(|options| options.controller = limited);
    cluster.run(&["cadm", "reload"]).expect(0);
    (cluster, limit)
}

fn client(c: &Cluster, uid: u32) -> Client {
    as_user(uid, || Client::connect(&c.socket()).unwrap())
}

fn held_array(c: &Cluster, tasks: u32) -> Submission {
    let mut job = command(&c.work(), &["true"]);
    job.spec.hold = true;
    job.array = Some(ArraySpec {
        ranges: vec![(1, tasks, 1)],
        at_once: None,
    });
    job
}

fn memory(c: &Cluster) -> BudgetRow {
    match c.ask(Request::Meter) {
        Reply::Meter { budgets, .. } => {
            let mut all = budgets.into_iter();
            all.find(|row| row.what == "bytes of memory").unwrap()
        }
        other => panic!("{other:?}"),
    }
}

fn rss(c: &Cluster) -> f64 {
    rss_mib(c.cosyd.pid().cast_signed())
}

/// A job that waits, with long arguments that no other one has.
fn long(c: &Cluster, number: usize) -> Submission {
    let mut job = command(&c.work(), &["true"]);
    let mut argument = vec![b'x'; ARGUMENTS];
    argument.extend(number.to_string().into_bytes());
    job.spec.program = Program::Command {
        argv: vec!["true".into(), OsText(argument)],
    };
    job.spec.hold = true;
    job
}

/// Jobs of that user, until one is refused.
fn fill(c: &Cluster, uid: u32) -> Refusal {
    let mut client = client(c, uid);
    for number in 0..2000 {
        if let Err(refusal) = client.submit(&long(c, number)).unwrap() {
            return refusal;
        }
    }
    panic!("nothing is refused: {} MiB", rss(c));
}

#[test]
fn new_work_is_refused_where_memory_is_short_and_all_else_goes_on() {
    if !system::root_or_skip() {
        return;
    }
    let (mut c, limit) = limited();
    let runs = client(&c, ANN).submit(&script(&c.work(), "sleep 1000"));
    let runs = runs.unwrap().unwrap();
    c.until_state(runs, JobState::Running);
    // What does not fit is refused before it takes memory.
    let before = rss(&c);
    let refused = client(&c, BOB).submit(&held_array(&c, 4_000_000));
    let refused = refused.unwrap().unwrap_err();
    assert_eq!(refused.code, RefusalCode::TooMany);
    assert!(refused.message.contains("memory_limit"), "{refused}");
    assert!(rss(&c) < before + 8.0, "{} after {before}", rss(&c));
    // One user fills it. Others still find room.
    let refused = fill(&c, ANN);
    assert_eq!(refused.code, RefusalCode::TooMany);
    assert!(refused.message.contains("who has most of the jobs"), "{refused}");
    assert!(rss(&c) < limit as f64, "{}", rss(&c));
    client(&c, BOB).submit(&long(&c, 0)).unwrap().unwrap();
    let row = memory(&c);
    assert!(row.refused >= 2, "{row:?}");
    assert_eq!(row.in_all, limit * (1 << 20) / 100 * 90);
    // What runs ends, and what waits is told and cancelled.
    c.run_as(ANN, &["ccancel", &runs.to_string()]).expect(0);
    c.until_end(runs);
    c.run_as(ANN, &["cstat"]).expect(0);
    c.run_as(ANN, &["ccancel", "-u", "ann"]).expect(0);
    // Ended jobs are forgotten after a while; with more memory there is room at once.
    c.run(&["cadm", "ping", "-v"]).expect(0);
    let lookup = "[users]\nlookup_command = [\"DIR/lookup\"]\n";
    let more = format!("memory_limit = \"{}M\"\n{lookup}", 2 * limit);
    c.reconfigure(|options| options.controller = more);
    c.run(&["cadm", "reload"]).expect(0);
    client(&c, ANN).submit(&long(&c, 0)).unwrap().unwrap();
}
