//! Long chains of jobs that wait for each other, and arrays that wait for arrays: neither the
//! stack nor a turn has to hold what a user makes long.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

mod world;

use cosy_control::{Caller, ClientId, Event, Facts};
use cosy_model::api::{Reply, Request};
use cosy_model::*;
use world::*;

/// Jobs of the longest chain.
const CHAIN: u64 = 100_000;
/// Jobs of another one.
const SHORTER: u64 = 10_000;
/// No turn writes more records than this.
const RECORDS: usize = 2_500;

fn dependent(kind: DependencyKind, job: u64) -> JobSpec {
    JobSpec {
        end_if_never: Some(true),
        ..after(kind, job, spec("a"))
    }
}

/// Job 1, and each further one after the one before it.
fn chain(first: JobSpec, jobs: u64) -> World {
    let mut world = World::new(config(1, 1));
    world.unchecked = true;
    world.submit(first);
    for job in 1..jobs {
        // Many in one turn: a turn for each takes this test's time.
        submit_later(&mut world, dependent(DependencyKind::AfterOk, job));
        if job % 1000 == 0 {
            world.settle();
        }
    }
    world.settle();
    assert_eq!(world.controller.live_jobs() as u64, jobs);
    world.largest_batch = 0;
    world
}

fn submit_later(world: &mut World, spec: JobSpec) {
    let client = ClientId(world.id());
    let caller = Caller::known(user(1000, "u1000"));
    let submission = api::Submission {
        spec,
        script: OsText::default(),
        array: None,
    };
    let asked = Event::Asked {
        client,
        caller: Box::new(caller),
        key: None,
        request: Request::Submit(Box::new(submission)),
        facts: Facts::default(),
    };
    world.controller.handle(world.now, asked);
}

fn held() -> JobSpec {
    JobSpec {
        hold: true,
        ..spec("a")
    }
}

fn all_over(world: &World, jobs: u64) {
    world.check();
    assert_eq!(world.controller.live_jobs(), 0);
    assert_eq!(world.store.ends().len() as u64, jobs);
    assert_eq!(world.state_of(jobs), JobState::Cancelled);
    assert!(world.largest_batch <= RECORDS, "{}", world.largest_batch);
}

fn cancel(job: u64) -> Request {
    cancels(ids(&[job]))
}

fn first_attempt(job: u64) -> node::AttemptKey {
    node::AttemptKey {
        job: JobId(job),
        attempt: Attempt(1),
    }
}

#[test]
fn the_first_of_a_long_chain_fails_and_the_controller_dies_meanwhile() {
    let mut world = chain(spec("a"), CHAIN);
    world.deliver_all();
    world.dies = Some((40, Death::AfterCommit));
    world.end(0, first_attempt(1), 1);
    assert_eq!(world.deaths, 1);
    let done = world.store.ends().len() as u64;
    assert!(1 < done && done < CHAIN, "{done}");
    world.pass(1);
    assert_eq!(world.state_of(1), JobState::Failed);
    all_over(&world, CHAIN);
}

#[test]
fn the_first_of_a_long_chain_is_cancelled() {
    let mut world = chain(held(), SHORTER);
    world.ask(cancel(1));
    all_over(&world, SHORTER);
}

#[test]
fn many_jobs_wait_for_one() {
    let mut world = World::new(config(1, 1));
    world.unchecked = true;
    world.submit(held());
    let spec = dependent(DependencyKind::AfterOk, 1);
    world.try_submit(spec, Some("1-20000")).unwrap();
    world.largest_batch = 0;
    let reply = world.ask(cancel(1));
    assert!(matches!(reply, Reply::Done { changed: 1, .. }), "{reply:?}");
    world.check();
    assert_eq!(world.controller.live_jobs(), 0);
    assert!(world.largest_batch <= RECORDS, "{}", world.largest_batch);
}

/// An array of three that waits for one of three, and how it stands after each end.
fn stages(dependency: DependencyKind, exit_codes: [i32; 3]) -> Vec<String> {
    let mut world = World::new(config(1, 1));
    let first = world.try_submit(spec("a"), Some("1-3")).unwrap();
    let mut waiting = dependent(dependency, first);
    waiting.end_if_never = Some(false);
    waiting.hold = false;
    world.try_submit(waiting, Some("1-3")).unwrap();
    for (at, code) in exit_codes.into_iter().enumerate() {
        let key = first_attempt(first + at as u64);
        world.exit_codes.insert(key.into(), code);
    }
    let mut seen = Vec::new();
    for _ in 0..3 {
        world.deliver_all();
        world.pass(10);
        let queue = world.queue();
        let of_second = queue.split(' ').filter(|row| row.starts_with("4_"));
        seen.push(of_second.collect::<Vec<_>>().join(" "));
    }
    seen
}

#[test]
fn arrays_that_wait_for_arrays() {
    let waits = "4_1:waiting/dependency 4_2:waiting/dependency 4_3:waiting/dependency";
    let never = waits.replace("dependency", "dependency_never");
    assert_eq!(
        stages(DependencyKind::AfterOk, [0, 0, 0]),
        [
            waits,
            waits,
            "4_1:running 4_2:waiting/resources 4_3:waiting/priority"
        ]
    );
    assert_eq!(stages(DependencyKind::AfterOk, [1, 0, 0]), [waits, waits, &never]);
    let seen = stages(DependencyKind::AfterCorr, [0, 1, 0]);
    assert_eq!(seen[0], "4_1:waiting/priority 4_2:waiting/dependency 4_3:waiting/dependency");
    assert!(seen[1].contains("4_2:waiting/dependency_never"), "{seen:?}");
    assert!(seen[2].contains("4_1:running"), "{seen:?}");
}

/// A task that is held while it has the only place lets another one have it.
#[test]
fn a_held_task_gives_its_place_to_others_of_its_array() {
    let mut world = World::new(config(1, 1));
    world.submit(spec("other"));
    world.try_submit(spec("a"), Some("1-3%1")).unwrap();
    world.deliver_all();
    let first = "1:running 2_1:waiting/resources 2_2:waiting/array_limit 2_3:waiting/array_limit";
    assert_eq!(world.queue(), first);
    let filter = ids(&[2]);
    let task = api::JobFilter {
        ids: vec![api::JobRef {
            job: JobId(2),
            task: Some(1),
        }],
        ..filter
    };
    world.ask(Request::Hold {
        filter: task,
        as_user: false,
    });
    let then = "1:running 2_1:waiting/held_by_user 2_2:waiting/resources 2_3:waiting/array_limit";
    assert_eq!(world.queue(), then);
}
