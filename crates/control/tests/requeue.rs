//! Dependencies on jobs that have ended and run again: what counts is their next end.

mod world;

use cosy_model::api::Request;
use cosy_model::*;
use world::*;

fn dependent(kind: DependencyKind, job: u64) -> JobSpec {
    after(kind, job, spec("d"))
}

fn requeue(world: &mut World, job: u64) {
    let reply = world.ask(Request::Requeue {
        filter: ids(&[job]),
        hold: false,
        special: false,
    });
    assert!(
        matches!(&reply, api::Reply::Done { changed: 1, refused } if refused.is_empty()),
        "{reply:?}"
    );
    world.deliver_all();
}

/// A job that has ended, with this code at its first attempt.
fn ended(code: i32) -> World {
    let mut world = World::new(config(2, 4));
    world.exit_codes.insert(attempt(1, 1), code);
    assert_eq!(world.submit(spec("a")), 1);
    world.deliver_all();
    world.pass(11);
    assert_eq!(world.queue(), "");
    world
}

fn check_waits_then_runs(world: &mut World) {
    assert_eq!(world.queue(), "1:running 2:waiting/dependency");
    world.pass(11);
    assert_eq!(world.queue(), "2:running");
}

#[test]
fn who_waited_for_something_else_waits_for_the_next_end() {
    let mut world = ended(0);
    let mut held = dependent(DependencyKind::AfterOk, 1);
    held.hold = true;
    world.submit(held);
    requeue(&mut world, 1);
    world.ask(Request::Release { filter: ids(&[2]) });
    world.deliver_all();
    check_waits_then_runs(&mut world);
}

#[test]
fn who_waited_for_nodes_waits_for_the_next_end() {
    let mut world = ended(0);
    let mut large = dependent(DependencyKind::AfterOk, 1);
    large.request.nodes = Some(2);
    large.request.exclusive = true;
    world.disconnect(1);
    world.submit(large);
    assert_eq!(world.queue(), "2:waiting/nodes_unavailable");
    requeue(&mut world, 1);
    assert_eq!(world.queue(), "1:running 2:waiting/dependency");
    world.connect(1);
    world.deliver_all();
    check_waits_then_runs(&mut world);
}

#[test]
fn who_comes_after_the_requeue_waits_for_the_next_end() {
    let mut world = ended(0);
    requeue(&mut world, 1);
    world.submit(dependent(DependencyKind::AfterAny, 1));
    world.deliver_all();
    check_waits_then_runs(&mut world);
}

#[test]
fn a_failure_is_not_for_ever() {
    let mut world = ended(1);
    world.submit(dependent(DependencyKind::AfterOk, 1));
    assert_eq!(world.queue(), "2:waiting/dependency_never");
    requeue(&mut world, 1);
    check_waits_then_runs(&mut world);
}

#[test]
fn nor_over_a_restart_of_the_controller() {
    let mut world = ended(1);
    world.submit(dependent(DependencyKind::AfterOk, 1));
    requeue(&mut world, 1);
    world.crash();
    for n in 0..2 {
        world.connect(n);
    }
    world.deliver_all();
    check_waits_then_runs(&mut world);
}

#[test]
fn who_waits_for_a_failure_waits_for_the_next_end() {
    let mut world = ended(1);
    let mut held = dependent(DependencyKind::AfterNotOk, 1);
    held.hold = true;
    world.submit(held);
    requeue(&mut world, 1);
    world.ask(Request::Release { filter: ids(&[2]) });
    assert_eq!(world.queue(), "1:running 2:waiting/dependency");
    world.pass(11);
    assert_eq!(world.queue(), "2:waiting/dependency_never");
}

/// Tasks of an array that lives come back one by one.
#[test]
fn a_task_that_comes_back_is_waited_for() {
    let mut world = World::new(config(2, 4));
    for task in [1, 2] {
        world.exit_codes.insert(attempt(task, 1), 1);
    }
    world.run_times.insert(JobId(3), Span::from_secs(40));
    let base = world.try_submit(spec("a"), Some("0-2"));
    assert_eq!(base, Ok(1));
    let mut one = dependent(DependencyKind::AfterOk, 1);
    one.dependencies[0].task = Some(1);
    world.submit(one);
    world.deliver_all();
    world.pass(11);
    assert_eq!(world.queue(), "1_2:running 4:waiting/dependency_never");
    requeue(&mut world, 2);
    assert_eq!(world.queue(), "1_1:running 1_2:running 4:waiting/dependency");
    world.pass(11);
    assert_eq!(world.queue(), "1_2:running 4:running");
}
