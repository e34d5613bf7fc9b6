//! Of the tasks of a large array some thousand stand in the planner's queue, the first ones; the others come
//! as these start. And there are only so many jobs in all.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

mod world;

use cosy_control::*;
use cosy_model::api::{JobChange, JobRef, Reply, Request};
use cosy_model::limits::QUEUED_TASKS;
use cosy_model::*;
use world::*;

const TASKS: u64 = QUEUED_TASKS as u64 + 2000;
/// Cores, each of which has a task of the array.
const CORES: u64 = 4;
const CLIENT: ClientId = ClientId(901);

/// Tasks of an array, which are jobs 1 and following, that stand in the planner's queue.
fn queued(world: &mut World) -> Vec<u64> {
    world.now = world.now + Span::from_secs(6); // no plan of a moment ago is told
    let asked = Event::Asked {
        client: CLIENT,
        caller: Box::new(Caller::known(user(1000, "u1000"))),
        key: None,
        request: Request::PlanChart {
            until: None,
            most: 1,
        },
        facts: Facts::default(),
    };
    world.controller.handle(world.now, asked);
    for effect in world.controller.settle(world.now).effects {
        if let Effect::Plan {
            plan, scheduler, ..
        } = effect
        {
            let predictions = Vec::new();
            let planned = Event::Planned { plan, predictions };
            world.controller.handle(world.now, planned);
            let waits = |id: &u64| scheduler.is_waiting(JobId(*id));
            return (1..=TASKS).filter(waits).collect();
        }
    }
    panic!("nothing is planned");
}

fn world() -> World {
    let mut config = config(1, CORES as u32);
    config.policy.max_array_tasks = TASKS as u32;
    let mut world = World::new(config);
    world.unchecked = true;
    let array = format!("0-{}", TASKS - 1);
    assert_eq!(world.try_submit(spec("a"), Some(&array)), Ok(1));
    world.deliver_all();
    world
}

fn stand_there(world: &mut World, wanted: &[u64]) {
    let queued = queued(world);
    let others = queued.iter().zip(wanted).find(|(a, b)| a != b);
    assert_eq!((queued.len(), others), (wanted.len(), None));
}

fn from_to(first: u64, count: u64) -> Vec<u64> {
    (first..first + count).collect()
}

#[test]
fn the_first_tasks_are_planned_and_others_come_as_they_start() {
    let mut world = world();
    let all: u64 = QUEUED_TASKS.into();
    stand_there(&mut world, &from_to(CORES + 1, all));
    // One ends, the next one starts, and another one comes.
    let first = node::AttemptKey {
        job: JobId(1),
        attempt: Attempt(1),
    };
    world.end(0, first, 0);
    world.deliver_all();
    stand_there(&mut world, &from_to(CORES + 2, all));
    let row = world.explained(TASKS);
    assert_eq!(row, "other jobs come before it");
    // One that is changed alone does not wait for those before it.
    let last = JobRef {
        job: JobId(1),
        task: Some(TASKS as u32 - 1),
    };
    let change = Request::Change {
        filter: api::JobFilter {
            ids: vec![last],
            ..Default::default()
        },
        change: Box::new(JobChange {
            time_limit: Some(Span::from_secs(77)),
            ..JobChange::default()
        }),
    };
    let done = world.ask(change);
    assert!(matches!(done, Reply::Done { changed: 1, .. }), "{done:?}");
    world.deliver_all();
    let mut with_it = from_to(CORES + 2, all);
    with_it.push(TASKS);
    stand_there(&mut world, &with_it);
    world.unchecked = false;
    world.check();
    world.unchecked = true;
    // After a restart it is as it was.
    world.crash();
    world.connect(0);
    world.deliver_all();
    let again = queued(&mut world);
    assert!(again.len() as u64 >= all && again.contains(&TASKS), "{}", again.len());
    world.unchecked = false;
    world.check();
}

#[test]
fn who_is_held_leaves_its_place_to_the_next() {
    let mut world = world();
    let hold = |filter| Request::Hold {
        filter,
        as_user: false,
    };
    let tasks = |from: u32, to: u32| api::JobFilter {
        ids: (from..to)
            .map(|task| JobRef {
                job: JobId(1),
                task: Some(task),
            })
            .collect(),
        ..Default::default()
    };
    world.ask(hold(tasks(10, 20)));
    world.deliver_all();
    let queued = queued(&mut world);
    assert_eq!(queued.len(), QUEUED_TASKS as usize);
    assert!(!queued.contains(&15), "it is held");
    assert_eq!(queued.last(), Some(&(CORES + 10 + u64::from(QUEUED_TASKS))));
}

#[test]
fn all_together_have_only_so_many_jobs() {
    let mut config = config(1, 4);
    config.policy.max_jobs = 20;
    let mut world = World::new(config);
    let held = || JobSpec {
        hold: true,
        ..spec("held")
    };
    world.try_submit(held(), Some("1-18")).unwrap();
    let refused = world.try_submit(held(), None).unwrap_err();
    assert_eq!(refused.code, RefusalCode::TooMany);
    assert_eq!(
        refused.message,
        "18 jobs wait or run and 1 would come: all users together have at most 18 here; try again when some have ended"
    );
    // Administrators have the rest.
    let submits = |world: &mut World| {
        let submission = api::Submission {
            spec: held(),
            script: OsText::default(),
            array: None,
        };
        world.ask_as(user(0, "root"), None, Request::Submit(Box::new(submission)))
    };
    for _ in 0..2 {
        assert!(matches!(submits(&mut world), Reply::Submitted { .. }));
    }
    assert!(matches!(submits(&mut world), Reply::Refused(_)));
}
