//! No request of one user makes a turn that others have to wait for: whatever is asked of an
//! array of 100,000 tasks, a turn has a piece of it. Work is counted, not timed.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

mod flows;
mod world;

use cosy_control::*;
use cosy_model::api::{JobChange, JobField, JobFilter, JobRef, Reply, Request, Submission};
use cosy_model::workflow::FlowFilter;
use cosy_model::*;
use world::*;

const JOBS: u64 = 100_000;
/// Looks at jobs in one turn. A piece of a request, of a list and of the line of those that are
/// looked at again may come together.
const LOOKS: u64 = 13_000;
const CLIENT: ClientId = ClientId(901);

/// One core, which job 1 has, and an array of so many waiting tasks as job 2.
fn world() -> World {
    let mut config = config(1, 1);
    config.policy.max_jobs_per_user = 3 * JOBS as u32;
    let mut world = World::new(config);
    world.submit(spec("other"));
    world.unchecked = true;
    world
        .try_submit(spec("a"), Some(&format!("1-{JOBS}")))
        .unwrap();
    world.deliver_all();
    world
}

fn ask(world: &mut World, request: Request) {
    let asked = Event::Asked {
        client: CLIENT,
        caller: Box::new(Caller::known(user(1000, "u1000"))),
        key: None,
        request,
        facts: Facts::default(),
    };
    world.controller.handle(world.now, asked);
}

/// Ends turns until there is no more to do and the answer is there: that, the turns, and the most
/// looks in one of them.
fn turns(world: &mut World, request: Request) -> (Reply, usize, u64) {
    let (mut answer, mut turns, mut most) = (None, 0, 0);
    let mut before = world.controller.looks();
    ask(world, request);
    loop {
        let batch = world.controller.settle(world.now);
        turns += 1;
        let looks = world.controller.looks();
        most = most.max(looks - before);
        before = looks;
        let mut goes_on = world.controller.is_listing();
        let mut durable = false;
        let mut plans = Vec::new();
        for effect in batch.effects {
            match effect {
                Effect::Reply {
                    client: CLIENT,
                    reply,
                } => answer = Some(reply),
                Effect::TellDurable => durable = true,
                Effect::Plan { plan, .. } => plans.push(plan),
                _ => {}
            }
        }
        for plan in plans {
            let predictions = Vec::new();
            world
                .controller
                .handle(world.now, Event::Planned { plan, predictions });
            goes_on = true;
        }
        if durable {
            world.controller.handle(world.now, Event::BecameDurable);
        }
        if !durable && !goes_on {
            return (answer.unwrap(), turns, most);
        }
    }
}

fn array() -> JobFilter {
    ids(&[2])
}

fn mine() -> JobFilter {
    JobFilter {
        users: vec!["1000".into()],
        ..JobFilter::default()
    }
}

fn change(filter: JobFilter, change: JobChange) -> Request {
    Request::Change {
        filter,
        change: Box::new(change),
    }
}

#[test]
fn what_is_done_to_a_large_array_is_done_in_pieces() {
    let mut world = world();
    let cancel = |filter, signal| Request::Cancel {
        filter,
        signal,
        script_only: false,
        steps_only: false,
    };
    let avoid = JobChange {
        avoid: Some(vec!["n1".into(); 1000]),
        ..JobChange::default()
    };
    let limit = JobChange {
        time_limit: Some(Span::from_secs(50)),
        ..JobChange::default()
    };
    let hold = |filter| Request::Hold {
        filter,
        as_user: true,
    };
    let all = [
        ("hold", hold(array())),
        ("release", Request::Release { filter: array() }),
        ("hold all of a user", hold(mine())),
        ("release all of a user", Request::Release { filter: mine() }),
        ("limit", change(array(), limit)),
        ("nodes", change(array(), avoid)),
        ("signal", cancel(array(), Some(10))),
        ("cancel", cancel(array(), None)),
    ];
    for (what, request) in all {
        let (reply, turns, most) = turns(&mut world, request);
        assert!(matches!(reply, Reply::Done { .. }), "{what}: {reply:?}");
        assert!(
            most <= LOOKS,
            "{what}: {most} looks in one of {turns} turns"
        );
        assert!(turns > 20, "{what}: {turns} turns");
    }
}

#[test]
fn a_large_array_is_listed_and_explained_in_pieces() {
    let mut world = world();
    let explain = Request::Explain {
        job: JobRef {
            job: JobId(2),
            task: None,
        },
    };
    let list = Request::Jobs {
        filter: array(),
        fields: vec![JobField::Id, JobField::Place],
        fold_arrays: true,
    };
    for (what, request) in [("explain", explain), ("list", list)] {
        let (reply, turns, most) = turns(&mut world, request);
        let answered = matches!(reply, Reply::Explained { .. } | Reply::Jobs(_));
        assert!(answered, "{what}: {reply:?}");
        assert!(
            most <= LOOKS,
            "{what}: {most} looks in one of {turns} turns"
        );
        assert!(turns > 20, "{what}: {turns} turns");
    }
}

#[test]
fn the_tasks_of_a_new_array_are_looked_at_in_pieces() {
    let mut world = world();
    let submission = Submission {
        spec: spec("b"),
        script: OsText::default(),
        array: Some(ArraySpec {
            ranges: vec![(1, JOBS as u32, 1)],
            at_once: None,
        }),
    };
    let (reply, turns, most) = turns(&mut world, Request::Submit(Box::new(submission)));
    assert!(matches!(reply, Reply::Submitted { .. }), "{reply:?}");
    assert!(most <= LOOKS, "{most} looks in one of {turns} turns");
    // None was forgotten.
    let reasons = world.jobs(&[JobField::Id, JobField::Reason]);
    let fresh = (0..reasons.rows).filter(|row| reasons.text(*row, JobField::Reason) == "fresh");
    assert_eq!((reasons.rows as u64, fresh.count()), (2 * JOBS + 1, 0));
}

/// Each dependency of each task is looked up whenever the task is looked at.
#[test]
fn tasks_with_many_dependencies_are_looked_at_fewer_at_a_time() {
    let mut world = world();
    let dependency = |task: u32| Dependency {
        kind: DependencyKind::AfterAny,
        job: JobId(2),
        task: Some(task),
        delay: Span::ZERO,
    };
    let mut after = spec("after");
    after.dependencies = (1..=limits::DEPENDENCIES as u32).map(dependency).collect();
    let submission = Submission {
        spec: after,
        script: OsText::default(),
        array: Some(ArraySpec {
            ranges: vec![(1, 200, 1)],
            at_once: None,
        }),
    };
    let array = JobId(JOBS + 2);
    let submit = Request::Submit(Box::new(submission));
    let (reply, _, most) = turns(&mut world, submit);
    let submitted = matches!(&reply, Reply::Submitted { job, .. } if *job == array);
    assert!(submitted, "{reply:?}");
    assert!(most <= LOOKS, "submit: {most} looks");
    let hold = Request::Hold {
        filter: ids(&[array.0]),
        as_user: true,
    };
    for request in [
        hold,
        Request::Release {
            filter: ids(&[array.0]),
        },
    ] {
        let (reply, turns, most) = turns(&mut world, request);
        assert!(
            matches!(reply, Reply::Done { changed: 200, .. }),
            "{reply:?}"
        );
        assert!(most <= LOOKS, "{most} looks in one of {turns} turns");
    }
}

/// Two requests of one user that concern the same are carried out as they were asked, also while
/// it is still looked for what the first concerns.
#[test]
fn what_one_user_asks_is_done_in_the_order_of_asking() {
    let mut world = world();
    let hold = Request::Hold {
        filter: mine(),
        as_user: true,
    };
    ask(&mut world, hold);
    let late = Submission {
        spec: spec("late"),
        script: OsText::default(),
        array: None,
    };
    ask(&mut world, Request::Submit(Box::new(late)));
    let filter = JobFilter {
        ids: vec![JobRef {
            job: JobId(2),
            task: Some(JOBS as u32),
        }],
        ..JobFilter::default()
    };
    let (reply, ..) = turns(&mut world, Request::Release { filter });
    assert!(matches!(reply, Reply::Done { changed: 1, .. }), "{reply:?}");
    let table = world.jobs(&[JobField::Id, JobField::Reason]);
    let held = |row: &usize| table.text(*row, JobField::Reason) == "held_by_user";
    // All but the one that was let go, the running one, and the one that came after the request.
    let held = (0..table.rows).filter(held).count();
    assert_eq!((table.rows as u64, held as u64), (JOBS + 2, JOBS - 1));
}

/// Workflows of thousands of tasks are told in pieces, each of them whole, named ones once.
#[test]
fn large_workflows_are_listed_in_pieces() {
    let mut world = World::new(config(1, 1));
    world.unchecked = true;
    let flow = |tasks: usize| {
        let mut flow = flows::graph("a", &[]);
        let task = |n: usize| {
            let mut task = flow.tasks[0].clone();
            task.name = format!("t{n}");
            task
        };
        flow.tasks = (0..tasks).map(task).collect();
        flow
    };
    let ids: Vec<FlowId> = [5_000, 1, 4_000]
        .map(|tasks| flows::submit(&mut world, flow(tasks)).unwrap().id)
        .into();
    let ids = ids.repeat(1_000);
    let filter = FlowFilter {
        ids,
        tasks: true,
        ..FlowFilter::default()
    };
    let (reply, turns, most) = turns(&mut world, Request::Flows { filter });
    let Reply::Flows(told) = reply else {
        panic!("{reply:?}");
    };
    let names = told.iter().map(|flow| {
        let names: Vec<String> = (0..flow.tasks.len()).map(|n| format!("t{n}")).collect();
        assert!(flow.tasks.iter().map(|t| &t.name).eq(&names));
        names.len()
    });
    assert_eq!(names.collect::<Vec<_>>(), [5_000, 1, 4_000]);
    assert!(
        turns > 4 && most <= 2_100,
        "{most} tasks in one of {turns} turns"
    );
}
