//! What is kept in the store and not taken up: nodes go on with such jobs, nothing else
//! starts there, jobs that depend on them wait, and administrators are told.

#![allow(clippy::unwrap_used)]

mod world;

use cosy_control::{Controller, SetAside};
use cosy_model::api::{Reply, Request};
use cosy_model::node::{AttemptPhase, NodeOrder};
use cosy_model::{Dependency, DependencyKind, JobId, Span, Time, WaitReason};
use world::{World, config, spec, user};

/// Restarts the controller without that submission.
fn set_aside(world: &mut World, id: u64) {
    let mut loaded = world.store.load();
    loaded.submissions.retain(|row| row.base.0 != id);
    loaded.jobs.retain(|row| row.base.0 != id);
    loaded.set_aside.push(SetAside {
        what: format!("job {id}"),
        at: Time(0),
        why: "it cannot be read".into(),
        ids: Some((JobId(id), 1)),
        node: None,
    });
    restart(world, loaded);
}

fn restart(world: &mut World, loaded: cosy_control::Loaded) {
    world.controller = Controller::restore(world.config.clone(), loaded, world.now);
    world.orders.clear();
    for node in 0..world.nodes.len() {
        world.nodes[node].link = None;
    }
}

fn connect_all(world: &mut World) {
    for node in 0..world.nodes.len() {
        world.connect(node);
    }
    world.deliver_all();
}

/// Two nodes of one core; job 1 runs on the first, job 2 waits for its end.
fn begun() -> World {
    let mut world = World::new(config(2, 1));
    world.run_time = Span::from_secs(30);
    let mut first = spec("first");
    first.request.require = vec!["n1".into()];
    assert_eq!(world.submit(first), 1);
    world.deliver_all();
    let mut after = spec("after");
    after.end_if_never = Some(true);
    after.dependencies = vec![Dependency {
        kind: DependencyKind::AfterOk,
        job: JobId(1),
        task: None,
        delay: Span::ZERO,
    }];
    assert_eq!(world.submit(after), 2);
    world
}

#[test]
fn nodes_go_on_with_a_job_that_is_set_aside() {
    let mut world = begun();
    set_aside(&mut world, 1);
    connect_all(&mut world);
    let phase = |world: &World| {
        let known = &world.nodes[0].known;
        known.values().next().map(|on| on.phase.clone())
    };
    let running = |world: &World| matches!(phase(world), Some(AttemptPhase::Running { .. }));
    assert!(running(&world), "it was killed");
    // Nothing else starts beside it: nobody knows what it holds.
    assert_eq!(world.submit(spec("other")), 3);
    assert_eq!(world.submit(spec("next")), 4);
    world.deliver_all();
    assert_eq!(world.nodes[0].known.len(), 1);
    assert_eq!(world.nodes[1].known.len(), 1);
    world.pass(35);
    // It has ended; the node keeps how until somebody wants to know, and takes others again.
    assert!(matches!(phase(&world), Some(AttemptPhase::Ended(_))));
    assert!(world.store.row(4).run.is_some() || world.store.row(4).end.is_some());
    world.pass(60); // nothing else holds what it held
    // Put back, its outcome comes with the node's next registration.
    let loaded = world.store.load();
    restart(&mut world, loaded);
    connect_all(&mut world);
    world.pass(1);
    assert!(world.store.row(1).end.is_some(), "its outcome was lost");
}

#[test]
fn jobs_that_depend_on_it_wait() {
    let mut world = begun();
    set_aside(&mut world, 1);
    connect_all(&mut world);
    world.pass(40);
    let reason = format!("2:waiting/{}", WaitReason::Dependency.word());
    assert!(world.queue().contains(&reason), "{}", world.queue());
}

#[test]
fn administrators_are_told() {
    let mut world = begun();
    set_aside(&mut world, 1);
    let lines =
        |world: &mut World, uid, name| match world.ask_as(user(uid, name), None, Request::Ping) {
            Reply::Pong { set_aside, .. } => set_aside,
            other => panic!("{other:?}"),
        };
    assert_eq!(lines(&mut world, 0, "root"), ["job 1: it cannot be read"]);
    assert!(lines(&mut world, 1000, "u1000").is_empty());
}

#[test]
fn a_node_of_which_nothing_can_be_read_takes_no_jobs() {
    let mut world = World::new(config(1, 1));
    let mut loaded = world.store.load();
    loaded.nodes.clear();
    loaded.set_aside.push(SetAside {
        what: "node n1".into(),
        at: Time(0),
        why: "it cannot be read".into(),
        ids: None,
        node: Some("n1".into()),
    });
    restart(&mut world, loaded);
    connect_all(&mut world);
    world.submit(spec("a"));
    let launches = |o: &(_, NodeOrder)| matches!(o.1, NodeOrder::Launch(_));
    assert!(!world.orders.iter().any(launches));
    world.deliver_all();
    assert!(world.nodes[0].known.is_empty());
}
