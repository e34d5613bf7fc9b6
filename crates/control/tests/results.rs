//! What a request would leave behind is judged once, whether it is a submission, a change or
//! a job that is put back: nothing can be had in two steps that is refused in one.

#![allow(clippy::unwrap_used)]

mod world;

use cosy_model::api::{JobChange, Reply, Request};
use cosy_model::job::{FurtherComponent, MailRequest, ResourceRequest};
use cosy_model::reservation::*;
use cosy_model::*;
use world::*;

fn ann() -> User {
    user(1000, "u1000")
}

fn bob() -> User {
    user(1001, "u1001")
}

fn root() -> User {
    user(0, "root")
}

fn adm() -> User {
    user(500, "adm")
}

fn submit_as(world: &mut World, who: User, spec: JobSpec) -> Result<u64, Refusal> {
    let submission = api::Submission {
        spec,
        script: OsText::default(),
        array: None,
    };
    match world.ask_as(who, None, Request::Submit(Box::new(submission))) {
        Reply::Submitted { job, .. } => Ok(job.0),
        Reply::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

/// What a change of one job was refused with.
fn change_as(world: &mut World, who: User, id: u64, change: JobChange) -> Result<(), Refusal> {
    let request = Request::Change {
        filter: ids(&[id]),
        change: Box::new(change),
    };
    done(world.ask_as(who, None, request))
}

fn done(reply: Reply) -> Result<(), Refusal> {
    match reply {
        Reply::Done { changed: 1, .. } => Ok(()),
        Reply::Done { mut refused, .. } => Err(refused.remove(0).1),
        Reply::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

fn requeue_as(world: &mut World, who: User, id: u64) -> Result<(), Refusal> {
    let request = Request::Requeue {
        filter: ids(&[id]),
        hold: false,
        special: false,
    };
    done(world.ask_as(who, None, request))
}

fn release_as(world: &mut World, who: User, id: u64) -> Result<(), Refusal> {
    done(world.ask_as(who, None, Request::Release { filter: ids(&[id]) }))
}

fn hold_as(world: &mut World, who: User, id: u64) {
    let request = Request::Hold {
        filter: ids(&[id]),
        as_user: false,
    };
    done(world.ask_as(who, None, request)).unwrap();
}

/// One of two nodes for Ann, a minute from now, for an hour.
fn reserve(world: &mut World, sharing: Sharing) -> ReservationId {
    let ask = ReservationSpec {
        sharing,
        ..ReservationSpec::plain(
            whole_nodes(1),
            Span::from_secs(3600),
            StartChoice::At(world.now + Span::from_secs(60)),
        )
    };
    let request = Request::Reserve {
        ask: Box::new(ask),
        hold: false,
        job: None,
    };
    match world.ask_as(ann(), None, request) {
        Reply::Reserved { reservations, .. } => reservations[0].id,
        other => panic!("{other:?}"),
    }
}

fn reserving(nodes: u32) -> World {
    let mut config = config(nodes, 4);
    config.reservations.all_of = Vec::new();
    config.reservations.per_user.share_ppm = None;
    World::new(config)
}

fn held(name: &str) -> JobSpec {
    JobSpec {
        hold: true,
        ..spec(name)
    }
}

#[test]
fn nobody_changes_a_job_into_anothers_reservation() {
    let mut world = reserving(2);
    let id = reserve(&mut world, Sharing::default());
    let inside = JobSpec {
        reservation: Some(id),
        ..spec("inside")
    };
    let refused = submit_as(&mut world, bob(), inside).unwrap_err();
    assert_eq!(refused.code, RefusalCode::AccessDenied);
    let job = submit_as(&mut world, bob(), held("later")).unwrap();
    let change = || JobChange {
        reservation: Some(id),
        ..JobChange::default()
    };
    for who in [bob(), root()] {
        let refused = change_as(&mut world, who, job, change()).unwrap_err();
        assert_eq!(refused.code, RefusalCode::AccessDenied, "{refused}");
    }
    // It is the owner's own right, also where an administrator asks.
    let mine = submit_as(&mut world, ann(), held("mine")).unwrap();
    change_as(&mut world, root(), mine, change()).unwrap();
    // And what does not fit into it is refused as at submission.
    let long = JobChange {
        time_limit: Some(Span::from_secs(7200)),
        ..JobChange::default()
    };
    let refused = change_as(&mut world, ann(), mine, long).unwrap_err();
    assert_eq!(refused.code, RefusalCode::QueueLimit, "{refused}");
    let note = JobChange {
        comment: Some("still mine".into()),
        ..JobChange::default()
    };
    change_as(&mut world, ann(), mine, note).unwrap();
}

#[test]
fn a_job_comes_back_into_a_reservation_only_while_its_user_may() {
    let mut world = reserving(2);
    world.run_time = Span::from_secs(50);
    let sharing = Sharing {
        users: vec!["u1001".into()],
        ..Sharing::default()
    };
    let id = reserve(&mut world, sharing);
    let inside = |name| JobSpec {
        reservation: Some(id),
        requeue: true,
        ..spec(name)
    };
    let job = submit_as(&mut world, bob(), inside("inside")).unwrap();
    world.pass(62);
    assert!(world.queue().contains(":running"), "{}", world.queue());
    let unshare = Request::ShareReservation {
        id,
        change: Box::new(SharingChange {
            users: NamesChange {
                remove: vec!["u1001".into()],
                ..NamesChange::default()
            },
            ..SharingChange::default()
        }),
    };
    assert!(matches!(world.ask_as(ann(), None, unshare), Reply::Reserved { .. }));
    // It runs on, and is not put back by himself.
    let refused = requeue_as(&mut world, bob(), job).unwrap_err();
    assert_eq!(refused.code, RefusalCode::AccessDenied, "{refused}");
    assert!(world.queue().contains(":running"), "{}", world.queue());
    // When its node is lost it waits, and does not start inside again.
    let first = world
        .nodes
        .iter()
        .position(|node| !node.known.is_empty())
        .unwrap();
    world.nodes[first].boot += 1;
    world.nodes[first].known.clear();
    world.connect(first);
    world.deliver_all();
    world.pass(5);
    assert_eq!(world.queue(), format!("{job}:waiting/reservation_gone"));
    world.crash();
    for n in 0..2 {
        world.connect(n);
    }
    world.pass(5);
    assert_eq!(world.queue(), format!("{job}:waiting/reservation_gone"));
    // Shared again, it goes on when it is looked at.
    let change = JobChange {
        comment: Some("x".into()),
        ..JobChange::default()
    };
    let share = Request::ShareReservation {
        id,
        change: Box::new(SharingChange {
            users: NamesChange {
                add: vec!["u1001".into()],
                ..NamesChange::default()
            },
            ..SharingChange::default()
        }),
    };
    world.ask_as(ann(), None, share);
    change_as(&mut world, bob(), job, change).unwrap();
    world.pass(2);
    assert!(world.queue().contains(":running"), "{}", world.queue());
}

/// What no submission may have, no change may leave.
#[test]
fn changes_leave_nothing_that_submissions_may_not_have() {
    let mut world = World::new(config(1, 4));
    let job = world.submit(held("job"));
    let check = |world: &mut World, what: &str, change: JobChange, spec: JobSpec| {
        let submitted = submit_as(world, ann(), spec).unwrap_err();
        let changed = change_as(world, ann(), job, change).unwrap_err();
        assert_eq!(submitted.code, changed.code, "{what}: {changed}");
    };
    let mail = |to: &str| MailRequest {
        end: true,
        to: to.into(),
        ..MailRequest::default()
    };
    let long = "x".repeat(300);
    for to in ["-X", "a b", "a\nb", "a\u{1b}[2J", &long] {
        let change = JobChange {
            mail: Some(mail(to)),
            ..JobChange::default()
        };
        let spec = JobSpec {
            mail: mail(to),
            ..spec("x")
        };
        check(&mut world, to, change, spec);
    }
    let shares = MailRequest {
        limit_shares: vec![50; 1000],
        ..MailRequest::default()
    };
    let change = JobChange {
        mail: Some(shares.clone()),
        ..JobChange::default()
    };
    let spec_with = JobSpec {
        mail: shares,
        ..spec("x")
    };
    check(&mut world, "shares", change, spec_with);
    for (what, word) in [("long", long.as_str()), ("control", "a\nb")] {
        let word = || Some(word.to_owned());
        let changes: [(&str, JobChange, JobSpec); 3] = [
            (
                "account",
                JobChange {
                    account: word(),
                    ..JobChange::default()
                },
                JobSpec {
                    account: word(),
                    ..spec("x")
                },
            ),
            (
                "qos",
                JobChange {
                    qos: word(),
                    ..JobChange::default()
                },
                JobSpec {
                    qos: word(),
                    ..spec("x")
                },
            ),
            (
                "wckey",
                JobChange {
                    wckey: word(),
                    ..JobChange::default()
                },
                JobSpec {
                    wckey: word(),
                    ..spec("x")
                },
            ),
        ];
        for (field, change, spec) in changes {
            check(&mut world, &format!("{what} {field}"), change, spec);
        }
    }
    let names = vec![String::from("f"); 2000];
    let change = JobChange {
        features: Some(names.clone()),
        ..JobChange::default()
    };
    let mut many = spec("x");
    many.request.features = names;
    check(&mut world, "features", change, many);
    // A job that runs is judged alike.
    let running = world.submit(spec("runs"));
    world.deliver_all();
    let change = JobChange {
        mail: Some(mail("-X")),
        ..JobChange::default()
    };
    assert!(change_as(&mut world, ann(), running, change).is_err());
}

#[test]
fn only_administrators_end_an_administrators_hold() {
    let mut world = World::new(config(1, 4));
    let priority = |n| JobChange {
        priority: Some(n),
        ..JobChange::default()
    };
    let job = world.submit(held("job"));
    hold_as(&mut world, root(), job);
    assert_eq!(world.queue(), format!("{job}:waiting/held_by_admin"));
    // By its priority, by holding it himself, by giving it a priority.
    change_as(&mut world, ann(), job, priority(0)).unwrap();
    let refused = release_as(&mut world, ann(), job).unwrap_err();
    assert_eq!(refused.code, RefusalCode::Forbidden);
    hold_as(&mut world, ann(), job);
    assert!(release_as(&mut world, ann(), job).is_err());
    assert!(change_as(&mut world, ann(), job, priority(1)).is_err());
    assert_eq!(world.queue(), format!("{job}:waiting/held_by_admin"));
    // By cancelling it and putting it back.
    let cancel = cancels(ids(&[job]));
    done(world.ask_as(ann(), None, cancel)).unwrap();
    requeue_as(&mut world, ann(), job).unwrap();
    assert_eq!(world.queue(), format!("{job}:waiting/held_by_admin"));
    assert!(release_as(&mut world, ann(), job).is_err());
    release_as(&mut world, adm(), job).unwrap();
    assert!(!world.queue().contains("held"), "{}", world.queue());
}

fn two_queues(most: Option<u32>) -> World {
    let mut config = config(4, 4);
    config.queues[0].max_jobs_per_user = most;
    config.queues[0].max_time = Some(Span::from_secs(100));
    config.queues.push(QueueSpec {
        name: "other".into(),
        ..QueueSpec::default()
    });
    World::new(config)
}

#[test]
fn every_job_and_component_counts_in_its_queue() {
    let mut world = two_queues(Some(3));
    let component = |queue: &str| FurtherComponent {
        name: None,
        queue: Some(queue.into()),
        request: ResourceRequest::default(),
    };
    let several = |queue: &str, others: &[&str]| JobSpec {
        queue: Some(queue.into()),
        further_components: others.iter().map(|q| component(q)).collect(),
        ..held("parts")
    };
    // Four components in it, and with others four.
    let refused = submit_as(&mut world, ann(), several("main", &["main"; 3])).unwrap_err();
    assert_eq!(refused.code, RefusalCode::QueueLimit);
    let first = submit_as(&mut world, ann(), several("other", &["main"; 2])).unwrap();
    assert!(submit_as(&mut world, ann(), several("main", &["main"])).is_err());
    submit_as(&mut world, ann(), held("third")).unwrap();
    assert!(submit_as(&mut world, ann(), held("fourth")).is_err());
    submit_as(&mut world, bob(), held("his")).unwrap();
    // They leave with their job.
    let cancel = cancels(ids(&[first]));
    done(world.ask_as(ann(), None, cancel)).unwrap();
    for name in ["fourth", "fifth"] {
        submit_as(&mut world, ann(), held(name)).unwrap();
    }
    // A job that was cancelled counts anew when it is put back.
    let refused = requeue_as(&mut world, ann(), first).unwrap_err();
    assert_eq!(refused.code, RefusalCode::QueueLimit, "{refused}");
    // So does one that comes from another queue.
    let elsewhere = JobSpec {
        queue: Some("other".into()),
        ..held("elsewhere")
    };
    let job = submit_as(&mut world, ann(), elsewhere).unwrap();
    let change = JobChange {
        queue: Some("main".into()),
        ..JobChange::default()
    };
    let refused = change_as(&mut world, ann(), job, change).unwrap_err();
    assert_eq!(refused.code, RefusalCode::QueueLimit);
}

#[test]
fn a_job_beyond_its_queue_counts_there() {
    let mut world = two_queues(Some(2));
    let beyond = |name: &str| JobSpec {
        dialect: Dialect::Slurm,
        time_limit: Some(Span::from_secs(1000)),
        ..spec(name)
    };
    let mut known = Vec::new();
    for n in 0..4 {
        known.extend(submit_as(&mut world, ann(), beyond(&format!("b{n}"))));
    }
    assert_eq!(known.len(), 2);
    for id in known {
        let change = JobChange {
            time_limit: Some(Span::from_secs(50)),
            ..JobChange::default()
        };
        change_as(&mut world, ann(), id, change).unwrap();
    }
    world.crash();
    for n in 0..4 {
        world.connect(n);
    }
    assert!(submit_as(&mut world, ann(), held("third")).is_err());
}

#[test]
fn one_user_has_only_so_many_jobs() {
    let mut config = config(1, 4);
    config.policy.max_jobs_per_user = 5;
    let mut world = World::new(config);
    let array = |world: &mut World| world.try_submit(held("array"), Some("1-4"));
    array(&mut world).unwrap();
    let refused = array(&mut world).unwrap_err();
    assert_eq!(refused.code, RefusalCode::TooMany);
    assert_eq!(
        refused.message,
        "user u1000 has 4 jobs that wait or run and 4 would come: one user has at most 5 here; wait until some have ended, or make arrays smaller"
    );
    world.submit(held("fifth"));
    assert!(submit_as(&mut world, ann(), held("sixth")).is_err());
    world.crash();
    assert!(submit_as(&mut world, ann(), held("sixth")).is_err());
    // Others and administrators are not concerned.
    submit_as(&mut world, bob(), held("his")).unwrap();
    for n in 0..10 {
        submit_as(&mut world, adm(), held(&format!("a{n}"))).unwrap();
    }
}
