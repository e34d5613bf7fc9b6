//! `cosy flow` against real daemons: files are planned, held, confirmed, run and given up,
//! by an ordinary user.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::JobId;
use cosy_model::api::{Reply, Request};
use cosy_model::reservation::{ReservationFilter, ReservationInfo};
use cosy_tests::people::{self, ANN, BOB};
use cosy_tests::{Cluster, Options, Output, system};
use serde_json::Value as Json;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const RULES: &str = "[reservations]\nall_of = []\n\
    [reservations.per_user]\nopen = 99\nshare = \"off\"\n";

/// Two tasks beside each other between a first and a last one.
const DIAMOND: &str = "\
[workflow]
name = 'night'
[defaults]
estimate = '10m'
exclusive = true
[tasks.first]
run = 'date'
[tasks.left]
run = 'date'
after = 'first'
[tasks.right]
run = 'date'
estimate = '5m'
after = [{ task = 'first', data = '1M' }]
[tasks.last]
command = ['true']
nodes = 2
after = ['left', 'right']
";

fn cluster(nodes: usize) -> Option<Cluster> {
    system::root_or_skip().then(|| {
        let options = Options {
            policy: "heartbeat = \"1s\"\ngrace = \"1s\"\n".into(),
            controller: RULES.into(),
            ..Options::default()
        };
        let cluster = people::start(nodes, options);
        let work = fs::Permissions::from_mode(0o777);
        fs::set_permissions(cluster.work(), work).unwrap();
        write(&cluster, "f.toml", DIAMOND);
        cluster
    })
}

fn write(c: &Cluster, name: &str, text: &str) {
    fs::write(c.work().join(name), text).unwrap();
}

#[track_caller]
fn flow(c: &Cluster, uid: u32, line: &str) -> Output {
    let words: Vec<&str> = ["cosy", "flow"]
        .into_iter()
        .chain(line.split(' '))
        .collect();
    c.run_as(uid, &words)
}

#[track_caller]
fn json(c: &Cluster, line: &str) -> Json {
    let out = flow(c, ANN, &format!("{line} --json")).expect(0).out;
    serde_json::from_str(&out).unwrap()
}

fn reservations(c: &Cluster) -> Vec<ReservationInfo> {
    let filter = ReservationFilter::default();
    match c.ask(Request::Reservations { filter }) {
        Reply::Reservations(all) => all,
        other => panic!("{other:?}"),
    }
}

fn ms(of: &Json, key: &str) -> i64 {
    of[key].as_i64().unwrap_or_else(|| panic!("{key}: {of}"))
}

#[test]
fn a_plan_keeps_nothing_and_its_deadline() {
    let Some(c) = cluster(3) else { return };
    let plan = json(&c, "plan f.toml --slack 50%");
    let tasks = plan["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 4);
    let of = |name: &str| tasks.iter().find(|t| t["name"] == name).unwrap();
    for (parent, child) in [
        ("first", "left"),
        ("first", "right"),
        ("left", "last"),
        ("right", "last"),
    ] {
        let (end, start) = (ms(of(parent), "end_ms"), ms(of(child), "start_ms"));
        assert!(end <= start, "{parent} {child}: {plan}");
    }
    assert!(
        tasks
            .iter()
            .all(|t| ms(t, "end_ms") <= ms(&plan, "deadline_ms"))
    );
    // All of the time that is left goes to the critical path: half of the schedule.
    assert!(of("last")["critical"].as_bool().unwrap());
    assert!(of("last")["spare_percent"].as_f64().unwrap() > 45.0, "{plan}");
    assert_eq!(of("right")["estimate"], 300);
    let table = flow(&c, ANN, "plan f.toml --slack 50% --chart")
        .expect(0)
        .out;
    assert!(table.contains("done by") && table.contains("|first"), "{table}");
    let svg = flow(&c, ANN, "plan f.toml --slack 50% --svg -")
        .expect(0)
        .out;
    assert!(svg.starts_with("<svg") && svg.contains(">left</text>"), "{svg}");
    assert!(reservations(&c).is_empty());
    flow(&c, ANN, "plan f.toml --finish-by now+5m").expect_refusal("the earliest that works is");
    flow(&c, ANN, "plan f.toml").expect_refusal("by when is it to be done?");
}

#[test]
fn a_plan_goes_around_what_runs() {
    let Some(c) = cluster(1) else { return };
    let job = c.run_as(
        BOB,
        &[
            "csub",
            "--parsable",
            "--exclusive",
            "-t",
            "1h",
            "--",
            "sleep",
            "1000",
        ],
    );
    let job = JobId(job.expect(0).out.trim().parse().unwrap());
    c.until_state(job, cosy_model::JobState::Running);
    write(&c, "one.toml", "[tasks.a]\ncommand = ['true']\nestimate = '10m'\n");
    let plan = json(&c, "plan one.toml --slack 10%");
    let wait = ms(&plan, "start_ms") - ms(&plan, "now_ms");
    assert!((3_500_000..3_700_000).contains(&wait), "{plan}");
}

#[test]
fn without_a_deadline_tasks_are_jobs() {
    let Some(c) = cluster(2) else { return };
    let said = flow(&c, ANN, "submit f.toml --wait").expect(0).out;
    assert!(said.starts_with("Submitted workflow 1 \"night\": 4 tasks.\n"), "{said}");
    assert!(said.ends_with("; 4 of 4 tasks done.\n"), "{said}");
    let shown = json(&c, "show 1");
    let tasks = shown["workflows"][0]["tasks"].as_array().unwrap();
    let of = |name: &str| tasks.iter().find(|t| t["name"] == name).unwrap();
    assert!(ms(of("first"), "end_ms") <= ms(of("left"), "start_ms"));
    assert!(ms(of("left"), "end_ms") <= ms(of("last"), "start_ms"));
    assert!(ms(of("right"), "end_ms") <= ms(of("last"), "start_ms"));
    let listed = flow(&c, ANN, "list --ended").expect(0).out;
    assert!(listed.contains("night  completed   4/4"), "{listed}");
    assert_eq!(flow(&c, BOB, "list --no-header").expect(0).out, "");
}

#[test]
fn a_failure_ends_it() {
    let Some(c) = cluster(1) else { return };
    let text = "[defaults]\nestimate = '1m'\n[tasks.a]\nrun = 'exit 3'\n\
                [tasks.b]\nrun = 'true'\nafter = 'a'\n";
    write(&c, "bad.toml", text);
    let said = flow(&c, ANN, "submit bad.toml --wait").expect(1).out;
    assert!(said.contains("Workflow 1 failed") && said.contains("0 of 2 tasks done"), "{said}");
    let shown = json(&c, "show 1");
    assert_eq!(shown["workflows"][0]["tasks"][0]["state"], "failed");
    assert_eq!(shown["workflows"][0]["tasks"][1]["state"], "released");
}

#[test]
fn held_confirmed_and_given_up() {
    let Some(c) = cluster(3) else { return };
    let line = "submit f.toml --slack 50% --not-before now+2h";
    let said = flow(&c, ANN, &format!("{line} --hold")).expect(0).out;
    assert!(said.contains("cosy flow confirm 1"), "{said}");
    let held = reservations(&c);
    let mut names: Vec<_> = held.iter().map(|r| r.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["night.first", "night.last", "night.left", "night.right"]);
    let said = flow(&c, ANN, "confirm 1").expect(0).out;
    assert!(said.starts_with("Booked workflow 1 \"night\": 4 tasks, done by"), "{said}");
    let shown = json(&c, "show 1");
    let tasks = shown["workflows"][0]["tasks"].as_array().unwrap();
    assert!(tasks.iter().all(|t| t["reservation"].is_u64()), "{shown}");
    flow(&c, BOB, "cancel 1").expect_refusal("");
    assert_eq!(flow(&c, ANN, "cancel 1").expect(0).out, "Gave up 1 workflow.\n");
    assert!(reservations(&c).is_empty());
    let said = flow(&c, ANN, &format!("{line} --parsable")).expect(0).out;
    assert_eq!(said, "2\n");
    assert_eq!(reservations(&c).len(), 4);
    flow(&c, ANN, "watch 1").expect(1);
}

#[test]
fn all_or_none() {
    let Some(c) = cluster(1) else { return };
    flow(&c, ANN, "submit f.toml --slack 50%").expect_refusal("f.toml:15: task 'last': ");
    flow(&c, ANN, "submit f.toml").expect_refusal("f.toml:15: task 'last': ");
    let text = "[tasks.a]\ncommand = ['true']\nestimate = '10m'\n\
                [tasks.b]\ncommand = ['true']\nestimate = '10m'\nafter = ['a']\n";
    write(&c, "two.toml", text);
    flow(&c, ANN, "submit two.toml --slack 0% --max-price 0.000001").expect_refusal("");
    assert!(reservations(&c).is_empty());
    assert_eq!(
        flow(&c, ANN, "list --all --ended --no-header")
            .expect(0)
            .out,
        ""
    );
}

#[test]
fn booked_slots_are_run_and_given_back() {
    let Some(c) = cluster(2) else { return };
    let text = "[workflow]\nname = 'quick'\n[defaults]\nestimate = '1m'\n\
                [tasks.a]\nrun = 'echo $COSY_RESERVATION > a.out'\n\
                [tasks.b]\nrun = 'cat a.out'\nafter = 'a'\n";
    write(&c, "quick.toml", text);
    let line = "submit quick.toml --slack 50% --early --wait";
    let said = flow(&c, ANN, line).expect(0).out;
    assert!(said.starts_with("Booked workflow 1 \"quick\": 2 tasks"), "{said}");
    assert!(said.contains("before its deadline; 2 of 2 tasks done."), "{said}");
    assert!(said.contains("a: done") && said.contains("b: done"), "{said}");
    let shown = json(&c, "show 1");
    let flow = &shown["workflows"][0];
    assert_eq!(flow["state"], "completed");
    let tasks = flow["tasks"].as_array().unwrap();
    assert!(ms(&tasks[0], "end_ms") <= ms(&tasks[1], "start_ms"));
    assert!(ms(&tasks[1], "end_ms") < ms(flow, "deadline_ms"));
    assert!(tasks.iter().all(|t| t["job"].is_u64()), "{shown}");
    assert!(reservations(&c).is_empty());
}
