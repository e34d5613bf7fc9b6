//! Workflows run by real daemons: over kills of the controller, with tasks that fail, and
//! with slots that grow.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::{Reply, Request};
use cosy_model::workflow::{
    FlowDeadline, FlowEdge, FlowFilter, FlowInfo, FlowSpec, FlowState, FlowTask, FlowTaskState,
    Overrun,
};
use cosy_model::{FlowId, OsText, Span};
use cosy_tests::{Client, Cluster, Options, script, wait};
use std::fs;

/// No rule stands in the way.
const RULES: &str = "[reservations]\nall_of = []\nhold = \"3s\"\n\
    [reservations.per_user]\nopen = 9\nshare = \"off\"\n";

fn cluster(nodes: usize) -> Cluster {
    let options = Options {
        policy: "heartbeat = \"1s\"\ngrace = \"1s\"\n".into(),
        controller: RULES.into(),
        ..Options::default()
    };
    Cluster::start(nodes, options)
}

/// Tasks with their scripts, each after the one before it.
fn chain(c: &Cluster, tasks: &[(&str, &str)], slack_permille: Option<u32>) -> FlowSpec {
    let task = |(name, text): &(&str, &str)| {
        let submission = script(&c.work(), text);
        let mut spec = submission.spec;
        spec.environment = OsText::default();
        spec.request.exclusive = true;
        FlowTask {
            name: (*name).to_owned(),
            spec,
            script: submission.script,
            estimate: Span::from_secs(5),
            estimates: Vec::new(),
            retries: 0,
        }
    };
    let edge = |to: usize| FlowEdge {
        from: to as u32 - 1,
        to: to as u32,
        data_bytes: 0,
    };
    let text = r#"{"name": "night", "tasks": [], "edges": []}"#;
    let mut flow: FlowSpec = serde_json::from_str(text).unwrap();
    flow.tasks = tasks.iter().map(task).collect();
    flow.edges = (1..tasks.len()).map(edge).collect();
    flow.deadline = slack_permille.map(FlowDeadline::Slack);
    flow.environment = OsText::from("PATH=/usr/bin:/bin\0WORD=of the flow\0");
    flow
}

#[track_caller]
fn submit(c: &Cluster, spec: FlowSpec, hold: bool) -> FlowInfo {
    let spec = Box::new(spec);
    match c.ask(Request::SubmitFlow { spec, hold }) {
        Reply::Flow(info) => *info,
        other => panic!("{other:?}\n{}", c.logs()),
    }
}

fn show(c: &Cluster, id: FlowId) -> Option<FlowInfo> {
    let filter = FlowFilter {
        ids: vec![id],
        tasks: true,
        ..FlowFilter::default()
    };
    let mut client = Client::connect(&c.socket()).ok()?;
    match client.ask(Request::Flows { filter }).ok()? {
        Reply::Flows(mut all) => all.pop(),
        _ => None,
    }
}

#[track_caller]
fn until(c: &Cluster, id: FlowId, what: &str, good: impl Fn(&FlowInfo) -> bool) -> FlowInfo {
    wait::until(what, || show(c, id).filter(&good))
}

fn states(info: &FlowInfo) -> Vec<FlowTaskState> {
    info.tasks.iter().map(|task| task.state).collect()
}

#[test]
fn without_a_deadline_jobs_follow_each_other() {
    let c = cluster(1);
    let text = "echo \"$COSY_FLOW_NAME $COSY_FLOW_TASK $WORD\" >> seen";
    let flow = submit(&c, chain(&c, &[("a", text), ("b", text)], None), false);
    let done = until(&c, flow.id, "it is over", |f| !f.state.is_live());
    assert_eq!(done.state, FlowState::Completed, "{done:?}\n{}", c.logs());
    let seen = fs::read_to_string(c.work().join("seen")).unwrap();
    assert_eq!(seen, "night a of the flow\nnight b of the flow\n");
}

#[test]
fn it_goes_on_when_the_controller_is_killed() {
    let mut c = cluster(2);
    let first = "echo a >> ran; until [ -e go ]; do sleep 0.05; done";
    let tasks = [("a", first), ("b", "echo b >> ran"), ("c", "echo c >> ran")];
    let flow = submit(&c, chain(&c, &tasks, Some(1500)), false);
    let runs = |f: &FlowInfo| f.tasks[0].state == FlowTaskState::Running;
    until(&c, flow.id, "the first task runs", runs);
    c.cosyd.kill();
    fs::write(c.work().join("go"), "").unwrap();
    c.start_cosyd();
    let slots = |f: &FlowInfo| f.tasks.iter().map(|t| t.slot_start).collect::<Vec<_>>();
    let after = until(&c, flow.id, "the first is done", |f| f.done_count > 0);
    assert_eq!(slots(&after)[1..], slots(&flow)[1..]);
    c.cosyd.kill();
    c.start_cosyd();
    let done = until(&c, flow.id, "it is over", |f| !f.state.is_live());
    assert_eq!(done.state, FlowState::Completed, "{done:?}\n{}", c.logs());
    // Each ran once, in its slot.
    let ran = fs::read_to_string(c.work().join("ran")).unwrap();
    assert_eq!(ran, "a\nb\nc\n");
    for task in &done.tasks {
        assert!(task.start >= task.slot_start, "{task:?}");
        assert_eq!(c.row(task.job.unwrap()).attempt, 1);
    }
    assert!(done.end <= done.deadline);
}

#[test]
fn a_hold_lapses_over_a_kill() {
    let mut c = cluster(1);
    let tasks = [("a", "exit 0"), ("b", "exit 0")];
    let held = submit(&c, chain(&c, &tasks, Some(100)), true);
    assert_eq!(held.state, FlowState::Held);
    c.cosyd.kill();
    c.start_cosyd();
    let over = until(&c, held.id, "it has lapsed", |f| !f.state.is_live());
    assert_eq!(over.state, FlowState::Expired);
    assert_eq!(states(&over), [FlowTaskState::Released; 2]);
    match c.ask(Request::ConfirmFlow { id: held.id }) {
        Reply::Refused(refusal) => assert!(refusal.message.contains("has expired")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_failed_task_is_tried_again_and_then_the_rest_is_given_back() {
    let c = cluster(1);
    let twice = "echo x >> tries; test $(wc -l < tries) -ge 2";
    let mut flow = chain(&c, &[("a", twice), ("b", "exit 4"), ("c", "exit 0")], Some(9000));
    flow.tasks[0].retries = 1;
    flow.early = true;
    let flow = submit(&c, flow, false);
    let over = until(&c, flow.id, "it is over", |f| !f.state.is_live());
    assert_eq!(over.state, FlowState::Failed, "{}", c.logs());
    let want = [
        FlowTaskState::Done,
        FlowTaskState::Failed,
        FlowTaskState::Released,
    ];
    assert_eq!(states(&over), want);
    assert_eq!(over.tasks[0].failures, 1);
    assert_eq!(over.note, "task b failed, exit code 4");
    // The second began before its slot.
    assert!(over.tasks[1].start < flow.tasks[1].slot_start);
}

#[test]
fn a_task_that_takes_longer_gets_more_time() {
    let c = cluster(1);
    let mut flow = chain(&c, &[("a", "sleep 9; echo done > a"), ("b", "exit 0")], Some(0));
    flow.overrun = Overrun::Replan;
    let flow = submit(&c, flow, false);
    let over = until(&c, flow.id, "it is over", |f| !f.state.is_live());
    assert_eq!(over.state, FlowState::Completed, "{over:?}\n{}", c.logs());
    assert!(c.work().join("a").exists());
    let task = &over.tasks[0];
    let took = task.end.unwrap().since(task.start.unwrap());
    assert!(took >= Span::from_secs(9) && task.slot_end > flow.tasks[0].slot_end);
    assert!(over.tasks[1].slot_start > flow.tasks[1].slot_start);
}
