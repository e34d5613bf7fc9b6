//! Starts that are told to somebody are counted: whether they came true.

mod world;

use cosy_model::api::{JobChange, JobField, PredictionRecord, Reply, Request};
use cosy_model::{JobSpec, Span};
use world::{World, config, ids, spec, user, whole_nodes};

fn limited(secs: i64) -> JobSpec {
    JobSpec {
        request: whole_nodes(1),
        time_limit: Some(Span::from_secs(secs)),
        ..spec("predicted")
    }
}

/// One node, and a job on it for an hour as far as is known.
fn busy(runs: i64) -> World {
    let mut world = World::new(config(1, 4));
    world.connect_all();
    world.run_time = Span::from_secs(runs);
    world.longer_limits = true;
    world.submit(limited(3600));
    world.pass(2);
    world
}

fn counted(world: &mut World) -> (u64, u64) {
    let Reply::Queues(queues) = world.ask(Request::Queues) else {
        panic!("queues");
    };
    let PredictionRecord { kept, missed } = queues[0].predictions;
    (kept, missed)
}

#[test]
fn a_start_that_was_told_is_kept_or_missed() {
    let mut world = busy(3600);
    let (early, unasked) = (world.submit(limited(60)), world.submit(limited(60)));
    world.explained(early);
    assert_eq!(counted(&mut world), (0, 0));
    world.run_time = Span::from_secs(10);
    world.pass(3660);
    assert_eq!((world.starts_of(early), world.starts_of(unasked)), (1, 1));
    assert_eq!(counted(&mut world), (1, 0), "of the other nobody was told anything");
}

/// As soon as it is late beyond the tolerance, not only when it starts at last.
#[test]
fn a_job_that_waits_longer_has_missed_its_start() {
    let mut world = busy(9000);
    let late = world.submit(limited(60));
    world.explained(late);
    let first = world.ask_as(
        user(0, "root"),
        None,
        Request::Change {
            filter: ids(&[1]),
            change: Box::new(JobChange {
                time_limit: Some(Span::from_secs(9000)),
                ..JobChange::default()
            }),
        },
    );
    assert!(matches!(first, Reply::Done { changed: 1, .. }), "{first:?}");
    // A tenth of an hour is more than five minutes; a new word does not help.
    world.pass(3600 + 350);
    world.explained(late);
    assert_eq!(counted(&mut world), (0, 0));
    world.pass(20);
    assert_eq!(counted(&mut world), (0, 1));
    assert_eq!(world.starts_of(late), 0);
}

#[test]
fn what_was_changed_held_or_cancelled_counts_neither_way() {
    let mut world = busy(3600);
    let all = [60, 61, 62].map(|secs| world.submit(limited(secs)));
    for id in all {
        world.explained(id);
    }
    let root = || user(0, "root");
    let hold = Request::Hold {
        filter: ids(&all[..1]),
        as_user: false,
    };
    let change = Request::Change {
        filter: ids(&all[1..2]),
        change: Box::new(JobChange {
            time_limit: Some(Span::from_secs(50)),
            ..JobChange::default()
        }),
    };
    for request in [hold, change, world::cancels(ids(&all[2..]))] {
        let reply = world.ask_as(root(), None, request);
        assert!(matches!(reply, Reply::Done { changed: 1, .. }), "{reply:?}");
    }
    world.pass(2 * 3600);
    assert_eq!(world.starts_of(all[1]), 1);
    assert_eq!(counted(&mut world), (0, 0));
}

/// Lists with predictions tell all of them; from ten on the page of a job says how they came out.
#[test]
fn ten_outcomes_are_told() {
    let mut world = World::new(config(1, 4));
    world.connect_all();
    for _ in 0..12 {
        world.submit(limited(60));
    }
    world.pass(1);
    world.jobs(&[JobField::PredictedStart]);
    world.pass(300);
    assert_eq!(counted(&mut world), (11, 0));
    world.run_time = Span::from_secs(600);
    world.submit(limited(500));
    let next = world.submit(limited(60));
    let told = world.explained(next);
    assert!(
        told.contains("less than 10 min ahead in queue main held 10 of the latest 10 times"),
        "{told}"
    );
    world.crash();
    world.pass(1);
    assert_eq!(counted(&mut world), (0, 0), "counted from the start of the controller");
}
