//! Workflows in the controller: jobs that depend on each other, all of them or none; what
//! becomes of them when tasks fail, are given up, and when the controller dies.

#![allow(clippy::unwrap_used)]

mod flows;
mod world;

use cosy_model::api::{Reply, Request};
use cosy_model::workflow::*;
use cosy_model::{Attempt, FlowId, JobId, RefusalCode, Span};
use flows::*;
use world::*;

#[test]
fn tasks_run_after_their_parents() {
    let mut w = World::new(config(2, 4));
    let info = submit(&mut w, graph("dabc", &["ab", "ac", "bd", "cd"])).unwrap();
    let id = info.id;
    assert_eq!((info.state, info.task_count), (FlowState::Running, 4));
    assert_eq!(info.tasks[0].parents, ["b", "c"]);
    w.deliver_all();
    let want = "running: d waiting, a running, b waiting, c waiting";
    assert_eq!(states(&mut w, id), want);
    assert!(w.queue().contains("waiting/dependency"));
    w.pass(11);
    let want = "running: d waiting, a done, b running, c running";
    assert_eq!(states(&mut w, id), want);
    w.pass(11);
    let want = "running: d running, a done, b done, c done";
    assert_eq!(states(&mut w, id), want);
    w.pass(11);
    let done = show(&mut w, id);
    assert_eq!((done.state, done.done_count), (FlowState::Completed, 4));
    assert!(done.end.is_some() && done.tasks[0].start >= done.tasks[3].end);
    // Jobs are named after both, and what was over is forgotten after a day.
    let name = &w.store.submissions[&job_of(&info, 0)].0.spec.name;
    assert_eq!(name, "w.d");
    w.pass(1);
    w.now = w.now + Span::from_secs(86_401);
    w.pass(1);
    let filter = FlowFilter {
        ids: vec![id],
        ..FlowFilter::default()
    };
    let gone = w.ask(Request::Flows { filter });
    assert!(matches!(gone, Reply::Refused(r) if r.code == RefusalCode::NotFound));
}

#[test]
fn a_failed_task_releases_what_depends_on_it() {
    let mut w = World::new(config(2, 4));
    let info = submit(&mut w, graph("abcd", &["ab", "bc", "ad"])).unwrap();
    w.exit_codes.insert(attempt(job_of(&info, 1).0, 1), 3);
    w.run_times.insert(job_of(&info, 3), Span::from_secs(30));
    w.deliver_all();
    w.pass(22);
    let want = "running: a done, b failed, c released, d running";
    assert_eq!(states(&mut w, info.id), want);
    let now = show(&mut w, info.id);
    assert_eq!(now.note, "task b failed, exit code 3");
    assert_eq!(now.tasks[1].note, "failed, exit code 3");
    w.pass(30);
    let want = "failed: a done, b failed, c released, d done";
    assert_eq!(states(&mut w, info.id), want);
    assert_eq!(w.controller.live_jobs(), 0);
}

#[test]
fn a_failed_task_is_tried_again() {
    let mut w = World::new(config(1, 4));
    let mut asked = graph("ab", &["ab"]);
    asked.tasks[0].retries = 2;
    let info = submit(&mut w, asked.clone()).unwrap();
    let first = job_of(&info, 0);
    w.exit_codes.insert(attempt(first.0, 1), 1);
    w.exit_codes.insert(attempt(first.0, 2), 1);
    w.deliver_all();
    w.pass(45);
    assert_eq!(states(&mut w, info.id), "completed: a done, b done");
    let done = show(&mut w, info.id);
    assert_eq!(done.tasks[0].failures, 2);
    assert_eq!(w.store.jobs[&first].attempt, Attempt(3));
    // Once too often.
    let info = submit(&mut w, asked).unwrap();
    for n in 1..=3 {
        w.exit_codes.insert(attempt(job_of(&info, 0).0, n), 1);
    }
    w.deliver_all();
    w.pass(45);
    assert_eq!(states(&mut w, info.id), "failed: a failed, b released");
}

#[test]
fn it_is_given_up() {
    let mut w = World::new(config(1, 4));
    let info = submit(&mut w, graph("abc", &["ab", "bc"])).unwrap();
    w.deliver_all();
    w.pass(2);
    let stranger = user(2000, "eve");
    let ids = vec![info.id];
    let refused = w.ask_as(stranger, None, Request::CancelFlow { ids });
    let Reply::Done { changed, refused } = refused else {
        panic!("{refused:?}")
    };
    assert_eq!((changed, refused[0].1.code), (0, RefusalCode::Forbidden));
    assert!(matches!(cancel(&mut w, info.id), Reply::Done { changed: 1, .. }));
    w.deliver_all();
    w.pass(1);
    let want = "cancelled: a failed, b released, c released";
    assert_eq!(states(&mut w, info.id), want);
    let again = cancel(&mut w, info.id);
    let Reply::Done { refused, .. } = again else {
        panic!("{again:?}")
    };
    assert!(refused[0].1.message.contains("cancelled already"));
    assert_eq!(w.controller.live_jobs(), 0);
}

#[test]
fn a_task_whose_job_is_cancelled_by_hand_has_failed() {
    let mut w = World::new(config(1, 4));
    let mut asked = graph("abc", &["ab"]);
    asked.tasks[1].retries = 5;
    let info = submit(&mut w, asked).unwrap();
    w.deliver_all();
    w.ask(cancels(ids(&[job_of(&info, 1).0])));
    w.deliver_all();
    w.pass(15);
    let want = "failed: a done, b failed, c done";
    assert_eq!(states(&mut w, info.id), want);
    let note = show(&mut w, info.id).tasks[1].note.clone();
    assert_eq!(note, "cancelled: cancelled by u1000 while it waited: dependency");
}

#[test]
fn it_goes_on_after_a_restart() {
    let mut w = World::new(config(1, 4));
    let mut asked = graph("abcd", &["ab", "ac", "bd", "cd"]);
    asked.tasks[1].retries = 1;
    let info = submit(&mut w, asked).unwrap();
    w.exit_codes.insert(attempt(job_of(&info, 1).0, 1), 1);
    w.deliver_all();
    for _ in 0..60 {
        w.pass(1);
        w.crash();
        w.connect(0);
        w.deliver_all();
    }
    let want = "completed: a done, b done, c done, d done";
    assert_eq!(states(&mut w, info.id), want);
}

#[test]
fn all_jobs_or_none() {
    let mut small = config(1, 4);
    small.queues[0].max_jobs_per_user = Some(3);
    let mut w = World::new(small);
    let refused = submit(&mut w, graph("abcd", &["ab"])).unwrap_err();
    assert_eq!(refused.code, RefusalCode::QueueLimit);
    assert!(refused.message.starts_with("task 'd': "), "{refused}");
    let mut asked = graph("abc", &["ab"]);
    asked.tasks[2].spec.request.nodes = Some(99);
    let refused = submit(&mut w, asked).unwrap_err();
    assert!(refused.message.starts_with("task 'c': "), "{refused}");
    assert!(w.store.submissions.is_empty() && w.store.flows.is_empty());
    let info = submit(&mut w, graph("abc", &["ab"])).unwrap();
    assert_eq!((info.id, job_of(&info, 0)), (FlowId(1), JobId(1)));
}

#[test]
fn what_cannot_be_is_refused() {
    let mut w = World::new(config(1, 4));
    let mut check = |change: &dyn Fn(&mut FlowSpec), says: &str| {
        let mut asked = graph("abc", &["ab", "bc"]);
        change(&mut asked);
        let refused = submit(&mut w, asked).unwrap_err();
        assert!(refused.message.contains(says), "{refused}");
    };
    let edge = |from, to| FlowEdge {
        from,
        to,
        data_bytes: 0,
    };
    check(&|f| f.edges.push(edge(2, 0)), "circle: a -> b -> c -> a");
    check(&|f| f.edges.push(edge(1, 1)), "circle: b -> b");
    check(&|f| f.edges.push(edge(1, 3)), "from task 1 to task 3");
    check(&|f| f.tasks[2].name = "a".into(), "same name, 'a'");
    check(&|f| f.tasks[2].name = "a\n".into(), "control characters");
    check(&|f| f.tasks.clear(), "no tasks");
    check(&|f| f.tasks[1].estimate = Span(-5), "task 'b'");
    check(&|f| f.tasks[1].retries = 1000, "1000 retries");
    check(&|f| f.tasks[1].spec.attended = true, "stays with it");
    check(
        &|f| {
            f.speeds = vec![SetSpeed {
                set: "fast".into(),
                speed_permille: 0,
            }];
        },
        "speed 0",
    );
    check(&|f| f.name = "n".repeat(300), "1 to 255 bytes");
    check(
        &|f| {
            let task = f.tasks[0].clone();
            f.tasks = vec![task; 10_001];
        },
        "10001 tasks is larger than the 10000 allowed",
    );
}

#[test]
fn a_repeated_request_is_answered_once() {
    let mut w = World::new(config(1, 4));
    let ask = |w: &mut World| {
        let spec = Box::new(graph("ab", &["ab"]));
        let request = Request::SubmitFlow { spec, hold: false };
        match w.ask_as(user(1000, "u1000"), Some([7; 16]), request) {
            Reply::Flow(info) => info.id,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((ask(&mut w), ask(&mut w)), (FlowId(1), FlowId(1)));
    assert_eq!(w.store.flows.len(), 1);
}
