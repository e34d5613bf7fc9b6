//! Lists of jobs: in pieces of bounded work, each with others between them, in pages of
//! bounded size, and the same to the user as one whole list.

mod world;

use cosy_control::*;
use cosy_model::api::{Cursor, JobField, JobFilter, JobRef, Reply, Request, Table};
use cosy_model::*;
use world::*;

const TASKS: u64 = 25_000;
/// Tasks with texts of their own that fill some answers.
const WIDE: u64 = 3_000;

fn world(spec: JobSpec, tasks: u64) -> World {
    let mut world = World::new(config(2, 2));
    let array = format!("1-{tasks}");
    world.try_submit(spec, Some(&array)).expect("an array");
    world
}

/// Files with long names, each job its own.
fn wide() -> JobSpec {
    let file = || Some(OsText(format!("/{}/%j", "x".repeat(3900)).into_bytes()));
    JobSpec {
        stdout: file(),
        stderr: file(),
        ..held()
    }
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
    let mut world = world(held(), TASKS);
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
    // 5 pieces look at the jobs; a piece makes about a thousand rows.
    assert!((20..60).contains(&turns), "{turns} turns");
}

#[test]
fn one_turn_has_one_piece_however_many_ask() {
    let mut world = world(held(), TASKS);
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
    assert!(turns >= 20 * TASKS / 5_000, "{turns}");
}

#[test]
fn a_long_list_comes_in_pages_and_each_job_is_in_it_once() {
    let mut world = world(wide(), WIDE);
    let fields = [JobField::ArrayTask, JobField::Stdout, JobField::Stderr];
    let (paged, count) = pages(&mut world, &fields, false);
    assert!(count > 3 && paged.rows as u64 == WIDE, "{count} pages");
    for row in 0..paged.rows {
        let task = paged.number(row, JobField::ArrayTask);
        assert_eq!(task, i64::try_from(row + 1).ok());
    }
    // Who asks for no pages is told that it is too much.
    let whole = list(JobFilter::default(), &fields, false);
    let Reply::Refused(refusal) = world.ask_as(root(), None, whole) else {
        panic!("not refused");
    };
    assert_eq!(refusal.code, RefusalCode::TooMany);
    assert!(refusal.message.contains("more rows than one answer"), "{refusal}");
}

#[test]
fn tasks_in_one_row_stay_in_one_row_over_pages() {
    let mut world = World::new(config(2, 2));
    for n in 0..700 {
        let mut job = wide();
        job.name = format!("array{n}");
        world.try_submit(job, Some("1-2")).expect("an array");
    }
    let fields = [
        JobField::Name,
        JobField::Ref,
        JobField::Stdout,
        JobField::Stderr,
    ];
    let (table, count) = pages(&mut world, &fields, true);
    assert!(count > 1, "{count} pages");
    assert_eq!(table.rows, 700);
    for row in 0..table.rows {
        assert_eq!(table.text(row, JobField::Name), format!("array{row}"));
        assert!(table.text(row, JobField::Ref).ends_with("_[1-2]"));
    }
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

#[test]
fn a_list_by_pages_has_as_many_rows_as_are_wanted() {
    let mut world = World::new(config(2, 2));
    let jobs: Vec<u64> = (0..5).map(|_| world.submit(held())).collect();
    let mut page = |most, after, pages| {
        let filter = JobFilter {
            pages,
            most,
            after,
            ..JobFilter::default()
        };
        let page = table(world.ask_as(root(), None, list(filter, &[JobField::Id], true)));
        let ids = (0..page.rows).filter_map(|row| page.number(row, JobField::Id));
        let ids: Vec<u64> = ids.map(i64::unsigned_abs).collect();
        (ids, page.more)
    };
    let (first, more) = page(Some(2), None, true);
    assert_eq!((first.as_slice(), more.is_some()), (&jobs[..2], true));
    assert_eq!(page(Some(2), more, true).0, jobs[2..4]);
    assert_eq!(page(Some(5), None, true), (jobs.clone(), None));
    assert_eq!(page(Some(0), None, true), (Vec::new(), None));
    // Who does not go on has all of it, or is refused.
    assert_eq!(page(Some(2), None, false), (jobs, None));
}

#[test]
fn what_commands_of_one_user_wait_for_has_a_most() {
    let mut world = World::new(config(2, 2));
    world.unchecked = true;
    let array = world.try_submit(held(), Some("1-50000")).expect("an array");
    let wait = |world: &mut World| {
        let jobs = ids(&[array]).ids;
        let client = world.ask_on(user(1000, "u1000"), None, Request::Wait { jobs });
        world.replies.remove(&client)
    };
    let most = limits::WAITED_JOBS_OF_USER / 50_000;
    assert!((0..most).all(|_| wait(&mut world).is_none()));
    let Some(Reply::Refused(refusal)) = wait(&mut world) else {
        panic!("not refused");
    };
    assert!(refusal.message.contains("wait for 1000000 jobs"), "{refusal}");
}

/// A job that lives when live jobs are looked at and has ended when ended ones are is told once.
#[test]
fn a_job_that_ends_while_the_list_is_made_is_in_it_once() {
    // One of the tasks, or all of them.
    for (fold, task, want) in [
        (false, Some(3), 3),
        (true, Some(3), 1),
        (false, None, 3),
        (true, None, 3),
    ] {
        let mut world = World::new(config(2, 2));
        let array = world.try_submit(held(), Some("1-3")).expect("an array");
        let request = list(ids(&[array]), &[JobField::Id, JobField::State], fold);
        let listing = asked(&mut world, request);
        // Live jobs are looked at by now, ended ones are not all.
        assert!(world.controller.is_listing());
        let last = JobRef {
            job: JobId(array),
            task,
        };
        let filter = JobFilter {
            ids: vec![last],
            ..JobFilter::default()
        };
        asked(&mut world, cancels(filter));
        let mut told = None;
        while told.is_none() {
            for effect in world.controller.settle(world.now).effects {
                if let Effect::Reply { client, reply } = effect
                    && client == listing
                {
                    told = Some(table(reply));
                }
            }
        }
        let told = told.expect("a list");
        assert_eq!(told.rows, want, "{fold} {task:?}");
        if task.is_none() {
            let ids = (0..told.rows).filter_map(|row| told.number(row, JobField::Id));
            assert!(ids.eq((0..3).map(|n| (array + n) as i64)), "in order");
        }
        let after = list(ids(&[array]), &[JobField::State], false);
        let after = table(world.ask_as(root(), None, after));
        let states = (0..after.rows).map(|row| after.text(row, JobField::State));
        let cancelled = states.filter(|state| *state == "cancelled").count();
        assert_eq!(cancelled, task.map_or(3, |_| 1));
    }
}

/// Plain jobs, arrays and tasks that differ from the others, in turn: pages tell what one list would.
#[test]
fn pages_of_mixed_jobs_are_one_list() {
    let mut world = World::new(config(2, 2));
    for n in 0..240 {
        world.submit(wide());
        let array = world
            .try_submit(wide(), Some("1,3,2"))
            .expect("an array of three");
        if n % 3 == 0 {
            let target = api::JobRef {
                job: JobId(array),
                task: Some(2),
            };
            let filter = JobFilter {
                ids: vec![target],
                ..JobFilter::default()
            };
            world.ask_as(root(), None, Request::Release { filter });
        }
    }
    let fields = [
        JobField::Id,
        JobField::Ref,
        JobField::Stdout,
        JobField::Stderr,
    ];
    for fold in [true, false] {
        let whole = list(JobFilter::default(), &fields, fold);
        let whole = table(world.ask_as(root(), None, whole));
        let (paged, count) = pages(&mut world, &fields, fold);
        assert!(count > 1, "{count} pages");
        assert_eq!(paged.rows, whole.rows);
        for row in 0..whole.rows {
            let told = |table: &Table| {
                let id = table.number(row, JobField::Id);
                (id, table.text(row, JobField::Ref).to_owned())
            };
            assert_eq!(told(&paged), told(&whole), "row {row}");
        }
    }
}

/// Few jobs that are named are each asked for their places, of many all are put in order.
#[test]
fn named_jobs_have_the_places_that_they_have_among_all() {
    let mut world = World::new(config(2, 2));
    let mut jobs: Vec<u64> = Vec::new();
    for n in 0..90_i64 {
        let nice = n * 37 % 11;
        jobs.push(world.submit(JobSpec {
            nice,
            ..spec("plain")
        }));
    }
    let array = world.try_submit(spec("array"), Some("1-80"));
    jobs.push(array.expect("an array"));
    let check = |world: &mut World| {
        let fields = [JobField::Id, JobField::Place];
        let places = |world: &mut World, filter| {
            let table = table(world.ask_as(root(), None, list(filter, &fields, false)));
            let place = |row| {
                let id = table.number(row, JobField::Id)?;
                Some((id, table.number(row, JobField::Place)))
            };
            (0..table.rows).filter_map(place).collect::<Vec<_>>()
        };
        let all = places(world, JobFilter::default());
        let placed = all.iter().filter(|(_, place)| place.is_some()).count();
        assert!(placed > 100, "{placed} of {}", all.len());
        for named in [1, 7, 64, 91] {
            for jobs in jobs.chunks(named) {
                let told = places(world, ids(jobs));
                assert!(told.iter().all(|one| all.contains(one)), "{told:?} of {all:?}");
            }
        }
    };
    check(&mut world);
    // One of the first goes, one comes, one is held.
    world.ask(cancels(ids(&jobs[10..11])));
    world.submit(spec("late"));
    let hold = Request::Hold {
        filter: ids(&jobs[20..21]),
        as_user: false,
    };
    world.ask_as(root(), None, hold);
    check(&mut world);
    // Jobs of a closed queue are in order with the others all the same.
    let close = Request::QueueControl {
        queue: "main".to_owned(),
        state: QueueState::Stopped,
    };
    world.ask_as(root(), None, close);
    check(&mut world);
}
