//! No request of one user makes a turn that others have to wait for: whatever is asked of an
//! array of 100,000 tasks, a turn has a piece of it. Work is counted, not timed.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

mod flows;
mod world;

use cosy_control::*;
use cosy_model::api::{JobChange, JobField, JobFilter, JobRef, Reply, Request, Submission};
use cosy_model::reservation::{ReservationFilter, ReservationSpec, Sharing, StartChoice};
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
    world_of(JOBS)
}

fn world_of(jobs: u64) -> World {
    let mut config = config(1, 1);
    config.policy.max_jobs_per_user = 3 * JOBS as u32;
    let mut world = World::new(config);
    world.submit(spec("other"));
    world.unchecked = true;
    world
        .try_submit(spec("a"), Some(&format!("1-{jobs}")))
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
    let before = world.controller.looks();
    ask(world, request);
    go_on(world, before)
}

fn go_on(world: &mut World, mut before: u64) -> (Reply, usize, u64) {
    let (mut answer, mut turns, mut most) = (None, 0, 0);
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
        assert!(most <= LOOKS, "{what}: {most} looks in one of {turns} turns");
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
        assert!(most <= LOOKS, "{what}: {most} looks in one of {turns} turns");
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
        assert!(matches!(reply, Reply::Done { changed: 200, .. }), "{reply:?}");
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
    assert!(turns > 4 && most <= 2_100, "{most} tasks in one of {turns} turns");
}

fn named(job: u64, task: Option<u32>) -> JobRef {
    JobRef {
        job: JobId(job),
        task,
    }
}

/// Fewer, where they are gone through many times.
const SOME: u64 = 20_000;

/// Whoever waits may name each task of an array, or the array.
#[test]
fn what_a_command_waits_for_is_looked_up_in_pieces() {
    for jobs in [
        (1..=SOME as u32).map(|task| named(2, Some(task))).collect(),
        (2..SOME + 2).map(|id| named(id, None)).collect(),
        vec![named(2, None); SOME as usize],
    ] {
        let mut world = world_of(SOME);
        ask(&mut world, Request::Wait { jobs });
        // The answer comes when they have ended, also those that end before all are looked up.
        let cancel = Request::Cancel {
            filter: array(),
            signal: None,
            script_only: false,
            steps_only: false,
        };
        let before = world.controller.looks();
        world.controller.settle(world.now);
        assert!(world.controller.is_listing());
        assert!(world.controller.looks() - before <= LOOKS);
        let asked = Event::Asked {
            client: ClientId(902),
            caller: Box::new(Caller::known(user(1000, "u1000"))),
            key: None,
            request: cancel,
            facts: Facts::default(),
        };
        let before = world.controller.looks();
        world.controller.handle(world.now, asked);
        let (reply, turns, most) = go_on(&mut world, before);
        let Reply::Ended(ended) = reply else {
            panic!("{reply:?}");
        };
        let mut tasks: Vec<_> = ended.iter().filter_map(|e| e.job.task).collect();
        tasks.sort_unstable();
        assert!(tasks.into_iter().eq(1..=SOME as u32));
        assert!(most <= LOOKS, "{most} looks in one of {turns} turns");
        assert!(turns > 20, "{turns} turns");
        cosy_control::invariants::check(&world.controller).unwrap();
    }
}

/// What a command that has gone waited for is forgotten, and what is not there is refused, however
/// many were looked up before.
#[test]
fn what_nobody_waits_for_any_more_is_forgotten_in_pieces() {
    let mut world = world_of(SOME);
    let request = |more: Option<JobRef>| Request::Wait {
        jobs: (2..SOME + 2)
            .map(|id| named(id, None))
            .chain(more)
            .collect(),
    };
    ask(&mut world, request(None));
    for _ in 0..3 {
        world.controller.settle(world.now);
    }
    world
        .controller
        .handle(world.now, Event::ClientGone(CLIENT));
    let (reply, turns, most) = turns(&mut world, request(Some(named(SOME + 2, None))));
    assert!(matches!(&reply, Reply::Refused(r) if r.code == RefusalCode::NotFound), "{reply:?}");
    assert!(most <= LOOKS, "{most} looks in one of {turns} turns");
    cosy_control::invariants::check(&world.controller).unwrap();
    // More in all than one user may wait for at once.
    world.controller.settle(world.now);
    for _ in 0..60 {
        ask(&mut world, request(None));
        while world.controller.is_listing() {
            world.controller.settle(world.now);
        }
        world
            .controller
            .handle(world.now, Event::ClientGone(CLIENT));
        let (mut batch, mut rounds) = (world.controller.settle(world.now), 0);
        while batch
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::TellDurable))
        {
            world.controller.handle(world.now, Event::BecameDurable);
            batch = world.controller.settle(world.now);
            rounds += 1;
        }
        assert!((3..=20).contains(&rounds), "{rounds} turns");
    }
    cosy_control::invariants::check(&world.controller).unwrap();
}

/// A quote lists the delays of a user's own jobs among the first in line, and looks at no others.
#[test]
fn a_quote_looks_at_the_first_in_line() {
    let mut world = world();
    let slot = ReservationSpec {
        pick: StartChoice::Soonest,
        ..slot(world.now, 60)
    };
    let quote = Request::Quote {
        ask: Box::new(slot),
        most: None,
        as_job: None,
    };
    let before = world.controller.looks();
    ask(&mut world, quote);
    let batch = world.controller.settle(world.now);
    let listed = batch.effects.iter().find_map(|effect| match effect {
        Effect::Appraise { inquiry, .. } => Some(inquiry.listed.clone()),
        _ => None,
    });
    let looks = world.controller.looks() - before;
    let Some(cosy_sched::appraise::Listed::Of(own)) = listed else {
        panic!("{listed:?}");
    };
    assert!(own.iter().copied().eq((2..1002).map(JobId)), "{own:?}");
    assert!(looks <= LOOKS, "{looks} looks");
}

fn slot(start: Time, secs: i64) -> ReservationSpec {
    ReservationSpec {
        name: String::new(),
        queue: None,
        request: job::ResourceRequest::default(),
        licenses: Default::default(),
        length: Span::from_secs(secs),
        earliest: None,
        latest_end: None,
        pick: StartChoice::At(start),
        repeat: None,
        account: None,
        max_price: None,
        sharing: Sharing {
            users: vec!["u1000".into()],
            ..Sharing::default()
        },
        comment: String::new(),
        flags: Vec::new(),
    }
}

fn book(world: &mut World, ask: ReservationSpec) -> ReservationId {
    let request = Request::Reserve {
        ask: Box::new(ask),
        hold: false,
        job: None,
    };
    match world.ask_as(user(0, "root"), None, request) {
        Reply::Reserved { reservations, .. } => reservations[0].id,
        other => panic!("{other:?}"),
    }
}

/// A reservation in which one job runs and thousands wait.
fn with_a_full_reservation() -> (World, ReservationId) {
    let mut config = config(1, 1);
    config.policy.max_jobs_per_user = 3 * JOBS as u32;
    let mut world = World::new(config);
    world.run_time = Span::from_secs(100_000);
    let start = world.now + Span::from_secs(60);
    let id = book(&mut world, slot(start, 3600));
    world.unchecked = true;
    let inside = JobSpec {
        reservation: Some(id),
        ..spec("inside")
    };
    for array in [Some(format!("1-{SOME}")), None, None] {
        world.try_submit(inside.clone(), array.as_deref()).unwrap();
    }
    world.pass(120);
    let table = world.jobs(&[JobField::Id, JobField::State]);
    let running = |row: &usize| table.text(*row, JobField::State) == "running";
    assert_eq!((0..table.rows).filter(running).count(), 1);
    (world, id)
}

/// Thousands of jobs may wait inside of a reservation when it is cancelled.
#[test]
fn what_waits_in_a_reservation_leaves_it_in_pieces() {
    let (mut world, id) = with_a_full_reservation();
    let root = |request| Event::Asked {
        client: CLIENT,
        caller: Box::new(Caller::known(user(0, "root"))),
        key: None,
        request,
        facts: Facts::default(),
    };
    let cancel = Request::CancelReservation {
        ids: vec![id],
        series: false,
    };
    let before = world.controller.looks();
    world.controller.handle(world.now, root(cancel));
    let (reply, turns, most) = go_on(&mut world, before);
    assert!(!matches!(reply, Reply::Refused(_)), "{reply:?}");
    assert!(most <= LOOKS, "{most} looks in one of {turns} turns");
    assert!(turns > 10, "{turns} turns");
    cosy_control::invariants::check(&world.controller).unwrap();
    // Nothing of them waits any more; the one that ran is about to end.
    assert_eq!(world.controller.live_jobs(), 1);
}

/// The same where it has come to its end: what waits stays, and says why.
#[test]
fn what_waits_in_a_reservation_that_ends_leaves_it_in_pieces() {
    let (mut world, _) = with_a_full_reservation();
    let end = world.now + Span::from_secs(4000);
    let mut most = 0;
    let mut turns = 0;
    while world.now < end {
        world.now = world.now + Span::from_secs(400);
        let mut before = world.controller.looks();
        let report = Event::LinkReported {
            link: world.nodes[0].link.unwrap(),
            report: node::NodeReport::Heartbeat,
        };
        world.controller.handle(world.now, report);
        loop {
            let batch = world.controller.settle(world.now);
            let looks = world.controller.looks();
            most = most.max(looks - before);
            before = looks;
            let durable = |effect: &Effect| matches!(effect, Effect::TellDurable);
            if !batch.effects.iter().any(durable) {
                break;
            }
            turns += 1;
            world.controller.handle(world.now, Event::BecameDurable);
        }
    }
    assert!(most <= LOOKS, "{most} looks in one of {turns} turns");
    assert!(turns > 5, "{turns} turns");
    cosy_control::invariants::check(&world.controller).unwrap();
    let list = Request::Jobs {
        filter: mine(),
        fields: vec![JobField::Id, JobField::State, JobField::Reason],
        fold_arrays: false,
    };
    let (Reply::Jobs(reasons), ..) = self::turns(&mut world, list) else {
        panic!("no list");
    };
    let waits = |row: &usize| reasons.text(*row, JobField::State) == "waiting";
    let waiting: Vec<usize> = (0..reasons.rows).filter(waits).collect();
    let gone = |row: &usize| reasons.text(*row, JobField::Reason) == "reservation_gone";
    assert!(waiting.len() as u64 >= SOME && waiting.iter().all(gone));
}

/// A cluster may have 100,000 nodes.
#[test]
fn nodes_are_listed_in_pieces() {
    let mut world = World::new(config(3000, 1));
    world.unchecked = true;
    let (reply, turns, most) = turns(&mut world, Request::Nodes);
    let Reply::Nodes(nodes) = reply else {
        panic!("{reply:?}");
    };
    assert!(
        nodes
            .iter()
            .map(|node| node.name.clone())
            .eq((1..=3000).map(|n| format!("n{n}")))
    );
    assert!(most <= 600 && turns > 5, "{most} nodes in one of {turns} turns");
}

/// As many reservations may be there, and whoever asks may name thousands of users.
#[test]
fn reservations_are_listed_in_pieces() {
    let mut world = World::new(config(2, 1));
    world.unchecked = true;
    let now = world.now;
    let start = |n: i64| now + Span::from_secs(7200 * (2000 - n));
    let ids: Vec<ReservationId> = (0..1500)
        .map(|n| book(&mut world, slot(start(n), 60)))
        .collect();
    let filter = ReservationFilter {
        users: (0..4000).map(|n| n.to_string()).collect(),
        ..ReservationFilter::default()
    };
    let (reply, turns, most) = turns(&mut world, Request::Reservations { filter });
    let Reply::Reservations(told) = reply else {
        panic!("{reply:?}");
    };
    // By start.
    assert!(told.iter().map(|info| info.id).eq(ids.into_iter().rev()));
    assert!(most <= 2_100 && turns > 3, "{most} in one of {turns} turns");
    let filter = ReservationFilter {
        users: vec!["1".into()],
        ..ReservationFilter::default()
    };
    let (reply, ..) = self::turns(&mut world, Request::Reservations { filter });
    assert!(matches!(&reply, Reply::Reservations(none) if none.is_empty()));
}

/// Scripts ask for many things at once: what cannot be begun waits, in the order of asking, and
/// nothing is looked for meanwhile.
#[test]
fn further_requests_of_a_user_wait_in_line() {
    const AT_ONCE: usize = 8 + 256;
    let mut world = world_of(SOME);
    let by_name = |name: &str| JobFilter {
        names: vec![name.into()],
        ..JobFilter::default()
    };
    let cancel = Request::Cancel {
        filter: by_name("nothing"),
        signal: None,
        script_only: false,
        steps_only: false,
    };
    let hold = Request::Hold {
        filter: by_name("a"),
        as_user: true,
    };
    let release = Request::Release {
        filter: JobFilter {
            ids: vec![named(2, Some(SOME as u32))],
            ..JobFilter::default()
        },
    };
    let mut requests = vec![cancel.clone(); AT_ONCE];
    (requests[10], requests[20]) = (hold, release);
    requests.push(cancel);
    for (n, request) in (1..).zip(requests) {
        let asked = Event::Asked {
            client: ClientId(n),
            caller: Box::new(Caller::known(user(1000, "u1000"))),
            key: None,
            request,
            facts: Facts::default(),
        };
        world.controller.handle(world.now, asked);
    }
    let mut answers = Vec::new();
    let mut before = world.controller.looks();
    loop {
        let batch = world.controller.settle(world.now);
        let mut durable = false;
        for effect in batch.effects {
            match effect {
                Effect::Reply { client, reply } => answers.push((client.0 as usize, reply)),
                Effect::TellDurable => durable = true,
                _ => {}
            }
        }
        if !durable {
            break;
        }
        world.controller.handle(world.now, Event::BecameDurable);
        let looks = world.controller.looks();
        assert!(looks - before <= LOOKS, "{} looks", looks - before);
        before = looks;
    }
    assert_eq!(answers.len(), AT_ONCE + 1);
    for (n, reply) in &answers {
        let changed = match n {
            11 => SOME,
            21 => 1,
            _ => 0,
        };
        match reply {
            Reply::Done { changed: done, .. } => assert_eq!(*done, changed, "{n}"),
            Reply::Refused(refusal) => {
                assert_eq!((*n, refusal.code), (AT_ONCE + 1, RefusalCode::TooMany));
            }
            other => panic!("{other:?}"),
        }
    }
    let table = world.jobs(&[JobField::Id, JobField::Reason]);
    let held = |row: &usize| table.text(*row, JobField::Reason) == "held_by_user";
    assert_eq!((0..table.rows).filter(held).count() as u64, SOME - 1);
}
