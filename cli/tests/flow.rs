//! `cosy flow` as a program, against a controller that answers what the test tells it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod sandbox;

use cosy_model::api::{Reply, Request};
use cosy_model::reservation::PlanChart;
use cosy_model::workflow::{
    FlowDeadline, FlowInfo, FlowPlan, FlowScheduler, FlowSlackPolicy, FlowSpec, FlowState,
    FlowTaskInfo, FlowTaskState, Overrun, PlannedTask,
};
use cosy_model::{FlowId, JobId, Refusal, RefusalCode, ReservationId, Span, Su, Time};
use sandbox::{Outcome, Sandbox, assert_one_line_error};
use std::path::Path;

/// 2030-01-05 13:00 UTC, a Saturday.
const START: Time = Time::from_secs(1_893_848_400);
const MINUTE: Span = Span::from_minutes(1);

const FILE: &str = "\
[workflow]
name = 'night'
environment = ['NONE', 'A=1']
[defaults]
estimate = '10m'
[tasks.first]
run = 'date'
[tasks.last]
command = ['true']
nodes = 2
after = [{ task = 'first', data = '1M' }]
";

fn after(minutes: i64) -> Time {
    START + Span::from_minutes(minutes)
}

fn slot(task: u32, from: i64, to: i64) -> PlannedTask {
    PlannedTask {
        task,
        start: after(from),
        end: after(to),
        estimate: Span::from_minutes(10),
        spare: Span::from_minutes(to - from - 10),
        critical: true,
        set: String::new(),
        nodes: "n[1-2]".into(),
        price: Su::whole(1),
        delayed_jobs: 0,
        total_delay: Span::ZERO,
    }
}

fn plan() -> Reply {
    Reply::FlowPlan(Box::new(FlowPlan {
        now: START,
        start: START,
        shortest_end: after(20),
        deadline: after(30),
        tasks: vec![slot(0, 0, 15), slot(1, 15, 30)],
        price: Su::whole(2),
        delayed: Vec::new(),
        refusals: Vec::new(),
    }))
}

fn info(state: FlowState) -> FlowInfo {
    let task = |name: &str, state| FlowTaskInfo {
        name: name.into(),
        state,
        parents: Vec::new(),
        slot_start: Some(START),
        slot_end: Some(after(15)),
        estimate: Span::from_minutes(10),
        spare: Span::from_minutes(5),
        reservation: Some(ReservationId(7)),
        job: (state != FlowTaskState::Waiting).then_some(JobId(12)),
        start: None,
        end: None,
        failures: 0,
        nodes: "n1".into(),
        note: String::new(),
    };
    FlowInfo {
        id: FlowId(3),
        name: "night".into(),
        user: "ann".into(),
        state,
        made: START,
        deadline: Some(after(30)),
        end: Some(after(30)),
        hold_until: (state == FlowState::Held).then_some(START + MINUTE),
        task_count: 2,
        done_count: 0,
        price: Su::whole(2),
        account: "phys".into(),
        note: String::new(),
        tasks: vec![
            task("first", FlowTaskState::Running),
            task("last", FlowTaskState::Waiting),
        ],
    }
}

fn flow(state: FlowState) -> Reply {
    Reply::Flow(Box::new(info(state)))
}

fn refused() -> Reply {
    Reply::Refused(Refusal::new(RefusalCode::NotFree, "the slot from 2030-01-05T13:00:00Z is gone"))
}

/// Runs one command on [`FILE`] against those answers.
fn ask(answers: Vec<Reply>, line: &[&str]) -> (Outcome, Vec<Request>) {
    let sandbox = Sandbox::new();
    sandbox.script("f.toml", FILE.as_bytes());
    let controller = sandbox.controller(answers);
    let got = sandbox.run(&[&["cosy", "flow"], line].concat());
    (got, controller.join().unwrap())
}

fn spec_of(request: &Request) -> &FlowSpec {
    match request {
        Request::PlanFlow { spec } | Request::SubmitFlow { spec, .. } => spec,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_plan_is_shown() {
    let (got, asked) = ask(vec![plan()], &["plan", "f.toml", "--slack", "50%", "--zone", "UTC"]);
    assert_eq!((got.code, &*got.error), (0, ""));
    let want = "first  *   2030-01-05 13:00  2030-01-05 13:15    10 min  5 min  n[1-2]";
    assert!(got.out.contains(want), "{}", got.out);
    let spec = spec_of(&asked[0]);
    assert_eq!(spec.deadline, Some(FlowDeadline::Slack(500)));
    assert_eq!(spec.environment, "A=1".into());
    assert_eq!(spec.tasks[0].script, "#!/bin/sh\ndate\n".into());
    assert_eq!(spec.tasks[1].spec.request.nodes, Some(2));
    assert_eq!(spec.edges[0].data_bytes, 1 << 20);
}

#[test]
fn the_command_line_wins() {
    let line = "plan f.toml --finish-by 2030-01-05T14:00:00Z --not-before 2030-01-05T13:00:00Z \
                --scheduler dls --slack-policy r_cp_first --threshold 2% --early --on-overrun \
                extend --max-price 9 --account acc --name other --json";
    let line: Vec<&str> = line.split_whitespace().collect();
    let (got, asked) = ask(vec![plan()], &line);
    assert_eq!(got.code, 0, "{got:?}");
    let spec = spec_of(&asked[0]);
    assert_eq!(spec.deadline, Some(FlowDeadline::By(after(60))));
    assert_eq!((spec.earliest, spec.early), (Some(START), true));
    assert_eq!(spec.scheduler, FlowScheduler::Dls);
    assert_eq!(spec.slack_policy, FlowSlackPolicy::RCpFirst);
    assert_eq!((spec.threshold_permille, spec.overrun), (20, Overrun::Extend));
    assert_eq!(spec.max_price, Some(Su::whole(9)));
    assert_eq!((spec.account.as_deref(), &*spec.name), (Some("acc"), "other"));
    let json: serde_json::Value = serde_json::from_str(&got.out).unwrap();
    assert_eq!(json["tasks"][1]["parents"][0], "first");
    assert_eq!(json["deadline"], "2030-01-05T13:30:00.000Z");
}

#[test]
fn a_plan_is_drawn() {
    let chart = Reply::PlanChart(Box::new(PlanChart {
        now: START,
        nodes: vec!["n1".into()],
        bars: Vec::new(),
        beyond: 0,
    }));
    let line = ["plan", "f.toml", "--slack", "50%", "--svg", "-"];
    let (got, asked) = ask(vec![plan(), chart], &line);
    assert!(got.out.starts_with("<svg ") && got.out.ends_with("</svg>\n"));
    assert!(matches!(asked[1], Request::PlanChart { until: Some(_), .. }));
}

#[test]
fn submitting_has_two_phases() {
    let answers = vec![flow(FlowState::Held), flow(FlowState::Running)];
    let (got, asked) = ask(answers, &["submit", "f.toml", "--slack", "50%", "--zone", "UTC"]);
    assert_eq!((got.code, &*got.error), (0, ""));
    assert!(
        got.out
            .starts_with("Booked workflow 3 \"night\": 2 tasks, done by"),
        "{got:?}"
    );
    assert!(matches!(asked[0], Request::SubmitFlow { hold: true, .. }));
    assert_eq!(asked[1], Request::ConfirmFlow { id: FlowId(3) });
    let (got, asked) =
        ask(vec![flow(FlowState::Held)], &["submit", "f.toml", "--slack", "50%", "--hold"]);
    assert!(got.out.contains("cosy flow confirm 3"), "{got:?}");
    assert_eq!(asked.len(), 1);
}

#[test]
fn without_a_deadline_there_is_one_phase() {
    let mut plain = info(FlowState::Running);
    plain.deadline = None;
    let (got, asked) = ask(vec![Reply::Flow(Box::new(plain))], &["submit", "f.toml", "--parsable"]);
    assert_eq!((got.code, &*got.out), (0, "3\n"));
    assert!(matches!(asked[0], Request::SubmitFlow { hold: false, .. }));
}

#[test]
fn a_hold_that_cannot_be_confirmed_is_given_back() {
    let done = Reply::Done {
        changed: 1,
        refused: Vec::new(),
    };
    let answers = vec![flow(FlowState::Held), refused(), done];
    let (got, asked) = ask(answers, &["submit", "f.toml", "--slack", "50%", "--zone", "UTC"]);
    assert_one_line_error(&got, 1, "the slot from 2030-01-05 13:00 is gone");
    assert_eq!(
        asked[2],
        Request::CancelFlow {
            ids: vec![FlowId(3)]
        }
    );
}

#[test]
fn watching_ends_with_the_workflow() {
    let check = |state, want_code: i32, want: &str| {
        let mut last = info(state);
        last.tasks[0].state = FlowTaskState::Done;
        let answers = vec![
            Reply::Flows(vec![info(FlowState::Running)]),
            Reply::Flows(vec![last]),
        ];
        let (got, _) = ask(answers, &["watch", "3", "--zone", "UTC"]);
        assert_eq!(got.code, want_code, "{got:?}");
        assert!(
            got.out
                .starts_with("first: runs as job 12 on n1\nfirst: done\n"),
            "{got:?}"
        );
        assert!(got.out.contains(want), "{got:?}");
    };
    check(FlowState::Completed, 0, "Workflow 3 completed at 2030-01-05 13:30");
    check(FlowState::Failed, 1, "Workflow 3 failed at");
    let (got, _) = ask(vec![Reply::Flows(Vec::new())], &["watch", "9"]);
    assert_one_line_error(&got, 1, "there is no workflow 9");
}

#[test]
fn looking_and_giving_up() {
    let (got, asked) = ask(vec![Reply::Flows(vec![info(FlowState::Running)])], &["list"]);
    assert!(got.out.contains("night  running   0/2"), "{got:?}");
    let Request::Flows { filter } = &asked[0] else {
        panic!("{asked:?}")
    };
    assert_eq!((filter.users.len(), filter.ended, filter.tasks), (1, false, false));
    let flows = vec![Reply::Flows(vec![info(FlowState::Failed)])];
    let (got, asked) = ask(flows, &["show", "3", "9"]);
    assert_eq!(got.code, 1);
    assert!(got.out.contains("Workflow 3\n") && got.error.contains("no workflow 9"));
    assert!(matches!(&asked[0], Request::Flows { filter } if filter.tasks && filter.ended));
    let done = Reply::Done {
        changed: 1,
        refused: Vec::new(),
    };
    let (got, _) = ask(vec![done], &["cancel", "3"]);
    assert_eq!((got.code, &*got.out), (0, "Gave up 1 workflow.\n"));
}

#[test]
fn mistakes() {
    let sandbox = Sandbox::new();
    sandbox.script("f.toml", FILE.as_bytes());
    sandbox.script("circle.toml", b"[tasks.a]\nafter = 'b'\n[tasks.b]\nafter = 'a'\n");
    let check = |line: &[&str], code: i32, want: &str| {
        assert_one_line_error(&sandbox.run(&[&["cosy", "flow"], line].concat()), code, want);
    };
    check(&["plan", "f.toml"], 2, "by when is it to be done?");
    check(&["submit", "f.toml", "--hold"], 2, "no slots to hold");
    check(&["plan", "no.toml"], 1, "cannot read 'no.toml'");
    check(
        &["plan", "circle.toml"],
        2,
        "circle.toml:1: the tasks wait for each other in a circle: a -> b -> a",
    );
    check(&["plan", "f.toml", "--slack", "9"], 2, "no share");
    check(&["plan", "/dev/zero", "--slack", "9%"], 1, "larger than 64 MiB");
    check(&["plan", "f.toml", "--slack", "5%"], 3, "cannot reach the controller");
    check(&["import", "f.toml"], 2, "f.toml:");
}

#[test]
fn imports() {
    let sandbox = Sandbox::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/flow");
    let from = |name: &str| fixtures.join(name).to_str().unwrap().to_owned();
    let got = sandbox.run(&[
        "cosy",
        "flow",
        "import",
        &from("pegasus-5.yml"),
        "-o",
        "made.toml",
    ]);
    assert_eq!((got.code, &*got.out), (0, ""));
    assert!(got.error.contains("replicaCatalog"), "{got:?}");
    let controller = sandbox.controller(vec![plan()]);
    let planned = sandbox.run(&["cosy", "flow", "plan", "made.toml", "--slack", "50%"]);
    assert_eq!(planned.code, 0, "{planned:?}");
    let asked = controller.join().unwrap();
    assert_eq!(spec_of(&asked[0]).tasks.len(), 4);
    let again = sandbox.run(&[
        "cosy",
        "flow",
        "import",
        &from("wfcommons-1.3.json"),
        "-o",
        "made.toml",
    ]);
    assert_eq!(again.code, 1);
    assert!(again.error.contains("cannot write 'made.toml'"), "{again:?}");
}

#[test]
fn examples_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../etc/flows");
    let mut read = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        let sandbox = Sandbox::new();
        let controller = sandbox.controller(vec![plan()]);
        let got = sandbox.run(&["cosy", "flow", "plan", path.to_str().unwrap()]);
        assert_eq!(got.code, 0, "{got:?}");
        assert!(spec_of(&controller.join().unwrap()[0]).tasks.len() > 2);
        read += 1;
    }
    assert_eq!(read, 2);
}

#[test]
fn refusals_name_the_line() {
    let no = |text: &str| Reply::Refused(Refusal::new(RefusalCode::NeverFits, text));
    let (got, _) = ask(vec![no("task 'last': no node is large enough")], &["submit", "f.toml"]);
    assert_one_line_error(&got, 1, "f.toml:8: task 'last': no node is large enough");
    let (got, _) =
        ask(vec![no("the deadline cannot be kept")], &["plan", "f.toml", "--slack", "1%"]);
    assert_one_line_error(&got, 1, "cosy flow: the deadline cannot be kept");
}
