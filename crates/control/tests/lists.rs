//! Lists of jobs: in pieces of bounded work, each with others between them, in pages of
//! bounded size, and the same to the user as one whole list.

mod world;

use cosy_control::*;
use cosy_model::api::{Cursor, JobField, JobFilter, Reply, Request, Table};
use cosy_model::*;
use world::*;

const TASKS: u64 = 30_000;

fn world(spec: JobSpec) -> World {
    let mut world = World::new(config(2, 2));
    let array = format!("1-{TASKS}");
    world.try_submit(spec, Some(&array)).expect("an array");
    world
}

fn held() -> JobSpec {
    JobSpec {
        hold: true,
        ..spec("a")
    }
}

fn list(filter: JobFilter, fields: &[JobField], fold_arrays: bool) -> Request {
    Request::Jobs {
        filter,
        fields: fields.to_vec(),
        fold_arrays,
    }
}

fn root() -> User {
    user(0, "root")
}

fn asked(world: &mut World, request: Request) -> ClientId {
    let client = ClientId(world.id());
    let event = Event::Asked {
        client,
        caller: Box::new(Caller::known(root())),
        key: None,
        request,
        facts: Facts::default(),
    };
    world.controller.handle(world.now, event);
    client
}

fn table(reply: Reply) -> Table {
    match reply {
        Reply::Jobs(table) => table,
        other => panic!("{other:?}"),
    }
}

/// All pages, and how many there were.
fn pages(world: &mut World, fields: &[JobField], fold: bool) -> (Table, usize) {
    let mut parts: Vec<Table> = Vec::new();
    let mut filter = JobFilter {
        pages: true,
        ..JobFilter::default()
    };
    loop {
        let request = list(filter.clone(), fields, fold);
        let page = table(world.ask_as(root(), None, request));
        filter.after = page.more;
        parts.push(page);
        if filter.after.is_none() {
            let count = parts.len();
            return (Table::joined(parts), count);
        }
    }
}

#[test]
fn others_have_their_turn_while_a_long_list_is_made() {
    let mut world = world(held());
    let fields = [JobField::Ref, JobField::Name, JobField::State];
    let long = asked(&mut world, list(JobFilter::default(), &fields, false));
    let mut turns = 0;
    let rows = loop {
        // Somebody else asks in each turn, and is answered in it.
        let other = asked(&mut world, Request::Ping);
        let batch = world.controller.settle(world.now);
        turns += 1;
        let mut rows = None;
        let mut pong = false;
        for effect in batch.effects {
            match effect {
                Effect::Reply { client, reply } if client == long => rows = Some(table(reply).rows),
                Effect::Reply { client, .. } => pong |= client == other,
                _ => {}
            }
        }
        assert!(pong);
        if let Some(rows) = rows {
            break rows;
        }
    };
    assert_eq!(rows as u64, TASKS);
    // 3 pieces look at the jobs; a piece makes some thousand rows.
    assert!((5..60).contains(&turns), "{turns} turns");
}

#[test]
fn one_turn_has_one_piece_however_many_ask() {
    let mut world = world(held());
    let request = || list(JobFilter::default(), &[JobField::Id], true);
    let clients: Vec<ClientId> = (0..20).map(|_| asked(&mut world, request())).collect();
    let mut answered = 0;
    let mut turns = 0;
    while answered < clients.len() {
        let batch = world.controller.settle(world.now);
        let replies = batch.effects.iter();
        let replies = replies
            .filter(|e| matches!(e, Effect::Reply { .. }))
            .count();
        assert!(replies <= 1, "{replies} lists were finished in one turn");
        answered += replies;
        turns += 1;
    }
    assert!(turns >= 20 * TASKS / 10_000, "{turns}");
}

#[test]
fn a_long_list_comes_in_pages_and_is_the_same() {
    let mut world = world(spec("a"));
    world.connect(0);
    world.deliver_all();
    let fields = [
        JobField::Ref,
        JobField::Stdout,
        JobField::Command,
        JobField::State,
    ];
    let (paged, count) = pages(&mut world, &fields, false);
    assert!(count > 1 && paged.rows as u64 == TASKS, "{count} pages");
    let whole = list(JobFilter::default(), &fields, false);
    let whole = table(world.ask_as(root(), None, whole));
    for row in 0..whole.rows {
        for field in fields {
            assert_eq!(paged.get(row, field), whole.get(row, field));
        }
    }
}

/// Indices that fill a line of their own.
fn odd(tasks: u64) -> String {
    let all: Vec<String> = (0..tasks).map(|n| (2 * n + 1).to_string()).collect();
    all.join(",")
}

#[test]
fn tasks_in_one_row_stay_in_one_row_over_pages() {
    let mut world = World::new(config(2, 2));
    for n in 0..40 {
        let mut job = held();
        job.name = format!("array{n}");
        world.try_submit(job, Some(&odd(20_000))).expect("an array");
    }
    let (table, count) = pages(&mut world, &[JobField::Ref, JobField::Name], true);
    assert!(count > 1, "{count} pages");
    assert_eq!(table.rows, 40);
    for row in 0..table.rows {
        assert_eq!(table.text(row, JobField::Name), format!("array{row}"));
        assert!(table.text(row, JobField::Ref).ends_with(",39999]"));
    }
}

#[test]
fn who_asks_for_no_pages_is_told_that_it_is_too_much() {
    let mut world = world(held());
    let reply = world.ask_as(
        root(),
        None,
        list(JobFilter::default(), JobField::ALL, false),
    );
    let Reply::Refused(refusal) = reply else {
        panic!("not refused");
    };
    assert_eq!(refusal.code, RefusalCode::TooMany);
    assert!(
        refusal.message.contains("more rows than one answer"),
        "{refusal}"
    );
}

#[test]
fn a_column_that_is_asked_for_often_is_there_once() {
    let mut world = World::new(config(2, 2));
    world.submit(held());
    let fields = vec![JobField::Command; 150];
    let reply = world.ask_as(root(), None, list(JobFilter::default(), &fields, false));
    assert_eq!(table(reply).fields, [JobField::Command]);
}

#[test]
fn a_list_goes_on_after_jobs_that_have_gone() {
    let mut world = World::new(config(2, 2));
    let first = world.submit(held());
    let last = world.submit(held());
    let filter = JobFilter {
        pages: true,
        after: Some(Cursor { part: 0, at: first }),
        ..JobFilter::default()
    };
    let page = table(world.ask_as(root(), None, list(filter, &[JobField::Id], true)));
    assert_eq!(page.rows, 1);
    assert_eq!(page.number(0, JobField::Id), Some(last as i64));
}
