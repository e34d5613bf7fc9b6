//! Jobs that a request names: each is touched once, however often and in whatever way it is
//! named, and an answer holds only so many refusals.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

mod world;

use cosy_model::api::{JobFilter, JobRef, Reply, Request};
use cosy_model::*;
use world::*;

fn task(job: u64, task: Option<u32>) -> JobRef {
    JobRef {
        job: JobId(job),
        task,
    }
}

fn held() -> JobSpec {
    JobSpec {
        hold: true,
        ..spec("a")
    }
}

/// An array of three that is held, as job 1.
fn world() -> World {
    let mut world = World::new(config(1, 4));
    world.try_submit(held(), Some("1-3")).unwrap();
    world
}

/// The array, its tasks, and ids of its tasks, each many times.
fn many_times() -> JobFilter {
    let names = [
        task(1, None),
        task(1, Some(2)),
        task(2, None),
        task(1, Some(3)),
    ];
    JobFilter {
        ids: names.into_iter().cycle().take(4 * 500).collect(),
        ..JobFilter::default()
    }
}

fn done(reply: Reply) -> (u64, usize) {
    match reply {
        Reply::Done { changed, refused } => (changed, refused.len()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_is_touched_once() {
    let requests: [fn(JobFilter) -> Request; 4] = [
        |filter| Request::Hold {
            filter,
            as_user: false,
        },
        |filter| Request::Release { filter },
        |filter| Request::Change {
            filter,
            change: Box::new(api::JobChange {
                comment: Some("c".into()),
                ..Default::default()
            }),
        },
        |filter| cancels(filter),
    ];
    for request in requests {
        let mut world = world();
        let before = world.records;
        let reply = world.ask(request(many_times()));
        assert_eq!(done(reply), (3, 0));
        // A row and some lines of history of each, and the end of the array.
        assert!(world.records - before <= 15, "{}", world.records - before);
    }
}

#[test]
fn what_is_refused_is_named_in_bounds() {
    let mut world = World::new(config(1, 1));
    world.try_submit(held(), Some("1-1000")).unwrap();
    // None of them runs: there is nothing to send a signal to.
    let reply = world.ask(Request::Cancel {
        filter: ids(&[1]),
        signal: Some(10),
        script_only: false,
        steps_only: false,
    });
    let Reply::Done { changed, refused } = reply else {
        panic!("{reply:?}");
    };
    assert_eq!((changed, refused.len()), (0, limits::REFUSALS + 1));
    assert_eq!(refused.last().unwrap().0, "800 more");
}

#[test]
fn a_wait_counts_each_once() {
    let mut world = world();
    world.ask(Request::Cancel {
        filter: JobFilter {
            ids: vec![task(1, Some(1))],
            ..JobFilter::default()
        },
        signal: None,
        script_only: false,
        steps_only: false,
    });
    let waits = world.ask_on(
        user(1000, "u1000"),
        None,
        Request::Wait {
            jobs: many_times().ids,
        },
    );
    assert!(!world.replies.contains_key(&waits));
    world.ask(cancels(ids(&[1])));
    let Some(Reply::Ended(ended)) = world.replies.remove(&waits) else {
        panic!("no answer");
    };
    let mut tasks: Vec<_> = ended.iter().filter_map(|e| e.job.task).collect();
    tasks.sort_unstable();
    assert_eq!(tasks, [1, 2, 3]);
}

/// Users by name and number, queues, names, states.
#[test]
fn conditions_of_a_filter() {
    let mut world = world();
    world.submit(spec("b"));
    world.deliver_all();
    let mut check = |filter: JobFilter, tasks: u64| {
        let reply = world.ask(Request::Hold {
            filter: filter.clone(),
            as_user: false,
        });
        let (changed, refused) = done(reply);
        assert_eq!(changed + refused as u64, tasks, "{filter:?}");
    };
    let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    let all = JobFilter::default;
    check(
        JobFilter {
            users: words(&["u1000"]),
            ..all()
        },
        4,
    );
    check(
        JobFilter {
            users: words(&["x", "1000"]),
            ..all()
        },
        4,
    );
    check(
        JobFilter {
            users: words(&["01000", "+1000"]),
            ..all()
        },
        0,
    );
    check(
        JobFilter {
            names: words(&["b", "c"]),
            ..all()
        },
        1,
    );
    check(
        JobFilter {
            queues: words(&["main"]),
            names: words(&["a"]),
            ..all()
        },
        3,
    );
    check(
        JobFilter {
            accounts: words(&["none"]),
            ..all()
        },
        0,
    );
    check(
        JobFilter {
            states: vec![JobState::Running],
            ..all()
        },
        1,
    );
    check(
        JobFilter {
            nodes: words(&["n1"]),
            ..all()
        },
        1,
    );
    check(
        JobFilter {
            nodes: words(&["nowhere"]),
            ..all()
        },
        0,
    );
}
