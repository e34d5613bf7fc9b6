//! One request that cancels many jobs: in pieces, with others between them, and answered
//! once.

mod world;

use cosy_control::*;
use cosy_model::api::{JobFilter, Reply, Request};
use cosy_model::*;
use world::*;

const JOBS: u64 = 1200;
const KEY: [u8; 16] = [7; 16];

fn me() -> User {
    user(1000, "u1000")
}

fn cancel_mine() -> Request {
    Request::Cancel {
        filter: JobFilter {
            users: vec!["1000".into()],
            ..JobFilter::default()
        },
        signal: None,
        script_only: false,
        steps_only: false,
    }
}

/// Two nodes with two cores each, and tasks of one core.
fn world(spec: JobSpec) -> World {
    let mut world = World::new(config(2, 2));
    let submitted = world.try_submit(spec, Some(&format!("1-{JOBS}")));
    submitted.expect("an array that fits");
    world.deliver_all();
    world
}

fn held() -> JobSpec {
    JobSpec {
        hold: true,
        ..spec("a")
    }
}

fn changed(reply: &Reply) -> u64 {
    match reply {
        Reply::Done { changed, refused } if refused.is_empty() => *changed,
        other => panic!("{other:?}"),
    }
}

fn ended(world: &World) -> u64 {
    world.store.ends().len() as u64
}

#[test]
fn they_are_cancelled_in_pieces_and_answered_once() {
    let mut world = world(held());
    let before = world.commits;
    let reply = world.ask_as(me(), Some(KEY), cancel_mine());
    assert_eq!((changed(&reply), ended(&world)), (JOBS, JOBS));
    assert_eq!(world.commits - before, 3);
    let again = world.ask_as(me(), Some(KEY), cancel_mine());
    assert_eq!(again, reply);
}

#[test]
fn none_starts_because_another_has_ended() {
    let mut world = world(spec("a"));
    // Ends come while others of the same request are still to be cancelled.
    world.quick_nodes = true;
    let starts = |world: &World| -> usize { world.nodes.iter().map(|n| n.starts.len()).sum() };
    assert_eq!(starts(&world), 4);
    let reply = world.ask_as(me(), None, cancel_mine());
    world.deliver_all();
    assert_eq!((changed(&reply), ended(&world)), (JOBS, JOBS));
    assert_eq!(starts(&world), 4);
}

#[test]
fn a_controller_that_dies_in_between_is_asked_again() {
    let mut world = world(held());
    world.dies = Some((1, Death::AfterCommit));
    let lost = world.ask_on(me(), Some(KEY), cancel_mine());
    assert_eq!(world.deaths, 1);
    assert!(!world.replies.contains_key(&lost));
    let done = ended(&world);
    assert!(0 < done && done < JOBS, "{done}");
    let reply = world.ask_as(me(), Some(KEY), cancel_mine());
    assert_eq!((changed(&reply), ended(&world)), (JOBS - done, JOBS));
}

/// What is answered in the next batch, and whether that is to be told when it is durable.
fn batch(world: &mut World) -> (Vec<(ClientId, Reply)>, bool) {
    let batch = world.controller.settle(world.now);
    let tell = |e: &Effect| matches!(e, Effect::TellDurable);
    let told = batch.effects.iter().any(tell);
    let replies = batch.effects.into_iter().filter_map(|e| match e {
        Effect::Reply { client, reply } => Some((client, reply)),
        _ => None,
    });
    (replies.collect(), told)
}

#[test]
fn others_have_their_turn_between_two_pieces() {
    let mut world = world(held());
    let ask = |world: &mut World, client, key, request| {
        let caller = Caller::known(me());
        let asked = Event::Asked {
            client: ClientId(client),
            caller: Box::new(caller),
            key,
            request,
            facts: Facts::default(),
        };
        world.controller.handle(world.now, asked);
    };
    ask(&mut world, 901, Some(KEY), cancel_mine());
    assert_eq!(batch(&mut world), (Vec::new(), true));
    assert!(world.controller.live_jobs() > 0);
    // Nothing more is decided before that is durable.
    let left = world.controller.live_jobs();
    ask(&mut world, 902, None, Request::Ping);
    let (replies, told) = batch(&mut world);
    assert!(matches!(replies.as_slice(), [(ClientId(902), Reply::Pong { .. })]));
    assert_eq!((told, world.controller.live_jobs()), (false, left));
    // Asked again meanwhile: one answer for both.
    ask(&mut world, 903, Some(KEY), cancel_mine());
    let mut answers = Vec::new();
    while answers.is_empty() {
        world.controller.handle(world.now, Event::BecameDurable);
        answers = batch(&mut world).0;
    }
    let clients: Vec<u64> = answers.iter().map(|(client, _)| client.0).collect();
    assert_eq!(clients, [901, 903]);
    assert!(answers.iter().all(|(_, reply)| changed(reply) == JOBS));
    assert_eq!(world.controller.live_jobs(), 0);
}
