//! After a start of the controller nobody starts, and nobody makes room, until the nodes that were in
//! service are back, for at most five seconds: on those that come first, the wrong ones would.

#![allow(clippy::unwrap_used)]

mod world;

use cosy_control::{Event, PreemptBy};
use cosy_model::api::{Reply, Request};
use cosy_model::policy::*;
use cosy_model::*;
use world::*;

/// Two nodes; jobs of `high` preempt all others.
fn site() -> World {
    let mut config = config(2, 4);
    config.preemption.by.insert(PreemptBy::Qos);
    let mut world = World::new(config);
    world.run_time = Span::from_secs(1000);
    let over = QosListChange::Exactly([NORMAL.to_owned()].into());
    let request = Request::ChangePolicy {
        changes: vec![PolicyChange::AddQos {
            name: "high".to_owned(),
            set: QosChange {
                preempt: Some(over),
                ..QosChange::default()
            },
        }],
        dry_run: false,
    };
    let reply = world.ask_as(user(0, "root"), Some([1; 16]), request);
    assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    world
}

/// The controller alone lets time pass, as far as it says itself when it has something to do.
fn waits(w: &mut World, ms: i64) {
    let until = w.now + Span(ms);
    while let Some(due) = w.controller.next_due().filter(|due| *due <= until) {
        w.now = w.now.max(due);
        w.event(Event::Ticked);
        w.deliver_all();
        if w.controller.next_due() == Some(due) {
            break;
        }
    }
    w.now = until;
    w.event(Event::Ticked);
    w.deliver_all();
}

/// A job for both nodes came first: the one that is back alone is not taken by the job behind it.
#[test]
fn nobody_starts_before_all_are_back() {
    let mut w = site();
    w.crash();
    w.submit(job_of_qos(NORMAL, 2));
    w.submit(job_of_qos(NORMAL, 1));
    w.connect(0);
    w.deliver_all();
    waits(&mut w, 4900);
    assert!(!w.queue().contains("running"), "{}", w.queue());
    w.connect(1);
    w.deliver_all();
    assert!(w.queue().starts_with("1:running 2:waiting"), "{}", w.queue());
}

/// Whoever stays away is not waited for any longer: at five seconds, without anything else happening.
#[test]
fn after_five_seconds_nobody_is_waited_for() {
    let mut w = site();
    w.crash();
    w.submit(job_of_qos(NORMAL, 1));
    w.connect(0);
    w.deliver_all();
    let begin = w.now;
    waits(&mut w, 4999);
    assert!(!w.queue().contains("running"), "{}", w.queue());
    assert_eq!(w.controller.next_due(), Some(begin + Span::from_secs(5)));
    waits(&mut w, 1);
    assert_eq!(w.queue(), "1:running");
}

/// Only nodes that were in service are waited for.
#[test]
fn who_was_out_of_service_is_not_waited_for() {
    let mut w = site();
    w.disconnect(1);
    w.listen(70, &[0]);
    w.crash();
    w.submit(job_of_qos(NORMAL, 1));
    w.connect(0);
    w.deliver_all();
    assert_eq!(w.queue(), "1:running");
}

/// The node with the running job has come back after a crash, the idle one has not, and a more important
/// job has come.
fn one_is_back() -> World {
    let mut w = site();
    w.submit(job_of_qos(NORMAL, 1));
    w.deliver_all();
    w.pass(10);
    w.crash();
    w.connect(0);
    w.deliver_all();
    w.submit(job_of_qos("high", 1));
    w.deliver_all();
    w
}

/// With the idle node that is still to come nobody has to go.
#[test]
fn nobody_makes_room_before_all_are_back() {
    let mut w = one_is_back();
    waits(&mut w, 4900);
    assert!(w.store.room.is_empty(), "{:?}", w.store.room);
    w.connect(1);
    w.deliver_all();
    assert_eq!((w.queue().as_str(), w.store.room.len()), ("1:running 2:running", 0));
}

/// When it stays away, room is made on the node that is there.
#[test]
fn room_is_made_when_the_other_stays_away() {
    let mut w = one_is_back();
    waits(&mut w, 4999);
    assert!(w.store.room.is_empty(), "{:?}", w.store.room);
    w.pass(2);
    let told: Vec<&str> = w.store.room.iter().map(|e| &*e.what).collect();
    assert_eq!(told, ["preempted", "makes_room"]);
}
