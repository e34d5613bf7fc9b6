//! What is kept for who asks again: nothing where nothing has changed, and no more of it than
//! has room.

#![allow(clippy::unwrap_used)]

mod world;

use cosy_model::api::{Reply, Request};
use cosy_model::*;
use world::*;

fn key(n: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&n.to_be_bytes());
    key
}

fn hold(named: &[u64]) -> Request {
    Request::Hold {
        filter: ids(named),
        as_user: false,
    }
}

fn ask(world: &mut World, n: u64, request: Request) -> Reply {
    world.ask_as(user(1000, "u1000"), Some(key(n)), request)
}

#[test]
fn nothing_is_kept_where_nothing_was_changed() {
    let mut world = World::new(config(1, 4));
    let missing: Vec<u64> = (1000..3000).collect();
    for n in 0..20 {
        let reply = ask(&mut world, n, hold(&missing));
        let Reply::Done { changed, refused } = reply else {
            panic!("{reply:?}");
        };
        assert_eq!((changed, refused.len()), (0, limits::REFUSALS + 1));
        assert_eq!(refused.last().unwrap().0, "1800 more");
    }
    assert!(world.store.answers.is_empty());
}

#[test]
fn what_is_kept_is_short_and_the_same_after_a_restart() {
    let mut world = World::new(config(1, 4));
    let job = world.submit(JobSpec {
        begin: Some(world.now + Span::from_secs(3600)),
        ..spec("later")
    });
    let mut named: Vec<u64> = (1000..3000).collect();
    named.push(job);
    let first = ask(&mut world, 1, hold(&named));
    assert!(matches!(&first, Reply::Done { changed: 1, refused } if refused.len() == 201));
    assert_eq!(world.store.answers.len(), 1);
    assert_eq!(ask(&mut world, 1, hold(&named)), first);
    world.crash();
    assert_eq!(ask(&mut world, 1, hold(&named)), first);
}

/// One user's oldest answers go, in memory and in the store; nobody else's.
#[test]
fn one_user_keeps_only_so_many() {
    let mut world = World::new(config(1, 4));
    world.ask_as(user(1001, "u1001"), Some(key(0)), submit());
    let most = limits::ANSWERS_OF_USER as u64;
    let many = (0..most + 5).map(|n| {
        let at = Time::from_secs(n as i64);
        let reply = Reply::Submitted {
            job: JobId(n),
            tasks: 0,
            note: String::new(),
        };
        ((Uid(1000), key(n)), (at, reply))
    });
    world.store.answers.extend(many);
    world.crash();
    world.settle();
    let mine = |world: &World| {
        let kept = world.store.answers.keys();
        kept.filter(|(uid, _)| *uid == Uid(1000)).count()
    };
    let kept = mine(&world);
    assert!(kept <= limits::ANSWERS_OF_USER, "{kept}");
    assert!(!world.store.answers.contains_key(&(Uid(1000), key(0))));
    assert!(world.store.answers.contains_key(&(Uid(1001), key(0))));
    let before = world.controller.live_jobs();
    ask(&mut world, most + 100, submit());
    assert_eq!(mine(&world), kept);
    // The last are known, also after a restart; the first would be done again.
    world.crash();
    for n in [most + 100, most + 4] {
        ask(&mut world, n, submit());
    }
    assert_eq!(world.controller.live_jobs(), before + 1);
    ask(&mut world, 0, submit());
    assert_eq!(world.controller.live_jobs(), before + 2);
}

fn submit() -> Request {
    Request::Submit(Box::new(api::Submission {
        spec: JobSpec {
            hold: true,
            ..spec("held")
        },
        script: OsText::default(),
        array: None,
    }))
}
