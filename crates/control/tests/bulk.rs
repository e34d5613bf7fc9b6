//! One request for many tasks of an array: what stays alike stays one row, what they ask for is
//! kept once, and no turn has more than a piece of it.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

mod world;

use cosy_control::*;
use cosy_model::api::{JobChange, JobField, JobFilter, JobRef, Reply, Request};
use cosy_model::*;
use world::*;

const JOBS: u64 = 100_000;
/// Jobs in one piece of a request.
const PIECE: u64 = 500;
const KEY: [u8; 16] = [7; 16];

fn me() -> User {
    user(1000, "u1000")
}

/// One core, which job 1 has, and an array of that many waiting tasks as job 2.
fn world(spec_of_tasks: JobSpec, tasks: u64) -> World {
    let mut world = World::new(config(1, 1));
    world.submit(spec("other"));
    world.unchecked = true;
    let range = format!("1-{tasks}");
    world.try_submit(spec_of_tasks, Some(&range)).unwrap();
    world.deliver_all();
    (world.records, world.commits, world.largest_batch) = (0, 0, 0);
    world
}

fn array() -> JobFilter {
    ids(&[2])
}

fn tasks(from: u32, to: u32) -> JobFilter {
    let task = |task| JobRef {
        job: JobId(2),
        task: Some(task),
    };
    JobFilter {
        ids: (from..=to).map(task).collect(),
        ..JobFilter::default()
    }
}

fn hold(filter: JobFilter) -> Request {
    Request::Hold {
        filter,
        as_user: false,
    }
}

fn release(filter: JobFilter) -> Request {
    Request::Release { filter }
}

fn comment(filter: JobFilter, text: &str) -> Request {
    let change = JobChange {
        comment: Some(text.to_owned()),
        ..JobChange::default()
    };
    Request::Change {
        filter,
        change: Box::new(change),
    }
}

fn changed(reply: &Reply) -> u64 {
    match reply {
        Reply::Done { changed, refused } if refused.is_empty() => *changed,
        other => panic!("{other:?}"),
    }
}

/// How many live jobs have which text there.
fn texts(world: &mut World, field: JobField) -> Vec<(String, usize)> {
    let table = world.jobs(&[JobField::Id, field]);
    let mut all = std::collections::BTreeMap::new();
    for row in 0..table.rows {
        *all.entry(table.text(row, field).to_owned()).or_insert(0) += 1;
    }
    all.into_iter().collect()
}

fn held_by_user(world: &mut World) -> usize {
    let reasons = texts(world, JobField::Reason);
    let held = reasons.iter().find(|(reason, _)| reason == "held_by_user");
    held.map_or(0, |(_, jobs)| *jobs)
}

#[test]
fn a_large_array_is_held_and_let_go_by_one_row() {
    let mut world = world(spec("a"), JOBS);
    assert_eq!(changed(&world.ask(hold(array()))), JOBS);
    world.check();
    // How they stand, and a line of history.
    assert_eq!(world.records, 2);
    assert!(world.commits >= JOBS / PIECE, "{}", world.commits);
    assert_eq!(held_by_user(&mut world), JOBS as usize);
    world.crash();
    assert_eq!(held_by_user(&mut world), JOBS as usize, "after a restart");
    (world.records, world.commits) = (0, 0);
    assert_eq!(changed(&world.ask(release(array()))), JOBS);
    world.check();
    assert_eq!(world.records, 2);
    assert_eq!(held_by_user(&mut world), 0);
}

#[test]
fn a_large_array_is_changed_by_one_body() {
    let mut world = world(spec("a"), JOBS);
    let change = JobChange {
        name: Some("b".into()),
        time_limit: Some(Span::from_secs(50)),
        ..JobChange::default()
    };
    let request = Request::Change {
        filter: array(),
        change: Box::new(change),
    };
    assert_eq!(changed(&world.ask(request)), JOBS);
    world.check();
    // The body, how they stand, and a line of history.
    assert_eq!((world.records, world.store.bodies.len()), (3, 1));
    assert!(world.commits >= JOBS / PIECE, "{}", world.commits);
    let names = vec![("b".to_owned(), JOBS as usize), ("other".to_owned(), 1)];
    assert_eq!(texts(&mut world, JobField::Name), names);
    world.crash();
    assert_eq!(texts(&mut world, JobField::Name), names);
    world.connect(0);
    world.pass(12);
    let row = world.store.row(2);
    assert_eq!((row.body, &row.changed), (1, &None));
    assert_eq!(row.run.as_ref().unwrap().limit, Some(Span::from_secs(50)));
    assert_eq!(world.store.jobs.len(), 2, "only what has started has a row");
}

#[test]
fn some_of_an_array_share_a_body() {
    let mut big = spec("a");
    big.program = Program::Command {
        argv: vec![OsText::from("true"), OsText::from(&*"x".repeat(1 << 20))],
    };
    let mut world = world(big, 2000);
    assert_eq!(changed(&world.ask(comment(tasks(1, 1500), "one"))), 1500);
    world.check();
    // A row of each, the body, and a line of history for each piece.
    assert_eq!(world.records, 1504);
    assert!(world.largest_batch as u64 <= PIECE + 2);
    assert_eq!(world.store.bodies.len(), 1);
    assert!(world.store.jobs.values().all(|row| row.changed.is_none()));
    let want = |word: &str| vec![(String::new(), 501), (word.to_owned(), 1500)];
    assert_eq!(texts(&mut world, JobField::Comment), want("one"));
    // Another one takes its place, also when the controller dies meanwhile.
    world.dies = Some((1, Death::AfterCommit));
    world.ask_on(me(), Some(KEY), comment(tasks(1, 1500), "two"));
    assert_eq!((world.deaths, world.store.bodies.len()), (1, 2));
    world.ask_as(me(), Some(KEY), comment(tasks(1, 1500), "two"));
    world.check();
    assert_eq!(texts(&mut world, JobField::Comment), want("two"));
    let bodies = world.store.bodies.len();
    assert!(bodies <= 2, "{bodies}: those already changed, and the others");
    assert!(!world.store.bodies.contains_key(&(JobId(2), 1)));
}

#[test]
fn a_task_that_starts_meanwhile_keeps_what_it_started_with() {
    let mut world = world(spec("a"), 1200);
    world.ask(hold(tasks(1, 600)));
    let caller = Caller {
        user: me(),
        resolved: true,
        gid: Gid(1000),
        via: None,
        as_user: false,
        given: Vec::new(),
    };
    let asked = Event::Asked {
        client: ClientId(900),
        caller: Box::new(caller),
        key: None,
        request: comment(array(), "late"),
        facts: Facts::default(),
    };
    world.controller.handle(world.now, asked);
    let batch = world.controller.settle(world.now);
    world.store.commit(batch.records);
    world.check();
    // The first piece is of held tasks. The core becomes free before the next.
    let first = node::AttemptKey {
        job: JobId(1),
        attempt: Attempt(1),
    };
    world.now = world.now + Span::from_secs(10);
    let report = node::NodeReport::Ended {
        key: first.into(),
        node: "n1".into(),
        end: End::never_ran(EndCause::Exited, world.now),
        drain: None,
    };
    let link = world.nodes[0].link.unwrap();
    world
        .controller
        .handle(world.now, Event::LinkReported { link, report });
    let batch = world.controller.settle(world.now);
    world.store.commit(batch.records);
    assert_eq!(world.store.row(602).body, 0);
    assert!(world.store.row(602).run.is_some(), "task 601 runs");
    world.controller.handle(world.now, Event::BecameDurable);
    world.settle();
    world.check();
    let Some(Reply::Done { changed, refused }) = world.replies.remove(&ClientId(900)) else {
        panic!("no answer");
    };
    // What is only recorded of running jobs can be changed as well.
    assert_eq!((changed, refused.len()), (1200, 0));
    world.crash();
    let want = vec![("late".to_owned(), 1200)];
    assert_eq!(texts(&mut world, JobField::Comment), want);
}

#[test]
fn requests_for_one_array_come_one_after_the_other() {
    let mut world = world(spec("a"), 1200);
    let mut clients = Vec::new();
    let requests = [
        hold(array()),
        comment(array(), "c"),
        release(tasks(7, 7)),
        release(tasks(8, 1000)),
    ];
    for (at, request) in requests.into_iter().enumerate() {
        let client = ClientId(900 + at as u64);
        clients.push(client);
        let caller = Caller {
            user: me(),
            resolved: true,
            gid: Gid(1000),
            via: None,
            as_user: false,
            given: Vec::new(),
        };
        let asked = Event::Asked {
            client,
            caller: Box::new(caller),
            key: None,
            request,
            facts: Facts::default(),
        };
        world.controller.handle(world.now, asked);
    }
    world.settle();
    world.check();
    let answers: Vec<u64> = clients
        .iter()
        .map(|client| changed(&world.replies[client]))
        .collect();
    assert_eq!(answers, [1200, 1200, 1, 993]);
    assert_eq!(held_by_user(&mut world), 206);
    let comments = texts(&mut world, JobField::Comment);
    assert_eq!(comments, [(String::new(), 1), ("c".to_owned(), 1200)]);
}

/// More than are under way at once: the others wait.
#[test]
fn many_long_requests_of_one_user_are_all_done() {
    let mut world = world(spec("a"), 1200);
    for client in 900..910 {
        let caller = Caller {
            user: me(),
            resolved: true,
            gid: Gid(1000),
            via: None,
            as_user: false,
            given: Vec::new(),
        };
        let asked = Event::Asked {
            client: ClientId(client),
            caller: Box::new(caller),
            key: None,
            request: hold(array()),
            facts: Facts::default(),
        };
        world.controller.handle(world.now, asked);
    }
    world.settle();
    for client in 900..910 {
        match &world.replies[&ClientId(client)] {
            Reply::Done { changed, .. } => assert_eq!(*changed, 1200),
            other => panic!("{other:?}"),
        }
    }
}
